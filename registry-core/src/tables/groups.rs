//! Broker groups: who belongs to them and which settings their topics have.

use std::collections::{BTreeSet, HashMap};

use super::{ledger::Usage, shrink};
use crate::{LiveKey, Name, QueueSettings};

/// One broker of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: i64,
    pub(crate) addr: Name,
    /// The cluster that the broker named when it registered last: with the address, its key in the live table.
    pub(crate) live_cluster: Name,
}

impl Member {
    pub(crate) fn live_key(&self) -> LiveKey {
        LiveKey { cluster: self.live_cluster.clone(), addr: self.addr.clone() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    settings: QueueSettings,
    /// Number of topics that have it; 0 for a free place.
    references: u32,
}

/// A broker group (`BrokerData`): the brokers of one name, a master and its slaves.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: Name,
    /// Cluster of the first registrant; never changes.
    pub(crate) cluster: Name,
    pub(crate) enable_acting_master: bool,
    pub(crate) zone: Option<Name>,
    /// Clusters whose list names this group: its own, and those that a later registrant named.
    pub(crate) listed_in: Vec<Name>,
    /// Number of static-topic mappings that its brokers brought.
    pub(crate) mappings: u32,
    /// Account of the source that founded it: who is charged with the group and its share in topics.
    pub(crate) account: u32,
    pub(crate) charged: Usage,
    /// Whether the present walk of the sweep removes it.
    pub(crate) is_walked: bool,
    /// Sorted by id.
    members: Vec<Member>,
    settings: Vec<Setting>,
    free_settings: Vec<u32>,
    by_value: HashMap<QueueSettings, u32, foldhash::fast::RandomState>,
    topics: u32,
    is_dead: bool,
}

impl Group {
    pub(crate) fn new(name: Name, cluster: Name, account: u32) -> Self {
        Self {
            name,
            cluster,
            enable_acting_master: false,
            zone: None,
            listed_in: Vec::new(),
            mappings: 0,
            account,
            charged: Usage::default(),
            is_walked: false,
            members: Vec::new(),
            settings: Vec::new(),
            free_settings: Vec::new(),
            by_value: HashMap::default(),
            topics: 0,
            is_dead: false,
        }
    }

    /// Members sorted by id.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn min_id(&self) -> Option<i64> {
        self.members.first().map(|member| member.id)
    }

    pub(crate) fn member(&self, id: i64) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Puts a member under its id and returns the one that was there.
    pub(crate) fn put_member(&mut self, member: Member) -> Option<Member> {
        match self.members.binary_search_by_key(&member.id, |held| held.id) {
            Ok(at) => Some(std::mem::replace(&mut self.members[at], member)),
            Err(at) => {
                self.members.insert(at, member);
                None
            }
        }
    }

    /// Removes the members that `leaves` picks and returns them.
    pub(crate) fn remove_members(&mut self, mut leaves: impl FnMut(&Member) -> bool) -> Vec<Member> {
        self.members.extract_if(.., |member| leaves(member)).collect()
    }

    /// Number of topics that the group serves.
    pub(crate) fn topics(&self) -> u32 {
        self.topics
    }

    pub(crate) fn setting(&self, index: u32) -> QueueSettings {
        self.settings[index as usize].settings
    }

    /// All places for settings, in order of their index; free ones hold a value that nobody refers to.
    pub(crate) fn settings(&self) -> impl ExactSizeIterator<Item = QueueSettings> {
        self.settings.iter().map(|setting| setting.settings)
    }

    /// Number of distinct settings that topics have.
    pub(crate) fn settings_in_use(&self) -> usize {
        self.settings.len() - self.free_settings.len()
    }

    pub(crate) fn has_setting(&self, settings: &QueueSettings) -> bool {
        self.by_value.contains_key(settings)
    }

    /// Counts one more topic with these settings; says their index and whether its value is news to readers.
    pub(crate) fn take_setting(&mut self, settings: QueueSettings) -> (u32, bool) {
        self.topics += 1;
        if let Some(&index) = self.by_value.get(&settings) {
            self.settings[index as usize].references += 1;
            return (index, false);
        }
        let setting = Setting { settings, references: 1 };
        let index = match self.free_settings.pop() {
            Some(index) => {
                self.settings[index as usize] = setting;
                index
            }
            None => {
                self.settings.push(setting);
                u32::try_from(self.settings.len() - 1).expect("fewer settings than topics, fewer topics than 2^32")
            }
        };
        self.by_value.insert(settings, index);
        (index, true)
    }

    /// Counts one topic less with the setting at `index`.
    pub(crate) fn release_setting(&mut self, index: u32) {
        self.topics -= 1;
        let setting = &mut self.settings[index as usize];
        setting.references -= 1;
        if setting.references > 0 {
            return;
        }
        let settings = setting.settings;
        self.free_settings.push(index);
        if self.by_value.get(&settings) == Some(&index) {
            self.by_value.remove(&settings);
        }
    }

    /// Changes every setting in use; says whether one became another.
    pub(crate) fn change_settings(&mut self, change: impl Fn(QueueSettings) -> QueueSettings) -> bool {
        let mut is_changed = false;
        for setting in self.settings.iter_mut().filter(|setting| setting.references > 0) {
            let new = change(setting.settings);
            is_changed |= new != setting.settings;
            setting.settings = new;
        }
        if is_changed {
            // Two settings may have become equal: either may serve the next topic with this value.
            self.by_value.clear();
            for (index, setting) in (0..).zip(&self.settings) {
                if setting.references > 0 {
                    self.by_value.insert(setting.settings, index);
                }
            }
        }
        is_changed
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Says whether no topic refers to the group any more.
    pub(crate) fn is_swept(&self) -> bool {
        self.topics == 0 && self.mappings == 0
    }
}

/// All groups, by index and by name.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    places: Vec<Option<Box<Group>>>,
    /// Indices of places that are free, none of them the last.
    free: BTreeSet<u32>,
    by_name: HashMap<Name, u32, foldhash::fast::RandomState>,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn indices(&self) -> u32 {
        u32::try_from(self.places.len()).expect("groups_max is below 2^32")
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn add(&mut self, group: Group) -> u32 {
        let name = group.name.clone();
        // The lowest, so that the last ones become free.
        let index = match self.free.pop_first() {
            Some(index) => {
                self.places[index as usize] = Some(Box::new(group));
                index
            }
            None => {
                self.places.push(Some(Box::new(group)));
                self.indices() - 1
            }
        };
        self.by_name.insert(name, index);
        index
    }

    /// The group at an index that is in use, dead or alive.
    pub(crate) fn at(&self, index: u32) -> &Group {
        self.places[index as usize].as_deref().expect("the index is in use")
    }

    /// See [`Groups::at`].
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Group {
        self.places[index as usize].as_deref_mut().expect("the index is in use")
    }

    pub(crate) fn alive_at(&self, index: u32) -> Option<&Group> {
        self.places.get(index as usize)?.as_deref().filter(|group| !group.is_dead)
    }

    /// The group is no more: its name is free at once, its index when it is swept.
    pub(crate) fn bury(&mut self, index: u32) {
        let group = self.at_mut(index);
        group.is_dead = true;
        let name = group.name.clone();
        self.by_name.remove(&name);
    }

    pub(crate) fn free_swept(&mut self, index: u32) {
        debug_assert!(self.at(index).is_dead() && self.at(index).is_swept());
        self.places[index as usize] = None;
        self.free.insert(index);
        while let Some(None) = self.places.last() {
            self.places.pop();
            self.free.remove(&self.indices());
        }
    }

    /// Gives memory back, see [`shrink`].
    pub(crate) fn shrink(&mut self) {
        shrink::list(&mut self.places);
        shrink::map(&mut self.by_name);
    }

    /// All groups that take memory, dead ones too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Group> {
        self.places.iter().flatten().map(|group| &**group)
    }

    pub(crate) fn check(
        &self,
        topics: &HashMap<u32, u32>,
        mappings: &HashMap<u32, u32>,
        settings: &HashMap<(u32, u32), u32>,
    ) {
        for (index, place) in (0u32..).zip(&self.places) {
            let Some(group) = place else {
                assert!(!topics.contains_key(&index) && !mappings.contains_key(&index), "free index {index} is used");
                continue;
            };
            assert_eq!(group.topics, topics.get(&index).copied().unwrap_or(0), "topics of {}", group.name);
            assert_eq!(group.mappings, mappings.get(&index).copied().unwrap_or(0), "mappings of {}", group.name);
            for (at, setting) in (0u32..).zip(&group.settings) {
                let used = settings.get(&(index, at)).copied().unwrap_or(0);
                assert_eq!(setting.references, used, "references of setting {at} of {}", group.name);
            }
            assert_eq!(group.members.is_empty(), group.is_dead, "an empty group is dead: {}", group.name);
            assert_eq!(self.index_of(&group.name) == Some(index), !group.is_dead, "name of {}", group.name);
        }
    }
}
