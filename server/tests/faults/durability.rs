//! What was acknowledged is on the disk, and a damaged file is never taken for an empty one.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::broker::{get_kv, put_kv};
use crate::support::frame::{Client, Frame, Received, fields};
use crate::support::ours;
use crate::support::process::{NameServer, Settings, config_file};

/// How often the server is killed; the variable `KILL_ROUNDS` says another number.
const KILL_ROUNDS: u64 = 30;
/// Keys that take turns.
const KEYS: u64 = 5;

#[test]
fn an_acknowledged_put_survives_a_kill() {
    let rounds = std::env::var("KILL_ROUNDS").ok().map_or(KILL_ROUNDS, |rounds| rounds.parse().expect("a number"));
    let mut server = ours::start(&Settings::default());
    let mut next = 1;
    // The last acknowledged number of each key, and the number that may have been stored since.
    let mut acknowledged = vec![0; usize::try_from(KEYS).expect("few keys")];
    for round in 0..rounds {
        let mut client = Client::connect(server.addr());
        let writer = thread::spawn(move || {
            let mut last = Vec::new();
            loop {
                let key = next % KEYS;
                client.send(&put_kv("NS", &format!("k{key}"), &next.to_string()).encode());
                match client.receive(Duration::from_secs(10)) {
                    Received::Frame(answer) => assert_eq!(Frame::parse(&answer).expect("a frame").code(), 0),
                    Received::Closed(_) => return (next, last),
                    Received::Silence => panic!("no answer to a put"),
                }
                last.push((key, next));
                next += 1;
            }
        });
        // Anywhere between the first put and some dozens later.
        thread::sleep(Duration::from_millis(1 + round * 7 % 41));
        server.kill();
        let (in_flight, last) = writer.join().expect("the writer ends with its connection");
        for (key, number) in last {
            acknowledged[usize::try_from(key).expect("few keys")] = number;
        }
        let start = Instant::now();
        server.restart();
        assert!(start.elapsed() < Duration::from_secs(5), "started after {:?}", start.elapsed());
        let mut client = Client::connect(server.addr());
        for (key, number) in (0..).zip(&mut acknowledged) {
            let answer = client.call(&get_kv("NS", &format!("k{key}")));
            let found = fields(&answer).get("value").map_or(0, |value| value.parse().expect("a number"));
            let is_in_flight = found == in_flight && in_flight % KEYS == key;
            assert!(found == *number || is_in_flight, "round {round}, k{key}: {found}, acknowledged {number}");
            *number = found;
        }
        next = in_flight + 1;
        for entry in fs::read_dir(server.home()).expect("the home folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            assert!(!name.ends_with(".tmp"), "{name} is left behind");
        }
    }
    assert!(acknowledged.iter().all(|&number| number > 0), "puts were acknowledged: {acknowledged:?}");
}

/// A stopped server with two versions of a KV file: the newest, and the one before as its `.bak`.
fn with_kv_files() -> (NameServer, PathBuf, PathBuf) {
    let mut server = ours::start(&Settings::default());
    let mut client = Client::connect(server.addr());
    for value in ["old", "new"] {
        assert_eq!(client.code(&put_kv("NS", "k", value)), 0);
    }
    server.stop();
    let file = server.home().join("kvConfig.json");
    let backup = server.home().join("kvConfig.json.bak");
    assert!(file.exists() && backup.exists());
    (server, file, backup)
}

fn value_after_restart(server: &mut NameServer) -> Option<String> {
    server.restart();
    let answer = Client::connect(server.addr()).call(&get_kv("NS", "k"));
    fields(&answer).get("value").cloned()
}

#[test]
fn a_damaged_file_is_replaced_by_its_backup_and_the_log_says_so() {
    let (mut server, file, _) = with_kv_files();
    for damage in [&b"{\"configTable\":{\"NS\":{\"k\":"[..], b"\0\0\0\0", b"[]", b"\xFF\xFE", b""] {
        fs::write(&file, damage).expect("damage the file");
        assert_eq!(value_after_restart(&mut server).as_deref(), Some("old"), "{damage:?}");
        let log = server.output();
        assert!(log.contains("WARN") && log.contains(&*file.to_string_lossy()), "{log}");
        // Repaired: no word about it at the next start.
        assert_eq!(value_after_restart(&mut server).as_deref(), Some("old"));
        assert!(!server.output().contains("kvConfig.json"), "{}", server.output());
        assert_eq!(Client::connect(server.addr()).code(&put_kv("NS", "k", "newer")), 0);
        assert_eq!(value_after_restart(&mut server).as_deref(), Some("newer"));
        assert_eq!(Client::connect(server.addr()).code(&put_kv("NS", "k", "old")), 0);
        assert_eq!(Client::connect(server.addr()).code(&put_kv("NS", "k", "new")), 0);
        server.stop();
    }
}

#[test]
fn a_damaged_file_without_a_good_backup_is_refused_and_kept() {
    let (server, file, backup) = with_kv_files();
    let refuse = |what: &str, reason: &str| {
        let before = fs::read(&file).expect("the file");
        let command = ours::launch(server.home(), &config_file(server.home()), &Settings::default());
        let output = ours::run_to_end(command);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(255), "{what}: {error}");
        assert!(error.contains(&*file.to_string_lossy()) && error.contains(reason), "{what}: {error}");
        assert!(fs::read(&file).expect("the file") == before, "{what}: the file has changed");
    };
    fs::write(&file, "{\"configTable\":").expect("damage the file");
    fs::write(&backup, "[").expect("damage the backup");
    refuse("both damaged", "damaged");
    fs::remove_file(&backup).expect("remove the backup");
    refuse("no backup", "does not exist");
    // Longer than any file that the server writes; the disk does not hold it.
    File::create(&file).and_then(|file| file.set_len((64 << 20) + 1)).expect("a long file");
    refuse("too long", "FILE_BYTES_MAX");
}

/// An empty file without a backup is what the original starts with, too, but not without a word.
#[test]
fn an_empty_file_is_told() {
    let (mut server, file, backup) = with_kv_files();
    fs::remove_file(&backup).and_then(|()| fs::write(&file, "")).expect("an empty file");
    assert_eq!(value_after_restart(&mut server), None);
    assert!(server.output().contains("the KV file is empty"), "{}", server.output());
    server.stop();
    fs::write(&file, "{}").expect("an empty object");
    assert_eq!(value_after_restart(&mut server), None);
}
