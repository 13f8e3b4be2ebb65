//! Who may change the configuration, and what of it.

use std::collections::BTreeMap;
use std::fs;

use crate::support::broker::{get_config, put_kv, request, route, update_config};
use crate::support::frame::{Client, Frame};
use crate::support::local::Local;
use crate::support::ours;
use crate::support::process::{Settings, config_file};

const BLACK_LISTED: &str = "Can not update config in black list.";
const NOT_ALLOWED: &str = "Can not update config from this address, see adminAllowCidrs.";

/// A server with the configuration that it shows and its files, which must stay as they are.
struct Guarded {
    server: Local,
    shown: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Guarded {
    fn start(config: &[(&str, &str)]) -> Self {
        let server = Local::start(config);
        let shown = Client::connect(server.addr()).call(&get_config()).text();
        let files = files(&server);
        Self { server, shown, files }
    }

    /// Sends an update, which must be refused without any effect. Says code and remark.
    fn refused(&self, prefix: &[u8], text: &str) -> (i64, String) {
        let before = self.server.counts();
        let mut client = Client::connect(self.server.addr());
        client.send(prefix);
        let answer: Frame = client.call(&update_config(text));
        assert_ne!(answer.code(), 0, "{text:?} is taken");
        assert_eq!(client.call(&get_config()).text(), self.shown, "{text:?} has changed something");
        assert_eq!(files(&self.server), self.files, "{text:?} has changed a file");
        let counted = BTreeMap::from([("bad_request.config_update".to_string(), 1)]);
        assert_eq!(self.server.grown(&before), counted, "{text:?}");
        (answer.code(), answer.remark().unwrap_or_default().to_string())
    }
}

fn files(server: &Local) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(server.home()).expect("the home folder").map(|entry| entry.expect("an entry"));
    let read = |path| fs::read(path).expect("a file");
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(entry.path()))).collect()
}

#[test]
fn paths_of_files_are_never_taken() {
    let guarded = Guarded::start(&[("configBlackList", "listenPort;enableTopicList")]);
    for text in [
        "configStorePath=/tmp/x",
        "kvConfigPath=/tmp/x",
        "rocketmqHome=/tmp/x",
        "configBlackList=none",
        "configStorePath",
        "  configStorePath  =  /tmp/x",
        "\tkvConfigPath:/tmp/x",
        "kvConfigPath /tmp/x",
        "config\\u0053torePath=/tmp/x",
        "\\u0063onfigStorePath=/tmp/x",
        "conf\\igStorePath=/tmp/x",
        "configStore\\\n   Path=/tmp/x",
        "configStorePath\\ =/tmp/x",
        "\\u0020configStorePath=/tmp/x",
        "\\tkvConfigPath=/tmp/x",
        "# no comment\r\nkvConfigPath=/tmp/x",
        "enableAllTopicList=false\nkvConfigPath=/tmp/x",
        "kvConfigPath=/tmp/x\nenableAllTopicList=false",
        "enableAllTopicList=false\n\nrocketmqHome=/tmp/x\nwaitSecondsForService=1",
        // Even next to what would be refused for another reason.
        "nobodyKnows=1\nconfigStorePath=/tmp/x",
        // What the operator has listed.
        "enableTopicList=false",
        "orderMessageEnable=true\nlistenPort=1",
    ] {
        assert_eq!(guarded.refused(b"", text), (16, BLACK_LISTED.into()), "{text:?}");
    }
    let mut client = Client::connect(guarded.server.addr());
    assert_eq!(client.code(&request(206, &[])), 0, "enableAllTopicList is still true");
    assert_eq!(client.code(&request(224, &[("cluster", "c")])), 0, "enableTopicList is still true");
}

#[test]
fn what_is_not_understood_is_refused_as_a_whole() {
    let guarded = Guarded::start(&[("own", "1")]);
    for (text, reason) in [
        ("enableAllTopicList=false\nnobodyKnows=1", "nobodyKnows"),
        ("CONFIGSTOREPATH=/tmp/x", "CONFIGSTOREPATH"),
        ("configStorePath\\u0000=/tmp/x", "configStorePath"),
        ("enableAllTopicList=false\nwaitSecondsForService=abc", "waitSecondsForService"),
        ("waitSecondsForService=-1", "waitSecondsForService"),
        ("waitSecondsForService=99999999999", "waitSecondsForService"),
        ("enableAllTopicList=maybe", "enableAllTopicList"),
        ("enableAllTopicList=false\nclientRequestThreadPoolNums=abc", "clientRequestThreadPoolNums"),
        ("enableAllTopicList=false\nown=2", "own"),
        ("listenPort=x", "listenPort"),
        ("a=\\u12", "string2Properties error"),
        (&format!("productEnvName={}", "x".repeat(70_000)), "config_update_bytes_max"),
    ] {
        let (code, remark) = guarded.refused(b"", text);
        assert_eq!(code, 1, "{text:?}: {remark}");
        assert!(remark.contains(reason), "{text:?}: {remark}");
    }
}

#[test]
fn who_is_trusted_is_said_in_the_file_only() {
    let guarded = Guarded::start(&[]);
    for key in ["adminAllowCidrs", "proxyProtocolTrusted"] {
        let (code, remark) = guarded.refused(b"", &format!("enableAllTopicList=false\n{key}=0.0.0.0/0"));
        assert_eq!(code, 16, "{remark}");
        assert!(remark.contains(key), "{remark}");
    }
}

/// A value cannot become a line of its own in the file that is read at the next start.
#[test]
fn values_do_not_become_keys() {
    let mut server = ours::start(&Settings::with(&[]));
    let file = config_file(server.home());
    let kv_path = server.home().join("kvConfig.json");
    let mut client = Client::connect(server.addr());
    let text = "productEnvName=a\\nkvConfigPath\\=/tmp/x\\r\\nadminAllowCidrs\\=0.0.0.0/0";
    assert_eq!(client.code(&update_config(text)), 0);
    let stored = fs::read_to_string(&file).expect("the file");
    assert!(!stored.lines().any(|line| line.starts_with("kvConfigPath=/tmp/x")), "{stored}");
    assert!(!stored.lines().any(|line| line.starts_with("adminAllowCidrs")), "{stored}");
    server.restart();
    let mut client = Client::connect(server.addr());
    assert!(
        client.call(&get_config()).text().contains("productEnvName=a\nkvConfigPath=/tmp/x"),
        "the value is as it was sent"
    );
    assert_eq!(client.code(&put_kv("NS", "k", "v")), 0);
    assert!(kv_path.exists(), "the file is where it was");
}

#[test]
fn other_addresses_may_not_update() {
    let by_default = Guarded::start(&[]);
    let v2 = |command: u8, family: u8, addresses: &[u8]| {
        let length = u8::try_from(addresses.len()).expect("a few addresses");
        [b"\r\n\r\n\0\r\nQUIT\n", &[0x20 | command, family, 0, length][..], addresses].concat()
    };
    let foreign_v4 = v2(1, 0x11, &[8, 8, 8, 8, 127, 0, 0, 1, 0x10, 0, 0x26, 0x94]);
    let mut foreign_v6 = [0; 36];
    foreign_v6[0] = 0x20;
    foreign_v6[31] = 1;
    for (what, prefix) in [
        ("v1 TCP4", b"PROXY TCP4 8.8.8.8 127.0.0.1 1000 9876\r\n".to_vec()),
        ("v1 TCP6", b"PROXY TCP6 2001:db8::1 ::1 1000 9876\r\n".to_vec()),
        ("v1 mapped", b"PROXY TCP6 ::ffff:8.8.8.8 ::1 1000 9876\r\n".to_vec()),
        ("v2 TCP4", foreign_v4),
        ("v2 TCP6", v2(1, 0x21, &foreign_v6)),
    ] {
        assert_eq!(by_default.refused(&prefix, "enableTopicList=false"), (16, NOT_ALLOWED.into()), "{what}");
    }
    // The list is asked for first: a stranger is not told which keys are black-listed.
    let (_, remark) = by_default.refused(b"PROXY TCP4 8.8.8.8 127.0.0.1 1 2\r\n", "kvConfigPath=/tmp/x");
    assert_eq!(remark, NOT_ALLOWED);

    let elsewhere = Guarded::start(&[("adminAllowCidrs", "10.0.0.0/8")]);
    assert_eq!(elsewhere.refused(b"", "enableTopicList=false"), (16, NOT_ALLOWED.into()));
    // A PROXY header is only a claim: it forbids, it does not allow.
    let claim = b"PROXY TCP4 10.1.1.1 127.0.0.1 1000 9876\r\n";
    assert_eq!(elsewhere.refused(claim, "enableTopicList=false"), (16, NOT_ALLOWED.into()));
    let nowhere = Guarded::start(&[("adminAllowCidrs", "")]);
    assert_eq!(nowhere.refused(b"", "enableTopicList=false"), (16, NOT_ALLOWED.into()));
}

#[test]
fn allowed_addresses_may_update() {
    for (cidrs, prefix) in [
        ("127.0.0.0/8,::1/128", &b""[..]),
        ("127.0.0.0/8", b"PROXY TCP4 127.9.9.9 127.0.0.1 1000 9876\r\n"),
        ("127.0.0.1", b"PROXY UNKNOWN\r\n"),
        ("127.0.0.1,10.0.0.0/8", b"PROXY TCP4 10.1.1.1 127.0.0.1 1000 9876\r\n"),
    ] {
        let server = Local::start(&[("adminAllowCidrs", cidrs)]);
        let mut client = Client::connect(server.addr());
        client.send(prefix);
        let what = format!("{cidrs} {}", String::from_utf8_lossy(prefix));
        assert_eq!(client.code(&update_config("enableTopicList=false")), 0, "{what}");
        assert_eq!(client.call(&request(224, &[("cluster", "c")])).remark(), Some("disable"), "{what}");
        assert!(client.call(&get_config()).text().contains("enableTopicList=false\n"), "{what}");
        assert!(fs::read_to_string(config_file(server.home())).expect("the file").contains("enableTopicList=false\n"));
    }
}

/// PROXY headers that lie cost their connection, and no more memory than they may have.
#[test]
fn proxy_headers_that_lie_close_their_connection() {
    let server = Local::start(&[]);
    let long = [&b"PROXY TCP4 "[..], &[b'1'; 10_000]].concat();
    let v2 = |fixed: [u8; 4], rest: &[u8]| [&b"\r\n\r\n\0\r\nQUIT\n"[..], &fixed, rest].concat();
    for (what, header) in [
        ("a line without end", long),
        ("no address", b"PROXY TCP4 a b c d\r\n".to_vec()),
        ("a port too large", b"PROXY TCP4 1.1.1.1 1.1.1.1 70000 1\r\n".to_vec()),
        ("version 3", v2([0x31, 0x11, 0, 12], &[0; 12])),
        ("command 15", v2([0x2F, 0x11, 0, 12], &[0; 12])),
        ("too short for its addresses", v2([0x21, 0x11, 0, 4], &[0; 4])),
    ] {
        let before = server.counts();
        let mut client = Client::connect(server.addr());
        client.send(&header);
        assert!(client.is_closed_within(std::time::Duration::from_secs(5)), "{what}");
        assert_eq!(server.grown(&before), BTreeMap::from([("bad_frame.bad_proxy".to_string(), 1)]), "{what}");
    }
    // A second header is a frame, and a bad one.
    let mut client = Client::connect(server.addr());
    client.send(b"PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n");
    assert!(client.is_closed_within(std::time::Duration::from_secs(5)));
    assert_eq!(Client::connect(server.addr()).code(&route("T")), 17);
}
