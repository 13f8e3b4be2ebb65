//! A topic as readers see it.

use std::sync::Arc;

use super::{KeyStyle, group::write_int_key};
use crate::{
    Name, Slot, TopicMapping,
    json::{write_int, write_string},
    tables::{OwnedMapping, TopicValue},
};

/// What the image holds of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The groups that serve the topic, sorted by name. Slots of groups that the root lacks do not count.
    pub slots: Arc<[Slot]>,
    /// Static-topic mappings, sorted by broker name.
    pub mappings: Option<Arc<[MappingPiece]>>,
}

/// A static-topic mapping (`TopicQueueMappingInfo`), encoded as an entry of `topicQueueMappingByBroker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingPiece {
    /// Index of the group whose broker brought it. Does not count when the root lacks the group.
    pub owner: u32,
    bare: Box<[u8]>,
    quoted: Box<[u8]>,
}

impl Entry {
    pub(crate) fn new(value: &TopicValue) -> Self {
        let mappings = value.mappings.as_ref().map(|mappings| mappings.iter().filter_map(MappingPiece::new).collect());
        Self { slots: Arc::clone(&value.slots), mappings }
    }
}

impl MappingPiece {
    /// The piece of a mapping; one without a `bname` has no key to be shown under.
    fn new(owned: &OwnedMapping) -> Option<Self> {
        let bname = owned.mapping.bname.as_ref()?;
        let write = |style| {
            let mut out = Vec::new();
            write_string(&mut out, bname);
            out.push(b':');
            write_mapping(&mut out, &owned.mapping, style);
            out.into_boxed_slice()
        };
        Some(Self { owner: owned.owner, bare: write(KeyStyle::Bare), quoted: write(KeyStyle::Quoted) })
    }

    /// Key and value, as they stand in the object.
    pub fn piece(&self, style: KeyStyle) -> &[u8] {
        match style {
            KeyStyle::Bare => &self.bare,
            KeyStyle::Quoted => &self.quoted,
        }
    }
}

fn write_mapping(out: &mut Vec<u8>, mapping: &TopicMapping, style: KeyStyle) {
    out.push(b'{');
    write_name(out, "\"bname\":", mapping.bname.as_ref());
    if let Some(ids) = &mapping.curr_id_map {
        out.extend_from_slice(b"\"currIdMap\":{");
        for (at, (logic, physical)) in ids.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_int_key(out, i64::from(*logic), style);
            write_int(out, i64::from(*physical));
        }
        out.extend_from_slice(b"},");
    }
    out.extend_from_slice(if mapping.dirty { b"\"dirty\":true,\"epoch\":" } else { b"\"dirty\":false,\"epoch\":" });
    write_long(out, mapping.epoch, style);
    out.push(b',');
    write_name(out, "\"scope\":", mapping.scope.as_ref());
    write_name(out, "\"topic\":", mapping.topic.as_ref());
    out.extend_from_slice(b"\"totalQueues\":");
    write_int(out, i64::from(mapping.total_queues));
    out.push(b'}');
}

/// Writes a long number. In the standard spelling the original quotes those that no double holds exactly, as programs read
/// numbers that take JSON for JavaScript.
fn write_long(out: &mut Vec<u8>, value: i64, style: KeyStyle) {
    const EXACT_MAX: u64 = (1 << 53) - 1;
    if style == KeyStyle::Quoted && value.unsigned_abs() > EXACT_MAX {
        out.push(b'"');
        write_int(out, value);
        out.push(b'"');
    } else {
        write_int(out, value);
    }
}

fn write_name(out: &mut Vec<u8>, key: &str, value: Option<&Name>) {
    if let Some(value) = value {
        out.extend_from_slice(key.as_bytes());
        write_string(out, value);
        out.push(b',');
    }
}
