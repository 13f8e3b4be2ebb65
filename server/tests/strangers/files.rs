//! The files of the server where containers put them: mounts, links, folders and file systems that cannot be written,
//! files of other users, full disks. What is stored survives a kill, and what cannot be stored is said.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::report::{at_most, holds};
use crate::support::broker::{get_config, get_kv, put_kv, request, update_config};
use crate::support::frame::{Client, Frame, Received, fields};
use crate::support::official::say;
use crate::support::ours;
use crate::support::process::{NameServer, Settings, config_file, free_port, write_config};

const ROW: &str = "17";
/// A user that no system knows.
const NOBODY: u32 = 54_321;
const KILL_ROUNDS: u32 = 50;
const MIB: usize = 1 << 20;

/// Says whether `test` may mount and change users; prints why it is skipped, or fails with `REQUIRE_PEERS=1`.
fn has_means(test: &str) -> bool {
    let runs = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    let user = NOBODY.to_string();
    let why = if !runs("unshare", &["-m", "mount", "-t", "tmpfs", "none", "/mnt"]) {
        "no mounts in a namespace of its own"
    } else if !runs("setpriv", &["--reuid", &user, "--regid", &user, "--clear-groups", "true"]) {
        "no change of the user by setpriv"
    } else {
        return true;
    };
    let is_required = std::env::var("REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(!is_required, "{test}: {why}");
    say(&format!("SKIP {test}: {why}"));
    false
}

/// The command of the server behind a shell script, in a mount namespace of its own and in its home folder.
fn behind(script: &str, home: &Path, file: &Path, settings: &Settings) -> Command {
    wrapped(
        ours::launch(home, file, settings),
        &["unshare", "-m", "sh", "-ec", &format!("{script}\nexec \"$0\" \"$@\"")],
    )
}

/// The command as an unknown user.
fn as_nobody(command: Command) -> Command {
    let user = NOBODY.to_string();
    wrapped(command, &["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"])
}

fn wrapped(inner: Command, outer: &[&str]) -> Command {
    let mut command = Command::new(outer[0]);
    command.args(&outer[1..]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(inner.get_current_dir().expect("the home folder"));
    command
}

fn value(server: &NameServer, key: &str) -> Option<String> {
    fields(&Client::connect(server.addr()).call(&get_kv("NS", key))).get("value").cloned()
}

fn put(server: &NameServer, key: &str, value: &str) -> Frame {
    Client::connect(server.addr()).call(&put_kv("NS", key, value))
}

fn update(server: &NameServer, text: &str) -> Frame {
    Client::connect(server.addr()).call(&update_config(text))
}

/// Whether the setting that the tests change has its other value.
fn is_updated(server: &NameServer) -> bool {
    Client::connect(server.addr()).call(&get_config()).text().contains("enableTopicList=false\n")
}

/// Changes both files, which must be stored, and asks for the changes after a restart.
fn stores_both(server: &mut NameServer, what: &str) {
    for text in ["old", "new"] {
        let answer = put(server, "k", text);
        assert_eq!(answer.code(), 0, "{}\n{}", answer.show(), server.output());
    }
    let answer = update(server, "enableTopicList=false");
    assert_eq!((answer.code(), answer.remark()), (0, None), "{}", answer.show());
    server.restart();
    holds(ROW, what, value(server, "k").as_deref() == Some("new") && is_updated(server));
}

fn mode_and_owner(path: &Path) -> (u32, u32, u32) {
    let data = fs::metadata(path).expect("the file");
    (data.mode() & 0o7777, data.uid(), data.gid())
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Both files are mounts of their own, as `docker run -v FILE:FILE` makes them.
fn on_mounted_files(home: &Path, file: &Path, settings: &Settings) -> Command {
    let script = "for name in namesrv.properties kvConfig.json; do
        [ -e $name ] || : > $name
        mkdir -p host; [ -e host/$name ] || cp $name host/$name
        mount --bind host/$name $name
    done";
    behind(script, home, file, settings)
}

#[test]
fn a_file_that_is_a_mount_of_its_own_is_stored() {
    if !has_means("a_file_that_is_a_mount_of_its_own_is_stored") {
        return;
    }
    let mut server = NameServer::start(on_mounted_files, &Settings::default());
    stores_both(&mut server, "bind-mounted single files: KV and 318 are stored");
    let host = server.home().join("host");
    assert_eq!(fs::read_to_string(host.join("kvConfig.json")).unwrap(), r#"{"configTable":{"NS":{"k":"new"}}}"#);
    assert!(fs::read_to_string(host.join("namesrv.properties")).unwrap().contains("enableTopicList=false\n"));
    assert_eq!(names(&host).len(), 2, "the other side of the mounts has the files alone");
}

/// Fault D2, where the file is replaced and where it is written in place.
#[test]
fn an_acknowledged_put_survives_a_kill() {
    survives_kills(ours::start(&Settings::default()), "rename");
    if has_means("an_acknowledged_put_survives_a_kill, in place") {
        survives_kills(NameServer::start(on_mounted_files, &Settings::default()), "in place");
    }
}

fn survives_kills(mut server: NameServer, how: &str) {
    let mut acknowledged = 0;
    let mut lost = 0;
    for round in 0..KILL_ROUNDS {
        let mut client = Client::connect(server.addr());
        let first = acknowledged + 1;
        let writer = thread::spawn(move || {
            for number in first.. {
                // Long and short values by turns.
                let text = format!("{number} {}", "x".repeat(number % 7 * 1_500));
                client.send(&put_kv("NS", "k", &text).encode());
                match client.receive(Duration::from_secs(10)) {
                    Received::Frame(answer) => assert_eq!(Frame::parse(&answer).expect("a frame").code(), 0),
                    _ => return number - 1,
                }
            }
            unreachable!("it is killed before it has counted that far")
        });
        thread::sleep(Duration::from_millis(u64::from(5 + round * 7 % 41)));
        server.kill();
        let last = writer.join().expect("the writer ends with its connection");
        server.restart();
        let found: usize =
            value(&server, "k").map_or(0, |text| text.split(' ').next().unwrap().parse().expect("a number"));
        // The put that was under way may be stored.
        lost += usize::from(found != last && found != last + 1);
        acknowledged = found;
        let strays = names(server.home()).into_iter().filter(|name| name.ends_with(".tmp"));
        assert_eq!(strays.collect::<Vec<_>>(), [""; 0]);
    }
    assert!(acknowledged > 0, "puts are acknowledged");
    at_most("D2", &format!("acknowledged puts lost in {KILL_ROUNDS} kills, {how}"), lost, 0);
}

#[test]
fn links_stay_and_their_targets_are_replaced() {
    fn as_config_map(home: &Path, file: &Path, settings: &Settings) -> Command {
        let folder = home.join("..2026_12_01");
        if !folder.exists() {
            fs::create_dir(&folder).expect("the folder of a version");
            symlink("..2026_12_01", home.join("..data")).expect("its link");
            fs::rename(file, folder.join("namesrv.properties")).expect("the configuration");
            for name in ["namesrv.properties", "kvConfig.json"] {
                symlink(format!("..data/{name}"), home.join(name)).expect("the link of a file");
            }
        }
        ours::launch(home, file, settings)
    }
    let mut server = NameServer::start(as_config_map, &Settings::default());
    stores_both(&mut server, "links as of a ConfigMap: KV and 318 are stored");
    let is_link = |name: &str| fs::symlink_metadata(server.home().join(name)).unwrap().is_symlink();
    holds(ROW, "the links stay", ["..data", "namesrv.properties", "kvConfig.json"].into_iter().all(is_link));
    assert!(names(&server.home().join("..data")).contains("kvConfig.json.bak"), "beside the target");
}

fn on_read_only_home(home: &Path, file: &Path, settings: &Settings) -> Command {
    behind("mount --bind . . && mount -o remount,ro,bind .", home, file, settings)
}

#[test]
fn where_nothing_can_be_written_the_server_serves_and_says_so() {
    if !has_means("where_nothing_can_be_written_the_server_serves_and_says_so") {
        return;
    }
    let server = NameServer::start(on_read_only_home, &Settings::default());
    let answer = put(&server, "k", "v");
    let remark = answer.remark().unwrap_or_default();
    let is_refused = answer.code() == 1 && remark.contains("Read-only") && remark.contains("kvInMemory=true");
    holds(ROW, "read-only: a put is refused and says why", is_refused && value(&server, "k").is_none());
    let answer = update(&server, "enableTopicList=false");
    let is_said = answer.remark().is_some_and(|remark| remark.contains("not stored") && remark.contains("Read-only"));
    holds(ROW, "read-only: 318 takes effect and says that it is not stored", answer.code() == 0 && is_said);
    assert!(is_updated(&server));
    assert_eq!(Client::connect(server.addr()).code(&request(224, &[("cluster", "c")])), 1, "it is in effect");
    assert!(server.output().contains("WARN") && server.output().contains("kvInMemory"), "{}", server.output());

    let server = NameServer::start(on_read_only_home, &Settings::with(&[("kvInMemory", "true")]));
    let codes = ["a", "b"].map(|text| put(&server, "k", text).code());
    let is_kept = codes == [0, 0] && value(&server, "k").as_deref() == Some("b");
    holds(ROW, "read-only with kvInMemory=true: puts are kept in memory", is_kept);
    server.prints_within("kept in memory", Duration::from_secs(5));
    assert_eq!(server.output().matches("kept in memory").count(), 1, "{}", server.output());
}

/// A read-only root file system, and a user without an entry in passwd and without `HOME`, as many clusters enforce.
#[test]
fn a_user_that_nobody_knows_can_start_it() {
    if !has_means("a_user_that_nobody_knows_can_start_it") {
        return;
    }
    fn launch(home: &Path, file: &Path, settings: &Settings) -> Command {
        fs::set_permissions(home, Permissions::from_mode(0o755)).expect("a folder that others may read");
        let text = fs::read_to_string(file).expect("the configuration");
        let without_paths = text.lines().filter(|line| !line.contains("Path=")).map(|line| format!("{line}\n"));
        fs::write(file, without_paths.collect::<String>()).expect("the configuration");
        let inner = as_nobody(ours::launch(home, file, settings));
        let mut command =
            wrapped(inner, &["unshare", "-m", "sh", "-ec", "mount -o remount,ro,bind / || :; exec \"$0\" \"$@\""]);
        command.env("HOME", "");
        command
    }
    let server = NameServer::start(launch, &Settings::default());
    let remark = put(&server, "k", "v").remark().unwrap_or_default().to_owned();
    holds(ROW, "no HOME, no entry in passwd: it serves from /namesrv", remark.contains("/namesrv"));
    let answer = update(&server, "enableTopicList=false");
    assert!(answer.code() == 0 && is_updated(&server), "{}", answer.show());
    assert!(answer.remark().is_some_and(|remark| remark.contains("not stored")), "{}", answer.show());
}

/// Only the files belong to the user of the server.
#[test]
fn in_a_folder_that_cannot_be_written_the_files_are() {
    if !has_means("in_a_folder_that_cannot_be_written_the_files_are") {
        return;
    }
    fn launch(home: &Path, file: &Path, settings: &Settings) -> Command {
        fs::set_permissions(home, Permissions::from_mode(0o755)).expect("the folder of another user");
        let kv = home.join("kvConfig.json");
        if !kv.exists() {
            fs::write(&kv, "").expect("an empty file");
            chown(&kv, Some(NOBODY), Some(NOBODY))
                .and_then(|()| chown(file, Some(NOBODY), Some(NOBODY)))
                .expect("root");
        }
        as_nobody(ours::launch(home, file, settings))
    }
    let mut server = NameServer::start(launch, &Settings::default());
    stores_both(&mut server, "a folder that cannot be written: KV and 318 are stored in place");
    assert_eq!(names(server.home()), BTreeSet::from(["kvConfig.json".into(), "namesrv.properties".into()]));
}

#[test]
fn owner_and_mode_of_a_file_stay() {
    if !has_means("owner_and_mode_of_a_file_stay") {
        return;
    }
    fn give_away(home: &Path, file: &Path, owner: u32, mode: u32) {
        let kv = home.join("kvConfig.json");
        if !kv.exists() {
            fs::write(&kv, r#"{"configTable":{}}"#).expect("a file");
            for path in [&kv, file] {
                chown(path, Some(owner), Some(owner)).expect("root gives it away");
                fs::set_permissions(path, Permissions::from_mode(mode)).expect("its mode");
            }
        }
    }
    // We are root, the files are not ours: a new file gets their owner.
    fn as_root(home: &Path, file: &Path, settings: &Settings) -> Command {
        give_away(home, file, NOBODY, 0o640);
        ours::launch(home, file, settings)
    }
    // The folder is ours, the files are root's and all may write them: the owner cannot be given to a new file.
    fn as_other(home: &Path, file: &Path, settings: &Settings) -> Command {
        give_away(home, file, 0, 0o666);
        chown(home, Some(NOBODY), Some(NOBODY)).expect("root gives it away");
        as_nobody(ours::launch(home, file, settings))
    }
    let mut server = NameServer::start(as_root, &Settings::default());
    stores_both(&mut server, "files of another user, as root: stored");
    let is_same = |server: &NameServer, expected| {
        ["kvConfig.json", "namesrv.properties"].iter().all(|name| mode_and_owner(&server.home().join(name)) == expected)
    };
    holds(ROW, "owner and mode stay, as root", is_same(&server, (0o640, NOBODY, NOBODY)));
    let mut server = NameServer::start(as_other, &Settings::default());
    stores_both(&mut server, "files of another user, not as root: stored in place");
    holds(ROW, "owner and mode stay, not as root", is_same(&server, (0o666, 0, 0)));
}

/// Fault D3. The disk of the KV file has room for a few dozen values, each of which is kept twice.
#[test]
fn a_full_disk_refuses_puts_and_nothing_else() {
    if !has_means("a_full_disk_refuses_puts_and_nothing_else") {
        return;
    }
    fn launch(home: &Path, file: &Path, settings: &Settings) -> Command {
        behind("mkdir -p small && mount -t tmpfs -o size=128k none small", home, file, settings)
    }
    let server = NameServer::start(launch, &Settings::with(&[("kvConfigPath", "small/kvConfig.json")]));
    let text = "x".repeat(4_000);
    let stored = (0..100).take_while(|number| put(&server, &format!("k{number}"), &text).code() == 0).count();
    assert!((3..40).contains(&stored), "{stored} values are stored");
    let refused = put(&server, "k0", "changed");
    let is_whole = value(&server, "k0").as_deref() == Some(&*text) && value(&server, &format!("k{stored}")).is_none();
    // One that is shorter than what is there may find room.
    let is_same = refused.code() == 0 || is_whole;
    holds("D3", "full disk: a refused put changes nothing", is_same && value(&server, "k1").as_deref() == Some(&*text));
    let answer = put(&server, "new", &"x".repeat(60_000));
    let remark = answer.remark().unwrap_or_default();
    holds("D3", "full disk: the answer names the reason", answer.code() == 1 && remark.contains("No space left"));
    let delete = request(102, &[("namespace", "NS"), ("key", "k2")]);
    let mut client = Client::connect(server.addr());
    let is_deleted = client.code(&delete) == 0;
    assert!(is_deleted == value(&server, "k2").is_none(), "memory is as the answer says");
    assert_eq!(client.code(&request(206, &[])), 0, "lookups go on");
    assert!(server.output().contains("could not be stored"), "{}", server.output());
}

/// Fault X3: a link that another user has laid is not followed; ours is, with a warning about the folder.
#[test]
fn links_of_strangers_are_refused_and_open_folders_told() {
    if !has_means("links_of_strangers_are_refused_and_open_folders_told") {
        return;
    }
    let home = tempfile::TempDir::with_prefix("planted-").expect("a folder");
    let open = home.path().join("open");
    fs::create_dir(&open).and_then(|()| fs::set_permissions(&open, Permissions::from_mode(0o777))).expect("a folder");
    let (target, link) = (home.path().join("target"), open.join("kvConfig.json"));
    fs::write(&target, r#"{"configTable":{}}"#).expect("a file");
    symlink(&target, &link).and_then(|()| std::os::unix::fs::lchown(&link, Some(NOBODY), None)).expect("their link");
    let settings = Settings::with(&[("kvConfigPath", link.to_str().expect("UTF-8"))]);
    write_config(home.path(), free_port(), &settings);
    let output = ours::run_to_end(ours::launch(home.path(), &config_file(home.path()), &settings));
    let error = String::from_utf8_lossy(&output.stderr);
    holds(
        "X3",
        "a link of another user stops the start",
        output.status.code() == Some(255) && error.contains("link of user"),
    );
    assert_eq!(fs::read_to_string(&target).expect("the target"), r#"{"configTable":{}}"#);

    std::os::unix::fs::lchown(&link, Some(0), None).expect("our link");
    let server = ours::start(&settings);
    assert_eq!(put(&server, "k", "v").code(), 0);
    let is_told = server.output().contains("every user of this machine may replace the KV file");
    holds("X3", "a folder that all may write is told", is_told);
    assert!(fs::read_to_string(&target).expect("the target").contains("NS"), "the target is written");
    let created = ours::start(&Settings::default());
    assert_eq!(put(&created, "k", "v").code(), 0);
    let mode = mode_and_owner(&created.home().join("kvConfig.json")).0;
    holds("X3", "a new file is ours alone", mode == 0o600);
}

/// Fault B7.
#[test]
fn what_is_too_long_or_too_much_is_refused() {
    fn with_many_keys(home: &Path, file: &Path, settings: &Settings) -> Command {
        let keys: Vec<_> = (0..100_000).map(|number| format!("\"k{number}\":\"v\"")).collect();
        let text = format!("{{\"configTable\":{{\"NS\":{{{}}}}}}}", keys.join(","));
        fs::write(home.join("kvConfig.json"), text).expect("a KV file");
        ours::launch(home, file, settings)
    }
    // Beyond the default of headerBytesMax, which would end the connection before the KV store is asked.
    let server = NameServer::start(with_many_keys, &Settings::with(&[("headerBytesMax", "4194304")]));
    let before = fs::read(server.home().join("kvConfig.json")).expect("the file");
    let long = "x".repeat(MIB);
    let mut client = Client::connect(server.addr());
    for (what, request, limit) in [
        ("a namespace of 1 MiB", put_kv(&long, "k", "v"), "kv_key_bytes_max 1024"),
        ("a key of 1 MiB", put_kv("NS", &long, "v"), "kv_key_bytes_max 1024"),
        ("a value of 1 MiB", put_kv("NS", "k1", &long), "kv_value_bytes_max 65536"),
        ("key 100,001", put_kv("NS", "one more", "v"), "kv_keys_max 100000"),
    ] {
        let answer = client.call(&request);
        let is_refused = answer.code() == 1 && answer.remark().is_some_and(|remark| remark.contains(limit));
        holds("B7", &format!("{what} is refused: {limit}"), is_refused);
    }
    assert!(fs::read(server.home().join("kvConfig.json")).expect("the file") == before, "nothing is written");
    assert_eq!(client.code(&put_kv("NS", "k99999", "changed")), 0);
    assert_eq!(value(&server, "k99999").as_deref(), Some("changed"));
    assert_eq!(value(&server, "k1").as_deref(), Some("v"));
}

/// Row 20: what people leave in the file.
#[test]
fn a_kv_file_that_was_edited_by_hand_is_read() {
    fn by_hand(home: &Path, file: &Path, settings: &Settings) -> Command {
        let kv = home.join("kvConfig.json");
        if !kv.exists() {
            fs::write(&kv, "\u{feff}{ configTable: { NS: { k: 'v', \"n\": 5, }, }, }\r\n").expect("a KV file");
        }
        ours::launch(home, file, settings)
    }
    let mut server = NameServer::start(by_hand, &Settings::default());
    let is_read = value(&server, "k").as_deref() == Some("v") && value(&server, "n").as_deref() == Some("5");
    holds("20", "byte order mark, trailing commas, keys without quotes", is_read);
    // What we leave is what every version of the original reads and may overwrite.
    assert_eq!(put(&server, "k", "w").code(), 0);
    server.stop();
    let text = fs::read_to_string(server.home().join("kvConfig.json")).expect("the file");
    assert_eq!(text, r#"{"configTable":{"NS":{"k":"w","n":"5"}}}"#);
}
