use std::fs;

use proptest::prelude::*;

use super::*;
use crate::storage::backup_path;
use crate::storage::crash::{CrashDisk, Image, Refuses};

const FILE: &str = "/n/kvConfig.json";

const REFUSE: WhenUnwritable = WhenUnwritable::Refuse;

fn opened_on(disk: &CrashDisk, when_unwritable: WhenUnwritable) -> Result<KvStore, KvOpenError> {
    KvStore::open_on(Box::new(disk.clone()), Path::new(FILE), KvLimits::default(), when_unwritable)
}

fn on_disk(disk: &CrashDisk) -> KvStore {
    opened_on(disk, REFUSE).unwrap()
}

fn opened(image: &Image) -> Result<(KvStore, CrashDisk), KvOpenError> {
    opened_where(image, Refuses::Nothing)
}

fn opened_where(image: &Image, refuses: Refuses) -> Result<(KvStore, CrashDisk), KvOpenError> {
    let disk = CrashDisk::with_image(image).refusing(refuses);
    Ok((opened_on(&disk, REFUSE)?, disk))
}

fn image(files: &[(&str, &str)]) -> Image {
    files.iter().map(|(name, text)| (format!("{FILE}{name}").into(), text.as_bytes().to_vec())).collect()
}

/// Long values and gaps cut out.
fn shown(image: &Image) -> String {
    let text =
        |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).replace(&"m".repeat(100), "").replace(&"\0".repeat(100), "");
    image.iter().map(|(path, bytes)| format!("{path:?} {}: {:?}\n", bytes.len(), text(bytes))).collect()
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
    let store = KvStore::open(&path, KvLimits::default(), REFUSE).unwrap();
    store.put("B", "k", None).unwrap();
    store.put("A", "k", Some("b:4;c:8")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"configTable":{"A":{"k":"b:4;c:8"},"B":{}}}"#);
    assert_eq!(fs::read_to_string(backup_path(&path)).unwrap(), r#"{"configTable":{"B":{}}}"#);
    let store = KvStore::open(&path, KvLimits::default(), REFUSE).unwrap();
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
    let store = KvStore::open_on(Box::new(disk.clone()), Path::new(FILE), limits, REFUSE).unwrap();
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

/// Fault D1: the power is cut after every step of a series of puts, with every subset of the names and with parts of
/// the unsynced files on the disk.
#[test]
fn after_a_crash_the_file_is_old_or_new_and_never_misses_what_was_acknowledged() {
    cut_the_power(Refuses::Nothing, Image::new(), 1_000);
}

/// The same where the file is written in place, from a file that is there and empty.
#[test]
fn after_a_crash_a_file_that_is_written_in_place_is_old_or_new() {
    let empty = image(&[("", "")]);
    cut_the_power(Refuses::NameOf(FILE), empty.clone(), 500);
    cut_the_power(Refuses::Names, empty, 200);
}

fn cut_the_power(refuses: Refuses, before: Image, images_min: usize) {
    let disk = CrashDisk::with_image(&before).refusing(refuses);
    let store = on_disk(&disk);
    // Values that grow beyond a block and shrink again, with what a record begins with in one of them.
    let marked = format!("\n#namesrv-record {}", "m".repeat(9_000));
    let states = [None, Some("v"), Some(&*marked), Some("vvv"), None];
    let mut acknowledged = vec![disk.steps()];
    for state in &states[1..] {
        match state {
            Some(value) => store.put("N", "k", Some(value)).unwrap(),
            None => store.delete("N", "k").unwrap(),
        }
        acknowledged.push(disk.steps());
    }
    let mut images = 0;
    for steps in 1..=disk.steps() {
        let done = acknowledged.iter().filter(|&&at| at <= steps).count().saturating_sub(1);
        for image in disk.crash_images(steps) {
            let (store, disk) = opened_where(&image, refuses)
                .unwrap_or_else(|error| panic!("step {steps}: {error}\n{}", shown(&image)));
            let found = value(&store, "N", "k");
            let allowed = &states[done..(done + 2).min(states.len())];
            assert!(allowed.contains(&found.as_deref()), "step {steps}: {found:?} of {allowed:?}\n{}", shown(&image));
            assert!(!disk.live_image().keys().any(|path| path.to_string_lossy().ends_with(".tmp")));
            // What is there now is for any reader: nothing of an interrupted write is left.
            let file = disk.live_image().remove(Path::new(FILE)).unwrap_or_default();
            assert!(file.is_empty() || serde_json::from_slice::<serde_json::Value>(&file).is_ok(), "{file:?}");
            images += 1;
        }
    }
    assert!(images > images_min, "{images}");
}

/// Completing what was interrupted may be interrupted.
#[test]
fn a_crash_while_a_write_in_place_is_completed_loses_nothing() {
    let disk = CrashDisk::with_image(&image(&[("", GOOD)])).refusing(Refuses::Names);
    on_disk(&disk).put("N", "k", Some("w")).unwrap();
    let interrupted = (1..=disk.steps()).flat_map(|steps| disk.crash_images(steps));
    let mut completed = 0;
    for image in interrupted.filter(|image| image[Path::new(FILE)].len() > 4_096) {
        let (store, disk) = opened_where(&image, Refuses::Names).unwrap();
        let found = value(&store, "N", "k");
        for image in (1..=disk.steps()).flat_map(|steps| disk.crash_images(steps)) {
            let (store, _) = opened_where(&image, Refuses::Names).unwrap();
            assert_eq!(value(&store, "N", "k"), found, "{image:?}");
            completed += 1;
        }
    }
    assert!(completed > 100, "{completed}");
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
    fail_each_step(Refuses::Nothing, 6);
    fail_each_step(Refuses::NameOf(FILE), 10);
    fail_each_step(Refuses::Names, 6);
}

fn fail_each_step(refuses: Refuses, steps_min: usize) {
    for steps in 0.. {
        let disk = CrashDisk::with_image(&image(&[("", "")])).refusing(refuses);
        let store = on_disk(&disk);
        store.put("N", "k", Some("old")).unwrap();
        disk.fail_after(steps);
        let result = store.put("N", "k", Some("new"));
        if disk.is_failure_pending() {
            assert!(steps > steps_min, "the put took {steps} steps");
            return result.unwrap();
        }
        let Err(error) = result else {
            // Tidying up may fail, where it is not all that a put does.
            assert!(refuses != Refuses::Nothing && value(&store, "N", "k").unwrap() == "new");
            continue;
        };
        let error = error.to_string();
        assert!(error.contains("the disk failed") && error.contains("/n"), "{error}");
        assert_eq!(value(&store, "N", "k").unwrap(), "old");
        let (reopened, _) = opened_where(&disk.live_image(), refuses).unwrap();
        assert!(["old", "new"].contains(&&*value(&reopened, "N", "k").unwrap()));
        store.put("N", "k", Some("newer")).unwrap();
        let (reopened, _) = opened_where(&disk.live_image(), refuses).unwrap();
        assert_eq!(value(&reopened, "N", "k").unwrap(), "newer");
    }
}

#[test]
fn where_nothing_can_be_written_a_put_is_refused_or_kept_in_memory() {
    let files = image(&[("", GOOD), (".tmp", "half")]);
    let disk = CrashDisk::with_image(&files).refusing(Refuses::Changes);
    let store = on_disk(&disk);
    assert_eq!(value(&store, "N", "k").unwrap(), "v");
    let error = store.put("N", "k", Some("w")).unwrap_err();
    assert!(matches!(error, KvError::Unwritable(_)), "{error:?}");
    assert!(error.to_string().contains(FILE) && error.to_string().contains("kvInMemory=true"), "{error}");
    assert_eq!(value(&store, "N", "k").unwrap(), "v");

    let store = opened_on(&disk, WhenUnwritable::KeepInMemory).unwrap();
    store.put("N", "k", Some("w")).unwrap();
    store.delete("N", "none").unwrap();
    assert_eq!(value(&store, "N", "k").unwrap(), "w");
    // A disk that fails is something else: what was asked for may be stored the next time.
    disk.fail_after(0);
    assert!(matches!(store.put("N", "k", Some("x")).unwrap_err(), KvError::Storage(_)));
    assert_eq!(value(&store, "N", "k").unwrap(), "w");
    assert_eq!(disk.live_image(), files);
}

/// Whatever is wrong with the file, what the backup says is served.
#[test]
fn the_backup_is_used_where_it_cannot_be_put_in_place() {
    for main in ["", "{\"configTable\":{\"N\":"] {
        let files = image(&[("", main), (".bak", GOOD)]);
        for refuses in [Refuses::Changes, Refuses::Names, Refuses::NameOf(FILE)] {
            let (store, disk) = opened_where(&files, refuses).unwrap();
            assert_eq!(value(&store, "N", "k").unwrap(), "v", "{refuses:?}");
            let now = disk.live_image();
            if refuses == Refuses::NameOf(FILE) && !main.is_empty() {
                assert_eq!(now, image(&[("", GOOD), (".bak", GOOD), (".corrupt", main)]));
            }
            if refuses == Refuses::Changes {
                assert_eq!(now, files);
            }
        }
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
        (r#"{"configTable":{"N":[]}}"#, r#"configTable."N" is not an object"#),
    ];
    for (main, reason) in cases {
        for backup in [None, Some(""), Some("{")] {
            let mut files = image(&[("", main)]);
            files.extend(backup.map(|text| (backup_path(Path::new(FILE)), text.into())));
            let disk = CrashDisk::with_image(&files);
            let error = opened_on(&disk, REFUSE).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(reason) && text.contains(FILE), "{text}");
            assert_eq!(disk.live_image(), files);
        }
    }
}

#[test]
fn reads_files_that_were_written_by_hand() {
    let body = |file: &str| body(&opened(&image(&[("", file)])).unwrap().0, "N");
    let expected = Some(r#"{"table":{"k":"v"}}"#.to_owned());
    for file in [
        "\u{feff}{\"configTable\":{\"N\":{\"k\":\"v\"}}}",
        "\n \u{feff}{\"configTable\":{\"N\":{\"k\":\"v\"}}}\r\n",
        r#"{"configTable":{"N":{"k":"v",},},}"#,
        r#"{configTable:{N:{k:"v"}}}"#,
        r#"{configTable : {N /* name */ : {k:'v'}}} // end"#,
        r#"{"configTable":{"N":{"k":"x","k":"v"}}}"#,
        r#"{"configTable":{"N":{"j":"x"},"N":{"k":"v"}}}"#,
        r#"{"configTable":{"M":{}},"configTable":{"N":{"k":"v","j":null},"O":null,"P":""}}"#,
        "{\"configTable\":{\"N\":{\"k\":\"v\"}}}\0\0",
    ] {
        assert_eq!(body(file), expected, "{file}");
    }
    let file = r#"{ "configTable" : { "N" : { "k" : 5, "b" : true, "n" : null, "a":[1,2], "o":{} } }, "other" : 1 }"#;
    assert_eq!(body(file).unwrap(), r#"{"table":{"a":"[1,2]","b":"true","k":"5","o":"{}"}}"#);
    assert_eq!(
        body(r#"{configTable:{N:{$k_1:"v",_:"",中文:"x"}}}"#).unwrap(),
        r#"{"table":{"$k_1":"v","_":"","中文":"x"}}"#
    );
    for file in [r#"{"configTable":null}"#, r#"{"configTable":""}"#, r#"{"configTable":{"N":null}}"#] {
        assert_eq!(body(file), None, "{file}");
    }
    for file in [r#"{configTable:{N:{k-1:"v"}}}"#, r#"{configTable:{N:{k:v}}}"#, r#"{configTable:{N:{1k:"v"}}}"#] {
        assert!(opened(&image(&[("", file)])).is_err(), "{file}");
    }
}

#[test]
fn a_link_is_kept_and_its_target_written() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("kvConfig.json"));
    fs::write(&target, GOOD).unwrap();
    std::os::unix::fs::symlink("target", &link).unwrap();
    let store = KvStore::open(&link, KvLimits::default(), REFUSE).unwrap();
    store.put("N", "k", Some("w")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), r#"{"configTable":{"N":{"k":"w"}}}"#);
    assert_eq!(fs::read_to_string(backup_path(&target)).unwrap(), GOOD);
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
