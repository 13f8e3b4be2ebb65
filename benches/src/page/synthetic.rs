//! Invented numbers of every kind, to try the page without a run. They say nothing of any server.

use crate::results::{Machine, Measure, Missing, Results, Sample};

/// Rounds of each sample.
const ROUNDS: usize = 5;
const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 100.0];
/// How much longer each percentile is than the median, without anything that waits.
const QUIET: [f64; 6] = [1.0, 1.4, 2.1, 6.0, 14.0, 40.0];

/// A subject, and by which factors it differs from the floor: time of a query, tail while much changes, memory, cost of
/// a change.
struct Invented(&'static str, f64, f64, f64, f64);

const BACKENDS: [Invented; 5] = [
    Invented("rwlock", 1.07, 520.0, 1.0, 1.0),
    Invented("dashmap", 1.09, 1.3, 1.22, 1.2),
    Invented("left-right", 1.08, 0.95, 1.27, 1.3),
    Invented("epoch", 1.09, 3.2, 1.08, 1.7),
    Invented("cached", 1.08, 1.2, 1.1, 1.6),
];
const PEERS: [Invented; 2] =
    [Invented("official 5.5.0", 5.2, 30.0, 6.8, 9.0), Invented("rocketmq-rust 1.0.0", 2.4, 60.0, 2.9, 4.0)];

/// A whole run on a machine that does not exist.
pub fn results() -> Results {
    let mut results = Results {
        machine: Machine {
            date: "2026-01-01 00:00".to_owned(),
            processor: "invented numbers, no processor".to_owned(),
            cores: 2,
            memory_mib: 7_960,
            system: "none".to_owned(),
            compiler: "none".to_owned(),
            commit: "none".to_owned(),
            load: (0.4, 2.1),
        },
        is_complete: true,
        missing: vec![Missing { subject: "a peer".to_owned(), reason: "it is <not> installed".to_owned() }],
        ..Results::default()
    };
    let mut noise = Noise(1);
    queries(&mut results, &mut noise);
    storms(&mut results, &mut noise);
    sizes(&mut results, &mut noise);
    in_process(&mut results, &mut noise);
    for operation in 0..14 {
        let at = [("operation", f64::from(operation))];
        let count = 900.0 * 1.7_f64.powi(operation);
        results.samples.push(Sample::new(Measure::Instructions, "rwlock", &at, vec![count.round()]));
    }
    results
}

/// Values around a middle, always the same ones.
struct Noise(u64);

impl Noise {
    fn around(&mut self, middle: f64) -> Vec<f64> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f64 / f64::from(1 << 24) - 0.5
        };
        (0..ROUNDS).map(|_| middle * (1.0 + 0.06 * next())).collect()
    }

    fn add(&mut self, results: &mut Results, measure: Measure, subject: &str, at: &[(&str, f64)], middle: f64) {
        results.samples.push(Sample::new(measure, subject, at, self.around(middle)));
    }

    /// Every percentile; the median is `middle`, and above it the tail is so many times the quiet one.
    fn add_tail(
        &mut self,
        results: &mut Results,
        measure: Measure,
        subject: &str,
        at: &[(&str, f64)],
        (middle, tail): (f64, f64),
    ) {
        for (place, (percentile, factor)) in PERCENTILES.into_iter().zip(QUIET).enumerate() {
            let grown = if place < 2 { 1.0 } else { tail.max(1.0).powf(1.0 / (1.0 + 0.18 * (place - 2) as f64)) };
            let at: Vec<_> = at.iter().copied().chain([("percentile", percentile)]).collect();
            self.add(results, measure, subject, &at, middle * factor * grown);
        }
    }
}

fn queries(results: &mut Results, noise: &mut Noise) {
    let floors = [Invented("floor 1 worker", 1.0, 1.0, 1.0, 1.0), Invented("floor 2 workers", 1.1, 1.0, 1.0, 1.0)];
    for Invented(subject, time, ..) in BACKENDS.iter().chain(&PEERS).chain(&floors) {
        for (in_flight, rate, cpu) in [(1.0, 130e3, 7.4), (4.0, 434e3, 2.2)] {
            let at = [("connections", 16.0), ("in_flight", in_flight), ("topics", 1e3)];
            noise.add(results, Measure::QueryRate, subject, &at, rate / time);
            noise.add(results, Measure::QueryCpu, subject, &at, cpu * time);
            noise.add(results, Measure::GeneratorCpu, subject, &at, 55.0);
            noise.add_tail(results, Measure::QueryLatency, subject, &at, (120.0 * in_flight.sqrt() * time, *time));
        }
        noise.add_tail(results, Measure::OpenLatency, subject, &[("per_second", 1e4)], (90.0 * time, *time));
        noise.add(results, Measure::Start, subject, &[], 2.1 * time.powi(4));
    }
}

fn storms(results: &mut Results, noise: &mut Noise) {
    for Invented(subject, time, tail, _, change) in BACKENDS.iter().chain(&PEERS) {
        let tail = 1.0 + tail.ln_1p();
        noise.add(results, Measure::StormRate, subject, &[("in_flight", 4.0)], 330e3 / time / tail.sqrt());
        noise.add_tail(results, Measure::StormLatency, subject, &[], (180.0 * time, tail));
        noise.add_tail(results, Measure::StormRegistration, subject, &[], (6.0 * change, 1.2));
        noise.add(results, Measure::StormApplied, subject, &[], 99.0 / change.sqrt());
        for (changed, cost) in [(0.0, 1.1), (1.0, 5.2)] {
            noise.add(results, Measure::RegistrationCpu, subject, &[("changed", changed)], cost * change);
        }
        noise.add(results, Measure::AvalancheTime, subject, &[], 1.1 * change);
        noise.add_tail(results, Measure::AvalancheLatency, subject, &[], (200.0 * time, 2.0 * tail));
        noise.add(results, Measure::AvalanchePeak, subject, &[], 1.6);
    }
}

fn sizes(results: &mut Results, noise: &mut Noise) {
    for Invented(subject, time, _, memory, change) in BACKENDS.iter().chain(&PEERS) {
        let large = [("topics", 1e5), ("brokers", 4.0)];
        noise.add(results, Measure::Memory, subject, &large, 60.0 * memory);
        noise.add(results, Measure::MemoryPeak, subject, &large, 102.0 * memory);
        noise.add(results, Measure::IdleMemory, subject, &[], 4.3 * memory.powi(2));
        noise.add(results, Measure::ConnectionMemory, subject, &[("connections", 1e4)], 6.1 * memory);
        for (measure, value) in [(Measure::Wipe, 0.03), (Measure::Death, 1.6), (Measure::Disturbance, 1.3)] {
            noise.add(results, measure, subject, &[("topics", 1e5)], value * change);
        }
        noise.add(results, Measure::TopicList, subject, &[("topics", 2e5)], 42.0 * time);
        noise.add(results, Measure::TopicListLatency, subject, &[("topics", 2e5)], 2.2 * time);
        noise.add(results, Measure::Gone, subject, &[], 2.4 * time);
        results.samples.push(Sample::new(Measure::Lost, *subject, &[], vec![if *time > 2.0 { 26.0 } else { 0.0 }]));
    }
    let default = BACKENDS[0].0;
    for Invented(subject, _, _, memory, _) in &BACKENDS {
        for topics in [1e3, 1e4, 1e5, 1e6] {
            if topics < 1e6 || *subject == default {
                let at = [("topics", topics), ("brokers", 2.0)];
                noise.add(results, Measure::Memory, subject, &at, 4.0 + 4.4e-4 * topics * memory);
            }
        }
    }
    for (subject, factor) in [(default, 1.07), ("floor 1 worker", 1.0), ("floor 2 workers", 1.2)] {
        for connections in [1.0, 256.0, 4_096.0_f64] {
            let at = [("connections", connections), ("in_flight", 1.0), ("topics", 1e3)];
            let rate = if connections == 1.0 { 24e3 } else { 210e3 / connections.log10() };
            noise.add(results, Measure::QueryRate, subject, &at, rate / factor);
            noise.add(results, Measure::QueryCpu, subject, &at, 1e6 / rate / 1.9 * factor);
        }
    }
    for (topics, grown) in [(1e3, 1.0), (1e4, 1.02), (1e5, 1.15), (1e6, 1.3)] {
        let at = [("connections", 16.0), ("in_flight", 8.0), ("topics", topics)];
        noise.add(results, Measure::QueryRate, default, &at, 520e3 / grown);
        noise.add(results, Measure::QueryCpu, default, &at, 1.7 * grown);
        noise.add(results, Measure::HeartbeatCpu, default, &[("topics", topics)], 1.4);
    }
    for brokers in [10.0, 100.0, 300.0, 1_000.0] {
        noise.add(results, Measure::ConnectionLoss, default, &[("brokers", brokers)], 0.21);
    }
}

fn in_process(results: &mut Results, noise: &mut Noise) {
    let baselines = [Invented("frozen", 1.0, 1.0, 1.0, 1.0), Invented("dirty", 1.0, 1.05, 1.0, 1.0)];
    for invented in BACKENDS.iter().chain(&baselines) {
        for topics in [1e3, 1e4, 1e5] {
            reads(results, noise, invented, topics);
        }
        changes(results, noise, invented);
        let Invented(subject, _, _, memory, _) = *invented;
        for topics in [1e4, 1e5] {
            for (rewrites, grown) in [(0.0, 1.0), (20.0, 1.08)] {
                let at = [("topics", topics), ("rewrites", rewrites)];
                noise.add(results, Measure::RegistryMemory, subject, &at, 4.2e-4 * topics * memory * grown);
            }
        }
    }
}

fn reads(results: &mut Results, noise: &mut Noise, &Invented(subject, time, tail, ..): &Invented, topics: f64) {
    let has_all = topics == 1e4;
    for (mix, hurts) in [(0.0, 0.0), (1.0, 0.01), (2.0, 1.0), (3.0, 0.02)] {
        if !has_all && mix != 0.0 && mix != 2.0 {
            continue;
        }
        let at = [("mix", mix), ("topics", topics)];
        let tail = (1.0 + (tail - 1.0) * hurts).max(0.9);
        noise.add_tail(results, Measure::ReadLatency, subject, &at, (0.13 * topics.log10(), tail));
        let torn = if subject == "dirty" && mix > 0.0 { 13_678.0 } else { 0.0 };
        results.samples.push(Sample::new(Measure::Torn, subject, &at, vec![torn; ROUNDS]));
        for threads in [1.0, 2.0, 4.0_f64] {
            if threads > 2.0 && !(has_all && mix == 0.0) {
                continue;
            }
            let mut at = vec![at[0], at[1], ("threads", threads)];
            if threads > 2.0 {
                at.push(("oversubscribed", 1.0));
            }
            let shared = if subject == "rwlock" { 0.7 } else { 1.0 };
            let rate = 8.2 * threads.min(2.0).powf(shared) / time;
            noise.add(results, Measure::ReadRateCpu, subject, &at, rate);
            noise.add(results, Measure::ReadRate, subject, &at, 0.9 * rate);
        }
    }
}

fn changes(results: &mut Results, noise: &mut Noise, &Invented(subject, _, _, _, change): &Invented) {
    let waits = matches!(subject, "left-right" | "dashmap" | "dirty");
    for (kind, cost) in [3.8, 1.2, 1.8, 180.0, 900.0].into_iter().enumerate() {
        for (topics, readers) in [(1e3, 0.0), (1e4, 0.0), (1e4, 2.0), (1e5, 0.0)] {
            let at = [("change", kind as f64), ("topics", topics), ("readers", readers)];
            let stall = if readers > 0.0 && waits { 300.0 } else { 1.0 };
            noise.add_tail(results, Measure::ChangeTime, subject, &at, (cost * change, stall));
        }
    }
    for slice in 0..30 {
        let stall = if slice % 7 == 3 && subject == "left-right" { 30.0 } else { 1.0 };
        let at = [("ms", f64::from(slice) * 10.0), ("topics", 1e4), ("readers", 2.0)];
        noise.add(results, Measure::WriterStall, subject, &at, 30.0 * change * stall);
    }
    if subject != "frozen" {
        noise.add_tail(results, Measure::Visibility, subject, &[("topics", 1e4)], (0.6 * change, 1.0));
    }
}
