//! Slaves that act as a master that is not there, and who is told of it.

use super::super::fixture::{Broker, CLUSTER, Fixture, settings};
use crate::{MinIdChange, Registry};

fn change(id: i64, addr: &str, offline: Option<&str>, ha: Option<&str>, recipients: &[&str]) -> MinIdChange {
    MinIdChange {
        broker_name: "b0".into(),
        min_broker_id: id,
        min_broker_addr: addr.into(),
        offline_broker_addr: offline.map(Into::into),
        ha_broker_addr: ha.map(Into::into),
        recipients: recipients.iter().map(|&addr| addr.into()).collect(),
    }
}

/// The recorded scenario of the original: three brokers come, the master goes, roles change, versions of state decide.
pub fn three_brokers_take_turns<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let broker = |id: i64, addr: &str| Broker::new("b0", id, addr).acting(true);
    assert_eq!(f.register_and_tell(&broker(2, "a2")), []);
    assert_eq!(f.acting_route("t1"), "b0{0=a2} / b0:4:8:8");
    assert_eq!(f.register_and_tell(&broker(1, "a1")), [change(1, "a1", None, Some("ha-a1"), &["a2"])]);
    assert_eq!(f.acting_route("t1"), "b0{0=a1,2=a2} / b0:4:8:8");
    assert_eq!(f.register_and_tell(&broker(0, "a0")), [change(0, "a0", None, Some("ha-a0"), &["a1", "a2"])]);
    assert_eq!(f.acting_route("t1"), "b0{0=a0,1=a1,2=a2} / b0:6:8:8");

    let left = f.unregister(&broker(0, "a0"));
    assert_eq!(left.min_id_changes, [change(1, "a1", Some("a0"), None, &["a1", "a2"])]);
    assert_eq!(f.acting_route("t1"), "b0{0=a1,2=a2} / b0:4:8:8");
    assert_eq!(f.route("t1"), "b0{1=a1,2=a2} / b0:4:8:8", "real ids without supportActingMaster");
    let real = r#""brokerAddrs":{1:"a1",2:"a2"}"#;
    assert!(
        f.cluster_info().contains(real) && f.member_group(CLUSTER, "b0").contains(real),
        "106 and 901 show real ids"
    );

    assert_eq!(f.register_and_tell(&broker(0, "a1")), [change(0, "a1", None, Some("ha-a1"), &["a2"])]);
    assert_eq!(f.acting_route("t1"), "b0{0=a1,2=a2} / b0:6:8:8");
    assert_eq!(f.register_and_tell(&broker(0, "a0").state(5)), [], "the smallest id is the same");
    assert_eq!(f.acting_route("t1"), "b0{0=a0,2=a2} / b0:6:8:8");
    let before = f.everything();
    assert_eq!(f.try_register(&broker(0, "a1").state(4)).min_id_changes, []);
    assert_eq!(f.everything(), before);
    f.register(&broker(0, "a1").state(5));
    assert_eq!(f.acting_route("t1"), "b0{0=a1,2=a2} / b0:6:8:8");
}

/// The master of two leaves by farewell or with its connection; the slave acts, and steps back when it returns.
pub fn a_slave_acts_until_the_master_returns<R: Registry>() {
    let leaves: [fn(&mut Fixture<R>, &Broker); 3] = [
        |f, master| _ = f.unregister(master),
        |f, master| _ = f.disconnect(master),
        |f, master| {
            f.advance(60_000);
            f.beat(&Broker::new("b", 1, "a1").key());
            f.advance(60_001);
            assert_eq!(f.expire().brokers_removed, 1, "{master:?}");
        },
    ];
    for leave in leaves {
        let mut f = Fixture::<R>::new();
        let master = Broker::new("b", 0, "a0").acting(true);
        f.register(&master);
        f.register(&Broker::new("b", 1, "a1").acting(true));
        assert_eq!(f.acting_route("t1"), "b{0=a0,1=a1} / b:6:8:8");
        leave(&mut f, &master);
        assert_eq!(f.acting_route("t1"), "b{0=a1} / b:4:8:8");
        f.register(&master.version(2));
        assert_eq!(f.acting_route("t1"), "b{0=a0,1=a1} / b:6:8:8");
    }
}

/// With a second, complete group on the topic only the one without master is rewritten.
pub fn only_the_group_without_master_is_rewritten<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let one_queue = crate::QueueSettings { read_queues: 1, write_queues: 1, ..settings(6) };
    let broker =
        |name: &str, id, addr: &str| Broker::new(name, id, addr).acting(true).topics(["base", "global"], one_queue);
    f.register(&broker("b1", 1, "a1"));
    assert_eq!(f.acting_route("global"), "b1{0=a1} / b1:4:1:1");
    f.register(&broker("b2", 0, "a2"));
    f.register(&broker("b2", 1, "a3"));
    assert_eq!(f.acting_route("global"), "b1{0=a1} b2{0=a2,1=a3} / b1:4:1:1 b2:6:1:1");
    f.register(&broker("b1", 0, "a0"));
    assert_eq!(f.acting_route("global"), "b1{0=a0,1=a1} b2{0=a2,1=a3} / b1:6:1:1 b2:6:1:1");
}

/// Slave first, master joins, slave alone again, master again: perm 4, 6, 4, 6.
pub fn permissions_come_back_with_the_master<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let (master, slave) = (Broker::new("b", 0, "a0").acting(true), Broker::new("b", 1, "a1").acting(true));
    for round in 1..3 {
        f.register(&slave.clone().version(round));
        assert_eq!(f.acting_route("t1"), "b{0=a1} / b:4:8:8");
        f.register(&master.clone().version(round));
        assert_eq!(f.acting_route("t1"), "b{0=a0,1=a1} / b:6:8:8");
        f.register(&slave.clone().version(round + 1));
        assert_eq!(f.acting_route("t1"), "b{0=a0,1=a1} / b:6:8:8", "a slave beside its master changes nothing");
        f.unregister(&master);
        assert_eq!(f.acting_route("t1"), "b{0=a1} / b:4:8:8");
    }
}

/// The topics on which brokers look their group up show real ids; a writable slave is not rewritten either.
pub fn what_is_never_rewritten<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let sync = "rmq_sys_SYNC_BROKER_MEMBER_b";
    f.register(&Broker::new("b", 1, "a1").acting(true).topics(["t1", sync], settings(6)));
    assert_eq!(f.acting_route("t1"), "b{0=a1} / b:4:8:8");
    assert_eq!(f.acting_route(sync), "b{1=a1} / b:4:8:8");
    f.add("b");
    assert_eq!(f.acting_route("t1"), "b{1=a1} / b:6:8:8", "writable: somebody wants it so");
    f.register(&Broker::new("off", 1, "a2").acting(false).topics(["base", "t2"], settings(4)));
    assert_eq!(f.acting_route("t2"), "off{1=a2} / off:4:8:8", "the group does not want it");
}

/// A farewell that quotes the smallest id tells the others, even of an address that nobody knows; another id does not.
pub fn who_is_told_of_a_farewell<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b0", 0, "a0").acting(true));
    f.register(&Broker::new("b0", 1, "a1").acting(true));
    f.register(&Broker::new("b0", 2, "a2").acting(true));
    let unknown = f.unregister(&Broker::new("b0", 0, "nowhere"));
    assert_eq!(unknown.brokers_removed, 0);
    assert_eq!(unknown.min_id_changes, [change(0, "a0", Some("nowhere"), None, &["a0", "a1", "a2"])]);
    assert_eq!(f.unregister(&Broker::new("b0", 2, "a2")).min_id_changes, [], "not the smallest");
    f.unregister(&Broker::new("b0", 0, "a0"));
    f.add("b0");
    f.unregister(&Broker::new("b0", 7, "nowhere"));
    assert_eq!(
        f.acting_route("t1"),
        "b0{0=a1} / b0:4:8:8",
        "a group without master that is named loses its permission"
    );
    assert_eq!(f.unregister(&Broker::new("b0", 1, "a1")).min_id_changes, [], "nobody is left to be told");
}

/// On registration the others are told whether or not they act; a group of one tells itself, the first of a group nobody.
pub fn who_is_told_of_a_registration<R: Registry>() {
    let mut f = Fixture::<R>::new();
    assert_eq!(f.register_and_tell(&Broker::new("b0", 1, "a1")), []);
    let alone = f.register_and_tell(&Broker::new("b0", 0, "a1").version(2));
    assert_eq!(alone, [change(0, "a1", None, Some("ha-a1"), &["a1"])]);
    assert_eq!(f.register_and_tell(&Broker::new("b0", 5, "a5")), []);
    assert_eq!(f.register_and_tell(&Broker::new("b0", 0, "a1").version(3)), []);
}
