//! How brokers leave: farewells, lost connections, silence; and what is too late to count.

use super::super::fixture::{Broker, CLUSTER, Fixture, settings};
use crate::{
    Command, ConnectionId, HEARTBEAT_TIMEOUT_MS_DEFAULT, HEARTBEAT_TIMEOUT_MS_MAX, HEARTBEAT_TIMEOUT_MS_MIN, Millis,
    Registry, TopicMapping,
    query::{self, Heartbeat},
};

const NO_BROKERS: &str = r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#;

fn master_and_slave<R: Registry>() -> (Fixture<R>, Broker, Broker) {
    let mut f = Fixture::new();
    let (master, slave) = (Broker::new("b", 0, "a0"), Broker::new("b", 1, "a1"));
    f.register(&master);
    f.register(&slave);
    (f, master, slave)
}

/// A farewell takes one id away, the last one everything.
pub fn a_farewell_takes_one_member<R: Registry>() {
    let (mut f, master, slave) = master_and_slave::<R>();
    f.register(&Broker::new("b", 2, "a2"));
    f.unregister(&Broker::new("b", 2, "a2"));
    assert_eq!(f.route("t1"), "b{0=a0,1=a1} / b:6:8:8");
    assert_eq!(f.beat(&Broker::new("b", 2, "a2").key()), Heartbeat::Unknown);
    f.unregister(&slave);
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    f.unregister(&master);
    assert_eq!(f.route("t1"), "none");
    assert_eq!(f.cluster_info(), NO_BROKERS);
    assert_eq!(f.beat(&master.key()), Heartbeat::Unknown);
    f.sweep();
    f.register(&Broker::new("b", 0, "a0").topics(["t2", "t3"], settings(6)));
    assert_eq!(f.topics(), ["t2", "t3"], "a new group of the same name has nothing of the old one");
}

/// Without acting masters the slave stays what it is, with its permissions.
pub fn slaves_without_acting_stay_slaves<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0").acting(false));
    f.register(&Broker::new("b", 1, "a1").acting(false));
    let applied = f.unregister(&Broker::new("b", 0, "a0"));
    assert_eq!(f.acting_route("t1"), "b{1=a1} / b:6:8:8");
    assert_eq!(applied.min_id_changes, [], "nor is anybody told");
}

/// G4: whatever takes a broker away, a heartbeat that still finds it, in a state from before, is told that it is late.
pub fn a_heartbeat_that_finds_a_removed_broker_is_late<R: Registry>() {
    let broker = Broker::new("b", 0, "a0");
    let removals: [fn(&mut Fixture<R>, &Broker); 4] = [
        |f, broker| drop(f.unregister(broker)),
        |f, broker| drop(f.disconnect(broker)),
        |f, _| {
            f.advance(HEARTBEAT_TIMEOUT_MS_DEFAULT + 1);
            f.expire();
        },
        // Another address takes the id.
        |f, broker| drop(f.register(&Broker::new(&broker.0.broker_name, 0, "a1").state(1))),
    ];
    for (removal, remove) in removals.into_iter().enumerate() {
        let mut f = Fixture::<R>::new();
        f.register(&broker);
        let before = f.root();
        assert_eq!(query::heartbeat(&before, &broker.key(), Millis(1)), Heartbeat::Beaten);
        remove(&mut f, &broker);
        assert_eq!(query::heartbeat(&before, &broker.key(), Millis(1)), Heartbeat::Late, "removal {removal}");
        assert_eq!(f.beat(&broker.key()), Heartbeat::Unknown);
    }
}

/// In one change a group dies and comes again under a lower index: its name stays that of the new one.
pub fn a_group_moves_to_a_lower_index_in_one_change<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let (one, two) = (Broker::new("b1", 0, "a1"), Broker::new("b2", 0, "a2"));
    f.register(&one);
    f.register(&two);
    f.unregister(&one);
    f.sweep();
    f.apply_together([Command::Unregister(two.farewell()), Command::Register(Box::new(two.0.clone()))]);
    let group = r#"{"brokerMemberGroup":{"brokerAddrs":{0:"a2"},"brokerName":"b2","cluster":"DefaultCluster"}}"#;
    assert_eq!(f.member_group(CLUSTER, "b2"), group);
    assert_eq!(f.route("t1"), "b2{0=a2} / b2:6:8:8");
}

/// Several farewells, one after the other.
pub fn several_farewells<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let (one, two) = (Broker::new("b1", 0, "a1"), Broker::new("b2", 0, "a2"));
    f.register(&one);
    f.register(&two);
    f.unregister(&one);
    assert_eq!(f.route("t1"), "b2{0=a2} / b2:6:8:8");
    f.unregister(&two);
    assert_eq!(f.route("t1"), "none");
}

/// A farewell that names another cluster or id removes the broker wholly, never half.
pub fn a_farewell_with_a_wrong_cluster_is_whole<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = Broker::new("b", 0, "a0");
    f.register(&broker);
    let mut request = broker.farewell();
    request.cluster = "elsewhere".into();
    request.broker_id = 42;
    f.apply(Command::Unregister(request));
    assert_eq!(f.route("t1"), "none");
    assert_eq!(f.cluster_info(), NO_BROKERS);
    assert_eq!(f.beat(&broker.key()), Heartbeat::Unknown);
}

/// Farewells of unknown brokers and addresses change nothing.
pub fn unknown_farewells_change_nothing<R: Registry>() {
    let (mut f, master, slave) = master_and_slave::<R>();
    let before = f.everything();
    assert_eq!(f.unregister(&Broker::new("nobody", 0, "a0")).brokers_removed, 0);
    assert_eq!(f.unregister(&Broker::new("b", 5, "nowhere")).brokers_removed, 0);
    assert_eq!(f.everything(), before);
    assert_eq!((f.beat(&master.key()), f.beat(&slave.key())), (Heartbeat::Beaten, Heartbeat::Beaten));
}

/// The farewell of an id that the address has given up is late: the broker has registered anew since.
pub fn a_farewell_of_a_former_id_is_late<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let slave = Broker::new("b", 1, "a0").acting(false);
    f.register(&slave);
    f.register(&slave.clone().id(0).version(2));
    assert_eq!(f.unregister(&slave).brokers_removed, 0);
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    assert_eq!(f.unregister(&slave.id(0)).brokers_removed, 1);
    assert_eq!(f.route("t1"), "none");
}

/// A farewell over a connection that the broker has left is late; over one that never carried it, it is an operator's.
pub fn a_farewell_over_the_old_connection_is_late<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let old = Broker::new("b", 0, "a0").over(1);
    f.register(&old);
    f.register(&old.clone().over(2));
    assert_eq!(f.unregister(&old).brokers_removed, 0);
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    assert_eq!(f.unregister(&old.over(3)).brokers_removed, 1);
    assert_eq!(f.route("t1"), "none");
}

/// A lost connection takes its brokers at once: the master, then the slave.
pub fn a_lost_connection_takes_its_broker<R: Registry>() {
    let (mut f, master, slave) = master_and_slave::<R>();
    assert_eq!(f.disconnect(&master).brokers_removed, 1);
    assert_eq!(f.route("t1"), "b{1=a1} / b:6:8:8");
    assert_eq!(f.beat(&master.key()), Heartbeat::Unknown);
    f.disconnect(&slave);
    assert_eq!(f.route("t1"), "none");
    assert_eq!(f.cluster_info(), NO_BROKERS);
    assert_eq!(f.disconnect(&slave).brokers_removed, 0, "a second event of the same loss");
}

/// Roles are switched by the loss of connections.
pub fn roles_switch_by_lost_connections<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let (first, second) = (Broker::new("b", 0, "a0").acting(false), Broker::new("b", 1, "a1").acting(false));
    f.register(&first);
    f.register(&second);
    f.disconnect(&first);
    assert_eq!(f.acting_route("t1"), "b{1=a1} / b:6:8:8");
    f.register(&second.clone().id(0).version(2));
    assert_eq!(f.acting_route("t1"), "b{0=a1} / b:6:8:8");
    f.register(&first.id(1).version(2).over(77));
    assert_eq!(f.acting_route("t1"), "b{0=a1,1=a0} / b:6:8:8");
}

/// The late loss of a connection that the broker has left takes nobody.
pub fn the_late_loss_of_the_old_connection_takes_nobody<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = Broker::new("b", 0, "a0");
    f.register(&broker.clone().over(1));
    f.register(&broker.clone().over(2));
    assert_eq!(f.apply(Command::Disconnect(ConnectionId(1))).brokers_removed, 0);
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    f.apply(Command::Disconnect(ConnectionId(2)));
    assert_eq!(f.route("t1"), "none");
}

/// All brokers of one connection go with it (broker containers share one).
pub fn a_lost_connection_takes_all_its_brokers<R: Registry>() {
    let mut f = Fixture::<R>::new();
    for at in 0..40 {
        f.register(&Broker::new(&format!("b{at}"), 0, &format!("a{at}")).over(at % 2));
    }
    assert_eq!(f.apply(Command::Disconnect(ConnectionId(0))).brokers_removed, 20);
    assert_eq!(f.apply(Command::Disconnect(ConnectionId(1))).brokers_removed, 20);
    assert_eq!(f.cluster_info(), NO_BROKERS);
}

/// A broker that changed its name is in both groups until its connection is lost, and then in none.
pub fn a_renamed_broker_leaves_no_ghost<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("old", 0, "a0"));
    f.register(&Broker::new("new", 0, "a0"));
    assert_eq!(f.disconnect(&Broker::new("new", 0, "a0")).brokers_removed, 1);
    assert_eq!(f.route("t1"), "none");
    assert_eq!(f.cluster_info(), NO_BROKERS);
}

/// Silence for longer than the timeout removes a broker, and not a millisecond earlier.
pub fn silence_expires_a_broker<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = Broker::new("b", 0, "a0");
    f.register(&broker);
    f.advance(HEARTBEAT_TIMEOUT_MS_DEFAULT);
    assert_eq!(f.expire().brokers_removed, 0);
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    f.advance(1);
    let applied = f.expire();
    assert_eq!(applied.brokers_removed, 1);
    assert_eq!(applied.abandoned, [broker.0.connection], "nobody alive is behind the connection");
    assert_eq!(f.route("t1"), "none");
    assert_eq!(f.cluster_info(), NO_BROKERS);
    assert_eq!(f.expire().brokers_removed, 0, "once");
}

/// Heartbeats of every kind keep a broker: 904, 322 whatever its answer, a registration, an unchanged registration.
pub fn heartbeats_save<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = Broker::new("b", 0, "a0").timeout(2_000).fingerprint(1);
    f.register(&broker);
    let beats: [fn(&mut Fixture<R>, &Broker); 5] = [
        |f, broker| assert_eq!(f.beat(&broker.key()), Heartbeat::Beaten),
        |f, broker| assert!(f.ask_version(&broker.key(), None).is_changed),
        |f, broker| assert!(!f.ask_version(&broker.key(), Some(broker.0.body.data_version)).is_changed),
        |f, broker| assert!(f.recognised(broker).is_some()),
        |f, broker| _ = f.register(broker),
    ];
    for beat in beats {
        f.advance(2_000);
        beat(&mut f, &broker);
        f.advance(2_000);
        assert_eq!(f.expire().brokers_removed, 0);
    }
    let key = broker.key();
    f.apply(Command::Heartbeat { cluster: key.cluster.clone(), broker_addr: key.addr.clone() });
    f.advance(2_001);
    assert_eq!(f.expire().brokers_removed, 1);
    assert_eq!(f.beat(&key), Heartbeat::Unknown, "a heartbeat brings nobody back");
    assert_eq!(f.cluster_info(), NO_BROKERS);
}

/// Timeouts are kept within a second and an hour; the last registration's counts.
pub fn timeouts_are_clamped<R: Registry>() {
    for (asked, kept) in [
        (0, HEARTBEAT_TIMEOUT_MS_MIN),
        (-1, HEARTBEAT_TIMEOUT_MS_MIN),
        (i64::MIN, HEARTBEAT_TIMEOUT_MS_MIN),
        (999, 1_000),
        (1_000, 1_000),
        (10_000, 10_000),
        (3_600_000, 3_600_000),
        (3_600_001, HEARTBEAT_TIMEOUT_MS_MAX),
        (i64::MAX, HEARTBEAT_TIMEOUT_MS_MAX),
    ] {
        let mut f = Fixture::<R>::new();
        f.register(&Broker::new("b", 0, "a0"));
        f.register(&Broker::new("b", 0, "a0").timeout(asked));
        f.advance(kept);
        assert_eq!(f.expire().brokers_removed, 0, "{asked} ms");
        f.advance(1);
        assert_eq!(f.expire().brokers_removed, 1, "{asked} ms");
    }
}

/// A connection is abandoned when its last broker has expired, not before.
pub fn a_connection_is_abandoned_by_its_last_broker<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b1", 0, "a1").over(7).timeout(1_000));
    f.register(&Broker::new("b2", 0, "a2").over(7).timeout(5_000));
    f.advance(2_000);
    let applied = f.expire();
    assert_eq!((applied.brokers_removed, applied.abandoned), (1, vec![]));
    f.advance(4_000);
    assert_eq!(f.expire().abandoned, [ConnectionId(7)]);
}

/// An address that lost its id to another one is forgotten: it neither lives on nor ever expires.
pub fn a_replaced_address_is_forgotten<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let old = Broker::new("b", 0, "a0");
    f.register(&old);
    f.register(&Broker::new("b", 0, "a1"));
    assert_eq!(f.beat(&old.key()), Heartbeat::Unknown);
    assert_eq!(f.disconnect(&old).brokers_removed, 0);
    f.advance(HEARTBEAT_TIMEOUT_MS_DEFAULT + 1);
    assert_eq!(f.expire().brokers_removed, 1);
}

/// A broker that names another cluster lives under that name from now on: the loss of the old name takes nothing.
pub fn a_broker_that_moved_to_another_cluster_stays<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0"));
    f.advance(100_000);
    f.register(&Broker::new("b", 0, "a0").cluster("c1"));
    f.advance(100_000);
    assert_eq!(f.expire().brokers_removed, 1, "the old entry");
    assert_eq!(f.route("t1"), "b{0=a0} / b:6:8:8");
    f.advance(100_000);
    f.expire();
    assert_eq!(f.cluster_info(), NO_BROKERS);
}

/// Static-topic mappings go with the group that brought them, and with the topic.
pub fn mappings_go_with_their_group_and_topic<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let mapping = TopicMapping { bname: Some("foreign".into()), total_queues: 2, ..TopicMapping::default() };
    let owner = Broker::new("b", 0, "a0").mapping("t1", mapping);
    let shown = |f: &mut Fixture<R>| {
        f.route_body("t1", crate::KeyStyle::Bare, false, None).contains("topicQueueMappingByBroker")
    };
    f.register(&Broker::new("c", 0, "a1"));
    f.register(&owner);
    assert!(shown(&mut f));
    f.unregister(&owner);
    assert_eq!(f.route("t1"), "c{0=a1} / c:6:8:8");
    assert!(!shown(&mut f), "its group is gone");
    f.register(&owner);
    assert!(shown(&mut f));
    f.delete_topic("t1", None);
    f.register_topic("t1", ["c"], settings(6));
    assert!(!shown(&mut f), "the topic is another one");
    assert_eq!(f.topics_of(CLUSTER), ["base", "t1"]);
}
