//! What our server answers where the recorded answer is not the measure.
//!
//! Sections are those of the specification of the original: 6.1 lists its defects with numbers Q1 to Q30, 1.4 and 2.1
//! what its JSON parser accepts by accident. "Ours" names a decision of this project that is stricter on purpose.

/// The expectation of one step.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) file: &'static str,
    pub(crate) step: u64,
    pub(crate) expect: Expect,
    pub(crate) section: &'static str,
}

/// What may come instead of the recorded answer.
#[derive(Debug)]
pub(crate) enum Expect {
    /// What was recorded, compared canonically, remark aside.
    Recorded,
    /// As recorded, with quoted ids in the body.
    Quoted,
    /// An answer with one of these codes and without a body.
    Codes(&'static [i64]),
    /// A success with these fields and this body, if any; the rest of its header as recorded.
    Answer { fields: &'static [(&'static str, &'static str)], body: Option<&'static str> },
    /// The recorded header with one of these bodies.
    Body(&'static [&'static str]),
    /// The recorded text body, where these lines (`key=value`) are ours.
    Lines(&'static [&'static str]),
    /// What was recorded for an earlier step.
    SameAs(u64),
    /// Any answer to this request, or a close.
    ServedOrClosed,
    /// A close without an answer.
    Closed,
    /// 901 or 105 about the broker of an earlier registration: there if and only if that step was answered 0.
    Follows(u64),
}

/// Our expectation of a step, if it has one.
pub(crate) fn of(file: &str, step: u64) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.file == file && entry.step == step)
}

const fn e(file: &'static str, step: u64, expect: Expect, section: &'static str) -> Entry {
    Entry { file, step, expect, section }
}

use Expect::{Answer, Body, Closed, Codes, Follows, Lines, Quoted, Recorded, SameAs, ServedOrClosed};

const ODD: &str = "14-register-odd-bodies";
const HEADERS: &str = "50-headers-json-odd";
const CONFIG: &str = "46-config";
const EMPTY: &str = r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#;
const PARSER: &str = "2.1, leniency of the JSON parser";
const HEADER_PARSER: &str = "1.4, leniency of the JSON parser";
const REFUSED: Expect = Codes(&[1]);
const EITHER: Expect = Codes(&[0, 1]);

pub(crate) const TABLE: &[Entry] = &[
    // A registration that cannot be carried out is refused and changes nothing.
    e(ODD, 44, REFUSED, "6.1 Q10"),
    e(ODD, 45, Follows(44), "6.1 Q10"),
    e(ODD, 46, Follows(44), "6.1 Q10"),
    e(ODD, 47, REFUSED, "6.1 Q10"),
    e(ODD, 48, Follows(47), "6.1 Q10"),
    e(ODD, 49, Follows(47), "6.1 Q10"),
    e(ODD, 59, EITHER, "6.1 Q10: accepting or refusing, but not half"),
    e(ODD, 60, Follows(59), "6.1 Q10"),
    e(ODD, 61, Follows(59), "6.1 Q10"),
    e(ODD, 113, REFUSED, "2.1: a null topic refuses the registration; 6.1 Q10"),
    e(ODD, 114, Follows(113), "6.1 Q10"),
    e(ODD, 115, Follows(113), "6.1 Q10"),
    e(ODD, 116, REFUSED, "6.1 Q10: a topic without topicName"),
    e(ODD, 117, Follows(116), "6.1 Q10"),
    e(ODD, 118, Follows(116), "6.1 Q10"),
    e(ODD, 131, EITHER, "6.1 Q10: accepting or refusing, but not half"),
    e(ODD, 132, Follows(131), "6.1 Q10"),
    e(ODD, 133, Follows(131), "6.1 Q10"),
    // Bodies that only a lenient parser reads.
    e(ODD, 74, EITHER, PARSER),
    e(ODD, 75, Follows(74), PARSER),
    e(ODD, 76, Follows(74), PARSER),
    e(ODD, 77, EITHER, PARSER),
    e(ODD, 78, Follows(77), PARSER),
    e(ODD, 79, Follows(77), PARSER),
    e(ODD, 80, EITHER, PARSER),
    e(ODD, 81, Follows(80), PARSER),
    e(ODD, 82, Follows(80), PARSER),
    e(ODD, 83, EITHER, PARSER),
    e(ODD, 84, Follows(83), PARSER),
    e(ODD, 85, Follows(83), PARSER),
    e(ODD, 86, EITHER, PARSER),
    e(ODD, 87, Follows(86), PARSER),
    e(ODD, 88, Follows(86), PARSER),
    e(ODD, 104, EITHER, PARSER),
    e(ODD, 105, Follows(104), PARSER),
    e(ODD, 106, Follows(104), PARSER),
    e(ODD, 137, EITHER, PARSER),
    e(ODD, 138, Follows(137), PARSER),
    e(ODD, 139, Follows(137), PARSER),
    e(ODD, 140, Recorded, "2.1: unknown fields are ignored"),
    e(ODD, 141, Recorded, "2.1: unknown fields are ignored"),
    e(ODD, 142, Recorded, "2.1: unknown fields are ignored"),
    e(ODD, 143, Recorded, "6.1 Q29: read it"),
    e(ODD, 144, Recorded, "6.1 Q29: read it"),
    e(ODD, 145, Recorded, "6.1 Q29: read it"),
    e("43-register-topic-217", 40, EITHER, PARSER),
    e("43-register-topic-217", 41, Follows(40), PARSER),
    e("43-register-topic-217", 50, Body(TOPICS_WITH_OR_WITHOUT_N4), PARSER),
    // State that the original forgets to remove, or changes by half.
    e("15-register-single-topic", 4, Body(&[EMPTY]), "6.1 Q11"),
    e("16-register-state-version", 11, Answer { fields: &[("changed", "true")], body: None }, "6.1 Q12"),
    e("23-unregister-104", 45, STILL_ALIVE, "6.1 Q12, Q13: a member of a group has a live entry"),
    e("23-unregister-104", 75, Body(&[EMPTY]), "6.1 Q13"),
    e("25-connection-loss", 37, Body(&[EMPTY]), "6.1 Q9"),
    // The mapping is dropped with the topic.
    e("33-static-topics", 32, Body(&[STATIC_TOPIC]), "6.1 Q14"),
    e("33-static-topics", 35, Body(&[STATIC_TOPIC]), "6.1 Q14"),
    e("43-register-topic-217", 21, Body(&[T1_UNTOUCHED]), "6.1 Q16"),
    // Zone-filtered routes keep the JSON mode that was asked for.
    e("31-route-zones", 10, Quoted, "6.1 Q23"),
    e("31-route-zones", 11, Quoted, "6.1 Q23"),
    e("31-route-zones", 12, Quoted, "6.1 Q23"),
    e("31-route-zones", 13, Quoted, "6.1 Q23"),
    e("31-route-zones", 25, Quoted, "6.1 Q23"),
    e("31-route-zones", 26, Quoted, "6.1 Q23"),
    e("31-route-zones", 29, Quoted, "6.1 Q23"),
    e("33-static-topics", 28, Quoted, "6.1 Q23"),
    // A header is bounded as soon as its length is known.
    e("52-frames-bad", 24, Closed, "ours: headerBytesMax"),
    // The boundary between header and body is headerLen.
    e("51-headers-binary-odd", 139, SameAs(136), "1.5"),
    // Without these names nothing can be registered.
    e("56-missing-fields", 51, REFUSED, "6.1 Q10"),
    e("56-missing-fields", 52, REFUSED, "6.1 Q10"),
    e("56-missing-fields", 53, REFUSED, "6.1 Q10"),
    e("56-missing-fields", 54, REFUSED, "6.1 Q10"),
    // Headers that only a lenient parser reads.
    e(HEADERS, 67, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 70, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 73, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 82, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 133, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 172, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 175, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 178, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 181, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 184, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 187, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 190, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 199, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 211, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 214, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 226, Closed, "1.3: a header that is an array closes"),
    e(HEADERS, 229, Closed, "1.3: a header that is an array closes"),
    e(HEADERS, 232, Closed, "1.3: an unparseable header closes"),
    e(HEADERS, 235, Closed, "1.3: an unparseable header closes"),
    e(HEADERS, 250, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 253, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 259, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 262, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 268, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 271, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 274, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 283, Recorded, "1.4: unknown keys must be accepted"),
    e(HEADERS, 289, Recorded, "1.4: unknown keys must be accepted"),
    e(HEADERS, 295, ServedOrClosed, "1.4: a body key in the header"),
    e(HEADERS, 301, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 307, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 310, ServedOrClosed, HEADER_PARSER),
    e(HEADERS, 313, ServedOrClosed, HEADER_PARSER),
    // Configuration updates: known keys that are safe at run time, valid values, all or nothing.
    e(CONFIG, 26, NOT_UPDATED, UPDATE),
    e(CONFIG, 27, NOT_UPDATED, UPDATE),
    e(CONFIG, 29, NOT_UPDATED, UPDATE),
    e(CONFIG, 30, Recorded, STORED),
    e(CONFIG, 31, NOT_UPDATED, UPDATE),
    e(CONFIG, 33, NOT_UPDATED, UPDATE),
    e(CONFIG, 35, NOT_UPDATED, UPDATE),
    e(CONFIG, 36, Lines(AFTER_UPDATES), UPDATE),
    e(CONFIG, 37, NOT_UPDATED, UPDATE),
    e(CONFIG, 38, NOT_UPDATED, UPDATE),
    e(CONFIG, 39, NOT_UPDATED, UPDATE),
    e(CONFIG, 41, Lines(AFTER_UPDATES), UPDATE),
    e(CONFIG, 42, Lines(AFTER_UPDATES), UPDATE),
    e(CONFIG, 44, Lines(AFTER_UPDATES), UPDATE),
    e("47-config-file-keys", 3, NOT_UPDATED, UPDATE),
    e("47-config-file-keys", 4, NOT_UPDATED, UPDATE),
    e("47-config-file-keys", 8, Lines(&["myOwnKey=hello"]), UPDATE),
    e("47-config-file-keys", 13, Lines(&["myOwnKey=hello"]), UPDATE),
    e("12-register-compressed", 31, ACCEPTED, "2.2, ours: a zlib stream is recognised"),
    e("12-register-compressed", 32, Follows(31), "2.2, ours: a zlib stream is recognised"),
    e("12-register-compressed", 33, ACCEPTED, "2.2, ours: a zlib stream is recognised"),
    e("12-register-compressed", 34, Follows(33), "2.2, ours: a zlib stream is recognised"),
    // The broker compresses but does not say so; ours looks at the bytes and lets it in.
    e("real-broker-compressed", 2, ACCEPTED, "2.2, ours: a zlib stream is recognised"),
    e("real-broker-compressed", 3, ACCEPTED, "2.2, ours: a zlib stream is recognised"),
    e("real-broker-compressed", 4, Body(&[COMPRESSED_GROUP]), "2.2, ours: a zlib stream is recognised"),
];

const ACCEPTED: Expect = Answer { fields: &[], body: None };
const STILL_ALIVE: Expect =
    Answer { fields: &[("changed", "false")], body: Some(r#"{"counter":1,"stateVersion":0,"timestamp":1000}"#) };
const UPDATE: &str = "3.10, ours: updates are validated, all or nothing, and of known keys only";
const STORED: &str = "3.10, ours: the remark of a success names keys that take effect later or not at all";
const NOT_UPDATED: Expect = Codes(&[1]);
const AFTER_UPDATES: &[&str] = &["serverWorkerThreads=8", "waitSecondsForService=47"];
const TOPICS_WITH_OR_WITHOUT_N4: &[&str] = &[
    r#"{"topicList":["N1","N2","N3","N5","N7","T1","T2","T3"]}"#,
    r#"{"topicList":["N1","N2","N3","N4","N5","N7","T1","T2","T3"]}"#,
];
const STATIC_TOPIC: &str = concat!(
    r#"{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:10931"},"brokerName":"broker-a","#,
    r#""cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"#,
    r#""queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}"#,
);
const T1_UNTOUCHED: &str = concat!(
    r#"{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10921"},"brokerName":"broker-b","cluster":"DefaultCluster","#,
    r#""enableActingMaster":false},{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a","#,
    r#""cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"#,
    r#""queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8},"#,
    r#"{"brokerName":"broker-b","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}"#,
);
const COMPRESSED_GROUP: &str = concat!(
    r#"{"brokerAddrTable":{"broker-real":{"brokerAddrs":{0:"127.0.0.1:21911"},"brokerName":"broker-real","#,
    r#""cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-real"]}}"#,
);
