//! Full tables: what does not fit is refused and changes nothing.

use super::super::fixture::{Broker, Fixture, settings};
use crate::{Applied, Outcome, Refusal, Registry, TableLimits, TopicMapping};

const SMALL: TableLimits = TableLimits { groups_max: 2, members_max: 2, topics_max: 3 };

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
    let mut f = Fixture::<R>::with_limits(SMALL);
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
    let mut f = Fixture::<R>::with_limits(SMALL);
    f.register(&Broker::new("b", 1, "a1"));
    f.register(&Broker::new("b", 2, "a2"));
    refused(&mut f, &Broker::new("b", 0, "a3"), "members_max", 2);
    f.register(&Broker::new("b", 0, "a2"));
    f.register(&Broker::new("b", 1, "a4"));
    assert_eq!(f.route("t1"), "b{0=a2,1=a4} / b:6:8:8");
}

/// `topics_max`: no more topics, of whatever kind; what is there may change, and what would not be taken needs no room.
pub fn topics_are_limited<R: Registry>() {
    let mut f = Fixture::<R>::with_limits(SMALL);
    refused(&mut f, &Broker::new("b", 0, "a0").topics(["t1", "t2", "t3", "t4"], settings(6)), "topics_max", 3);
    f.register(&Broker::new("b", 0, "a0").topics(["t1", "t2", "t3"], settings(6)));
    let before = f.everything();
    f.register_topic("t4", ["b"], settings(6));
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
