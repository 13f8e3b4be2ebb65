//! The operations that need no server, each repeated in a loop.

use std::hint::black_box;

use anyhow::{bail, ensure};
use backends::RwLockRegistry;
use registry_core::{
    Command, LiveKey, Outcome, Reader, Registry, View,
    query::{self, Heartbeat, TopicNames},
};
use server::{
    body::{BodyLimits, parse_register_body},
    limits::Limits,
    remoting::{Decoded, Encoder, FrameDecoder, Request, SerializeType, codes::VERSION},
};

use super::Operation;
use crate::{
    client::{Codec, Query},
    cluster::Broker,
    matrix::world::{CHANGING, CLUSTER, NOW, World, ask_route, broker_addr, registration, wipe_and_back},
};

const TOPICS: usize = 1_000;
pub(super) const BROKERS: usize = 8;
/// Registries whose topics are listed by turns: how long sorting takes depends on the order in which a
/// table has its keys, which is another one in each.
const WORLDS: usize = 32;
/// So many that the place of a key in its table does not matter.
const BEATING_BROKERS: u64 = 4_000;

/// Repeats an operation in this process. Those of a server are none of it.
///
/// # Errors
/// When an operation does not do what it is for.
pub fn run(operation: Operation, times: u64) -> anyhow::Result<()> {
    match operation {
        Operation::Lookup => lookup(times),
        Operation::JsonHeader => header(SerializeType::Json, times),
        Operation::BinaryHeader => header(SerializeType::RocketMq, times),
        Operation::Frame => frame(times),
        Operation::Answer => answer(times),
        Operation::Heartbeat => heartbeat(times),
        Operation::RegistrationUnchanged => registrations(false, times),
        Operation::RegistrationChanged => registrations(true, times),
        Operation::RegisterBody => register_body(times),
        Operation::Wipe => wipe(times),
        Operation::TopicList => topic_list(times),
        Operation::ServedRoute | Operation::ServedRoutePipelined => bail!("{} takes a server", operation.name()),
    }
}

fn world() -> anyhow::Result<World<RwLockRegistry>> {
    World::new(TOPICS, BROKERS as u64)
}

fn lookup(times: u64) -> anyhow::Result<()> {
    let world = world()?;
    let mut reader = world.registry.reader();
    let mut out = Vec::new();
    for topic in world.topics.iter().cycle().take(times as usize) {
        ensure!(ask_route(&mut reader, topic, &mut out), "{topic} has no route");
        black_box(&out);
    }
    Ok(())
}

fn query_of_route(kind: SerializeType) -> Vec<u8> {
    let mut out = Vec::new();
    Codec::of(kind).encode(&mut out, &Query::route("orders-of-shop-000000"), 1_234_567);
    out
}

fn header(kind: SerializeType, times: u64) -> anyhow::Result<()> {
    let (bytes, limits) = (query_of_route(kind), Limits::default());
    let Decoded::Frame(frame) = FrameDecoder::new().decode(&bytes, &limits)? else { bail!("the frame is not whole") };
    for _ in 0..times {
        let request = Request::decode(black_box(&frame), &limits)?;
        ensure!(request.ext.get("topic").is_some(), "no topic");
    }
    Ok(())
}

fn frame(times: u64) -> anyhow::Result<()> {
    let (bytes, limits) = (query_of_route(SerializeType::Json), Limits::default());
    let mut decoder = FrameDecoder::new();
    for _ in 0..times {
        let decoded = decoder.decode(black_box(&bytes), &limits)?;
        ensure!(matches!(decoded, Decoded::Frame(_)), "the frame is not whole");
    }
    Ok(())
}

fn answer(times: u64) -> anyhow::Result<()> {
    let world = world()?;
    let mut body = Vec::new();
    ensure!(ask_route(&mut world.registry.reader(), &world.topics[0], &mut body), "no route");
    let encoder = Encoder::new(SerializeType::Json, &Limits::default());
    let mut out = Vec::new();
    for _ in 0..times {
        out.clear();
        let mark = encoder.begin_success(&mut out, black_box(1_234_567));
        out.extend_from_slice(black_box(&body));
        ensure!(encoder.finish(&mut out, mark), "the answer is too long");
        black_box(&out);
    }
    Ok(())
}

fn heartbeat(times: u64) -> anyhow::Result<()> {
    let mut world = World::<RwLockRegistry>::new(0, BEATING_BROKERS)?;
    let keys: Vec<_> =
        (0..BEATING_BROKERS).map(|broker| LiveKey { cluster: CLUSTER.into(), addr: broker_addr(broker) }).collect();
    world.writer.tick();
    let mut reader = world.registry.reader();
    for key in keys.iter().cycle().take(times as usize) {
        let heartbeat = reader.read(|view| Ok(query::heartbeat(view.root(), key, NOW)));
        ensure!(heartbeat == Heartbeat::Beaten, "{heartbeat:?}");
    }
    Ok(())
}

fn registrations(is_changed: bool, times: u64) -> anyhow::Result<()> {
    let mut world = world()?;
    let mut both = [5, 6].map(|turn| registration(CHANGING, &world.topics, turn));
    if !is_changed {
        both[1] = both[0].clone();
    }
    let mut commands = both.map(|registration| Command::Register(Box::new(registration)));
    for turn in 0..times {
        let command = &mut commands[turn as usize % 2];
        if let Command::Register(registration) = command {
            registration.body.data_version.counter = Some(if is_changed { 1_000 + turn as i64 } else { 1_000 });
        }
        let outcome = world.writer.execute(command, NOW).outcome;
        ensure!(matches!(outcome, Outcome::Registered(_)), "{outcome:?}");
    }
    Ok(())
}

fn register_body(times: u64) -> anyhow::Result<()> {
    let topics = crate::cluster::topic_names(TOPICS);
    let body = Broker::new(0).registration(topics.iter().map(String::as_str)).body;
    for _ in 0..times {
        let parsed = parse_register_body(Some(black_box(&body)), VERSION, false, 0, &BodyLimits::default())?;
        ensure!(parsed.topics.is_some(), "no topics");
    }
    Ok(())
}

fn wipe(times: u64) -> anyhow::Result<()> {
    let mut world = world()?;
    for command in wipe_and_back().iter().cycle().take(times as usize) {
        let outcome = world.writer.execute(command, NOW).outcome;
        ensure!(outcome == Outcome::TopicsChanged(TOPICS as u32), "{outcome:?}");
    }
    Ok(())
}

fn topic_list(times: u64) -> anyhow::Result<()> {
    let worlds = (0..WORLDS).map(|_| World::<RwLockRegistry>::new(TOPICS, 2)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut readers: Vec<_> = worlds.iter().map(|world| world.registry.reader()).collect();
    let mut names = TopicNames::default();
    for turn in 0..times as usize {
        readers[turn % WORLDS].scan(|view| query::all_topics(view, &mut names));
        let list = names.to_list();
        ensure!(list.len() > TOPICS, "{} bytes are no list", list.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_does_what_it_is_for() {
        for operation in Operation::ALL {
            let result = run(operation, 3);
            assert_eq!(result.is_ok(), !operation.name().starts_with("served"), "{}: {result:?}", operation.name());
        }
    }
}
