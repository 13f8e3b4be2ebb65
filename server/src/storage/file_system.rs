//! The file system of the machine.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use super::{FILE_BYTES_MAX, Storage, folder_of};

/// Links that are followed one after the other: as many as Linux follows.
const LINKS_MAX: usize = 40;

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileSystem;

impl Storage for FileSystem {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            match fs::symlink_metadata(&path) {
                Ok(data) if data.is_symlink() => {
                    refuse_planted(&path, &data)?;
                    path = folder_of(&path).join(fs::read_link(&path)?);
                }
                Err(error) if !is_absent(&error) => return Err(error),
                _ => return Ok(path),
            }
        }
        Err(io::Error::new(ErrorKind::InvalidInput, format!("more than {LINKS_MAX} symbolic links, one to the next")))
    }

    fn read_raw(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(path) {
            Err(error) if is_absent(&error) => return Ok(None),
            other => other?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let message = format!("longer than FILE_BYTES_MAX {FILE_BYTES_MAX}");
            return Err(io::Error::new(ErrorKind::FileTooLarge, message));
        }
        Ok(Some(bytes))
    }

    fn check_writable(&self, path: &Path) -> io::Result<()> {
        if fs::exists(path)? && access(path).is_ok() {
            return Ok(());
        }
        // The folder that is there: the others are created in it.
        let mut folder = folder_of(path);
        while !fs::exists(folder).unwrap_or(true) {
            folder = folder_of(folder);
        }
        if !fs::metadata(folder)?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        access(folder)
    }

    fn write_synced(&self, path: &Path, bytes: &[u8], like: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // `create_new` does not follow a link that somebody laid at the known name.
        options.write(true).create_new(true);
        options.mode(0o600);
        let mut file = options.open(path)?;
        if let Ok(data) = fs::metadata(like) {
            give_owner(&file, &data)?;
            file.set_permissions(data.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn write_at_synced(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, offset)?;
        file.sync_all()
    }

    fn truncate_synced(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(length)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            // A read-only file system refuses before it looks whether there is such a file.
            Err(_) if fs::symlink_metadata(path).is_err_and(|error| is_absent(&error)) => Ok(()),
            other => other,
        }
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let parent = folder_of(folder);
        self.create_folder(parent)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(ErrorKind::NotADirectory.into()),
            Err(error) => Err(error),
            Ok(()) => self.sync_folder(parent),
        }
    }
}

/// No file of this name, also when what should be its folder is a file.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Refuses a link that a stranger may have laid, as Linux does with `fs.protected_symlinks`.
fn refuse_planted(link: &Path, data: &Metadata) -> io::Result<()> {
    const WRITABLE_BY_ALL: u32 = 0o002;
    let folder = fs::metadata(folder_of(link))?;
    let trusted = [folder.uid(), rustix::process::geteuid().as_raw()];
    if folder.mode() & WRITABLE_BY_ALL != 0 && !trusted.contains(&data.uid()) {
        let message = format!("it is a symbolic link of user {} in a folder that every user may write", data.uid());
        return Err(io::Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// Gives `file` the owner and the group in `like`, unless it has them.
fn give_owner(file: &File, like: &Metadata) -> io::Result<()> {
    let data = file.metadata()?;
    if (data.uid(), data.gid()) == (like.uid(), like.gid()) {
        return Ok(());
    }
    fchown(file, Some(like.uid()), Some(like.gid()))
}

/// Whether this process may write the file or folder.
fn access(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}
