//! Opening the KV file: what is read at the start, and repaired.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Table;
use super::file::Damage;
use crate::storage::{self, Storage, StorageError, backup_path, failed, with_suffix};

/// Why the store cannot be opened. Nothing was replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvOpenError {
    /// The file is damaged, and there is no good backup.
    #[error("{path} is damaged ({damage}) and {backup} cannot replace it ({backup_state}); repair or remove the file",
        path = path.display(), backup = backup_path(path).display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
        /// What is wrong with the backup.
        backup_state: String,
    },
    /// The disk refused.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// What the file says.
pub(super) struct Found {
    pub(super) table: Table,
    /// The file itself, links followed.
    pub(super) target: PathBuf,
    /// Why the file cannot be written.
    pub(super) unwritable: Option<StorageError>,
}

pub(super) fn load(storage: &dyn Storage, path: &Path) -> Result<Found, KvOpenError> {
    let target = match storage::resolve(storage, path) {
        // As for the original, what we are not allowed to look for is not there.
        Err(error) if error.source.kind() == ErrorKind::PermissionDenied => {
            return Ok(Found { table: Table::default(), target: path.to_owned(), unwritable: Some(error) });
        }
        other => other?,
    };
    if target != path {
        tracing::info!(?path, ?target, "the KV file is a symbolic link; its target is written");
    }
    let table = read_or_restore(storage, &target)?;
    let tidied = unless_unwritable(storage::tidy(storage, &target))?;
    let checked = storage.check_writable(&target).map_err(failed("write", &target));
    Ok(Found { table, target, unwritable: tidied.and(checked).err() })
}

/// Takes apart the errors that mean that nothing can be written, with which the server starts, from the others.
fn unless_unwritable(result: Result<(), StorageError>) -> Result<Result<(), StorageError>, StorageError> {
    match result {
        Err(error) if !error.is_unwritable() => Err(error),
        other => Ok(other),
    }
}

fn read_or_restore(storage: &dyn Storage, path: &Path) -> Result<Table, KvOpenError> {
    let damage = match read(storage, path)? {
        Content::Good { table, .. } => return Ok(table),
        Content::Missing => None,
        Content::Empty => {
            tracing::warn!(?path, "the KV file is empty");
            None
        }
        Content::Damaged { damage, file } => Some((damage, file)),
    };
    let backup = backup_path(path);
    let backup_state = match read(storage, &backup)? {
        Content::Good { table, file } => {
            if let Err(error) = unless_unwritable(restore(storage, path, &file, damage))? {
                tracing::warn!(%error, "the backup of the KV file is used, but cannot be put in its place");
            }
            return Ok(table);
        }
        Content::Missing => "it does not exist".to_owned(),
        Content::Empty => "it is empty".to_owned(),
        Content::Damaged { damage, .. } => {
            tracing::warn!(?backup, %damage, "the backup of the KV file is damaged and not used");
            damage.to_string()
        }
    };
    match damage {
        Some((damage, _)) => Err(KvOpenError::Damaged { path: path.to_owned(), damage, backup_state }),
        None => Ok(Table::default()),
    }
}

enum Content {
    Missing,
    Empty,
    Damaged { damage: Damage, file: Vec<u8> },
    Good { table: Table, file: Vec<u8> },
}

fn read(storage: &dyn Storage, path: &Path) -> Result<Content, StorageError> {
    let Some(file) = storage.read(path).map_err(failed("read", path))? else { return Ok(Content::Missing) };
    if file.trim_ascii().is_empty() {
        return Ok(Content::Empty);
    }
    Ok(match Table::decode(&file) {
        Ok(table) => Content::Good { table, file },
        Err(damage) => Content::Damaged { damage, file },
    })
}

/// Puts the backup in place at once, so that the next put cannot take a damaged file for the previous content.
fn restore(
    storage: &dyn Storage,
    path: &Path,
    backup: &[u8],
    damaged: Option<(Damage, Vec<u8>)>,
) -> Result<(), StorageError> {
    if let Some((damage, file)) = damaged {
        let aside = with_suffix(path, ".corrupt");
        tracing::warn!(?path, %damage, ?aside, "the KV file is damaged; it is kept aside and replaced by its backup");
        // Copied where it cannot be moved: it may be a mount of its own.
        if storage.rename(path, &aside).is_err() {
            storage.remove(&aside).map_err(failed("remove", &aside))?;
            storage.write_synced(&aside, &file, path).map_err(failed("write", &aside))?;
            // Blank, it is no backup of what replaces it.
            storage.truncate_synced(path, 0).map_err(failed("write", path))?;
        }
    } else {
        tracing::warn!(?path, "the KV file is missing or empty and replaced by its backup");
    }
    storage::replace(storage, path, backup)
}
