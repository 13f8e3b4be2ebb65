//! What many strangers cost the writer: the time of many changes, and the memory that stays when they have gone.

use std::time::{Duration, Instant};

use registry_core::{
    Applied, Command, Millis, Outcome, QueueSettings, Registry, TableLimits, TopicMapping, TopicTable, Writer,
    testkit::{Sequential, SequentialPublisher, fixture::Broker},
};

/// A debug build on a busy machine of two cores; without the limits each of these takes minutes there.
const TIME_MAX: Duration = Duration::from_secs(20);

fn writer() -> Writer<SequentialPublisher> {
    let (_, publisher) = Sequential::new();
    Writer::new(publisher, TableLimits::default())
}

fn register(writer: &mut Writer<SequentialPublisher>, broker: &Broker) -> Applied {
    writer.execute(&Command::Register(Box::new(broker.0.clone())), Millis(1))
}

fn within(what: &str, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    let took = start.elapsed();
    println!("{what}: {took:?}");
    assert!(took < TIME_MAX, "{what} took {took:?}");
}

#[test]
fn a_broker_under_many_cluster_names_leaves_few_and_costs_little() {
    let mut writer = writer();
    within("16,000 registrations under new cluster names", || {
        for number in 0..16_000 {
            let applied = register(&mut writer, &Broker::new("b", 0, "a0").cluster(&format!("c{number}")));
            assert!(matches!(applied.outcome, Outcome::Registered(_)), "{applied:?}");
        }
    });
    writer.tables().check();
}

#[test]
fn many_mappings_of_one_topic_cost_little() {
    let mut writer = writer();
    register(&mut writer, &Broker::new("b", 0, "a0"));
    within("4,000 registrations with a mapping of one topic", || {
        let mut left_out = 0;
        for number in 0..4_000 {
            let mapping = TopicMapping {
                bname: Some(format!("b{number}").into()),
                curr_id_map: Some((0..8).map(|id| (id, id)).collect()),
                ..TopicMapping::default()
            };
            let broker = Broker::new("b", 0, "a0").version(2 + number).mapping("t1", mapping);
            left_out += usize::from(matches!(register(&mut writer, &broker).outcome, Outcome::RegisteredInPart { .. }));
        }
        assert_eq!(left_out, 4_000 - TableLimits::default().topic_mappings_max);
    });
    writer.tables().check();
}

/// A million topics come and go: no step of it is long, and the tables are as small as before.
#[test]
fn memory_goes_back_when_a_million_topics_have_gone() {
    const TOPICS: usize = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };
    let mut writer = writer();
    let broker = |number: usize| Broker::new(&format!("b{number}"), 0, &format!("a{number}"));
    for part in 0..20 {
        let mut table = TopicTable::default();
        for number in 0..TOPICS / 20 {
            let name = format!("topic-{}", part * TOPICS / 20 + number);
            table.push(&name, &name, QueueSettings::default());
        }
        let applied = register(&mut writer, &broker(part).table(table));
        assert!(matches!(applied.outcome, Outcome::Registered(_)), "{applied:?}");
    }
    let (list, index) = writer.tables().topic_room();
    assert!(list >= TOPICS && index >= TOPICS, "{list}, {index}");
    for part in 0..20 {
        writer.execute(&Command::Disconnect(broker(part).0.connection), Millis(2));
    }
    let mut steps: Vec<Duration> = Vec::new();
    loop {
        let start = Instant::now();
        let is_more = writer.tick();
        steps.push(start.elapsed());
        if !is_more {
            break;
        }
    }
    writer.tables().check();
    let room = writer.tables().topic_room();
    assert!(room.0 < TOPICS / 16 && room.1 < TOPICS / 4, "room for {room:?} topics");
    steps.sort_unstable();
    println!(
        "{} steps of the sweep, half of them up to {:?}, the longest {:?}",
        steps.len(),
        steps[steps.len() / 2],
        steps[steps.len() - 1]
    );
}
