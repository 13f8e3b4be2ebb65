//! Every configuration key: one table.

use std::fmt;
use std::ops::RangeInclusive;

use super::Environment;
use super::cidr::Cidr;
use super::live::LiveKey;
use crate::remoting::SerializeType;

/// One key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// As operators write it.
    pub name: &'static str,
    /// Where the original has it.
    pub group: Group,
    /// Which values it takes.
    pub kind: Kind,
    /// What holds when nobody sets it.
    pub default: DefaultValue,
    /// What it does here.
    pub effect: Effect,
}

/// Where the original has a key. The answer to GET_NAMESRV_CONFIG lists the first two, and others if the file has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Java: `NamesrvConfig`.
    Namesrv,
    /// Java: `NettyServerConfig`.
    NettyServer,
    /// Java: `NettyClientConfig`.
    NettyClient,
    /// Nowhere; it is ours.
    Own,
}

/// Which values a key takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Flag,
    /// A whole number in a range.
    Number(RangeInclusive<i64>),
    /// Any text.
    Text,
    /// Any text but none.
    Name,
    /// A host name or an address, IPv6 with or without brackets.
    Host,
    /// CIDR blocks, separated by commas. They say who is trusted, so no update over the network changes them.
    Cidrs,
    /// `JSON` or `ROCKETMQ`.
    SerializeType,
}

/// What holds when nobody sets a key.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// Always the same.
    Fixed(&'static str),
    /// Depends on the machine; `None`: it has no value.
    Computed(fn(&Environment) -> Option<String>),
}

/// What a key does in this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Honoured, and an update takes effect at once.
    Live(LiveKey),
    /// Honoured at the start.
    Restart,
    /// Known, so that a file of the original is accepted, but without a meaning here.
    Ignored,
}

/// A value of the right kind and in its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Flag`].
    Flag(bool),
    /// Of [`Kind::Number`].
    Number(i64),
    /// Of [`Kind::Text`], [`Kind::Name`] and, without brackets, [`Kind::Host`].
    Text(String),
    /// Of [`Kind::Cidrs`].
    Cidrs(Vec<Cidr>),
    /// Of [`Kind::SerializeType`].
    SerializeType(SerializeType),
}

/// A value that its key does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {value:?} is not {expected}")]
pub struct ValueError {
    /// The key.
    pub key: &'static str,
    /// The value, cut to a length that fits a message.
    pub value: String,
    /// What the key takes.
    pub expected: String,
}

/// The key of this name. Names are told apart by case.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Key {
    /// Reads a value. Blanks around it are removed: nobody sees them in a file, and none of our keys needs them.
    ///
    /// # Errors
    ///
    /// It is not of the kind, or out of the range, of this key.
    pub fn parse(&self, text: &str) -> Result<Value, ValueError> {
        let given = text;
        let text = given.trim();
        let value = match &self.kind {
            Kind::Flag if text.eq_ignore_ascii_case("true") => Some(Value::Flag(true)),
            Kind::Flag if text.eq_ignore_ascii_case("false") => Some(Value::Flag(false)),
            Kind::Flag => None,
            Kind::Number(range) => text.parse().ok().filter(|number| range.contains(number)).map(Value::Number),
            Kind::Text => Some(Value::Text(text.to_owned())),
            Kind::Name => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
            Kind::Host => {
                Some(without_brackets(text)).filter(|host| !host.is_empty()).map(|host| Value::Text(host.to_owned()))
            }
            Kind::Cidrs => cidrs(text).map(Value::Cidrs),
            Kind::SerializeType => SerializeType::from_name(text).map(Value::SerializeType),
        };
        value.ok_or_else(|| ValueError { key: self.name, value: shown(given), expected: self.kind.to_string() })
    }

    pub(super) fn default_text(&self, environment: &Environment) -> Option<String> {
        match self.default {
            Fixed(text) => Some(text.to_owned()),
            Computed(compute) => compute(environment),
        }
    }
}

/// The beginning of `text`, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A host name has none, so what stands in brackets is an IPv6 address.
fn without_brackets(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

fn cidrs(text: &str) -> Option<Vec<Cidr>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|block| block.trim().parse().ok()).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("true or false"),
            Self::Number(range) => write!(f, "a whole number from {} to {}", range.start(), range.end()),
            Self::Text => f.write_str("a text"),
            Self::Name => f.write_str("a text of at least one letter"),
            Self::Host => f.write_str("a host name or an address"),
            Self::Cidrs => f.write_str("a list of addresses or CIDR blocks, separated by commas"),
            Self::SerializeType => f.write_str("JSON or ROCKETMQ"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(on) => on.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Cidrs(blocks) => {
                let blocks: Vec<_> = blocks.iter().map(Cidr::to_string).collect();
                f.write_str(&blocks.join(","))
            }
            Self::SerializeType(kind) => f.write_str(kind.name()),
        }
    }
}

use DefaultValue::{Computed, Fixed};
use Effect::{Ignored, Live, Restart};
use Group::{Namesrv, NettyClient, NettyServer, Own};

/// Every key that is known, by group.
pub static KEYS: &[Key] = &[
    text(Namesrv, "rocketmqHome", Computed(|environment| environment.rocketmq_home.clone()), Restart),
    name(Namesrv, "kvConfigPath", Computed(|environment| environment.file("kvConfig.json")), Restart),
    name(Namesrv, "configStorePath", Computed(|environment| environment.file("namesrv.properties")), Restart),
    text(Namesrv, "productEnvName", Fixed("center"), Ignored),
    flag(Namesrv, "clusterTest", "false", Ignored),
    flag(Namesrv, "orderMessageEnable", "false", Live(LiveKey::OrderMessageEnable)),
    flag(Namesrv, "returnOrderTopicConfigToBroker", "true", Live(LiveKey::ReturnOrderTopicConfigToBroker)),
    number(Namesrv, "clientRequestThreadPoolNums", "8", 1..=INT_MAX, Ignored),
    number(Namesrv, "defaultThreadPoolNums", "16", 1..=INT_MAX, Ignored),
    number(Namesrv, "clientRequestThreadPoolQueueCapacity", "50000", 1..=INT_MAX, Ignored),
    number(Namesrv, "defaultThreadPoolQueueCapacity", "10000", 1..=INT_MAX, Ignored),
    // Milliseconds. A scan walks all brokers, so not every millisecond; an hour keeps expiry meaningful.
    number(Namesrv, "scanNotActiveBrokerInterval", "5000", 10..=3_600_000, Restart),
    // Here a farewell waits in its connection, and none is ever refused.
    number(Namesrv, "unRegisterBrokerQueueCapacity", "3000", 1..=1_000_000, Ignored),
    flag(Namesrv, "supportActingMaster", "false", Live(LiveKey::SupportActingMaster)),
    flag(Namesrv, "enableAllTopicList", "true", Live(LiveKey::EnableAllTopicList)),
    flag(Namesrv, "enableTopicList", "true", Live(LiveKey::EnableTopicList)),
    flag(Namesrv, "notifyMinBrokerIdChanged", "false", Live(LiveKey::NotifyMinBrokerIdChanged)),
    // On, it stops the start, see `Conflict::NoController`.
    flag(Namesrv, "enableControllerInNamesrv", "false", Ignored),
    flag(Namesrv, "needWaitForService", "false", Live(LiveKey::NeedWaitForService)),
    number(Namesrv, "waitSecondsForService", "45", 0..=INT_MAX, Live(LiveKey::WaitSecondsForService)),
    flag(Namesrv, "deleteTopicWithBrokerRegistration", "false", Live(LiveKey::DeleteTopicWithBrokerRegistration)),
    text(Namesrv, "configBlackList", Fixed("configBlackList;configStorePath;kvConfigPath"), Restart),
    Key { name: "bindAddress", group: NettyServer, kind: Kind::Host, default: Fixed("0.0.0.0"), effect: Restart },
    // 0 takes any free port.
    number(NettyServer, "listenPort", "9876", 0..=65_535, Restart),
    number(NettyServer, "serverWorkerThreads", "8", 0..=INT_MAX, Ignored),
    number(NettyServer, "serverCallbackExecutorThreads", "0", 0..=INT_MAX, Ignored),
    number(NettyServer, "serverSelectorThreads", "3", 0..=INT_MAX, Ignored),
    number(NettyServer, "serverOnewaySemaphoreValue", "256", 0..=INT_MAX, Ignored),
    number(NettyServer, "serverAsyncSemaphoreValue", "64", 0..=INT_MAX, Ignored),
    // Seconds; 0 keeps idle connections.
    number(NettyServer, "serverChannelMaxIdleTimeSeconds", "120", 0..=INT_MAX, Restart),
    // Bytes; 0 leaves the size to the system.
    number(NettyServer, "serverSocketSndBufSize", "0", 0..=INT_MAX, Restart),
    number(NettyServer, "serverSocketRcvBufSize", "0", 0..=INT_MAX, Restart),
    number(NettyServer, "writeBufferHighWaterMark", "0", 0..=INT_MAX, Ignored),
    number(NettyServer, "writeBufferLowWaterMark", "0", 0..=INT_MAX, Ignored),
    number(NettyServer, "serverSocketBacklog", "1024", 1..=INT_MAX, Restart),
    flag(NettyServer, "serverNettyWorkerGroupEnable", "true", Ignored),
    flag(NettyServer, "serverPooledByteBufAllocatorEnable", "true", Ignored),
    flag(NettyServer, "enableShutdownGracefully", "false", Restart),
    number(NettyServer, "shutdownWaitTimeSeconds", "30", 0..=86_400, Restart),
    flag(NettyServer, "useEpollNativeSelector", "false", Ignored),
    number(NettyClient, "clientWorkerThreads", "4", 0..=INT_MAX, Ignored),
    Key {
        name: "clientCallbackExecutorThreads",
        group: NettyClient,
        kind: Kind::Number(0..=INT_MAX),
        default: Computed(|environment| Some(environment.cores.to_string())),
        effect: Ignored,
    },
    number(NettyClient, "clientOnewaySemaphoreValue", "65535", 0..=INT_MAX, Ignored),
    number(NettyClient, "clientAsyncSemaphoreValue", "65535", 0..=INT_MAX, Ignored),
    // Milliseconds, for the connections on which brokers are told of a new smallest id.
    number(NettyClient, "connectTimeoutMillis", "3000", 1..=600_000, Restart),
    number(NettyClient, "channelNotActiveInterval", "60000", 0..=i64::MAX, Ignored),
    flag(NettyClient, "scanAvailableNameSrv", "true", Ignored),
    number(NettyClient, "clientChannelMaxIdleTimeSeconds", "120", 0..=INT_MAX, Ignored),
    number(NettyClient, "clientSocketSndBufSize", "0", 0..=INT_MAX, Ignored),
    number(NettyClient, "clientSocketRcvBufSize", "0", 0..=INT_MAX, Ignored),
    flag(NettyClient, "clientPooledByteBufAllocatorEnable", "false", Ignored),
    flag(NettyClient, "clientCloseSocketIfTimeout", "true", Ignored),
    flag(NettyClient, "useTLS", "false", Ignored),
    text(NettyClient, "socksProxyConfig", Fixed("{}"), Ignored),
    flag(NettyClient, "disableCallbackExecutor", "false", Ignored),
    flag(NettyClient, "disableNettyWorkerGroup", "false", Ignored),
    number(NettyClient, "maxReconnectIntervalTimeSeconds", "60", 0..=INT_MAX, Ignored),
    flag(NettyClient, "enableReconnectForGoAway", "true", Ignored),
    // Who may change the configuration over the network.
    trusted("adminAllowCidrs", "127.0.0.0/8,::1/128"),
    // Connections; 0 takes what the limit of open files leaves, but at most 65,536.
    number(Own, "maxConnections", "0", 0..=10_000_000, Restart),
    // Connections of one source address; 0 for no limit of its own: clients behind one NAT share an address.
    number(Own, "maxConnectionsPerIp", "0", 0..=10_000_000, Restart),
    // Bytes that peers may hold under way: frames, bodies, answers. At least four of the longest frames
    // (see `FRAMES_IN_MEMORY_MIN`), to which the default is raised.
    number(Own, "memoryBytesMax", "268435456", 1 << 20..=1 << 40, Restart),
    // Bytes of the longest header, which is parsed on a thread that serves lookups; no more than a frame may have, to
    // which the default is lowered.
    number(Own, "headerBytesMax", "65536", 1_024..=16_777_215, Restart),
    // Who may say in a PROXY header for whom it speaks: loopback, private (RFC 1918, RFC 4193) and link-local ranges,
    // where load balancers stand.
    trusted(
        "proxyProtocolTrusted",
        "127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,169.254.0.0/16,fc00::/7,fe80::/10",
    ),
    // Milliseconds in which connections are drained at the end.
    number(Own, "drainTimeoutMillis", "3000", 0..=600_000, Restart),
    // Milliseconds for the rest of a frame (and one more for each 64 bytes of it); hyper's limit for a header.
    number(Own, "frameReadTimeoutMillis", "30000", 100..=600_000, Restart),
    // Milliseconds in which a peer must take a byte of its answers.
    number(Own, "writeStallTimeoutMillis", "15000", 100..=600_000, Restart),
    // Puts are kept in memory when the KV file cannot be written, as on a read-only file system; else they are refused.
    flag(Own, "kvInMemory", "false", Restart),
    // Brokers that are told of a new smallest id though they registered from another address: containers, NAT.
    trusted("notifyAllowCidrs", ""),
    // Whether brokers that name a host are told, too: a stranger's name makes the server ask its resolver.
    flag(Own, "notifyHostNames", "false", Restart),
    // Bytes. Java: system property `com.rocketmq.remoting.frameMaxLength`. Lengths are signed 32-bit numbers on the wire.
    number(Own, "frameMaxLength", "16777216", 1_024..=1 << 30, Restart),
    // Java: system property `rocketmq.serialize.type`.
    Key {
        name: "serializeType",
        group: Own,
        kind: Kind::SerializeType,
        default: Computed(|environment| Some(environment.serialize_type.clone().unwrap_or_else(|| "JSON".to_owned()))),
        effect: Restart,
    },
    // Threads that serve lookups. One core stays free for registrations.
    Key {
        name: "workerThreads",
        group: Own,
        kind: Kind::Number(1..=1_024),
        default: Computed(|environment| Some(environment.cores.saturating_sub(1).clamp(1, 1_024).to_string())),
        effect: Restart,
    },
];

const INT_MAX: i64 = i32::MAX as i64;

const fn flag(group: Group, name: &'static str, default: &'static str, effect: Effect) -> Key {
    Key { name, group, kind: Kind::Flag, default: Fixed(default), effect }
}

/// Ours, all of them: nobody else is told whom to trust.
const fn trusted(name: &'static str, default: &'static str) -> Key {
    Key { name, group: Own, kind: Kind::Cidrs, default: Fixed(default), effect: Restart }
}

const fn number(
    group: Group,
    name: &'static str,
    default: &'static str,
    range: RangeInclusive<i64>,
    effect: Effect,
) -> Key {
    Key { name, group, kind: Kind::Number(range), default: Fixed(default), effect }
}

const fn text(group: Group, name: &'static str, default: DefaultValue, effect: Effect) -> Key {
    Key { name, group, kind: Kind::Text, default, effect }
}

const fn name(group: Group, name: &'static str, default: DefaultValue, effect: Effect) -> Key {
    Key { name, group, kind: Kind::Name, default, effect }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_are_valid() {
        let environment = Environment { cores: 5_000, ..Environment::for_tests() };
        for (at, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..at].iter().all(|other| other.name != key.name), "{}", key.name);
            let default = key.default_text(&environment).unwrap_or_default();
            assert_eq!(key.parse(&default).unwrap().to_string(), default, "{}", key.name);
        }
    }

    #[test]
    fn live_keys_have_the_kind_that_their_word_holds() {
        for key in KEYS {
            if let Live(live) = key.effect {
                let expected = match live {
                    LiveKey::WaitSecondsForService => Kind::Number(0..=INT_MAX),
                    _ => Kind::Flag,
                };
                assert_eq!(key.kind, expected, "{}", key.name);
            }
        }
        assert_eq!(KEYS.iter().filter(|key| matches!(key.effect, Live(_))).count(), 9);
    }

    #[test]
    fn a_bad_value_says_what_would_be_good() {
        let message = |key: &str, value: &str| find(key).unwrap().parse(value).unwrap_err().to_string();
        assert_eq!(message("listenPort", "65536"), r#"listenPort: "65536" is not a whole number from 0 to 65535"#);
        assert_eq!(message("enableTopicList", "yes"), r#"enableTopicList: "yes" is not true or false"#);
        assert_eq!(message("serializeType", "json"), r#"serializeType: "json" is not JSON or ROCKETMQ"#);
        for (key, value) in [
            ("waitSecondsForService", "4 7 "),
            ("bindAddress", "[]"),
            ("kvConfigPath", " "),
            ("waitSecondsForService", "-1"),
            ("waitSecondsForService", "99999999999"),
            ("waitSecondsForService", ""),
            ("kvConfigPath", ""),
            ("adminAllowCidrs", "10.0.0.0/8,"),
            ("adminAllowCidrs", "localhost"),
        ] {
            assert!(message(key, value).contains(&format!("{value:?}")), "{key}");
        }
        assert!(message("listenPort", &"9".repeat(10_000)).len() < 200);
        assert!(!message("listenPort", "1\nERROR").contains('\n'));
    }

    #[test]
    fn blanks_around_a_value_do_not_count() {
        let parse = |key: &str, text: &str| find(key).unwrap().parse(text).unwrap().to_string();
        for (key, value) in [
            ("waitSecondsForService", "47"),
            ("enableTopicList", "true"),
            ("serializeType", "ROCKETMQ"),
            ("kvConfigPath", "/x y/kv.json"),
            ("bindAddress", "127.0.0.1"),
            ("adminAllowCidrs", "::1/128"),
        ] {
            assert_eq!(parse(key, &format!("\t {value} \t\u{c}")), value, "{key}");
        }
        assert_eq!(parse("adminAllowCidrs", " "), "");
    }

    #[test]
    fn an_ipv6_address_may_stand_in_brackets() {
        let parse = |text: &str| find("bindAddress").unwrap().parse(text).unwrap().to_string();
        for (text, host) in [("[::]", "::"), ("[::1] ", "::1"), ("::", "::"), ("0.0.0.0", "0.0.0.0"), ("mq-1", "mq-1")]
        {
            assert_eq!(parse(text), host);
        }
    }

    #[test]
    fn reads_flags_in_any_case_and_lists_with_blanks() {
        assert_eq!(find("clusterTest").unwrap().parse("TRUE"), Ok(Value::Flag(true)));
        let blocks = find("adminAllowCidrs").unwrap().parse("10.0.0.0/8, ::1").unwrap();
        assert_eq!(blocks.to_string(), "10.0.0.0/8,::1/128");
        assert_eq!(find("adminAllowCidrs").unwrap().parse(""), Ok(Value::Cidrs(Vec::new())));
    }
}
