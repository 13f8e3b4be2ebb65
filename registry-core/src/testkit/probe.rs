//! Every query of the protocol as a value, so that one list of questions can be put to several views.

use crate::{
    DataVersion, KeyStyle, LiveKey, Millis, Name, Stale, View,
    query::{self, List, TopicNames},
};

/// A question to one state of the registry. Asking changes nothing: what counts as a heartbeat is asked at time 0.
#[derive(Clone, Debug)]
pub enum Probe {
    /// 105.
    Route {
        /// `topic`.
        topic: Name,
        /// How numeric keys are written.
        style: KeyStyle,
        /// `supportActingMaster`.
        acting_master: bool,
        /// `__ZONE_NAME`.
        zone: Option<Name>,
        /// `orderTopicConf`.
        order_conf: Option<Name>,
    },
    /// 106.
    ClusterInfo,
    /// 206.
    AllTopics,
    /// 224.
    TopicsOfCluster(Name),
    /// 304.
    SystemTopics,
    /// 311, 312, 313.
    UnitTopics(query::UnitTopics),
    /// 901, with cluster and broker name.
    MemberGroup(Option<Name>, Option<Name>),
    /// 322.
    DataVersion(LiveKey, Option<DataVersion>),
}

impl Probe {
    /// Puts the question to a view; the answer is the body, or a line that says what its header would.
    ///
    /// # Errors
    /// [`Stale`], for the strategy.
    ///
    /// # Panics
    /// When an answer is not UTF-8.
    pub fn ask(&self, view: &impl View) -> Result<String, Stale> {
        let mut out = Vec::new();
        match self {
            Self::Route { .. } => {
                let query = self.route_query().expect("it is one");
                if !query::route(view, &query, &mut out)? {
                    assert!(out.is_empty(), "a route that is not there wrote something");
                    return Ok("none".into());
                }
            }
            Self::ClusterInfo => query::cluster_info(view.root(), &mut out),
            Self::AllTopics => out = listed(|names| query::all_topics(view, names))?,
            Self::TopicsOfCluster(cluster) => out = listed(|names| query::topics_of_cluster(view, cluster, names))?,
            Self::SystemTopics => query::system_topics(view.root(), &mut out),
            Self::UnitTopics(which) => out = listed(|names| query::unit_topics(view, *which, names))?,
            Self::MemberGroup(cluster, name) => {
                query::member_group(view.root(), cluster.as_deref(), name.as_deref(), &mut out);
            }
            Self::DataVersion(key, version) => {
                let answer = query::query_data_version(view.root(), key, *version, Millis(0));
                return Ok(format!("changed={} known={:?}", answer.is_changed, answer.known));
            }
        }
        Ok(String::from_utf8(out).expect("answers are UTF-8"))
    }

    /// The list that the question is about, if it is one that is kept.
    pub fn list(&self) -> Option<List> {
        match self {
            Self::ClusterInfo => Some(List::ClusterInfo),
            Self::AllTopics => Some(List::AllTopics),
            Self::TopicsOfCluster(cluster) => Some(List::TopicsOfCluster(cluster.clone())),
            Self::SystemTopics => Some(List::SystemTopics),
            Self::UnitTopics(which) => Some(List::UnitTopics(*which)),
            _ => None,
        }
    }

    /// The query of a 105.
    pub fn route_query(&self) -> Option<query::RouteQuery<'_>> {
        let Self::Route { topic, style, acting_master, zone, order_conf } = self else { return None };
        Some(query::RouteQuery {
            topic,
            style: *style,
            acting_master: *acting_master,
            zone: zone.as_deref(),
            order_conf: order_conf.as_deref(),
        })
    }
}

fn listed(collect: impl FnOnce(&mut TopicNames) -> Result<(), Stale>) -> Result<Vec<u8>, Stale> {
    let mut names = TopicNames::default();
    collect(&mut names)?;
    Ok(names.to_list())
}
