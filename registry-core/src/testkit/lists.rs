//! Kept lists on a strategy, while another thread changes the registry.
//!
//! The writer's version v is the port of a broker and the name of one of its topics: each version puts the topic `v` and
//! removes the one before, in one change. So every list tells the state that it was made from.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use super::fixture::{Broker, settings, table};
use crate::{
    Command, Millis, Name, Publisher, Reader, Registry, TableLimits, View, Writer,
    query::{List, ListCache},
};

/// What the readers of a [`storm`] have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Lists looked at.
    pub lists: u64,
    /// Lists that were kept from an earlier question.
    pub kept: u64,
    /// Lists of none or of two states.
    pub torn: u64,
    /// Lists that are older than what was acknowledged before the question.
    pub stale: u64,
}

/// Versions that the writer makes between two that change no list of topics, so that some lists can be kept.
const CHANGES_IN_A_ROW: u64 = 3;

/// Lets one writer publish until `readers` threads have had `lists` lists each, all of them from caches.
///
/// # Panics
/// When a thread does.
pub fn storm<R: Registry>(lists: u64, readers: usize) -> Findings {
    let (registry, publisher) = R::new();
    let mut writer = Writer::new(publisher, TableLimits::default());
    let acknowledged = AtomicU64::new(0);
    write_version(&mut writer, 1, &acknowledged);
    let reading = AtomicU64::new(readers as u64);
    let mut findings = Findings::default();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..readers)
            .map(|_| {
                let (registry, acknowledged, reading) = (Arc::clone(&registry), &acknowledged, &reading);
                scope.spawn(move || {
                    let findings = read(&mut registry.reader(), lists, acknowledged);
                    reading.fetch_sub(1, Ordering::Relaxed);
                    findings
                })
            })
            .collect();
        let mut version = 1;
        while reading.load(Ordering::Relaxed) > 0 {
            version += 1;
            write_version(&mut writer, version, &acknowledged);
            if version.is_multiple_of(CHANGES_IN_A_ROW) {
                // Something else changes for a while, and the lists stay.
                for perm in [4, 6] {
                    writer.apply(&Command::WipeWritePerm { broker_name: "b0".into() }, Millis(1));
                    let queues = vec![("b0".into(), crate::QueueSettings { perm, ..settings(6) })];
                    let (topic, source) = ("fixed".into(), super::fixture::source(0));
                    writer.execute(&Command::RegisterTopic { topic, queues, source }, Millis(1));
                    thread::yield_now();
                }
            }
            writer.tick();
        }
        for reader in readers {
            let found = reader.join().expect("a reader panicked");
            findings.lists += found.lists;
            findings.kept += found.kept;
            findings.torn += found.torn;
            findings.stale += found.stale;
        }
    });
    findings
}

fn write_version<P: Publisher>(writer: &mut Writer<P>, version: u64, acknowledged: &AtomicU64) {
    let name = format!("v{version}");
    let counter = i64::try_from(version).expect("few versions");
    let broker = Broker::new("b0", 0, &format!("10.0.0.1:{version}")).version(counter);
    let broker = broker.table(table(["fixed", &name], settings(6)));
    writer.apply(&Command::Register(Box::new(broker.0)), Millis(1));
    let former: Name = format!("v{}", version - 1).into();
    writer.apply(&Command::DeleteTopic { topic: former, cluster: None }, Millis(1));
    writer.publish();
    acknowledged.store(version, Ordering::Release);
}

fn read(reader: &mut impl Reader, lists: u64, acknowledged: &AtomicU64) -> Findings {
    let mut cache = ListCache::new();
    let mut findings = Findings::default();
    let mut last = [0, 0];
    let mut bodies: [bytes::Bytes; 2] = Default::default();
    for turn in 0..lists {
        let which = usize::from(turn % 4 == 0);
        let list = [List::AllTopics, List::ClusterInfo][which].clone();
        let before = acknowledged.load(Ordering::Acquire);
        let body = cache.get(reader, list, Millis(turn / 10), Millis(turn / 10));
        let text = std::str::from_utf8(&body).expect("a list is text");
        let marks = text.matches(["\"v", "10.0.0.1:"][which]).count();
        let version = number_after(text, ["\"v", "10.0.0.1:"][which]);
        findings.lists += 1;
        findings.kept += u64::from(body.as_ptr() == bodies[which].as_ptr());
        findings.torn += u64::from(marks != 1);
        findings.stale += u64::from(version.is_none_or(|version| version < before.max(last[which])));
        last[which] = version.unwrap_or(0);
        bodies[which] = body;
    }
    findings
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let (_, rest) = text.split_once(mark)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

/// Looks up a topic while another thread is in the middle of a scan and a third one waits to publish; says whether the
/// lookup was answered before the scan was over, and what it found.
///
/// # Panics
/// When a thread does.
pub fn lookup_during_a_scan<R: Registry>() -> Option<bool> {
    let (registry, publisher) = R::new();
    let mut writer = Writer::new(publisher, TableLimits::default());
    let acknowledged = AtomicU64::new(0);
    write_version(&mut writer, 1, &acknowledged);
    let (scan_has_begun, begun) = mpsc::channel();
    let (answered, answer) = mpsc::channel();
    thread::scope(|scope| {
        // Made before: to make one may wait for the publisher.
        let mut reader = registry.reader();
        let found = scope.spawn(move || {
            let mut found = None;
            registry.reader().scan(|view| {
                view.for_each_topic(|_, _| {
                    if found.is_none() {
                        scan_has_begun.send(()).expect("somebody waits");
                        found = Some(answer.recv_timeout(LOOKUP_TIMEOUT).ok());
                    }
                })
            });
            found.flatten()
        });
        begun.recv().expect("the scan begins");
        scope.spawn(|| write_version(&mut writer, 2, &acknowledged));
        // The publisher has to be waiting by then, if it waits.
        thread::sleep(Duration::from_millis(100));
        let is_found = reader.read(|view| view.with_topic("fixed", |entry| entry.is_some()));
        // The scan may have given up.
        let _ = answered.send(is_found);
        found.join().expect("the scan does not panic")
    })
}

/// How long a lookup may take on a busy machine.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
