//! Files that survive a crash: replaced as a whole, acknowledged only when they are on the disk.
//!
//! [`replace`] is the one way in which the server writes a file. What it needs of a file system is the trait
//! [`Storage`], so that the tests can cut the power after every step.
//!
//! A file is replaced by a new one of the same name, owner and mode. Where that cannot be (the file is a mount of its
//! own, its folder cannot be written, its owner cannot be given to a new file), it is written in place, behind a record
//! in the file itself.

#[cfg(test)]
pub(crate) mod crash;
mod file_system;
mod in_place;

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use self::file_system::FileSystem;

/// The longest file that is read, in bytes. Our own files are kept far below; this stops a wrong path
/// (a device, a log) from filling the memory.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// Replaces the content of `path`, or of the file that this link leads to, by `bytes`. The previous content, unless
/// blank, is kept as `.bak` beside the file, where a file of that name may be made.
///
/// When this returns `Ok`, the new content is on the disk. When it returns an error or the machine stops in between,
/// [`Storage::read`] finds the old or the new content as a whole. Missing folders are created. A new file belongs to
/// its owner alone (0600); a replaced file keeps its owner and mode. Only one caller may work on a path at a time.
///
/// Cost: O(n) and up to four syncs; blocks on the disk.
///
/// # Errors
///
/// The step that failed; see [`StorageError::is_unwritable`].
pub fn replace(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let path = &resolve(storage, path)?;
    let previous = storage.read(path).map_err(failed("read", path))?;
    let folder = folder_of(path);
    let Err(error) = swap(storage, path, previous.as_deref(), bytes) else {
        return storage.sync_folder(folder).map_err(failed("sync", folder));
    };
    // The error of the step is the one to report; what stays behind here is removed at the next attempt. The sync is
    // for a backup that was made before the step failed.
    let _ =
        remove_temporaries(storage, path).and_then(|()| storage.sync_folder(folder).map_err(failed("sync", folder)));
    if previous.is_some() && error.is_of_the_name() { in_place::write(storage, path, bytes) } else { Err(error) }
}

/// Removes what an interrupted [`replace`] of `path` left beside it, and completes one that was interrupted in place.
/// `path` is no link.
///
/// # Errors
///
/// The step that failed.
pub fn tidy(storage: &dyn Storage, path: &Path) -> Result<(), StorageError> {
    remove_temporaries(storage, path)?;
    in_place::settle(storage, path).map(drop)
}

/// The file that `path` leads to. It need not exist.
///
/// # Errors
///
/// [`Storage::resolve`] says why not.
pub fn resolve(storage: &dyn Storage, path: &Path) -> Result<PathBuf, StorageError> {
    storage.resolve(path).map_err(failed("follow", path))
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
    const STICKY: u32 = 0o1000;
    fs::metadata(folder).is_ok_and(|data| data.permissions().mode() & (STICKY | 0o002) == 0o002)
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

impl StorageError {
    /// Whether the file cannot be written at all: it is on a read-only file system, or we lack the permission. Another
    /// attempt fails in the same way, until the operator changes that. A full or broken disk is something else.
    pub fn is_unwritable(&self) -> bool {
        is_unwritable(&self.source)
    }

    /// Whether the file itself may be writable though its name cannot be given to another one.
    fn is_of_the_name(&self) -> bool {
        self.is_unwritable() || matches!(self.source.kind(), ErrorKind::ResourceBusy | ErrorKind::CrossesDevices)
    }
}

fn is_unwritable(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory)
}

/// What is needed of a file system. Every call blocks.
pub trait Storage: Debug + Send + Sync {
    /// The file that `path` leads to when links are followed; it need not exist.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] for a link that another user may have laid: it is in a folder that everybody may
    /// write, and belongs neither to us nor to the owner of the folder. Else as the system says.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// The content of `path` as the last [`replace`] has left it; `None` when there is no such file.
    ///
    /// # Errors
    ///
    /// As the system says; also when the file is longer than [`FILE_BYTES_MAX`].
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(self.read_raw(path)?.map(in_place::settled))
    }

    /// The bytes of `path`, with what an interrupted [`replace`] may have left in them.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    fn read_raw(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// Says whether [`replace`] may work on `path`, as far as that can be seen without changing anything. The path is
    /// no link.
    ///
    /// # Errors
    ///
    /// Why neither the file nor its folder, or the one in which that would be created, can be written.
    fn check_writable(&self, path: &Path) -> io::Result<()>;

    /// Creates `path`, which must not exist, writes `bytes` and returns when they are on the disk. It gets owner and
    /// mode of `like`, or is ours alone (0600) when there is no such file. The entry in the folder may still be lost.
    ///
    /// # Errors
    ///
    /// As the system says, also when the owner cannot be given; part of the file may be there.
    fn write_synced(&self, path: &Path, bytes: &[u8], like: &Path) -> io::Result<()>;

    /// Writes `bytes` at `offset` of the file `path`, which exists, and returns when they are on the disk. What was
    /// never written before the offset is zero.
    ///
    /// # Errors
    ///
    /// As the system says; any part may be written.
    fn write_at_synced(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file `path` to `length` bytes and returns when that is on the disk.
    ///
    /// # Errors
    ///
    /// As the system says; the file has either length.
    fn truncate_synced(&self, path: &Path, length: u64) -> io::Result<()>;

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
}

/// Puts a new file in the place of `path`. Its name may still be lost.
fn swap(storage: &dyn Storage, path: &Path, previous: Option<&[u8]>, bytes: &[u8]) -> Result<(), StorageError> {
    let folder = folder_of(path);
    let temporary = with_suffix(path, ".tmp");
    storage.create_folder(folder).map_err(failed("create", folder))?;
    remove_temporaries(storage, path)?;
    storage.write_synced(&temporary, bytes, path).map_err(failed("write", &temporary))?;
    keep_backup(storage, path, previous.unwrap_or_default())?;
    storage.rename(&temporary, path).map_err(failed("replace", path))
}

/// Copies instead of linking, because not every file system has links. The folder is synced by the caller: until
/// then the old backup may come back, which is as good.
fn keep_backup(storage: &dyn Storage, path: &Path, previous: &[u8]) -> Result<(), StorageError> {
    if previous.trim_ascii().is_empty() {
        return Ok(());
    }
    let temporary = with_suffix(path, ".bak.tmp");
    let backup = backup_path(path);
    storage.write_synced(&temporary, previous, path).map_err(failed("write", &temporary))?;
    storage.rename(&temporary, &backup).map_err(failed("replace", &backup))
}

fn remove_temporaries(storage: &dyn Storage, path: &Path) -> Result<(), StorageError> {
    for temporary in [with_suffix(path, ".tmp"), with_suffix(path, ".bak.tmp")] {
        storage.remove(&temporary).map_err(failed("remove", &temporary))?;
    }
    Ok(())
}

/// Names the step and the path of an error.
pub(crate) fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    move |source| StorageError { step, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

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

    #[test]
    fn new_files_are_private_and_replaced_files_keep_their_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        replace(&FileSystem, &path, b"1").unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&FileSystem, &path, b"2").unwrap();
        assert_eq!((mode(&path), mode(&backup_path(&path))), (0o640, 0o640));
    }

    #[test]
    fn the_target_of_a_link_is_replaced_beside_itself() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // As Kubernetes mounts a ConfigMap: the folder of a version, a link to it, and a link for each file.
        fs::create_dir(at("..v1")).unwrap();
        fs::write(at("..v1/file"), "old").unwrap();
        symlink("..v1", at("..data")).unwrap();
        symlink("..data/file", at("file")).unwrap();
        symlink("file", at("link")).unwrap();
        replace(&FileSystem, &at("link"), b"new").unwrap();
        assert_eq!(fs::read(at("..v1/file")).unwrap(), b"new");
        assert_eq!(fs::read(at("..v1/file.bak")).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is made beside the links");
        // A link to nothing is a file to be created.
        symlink("missing", at("dangling")).unwrap();
        replace(&FileSystem, &at("dangling"), b"new").unwrap();
        assert_eq!(fs::read(at("missing")).unwrap(), b"new");
        symlink("round", at("round")).unwrap();
        assert!(replace(&FileSystem, &at("round"), b"new").unwrap_err().to_string().contains("40 symbolic links"));
    }

    #[test]
    fn a_link_where_the_temporary_file_goes_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, path) = (folder.path().join("target"), folder.path().join("f"));
        fs::write(&target, "kept").unwrap();
        symlink(&target, with_suffix(&path, ".tmp")).unwrap();
        replace(&FileSystem, &path, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"kept");
    }

    #[test]
    fn sees_a_folder_that_is_open_to_all() {
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
