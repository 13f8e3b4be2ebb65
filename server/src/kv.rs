//! The KV configuration: namespaces of keys and values, kept on disk.
//!
//! A put or delete that was acknowledged is on the disk, and one that failed changed nothing in memory. Readers look
//! at one immutable table behind a lock that a writer holds for the swap of a pointer alone: they never wait for the
//! disk. The file is the original's: `{"configTable":{"NAMESPACE":{"KEY":"VALUE"}}}`.

mod file;
mod load;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use registry_core::json::write_string;

pub use self::file::Damage;
pub use self::load::KvOpenError;
use crate::storage::{self, FileSystem, Storage, StorageError, folder_of};

/// What peers may store. The original has no limits.
#[derive(Debug, Clone, Copy)]
pub struct KvLimits {
    /// Longest value, in bytes. Real values are order settings of a few hundred bytes and lists of addresses.
    pub kv_value_bytes_max: usize,
    /// Longest key and longest namespace, in bytes. Real ones are names of topics and addresses.
    pub kv_key_bytes_max: usize,
    /// Keys of all namespaces. One for each ordered topic is the largest use known.
    pub kv_keys_max: usize,
    /// Namespaces. They are never removed, so a peer that invents names must meet an end.
    pub kv_namespaces_max: usize,
    /// Length of the file, in bytes. Every put writes the whole file, and the answer to GET_KVLIST_BY_NAMESPACE must
    /// fit a frame.
    pub kv_file_bytes_max: usize,
}

impl Default for KvLimits {
    fn default() -> Self {
        Self {
            kv_value_bytes_max: 64 << 10,
            kv_key_bytes_max: 1 << 10,
            kv_keys_max: 100_000,
            kv_namespaces_max: 1_000,
            kv_file_bytes_max: 15 << 20,
        }
    }
}

/// A put or delete that changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// The value is too long.
    #[error("value of {bytes} bytes exceeds kv_value_bytes_max {max}")]
    ValueTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The key or the namespace is too long.
    #[error("key or namespace of {bytes} bytes exceeds kv_key_bytes_max {max}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// There are as many keys as may be.
    #[error("one more key exceeds kv_keys_max {max}")]
    TooManyKeys {
        /// The limit.
        max: usize,
    },
    /// There are as many namespaces as may be.
    #[error("one more namespace exceeds kv_namespaces_max {max}")]
    TooManyNamespaces {
        /// The limit.
        max: usize,
    },
    /// All values together are too long.
    #[error("a file of {bytes} bytes exceeds kv_file_bytes_max {max}")]
    FileTooLong {
        /// The length that the file would have.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The file cannot be written at all, see [`StorageError::is_unwritable`].
    #[error("{0}; kvInMemory=true keeps it in memory")]
    Unwritable(#[source] StorageError),
    /// The disk refused. It may hold the new content all the same; after a restart either is possible.
    #[error(transparent)]
    Storage(StorageError),
}

impl From<StorageError> for KvError {
    fn from(error: StorageError) -> Self {
        if error.is_unwritable() { Self::Unwritable(error) } else { Self::Storage(error) }
    }
}

/// What becomes of a put when the file cannot be written at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUnwritable {
    /// It is refused.
    Refuse,
    /// It is kept until the process ends, and the log says so once.
    KeepInMemory,
}

/// The store. Shared by reference; every method may be called from any thread.
pub struct KvStore {
    path: PathBuf,
    limits: KvLimits,
    when_unwritable: WhenUnwritable,
    /// The log says that changes are kept in memory alone.
    is_volatility_told: AtomicBool,
    /// Held by a writer from reading the table to swapping it, so that the file never goes back to an older content.
    storage: Mutex<Box<dyn Storage>>,
    table: RwLock<Arc<Table>>,
}

impl KvStore {
    /// Opens the store kept in the file `path`, which need not exist. Of a symbolic link the target is meant.
    ///
    /// A missing or empty file is replaced by its `.bak`, if that is good. A damaged file is kept as `.corrupt` and
    /// replaced in the same way. Each of these is said in a warning, and so is that the file cannot be written, which
    /// is no error here.
    ///
    /// # Errors
    ///
    /// A damaged file without a good backup, a link of a stranger in place of the file, a file that cannot be read,
    /// or a disk that fails.
    pub fn open(path: &Path, limits: KvLimits, when_unwritable: WhenUnwritable) -> Result<Self, KvOpenError> {
        Self::open_on(Box::new(FileSystem), path, limits, when_unwritable)
    }

    fn open_on(
        storage: Box<dyn Storage>,
        path: &Path,
        limits: KvLimits,
        when_unwritable: WhenUnwritable,
    ) -> Result<Self, KvOpenError> {
        let found = load::load(&*storage, path)?;
        for folder in [folder_of(path), folder_of(&found.target)] {
            if storage::is_world_writable(folder) {
                tracing::warn!(?folder, "every user of this machine may replace the KV file in this folder");
            }
        }
        let store = Self {
            path: path.to_owned(),
            limits,
            when_unwritable,
            is_volatility_told: AtomicBool::new(false),
            storage: Mutex::new(storage),
            table: RwLock::new(Arc::new(found.table)),
        };
        match (found.unwritable, when_unwritable) {
            (None, _) => {}
            (Some(error), WhenUnwritable::KeepInMemory) => store.tell_volatility(&error),
            (Some(error), WhenUnwritable::Refuse) => {
                tracing::warn!(%error, "the KV file cannot be written: puts will be refused, see kvInMemory");
            }
        }
        Ok(store)
    }

    /// The value of `key` in `namespace`. O(log n); may wait for the swap of a pointer, never for the disk.
    pub fn value(&self, namespace: &str, key: &str) -> Option<Arc<str>> {
        self.read(|table| table.namespaces.get(namespace)?.values.get(key).cloned())
    }

    /// The body KVTable `{"table":{...}}` of `namespace`, keys sorted; `None` for an unknown namespace, but not for
    /// an empty one. O(log n), nothing is encoded; may wait for the swap of a pointer, never for the disk.
    pub fn table_body(&self, namespace: &str) -> Option<Bytes> {
        self.read(|table| table.namespaces.get(namespace).map(|namespace| namespace.body.clone()))
    }

    /// Sets `key` of `namespace`. Without a value the key is absent afterwards, and the namespace exists.
    ///
    /// Blocks on the disk: O(n) in the length of the file, up to four syncs. A put that changes nothing costs nothing.
    ///
    /// # Errors
    ///
    /// A limit is exceeded or the disk refused; the table is as before.
    pub fn put(&self, namespace: &str, key: &str, value: Option<&str>) -> Result<(), KvError> {
        self.check_lengths(namespace, key, value)?;
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        let table = self.table();
        let known = table.namespaces.get(namespace);
        let current = known.and_then(|namespace| namespace.values.get(key));
        if known.is_some() && current.map(|current| &**current) == value {
            return Ok(());
        }
        self.check_counts(&table, known.is_none(), current.is_none() && value.is_some())?;
        let next = table.with(namespace, key, value);
        let file = next.encode();
        let max = self.limits.kv_file_bytes_max;
        if value.is_some() && file.len() > max {
            return Err(KvError::FileTooLong { bytes: file.len(), max });
        }
        self.commit(&**storage, &file, next)
    }

    /// Removes `key` of `namespace`; fine when it is unknown. The namespace stays.
    ///
    /// Blocks on the disk like [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// The disk refused; the table is as before.
    pub fn delete(&self, namespace: &str, key: &str) -> Result<(), KvError> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        let table = self.table();
        if table.namespaces.get(namespace).is_none_or(|namespace| !namespace.values.contains_key(key)) {
            return Ok(());
        }
        let next = table.with(namespace, key, None);
        self.commit(&**storage, &next.encode(), next)
    }

    fn commit(&self, storage: &dyn Storage, file: &[u8], next: Table) -> Result<(), KvError> {
        match (storage::replace(storage, &self.path, file), self.when_unwritable) {
            (Err(error), WhenUnwritable::KeepInMemory) if error.is_unwritable() => self.tell_volatility(&error),
            (result, _) => result?,
        }
        let previous = {
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *table, Arc::new(next))
        };
        drop(previous);
        Ok(())
    }

    fn tell_volatility(&self, error: &StorageError) {
        if !self.is_volatility_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the KV file cannot be written: changes are kept in memory and lost at the end");
        }
    }

    fn check_lengths(&self, namespace: &str, key: &str, value: Option<&str>) -> Result<(), KvError> {
        let max = self.limits.kv_key_bytes_max;
        if let Some(bytes) = [namespace.len(), key.len()].into_iter().find(|&bytes| bytes > max) {
            return Err(KvError::KeyTooLong { bytes, max });
        }
        let (bytes, max) = (value.map_or(0, str::len), self.limits.kv_value_bytes_max);
        if bytes > max { Err(KvError::ValueTooLong { bytes, max }) } else { Ok(()) }
    }

    fn check_counts(&self, table: &Table, adds_namespace: bool, adds_key: bool) -> Result<(), KvError> {
        let KvLimits { kv_keys_max, kv_namespaces_max, .. } = self.limits;
        if adds_namespace && table.namespaces.len() >= kv_namespaces_max {
            return Err(KvError::TooManyNamespaces { max: kv_namespaces_max });
        }
        if adds_key && table.keys() >= kv_keys_max {
            return Err(KvError::TooManyKeys { max: kv_keys_max });
        }
        Ok(())
    }

    fn read<T>(&self, query: impl FnOnce(&Table) -> T) -> T {
        query(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn table(&self) -> Arc<Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for KvStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvStore").field("path", &self.path).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// One state of all namespaces. Cloning shares the namespaces.
#[derive(Debug, Default, Clone)]
struct Table {
    namespaces: BTreeMap<Box<str>, Arc<Namespace>>,
}

#[derive(Debug)]
struct Namespace {
    values: Values,
    /// `{"table":{...}}`; its inner object is also the piece of the file.
    body: Bytes,
}

type Values = BTreeMap<Box<str>, Arc<str>>;

impl Table {
    fn keys(&self) -> usize {
        self.namespaces.values().map(|namespace| namespace.values.len()).sum()
    }

    fn with(&self, namespace: &str, key: &str, value: Option<&str>) -> Self {
        let mut values = self.namespaces.get(namespace).map(|known| known.values.clone()).unwrap_or_default();
        match value {
            Some(value) => values.insert(key.into(), value.into()),
            None => values.remove(key),
        };
        let mut next = self.clone();
        next.namespaces.insert(namespace.into(), Arc::new(Namespace::new(values)));
        next
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = b"{\"configTable\":{".to_vec();
        for (at, (name, namespace)) in self.namespaces.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_string(&mut out, name);
            out.push(b':');
            out.extend_from_slice(namespace.object());
        }
        out.extend_from_slice(b"}}");
        out
    }
}

const BODY_HEAD: &[u8] = b"{\"table\":";

impl Namespace {
    fn new(values: Values) -> Self {
        let mut body = BODY_HEAD.to_vec();
        body.push(b'{');
        for (at, (key, value)) in values.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            write_string(&mut body, key);
            body.push(b':');
            write_string(&mut body, value);
        }
        body.extend_from_slice(b"}}");
        Self { values, body: body.into() }
    }

    fn object(&self) -> &[u8] {
        &self.body[BODY_HEAD.len()..self.body.len() - 1]
    }
}

#[cfg(test)]
mod tests;
