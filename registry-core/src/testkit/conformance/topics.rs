//! Topics: deleted, registered by hand, left out of a registration; their permissions and lists.

use super::super::{
    Probe,
    fixture::{Broker, CLUSTER, Fixture, settings, table},
};
use crate::{Command, Outcome, QueueSettings, Registry, TopicMapping, query::UnitTopics};

fn two_clusters<R: Registry>() -> Fixture<R> {
    let mut f = Fixture::new();
    f.register(&Broker::new("b1", 0, "a1").cluster("c1"));
    f.register(&Broker::new("b2", 0, "a2").cluster("c2"));
    f
}

/// A deleted topic is gone everywhere; with a cluster, on that cluster's brokers; an empty cluster means everywhere.
pub fn topics_are_deleted<R: Registry>() {
    let mut f = two_clusters::<R>();
    f.delete_topic("t1", Some("unknown"));
    f.delete_topic("unknown", None);
    assert_eq!(f.route("t1"), "b1{0=a1} b2{0=a2} / b1:6:8:8 b2:6:8:8");
    f.delete_topic("t1", Some("c1"));
    assert_eq!(f.route("t1"), "b2{0=a2} / b2:6:8:8");
    f.delete_topic("t1", Some("c2"));
    assert_eq!((f.route("t1"), f.topics()), ("none".into(), vec!["base".into()]));
    f.delete_topic("base", Some(""));
    assert_eq!(f.route("base"), "none");
    let mut f = two_clusters::<R>();
    f.delete_topic("t1", None);
    assert_eq!((f.route("t1"), f.topics()), ("none".into(), vec!["base".into()]));
}

/// What the broker still has comes back with its next registration, whatever the version.
pub fn a_deleted_topic_comes_back<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = Broker::new("b", 0, "a0").fingerprint(1);
    f.register(&broker);
    f.delete_topic("t1", None);
    assert_eq!(f.recognised(&broker), None);
    f.register(&broker);
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
}

/// Commands that came together are published as one change, in which a topic may go and come back.
pub fn topics_come_and_go_in_one_change<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = Broker::new("b", 0, "a0").topics(["base", "t1", "t2"], settings(6));
    f.register(&broker);
    let delete = |topic: &str| Command::DeleteTopic { topic: topic.into(), cluster: None };
    let register = Command::Register(Box::new(broker.0.clone()));
    f.apply_together([delete("t1"), delete("t2"), register, delete("t2")]);
    assert_eq!(f.topics(), ["base", "t1"]);
    f.register(&Broker::new("other", 0, "a1").topics(["base", "else"], settings(6)));
    f.sweep();
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    assert_eq!(f.route("t2"), "none");
}

/// By default a topic that a later registration lacks stays.
pub fn missing_topics_stay<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0").topics(["base", "t1", "t2"], settings(6)));
    f.register(&Broker::new("b", 0, "a0").version(2).topics(["base", "t1"], settings(6)));
    assert_eq!(f.topics(), ["base", "t1", "t2"]);
}

/// With `deleteTopicWithBrokerRegistration` it goes, broker by broker; not if the registration brings mappings.
pub fn missing_topics_go<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.apply(Command::DeleteTopicWithRegistration(true));
    let all = ["base", "t1", "t2"];
    f.register(&Broker::new("b1", 0, "a1").topics(all, settings(6)));
    f.register(&Broker::new("b2", 0, "a2").topics(all, settings(6)));
    f.register(&Broker::new("b1", 0, "a1").version(2).topics(["base", "t1"], settings(6)));
    assert_eq!(f.route("t2"), "b2{0=a2} / b2:6:8:8");
    let mapping = TopicMapping { bname: Some("b2".into()), ..TopicMapping::default() };
    let keeps = Broker::new("b2", 0, "a2").version(2).topics(["base", "t1"], settings(6));
    f.register(&keeps.clone().mapping("t1", mapping));
    assert_eq!(f.route("t2"), "b2{0=a2} / b2:6:8:8", "it brings a mapping");
    f.register(&keeps);
    assert_eq!(f.topics(), ["base", "t1"], "the same version, without the mapping");
    let mut table = table(["base"], settings(6));
    table.push("other", "t1", settings(6));
    let renamed = Broker::new("b1", 0, "a1").version(3).table(table);
    f.register(&renamed);
    f.apply(Command::WipeWritePerm { broker_name: "b1".into() });
    f.register(&renamed);
    assert_eq!(f.route("t1"), "b1{0=a1} b2{0=a2} / b1:6:8:8 b2:6:8:8", "taken away by its key, brought by its name");
    f.register(&Broker::new("b1", 0, "a1").version(4).topics([], settings(6)));
    assert_eq!(f.route("base"), "b2{0=a2} / b2:6:8:8", "an empty table takes everything away");
}

/// Turned on later, it reaches a broker whose registration is the same as before.
pub fn missing_topics_go_when_it_is_turned_on<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let small = Broker::new("b", 0, "a0").version(2).topics(["base", "t1"], settings(6)).fingerprint(2);
    f.register(&Broker::new("b", 0, "a0").topics(["base", "t1", "t2"], settings(6)));
    f.register(&small);
    assert!(f.recognised(&small).is_some());
    f.apply(Command::DeleteTopicWithRegistration(true));
    assert_eq!(f.recognised(&small), None);
    f.register(&small);
    assert_eq!(f.topics(), ["base", "t1"]);
}

/// 217 adds a topic on registered brokers, all or nothing; it is kept if the broker brings it too.
pub fn topics_are_registered_by_hand<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register_topic("hand", ["b"], settings(6));
    assert_eq!(f.route("hand"), "none", "an unknown broker");
    let broker = Broker::new("b", 0, "a0");
    f.register(&broker);
    f.register_topic("hand", ["b"], settings(7));
    assert_eq!(f.route("hand"), "b{0=a0} / b:7:8:8", "as sent");
    f.register_topic("hand", ["b", "unknown"], settings(4));
    assert_eq!(f.route("hand"), "b{0=a0} / b:7:8:8", "nothing, where one broker is unknown");
    f.register_topic("none", [], settings(6));
    assert_eq!(f.topics(), ["base", "hand", "t1"]);

    f.apply(Command::DeleteTopicWithRegistration(true));
    f.register(&broker.clone().version(2).topics(["base", "hand"], settings(6)));
    assert_eq!(f.topics(), ["base", "hand"]);
    f.register(&broker.clone().version(3).topics(["base", "t1"], settings(6)));
    assert_eq!(f.topics(), ["base", "t1"]);
    f.register_topic("hand", ["b"], settings(6));
    f.unregister(&broker);
    assert_eq!(f.route("hand"), "none");
}

/// Wiped and added write permissions: 6, 4, 7 become 4, 4, 5 and then 6, 6, 6; every topic counts.
pub fn permissions_are_wiped_and_added<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let mut topics = table(["p6"], settings(6));
    topics.push("p4", "p4", settings(4));
    topics.push("p7", "p7", settings(7));
    let broker = Broker::new("b", 0, "a0").table(topics);
    f.register(&broker);
    f.register(&Broker::new("other", 0, "a1"));
    let perms = |f: &mut Fixture<R>| ["p6", "p4", "p7"].map(|topic| f.route(topic).replace("b{0=a0} / b:", ""));
    assert_eq!(f.wipe("b"), Outcome::TopicsChanged(3), "those that are read-only already count");
    assert_eq!(perms(&mut f), ["4:8:8", "4:8:8", "5:8:8"]);
    f.register(&broker);
    assert_eq!(perms(&mut f), ["4:8:8", "4:8:8", "5:8:8"], "the same version leaves them wiped");
    assert_eq!(f.add("b"), Outcome::TopicsChanged(3));
    assert_eq!(perms(&mut f), ["6:8:8", "6:8:8", "6:8:8"], "exactly 6, inherit bit and all");
    f.register(&broker.version(2));
    assert_eq!(perms(&mut f), ["6:8:8", "4:8:8", "7:8:8"], "a new version restores what the broker says");
    assert_eq!(f.wipe("nobody"), Outcome::TopicsChanged(0));
    assert_eq!(f.add("nobody"), Outcome::TopicsChanged(0));
    assert_eq!(f.route("t1"), "other{0=a1} / other:6:8:8", "others are left alone");
}

/// A wiped topic that is wiped again, added or brought anew keeps its other settings apart from those of its likes.
pub fn settings_that_met_part_again<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let mut topics = table(["p6"], settings(6));
    topics.push("p4", "p4", settings(4));
    f.register(&Broker::new("b", 0, "a0").table(topics));
    f.wipe("b");
    let mut again = table(["p6"], settings(4));
    again.push("p4", "p4", settings(6));
    f.register(&Broker::new("b", 0, "a0").version(2).table(again));
    assert_eq!((f.route("p6"), f.route("p4")), ("b{0=a0} / b:4:8:8".into(), "b{0=a0} / b:6:8:8".into()));
    f.delete_topic("p6", None);
    f.wipe("b");
    assert_eq!(f.route("p4"), "b{0=a0} / b:4:8:8");
}

/// A changed `brokerPermission` comes as a new version and shows in the next route.
pub fn a_new_permission_shows_at_once<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0"));
    f.register(&Broker::new("b", 0, "a0").version(2).topics(["base", "t1"], settings(4)));
    assert_eq!(f.route("t1"), "b{0=a0} / b:4:8:8");
}

/// Three groups of three brokers, ten topics: every list and route of the original's static cluster.
pub fn a_static_cluster_is_listed_and_routed<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let names: [String; 10] = std::array::from_fn(|at| format!("topic-{at}"));
    for group in 0..3 {
        for id in 0..3 {
            let broker = Broker::new(&format!("b{group}"), id, &format!("a{group}{id}"));
            f.register(&broker.topics(names.each_ref().map(String::as_str), settings(6)));
        }
    }
    assert!(f.cluster_info().ends_with(r#""clusterAddrTable":{"DefaultCluster":["b0","b1","b2"]}}"#));
    assert_eq!(f.topics(), names);
    assert_eq!(f.topics_of(CLUSTER), names);
    assert_eq!(f.topics_of("unknown"), Vec::<String>::new());
    let system = r#"{"brokerAddr":"a00","topicList":["DefaultCluster","b0","b1","b2"]}"#;
    assert_eq!(f.ask(&Probe::SystemTopics), system);
    let groups = "b0{0=a00,1=a01,2=a02} b1{0=a10,1=a11,2=a12} b2{0=a20,1=a21,2=a22}";
    for name in &names {
        assert_eq!(f.route(name), format!("{groups} / b0:6:8:8 b1:6:8:8 b2:6:8:8"));
    }
    for which in [UnitTopics::Unit, UnitTopics::UnitSubscription, UnitTopics::UnitSubscriptionOnly] {
        assert_eq!(f.unit_topics(which), Vec::<String>::new());
    }
    f.delete_topic("topic-0", None);
    assert_eq!(f.route("topic-0"), "none");
    assert_eq!(f.topics(), names[1..]);
}

/// Lists by cluster, also of a group that a later registrant listed elsewhere.
pub fn lists_by_cluster<R: Registry>() {
    let mut f = two_clusters::<R>();
    f.register(&Broker::new("b1", 1, "a3").cluster("c2"));
    f.register(&Broker::new("b1", 0, "a1").cluster("c1").version(2).topics(["only1", "base"], settings(6)));
    assert_eq!(f.topics_of("c1"), ["base", "only1", "t1"]);
    assert_eq!(f.topics_of("c2"), ["base", "only1", "t1"], "b1 is listed in both");
    f.unregister(&Broker::new("b2", 0, "a2").cluster("c2"));
    f.unregister(&Broker::new("b1", 1, "a3").cluster("c2"));
    f.unregister(&Broker::new("b1", 0, "a1").cluster("c1"));
    assert_eq!(f.cluster_info(), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#, "and leaves both");
}

/// Unit flags: bit 0 a unit topic, bit 1 a unit subscription; the first group by name decides.
pub fn unit_flags_are_listed<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let flag = |topic_sys_flag| QueueSettings { topic_sys_flag, ..settings(6) };
    let mut topics = table(["f0"], flag(0));
    for (name, bits) in [("f1", 1), ("f2", 2), ("f3", 3), ("f4", 4)] {
        topics.push(name, name, flag(bits));
    }
    f.register(&Broker::new("b", 0, "a0").table(topics));
    f.register(&Broker::new("c", 0, "a1").topics(["f0", "f1"], flag(2)));
    assert_eq!(f.unit_topics(UnitTopics::Unit), ["f1", "f3"]);
    assert_eq!(f.unit_topics(UnitTopics::UnitSubscription), ["f2", "f3"]);
    assert_eq!(f.unit_topics(UnitTopics::UnitSubscriptionOnly), ["f2"]);
    f.unregister(&Broker::new("b", 0, "a0"));
    assert_eq!(f.unit_topics(UnitTopics::UnitSubscriptionOnly), ["f0", "f1"], "the group that is gone decides nothing");
}
