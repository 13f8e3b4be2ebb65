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
    for main in [Some("{\"configTa"), Some(""), Some(" \n"), None] {
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
