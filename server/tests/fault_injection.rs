//! What a failure of ours costs, on every backend: `cargo test -p server --features all-backends,fault-injection --test
//! fault_injection`.
#![cfg(all(feature = "all-backends", feature = "fault-injection"))]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::broker::{Broker, request, route};
use support::frame::{Client, Received};
use support::process::{NameServer, Settings};
use support::unwritable::Unwritable;

const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A handler that panics costs its sender the connection, one on a background thread one answer; nobody else notices.
fn a_panic_of_a_handler_costs_one_connection(server: &NameServer) {
    let broker = Broker::new("b", 0, "10.0.0.1:10911", &["T", "U"]);
    let mut carrier = Client::connect(server.addr());
    assert_eq!(carrier.code(&broker.register()), 0);
    for _ in 0..3 {
        let mut victim = Client::connect(server.addr());
        victim.send(&request(99_901, &[]).encode());
        assert!(victim.is_closed_within(Duration::from_secs(5)));
        let mut other = Client::connect(server.addr());
        assert_eq!(other.call(&request(99_902, &[])).remark(), Some("internal error"));
        assert_eq!(other.code(&route("T")), 0, "the connection stays");
    }
    assert_eq!(carrier.code(&broker.heartbeat()), 0);
    assert_eq!(carrier.code(&broker.clone().at(2).register()), 0, "the writer goes on");
    assert_eq!(carrier.code(&route("U")), 0);
}

/// After a panic of the writer nothing is served that it may have left half done: the process ends, with a code of its own.
fn a_panic_of_the_writer_ends_the_process(server: &mut NameServer) {
    let mut client = Client::connect(server.addr());
    client.send(&request(99_903, &[]).encode());
    assert!(!matches!(client.receive(Duration::from_secs(5)), Received::Frame(_)), "nothing is acknowledged");
    assert_eq!(server.wait(EXIT_TIMEOUT).expect("it ends").code(), Some(70));
}

/// The log has this, or will have it when all that was written is collected.
fn is_said(server: &NameServer, text: &str) {
    assert!(server.prints_within(text, EXIT_TIMEOUT), "no {text:?} in {}", server.output());
}

/// Starts a server whose log cannot be written, and lets `test` have it.
fn without_a_log(start: impl Fn(&Settings) -> NameServer, test: impl Fn(&mut NameServer)) {
    for why in Unwritable::ALL {
        let (stderr, _reader) = why.open();
        println!("{why:?}");
        test(&mut start(&Settings { stderr: Some(stderr), ..Settings::default() }));
    }
}

/// Whatever becomes of the log: the process ends, within the time that it waits for its log and then some.
fn a_panic_of_the_writer_ends_the_process_soon(server: &mut NameServer) {
    let start = Instant::now();
    a_panic_of_the_writer_ends_the_process(server);
    let lasted = start.elapsed();
    assert!(lasted < Duration::from_secs(3), "ended after {lasted:?}");
}

/// Writes that are under way when the end comes are answered or not made; the end is not held up.
fn an_end_with_writes_in_flight(server: &mut NameServer) {
    let (addr, is_over) = (server.addr(), AtomicBool::new(false));
    thread::scope(|scope| {
        for number in 0..4 {
            let is_over = &is_over;
            scope.spawn(move || {
                let name = format!("b{number}");
                let mut client = Client::connect(addr);
                for version in 1.. {
                    let broker = Broker::new(&name, 0, &format!("10.0.0.{number}:1"), &["T", "U"]).at(version);
                    client.send(&broker.register().encode());
                    match client.receive(EXIT_TIMEOUT) {
                        Received::Frame(_) => {}
                        _ => break,
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(200));
        server.signal("TERM");
        let status = server.wait(EXIT_TIMEOUT).expect("it ends");
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(status.code(), Some(0));
    });
}

macro_rules! backends {
    ($($backend:ident: $name:literal,)*) => {
        $(mod $backend {
            use super::*;

            fn start() -> NameServer {
                start_with(&Settings::default())
            }

            fn start_with(settings: &Settings) -> NameServer {
                let launch = |home: &std::path::Path, file: &std::path::Path, settings: &Settings| {
                    let mut command = support::ours::launch(home, file, settings);
                    command.args(["--backend", $name]);
                    command
                };
                NameServer::start(launch, settings)
            }

            #[test]
            fn a_panic_of_a_handler() {
                a_panic_of_a_handler_costs_one_connection(&start());
            }

            #[test]
            fn a_panic_of_the_writer() {
                let mut server = start();
                a_panic_of_the_writer_ends_the_process(&mut server);
                is_said(&server, "the thread writer has panicked; the process ends: injected in the writer");
                is_said(&server, "thread 'writer' panicked at server/src/");
            }

            #[test]
            fn a_panic_of_a_handler_without_a_log() {
                without_a_log(start_with, |server| a_panic_of_a_handler_costs_one_connection(server));
            }

            #[test]
            fn a_panic_of_the_writer_without_a_log() {
                without_a_log(start_with, a_panic_of_the_writer_ends_the_process_soon);
            }

            #[test]
            fn an_end_with_writes() {
                an_end_with_writes_in_flight(&mut start());
            }
        })*
    };
}

backends! {
    rwlock: "rwlock",
    dashmap: "dashmap",
    left_right: "left-right",
    epoch: "epoch",
    cached: "cached",
}
