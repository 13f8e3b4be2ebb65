//! Bytes to values and back: headers of requests, answers, bodies of registrations. The same under every strategy.

use std::{hint::black_box, time::Duration};

use backends::RwLockRegistry;
use benches::{
    client::{Codec, Query},
    cluster::{Broker, topic_names},
    matrix::world::{World, ask_route},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use registry_core::Registry as _;
use server::{
    body::{BodyLimits, parse_register_body},
    limits::Limits,
    remoting::{Decoded, Encoder, FrameDecoder, Request, SerializeType, codes::VERSION},
};

/// Brokers that a route shows.
const BROKERS: u64 = 8;

/// The header of a route query, from its frame to its fields.
fn headers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("header of a route query is read");
    for (name, kind) in [("JSON", SerializeType::Json), ("binary", SerializeType::RocketMq)] {
        let (bytes, limits) = (route_query(kind), Limits::default());
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let decoded = FrameDecoder::new().decode(black_box(&bytes), &limits);
                let Ok(Decoded::Frame(frame)) = decoded else { panic!("{decoded:?}") };
                let request = Request::decode(&frame, &limits).expect("a good header");
                assert!(request.ext.get("topic").is_some());
            });
        });
    }
    group.finish();
}

fn route_query(kind: SerializeType) -> Vec<u8> {
    let mut out = Vec::new();
    Codec::of(kind).encode(&mut out, &Query::route("orders-of-shop-000000"), 1_234_567);
    out
}

/// Header and length around the route of a topic on 8 brokers, which is copied.
fn answers(criterion: &mut Criterion) {
    let world = World::<RwLockRegistry>::new(100, BROKERS).expect("an empty registry takes brokers");
    let mut body = Vec::new();
    assert!(ask_route(&mut world.registry.reader(), &world.topics[0], &mut body));
    let mut group = criterion.benchmark_group("answer to a route query is written around its body");
    group.throughput(Throughput::Bytes(body.len() as u64));
    for (name, kind) in [("JSON", SerializeType::Json), ("binary", SerializeType::RocketMq)] {
        let encoder = Encoder::new(kind, &Limits::default());
        let mut out = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                let mark = encoder.begin_success(&mut out, black_box(1_234_567));
                out.extend_from_slice(black_box(&body));
                assert!(encoder.finish(&mut out, mark));
                black_box(out.len())
            });
        });
    }
    group.finish();
}

/// The topics of a registration, as brokers of 5.x send them by default: JSON, not compressed.
fn registrations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("body of a registration is parsed");
    for topics in [1_000, 10_000] {
        let names = topic_names(topics);
        let body = Broker::new(0).registration(names.iter().map(String::as_str)).body;
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.sample_size(20).bench_function(format!("{topics} topics"), |bencher| {
            bencher.iter(|| {
                let parsed = parse_register_body(Some(black_box(&body)), VERSION, false, 0, &BodyLimits::default());
                let held = parsed.expect("a good body").topics.expect("topics");
                assert_eq!(held.len(), topics);
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = headers, answers, registrations
}
criterion_main!(benches);
