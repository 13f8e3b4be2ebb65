//! Bytes of answers, and what clients of a zone see.

use super::super::{
    Probe,
    fixture::{Broker, Fixture, settings},
};
use crate::{KeyStyle, QueueSettings, Registry, TopicMapping};

/// Every answer of a registry that knows nobody.
pub fn an_empty_registry_answers<R: Registry>() {
    let mut f = Fixture::<R>::new();
    assert_eq!(f.cluster_info(), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
    assert_eq!(f.ask(&Probe::AllTopics), r#"{"topicList":[]}"#);
    assert_eq!(f.ask(&Probe::TopicsOfCluster("X".into())), r#"{"topicList":[]}"#);
    assert_eq!(f.ask(&Probe::SystemTopics), r#"{"topicList":[]}"#);
    let group = r#"{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"b9","cluster":"X"}}"#;
    assert_eq!(f.member_group("X", "b9"), group);
    assert_eq!(f.ask(&Probe::MemberGroup(None, None)), r#"{"brokerMemberGroup":{"brokerAddrs":{}}}"#);
    assert_eq!(f.route("nope"), "none");
}

/// A route with everything in it, in both styles of numeric keys.
pub fn route_bytes<R: Registry>() {
    let mut f = Fixture::<R>::new();
    let mapping = TopicMapping {
        topic: Some("st".into()),
        bname: Some("bs".into()),
        scope: Some("__global__".into()),
        total_queues: 2,
        epoch: 77,
        dirty: false,
        curr_id_map: Some([(0, 0), (1, 1)].into()),
    };
    let other = TopicMapping { bname: Some("aa".into()), dirty: true, ..TopicMapping::default() };
    let nameless = TopicMapping { total_queues: 9, ..TopicMapping::default() };
    let settings = QueueSettings { read_queues: 8, write_queues: 4, perm: 6, topic_sys_flag: 1 };
    let master = Broker::new("b0", 0, "127.0.0.1:10911").acting(true).zone("Z1").filters(["f1", "f2"]);
    let master = master.topics(["st", "base"], settings);
    f.register(&master.mapping("st", mapping).mapping("st", other).mapping("st", nameless));
    f.register(&Broker::new("b0", 2, "127.0.0.1:10913").acting(true).zone("Z1"));
    let expected = concat!(
        r#"{"brokerDatas":[{"brokerAddrs":{<0>:"127.0.0.1:10911",<2>:"127.0.0.1:10913"},"brokerName":"b0","#,
        r#""cluster":"DefaultCluster","enableActingMaster":true,"zoneName":"Z1"}],"#,
        r#""filterServerTable":{"127.0.0.1:10911":["f1","f2"]},"orderTopicConf":"b0:4;b1:4","#,
        r#""queueDatas":[{"brokerName":"b0","perm":6,"readQueueNums":8,"topicSysFlag":1,"writeQueueNums":4}],"#,
        r#""topicQueueMappingByBroker":{"aa":{"bname":"aa","dirty":true,"epoch":0,"totalQueues":0},"#,
        r#""bs":{"bname":"bs","currIdMap":{<0>:0,<1>:1},"dirty":false,"epoch":77,"scope":"__global__","#,
        r#""topic":"st","totalQueues":2}}}"#,
    );
    for (style, open, close) in [(KeyStyle::Bare, "", ""), (KeyStyle::Quoted, "\"", "\"")] {
        let order_conf = Some("b0:4;b1:4".into());
        let answer = f.ask(&Probe::Route { topic: "st".into(), style, acting_master: true, zone: None, order_conf });
        assert_eq!(answer, expected.replace('<', open).replace('>', close));
    }
}

/// A plain route: `filterServerTable` is there, empty; nothing that is absent is.
pub fn plain_route_bytes<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b0", 0, "a0"));
    let expected = concat!(
        r#"{"brokerDatas":[{"brokerAddrs":{0:"a0"},"brokerName":"b0","cluster":"DefaultCluster","#,
        r#""enableActingMaster":false}],"filterServerTable":{},"#,
        r#""queueDatas":[{"brokerName":"b0","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}"#,
    );
    assert_eq!(f.route_body("t1", KeyStyle::Bare, false, None), expected);
}

/// Cluster info and member groups: numeric keys are bare for everybody; the cluster of 901 is an echo.
pub fn cluster_info_bytes<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b1", 10, "a1").cluster("c1"));
    f.register(&Broker::new("b0", 2, "a0"));
    f.register(&Broker::new("b0", 0, "a2").zone("z"));
    let expected = concat!(
        r#"{"brokerAddrTable":{"b0":{"brokerAddrs":{0:"a2",2:"a0"},"brokerName":"b0","cluster":"DefaultCluster","#,
        r#""enableActingMaster":false,"zoneName":"z"},"b1":{"brokerAddrs":{10:"a1"},"brokerName":"b1","#,
        r#""cluster":"c1","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["b0"],"c1":["b1"]}}"#,
    );
    assert_eq!(f.cluster_info(), expected);
    let group = r#"{"brokerMemberGroup":{"brokerAddrs":{0:"a2",2:"a0"},"brokerName":"b0","cluster":"wrong"}}"#;
    assert_eq!(f.member_group("wrong", "b0"), group);
    let system = r#"{"brokerAddr":"a2","topicList":["DefaultCluster","b0","b1","c1"]}"#;
    assert_eq!(f.ask(&Probe::SystemTopics), system);
}

/// A zone shows its own groups, whatever the case of its name, and those without a master.
pub fn zones_show_their_own<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("here", 0, "a0").zone("Zone1").filters(["f1"]));
    f.register(&Broker::new("there", 0, "a1").zone("zone2").filters(["f2"]));
    f.register(&Broker::new("nowhere", 0, "a2"));
    f.register(&Broker::new("headless", 0, "a3").zone("zone2"));
    f.register(&Broker::new("headless", 1, "a4").zone("zone2"));
    f.unregister(&Broker::new("headless", 0, "a3"));
    assert_eq!(f.zone_route("t1", "ZONE1"), "headless{1=a4} here{0=a0} / headless:6:8:8 here:6:8:8");
    let body = f.route_body("t1", KeyStyle::Quoted, false, Some("zone1"));
    assert!(body.contains(r#""filterServerTable":{"a0":["f1"]}"#), "filter servers of others are not shown: {body}");
    f.unregister(&Broker::new("headless", 1, "a4"));
    let nobody = r#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}"#;
    assert_eq!(f.route_body("t1", KeyStyle::Bare, false, Some("zone3")), nobody, "an empty route is a route");
    let bare = f.route_body("t1", KeyStyle::Bare, false, Some("zone1"));
    assert!(bare.contains(r#"{0:"a0"}"#) && body.contains(r#"{"0":"a0"}"#), "a zone changes nothing in the style");
    assert_eq!(f.route_body("nope", KeyStyle::Bare, false, Some("zone1")), "none");
}

/// A slave that acts as master counts as one in its zone; one that does not act is kept for everybody.
pub fn acting_masters_count_in_their_zone<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 1, "a1").acting(true).zone("zone2"));
    let nobody = r#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}"#;
    assert_eq!(f.route_body("t1", KeyStyle::Bare, true, Some("zone1")), nobody);
    assert_eq!(f.zone_route("t1", "zone1"), "b{1=a1} / b:4:8:8", "without supportActingMaster it has no master");
    assert!(f.route_body("t1", KeyStyle::Bare, true, Some("zone2")).contains(r#"{0:"a1"}"#));
}

/// What two groups have in common stays apart: settings of one do not show in the other.
pub fn groups_have_settings_of_their_own<R: Registry>() {
    let mut f = Fixture::<R>::new();
    f.register(&Broker::new("b", 0, "a0").topics(["t1", "t2"], settings(6)));
    f.register(&Broker::new("a", 0, "a1").topics(["t1", "t2"], QueueSettings { read_queues: 3, ..settings(4) }));
    assert_eq!(f.route("t1"), "a{0=a1} b{0=a0} / a:4:3:8 b:6:8:8", "sorted by name, not by arrival");
    f.wipe("b");
    assert_eq!(f.route("t2"), "a{0=a1} b{0=a0} / a:4:3:8 b:4:8:8");
}
