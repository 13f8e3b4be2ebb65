//! Files that survive a crash: replaced as a whole, acknowledged only when they are on the disk.
//!
//! [`replace`] is the one way in which the server writes a file. What it needs of a file system is the trait
//! [`Storage`], so that the tests can cut the power after every step.

#[cfg(test)]
pub(crate) mod crash;

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The longest file that is read, in bytes. Our own files are kept far below; this stops a wrong path
/// (a device, a log) from filling the memory.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Replaces the content of `path` by `bytes` and keeps the previous content, unless empty, as `path.bak`.
///
/// When this returns `Ok`, the new content is on the disk. When it returns an error or the machine stops in between,
/// the file has the old or the new content as a whole. Missing folders are created. A new file belongs to its
/// owner alone (0600); a replaced file keeps its permissions. Only one caller may work on a path at a time.
///
/// Cost: O(n) and up to three syncs; blocks on the disk.
///
/// # Errors
///
/// The step that failed. A symbolic link is refused: it would be replaced by a file, and its target left stale.
pub fn replace(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let result = replace_in_steps(storage, path, bytes);
    if result.is_err() {
        // The error of the step is the one to report; what stays behind here is removed at the next attempt.
        let _ = remove_temporaries(storage, path);
    }
    result
}

/// Removes what an interrupted [`replace`] of `path` left behind.
///
/// # Errors
///
/// A file is there and cannot be removed.
pub fn remove_temporaries(storage: &dyn Storage, path: &Path) -> Result<(), StorageError> {
    for temporary in [with_suffix(path, ".tmp"), with_suffix(path, ".bak.tmp")] {
        storage.remove(&temporary).map_err(failed("remove", &temporary))?;
    }
    Ok(())
}

/// The path of the previous content of `path`.
pub fn backup_path(path: &Path) -> PathBuf {
    with_suffix(path, ".bak")
}

/// `path` with `suffix` behind its last letter.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The folder that holds `path`.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether every user of the machine may replace the files of `folder`.
pub fn is_world_writable(folder: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        const STICKY: u32 = 0o1000;
        fs::metadata(folder).is_ok_and(|data| data.permissions().mode() & (STICKY | 0o002) == 0o002)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        false
    }
}

/// A step on a file that did not work.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {path}: {source}", path = path.display())]
pub struct StorageError {
    /// What was tried.
    pub step: &'static str,
    /// On which file or folder.
    pub path: PathBuf,
    /// The reason of the operating system.
    pub source: io::Error,
}

/// What is needed of a file system. Every call blocks.
pub trait Storage: Debug + Send + Sync {
    /// The content of `path`; `None` when there is no such file.
    ///
    /// # Errors
    ///
    /// As the system says; also when the file is longer than [`FILE_BYTES_MAX`].
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// Creates `path`, which must not exist, writes `bytes` and returns when they are on the disk. It gets the
    /// permissions of `like`, or 0600 when there is no such file. The entry in the folder may still be lost.
    ///
    /// # Errors
    ///
    /// As the system says; part of the file may be there.
    fn write_synced(&self, path: &Path, bytes: &[u8], like: &Path) -> io::Result<()>;

    /// Renames `from` to `to` in one step, replacing `to`.
    ///
    /// # Errors
    ///
    /// As the system says; nothing is changed.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes `path`; fine when there is no such file.
    ///
    /// # Errors
    ///
    /// As the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns when all names in `folder` are on the disk.
    ///
    /// # Errors
    ///
    /// As the system says; which names are on the disk is unknown then.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Creates `folder` and its parents, on the disk; fine when they are there.
    ///
    /// # Errors
    ///
    /// As the system says.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Refuses a `path` that is a symbolic link.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] for a link, else as the system says.
    fn refuse_link(&self, path: &Path) -> io::Result<()>;
}

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileSystem;

impl Storage for FileSystem {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
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

    fn write_synced(&self, path: &Path, bytes: &[u8], like: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // `create_new` does not follow a link that somebody laid at the known name.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        if let Ok(data) = fs::metadata(like) {
            file.set_permissions(data.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // Elsewhere a folder cannot be opened, and a rename is as durable as it gets.
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let parent = folder_of(folder);
        self.create_folder(parent)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists || !folder.is_dir() => Err(error),
            _ => self.sync_folder(parent),
        }
    }

    fn refuse_link(&self, path: &Path) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            Ok(data) if data.file_type().is_symlink() => {
                Err(io::Error::new(ErrorKind::InvalidInput, "it is a symbolic link; name its target instead"))
            }
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn replace_in_steps(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let folder = folder_of(path);
    let temporary = with_suffix(path, ".tmp");
    storage.refuse_link(path).map_err(failed("replace", path))?;
    storage.create_folder(folder).map_err(failed("create", folder))?;
    remove_temporaries(storage, path)?;
    storage.write_synced(&temporary, bytes, path).map_err(failed("write", &temporary))?;
    keep_backup(storage, path)?;
    storage.rename(&temporary, path).map_err(failed("replace", path))?;
    storage.sync_folder(folder).map_err(failed("sync", folder))
}

/// Copies instead of linking, because not every file system has links. The folder is synced by the caller: until
/// then the old backup may come back, which is as good.
fn keep_backup(storage: &dyn Storage, path: &Path) -> Result<(), StorageError> {
    let previous = storage.read(path).map_err(failed("read", path))?.unwrap_or_default();
    if previous.is_empty() {
        return Ok(());
    }
    let temporary = with_suffix(path, ".bak.tmp");
    let backup = backup_path(path);
    storage.write_synced(&temporary, &previous, path).map_err(failed("write", &temporary))?;
    storage.rename(&temporary, &backup).map_err(failed("replace", &backup))
}

/// Names the step and the path of an error.
pub(crate) fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    move |source| StorageError { step, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_folders_and_keeps_the_previous_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/file.json");
        for content in ["one", "two", "three"] {
            replace(&FileSystem, &path, content.as_bytes()).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read(backup_path(&path)).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder_of(&path)).unwrap().count(), 2, "no temporary file stays");
    }

    #[test]
    fn an_empty_file_is_no_backup() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "").unwrap();
        fs::write(backup_path(&path), "good").unwrap();
        replace(&FileSystem, &path, b"new").unwrap();
        assert_eq!(fs::read(backup_path(&path)).unwrap(), b"good");
    }

    #[test]
    fn a_stray_temporary_file_does_not_hinder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(with_suffix(&path, ".tmp"), "half").unwrap();
        fs::write(with_suffix(&path, ".bak.tmp"), "half").unwrap();
        replace(&FileSystem, &path, b"new").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn new_files_are_private_and_replaced_files_keep_their_mode() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        replace(&FileSystem, &path, b"1").unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&FileSystem, &path, b"2").unwrap();
        assert_eq!((mode(&path), mode(&backup_path(&path))), (0o640, 0o640));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let error = replace(&FileSystem, &link, b"new").unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
        // A link laid where the temporary file goes is removed, not followed.
        let path = folder.path().join("f");
        std::os::unix::fs::symlink(&target, with_suffix(&path, ".tmp")).unwrap();
        replace(&FileSystem, &path, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"kept");
    }

    #[cfg(unix)]
    #[test]
    fn sees_a_folder_that_is_open_to_all() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        for (mode, open) in [(0o777, true), (0o1777, false), (0o755, false)] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_world_writable(folder.path()), open, "{mode:o}");
        }
    }

    #[test]
    fn a_file_of_any_length_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert_eq!(FileSystem.read(&path).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn names_the_step_and_the_path_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        let error = replace(&FileSystem, &file.join("below"), b"new").unwrap_err();
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"x");
    }
}
