//! The one table of requests: for each code, where it runs, in which order, who may ask, and how it is called.
//!
//! ```text
//!            label   who may ask   order     runs
//!   105 ──>  route   Read          Free      Here(Service::route)                  ──> answered by the worker
//!   206 ──>  ...     Read          Free      On(Scan, OffWorker::all_topics)       ──> lane ──> answer
//!   103 ──>  ...     Broker        InTurn    BySize(Register, Decode, ...register) ──> lane ──> writer ──> answer
//! ```
//!
//! A handler of a worker gets a [`Service`], one of a lane an [`OffWorker`]: what scans, blocks or parses large bodies is a
//! method of the latter, so a row that would run it on a thread that serves lookups does not compile.

use registry_core::{Reader, query::UnitTopics};

use super::{Call, Handled, OffWorker, Service};
use crate::{body::likely_bytes, remoting::RequestCode};

/// What the server does with one kind of request.
pub(crate) struct Row<R: Reader> {
    /// Name in logs.
    pub(crate) label: &'static str,
    /// Who may ask.
    pub(crate) access: Access,
    /// Whether it waits for those before it.
    pub(crate) order: Order,
    /// Where it runs, and what.
    pub(crate) run: Run<R>,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody who may know what is registered.
    Read,
    /// Brokers.
    Broker,
    /// Whoever operates the cluster.
    Admin,
    /// Whoever operates this server: `adminAllowCidrs`.
    Config,
}

/// How the requests of one connection follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Answered as soon as it can be: it may overtake what its connection has asked before.
    Free,
    /// A change: begins when the changes that its connection has asked for before are made.
    InTurn,
}

/// The threads beside the workers that requests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Registrations with small bodies.
    Register,
    /// Large bodies: inflating and parsing.
    Decode,
    /// Answers about all brokers.
    Cluster,
    /// Answers about all topics.
    Scan,
    /// Files.
    Storage,
}

impl Lane {
    /// Every lane, in the order of their numbers.
    pub(crate) const ALL: [Self; 5] = [Self::Register, Self::Decode, Self::Cluster, Self::Scan, Self::Storage];

    /// Name of the thread.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Decode => "decode",
            Self::Cluster => "cluster",
            Self::Scan => "scan",
            Self::Storage => "storage",
        }
    }
}

/// Where a request runs.
pub(crate) enum Run<R: Reader> {
    /// On the worker that has read it.
    Here(OnWorker<R>),
    /// On the worker while its body is short, else on a lane.
    HereIfShort(OnWorker<R>, Lane),
    /// On a lane.
    On(Lane, OnLane<R>),
    /// On one lane while its body is small, else on another.
    BySize(Lane, Lane, OnLane<R>),
}

type OnWorker<R> = fn(&mut Service<R>, Call<'_>, &mut Vec<u8>) -> Handled;
type OnLane<R> = fn(&mut OffWorker<R>, Call<'_>, &mut Vec<u8>) -> Handled;

/// Bodies up to this many bytes are parsed where they arrive: a data version has about 60.
const SHORT_BODY_BYTES_MAX: usize = 4_096;
/// Bodies up to this many bytes are small: a broker with some hundred topics, unless it compresses. Parsed in less than a
/// millisecond.
const SMALL_BODY_BYTES_MAX: usize = 64 << 10;

/// The row of a request; `None` for what a name server is not asked.
#[inline]
pub(crate) fn row<R: Reader>(code: i32) -> Option<Row<R>> {
    use Access::{Admin, Broker, Config, Read};
    use Order::{Free, InTurn};
    use RequestCode as Code;
    use Run::{BySize, Here, HereIfShort, On};

    let row = |label, access, order, run| Some(Row { label, access, order, run });
    match Code::from_wire(code)? {
        Code::GetRouteInfoByTopic => row("route", Read, Free, Here(Service::route)),
        Code::BrokerHeartbeat => row("heartbeat", Broker, Free, Here(Service::heartbeat)),
        Code::QueryDataVersion => {
            row("query_data_version", Broker, Free, HereIfShort(Service::query_data_version, Lane::Decode))
        }
        Code::GetBrokerMemberGroup => row("member_group", Read, Free, Here(Service::member_group)),
        Code::RegisterBroker => {
            row("register", Broker, InTurn, BySize(Lane::Register, Lane::Decode, OffWorker::register))
        }
        Code::RegisterTopicInNamesrv => {
            row("register_topic", Broker, InTurn, BySize(Lane::Register, Lane::Decode, OffWorker::register_topic))
        }
        Code::UnregisterBroker => row("unregister", Broker, InTurn, Here(Service::unregister)),
        Code::WipeWritePermOfBroker => row("wipe_write_perm", Admin, InTurn, Here(Service::wipe_write_perm)),
        Code::AddWritePermOfBroker => row("add_write_perm", Admin, InTurn, Here(Service::add_write_perm)),
        Code::DeleteTopicInNamesrv => row("delete_topic", Admin, InTurn, Here(Service::delete_topic)),
        Code::GetBrokerClusterInfo => row("cluster_info", Read, Free, On(Lane::Cluster, OffWorker::cluster_info)),
        Code::GetSystemTopicListFromNs => row("system_topics", Read, Free, On(Lane::Cluster, OffWorker::system_topics)),
        Code::GetAllTopicListFromNameserver => row("all_topics", Read, Free, On(Lane::Scan, OffWorker::all_topics)),
        Code::GetTopicsByCluster => row("topics_of_cluster", Read, Free, On(Lane::Scan, OffWorker::topics_of_cluster)),
        Code::GetUnitTopicList => row(
            "unit_topics",
            Read,
            Free,
            On(Lane::Scan, |lane, call, out| lane.unit_topics(call, out, UnitTopics::Unit)),
        ),
        Code::GetHasUnitSubTopicList => row(
            "unit_sub_topics",
            Read,
            Free,
            On(Lane::Scan, |lane, call, out| lane.unit_topics(call, out, UnitTopics::UnitSubscription)),
        ),
        Code::GetHasUnitSubUnunitTopicList => row(
            "unit_sub_ununit_topics",
            Read,
            Free,
            On(Lane::Scan, |lane, call, out| lane.unit_topics(call, out, UnitTopics::UnitSubscriptionOnly)),
        ),
        Code::GetKvConfig => row("get_kv", Read, Free, Here(Service::get_kv)),
        Code::GetKvListByNamespace => row("get_kv_list", Read, Free, Here(Service::get_kv_list)),
        Code::PutKvConfig => row("put_kv", Admin, InTurn, On(Lane::Storage, OffWorker::put_kv)),
        Code::DeleteKvConfig => row("delete_kv", Admin, InTurn, On(Lane::Storage, OffWorker::delete_kv)),
        Code::UpdateNamesrvConfig => row("update_config", Config, InTurn, On(Lane::Storage, OffWorker::update_config)),
        Code::GetNamesrvConfig => row("get_config", Read, Free, Here(Service::get_config)),
        // 905 is for brokers: to a name server it is as unknown as the rest.
        Code::NotifyMinBrokerIdChange => None,
    }
}

/// What a request is called in logs.
pub(crate) fn label<R: Reader>(code: i32) -> &'static str {
    row::<R>(code).map_or("unknown", |row| row.label)
}

/// Whether a request changes something, and so waits for its turn.
pub(crate) fn is_change<R: Reader>(code: i32) -> bool {
    row::<R>(code).is_some_and(|row| row.order == Order::InTurn)
}

impl<R: Reader> Run<R> {
    /// The lane for a request with this body; `None` for the worker.
    #[inline]
    pub(crate) fn lane(&self, body: Option<&[u8]>) -> Option<Lane> {
        let size = || likely_bytes(body.unwrap_or_default());
        match *self {
            Self::Here(_) => None,
            Self::HereIfShort(_, lane) => (size() > SHORT_BODY_BYTES_MAX).then_some(lane),
            Self::On(lane, _) => Some(lane),
            Self::BySize(small, large, _) => Some(if size() > SMALL_BODY_BYTES_MAX { large } else { small }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Row<<backends::RwLockRegistry as registry_core::Registry>::Reader>;

    fn rows() -> impl Iterator<Item = Rows> {
        RequestCode::ALL.into_iter().filter_map(|code| row(code.to_wire()))
    }

    #[test]
    fn every_request_of_a_name_server_has_a_row_and_a_name_of_its_own() {
        let labels: std::collections::BTreeSet<_> = rows().map(|row| row.label).collect();
        assert_eq!(labels.len(), RequestCode::ALL.len() - 1, "all but 905, which it sends");
        assert!(row::<<backends::RwLockRegistry as registry_core::Registry>::Reader>(12_345).is_none());
    }

    #[test]
    fn what_changes_something_waits_its_turn_and_reads_do_not() {
        for row in rows() {
            let is_beat = matches!(row.label, "heartbeat" | "query_data_version");
            let is_free = row.access == Access::Read || is_beat;
            assert_eq!(row.order == Order::Free, is_free, "{}", row.label);
        }
    }

    #[test]
    fn large_bodies_and_those_that_inflate_to_one_have_their_own_lane() {
        let register: Rows = row(103).unwrap();
        let zlib = |bytes: usize| [&[0x78, 0x9c][..], &vec![0; bytes - 2]].concat();
        assert_eq!(register.run.lane(None), Some(Lane::Register));
        assert_eq!(register.run.lane(Some(&[0; SMALL_BODY_BYTES_MAX])), Some(Lane::Register));
        assert_eq!(register.run.lane(Some(&[0; SMALL_BODY_BYTES_MAX + 1])), Some(Lane::Decode));
        assert_eq!(register.run.lane(Some(&zlib(4_096))), Some(Lane::Register));
        assert_eq!(register.run.lane(Some(&zlib(4_097))), Some(Lane::Decode));
        let version: Rows = row(322).unwrap();
        assert_eq!(version.run.lane(Some(&[0; SHORT_BODY_BYTES_MAX])), None);
        assert_eq!(version.run.lane(Some(&[0; SHORT_BODY_BYTES_MAX + 1])), Some(Lane::Decode));
    }
}
