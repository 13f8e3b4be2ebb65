//! Numbers of the wire and their names.

/// The version that answers carry: the ordinal of release 5.5.0. Java: `MQVersion.CURRENT_VERSION`.
pub const VERSION: i32 = 513;

/// Version of the first release whose registrations are more than a topic table, and may be compressed.
/// Java: `MQVersion.Version.V3_0_11`.
pub const VERSION_3_0_11: i32 = 37;

/// Version of the first release whose clients read standard JSON only. Java: `MQVersion.Version.V4_9_4`.
pub const VERSION_4_9_4: i32 = 401;

/// Version of the first release whose compressed registrations end with mappings. Java: `MQVersion.Version.V5_0_0`.
pub const VERSION_5_0_0: i32 = 413;

/// Clients newer than this understand [`ResponseCode::GoAway`]. Java: `MQVersion.Version.V5_3_1`.
pub const VERSION_5_3_1: i32 = 475;

/// Set in the flag of answers. Java: `RemotingCommand.RPC_TYPE`, as a mask.
pub const FLAG_RESPONSE: i32 = 1;

/// Set in the flag of requests that want no answer. Java: `RemotingCommand.RPC_ONEWAY`, as a mask.
pub const FLAG_ONEWAY: i32 = 2;

/// How the header of a frame is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SerializeType {
    /// A JSON object. Java: `JSON`, 0.
    #[default]
    Json,
    /// Big-endian binary. Java: `ROCKETMQ`, 1.
    RocketMq,
}

impl SerializeType {
    /// The type that a frame's type byte means.
    pub fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Json),
            1 => Some(Self::RocketMq),
            _ => None,
        }
    }

    /// The type byte of a frame.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::RocketMq => 1,
        }
    }

    /// The type with this Java name, which is how it is configured.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "JSON" => Some(Self::Json),
            "ROCKETMQ" => Some(Self::RocketMq),
            _ => None,
        }
    }

    /// The Java name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::RocketMq => "ROCKETMQ",
        }
    }
}

/// What a request asks for. Java: `RequestCode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestCode {
    /// Stores one key of the KV configuration. Java: `PUT_KV_CONFIG`.
    PutKvConfig = 100,
    /// Reads one key of the KV configuration. Java: `GET_KV_CONFIG`.
    GetKvConfig = 101,
    /// Removes one key of the KV configuration. Java: `DELETE_KV_CONFIG`.
    DeleteKvConfig = 102,
    /// Registers a broker and its topics. Java: `REGISTER_BROKER`.
    RegisterBroker = 103,
    /// Removes a broker. Java: `UNREGISTER_BROKER`.
    UnregisterBroker = 104,
    /// Asks for the route of a topic: the hot path. Java: `GET_ROUTEINFO_BY_TOPIC`.
    GetRouteInfoByTopic = 105,
    /// Asks for all brokers and clusters. Java: `GET_BROKER_CLUSTER_INFO`.
    GetBrokerClusterInfo = 106,
    /// Takes the write permission of a broker's topics away. Java: `WIPE_WRITE_PERM_OF_BROKER`.
    WipeWritePermOfBroker = 205,
    /// Asks for the names of all topics. Java: `GET_ALL_TOPIC_LIST_FROM_NAMESERVER`.
    GetAllTopicListFromNameserver = 206,
    /// Removes a topic, of one cluster or of all. Java: `DELETE_TOPIC_IN_NAMESRV`.
    DeleteTopicInNamesrv = 216,
    /// Adds queues of a topic. Java: `REGISTER_TOPIC_IN_NAMESRV`.
    RegisterTopicInNamesrv = 217,
    /// Reads one namespace of the KV configuration. Java: `GET_KVLIST_BY_NAMESPACE`.
    GetKvListByNamespace = 219,
    /// Asks for the topics of a cluster. Java: `GET_TOPICS_BY_CLUSTER`.
    GetTopicsByCluster = 224,
    /// Asks for the topics named after clusters and brokers. Java: `GET_SYSTEM_TOPIC_LIST_FROM_NS`.
    GetSystemTopicListFromNs = 304,
    /// Asks for the topics with the unit flag. Java: `GET_UNIT_TOPIC_LIST`.
    GetUnitTopicList = 311,
    /// Asks for the topics with the unit subscription flag. Java: `GET_HAS_UNIT_SUB_TOPIC_LIST`.
    GetHasUnitSubTopicList = 312,
    /// Asks for the topics with the unit subscription flag but not the unit flag. Java: `GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST`.
    GetHasUnitSubUnunitTopicList = 313,
    /// Changes the configuration of the server. Java: `UPDATE_NAMESRV_CONFIG`.
    UpdateNamesrvConfig = 318,
    /// Reads the configuration of the server. Java: `GET_NAMESRV_CONFIG`.
    GetNamesrvConfig = 319,
    /// Asks whether a registration would change anything; a heartbeat as well. Java: `QUERY_DATA_VERSION`.
    QueryDataVersion = 322,
    /// Gives write permission to a broker's topics. Java: `ADD_WRITE_PERM_OF_BROKER`.
    AddWritePermOfBroker = 327,
    /// Asks for the members of one broker group. Java: `GET_BROKER_MEMBER_GROUP`.
    GetBrokerMemberGroup = 901,
    /// Keeps a broker alive. Java: `BROKER_HEARTBEAT`.
    BrokerHeartbeat = 904,
    /// Sent by the name server: the smallest broker id of a group changed. Java: `NOTIFY_MIN_BROKER_ID_CHANGE`.
    NotifyMinBrokerIdChange = 905,
}

impl RequestCode {
    /// Every request code, by number.
    pub const ALL: [Self; 24] = [
        Self::PutKvConfig,
        Self::GetKvConfig,
        Self::DeleteKvConfig,
        Self::RegisterBroker,
        Self::UnregisterBroker,
        Self::GetRouteInfoByTopic,
        Self::GetBrokerClusterInfo,
        Self::WipeWritePermOfBroker,
        Self::GetAllTopicListFromNameserver,
        Self::DeleteTopicInNamesrv,
        Self::RegisterTopicInNamesrv,
        Self::GetKvListByNamespace,
        Self::GetTopicsByCluster,
        Self::GetSystemTopicListFromNs,
        Self::GetUnitTopicList,
        Self::GetHasUnitSubTopicList,
        Self::GetHasUnitSubUnunitTopicList,
        Self::UpdateNamesrvConfig,
        Self::GetNamesrvConfig,
        Self::QueryDataVersion,
        Self::AddWritePermOfBroker,
        Self::GetBrokerMemberGroup,
        Self::BrokerHeartbeat,
        Self::NotifyMinBrokerIdChange,
    ];

    /// The request that a number on the wire means.
    pub fn from_wire(code: i32) -> Option<Self> {
        Some(match code {
            100 => Self::PutKvConfig,
            101 => Self::GetKvConfig,
            102 => Self::DeleteKvConfig,
            103 => Self::RegisterBroker,
            104 => Self::UnregisterBroker,
            105 => Self::GetRouteInfoByTopic,
            106 => Self::GetBrokerClusterInfo,
            205 => Self::WipeWritePermOfBroker,
            206 => Self::GetAllTopicListFromNameserver,
            216 => Self::DeleteTopicInNamesrv,
            217 => Self::RegisterTopicInNamesrv,
            219 => Self::GetKvListByNamespace,
            224 => Self::GetTopicsByCluster,
            304 => Self::GetSystemTopicListFromNs,
            311 => Self::GetUnitTopicList,
            312 => Self::GetHasUnitSubTopicList,
            313 => Self::GetHasUnitSubUnunitTopicList,
            318 => Self::UpdateNamesrvConfig,
            319 => Self::GetNamesrvConfig,
            322 => Self::QueryDataVersion,
            327 => Self::AddWritePermOfBroker,
            901 => Self::GetBrokerMemberGroup,
            904 => Self::BrokerHeartbeat,
            905 => Self::NotifyMinBrokerIdChange,
            _ => return None,
        })
    }

    /// The number on the wire.
    pub fn to_wire(self) -> i32 {
        self as i32
    }

    /// The Java name.
    pub fn name(self) -> &'static str {
        match self {
            Self::PutKvConfig => "PUT_KV_CONFIG",
            Self::GetKvConfig => "GET_KV_CONFIG",
            Self::DeleteKvConfig => "DELETE_KV_CONFIG",
            Self::RegisterBroker => "REGISTER_BROKER",
            Self::UnregisterBroker => "UNREGISTER_BROKER",
            Self::GetRouteInfoByTopic => "GET_ROUTEINFO_BY_TOPIC",
            Self::GetBrokerClusterInfo => "GET_BROKER_CLUSTER_INFO",
            Self::WipeWritePermOfBroker => "WIPE_WRITE_PERM_OF_BROKER",
            Self::GetAllTopicListFromNameserver => "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
            Self::DeleteTopicInNamesrv => "DELETE_TOPIC_IN_NAMESRV",
            Self::RegisterTopicInNamesrv => "REGISTER_TOPIC_IN_NAMESRV",
            Self::GetKvListByNamespace => "GET_KVLIST_BY_NAMESPACE",
            Self::GetTopicsByCluster => "GET_TOPICS_BY_CLUSTER",
            Self::GetSystemTopicListFromNs => "GET_SYSTEM_TOPIC_LIST_FROM_NS",
            Self::GetUnitTopicList => "GET_UNIT_TOPIC_LIST",
            Self::GetHasUnitSubTopicList => "GET_HAS_UNIT_SUB_TOPIC_LIST",
            Self::GetHasUnitSubUnunitTopicList => "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
            Self::UpdateNamesrvConfig => "UPDATE_NAMESRV_CONFIG",
            Self::GetNamesrvConfig => "GET_NAMESRV_CONFIG",
            Self::QueryDataVersion => "QUERY_DATA_VERSION",
            Self::AddWritePermOfBroker => "ADD_WRITE_PERM_OF_BROKER",
            Self::GetBrokerMemberGroup => "GET_BROKER_MEMBER_GROUP",
            Self::BrokerHeartbeat => "BROKER_HEARTBEAT",
            Self::NotifyMinBrokerIdChange => "NOTIFY_MIN_BROKER_ID_CHANGE",
        }
    }
}

/// How a request ended. Java: `ResponseCode` and `RemotingSysResponseCode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseCode {
    /// Done. Java: `SUCCESS`.
    Success = 0,
    /// Failed; the remark says why. Java: `SYSTEM_ERROR`.
    SystemError = 1,
    /// Not tried: the server has too much to do. Java: `SYSTEM_BUSY`.
    SystemBusy = 2,
    /// Nobody here knows this request code. Java: `REQUEST_CODE_NOT_SUPPORTED`.
    RequestCodeNotSupported = 3,
    /// The sender may not do this. Java: `NO_PERMISSION`.
    NoPermission = 16,
    /// No route for this topic. Java: `TOPIC_NOT_EXIST`.
    TopicNotExist = 17,
    /// No such namespace or key. Java: `QUERY_NOT_FOUND`.
    QueryNotFound = 22,
    /// The server is shutting down; ask another one. Java: `GO_AWAY`.
    GoAway = 1500,
}

impl ResponseCode {
    /// The number on the wire.
    pub fn to_wire(self) -> i32 {
        self as i32
    }

    /// The Java name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::SystemError => "SYSTEM_ERROR",
            Self::SystemBusy => "SYSTEM_BUSY",
            Self::RequestCodeNotSupported => "REQUEST_CODE_NOT_SUPPORTED",
            Self::NoPermission => "NO_PERMISSION",
            Self::TopicNotExist => "TOPIC_NOT_EXIST",
            Self::QueryNotFound => "QUERY_NOT_FOUND",
            Self::GoAway => "GO_AWAY",
        }
    }
}

/// What a client is written in. Java: `LanguageCode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// Java: `JAVA`.
    Java = 0,
    /// Java: `CPP`.
    Cpp = 1,
    /// Java: `DOTNET`.
    Dotnet = 2,
    /// Java: `PYTHON`.
    Python = 3,
    /// Java: `DELPHI`.
    Delphi = 4,
    /// Java: `ERLANG`.
    Erlang = 5,
    /// Java: `RUBY`.
    Ruby = 6,
    /// Java: `OTHER`.
    Other = 7,
    /// Java: `HTTP`.
    Http = 8,
    /// Java: `GO`.
    Go = 9,
    /// Java: `PHP`.
    Php = 10,
    /// Java: `OMS`.
    Oms = 11,
    /// Java: `RUST`.
    Rust = 12,
    /// Java: `NODE_JS`.
    NodeJs = 13,
}

impl Language {
    /// Every language, by number.
    pub const ALL: [Self; 14] = [
        Self::Java,
        Self::Cpp,
        Self::Dotnet,
        Self::Python,
        Self::Delphi,
        Self::Erlang,
        Self::Ruby,
        Self::Other,
        Self::Http,
        Self::Go,
        Self::Php,
        Self::Oms,
        Self::Rust,
        Self::NodeJs,
    ];

    /// The language with this number.
    pub fn from_wire(ordinal: i32) -> Option<Self> {
        usize::try_from(ordinal).ok().and_then(|at| Self::ALL.get(at)).copied()
    }

    /// The language with this Java name, which is what JSON headers carry.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }

    /// The number on the wire.
    pub fn to_wire(self) -> u8 {
        self as u8
    }

    /// The Java name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Java => "JAVA",
            Self::Cpp => "CPP",
            Self::Dotnet => "DOTNET",
            Self::Python => "PYTHON",
            Self::Delphi => "DELPHI",
            Self::Erlang => "ERLANG",
            Self::Ruby => "RUBY",
            Self::Other => "OTHER",
            Self::Http => "HTTP",
            Self::Go => "GO",
            Self::Php => "PHP",
            Self::Oms => "OMS",
            Self::Rust => "RUST",
            Self::NodeJs => "NODE_JS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_codes() {
        for code in RequestCode::ALL {
            assert_eq!(RequestCode::from_wire(code.to_wire()), Some(code), "{}", code.name());
        }
        for language in Language::ALL {
            assert_eq!(Language::from_wire(language.to_wire().into()), Some(language));
            assert_eq!(Language::from_name(language.name()), Some(language));
        }
        for serialize_type in [SerializeType::Json, SerializeType::RocketMq] {
            assert_eq!(SerializeType::from_wire(serialize_type.to_wire()), Some(serialize_type));
            assert_eq!(SerializeType::from_name(serialize_type.name()), Some(serialize_type));
        }
    }

    #[test]
    fn unknown_numbers_and_names_are_none() {
        assert_eq!(RequestCode::from_wire(0), None);
        assert_eq!(RequestCode::from_wire(9999), None);
        assert_eq!(Language::from_wire(14), None);
        assert_eq!(Language::from_wire(-1), None);
        assert_eq!(Language::from_name("java"), None);
        assert_eq!(SerializeType::from_wire(2), None);
        assert_eq!(SerializeType::from_name("json"), None);
    }
}
