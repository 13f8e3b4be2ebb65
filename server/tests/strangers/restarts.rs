//! D6: a server that is killed and comes back: brokers bring everything back within their period.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::peers::{Ongoing, millis};
use crate::report::at_most;
use crate::support::broker::{Broker, put_kv, route};
use crate::support::frame::{Client, Frame, Received};
use crate::support::ours;
use crate::support::process::Settings;

const BROKERS: u8 = 50;
/// A tenth of a broker's period.
const PERIOD: Duration = Duration::from_secs(3);

/// Registers now and then every period, as a broker does: on a connection that is opened again when it is lost.
fn register_for_ever(addr: SocketAddr, number: u8) -> Ongoing<()> {
    let broker =
        Broker::new(&format!("b{number}"), 0, &format!("10.0.0.{number}:10911"), &["T", &format!("T{number}")]);
    Ongoing::start(move |done| {
        let request = broker.register().encode();
        // The first at once, and then not all of them at the same moment.
        let mut due = Instant::now();
        let mut next_due = due + PERIOD * u32::from(number) / u32::from(BROKERS);
        let mut client: Option<Client> = None;
        while !done.load(Ordering::Relaxed) {
            if Instant::now() < due {
                thread::sleep(Duration::from_millis(30));
                continue;
            }
            due = next_due;
            next_due += PERIOD;
            let answered = client.as_mut().is_some_and(|client| {
                client.send(&request);
                matches!(client.receive(Duration::from_secs(3)), Received::Frame(_))
            });
            if !answered {
                client = TcpStream::connect(addr).ok().map(Client::new);
                if let Some(client) = &mut client {
                    client.send(&request);
                    client.receive(Duration::from_secs(3));
                }
            }
        }
    })
}

#[test]
#[ignore = "takes long"]
fn routes_come_back_within_a_period_after_a_kill() {
    for (wait, allowed) in [("false", [0, 17]), ("true", [0, 1])] {
        let config = [("needWaitForService", wait), ("waitSecondsForService", "6")];
        let mut server = ours::start(&Settings::with(&config));
        let addr = server.addr();
        let brokers: Vec<_> = (0..BROKERS).map(|number| register_for_ever(addr, number)).collect();
        let mut client = Client::connect(addr);
        let start = Instant::now();
        while (0..BROKERS).any(|number| client.code(&route(&format!("T{number}"))) != 0) {
            assert!(start.elapsed() < Duration::from_secs(15), "the brokers do not register");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(client.code(&put_kv("NS", "k", "v")), 0);
        server.kill();
        thread::sleep(Duration::from_millis(300));
        let killed = Instant::now();
        server.restart();
        at_most("D6", "ms until the port is open after a kill", millis(killed.elapsed()), 500);
        let mut client = Client::connect(addr);
        let mut codes: BTreeMap<i64, u64> = BTreeMap::new();
        let mut missing = usize::from(BROKERS);
        while missing > 0 && killed.elapsed() < Duration::from_secs(12) {
            missing = 0;
            for number in 0..BROKERS {
                client.send(&route(&format!("T{number}")).encode());
                let Received::Frame(answer) = client.receive(Duration::from_secs(5)) else { panic!("no answer") };
                let code = Frame::parse(&answer).expect("a frame").code();
                *codes.entry(code).or_default() += 1;
                missing += usize::from(code != 0);
            }
            thread::sleep(Duration::from_millis(10));
        }
        let back = killed.elapsed();
        println!("all back after {back:?}; codes {codes:?}");
        let wrong: u64 = codes.iter().filter(|(code, _)| !allowed.contains(*code)).map(|(_, count)| count).sum();
        at_most("D6", &format!("answers but a route and {}, needWaitForService={wait}", allowed[1]), wrong, 0);
        // Clients that wait are told so until the time to wait is over.
        let limit = if wait == "true" { Duration::from_secs(6) } else { PERIOD } + Duration::from_secs(2);
        at_most("D6", &format!("ms until all routes are back, needWaitForService={wait}"), millis(back), millis(limit));
        brokers.into_iter().for_each(Ongoing::finish);
    }
}
