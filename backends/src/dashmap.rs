//! A sharded `DashMap` of topics that holds two versions of each, and one root as the point of commit.
//!
//! Maps of this kind are atomic for one key at a time: a server that keeps each table in one gives dirty reads as soon as
//! a query needs two keys. Here each topic keeps its last two versions, numbered by the root that they belong to, and a
//! query reads, of every topic, the newest version that is not newer than the root it began with.
//!
//! # Guarantees
//! * **D1**: a change writes all of its topics, beside their former versions, before its root becomes the newest: a query
//!   with the old root sees none of it, one with the new root all of it.
//! * **D2**: a version that a root needs is there as long as at most one change has begun after that root. A query looks,
//!   under the lock of the shard, at the number of the change that has begun last; if it is too late, it is told
//!   [`Stale`] and runs again with the newest root.
//! * **D3**: after a few such failures the query keeps the publisher from beginning (a mutex), so it ends.
//!
//! Linearizable: the root is replaced at one moment, and a read that begins later takes it (L2 of the module `latest`).
//!
//! # Costs
//! * Memory: the state once, and the former versions of the topics that have changed: with everything rewritten, the slots
//!   twice; 40 bytes a topic more than one version.
//! * A read: one atomic load for the root, the lock word of one shard (which the readers of its topics share), and one
//!   more load.
//! * A change: one shard lock for each changed topic; nothing is copied.
//! * Who waits: a reader waits for the writer at most for the insertion of one topic, or the growth of one shard. The writer
//!   waits for the readers of a shard, and the lock of this map prefers readers: where all of them read one hot topic
//!   without a pause it may wait for milliseconds. A scan under constant writes stops the writer for its length (D3).
//!
//! # Choose this when
//! Many topics change one at a time, and the tail of lookups must not show it.
//!
//! # Do not choose this when
//! Few topics are very hot, or registrations must be fast at the tail under full load of lookups.
//!
//! # When something goes wrong
//! A writer that panics half-way has not replaced the root: readers go on with the last state. If it never goes on, they
//! are never stale. A reader that stalls inside a read holds a shard: the writer waits for it at the next change of a topic
//! there, and readers of that shard then wait for the writer. A publisher that is dropped leaves the last state.

use std::sync::Arc;

use registry_core::{BesideARead, Change, Entry, Image, Name, Publisher, Reader, Registry, Root, Stale, View};

use crate::{
    latest::{Latest, LatestReader, Replaced},
    sync::{AtomicU64, Mutex, Ordering, Padded, ShardedMap},
};

/// How often a query is run again before it stops the writer. Each time, a whole change has gone by.
/// Never in a model, so that what comes then is explored, too (D3).
const RETRIES_MAX: usize = if cfg!(loom) { 0 } else { 3 };

/// The last two versions of a topic. A version is the number of the root that it belongs to, and a missing entry is a
/// topic that is gone (a tombstone).
struct Versions {
    newest: (u64, Option<Entry>),
    /// What was before; `None` where there was nothing.
    former: Option<(u64, Option<Entry>)>,
}

impl Versions {
    /// The newest version that is not newer than `version`.
    fn at(&self, version: u64) -> Option<&Entry> {
        if self.newest.0 <= version {
            return self.newest.1.as_ref();
        }
        self.former.as_ref().and_then(|(_, entry)| entry.as_ref())
    }
}

/// The registry in two versions a topic. See the [module](self).
pub struct DashMapRegistry {
    root: Latest<Root>,
    topics: ShardedMap<Name, Versions>,
    /// Version of the change that has begun last (D2).
    begun: Padded<AtomicU64>,
    /// Held while a change is made, and by a query that has failed too often (D3).
    gate: Mutex<()>,
}

impl Registry for DashMapRegistry {
    const NAME: &'static str = "dashmap";
    const BESIDE_A_READ: BesideARead = BesideARead { between_topics: u64::MAX, at_a_topic: 0 };
    type Reader = DashMapReader;
    type Publisher = DashMapPublisher;

    fn new() -> (Arc<Self>, DashMapPublisher) {
        let registry = Arc::new(Self {
            root: Latest::new(Arc::clone(Image::empty().root())),
            topics: ShardedMap::new(),
            begun: Padded(AtomicU64::new(0)),
            gate: Mutex::new(()),
        });
        let publisher = DashMapPublisher {
            registry: Arc::clone(&registry),
            replaced: Replaced::new(),
            tombstones: Vec::new(),
            version: 0,
        };
        (registry, publisher)
    }

    fn reader(self: &Arc<Self>) -> DashMapReader {
        DashMapReader { registry: Arc::clone(self), root: LatestReader::new(&self.root) }
    }
}

/// Reads the versions of one root; again with a newer one, if they were replaced under it.
pub struct DashMapReader {
    registry: Arc<DashMapRegistry>,
    root: LatestReader<Root>,
}

impl Reader for DashMapReader {
    type View<'a> = DashMapView<'a>;

    fn read<R>(&mut self, mut query: impl FnMut(&DashMapView<'_>) -> Result<R, Stale>) -> R {
        let Self { registry, root } = self;
        for _ in 0..=RETRIES_MAX {
            root.refresh(&registry.root);
            if let Ok(result) = query(&DashMapView { registry, root: root.value(), shared: root.shared() }) {
                return result;
            }
        }
        let _gate = registry.gate.lock();
        root.refresh(&registry.root);
        match query(&DashMapView { registry, root: root.value(), shared: root.shared() }) {
            Ok(result) => result,
            Err(stale) => unreachable!("no change begins while the gate is held: {stale:?}"),
        }
    }

    fn refresh(&mut self) {
        self.root.refresh(&self.registry.root);
    }
}

/// The state of one root.
pub struct DashMapView<'a> {
    registry: &'a DashMapRegistry,
    root: &'a Root,
    /// The same, to share.
    shared: &'a Arc<Root>,
}

impl DashMapView<'_> {
    /// Says whether every version that the root needs is still there (D2). To be asked under the lock of the shard.
    fn check(&self) -> Result<(), Stale> {
        // Relaxed: the lock of the shard orders this after the writes that were seen in it, and each of them comes after
        // the beginning of its change was told.
        let begun = self.registry.begun.0.load(Ordering::Relaxed);
        if begun <= self.root.version() + 1 { Ok(()) } else { Err(Stale::new()) }
    }
}

impl View for DashMapView<'_> {
    fn root(&self) -> &Root {
        self.root
    }

    fn share_root(&self) -> Arc<Root> {
        Arc::clone(self.shared)
    }

    fn with_topic<R>(&self, topic: &str, f: impl FnOnce(Option<&Entry>) -> R) -> Result<R, Stale> {
        self.registry.topics.with(topic, |versions| {
            self.check()?;
            Ok(f(versions.and_then(|versions| versions.at(self.root.version()))))
        })
    }

    fn for_each_topic(&self, mut f: impl FnMut(&str, &Entry)) -> Result<(), Stale> {
        self.registry.topics.try_for_each(|name, versions| {
            self.check()?;
            if let Some(entry) = versions.at(self.root.version()) {
                f(name, entry);
            }
            Ok(())
        })?;
        // A topic that was removed from a shard before the walk came there was not seen: if it counted, a change has begun.
        self.check()
    }
}

/// Writes the new version of each topic beside the former one, then commits by the root.
pub struct DashMapPublisher {
    registry: Arc<DashMapRegistry>,
    replaced: Replaced<Root>,
    /// Topics that are gone, and since which version: to be removed when no root needs their former version.
    tombstones: Vec<(u64, Name)>,
    /// Version of the newest root.
    version: u64,
}

impl DashMapPublisher {
    /// Tells readers that a change has begun: from now on, roots older than the newest are stale.
    fn begin(&self) {
        // Relaxed: whoever sees a write of this change, in a shard, sees its beginning: the lock of the shard is released
        // after.
        self.registry.begun.0.store(self.version + 1, Ordering::Relaxed);
    }

    /// Removes the tombstones of the newest root and older ones. Only after `begin`: roots that need what was before
    /// them are stale then (D2).
    fn remove_tombstones(&mut self) {
        for (version, name) in self.tombstones.drain(..) {
            let is_gone = |versions: &Versions| versions.newest.0 == version && versions.newest.1.is_none();
            self.registry.topics.remove_if(&name, is_gone);
        }
    }
}

impl Publisher for DashMapPublisher {
    fn publish(&mut self, change: Change) {
        let Change { root, topics } = change;
        let registry = Arc::clone(&self.registry);
        let gate = registry.gate.lock();
        self.begin();
        self.remove_tombstones();
        let version = root.version();
        // What falls out of the map is dropped when the gate is open again.
        let mut forgotten = Vec::with_capacity(topics.len());
        for (name, entry) in topics {
            if entry.is_none() {
                self.tombstones.push((version, name.clone()));
            }
            registry.topics.update(name, |held| {
                let Some(held) = held else {
                    return Some(Versions { newest: (version, entry), former: None });
                };
                let newest = std::mem::replace(&mut held.newest, (version, entry));
                if newest.0 == version {
                    // The same topic twice in one change: the last counts.
                    forgotten.push(newest.1);
                } else if let Some((_, former)) = held.former.replace(newest) {
                    forgotten.push(former);
                }
                None
            });
        }
        self.version = version;
        self.replaced.publish(&registry.root, root);
        drop(gate);
        drop(forgotten);
    }

    fn tick(&mut self) {
        if !self.tombstones.is_empty() {
            let registry = Arc::clone(&self.registry);
            let _gate = registry.gate.lock();
            self.begin();
            self.remove_tombstones();
            registry.topics.shrink();
        }
        self.replaced.drop_unused();
    }
}

opaque_debug!(DashMapRegistry, DashMapReader, DashMapView<'_>, DashMapPublisher);
