//! Encoded lists, kept for the state that they belong to.

use bytes::Bytes;

use super::{TopicNames, UnitTopics, all_topics, cluster_info, system_topics, topics_of_cluster, unit_topics};
use crate::{Millis, Name, Reader, Root, View};

/// How many lists are kept: the six that name no cluster, and those of ten clusters.
pub const LISTS_KEPT_MAX: usize = 16;
/// Bytes of all lists that are kept, with the names of their clusters. A million topics have some 25 MB. A list that
/// does not fit is made for each question.
pub const LISTS_KEPT_BYTES_MAX: usize = 64 << 20;
/// How long a list is kept that nobody asks for, in milliseconds: a dashboard that looks every second finds it again.
pub const LIST_UNASKED_MS_MAX: u64 = 5_000;

/// A question about everything, answered with one body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum List {
    /// `GET_ALL_TOPIC_LIST_FROM_NAMESERVER` (206).
    AllTopics,
    /// `GET_TOPICS_BY_CLUSTER` (224).
    TopicsOfCluster(Name),
    /// 311, 312, 313.
    UnitTopics(UnitTopics),
    /// `GET_SYSTEM_TOPIC_LIST_FROM_NS` (304).
    SystemTopics,
    /// `GET_BROKER_CLUSTER_INFO` (106).
    ClusterInfo,
}

impl List {
    /// The version that this list has in a state: states with the same one have the same list.
    fn version(&self, root: &Root) -> u64 {
        match self {
            Self::AllTopics | Self::TopicsOfCluster(_) | Self::UnitTopics(_) => root.topics_version(),
            Self::SystemTopics | Self::ClusterInfo => root.groups_version(),
        }
    }

    /// Bytes that it takes to know the list by.
    fn key_bytes(&self) -> usize {
        match self {
            Self::TopicsOfCluster(cluster) => cluster.len(),
            _ => 0,
        }
    }
}

/// Answers questions about everything, each list from what was encoded before while no state differs in it.
///
/// **What a caller may observe.** The list of one state, at least as new as any change whose publication returned before
/// the question came in. A kept list answers what has come in before it was made; of any other question the registry is
/// asked whether the list is still right. Lists of topics stay right while no topic is added, removed, or taken by another
/// group, and no unit flag changes, whatever else does; 106 and 304 while no group changes. However many ask, a list is
/// encoded once for a state, once for all who wait for it, and all answers share its bytes.
///
/// **Who waits.** Nothing is sorted or encoded inside a read: for a kept list, 106 and 304 a read copies one pointer; for
/// the others a [`scan`](Reader::scan) copies names.
///
/// Belongs to one reader: states of different registries have the same versions. Holds no state alive. Keeps up to
/// [`LISTS_KEPT_MAX`] lists of [`LISTS_KEPT_BYTES_MAX`] bytes, each until it is asked for in a newer state, or for
/// [`LIST_UNASKED_MS_MAX`] after it was asked for, if somebody calls [`let_go`](Self::let_go).
#[derive(Debug, Default)]
pub struct ListCache {
    kept: Vec<Kept>,
    /// Names and bytes of the last list of topics, which the next one is given room for.
    room: (usize, usize),
}

#[derive(Debug)]
struct Kept {
    list: List,
    version: u64,
    /// A time since which a state with this list was read.
    made: Millis,
    asked: Millis,
    body: Bytes,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.body.len() + self.list.key_bytes()
    }
}

impl ListCache {
    /// A cache that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The body of the answer at time `now` to a question that came in at time `arrived`, or later.
    ///
    /// Cost for a kept list: O(1); else as [`TopicNames::to_list`], [`cluster_info`] or [`system_topics`].
    pub fn get(&mut self, reader: &mut impl Reader, list: List, arrived: Millis, now: Millis) -> Bytes {
        self.get_with(reader, list, arrived, now, |body| Some(body.into())).unwrap_or_default()
    }

    /// As [`get`](Self::get), for a caller who shares bodies in a way of its own, and may have no memory for a new one: the
    /// list is not kept then, and there is no answer.
    pub fn get_with(
        &mut self,
        reader: &mut impl Reader,
        list: List,
        arrived: Millis,
        now: Millis,
        share: impl FnOnce(Vec<u8>) -> Option<Bytes>,
    ) -> Option<Bytes> {
        self.let_go(now);
        let place = self.kept.iter().position(|kept| kept.list == list);
        if let Some(at) = place
            && arrived < self.kept[at].made
        {
            self.kept[at].asked = now;
            return Some(self.kept[at].body.clone());
        }
        let root = reader.read(|view| Ok(view.share_root()));
        if let Some(at) = place {
            let kept = &mut self.kept[at];
            if kept.version == list.version(&root) {
                (kept.made, kept.asked) = (now, now);
                return Some(kept.body.clone());
            }
            self.kept.swap_remove(at);
        }
        let (version, body) = match &list {
            List::ClusterInfo => encoded(list.version(&root), |out| cluster_info(&root, out)),
            List::SystemTopics => encoded(list.version(&root), |out| system_topics(&root, out)),
            List::TopicsOfCluster(cluster) if root.groups_of_cluster(cluster).is_empty() => {
                // Peers make up as many as they like: these displace no other.
                return Some(TopicNames::default().to_list().into());
            }
            _ => self.topics(reader, &list),
        };
        let body = share(body)?;
        self.keep(Kept { list, version, made: now, asked: now, body: body.clone() });
        Some(body)
    }

    /// Drops the lists that nobody has asked for lately. To be called now and then by whoever has nothing else to do.
    pub fn let_go(&mut self, now: Millis) {
        self.kept.retain(|kept| now.0.saturating_sub(kept.asked.0) < LIST_UNASKED_MS_MAX);
    }

    /// Collects under the guard of the strategy, and does the rest without one.
    fn topics(&mut self, reader: &mut impl Reader, list: &List) -> (u64, Vec<u8>) {
        let (names, bytes) = self.room;
        // A sixteenth more, for what has come since.
        let mut names = TopicNames::with_capacity(names + names / 16, bytes + bytes / 16);
        let version = reader.scan(|view| {
            match list {
                List::AllTopics => all_topics(view, &mut names)?,
                List::TopicsOfCluster(cluster) => topics_of_cluster(view, cluster, &mut names)?,
                List::UnitTopics(which) => unit_topics(view, *which, &mut names)?,
                List::SystemTopics | List::ClusterInfo => {}
            }
            Ok(list.version(view.root()))
        });
        self.room = (names.len(), names.bytes());
        (version, names.to_list())
    }

    fn keep(&mut self, new: Kept) {
        if new.bytes() > LISTS_KEPT_BYTES_MAX {
            return;
        }
        let room = LISTS_KEPT_BYTES_MAX - new.bytes();
        while self.kept.len() >= LISTS_KEPT_MAX || self.kept.iter().map(Kept::bytes).sum::<usize>() > room {
            let Some(oldest) = (0..self.kept.len()).min_by_key(|&at| self.kept[at].asked) else { break };
            self.kept.swap_remove(oldest);
        }
        self.kept.push(new);
    }
}

fn encoded(version: u64, write: impl FnOnce(&mut Vec<u8>)) -> (u64, Vec<u8>) {
    let mut out = Vec::new();
    write(&mut out);
    out.shrink_to_fit();
    (version, out)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::{
        Command, Outcome, QueueSettings, Registry, Stale, TableLimits, TopicTable, Writer,
        testkit::{
            ScratchView, Sequential, SequentialPublisher, SequentialReader,
            fixture::{Broker, settings},
        },
    };

    struct Lab {
        writer: Writer<SequentialPublisher>,
        reader: SequentialReader,
        cache: ListCache,
        now: Millis,
    }

    impl Lab {
        fn new() -> Self {
            let (registry, publisher) = Sequential::new();
            let writer = Writer::new(publisher, TableLimits::default());
            Self { writer, reader: registry.reader(), cache: ListCache::new(), now: Millis(1) }
        }

        fn register(&mut self, broker: Broker) {
            let applied = self.writer.execute(&Command::Register(Box::new(broker.0)), self.now);
            assert!(matches!(applied.outcome, Outcome::Registered(_)), "{applied:?}");
        }

        fn get(&mut self, list: List) -> Bytes {
            self.cache.get(&mut self.reader, list, self.now, self.now)
        }

        fn topics_of(&mut self, cluster: &str) -> Bytes {
            self.get(List::TopicsOfCluster(cluster.into()))
        }

        /// Says whether the second answer is the first one's bytes.
        fn is_kept(&mut self, list: List, change: impl FnOnce(&mut Self)) -> bool {
            let before = self.get(list.clone());
            change(self);
            self.get(list).as_ptr() == before.as_ptr()
        }
    }

    #[test]
    fn all_answers_of_a_state_share_their_bytes() {
        let mut lab = Lab::new();
        lab.register(Broker::new("b0", 0, "10.0.0.1:1"));
        for list in [List::AllTopics, List::ClusterInfo, List::SystemTopics, List::UnitTopics(UnitTopics::Unit)] {
            assert!(lab.is_kept(list.clone(), |_| ()), "{list:?}");
        }
        assert_eq!(lab.get(List::AllTopics), r#"{"topicList":["base","t1"]}"#);
    }

    #[test]
    fn a_list_of_topics_outlives_what_it_does_not_show() {
        let broker = || Broker::new("b0", 0, "10.0.0.1:1");
        let mut lab = Lab::new();
        lab.register(broker());
        let queues = QueueSettings { write_queues: 16, ..settings(6) };
        let lists = [List::AllTopics, List::TopicsOfCluster("DefaultCluster".into())];
        for list in lists {
            let other_queues = broker().topics(["base", "t1"], queues).version(2);
            assert!(lab.is_kept(list.clone(), |lab| lab.register(other_queues)), "the number of queues");
            let wipe = Command::WipeWritePerm { broker_name: "b0".into() };
            assert!(lab.is_kept(list.clone(), |lab| _ = lab.writer.execute(&wipe, Millis(1))), "permissions");
            let other_address = Broker::new("b0", 1, "10.0.0.2:1").version(2);
            assert!(lab.is_kept(list, |lab| lab.register(other_address)), "a slave");
        }
        let added = broker().topics(["base", "t1", "t2"], queues).version(3);
        assert!(!lab.is_kept(List::AllTopics, |lab| lab.register(added)), "a topic");
        let flagged = broker().topics(["base", "t1", "t2"], QueueSettings { topic_sys_flag: 1, ..queues }).version(4);
        assert!(!lab.is_kept(List::UnitTopics(UnitTopics::Unit), |lab| lab.register(flagged)), "a unit flag");
    }

    #[test]
    fn what_the_sweep_removes_was_in_no_list() {
        let mut lab = Lab::new();
        let going = Broker::new("b1", 0, "10.0.0.2:1").topics(["u1", "u2", "u3"], settings(6));
        lab.register(Broker::new("b0", 0, "10.0.0.1:1"));
        lab.register(going.clone());
        let farewell = Command::Unregister(going.farewell());
        assert!(!lab.is_kept(List::AllTopics, |lab| _ = lab.writer.execute(&farewell, Millis(1))));
        assert!(lab.is_kept(List::AllTopics, |lab| while lab.writer.tick() {}));
        assert_eq!(lab.get(List::AllTopics), r#"{"topicList":["base","t1"]}"#);
    }

    #[test]
    fn one_list_answers_all_who_wait_for_it() {
        let mut lab = Lab::new();
        let mut version = 0;
        let mut ask = |arrived, now| {
            // Each question finds another state.
            version += 1;
            let topic = format!("t{version}");
            let broker = Broker::new("b0", 0, "10.0.0.1:1").topics(["base", &topic], settings(6)).version(version);
            lab.register(broker);
            lab.cache.get(&mut lab.reader, List::AllTopics, Millis(arrived), Millis(now))
        };
        let first = ask(1, 10);
        assert_eq!(first, ask(9, 60), "came in before the list was made");
        assert_ne!(first, ask(10, 60), "came in in the same millisecond, so perhaps after");
        assert_ne!(ask(61, 70), ask(70, 80), "came in after");
    }

    #[test]
    fn old_states_and_what_nobody_asks_for_are_let_go() {
        let mut lab = Lab::new();
        lab.register(Broker::new("b0", 0, "10.0.0.1:1"));
        lab.get(List::UnitTopics(UnitTopics::Unit));
        lab.get(List::AllTopics);
        lab.get(List::ClusterInfo);
        assert_eq!(lab.cache.kept.len(), 3);
        lab.register(Broker::new("b0", 0, "10.0.0.1:1").topics(["base", "t2"], settings(6)).version(2));
        lab.get(List::AllTopics);
        assert_eq!(lab.cache.kept.len(), 3, "the new one in the place of the old");

        lab.now = Millis(1 + LIST_UNASKED_MS_MAX / 2);
        lab.get(List::AllTopics);
        lab.cache.let_go(Millis(LIST_UNASKED_MS_MAX + 1));
        assert_eq!(lab.cache.kept.len(), 1, "this one was asked for since");
        lab.cache.let_go(Millis(2 * LIST_UNASKED_MS_MAX));
        assert!(lab.cache.kept.is_empty());
    }

    #[test]
    fn lists_have_a_limit_in_number_and_unknown_clusters_take_no_place() {
        let mut lab = Lab::new();
        for number in 0..2 * LISTS_KEPT_MAX {
            lab.register(Broker::new(&format!("b{number}"), 0, &format!("a{number}")).cluster(&format!("c{number}")));
        }
        let first = lab.topics_of("c0");
        for number in 1..2 * LISTS_KEPT_MAX {
            lab.now.0 += 1;
            lab.topics_of(&format!("c{number}"));
            assert_eq!(lab.topics_of("c0").as_ptr(), first.as_ptr(), "what is asked for last goes last");
            assert!(lab.cache.kept.len() <= LISTS_KEPT_MAX);
        }
        for number in 0..2 * LISTS_KEPT_MAX {
            assert_eq!(lab.topics_of(&format!("unknown{number}")), r#"{"topicList":[]}"#);
        }
        assert_eq!(lab.topics_of("c0").as_ptr(), first.as_ptr());
    }

    #[test]
    fn lists_have_a_limit_in_bytes() {
        let mut cache = ListCache::new();
        let third = Bytes::from(vec![0; LISTS_KEPT_BYTES_MAX / 3]);
        for number in 0..5 {
            let list = List::TopicsOfCluster(number.to_string().into());
            cache.keep(Kept { list, version: 0, made: Millis(number), asked: Millis(number), body: third.clone() });
            assert!(cache.kept.iter().map(Kept::bytes).sum::<usize>() <= LISTS_KEPT_BYTES_MAX);
        }
        let kept: Vec<_> = cache.kept.iter().map(|kept| kept.asked.0).collect();
        assert_eq!(kept, [3, 4], "with the names of their clusters, three do not fit");
        let body = Bytes::from(vec![0; LISTS_KEPT_BYTES_MAX + 1]);
        cache.keep(Kept { list: List::AllTopics, version: 0, made: Millis(9), asked: Millis(9), body });
        assert_eq!(cache.kept.len(), 2, "one that can never fit displaces nothing");
    }

    /// A reader that measures how long its guard is held.
    struct Timed(SequentialReader, Duration);

    impl Reader for Timed {
        type View<'a> = ScratchView;

        fn read<R>(&mut self, query: impl FnMut(&ScratchView) -> Result<R, Stale>) -> R {
            let begin = Instant::now();
            let result = self.0.read(query);
            self.1 += begin.elapsed();
            result
        }
    }

    #[test]
    fn nothing_is_sorted_or_encoded_under_a_guard() {
        const TOPICS: usize = 20_000;
        let (registry, publisher) = Sequential::new();
        let mut writer = Writer::new(publisher, TableLimits::default());
        let mut topics = TopicTable::default();
        // What has to be escaped takes long to encode.
        let names = (0..TOPICS).map(|number| format!("{number:x}{}", "\n".repeat(50)));
        names.for_each(|name| topics.push(&name, &name, settings(6)));
        writer.execute(&Command::Register(Box::new(Broker::new("b0", 0, "10.0.0.1:1").table(topics).0)), Millis(1));
        // The best of some rounds: whoever else uses the machine is not in all of them.
        let shares = (0..5).map(|_| {
            let mut reader = Timed(registry.reader(), Duration::ZERO);
            let begin = Instant::now();
            let list = ListCache::new().get(&mut reader, List::AllTopics, Millis(1), Millis(1));
            assert!(list.len() > TOPICS * 100);
            reader.1.as_secs_f64() / begin.elapsed().as_secs_f64()
        });
        let share = shares.fold(1.0, f64::min);
        assert!(share < 0.3, "the guard is held for {share} of the time");
    }

    #[test]
    fn a_list_holds_no_state_alive() {
        let mut lab = Lab::new();
        lab.register(Broker::new("b0", 0, "10.0.0.1:1"));
        let root = lab.reader.read(|view| Ok(Arc::downgrade(&view.share_root())));
        let list = lab.get(List::ClusterInfo);
        lab.register(Broker::new("b1", 0, "10.0.0.2:1"));
        // The writer and the registry have the next one.
        assert!(root.upgrade().is_none(), "kept by {list:?}");
    }
}
