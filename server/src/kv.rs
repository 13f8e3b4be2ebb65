//! The KV configuration: namespaces of keys and values, kept on disk.
//!
//! A put or delete that was acknowledged is on the disk, and one that failed changed nothing in memory. Readers look
//! at one immutable table behind a lock that a writer holds for the swap of a pointer alone: they never wait for the
//! disk. The file is the original's: `{"configTable":{"NAMESPACE":{"KEY":"VALUE"}}}`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use registry_core::json::write_string;

use crate::storage::{self, FileSystem, Storage, StorageError, backup_path, failed, folder_of, with_suffix};

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
    /// The disk refused. It may hold the new content all the same; after a restart either is possible.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

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

/// What is wrong with a KV file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// No JSON. The reason names line and column, of which a file of ours has only columns.
    #[error("at byte {offset}: {source}")]
    Json {
        /// Where reading stopped.
        offset: usize,
        /// The reason.
        source: serde_json::Error,
    },
    /// JSON of another shape.
    #[error("{place} is not {expected}")]
    Shape {
        /// The path of the member.
        place: String,
        /// What should be there.
        expected: &'static str,
    },
}

/// The store. Shared by reference; every method may be called from any thread.
pub struct KvStore {
    path: PathBuf,
    limits: KvLimits,
    /// Held by a writer from reading the table to swapping it, so that the file never goes back to an older content.
    storage: Mutex<Box<dyn Storage>>,
    table: RwLock<Arc<Table>>,
}

impl KvStore {
    /// Opens the store kept in the file `path`, which need not exist.
    ///
    /// A missing or empty file is replaced by its `.bak`, if that is good. A damaged file is kept as `.corrupt` and
    /// replaced in the same way. Each of these is said in a warning.
    ///
    /// # Errors
    ///
    /// A damaged file without a good backup, a symbolic link in place of the file, or a disk that refuses.
    pub fn open(path: &Path, limits: KvLimits) -> Result<Self, KvOpenError> {
        let folder = folder_of(path);
        if storage::is_world_writable(folder) {
            tracing::warn!(?folder, "every user of this machine may replace the KV file in this folder");
        }
        Self::open_on(Box::new(FileSystem), path, limits)
    }

    fn open_on(storage: Box<dyn Storage>, path: &Path, limits: KvLimits) -> Result<Self, KvOpenError> {
        let table = RwLock::new(Arc::new(load(&*storage, path)?));
        Ok(Self { path: path.to_owned(), limits, storage: Mutex::new(storage), table })
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
    /// Blocks on the disk: O(n) in the length of the file, up to three syncs. A put that changes nothing costs nothing.
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
        storage::replace(storage, &self.path, file)?;
        let previous = {
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *table, Arc::new(next))
        };
        drop(previous);
        Ok(())
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

    /// Reads a file, also one that was written by hand: members that are null are absent, numbers and booleans are
    /// taken as they are written, other members beside `configTable` do not matter.
    fn decode(file: &[u8]) -> Result<Self, Damage> {
        let json: serde_json::Value = serde_json::from_slice(file)
            .map_err(|source| Damage::Json { offset: offset(file, source.line(), source.column()), source })?;
        let shape = |place: String, expected| Damage::Shape { place, expected };
        let root = json.as_object().ok_or_else(|| shape("the file".into(), "an object"))?;
        let mut table = Self::default();
        let namespaces = match root.get("configTable") {
            None | Some(serde_json::Value::Null) => return Ok(table),
            Some(other) => other.as_object().ok_or_else(|| shape("configTable".into(), "an object"))?,
        };
        for (name, members) in namespaces {
            let members = members.as_object().ok_or_else(|| shape(format!("configTable.{name:?}"), "an object"))?;
            let mut values = Values::new();
            for (key, value) in members {
                let text: Arc<str> = match value {
                    serde_json::Value::Null => continue,
                    serde_json::Value::String(text) => text.as_str().into(),
                    serde_json::Value::Number(_) | serde_json::Value::Bool(_) => value.to_string().into(),
                    _ => return Err(shape(format!("configTable.{name:?}.{key:?}"), "a string")),
                };
                values.insert(key.as_str().into(), text);
            }
            table.namespaces.insert(name.as_str().into(), Arc::new(Namespace::new(values)));
        }
        Ok(table)
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

fn offset(file: &[u8], line: usize, column: usize) -> usize {
    let lines_before = file.split_inclusive(|&byte| byte == b'\n').take(line.saturating_sub(1));
    lines_before.map(<[u8]>::len).sum::<usize>() + column.saturating_sub(1)
}

fn load(storage: &dyn Storage, path: &Path) -> Result<Table, KvOpenError> {
    storage.refuse_link(path).map_err(failed("use", path))?;
    storage::remove_temporaries(storage, path)?;
    let damage = match read(storage, path)? {
        Content::Good { table, .. } => return Ok(table),
        Content::Missing => None,
        Content::Empty => {
            tracing::warn!(?path, "the KV file is empty");
            None
        }
        Content::Damaged(damage) => Some(damage),
    };
    let backup = backup_path(path);
    let backup_state = match read(storage, &backup)? {
        Content::Good { table, file } => {
            restore(storage, path, &file, damage)?;
            return Ok(table);
        }
        Content::Missing => "it does not exist".to_owned(),
        Content::Empty => "it is empty".to_owned(),
        Content::Damaged(damage) => {
            tracing::warn!(?backup, %damage, "the backup of the KV file is damaged and not used");
            damage.to_string()
        }
    };
    match damage {
        Some(damage) => Err(KvOpenError::Damaged { path: path.to_owned(), damage, backup_state }),
        None => Ok(Table::default()),
    }
}

enum Content {
    Missing,
    Empty,
    Damaged(Damage),
    Good { table: Table, file: Vec<u8> },
}

fn read(storage: &dyn Storage, path: &Path) -> Result<Content, StorageError> {
    let Some(file) = storage.read(path).map_err(failed("read", path))? else { return Ok(Content::Missing) };
    if file.trim_ascii().is_empty() {
        return Ok(Content::Empty);
    }
    Ok(match Table::decode(&file) {
        Ok(table) => Content::Good { table, file },
        Err(damage) => Content::Damaged(damage),
    })
}

/// Puts the backup in place at once, so that the next put cannot take a damaged file for the previous content.
fn restore(storage: &dyn Storage, path: &Path, backup: &[u8], damage: Option<Damage>) -> Result<(), StorageError> {
    if let Some(damage) = damage {
        let aside = with_suffix(path, ".corrupt");
        tracing::warn!(?path, %damage, ?aside, "the KV file is damaged; it is kept aside and replaced by its backup");
        storage.rename(path, &aside).map_err(failed("rename", path))?;
    } else {
        tracing::warn!(?path, "the KV file is missing or empty and replaced by its backup");
        storage.remove(path).map_err(failed("remove", path))?;
    }
    storage::replace(storage, path, backup)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::storage::crash::{CrashDisk, Image};

    const FILE: &str = "/n/kvConfig.json";

    fn on_disk(disk: &CrashDisk) -> KvStore {
        KvStore::open_on(Box::new(disk.clone()), Path::new(FILE), KvLimits::default()).unwrap()
    }

    fn opened(image: &Image) -> Result<(KvStore, CrashDisk), KvOpenError> {
        let disk = CrashDisk::with_image(image);
        let store = KvStore::open_on(Box::new(disk.clone()), Path::new(FILE), KvLimits::default())?;
        Ok((store, disk))
    }

    fn image(files: &[(&str, &str)]) -> Image {
        files.iter().map(|(name, text)| (format!("{FILE}{name}").into(), text.as_bytes().to_vec())).collect()
    }

    fn body(store: &KvStore, namespace: &str) -> Option<String> {
        store.table_body(namespace).map(|body| String::from_utf8(body.to_vec()).unwrap())
    }

    fn value(store: &KvStore, namespace: &str, key: &str) -> Option<String> {
        store.value(namespace, key).map(|value| value.to_string())
    }

    #[test]
    fn a_namespace_exists_from_its_first_put_on() {
        let store = on_disk(&CrashDisk::default());
        store.delete("N", "k").unwrap();
        assert_eq!(body(&store, "N"), None);
        store.put("N", "k", None).unwrap();
        assert_eq!(body(&store, "N").unwrap(), r#"{"table":{}}"#);
        store.put("N", "k", Some("v")).unwrap();
        store.put("N", "", Some("")).unwrap();
        store.put("", "k/\"", Some("é\n")).unwrap();
        assert_eq!(body(&store, "N").unwrap(), r#"{"table":{"":"","k":"v"}}"#);
        assert_eq!(body(&store, "").unwrap(), r#"{"table":{"k/\"":"é\n"}}"#);
        assert_eq!(value(&store, "N", "K"), None);
        store.put("N", "k", None).unwrap();
        store.delete("N", "").unwrap();
        assert_eq!(body(&store, "N").unwrap(), r#"{"table":{}}"#);
    }

    #[test]
    fn survives_a_restart_in_the_file_format_of_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("namesrv/kvConfig.json");
        let store = KvStore::open(&path, KvLimits::default()).unwrap();
        store.put("B", "k", None).unwrap();
        store.put("A", "k", Some("b:4;c:8")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"configTable":{"A":{"k":"b:4;c:8"},"B":{}}}"#);
        assert_eq!(fs::read_to_string(backup_path(&path)).unwrap(), r#"{"configTable":{"B":{}}}"#);
        let store = KvStore::open(&path, KvLimits::default()).unwrap();
        assert_eq!(value(&store, "A", "k").unwrap(), "b:4;c:8");
        assert_eq!(body(&store, "B").unwrap(), r#"{"table":{}}"#);
    }

    #[test]
    fn what_changes_nothing_is_not_written() {
        let disk = CrashDisk::default();
        let store = on_disk(&disk);
        store.put("N", "k", Some("v")).unwrap();
        let steps = disk.steps();
        store.put("N", "k", Some("v")).unwrap();
        store.put("N", "none", None).unwrap();
        store.delete("N", "none").unwrap();
        store.delete("M", "k").unwrap();
        assert_eq!(disk.steps(), steps);
    }

    #[test]
    fn limits_are_named_and_a_refused_put_changes_nothing() {
        let limits = KvLimits {
            kv_value_bytes_max: 10,
            kv_key_bytes_max: 3,
            kv_keys_max: 3,
            kv_namespaces_max: 2,
            kv_file_bytes_max: 62,
        };
        let disk = CrashDisk::default();
        let store = KvStore::open_on(Box::new(disk.clone()), Path::new(FILE), limits).unwrap();
        store.put("A", "1", Some("0123456789")).unwrap();
        store.put("B", "2", Some("")).unwrap();
        let steps = disk.steps();
        let refused = |namespace, key, value| store.put(namespace, key, Some(value)).unwrap_err();
        assert!(matches!(refused("A", "1", "0123456789a"), KvError::ValueTooLong { bytes: 11, max: 10 }));
        assert!(matches!(refused("A", "1234", ""), KvError::KeyTooLong { bytes: 4, max: 3 }));
        assert!(matches!(refused("1234", "k", ""), KvError::KeyTooLong { bytes: 4, max: 3 }));
        assert!(matches!(refused("C", "k", ""), KvError::TooManyNamespaces { max: 2 }));
        assert!(matches!(refused("B", "3", "0123456789"), KvError::FileTooLong { max: 62, .. }));
        assert_eq!(disk.steps(), steps);
        store.put("B", "3", Some("")).unwrap();
        assert!(matches!(refused("B", "4", ""), KvError::TooManyKeys { max: 3 }));
        store.put("B", "3", Some("x")).unwrap();
        assert_eq!(body(&store, "B").unwrap(), r#"{"table":{"2":"","3":"x"}}"#);
    }

    /// Fault D1: the power is cut after every step of a series of puts, with every subset of the names and with every
    /// part of the unsynced files on the disk.
    #[test]
    fn after_a_crash_the_file_is_old_or_new_and_never_misses_what_was_acknowledged() {
        let disk = CrashDisk::default();
        let store = on_disk(&disk);
        let mut acknowledged = vec![disk.steps()];
        for round in 1..=3 {
            store.put("N", "k", Some(&"v".repeat(round))).unwrap();
            acknowledged.push(disk.steps());
        }
        store.delete("N", "k").unwrap();
        let states = [None, Some("v"), Some("vv"), Some("vvv"), None];
        acknowledged.push(disk.steps());
        let mut images = 0;
        for steps in 0..=disk.steps() {
            let done = acknowledged.iter().filter(|&&at| at <= steps).count().saturating_sub(1);
            for image in disk.crash_images(steps) {
                let (store, disk) = opened(&image).unwrap_or_else(|error| panic!("step {steps}: {error}\n{image:?}"));
                let found = value(&store, "N", "k");
                let allowed = &states[done..(done + 2).min(states.len())];
                assert!(allowed.contains(&found.as_deref()), "step {steps}: {found:?} of {allowed:?}\n{image:?}");
                assert!(!disk.live_image().keys().any(|path| path.to_string_lossy().ends_with(".tmp")));
                images += 1;
            }
        }
        assert!(images > 300, "{images}");
    }

    /// Recovery itself may be interrupted.
    #[test]
    fn a_crash_while_the_backup_is_restored_loses_nothing() {
        for main in [Some("{\"configTa"), Some(""), None] {
            let mut before = image(&[(".bak", r#"{"configTable":{"N":{"k":"v"}}}"#)]);
            if let Some(main) = main {
                before.insert(FILE.into(), main.into());
            }
            let (_, disk) = opened(&before).unwrap();
            for steps in 1..=disk.steps() {
                for image in disk.crash_images(steps) {
                    let (store, disk) = opened(&image).unwrap();
                    assert_eq!(value(&store, "N", "k").as_deref(), Some("v"), "{image:?}");
                    store.put("N", "k", Some("w")).unwrap();
                    let (store, _) = opened(&disk.live_image()).unwrap();
                    assert_eq!(value(&store, "N", "k").as_deref(), Some("w"));
                }
            }
        }
    }

    /// Fault D3: every step fails once.
    #[test]
    fn memory_is_not_ahead_of_a_disk_that_fails() {
        for steps in 0.. {
            let disk = CrashDisk::default();
            let store = on_disk(&disk);
            store.put("N", "k", Some("old")).unwrap();
            disk.fail_after(steps);
            let result = store.put("N", "k", Some("new"));
            if disk.is_failure_pending() {
                assert!(steps > 6, "the put took {steps} steps");
                return result.unwrap();
            }
            let error = result.unwrap_err().to_string();
            assert!(error.contains("the disk failed") && error.contains("/n"), "{error}");
            assert_eq!(value(&store, "N", "k").unwrap(), "old");
            let (reopened, _) = opened(&disk.live_image()).unwrap();
            assert!(["old", "new"].contains(&&*value(&reopened, "N", "k").unwrap()));
            store.put("N", "k", Some("newer")).unwrap();
            let (reopened, _) = opened(&disk.live_image()).unwrap();
            assert_eq!(value(&reopened, "N", "k").unwrap(), "newer");
        }
    }

    const GOOD: &str = r#"{"configTable":{"N":{"k":"v"}}}"#;

    #[test]
    fn starts_empty_only_when_there_is_nothing_to_lose() {
        for files in [&[][..], &[("", "")], &[("", " \n")], &[("", "{}")], &[("", ""), (".bak", "")]] {
            let (store, _) = opened(&image(files)).unwrap();
            assert_eq!(body(&store, "N"), None, "{files:?}");
        }
        let (store, disk) = opened(&image(&[("", ""), (".bak", "damaged")])).unwrap();
        assert_eq!(body(&store, "N"), None);
        assert!(disk.live_image().contains_key(Path::new(FILE)), "nothing is touched");
    }

    #[test]
    fn the_backup_replaces_a_missing_an_empty_or_a_damaged_file() {
        for main in [None, Some(""), Some("\0\0\0\0"), Some("{\"configTable\":{\"N\":"), Some("[]")] {
            let mut files = image(&[(".bak", GOOD), (".tmp", "half"), (".bak.tmp", "half")]);
            if let Some(main) = main {
                files.insert(FILE.into(), main.into());
            }
            let (store, disk) = opened(&files).unwrap();
            assert_eq!(value(&store, "N", "k").unwrap(), "v");
            let mut expected = image(&[("", GOOD), (".bak", GOOD)]);
            if let Some(damaged) = main.filter(|main| !main.is_empty()) {
                expected.extend(image(&[(".corrupt", damaged)]));
            }
            assert_eq!(disk.live_image(), expected, "{main:?}");
        }
    }

    #[test]
    fn a_damaged_file_without_a_good_backup_stops_the_start_and_stays() {
        let cases = [
            ("{\"configTable\":\n{\"N\":x", "at byte 21"),
            ("[1]", "the file is not an object"),
            (r#"{"configTable":1}"#, "configTable is not an object"),
            (r#"{"configTable":{"N":"x"}}"#, r#"configTable."N" is not an object"#),
            (r#"{"configTable":{"N":{"k":[]}}}"#, r#"configTable."N"."k" is not a string"#),
        ];
        for (main, reason) in cases {
            for backup in [None, Some(""), Some("{")] {
                let mut files = image(&[("", main)]);
                files.extend(backup.map(|text| (backup_path(Path::new(FILE)), text.into())));
                let disk = CrashDisk::with_image(&files);
                let error = KvStore::open_on(Box::new(disk.clone()), Path::new(FILE), KvLimits::default()).unwrap_err();
                let text = error.to_string();
                assert!(text.contains(reason) && text.contains(FILE), "{text}");
                assert_eq!(disk.live_image(), files);
            }
        }
    }

    #[test]
    fn reads_files_that_were_written_by_hand() {
        let file = r#"{ "configTable" : { "N" : { "k" : 5, "b" : true, "n" : null } }, "other" : 1 }"#;
        let (store, _) = opened(&image(&[("", file)])).unwrap();
        assert_eq!(body(&store, "N").unwrap(), r#"{"table":{"b":"true","k":"5"}}"#);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_place_of_the_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("kvConfig.json"));
        fs::write(&target, GOOD).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let error = KvStore::open(&link, KvLimits::default()).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_file_holds_the_table(puts in proptest::collection::vec((".{0,3}", ".{0,3}", proptest::option::of(any::<String>())), 0..12)) {
            let disk = CrashDisk::default();
            let store = on_disk(&disk);
            for (namespace, key, value) in &puts {
                store.put(namespace, key, value.as_deref()).unwrap();
            }
            let (reopened, _) = opened(&disk.live_image()).unwrap();
            for (namespace, key, _) in &puts {
                prop_assert_eq!(store.value(namespace, key), reopened.value(namespace, key));
                prop_assert_eq!(store.table_body(namespace), reopened.table_body(namespace));
            }
        }
    }
}
