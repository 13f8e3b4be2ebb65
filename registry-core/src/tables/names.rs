//! The limits of names: checked before anything is changed, whatever the command that brings a name.

use super::{TableLimits, weight};
use crate::{Name, Refusal, Registration, TopicTable};

impl TableLimits {
    /// Checks every name that a registration would have the tables keep.
    pub(super) fn check_registration(&self, registration: &Registration) -> Result<(), Refusal> {
        self.check_name("cluster name", &registration.cluster)?;
        self.check_name("broker name", &registration.broker_name)?;
        self.check_name("broker address", &registration.broker_addr)?;
        self.check_some("HA address", registration.ha_addr.as_ref())?;
        self.check_some("zone name", registration.zone.as_ref())?;
        let body = &registration.body;
        for filter_server in body.filter_servers.iter().flatten() {
            self.check_some("filter server", filter_server.as_ref())?;
        }
        let longest = body.topics.as_ref().map_or(0, TopicTable::longest_name);
        check("topic name", longest, self.topic_bytes_max)?;
        for (topic, mapping) in &body.mappings {
            self.check_topic_name(topic)?;
            self.check_some("broker name of a mapping", mapping.bname.as_ref())?;
            self.check_some("scope of a mapping", mapping.scope.as_ref())?;
            mapping.topic.as_ref().map_or(Ok(()), |topic| self.check_topic_name(topic))?;
            check("mapping", weight::mapping_text(mapping), self.mapping_bytes_max)?;
        }
        Ok(())
    }

    pub(super) fn check_topic_name(&self, topic: &str) -> Result<(), Refusal> {
        check("topic name", topic.len(), self.topic_bytes_max)
    }

    fn check_some(&self, what: &'static str, name: Option<&Name>) -> Result<(), Refusal> {
        name.map_or(Ok(()), |name| self.check_name(what, name))
    }

    fn check_name(&self, what: &'static str, name: &str) -> Result<(), Refusal> {
        check(what, name.len(), self.name_bytes_max)
    }
}

fn check(what: &'static str, bytes: usize, limit: usize) -> Result<(), Refusal> {
    if bytes > limit { Err(Refusal::TooLong { what, bytes, limit }) } else { Ok(()) }
}
