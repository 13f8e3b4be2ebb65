//! A broker group as readers see it.

use std::ops::Range;

use super::KeyStyle;
use crate::{
    Name, QueueSettings,
    json::{write_int, write_string},
    tables,
};

/// One of a group's distinct topic settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The settings.
    pub settings: QueueSettings,
    piece: Range<u32>,
}

/// A broker group (`BrokerData`) and its pieces of answers, all in one block of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `brokerName`.
    pub name: Name,
    /// `cluster`, of the first registrant.
    pub cluster: Name,
    /// `zoneName`.
    pub zone: Option<Name>,
    /// Id and address of each broker, sorted by id. Never empty.
    pub members: Box<[(i64, Name)]>,
    /// Address and piece (`"addr":["filter",...]`) of each broker with filter servers, sorted by address.
    pub filter_servers: Box<[(Name, Box<[u8]>)]>,
    settings: Box<[Setting]>,
    text: Box<[u8]>,
    bare: Range<u32>,
    quoted: Range<u32>,
    /// The same with the smallest id shown as 0, for a group whose slaves may act as master and that has none.
    acting: Option<(Range<u32>, Range<u32>)>,
}

impl Group {
    pub(crate) fn new(group: &tables::Group, filter_servers: Vec<(Name, Vec<Option<Name>>)>) -> Self {
        let members: Box<[(i64, Name)]> =
            group.members().iter().map(|member| (member.id, member.addr.clone())).collect();
        let mut text = Vec::new();
        let bare = write_broker_data(&mut text, group, &members, KeyStyle::Bare);
        let quoted = write_broker_data(&mut text, group, &members, KeyStyle::Quoted);
        let acting = (group.enable_acting_master && !members.iter().any(|&(id, _)| id == 0)).then(|| {
            let mut acting = members.clone();
            acting[0].0 = 0;
            acting.sort_by_key(|&(id, _)| id);
            let bare = write_broker_data(&mut text, group, &acting, KeyStyle::Bare);
            let quoted = write_broker_data(&mut text, group, &acting, KeyStyle::Quoted);
            (bare, quoted)
        });
        let settings = group
            .settings()
            .map(|settings| Setting { settings, piece: write_queue_data(&mut text, &group.name, settings) })
            .collect();
        let filter_servers = filter_servers
            .into_iter()
            .map(|(addr, filters)| {
                let piece = filter_server_piece(&addr, &filters);
                (addr, piece)
            })
            .collect();
        Self {
            name: group.name.clone(),
            cluster: group.cluster.clone(),
            zone: group.zone.clone(),
            members,
            filter_servers,
            settings,
            text: text.into(),
            bare,
            quoted,
            acting,
        }
    }

    /// The setting at `index`. There is one for every slot of the same state.
    pub fn setting(&self, index: u32) -> Option<&Setting> {
        self.settings.get(index as usize)
    }

    /// The group as `BrokerData`.
    pub fn broker_data(&self, style: KeyStyle) -> &[u8] {
        self.piece(match style {
            KeyStyle::Bare => &self.bare,
            KeyStyle::Quoted => &self.quoted,
        })
    }

    /// The group as `BrokerData` with its smallest id shown as 0, where its slaves may act as a master that it lacks.
    pub fn acting_broker_data(&self, style: KeyStyle) -> Option<&[u8]> {
        let (bare, quoted) = self.acting.as_ref()?;
        Some(self.piece(match style {
            KeyStyle::Bare => bare,
            KeyStyle::Quoted => quoted,
        }))
    }

    /// A setting as `QueueData`.
    pub fn queue_data(&self, setting: &Setting) -> &[u8] {
        self.piece(&setting.piece)
    }

    /// Says whether the group has a master (id 0).
    pub fn has_master(&self) -> bool {
        self.members.iter().any(|&(id, _)| id == 0)
    }

    fn piece(&self, range: &Range<u32>) -> &[u8] {
        &self.text[range.start as usize..range.end as usize]
    }
}

fn written(text: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Range<u32> {
    let at = |text: &Vec<u8>| u32::try_from(text.len()).expect("the pieces of one group fit in 4 GiB");
    let start = at(text);
    write(text);
    start..at(text)
}

fn write_broker_data(
    text: &mut Vec<u8>,
    group: &tables::Group,
    members: &[(i64, Name)],
    style: KeyStyle,
) -> Range<u32> {
    written(text, |out| {
        out.extend_from_slice(b"{\"brokerAddrs\":");
        write_addrs(out, members, style);
        out.extend_from_slice(b",\"brokerName\":");
        write_string(out, &group.name);
        out.extend_from_slice(b",\"cluster\":");
        write_string(out, &group.cluster);
        out.extend_from_slice(b",\"enableActingMaster\":");
        out.extend_from_slice(if group.enable_acting_master { b"true" } else { b"false" });
        if let Some(zone) = &group.zone {
            out.extend_from_slice(b",\"zoneName\":");
            write_string(out, zone);
        }
        out.push(b'}');
    })
}

/// Writes a map from broker id to address.
pub(crate) fn write_addrs(out: &mut Vec<u8>, members: &[(i64, Name)], style: KeyStyle) {
    out.push(b'{');
    for (at, (id, addr)) in members.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_int_key(out, *id, style);
        write_string(out, addr);
    }
    out.push(b'}');
}

/// Writes a numeric key of an object and its colon.
pub(crate) fn write_int_key(out: &mut Vec<u8>, key: i64, style: KeyStyle) {
    match style {
        KeyStyle::Bare => {
            write_int(out, key);
            out.push(b':');
        }
        KeyStyle::Quoted => {
            out.push(b'"');
            write_int(out, key);
            out.extend_from_slice(b"\":");
        }
    }
}

fn write_queue_data(text: &mut Vec<u8>, broker_name: &str, settings: QueueSettings) -> Range<u32> {
    written(text, |out| {
        out.extend_from_slice(b"{\"brokerName\":");
        write_string(out, broker_name);
        for (key, value) in [
            (",\"perm\":", settings.perm),
            (",\"readQueueNums\":", settings.read_queues),
            (",\"topicSysFlag\":", settings.topic_sys_flag),
            (",\"writeQueueNums\":", settings.write_queues),
        ] {
            out.extend_from_slice(key.as_bytes());
            write_int(out, i64::from(value));
        }
        out.push(b'}');
    })
}

fn filter_server_piece(addr: &str, filters: &[Option<Name>]) -> Box<[u8]> {
    let mut out = Vec::new();
    write_string(&mut out, addr);
    out.extend_from_slice(b":[");
    for (at, filter) in filters.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match filter {
            Some(filter) => write_string(&mut out, filter),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b']');
    out.into()
}
