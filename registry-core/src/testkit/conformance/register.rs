//! `REGISTER_BROKER`: who becomes a member, which topics are taken, who is refused.

use super::super::fixture::{Broker, CLUSTER, Fixture, settings, table};
use crate::{
    Applied, DataVersion, KeyStyle, Master, Outcome, QueueSettings, Reader, Refusal, Registered, Registry, TopicTable,
    View, query::Heartbeat,
};

/// A registered topic is routed, a farewell ends that at once.
pub fn register_then_route<R: Registry>() {
    let mut f = Fixture::<R>::new();
    assert_eq!(f.route("t1"), "none");
    f.register(&Broker::new("b", 0, "a0"));
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    assert_eq!(f.route("t2"), "none");
    assert_eq!(f.topics(), ["base", "t1"]);
    assert_eq!(f.unregister(&Broker::new("b", 0, "a0")).brokers_removed, 1);
    assert_eq!(f.route("t1"), "none");
    assert_eq!(f.topics(), Vec::<String>::new());
}

/// A master is told nothing, a slave its master; a master under another cluster name is not found.
pub fn a_slave_is_told_its_master<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let slave = Broker::new("b", 1, "a1");
    assert_eq!(f.register(&slave), Registered { master: None }, "no master yet");
    assert_eq!(f.register(&Broker::new("b", 0, "a0")), Registered { master: None });
    let master = Master { addr: "a0".into(), ha_addr: Some("ha-a0".into()) };
    assert_eq!(f.register(&slave), Registered { master: Some(master) });
    assert_eq!(f.register(&slave.cluster("other")), Registered { master: None });
}

/// Master and slave are one group; what the master adds later shows both.
pub fn slaves_join_the_group<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0"));
    f.register(&Broker::new("b", 1, "a1"));
    assert_eq!(f.route("t1"), "b{0=a0,1=a1} / b:6:8:8");
    f.register(&Broker::new("b", 0, "a0").version(2).topics(["base", "t1", "t2"], settings(6)));
    assert_eq!(f.route("t2"), "b{0=a0,1=a1} / b:6:8:8");
    let members =
        r#"{"brokerMemberGroup":{"brokerAddrs":{0:"a0",1:"a1"},"brokerName":"b","cluster":"DefaultCluster"}}"#;
    assert_eq!(f.member_group(CLUSTER, "b"), members);
}

/// A slave's address that comes back as id 0 replaces the master, and has one id.
pub fn a_slave_becomes_master<R: Registry>() {
    let mut f = Fixture::<R>::new();
    for (id, addr) in [(0, "a0"), (1, "a1"), (2, "a2")] {
        f.register(&Broker::new("b", id, addr));
    }
    f.register(&Broker::new("b", 0, "a1").version(2));
    assert_eq!(f.route("t1"), "b{0=a1,2=a2} / b:6:8:8");
}

/// Roles are switched by farewell and registration, without acting masters.
pub fn roles_switch<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let (first, second) = (Broker::new("b", 0, "a0").acting(false), Broker::new("b", 1, "a1").acting(false));
    f.register(&first);
    f.register(&second);
    f.unregister(&first);
    assert_eq!(f.acting_route("t1"), "b{1=a1} / b:6:8:8");
    f.register(&second.clone().id(0).version(2));
    assert_eq!(f.acting_route("t1"), "b{0=a1} / b:6:8:8");
    f.register(&first.id(1).version(2));
    assert_eq!(f.acting_route("t1"), "b{0=a1,1=a0} / b:6:8:8");
}

/// A broker that is new to its group must bring all its topics: exactly one is refused, none at all is not.
pub fn one_topic_first_is_refused_and_leaves_nothing<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let empty = f.everything();
    let full = Broker::new("b", 0, "a0").zone("z");
    let applied = f.try_register(&full.clone().topics(["t1"], settings(6)));
    assert_eq!(applied.outcome, Outcome::Refused(Refusal::SingleTopicFirst));
    assert_eq!(Refusal::SingleTopicFirst.to_string(), "register broker failed");
    assert_eq!(f.everything(), empty, "a refusal leaves no ghost");
    assert_eq!(f.beat(&full.key()), Heartbeat::Unknown);

    f.register(&full);
    let before = f.everything();
    let slave = Broker::new("b", 1, "a1").acting(true).topics(["t1"], settings(6));
    assert_eq!(f.try_register(&slave).outcome, Outcome::Refused(Refusal::SingleTopicFirst), "new under this id");
    assert_eq!(f.everything(), before, "nor do flag and zone of the group change");

    f.register(&full.version(2).topics(["t1"], settings(4)));
    assert_eq!(f.route("t1"), "b{0=a0} / b:4:8:8", "one that is known may bring one");
    assert_eq!(f.route("base"), "b{0=a0} / b:6:8:8");
    f.register(&Broker::new("empty", 0, "a9").topics([], settings(6)));
    assert!(f.cluster_info().contains("\"empty\""), "no topic is fine");
}

/// A broker that is new to its group must bring a table; one that is known may leave it out.
pub fn no_topic_table_first_is_refused<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let empty = f.everything();
    let broker = Broker::new("b", 0, "a0");
    let applied = f.try_register(&broker.clone().no_table());
    assert_eq!(applied.outcome, Outcome::Refused(Refusal::NoTopicTable));
    assert_eq!(f.everything(), empty);
    f.register(&broker);
    f.register(&broker.version(2).no_table());
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
}

/// Two addresses claim an id: the newer `stateVersion` keeps it, an equal one takes it.
pub fn the_newer_state_keeps_the_id<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "x").state(5));
    let before = f.everything();
    let refused = f.try_register(&Broker::new("b", 0, "y").state(4).version(9));
    let held = Refusal::IdHeld { broker_id: 0, holder: "x".into() };
    assert_eq!(refused, Applied { outcome: Outcome::Refused(held), ..no_effect() });
    assert_eq!(f.everything(), before);
    assert_eq!(f.beat(&Broker::new("b", 0, "y").key()), Heartbeat::Unknown);

    f.register(&Broker::new("b", 1, "y").state(4));
    assert_eq!(f.route("t1"), "b{0=x,1=y} / b:6:8:8", "as a slave it is welcome");
    f.register(&Broker::new("b", 0, "y").state(5));
    assert_eq!(f.route("t1"), "b{0=y} / b:6:8:8");
    assert_eq!(f.beat(&Broker::new("b", 0, "x").key()), Heartbeat::Unknown, "the replaced one lives no longer");
    f.register(&Broker::new("b", 0, "z").cluster("other").state(0));
    assert_eq!(f.route("t1"), "b{0=z} / b:6:8:8", "the holder is looked up under the newcomer's cluster");
}

fn no_effect() -> Applied {
    Applied { outcome: Outcome::Done, min_id_changes: vec![], abandoned: vec![], brokers_removed: 0 }
}

/// An equal version leaves alone what the broker has and adds what it lacks; another version replaces everything.
pub fn an_equal_version_changes_nothing_that_is_there<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0"));
    f.register(&Broker::new("b", 0, "a0").topics(["base", "t1", "t2"], settings(4)));
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    assert_eq!(f.route("t2"), "b{0=a0} / b:4:8:8");
    let wide = QueueSettings { read_queues: 16, write_queues: 12, ..settings(4) };
    f.register(&Broker::new("b", 0, "a0").version(2).topics(["base", "t1"], wide));
    assert_eq!(f.route("t1"), "b{0=a0} / b:4:16:12");
    assert_eq!(f.route("t2"), "b{0=a0} / b:4:8:8", "a topic that is not named stays");
    f.register(&Broker::new("b", 0, "a0").version(1).topics(["base", "t1"], settings(6)));
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8", "an older version is another version");
    f.register(&Broker::new("b", 0, "a1").version(1).topics(["base", "t1"], settings(4)));
    assert_eq!(f.route("t1"), "b{0=a1} / b:4:8:8", "the version belongs to the address");
}

/// Topics of slaves count only where the broker knows acting masters and has the smallest id of its group.
pub fn which_slaves_bring_topics<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("old", 1, "a1"));
    assert_eq!(f.route("t1"), "none", "a broker that does not know acting masters");
    f.register(&Broker::new("off", 1, "a2").acting(false));
    assert_eq!(f.route("t1"), "off{1=a2} / off:6:8:8", "with the flag off it brings them as they are");
    f.register(&Broker::new("on", 2, "a3").acting(true));
    assert_eq!(f.route("t1"), "off{1=a2} on{2=a3} / off:6:8:8 on:4:8:8", "with the flag on, without write permission");
    f.register(&Broker::new("on", 3, "a4").acting(true).topics(["base", "t9"], settings(6)));
    assert_eq!(f.route("t9"), "none", "not the smallest id");
    f.register(&Broker::new("on", 1, "a5").acting(true).topics(["base", "t9"], settings(7)));
    assert_eq!(f.route("t9"), "on{1=a5,2=a3,3=a4} / on:5:8:8");
}

/// Negative ids are ids.
pub fn negative_ids_are_accepted<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0"));
    let told = f.register_and_tell(&Broker::new("b", -1, "a1").acting(false));
    assert_eq!(f.route("t1"), "b{-1=a1,0=a0} / b:6:8:8");
    assert_eq!((told[0].min_broker_id, &*told[0].min_broker_addr), (-1, "a1"));
}

/// Flag and zone belong to the group, the last registrant's count; its cluster is the first one's for ever.
pub fn the_last_registrant_sets_flag_and_zone<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0").acting(true).zone("z0"));
    f.register(&Broker::new("b", 1, "a1").cluster("c1").acting(false).zone("z1"));
    let group = r#"{"brokerAddrs":{0:"a0",1:"a1"},"brokerName":"b","cluster":"DefaultCluster","enableActingMaster":false,"zoneName":"z1"}"#;
    let info =
        format!(r#"{{"brokerAddrTable":{{"b":{group}}},"clusterAddrTable":{{"DefaultCluster":["b"],"c1":["b"]}}}}"#);
    assert_eq!(f.cluster_info(), info);
    f.register(&Broker::new("b", 1, "a1").cluster("c1"));
    assert!(!f.cluster_info().contains("zoneName"), "no zone is a zone too");
}

/// Topics are routed by the name inside the value; `deleteTopicWithBrokerRegistration` looks at the key.
pub fn the_name_inside_the_value_is_routed<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let mut table = TopicTable::default();
    table.push("key", "name", settings(6));
    table.push("base", "base", settings(6));
    f.register(&Broker::new("b", 0, "a0").table(table));
    assert_eq!(f.topics(), ["base", "name"]);
}

/// Names are kept as they were sent, whatever is in them, and escaped in answers.
pub fn names_are_kept_as_they_were_sent<R: Registry>() {
    let long = "x".repeat(1_024);
    let names = ["%RETRY%g", "q\"uote", "back\\slash", "new\nline", "tab\t\u{1}", "日本😀", "", "/<>&'\u{2028}", &long];
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "[2001:db8::1%eth0]:10911").table(table(names, settings(6))));
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(f.topics(), expected);
    for name in names {
        assert_eq!(f.route(name), "b{0=[2001:db8::1%eth0]:10911} / b:6:8:8", "{name}");
    }
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b\"\n", 0, "a0").topics(["\u{1f}t", "u"], settings(6)));
    assert_eq!(f.ask(&super::super::Probe::AllTopics), r#"{"topicList":["\u001ft","u"]}"#);
    assert!(f.route_body("u", KeyStyle::Bare, false, None).contains(r#""brokerName":"b\"\n""#));
}

/// The same brokers in another order make the same answers, byte for byte.
pub fn the_order_of_registrations_does_not_show<R: Registry>() {
    let brokers = [
        Broker::new("b", 0, "a0"),
        Broker::new("b", 1, "a1"),
        Broker::new("a", 0, "a2").topics(["base", "t0"], settings(4)),
        Broker::new("c", 0, "a3").cluster("c1").filters(["f1"]),
    ];
    let answers: Vec<_> = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]]
        .into_iter()
        .map(|order| {
            let mut f = Fixture::<R>::new();
            order.into_iter().for_each(|at| _ = f.register(&brokers[at]));
            f.everything()
        })
        .collect();
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

/// What is known of a broker's version: by cluster and address; equal when all three fields are.
pub fn versions_are_compared_whole<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = Broker::new("b", 0, "a0");
    let version = broker.0.body.data_version;
    let unknown = f.ask_version(&broker.key(), Some(version));
    assert_eq!((unknown.is_changed, unknown.known, unknown.heartbeat), (true, None, Heartbeat::Unknown));
    f.register(&broker);
    let same = f.ask_version(&broker.key(), Some(version));
    assert_eq!((same.is_changed, same.known, same.heartbeat), (false, Some(version), Heartbeat::Beaten));
    for other in [
        Some(DataVersion { state_version: 1, ..version }),
        Some(DataVersion { timestamp: 1_001, ..version }),
        Some(DataVersion { counter: Some(2), ..version }),
        Some(DataVersion { counter: None, ..version }),
        None,
    ] {
        let answer = f.ask_version(&broker.key(), other);
        assert_eq!((answer.is_changed, answer.known), (true, Some(version)), "{other:?}");
    }
    let without = DataVersion { counter: None, ..version };
    assert_eq!(without, DataVersion { counter: None, ..without }, "two absent counters are equal");
}

/// The same address under two cluster names has two versions; the farewell of one keeps the other.
pub fn clusters_have_versions_of_their_own<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let (first, second) = (Broker::new("b", 0, "a0"), Broker::new("b", 0, "a0").cluster("c1").version(7));
    f.register(&first);
    f.register(&second);
    let known = |f: &mut Fixture<R>, broker: &Broker| f.ask_version(&broker.key(), None).known;
    assert_eq!(known(&mut f, &first), Some(first.0.body.data_version));
    assert_eq!(known(&mut f, &second), Some(second.0.body.data_version));
    f.unregister(&second);
    assert_eq!(known(&mut f, &first), Some(first.0.body.data_version));
    assert_eq!(known(&mut f, &second), None);
}

/// One address may serve two groups.
pub fn one_address_may_be_in_two_groups<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0"));
    f.register(&Broker::new("c", 0, "a0"));
    assert_eq!(f.route("t1"), "b{0=a0} c{0=a0} / b:6:8:8 c:6:8:8");
}

/// An unchanged registration is recognised, over its connection alone, until anything of its group changes.
pub fn an_unchanged_registration_is_recognised<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let master = Broker::new("b", 0, "a0").fingerprint(1);
    let slave = Broker::new("b", 1, "a1").fingerprint(2);
    let both = |f: &mut Fixture<R>| (f.recognised(&master).is_some(), f.recognised(&slave).is_some());
    assert_eq!(both(&mut f), (false, false));
    f.register(&master);
    f.register(&slave);
    assert_eq!(both(&mut f), (false, true), "the slave is new to the master's group");
    f.register(&master);
    assert_eq!(both(&mut f), (true, true));
    assert_eq!(f.recognised(&slave), Some(f.register(&slave)), "as the writer would answer");
    assert_eq!(f.recognised(&master.clone().over(77)), None, "another connection");
    assert_eq!(f.recognised(&master.clone().fingerprint(3)), None, "another content");

    type Change<R> = fn(&mut Fixture<R>);
    let changes: [(&str, Change<R>); 7] = [
        ("a topic is deleted", |f| f.delete_topic("t1", None)),
        ("permissions are wiped", |f| _ = f.wipe("b")),
        ("a topic is added by hand", |f| f.register_topic("t9", ["b"], settings(6))),
        ("another member comes", |f| _ = f.register(&Broker::new("b", 2, "a2"))),
        ("another member goes", |f| _ = f.unregister(&Broker::new("b", 2, "a2"))),
        ("the zone of the group changes", |f| _ = f.register(&Broker::new("b", 3, "a3").zone("z"))),
        ("missing topics are to be deleted", |f| {
            f.apply(crate::Command::DeleteTopicWithRegistration(true));
        }),
    ];
    for (what, change) in changes {
        f.register(&master);
        change(&mut f);
        assert_eq!(f.recognised(&master), None, "{what}");
    }
    assert_eq!(f.recognised(&Broker::new("b", 0, "a0")), None, "without a fingerprint");
}

/// A broker that has left one of its groups, or its cluster, is no longer unchanged there.
pub fn who_left_a_group_is_not_unchanged_there<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = Broker::new("b", 0, "a0").fingerprint(1);
    f.register(&Broker::new("other", 0, "a0"));
    f.register(&broker);
    f.register(&Broker::new("b", 0, "a1"));
    assert_eq!(f.beat(&broker.key()), Heartbeat::Beaten, "it is still in the other group");
    assert_eq!(f.recognised(&broker), None);

    f.register(&broker);
    f.register(&broker.clone().cluster("c1").fingerprint(2));
    assert_eq!(f.recognised(&broker), None, "the group knows it under the other cluster name");
}

/// A broker's filter servers are shown for the group of its own cluster, and go when it names another one.
pub fn filter_servers_follow_the_cluster<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let filters = |f: &mut Fixture<R>| {
        let body: serde_json::Value =
            serde_json::from_str(&f.route_body("t1", KeyStyle::Quoted, false, None)).expect("JSON");
        body["filterServerTable"].to_string()
    };
    let broker = Broker::new("b", 0, "a0");
    f.register(&broker.clone().filters(["f1", "f2"]));
    assert_eq!(filters(&mut f), r#"{"a0":["f1","f2"]}"#);
    let mut silent = broker.clone();
    silent.0.body.filter_servers = None;
    f.register(&silent);
    assert_eq!(filters(&mut f), r#"{"a0":["f1","f2"]}"#, "null leaves the list as it is");
    let silent = silent.cluster("c1");
    for _ in 0..2 {
        f.register(&silent);
        assert_eq!(filters(&mut f), "{}");
        f.register(&broker.clone().filters(["f3"]));
        assert_eq!(filters(&mut f), r#"{"a0":["f3"]}"#);
    }
    f.register(&broker);
    assert_eq!(filters(&mut f), "{}", "an empty list takes it away");
}

/// A change of address, of one broker or by a newcomer, shows in all topics at once.
pub fn a_new_address_shows_in_every_topic<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0").topics(["t1", "t2", "t3"], settings(6)));
    f.register(&Broker::new("b", 0, "a1").no_table());
    for topic in ["t1", "t2", "t3"] {
        assert_eq!(f.route(topic), "b{0=a1} / b:6:8:8");
    }
    f.reader.read(|view| {
        assert_eq!(view.root().live_brokers(), 1, "the replaced address is forgotten");
        Ok(())
    });
}
