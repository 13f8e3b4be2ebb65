//! What can be asked of the registry's writer, and what it answers.

use crate::{ConnectionId, Name, QueueSettings, Registration, Source, Unregistration};

/// A change of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A broker registers (`REGISTER_BROKER`, 103).
    Register(Box<Registration>),
    /// A broker leaves (`UNREGISTER_BROKER`, 104).
    Unregister(Unregistration),
    /// A connection is gone, and every broker that it carries with it.
    Disconnect(ConnectionId),
    /// A heartbeat (`BROKER_HEARTBEAT`, 904) that met a removal in progress and has to wait for its end.
    Heartbeat {
        /// `clusterName`.
        cluster: Name,
        /// `brokerAddr`.
        broker_addr: Name,
    },
    /// Removes every broker whose last heartbeat is older than its timeout.
    Expire,
    /// Clears the write permission of a broker's topics (`WIPE_WRITE_PERM_OF_BROKER`, 205).
    WipeWritePerm {
        /// `brokerName`.
        broker_name: Name,
    },
    /// Sets the permission of a broker's topics to 6 (`ADD_WRITE_PERM_OF_BROKER`, 327).
    AddWritePerm {
        /// `brokerName`.
        broker_name: Name,
    },
    /// Removes a topic (`DELETE_TOPIC_IN_NAMESRV`, 216).
    DeleteTopic {
        /// `topic`.
        topic: Name,
        /// `clusterName`; `None` or empty means everywhere.
        cluster: Option<Name>,
    },
    /// Adds one topic on registered brokers (`REGISTER_TOPIC_IN_NAMESRV`, 217).
    RegisterTopic {
        /// `topic`.
        topic: Name,
        /// Broker name and settings, for each broker.
        queues: Vec<(Name, QueueSettings)>,
        /// Where the request comes from: who is charged with the topic if it is new.
        source: Source,
    },
    /// Says whether a registration also removes the topics it lacks (`deleteTopicWithBrokerRegistration`).
    DeleteTopicWithRegistration(bool),
}

/// What the writer says of a command that it has applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The broker is registered.
    Registered(Registered),
    /// The broker is registered, but for topics and mappings for which there is no room. All others are taken, and everything
    /// else that it says of itself.
    RegisteredInPart {
        /// How many topics and mappings were left out.
        left_out: usize,
        /// Why the first of them was.
        refusal: Refusal,
    },
    /// The command changed nothing. But a known broker that is refused for a limit has been heard of: it stays alive with what
    /// it has.
    Refused(Refusal),
    /// How many topics the broker has whose permission was changed; 0 for an unknown broker.
    TopicsChanged(u32),
    /// Nothing is to be said: the command is in effect, or there was nothing to do.
    Done,
}

/// Answer to a registration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Registered {
    /// Master of the group that the broker belongs to: set for a slave whose master is alive.
    pub master: Option<Master>,
}

/// Where a slave finds its master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// `masterAddr`.
    pub addr: Name,
    /// `haServerAddr`, where the master told it.
    pub ha_addr: Option<Name>,
}

/// Why a command changed nothing, or a topic was left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A broker that is not yet in its group comes with exactly one topic: it must register all of them first.
    #[error("register broker failed")]
    SingleTopicFirst,
    /// A broker that is not yet in its group comes without a topic table.
    #[error("register broker failed: no topic table in the first registration")]
    NoTopicTable,
    /// Another address holds the broker id with a newer `stateVersion`. The original answers success.
    #[error("broker id {broker_id} is held by {holder:?} with a newer stateVersion")]
    IdHeld {
        /// The id that both claim.
        broker_id: i64,
        /// Address of the holder.
        holder: Name,
    },
    /// A table is full.
    #[error("{table} would exceed its limit of {limit}")]
    TableFull {
        /// Which table.
        table: &'static str,
        /// Its limit.
        limit: usize,
    },
    /// The source would hold more than its share of a table.
    #[error("{table}: one source would exceed its share of {share}")]
    ShareFull {
        /// Which table.
        table: &'static str,
        /// What one source may hold of it.
        share: usize,
    },
    /// A name, or a mapping, is longer than it may be.
    #[error("{what} of {bytes} bytes exceeds the limit of {limit}")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

impl Refusal {
    /// Says whether a limit is the reason: it is none of the broker's doing, who has been heard of all the same.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::TableFull { .. } | Self::ShareFull { .. } | Self::TooLong { .. })
    }
}

/// An applied command: its outcome, and what follows from it outside the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The answer.
    pub outcome: Outcome,
    /// Groups whose smallest broker id changed, for `NOTIFY_MIN_BROKER_ID_CHANGE` (905).
    pub min_id_changes: Vec<MinIdChange>,
    /// Connections whose last broker has expired: nobody alive is behind them.
    pub abandoned: Vec<ConnectionId>,
    /// Brokers removed by this command.
    pub brokers_removed: u32,
}

impl Applied {
    pub(crate) fn new(outcome: Outcome) -> Self {
        Self { outcome, min_id_changes: Vec::new(), abandoned: Vec::new(), brokers_removed: 0 }
    }
}

/// What the members of a group are told when its smallest broker id changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinIdChange {
    /// Name of the group; not sent.
    pub broker_name: Name,
    /// `minBrokerId`.
    pub min_broker_id: i64,
    /// `minBrokerAddr`.
    pub min_broker_addr: Name,
    /// `offlineBrokerAddr`: the member that left.
    pub offline_broker_addr: Option<Name>,
    /// `haBrokerAddr`: of the member that came.
    pub ha_broker_addr: Option<Name>,
    /// Addresses to tell.
    pub recipients: Vec<Name>,
}
