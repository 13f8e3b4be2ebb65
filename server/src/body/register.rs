//! `RegisterBrokerBody`: the body of a registration, in each of its forms.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use registry_core::{DataVersion, Name, QueueSettings, RegisterBody, TopicMapping, TopicTable};

use super::{
    BodyError, BodyLimits, Quoted, check_count, check_name,
    compressed::{is_zlib, parse_compressed},
    parse_whole, read_name,
    version::{read_data_version, version_of_now},
};
use crate::{
    json::{Kind, Plain, Reader},
    remoting::codes::VERSION_3_0_11,
};

/// Value of `scope` where a mapping has none (`MixAll.METADATA_SCOPE_GLOBAL`).
const SCOPE_GLOBAL: &str = "__global__";

/// Parses the body of `REGISTER_BROKER` that came with a header of this `version` and `compressed` flag.
///
/// - Below version 37 the body is the topic table alone, and never compressed.
/// - Brokers of 5.x compress their body (`compressedRegister=true`) but say `compressed=false`. The original refuses that;
///   we know a zlib stream by its first bytes, which are no JSON.
/// - No body is a registration without topics whose data version is 0. Absent data versions are of `now_wall_ms`.
///
/// Costs O(n) in the body's length, with no allocation for a topic.
///
/// # Errors
/// When the body is broken, or has a topic without name or a mapping without value, or exceeds a limit.
pub fn parse_register_body(
    body: Option<&[u8]>,
    version: i32,
    compressed: bool,
    now_wall_ms: i64,
    limits: &BodyLimits,
) -> Result<RegisterBody, BodyError> {
    if version < 0 {
        return Err(BodyError::NegativeVersion(version));
    }
    let is_new = version >= VERSION_3_0_11;
    let Some(body) = body.filter(|body| !body.is_empty()) else {
        return Ok(RegisterBody {
            data_version: version_of_now(0),
            topics: Some(TopicTable::default()),
            mappings: Vec::new(),
            filter_servers: is_new.then(Vec::new),
        });
    };
    let parser = Parser { now_wall_ms, limits };
    if !is_new {
        return parse_whole(body, |reader| parser.read_old_body(reader))?.ok_or(BodyError::Null);
    }
    if compressed || is_zlib(body) {
        return parse_compressed(body, version, parser);
    }
    parse_whole(body, |reader| parser.read_body(reader))?.ok_or(BodyError::Null)
}

/// What parsing needs to know beside the text.
#[derive(Clone, Copy)]
pub(super) struct Parser<'l> {
    pub(super) now_wall_ms: i64,
    pub(super) limits: &'l BodyLimits,
}

/// `TopicConfigAndMappingSerializeWrapper`.
struct Wrapper {
    data_version: DataVersion,
    topics: Option<TopicTable>,
    mappings: Vec<(Name, TopicMapping)>,
}

impl Parser<'_> {
    fn read_body(self, reader: &mut Reader<'_>) -> Result<RegisterBody, BodyError> {
        let mut wrapper = self.empty_wrapper();
        let mut filter_servers = Some(Vec::new());
        reader.begin_object()?;
        while let Some(key) = reader.next_key()? {
            match &*key {
                "filterServerList" => filter_servers = self.read_filter_servers(reader)?,
                "topicConfigSerializeWrapper" if reader.null()? => {
                    wrapper = Wrapper { topics: None, ..self.empty_wrapper() };
                }
                "topicConfigSerializeWrapper" => wrapper = self.read_wrapper(reader)?,
                _ => reader.skip_value()?,
            }
        }
        let Wrapper { data_version, topics, mappings } = wrapper;
        Ok(RegisterBody { data_version, topics, mappings, filter_servers })
    }

    fn read_old_body(self, reader: &mut Reader<'_>) -> Result<RegisterBody, BodyError> {
        let Wrapper { data_version, topics, .. } = self.read_wrapper(reader)?;
        Ok(RegisterBody { data_version, topics, mappings: Vec::new(), filter_servers: None })
    }

    fn empty_wrapper(self) -> Wrapper {
        Wrapper {
            data_version: version_of_now(self.now_wall_ms),
            topics: Some(TopicTable::default()),
            mappings: Vec::new(),
        }
    }

    fn read_wrapper(self, reader: &mut Reader<'_>) -> Result<Wrapper, BodyError> {
        let mut wrapper = self.empty_wrapper();
        reader.begin_object()?;
        while let Some(key) = reader.next_key()? {
            match &*key {
                "dataVersion" => wrapper.data_version = self.read_version_or_now(reader)?,
                "topicConfigTable" => wrapper.topics = self.read_topics(reader)?,
                "topicQueueMappingInfoMap" => wrapper.mappings = self.read_mappings(reader)?,
                _ => reader.skip_value()?,
            }
        }
        Ok(wrapper)
    }

    /// Reads a version; the original cannot use a null one, we take it for an absent one.
    pub(super) fn read_version_or_now(self, reader: &mut Reader<'_>) -> Result<DataVersion, BodyError> {
        if reader.null()? {
            return Ok(version_of_now(self.now_wall_ms));
        }
        read_data_version(reader, self.now_wall_ms)
    }

    /// Reads the filter servers. Nulls in the list are kept: the original shows them to clients.
    pub(super) fn read_filter_servers(self, reader: &mut Reader<'_>) -> Result<Option<Vec<Option<Name>>>, BodyError> {
        if reader.null()? {
            return Ok(None);
        }
        let mut servers = Vec::new();
        reader.begin_array()?;
        while reader.next_element()? {
            check_count(servers.len(), "filter_servers_max", self.limits.filter_servers_max)?;
            servers.push(read_name(reader, self.limits)?);
        }
        Ok(Some(servers))
    }

    fn read_topics(self, reader: &mut Reader<'_>) -> Result<Option<TopicTable>, BodyError> {
        if reader.null()? {
            return Ok(None);
        }
        reader.begin_object()?;
        // A topic takes some 170 to 200 bytes of JSON, an eighth of them its name.
        let bytes = reader.remaining();
        let topics = (bytes / 160).min(self.limits.topics_max as usize);
        let mut table = TopicTable::with_capacity(topics, bytes / 7);
        while let Some(key) = reader.next_key()? {
            if is_reference(&key, reader)? {
                continue;
            }
            check_count(table.len(), "topics_max", self.limits.topics_max)?;
            self.read_topic(reader, &key, &mut table)?;
        }
        Ok(Some(last_of_each_topic(table)))
    }

    fn read_topic(self, reader: &mut Reader<'_>, key: &str, table: &mut TopicTable) -> Result<(), BodyError> {
        if let Some((name, settings)) = reader.plain(plain_topic) {
            return self.push_topic(key, name, settings, table);
        }
        if reader.null()? {
            return Err(BodyError::UnnamedTopic(Quoted::of(key)));
        }
        let mut name = None;
        let mut settings = QueueSettings::default();
        reader.begin_object()?;
        while let Some(field) = reader.next_key()? {
            match &*field {
                "perm" => settings.perm = reader.integer32()?.unwrap_or(0),
                "readQueueNums" => settings.read_queues = reader.integer32()?.unwrap_or(0),
                "topicName" => name = reader.text()?,
                "topicSysFlag" => settings.topic_sys_flag = reader.integer32()?.unwrap_or(0),
                "writeQueueNums" => settings.write_queues = reader.integer32()?.unwrap_or(0),
                _ => reader.skip_value()?,
            }
        }
        self.push_topic(key, name.as_deref(), settings, table)
    }

    fn push_topic(
        self,
        key: &str,
        name: Option<&str>,
        settings: QueueSettings,
        table: &mut TopicTable,
    ) -> Result<(), BodyError> {
        let name = name.ok_or_else(|| BodyError::UnnamedTopic(Quoted::of(key)))?;
        check_name(key, self.limits)?;
        check_name(name, self.limits)?;
        table.push(key, name, settings);
        Ok(())
    }

    fn read_mappings(self, reader: &mut Reader<'_>) -> Result<Vec<(Name, TopicMapping)>, BodyError> {
        let mut mappings = Vec::new();
        if reader.null()? {
            return Ok(mappings);
        }
        reader.begin_object()?;
        while let Some(key) = reader.next_key()? {
            if is_reference(&key, reader)? {
                continue;
            }
            check_count(mappings.len(), "mappings_max", self.limits.mappings_max)?;
            check_name(&key, self.limits)?;
            let mapping = self.read_mapping(reader, &key)?;
            mappings.push((Name::from(&*key), mapping));
        }
        Ok(last_of_each_mapping(mappings))
    }

    /// Reads a mapping; `key` is for messages.
    pub(super) fn read_mapping(self, reader: &mut Reader<'_>, key: &str) -> Result<TopicMapping, BodyError> {
        if reader.null()? {
            return Err(BodyError::IncompleteMapping(Quoted::of(key), "value"));
        }
        let mut mapping = TopicMapping {
            scope: Some(Name::from(SCOPE_GLOBAL)),
            curr_id_map: Some(Box::default()),
            ..TopicMapping::default()
        };
        reader.begin_object()?;
        while let Some(field) = reader.next_key()? {
            match &*field {
                "bname" => mapping.bname = read_name(reader, self.limits)?,
                "currIdMap" => mapping.curr_id_map = read_id_map(reader)?,
                "dirty" => mapping.dirty = reader.boolean()?.unwrap_or(false),
                "epoch" => mapping.epoch = reader.integer()?.unwrap_or(0),
                "scope" => mapping.scope = read_name(reader, self.limits)?,
                "topic" => mapping.topic = read_name(reader, self.limits)?,
                "totalQueues" => mapping.total_queues = reader.integer32()?.unwrap_or(0),
                _ => reader.skip_value()?,
            }
        }
        if mapping.bname.is_none() {
            return Err(BodyError::IncompleteMapping(Quoted::of(key), "bname"));
        }
        Ok(mapping)
    }
}

/// What [`Parser::read_topic`] reads, for topics in the usual form; `None` for all others.
fn plain_topic<'a>(plain: &mut Plain<'a>) -> Option<(Option<&'a str>, QueueSettings)> {
    let mut name = None;
    let mut settings = QueueSettings::default();
    plain.object(|plain, field| {
        match field {
            "perm" => settings.perm = plain.integer()?,
            "readQueueNums" => settings.read_queues = plain.integer()?,
            "topicName" => name = plain.string_or_null()?,
            "topicSysFlag" => settings.topic_sys_flag = plain.integer()?,
            "writeQueueNums" => settings.write_queues = plain.integer()?,
            _ => plain.skip()?,
        }
        Some(())
    })?;
    Some((name, settings))
}

/// Logic to physical queue ids, sorted.
type IdMap = Box<[(i32, i32)]>;

fn read_id_map(reader: &mut Reader<'_>) -> Result<Option<IdMap>, BodyError> {
    if reader.null()? {
        return Ok(None);
    }
    let mut ids = Vec::new();
    reader.begin_object()?;
    while let Some(key) = reader.next_key()? {
        if is_reference(&key, reader)? {
            continue;
        }
        let value = reader.integer32()?;
        let (Ok(logic), Some(physical)) = (key.parse::<i32>(), value) else {
            return Err(BodyError::QueueId(Quoted::of(&key)));
        };
        ids.push((logic, physical));
    }
    // The sort is stable: the last of equal keys is the one to keep.
    ids.sort_by_key(|&(logic, _)| logic);
    ids.reverse();
    ids.dedup_by_key(|&mut (logic, _)| logic);
    ids.reverse();
    Ok(Some(ids.into()))
}

/// Skips `{"$ref":"$.path"}`, which Java brokers write for an object that they wrote before; nothing we need is
/// written that way. A topic may have that name, but then its value is no string.
fn is_reference(key: &str, reader: &mut Reader<'_>) -> Result<bool, BodyError> {
    let is_reference = key == "$ref" && reader.peek()? == Kind::String;
    if is_reference {
        reader.skip_value()?;
    }
    Ok(is_reference)
}

/// Of several topics with one key the last one counts.
pub(super) fn last_of_each_topic(table: TopicTable) -> TopicTable {
    let Some(is_last) = last_of_each(table.len(), || table.keys()) else { return table };
    let mut last = TopicTable::default();
    for ((key, (name, settings)), is_last) in table.keys().zip(table.iter()).zip(is_last) {
        if is_last {
            last.push(key, name, settings);
        }
    }
    last
}

/// Of several mappings with one key the last one counts.
pub(super) fn last_of_each_mapping(mut mappings: Vec<(Name, TopicMapping)>) -> Vec<(Name, TopicMapping)> {
    let keys = || mappings.iter().map(|(key, _)| &**key);
    if let Some(is_last) = last_of_each(mappings.len(), keys) {
        let mut is_last = is_last.into_iter();
        mappings.retain(|_| is_last.next().unwrap_or(true));
    }
    mappings
}

/// Says of each of `count` keys whether it is the last of its kind; `None` when all differ.
fn last_of_each<'k, I: Iterator<Item = &'k str>>(count: usize, keys: impl Fn() -> I) -> Option<Vec<bool>> {
    let mut seen = HashSet::with_capacity_and_hasher(count, RandomState::default());
    if keys().all(|key| seen.insert(key)) {
        return None;
    }
    let mut last = HashMap::with_capacity_and_hasher(count, RandomState::default());
    last.extend(keys().enumerate().map(|(index, key)| (key, index)));
    Some(keys().enumerate().map(|(index, key)| last.get(key) == Some(&index)).collect())
}

#[cfg(test)]
mod tests;
