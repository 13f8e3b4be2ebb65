//! What a connection begins with: PROXY headers, which only some may send.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::{is_closed, millis, next, source};
use crate::report::{at_most, holds};
use crate::support::broker::route;
use crate::support::frame::Client;
use crate::support::local::Local;
use crate::support::ours;
use crate::support::process::Settings;

const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const V1: &[u8] = b"PROXY TCP4 10.1.2.3 127.0.0.1 1000 9876\r\n";
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A header of version 2 with this command and length word, and these bytes after it.
fn v2(command: u8, length: u16, rest: &[u8]) -> Vec<u8> {
    [V2_SIGNATURE, &[0x20 | command, 0x11], &length.to_be_bytes(), rest].concat()
}

fn v2_of(from: Ipv4Addr) -> Vec<u8> {
    let addresses = [&from.octets()[..], &[127, 0, 0, 1, 0x10, 0, 0x26, 0x94]].concat();
    v2(1, 12, &addresses)
}

fn headers() -> [(&'static str, Vec<u8>); 4] {
    [
        ("version 1", V1.to_vec()),
        ("version 1, unknown", b"PROXY UNKNOWN\r\n".to_vec()),
        ("version 2", v2_of(Ipv4Addr::new(10, 1, 2, 3))),
        ("version 2, local", v2(0, 0, b"")),
    ]
}

/// Sends a header and a question. Whether the question is answered; the connection is closed if not.
fn is_served(client: &mut Client, header: &[u8]) -> bool {
    client.send(header);
    client.send(&route("T").encode());
    match next(client, CLOSE_TIMEOUT) {
        Some(answer) => answer.code() == 17,
        None => {
            assert!(is_closed(client), "neither an answer nor an end");
            false
        }
    }
}

#[test]
fn only_trusted_peers_may_say_whom_they_speak_for() {
    for (trusted, from, is_trusted) in [
        (None, 1, true),
        (None, 3, true),
        (Some("10.0.0.0/8,127.0.0.2"), 2, true),
        (Some("10.0.0.0/8,127.0.0.2"), 3, false),
        (Some("127.0.0.2/31"), 3, true),
        (Some("127.0.0.2/31"), 1, false),
        (Some(""), 1, false),
    ] {
        let mut wrong = 0;
        let config: Vec<_> = trusted.iter().map(|cidrs| ("proxyProtocolTrusted", *cidrs)).collect();
        let server = Local::start(&config);
        for (what, header) in headers() {
            let before = server.counts();
            let served = is_served(&mut Client::connect_from(source(from), server.addr()), &header);
            let said = format!(
                "{what} from {} is {} with {trusted:?}",
                source(from),
                if is_trusted { "taken" } else { "refused" }
            );
            if served != is_trusted {
                println!("wrong: {said}");
                wrong += 1;
            }
            let grown: Vec<_> = server.grown(&before).into_iter().collect();
            match &grown[..] {
                [] => assert!(is_trusted || served, "{said}: it is not counted"),
                [(name, 1)] => assert!(!is_trusted && name.contains("proxy_untrusted"), "{said}: {name}"),
                more => panic!("{said}: {more:?}"),
            }
        }
        let what = if is_trusted { "trusted" } else { "untrusted" };
        at_most("doors", &format!("of 4 PROXY headers of {what} peers taken for others'"), wrong, 0);
        // Whoever speaks for himself is served.
        assert!(is_served(&mut Client::connect_from(source(from), server.addr()), b""));
    }
}

/// A header that begins as one, which 12 bytes tell, and comes from where none may come from is refused at once, not when it is whole.
#[test]
fn an_untrusted_header_is_not_waited_for() {
    let server = ours::start(&Settings::with(&[("proxyProtocolTrusted", "10.0.0.0/8")]));
    for start in [&V1[..12], &v2(1, 65_535, b"")] {
        let mut client = Client::connect(server.addr());
        client.send(start);
        holds("doors", "the start of an untrusted header ends its connection", client.is_closed_within(CLOSE_TIMEOUT));
    }
}

#[test]
fn a_header_in_pieces_is_one() {
    let server = ours::start(&Settings::default());
    let long = v2(1, 12 + 3 + 4_000, &[&v2_of(source(9))[16..], &[0x04, 0x0F, 0xA0], &[0; 4_000]].concat());
    for (what, header) in [("version 1", V1.to_vec()), ("version 2", v2_of(source(9))), ("version 2, 4 kB", long)] {
        let mut client = Client::connect(server.addr());
        for byte in &header {
            client.send(&[*byte]);
        }
        holds("X6", &format!("a header byte by byte is taken: {what}"), is_served(&mut client, b""));
    }
    // As long as its length can say.
    let longest = v2(1, 65_535, &[&v2_of(source(9))[16..], &[0x04, 0xFF, 0xF0 - 12], &[0; 65_535 - 15]].concat());
    let mut client = Client::connect(server.addr());
    holds("X6", "a header of 65,551 bytes is taken", is_served(&mut client, &longest));
}

#[test]
fn headers_that_lie_cost_their_connection_and_nothing_else() {
    let server = Local::start(&[("frameReadTimeoutMillis", "1000")]);
    let mut good = Client::connect(server.addr());
    assert_eq!(good.code(&route("T")), 17);
    let addresses = v2_of(source(9))[16..].to_vec();
    // Refused as soon as it is seen.
    for (what, header) in [
        ("a line of 10 kB", [b"PROXY TCP4 ", &[b'1'; 10_000][..]].concat()),
        ("a line without its end, of 108 bytes", [b"PROXY TCP4 ", &[b'1'; 97][..]].concat()),
        ("too short for its addresses", v2(1, 11, &addresses)),
        ("shorter than it is", v2(1, 12, &[&addresses[..], &[0xFF; 40]].concat())),
    ] {
        let before = server.counts();
        let mut client = Client::connect(server.addr());
        client.send(&header);
        holds("X6", &format!("closed: {what}"), client.is_closed_within(Duration::from_millis(700)));
        assert_eq!(server.grown(&before).values().sum::<u64>(), 1, "{what}: {:?}", server.grown(&before));
    }
    // Waited for, but not for ever.
    for (what, header) in [
        ("a signature alone", V2_SIGNATURE.to_vec()),
        ("a line that does not end", V1[..30].to_vec()),
        ("longer than it is", v2(1, 65_535, &addresses)),
    ] {
        let before = server.counts();
        let mut client = Client::connect(server.addr());
        client.send(&header);
        let start = Instant::now();
        let is_closed = client.is_closed_within(Duration::from_secs(5));
        holds("X6", &format!("closed in the end: {what}"), is_closed);
        at_most("X6", "ms until a header that does not end is closed, of 1,000", millis(start.elapsed()), 2_500);
        assert!(start.elapsed() > Duration::from_millis(500), "{what}: closed after {:?}", start.elapsed());
        let grown: BTreeMap<_, _> = server.grown(&before);
        assert_eq!(grown.values().sum::<u64>(), 1, "{what}: {grown:?}");
    }
    assert_eq!(good.code(&route("T")), 17);
}

/// S9: the limit for each source counts those whom trusted peers speak for, not what others claim.
#[test]
fn the_limit_for_each_source_looks_behind_trusted_proxies() {
    let config = [("maxConnectionsPerIp", "5"), ("proxyProtocolTrusted", "127.0.0.2")];
    let server = ours::start(&Settings::with(&config));
    let open = |count: usize, header: &dyn Fn(usize) -> Vec<u8>| -> Vec<Client> {
        let connect = |number| {
            let mut client = Client::connect_from(source(2), server.addr());
            is_served(&mut client, &header(number)).then_some(client)
        };
        (0..count).filter_map(connect).collect()
    };
    let others = open(8, &|number| v2_of(Ipv4Addr::new(10, 0, 0, u8::try_from(number + 1).expect("few"))));
    holds("S9", "eight sources behind one trusted proxy are served", others.len() == 8);
    let same = open(8, &|_| v2_of(Ipv4Addr::new(10, 0, 9, 9)));
    at_most("S9", "connections of one source behind a trusted proxy", same.len(), 5);
    assert_eq!(same.len(), 5);
    drop((others, same));
    thread::sleep(Duration::from_millis(200));
    let mut again = open(1, &|_| v2_of(Ipv4Addr::new(10, 0, 9, 9)));
    holds("S9", "room is given back", again.len() == 1);
    assert_eq!(again[0].code(&route("T")), 17);
}
