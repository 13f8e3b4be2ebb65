//! Full tables: what does not fit is refused and changes nothing.

use super::super::fixture::{Broker, Fixture, settings};
use crate::{Applied, Outcome, Refusal, Registry, TableLimits, TopicMapping};

/// So small that a few brokers fill them, and without shares.
fn small() -> TableLimits {
    TableLimits { groups_max: 2, members_max: 2, topics_max: 3, source_share_percent: 100, ..TableLimits::default() }
}

fn refused<R: Registry>(f: &mut Fixture<R>, broker: &Broker, table: &'static str, limit: usize) {
    let before = f.everything();
    let Applied { outcome, min_id_changes, brokers_removed, .. } = f.try_register(broker);
    assert_eq!(outcome, Outcome::Refused(Refusal::TableFull { table, limit }));
    assert_eq!((min_id_changes, brokers_removed), (vec![], 0));
    assert_eq!(f.everything(), before, "a refusal changes nothing");
    assert_eq!(f.beat(&broker.key()), crate::query::Heartbeat::Unknown);
}

/// `groups_max`: no more groups; those that are there go on, and one that dies makes room at once.
pub fn groups_are_limited<R: Registry>() {
    let mut f = Fixture::<R>::with_limits(small());
    f.register(&Broker::new("b1", 0, "a1"));
    f.register(&Broker::new("b2", 0, "a2"));
    refused(&mut f, &Broker::new("b3", 0, "a3").cluster("c3"), "groups_max", 2);
    f.register(&Broker::new("b2", 1, "a4"));
    f.unregister(&Broker::new("b1", 0, "a1"));
    f.register(&Broker::new("b3", 0, "a3"));
    assert_eq!(f.route("t1"), "b2{0=a2,1=a4} b3{0=a3} / b2:6:8:8 b3:6:8:8");
}

/// `members_max`: no more brokers in a group; a change of roles or of address needs no room.
pub fn members_are_limited<R: Registry>() {
    let mut f = Fixture::<R>::with_limits(small());
    f.register(&Broker::new("b", 1, "a1"));
    f.register(&Broker::new("b", 2, "a2"));
    refused(&mut f, &Broker::new("b", 0, "a3"), "members_max", 2);
    f.register(&Broker::new("b", 0, "a2"));
    f.register(&Broker::new("b", 1, "a4"));
    assert_eq!(f.route("t1"), "b{0=a2,1=a4} / b:6:8:8");
}

/// `topics_max`: no more topics, of whatever kind; what is there may change, and what would not be taken needs no room.
pub fn topics_are_limited<R: Registry>() {
    let mut f = Fixture::<R>::with_limits(small());
    refused(&mut f, &Broker::new("b", 0, "a0").topics(["t1", "t2", "t3", "t4"], settings(6)), "topics_max", 3);
    f.register(&Broker::new("b", 0, "a0").topics(["t1", "t2", "t3"], settings(6)));
    let before = f.everything();
    let outcome = f.try_register_topic("t4", ["b"], settings(6)).outcome;
    assert_eq!(outcome, Outcome::Refused(Refusal::TableFull { table: "topics_max", limit: 3 }));
    assert_eq!(f.everything(), before, "nor by hand");
    f.register_topic("t3", ["b"], settings(4));
    f.register(&Broker::new("b", 1, "a1").topics(["t8", "t9"], settings(6)));
    let mapping = TopicMapping { bname: Some("b".into()), ..TopicMapping::default() };
    let mapped = Broker::new("c", 0, "a2").topics(["t1", "t2"], settings(6)).mapping("t9", mapping);
    refused(&mut f, &mapped, "topics_max", 3);
    f.delete_topic("t3", None);
    f.register(&mapped);
    assert_eq!(f.topics(), ["t1", "t2"], "a mapping alone is no topic, but it has its place");
    f.unregister(&Broker::new("c", 0, "a2"));
    f.sweep();
    f.register_topic("t4", ["b"], settings(6));
    assert_eq!(f.topics(), ["t1", "t2", "t4"]);
}

/// What a broker is refused with, and that nothing else has changed.
fn refused_for<R: Registry>(f: &mut Fixture<R>, broker: &Broker, expected: Refusal) {
    let before = f.everything();
    let applied = f.try_register(broker);
    assert_eq!(applied.outcome, Outcome::Refused(expected));
    assert_eq!(f.everything(), before, "a refusal changes nothing");
}

fn full(table: &'static str, limit: usize) -> Refusal {
    Refusal::TableFull { table, limit }
}

fn in_part(left_out: usize, refusal: Refusal) -> Outcome {
    Outcome::RegisteredInPart { left_out, refusal }
}

/// Names have a length, whatever they name and whatever brings them.
pub fn names_are_limited<R: Registry>() {
    let mut f =
        Fixture::<R>::with_limits(TableLimits { name_bytes_max: 20, topic_bytes_max: 30, ..TableLimits::default() });
    let long = "x".repeat(21);
    let topic = "t".repeat(31);
    let mapping = |change: fn(&mut TopicMapping, &str)| {
        let mut mapping = TopicMapping { bname: Some("b".into()), ..TopicMapping::default() };
        change(&mut mapping, "x23456789012345678901");
        mapping
    };
    let broker = || Broker::new("b", 0, "a0");
    let mut with_ha = broker();
    with_ha.0.ha_addr = Some(long.as_str().into());
    let cases = [
        ("cluster name", broker().cluster(&long)),
        ("broker name", Broker::new(&long, 0, "a0")),
        ("broker address", Broker::new("b", 0, &long)),
        ("HA address", with_ha),
        ("zone name", broker().zone(&long)),
        ("filter server", broker().filters([&long])),
        (
            "broker name of a mapping",
            broker().mapping("t1", mapping(|mapping, long| mapping.bname = Some(long.into()))),
        ),
        ("scope of a mapping", broker().mapping("t1", mapping(|mapping, long| mapping.scope = Some(long.into())))),
    ];
    for (what, broker) in cases {
        refused_for(&mut f, &broker, Refusal::TooLong { what, bytes: 21, limit: 20 });
    }
    let too_long = Refusal::TooLong { what: "topic name", bytes: 31, limit: 30 };
    refused_for(&mut f, &broker().topics(["t1", &topic], settings(6)), too_long.clone());
    refused_for(&mut f, &broker().mapping(&topic, mapping(|_, _| {})), too_long.clone());
    f.register(&broker());
    assert_eq!(f.try_register_topic(&topic, ["b"], settings(6)).outcome, Outcome::Refused(too_long));
    assert_eq!(f.topics(), ["base", "t1"]);
}

/// What one group may add to a route: others keep theirs, and a group keeps what it has.
pub fn routes_are_limited<R: Registry>() {
    let limits = TableLimits {
        group_bytes_max: 400,
        topic_groups_max: 2,
        topic_mappings_max: 1,
        mapping_bytes_max: 300,
        source_share_percent: 100,
        ..TableLimits::default()
    };
    let mut f = Fixture::<R>::with_limits(limits);
    f.register(&Broker::new("b", 0, "a0"));
    let address = "a".repeat(150);
    refused_for(&mut f, &Broker::new("b", 1, &address), full("group_bytes_max", 400));
    refused_for(&mut f, &Broker::new("b", 1, "a1").filters([&address]), full("group_bytes_max", 400));
    refused_for(&mut f, &Broker::new("b", 0, "a0").zone(&address), full("group_bytes_max", 400));
    f.register(&Broker::new("b", 1, "a1"));
    // An address in two groups brings its filter servers to both.
    f.register(&Broker::new("c", 0, "a0"));
    let other = Broker::new("c", 0, "a0").version(2).filters([&address[..100]]);
    refused_for(&mut f, &other, full("group_bytes_max", 400));

    refused_for(&mut f, &Broker::new("d", 0, "a3"), full("topic_groups_max", 2));
    assert_eq!(f.route("t1"), "b{0=a0,1=a1} c{0=a0} / b:6:8:8 c:6:8:8");
    f.register(&Broker::new("d", 0, "a3").topics(["t2", "t3"], settings(6)));
    assert_eq!(f.try_register_topic("t1", ["d"], settings(6)).outcome, Outcome::Refused(full("topic_groups_max", 2)));
    let known = Broker::new("d", 0, "a3").topics(["t1", "t2", "t4"], settings(4)).version(2);
    assert_eq!(f.try_register(&known).outcome, in_part(1, full("topic_groups_max", 2)));
    assert_eq!(f.topics(), ["base", "t1", "t2", "t3", "t4"]);

    let mapping = |bname: &str, ids: i32| TopicMapping {
        bname: Some(bname.into()),
        curr_id_map: Some((0..ids).map(|id| (id, id)).collect()),
        ..TopicMapping::default()
    };
    let mapped = |version| Broker::new("d", 0, "a3").topics(["t2", "t3"], settings(6)).version(version);
    f.register(&mapped(3).mapping("t2", mapping("d", 10)));
    f.register(&mapped(4).mapping("t2", mapping("d", 20)));
    let second = mapped(5).mapping("t2", mapping("e", 1));
    assert_eq!(f.try_register(&second).outcome, in_part(1, full("topic_mappings_max", 1)));
    let outcome = f.try_register(&mapped(6).mapping("t2", mapping("d", 100))).outcome;
    assert!(matches!(outcome, Outcome::Refused(Refusal::TooLong { what: "mapping", limit: 300, .. })), "{outcome:?}");
}

/// A broker that changes its cluster again and again leaves a bounded number of clusters, and of live entries, behind.
pub fn clusters_are_limited<R: Registry>() {
    let limits =
        TableLimits { group_clusters_max: 3, clusters_max: 5, groupless_brokers_max: 2, ..TableLimits::default() };
    let mut f = Fixture::<R>::with_limits(TableLimits { source_share_percent: 100, ..limits });
    let named = |cluster: &str| Broker::new("b", 0, "a0").cluster(cluster);
    for cluster in ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"] {
        f.register(&named(cluster));
    }
    let clusters = r#""clusterAddrTable":{"c0":["b"],"c6":["b"],"c7":["b"]}"#;
    assert!(f.cluster_info().contains(clusters), "its own and the last two: {}", f.cluster_info());
    let known = |f: &mut Fixture<R>, cluster: &str| f.beat(&named(cluster).key()) == crate::query::Heartbeat::Beaten;
    let alive: Vec<_> = ["c0", "c4", "c5", "c6", "c7"].into_iter().filter(|cluster| known(&mut f, cluster)).collect();
    assert_eq!(alive, ["c5", "c6", "c7"], "its last, and two without a group");

    // Clusters that members name stay; there is none to give way then.
    f.register(&Broker::new("b", 1, "a1").cluster("c6"));
    refused_for(&mut f, &Broker::new("b", 2, "a2").cluster("c9"), full("group_clusters_max", 3));
    f.register(&Broker::new("d", 0, "a3").cluster("d0"));
    f.register(&Broker::new("e", 0, "a4").cluster("d1"));
    refused_for(&mut f, &Broker::new("g", 0, "a5").cluster("d2"), full("clusters_max", 5));
    f.unregister(&Broker::new("e", 0, "a4").cluster("d1"));
    f.register(&Broker::new("g", 0, "a5").cluster("d2"));
}

/// Live brokers have a number, and so have the groups of one.
pub fn brokers_are_limited<R: Registry>() {
    let limits =
        TableLimits { brokers_max: 3, broker_groups_max: 2, source_share_percent: 100, ..TableLimits::default() };
    let mut f = Fixture::<R>::with_limits(limits);
    f.register(&Broker::new("b", 0, "a0"));
    f.register(&Broker::new("c", 0, "a0"));
    refused_for(&mut f, &Broker::new("d", 0, "a0"), full("broker_groups_max", 2));
    f.register(&Broker::new("b", 1, "a1"));
    f.register(&Broker::new("b", 2, "a2"));
    refused_for(&mut f, &Broker::new("b", 3, "a3"), full("brokers_max", 3));
    f.register(&Broker::new("b", 2, "a3").version(2));
}

/// `group_settings_max`: what is there stays, and a topic with known settings is taken.
pub fn settings_are_limited<R: Registry>() {
    let mut f = Fixture::<R>::with_limits(TableLimits { group_settings_max: 2, ..TableLimits::default() });
    let queues = |read_queues| crate::QueueSettings { read_queues, ..settings(6) };
    let broker = |version, topics: [(&str, i32); 3]| {
        let mut table = crate::TopicTable::default();
        topics.iter().for_each(|(name, count)| table.push(name, name, queues(*count)));
        Broker::new("b", 0, "a0").version(version).table(table)
    };
    refused_for(&mut f, &broker(1, [("t1", 1), ("t2", 2), ("t3", 3)]), full("group_settings_max", 2));
    f.register(&broker(1, [("t1", 1), ("t2", 2), ("t3", 2)]));
    let outcome = f.try_register(&broker(2, [("t1", 2), ("t2", 3), ("t3", 1)])).outcome;
    assert_eq!(outcome, in_part(1, full("group_settings_max", 2)));
    assert_eq!(
        ["t1", "t2", "t3"].map(|topic| f.route(topic)),
        ["2", "2", "1"].map(|read| { format!("b{{0=a0}} / b:6:{read}:8") })
    );
    assert_eq!(f.try_register_topic("t4", ["b"], queues(9)).outcome, Outcome::Refused(full("group_settings_max", 2)));
}

/// A full table does not cost a known broker its life: it is alive with what it has, and learns what does not fit.
pub fn a_full_table_leaves_known_brokers_alive<R: Registry>() {
    let mut f = Fixture::<R>::with_limits(TableLimits { topics_max: 6, ..TableLimits::default() });
    let honest = Broker::new("b", 0, "a0").timeout(10_000).fingerprint(1);
    f.register(&honest);
    let stranger = Broker::new("x", 0, "a9").from(9).topics(["x1", "x2", "x3"], settings(6));
    f.register(&stranger);
    let share = Refusal::ShareFull { table: "topics_max", share: 3 };
    let more = Broker::new("y", 0, "a8").from(9).topics(["y1", "y2"], settings(6));
    refused_for(&mut f, &more, share.clone());
    f.register(&Broker::new("c", 0, "a1").from(7).topics(["base", "c1"], settings(6)));

    // Everything that it says counts, but for the topics that find no room, and time and again.
    let grown = |version| {
        let table = ["base", "t1", "new1", "new2"];
        honest.clone().version(version).topics(table, settings(4)).zone("z").filters(["f:1"]).fingerprint(2)
    };
    let is_full = full("topics_max", 6);
    for version in 2..15 {
        f.advance(1_000);
        assert_eq!(f.try_register(&grown(version)).outcome, in_part(2, is_full.clone()));
        assert_eq!(f.recognised(&grown(version)), None, "what is left out is asked for again");
        assert_eq!(f.expire().brokers_removed, 0);
    }
    assert_eq!(f.route("t1"), "b{0=a0} / b:4:8:8");
    assert!(f.cluster_info().contains(r#""zoneName":"z""#));

    // One whose registration is refused as a whole has been heard of, too.
    let refused = grown(2).zone(&"z".repeat(600));
    for _ in 0..13 {
        f.advance(1_000);
        refused_for(&mut f, &refused, Refusal::TooLong { what: "zone name", bytes: 600, limit: 512 });
        assert_eq!(f.expire().brokers_removed, 0);
    }

    // There is room again: what fits is taken, in the order of the table.
    f.delete_topic("x1", None);
    assert_eq!(f.try_register(&grown(20)).outcome, in_part(1, is_full));
    assert_eq!(f.topics(), ["base", "c1", "new1", "t1", "x2", "x3"]);
    f.advance(11_000);
    assert_eq!(f.expire().brokers_removed, 1, "silence still counts");
}

/// One source holds no more than its share, in number and in bytes; what it gives back it may take again.
pub fn sources_have_shares<R: Registry>() {
    let limits = TableLimits { groups_max: 4, registry_bytes_max: 24_000, ..TableLimits::default() };
    let mut f = Fixture::<R>::with_limits(limits);
    f.register(&Broker::new("b", 0, "a0"));
    f.register(&Broker::new("c", 0, "a1"));
    let share = |table, share| Refusal::ShareFull { table, share };
    refused_for(&mut f, &Broker::new("d", 0, "a2"), share("groups_max", 2));
    f.register(&Broker::new("d", 0, "a2").from(2));
    f.unregister(&Broker::new("c", 0, "a1"));
    f.register(&Broker::new("e", 0, "a3"));

    let topics: Vec<String> = (0..40).map(|number| format!("topic-{number}")).collect();
    let mut table = crate::TopicTable::default();
    topics.iter().for_each(|name| table.push(name, name, settings(6)));
    let large = Broker::new("b", 0, "a0").version(2).table(table);
    let Outcome::RegisteredInPart { left_out, refusal } = f.try_register(&large).outcome else {
        panic!("all of it is taken");
    };
    assert_eq!(refusal, share("registry_bytes_max", 12_000));
    assert!((1..40).contains(&left_out), "{left_out} of 40");
    f.register(&Broker::new("d", 0, "a2").from(2).version(2).topics(["d1", "d2", "d3"], settings(6)));
}

/// A broker that another connection takes over and unregisters leaves nothing behind, however often.
pub fn what_is_unregistered_is_forgotten<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("honest", 0, "a9"));
    let before = (f.everything(), format!("{:?}", f.writer.tables()).len());
    for round in 0..300 {
        let broker = Broker::new("b", 0, &format!("10.0.0.1:{round}"));
        f.register(&broker.clone().over(1));
        f.register(&broker.clone().over(2));
        assert_eq!(f.unregister(&broker.over(2)).brokers_removed, 1);
    }
    f.sweep();
    f.writer.tables().check();
    assert_eq!(f.everything(), before.0);
    let now = format!("{:?}", f.writer.tables()).len();
    assert!(now < before.1 + 100, "all that the tables hold took {} bytes to write down, now {now}", before.1);
}
