//! The contract between the registry and its lock strategies.
//!
//! A strategy is three things: a state that is shared, a way to run a query against one state of it ([`Reader`]), and a
//! way to publish a change ([`Publisher`]). Everything else is written once around it: what the state means
//! ([`Tables`]), what readers see of it ([`Image`]), every query of the protocol ([`query`](crate::query)), and the
//! writer ([`Writer`]).
//!
//! **What a concurrent caller may observe.** With one [`Writer`] and any number of readers, the registry is
//! linearizable: every query sees exactly one state, whatever number of tables it needs; a change that was published
//! before the query began is seen; and no sequence of queries, on whatever topics and lists, goes back in time.

use std::{fmt, sync::Arc};

use crate::{Applied, Change, Command, Image, Millis, Stale, TableLimits, Tables, View};

/// A lock strategy: how the state of the registry is shared between its one writer and its readers.
pub trait Registry: Send + Sync + Sized + 'static {
    /// Name of the strategy, as it is selected and reported.
    const NAME: &'static str;

    /// What its publisher can do while a reader stays inside of one read. By default nothing, as under one lock.
    const BESIDE_A_READ: BesideARead = BesideARead { between_topics: 0, at_a_topic: 0 };

    /// Reads states. One for each thread.
    type Reader: Reader;

    /// Publishes states. Exactly one for each registry.
    type Publisher: Publisher;

    /// Makes an empty registry and its only publisher.
    fn new() -> (Arc<Self>, Self::Publisher);

    /// Makes a reader. It may have to stay on the thread that made it, so each thread makes its own, once: making one
    /// may wait for the writer.
    fn reader(self: &Arc<Self>) -> Self::Reader;
}

/// How many changes can be published while a reader stays inside of one read, before the publisher waits for it; a change
/// more waits until the read is over. [`u64::MAX`]: the publisher never waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BesideARead {
    /// While the query looks at no topic.
    pub between_topics: u64,
    /// While it is in the closure of [`View::with_topic`] or [`View::for_each_topic`], and a change has that topic.
    pub at_a_topic: u64,
}

/// Runs queries, each against exactly one state.
pub trait Reader {
    /// How this strategy shows a state.
    type View<'a>: View
    where
        Self: 'a;

    /// Runs `query` against one state of the registry and returns its result.
    ///
    /// The state is at least as new as every change whose [`Publisher::publish`] returned before this call began, and
    /// at least as new as the state of any earlier read, on whatever thread, that happened before this one.
    ///
    /// The query may run more than once, when the strategy finds that its state has changed under it: it has no effect
    /// but its result, and resets what it writes to when it begins. No reference to the state leaves the call.
    ///
    /// # Panics
    /// Never by itself; a panic of the query is passed on and leaves the registry whole.
    ///
    /// # Blocking
    /// As the strategy says: a wait-free one never waits, a locking one for the application of one change. Reads do not
    /// nest (`&mut self`).
    fn read<R>(&mut self, query: impl FnMut(&Self::View<'_>) -> Result<R, Stale>) -> R;

    /// As [`read`](Self::read), for a query that looks at all topics.
    ///
    /// # Blocking
    /// While such a query runs, a locking strategy keeps its publisher waiting, for some milliseconds per 100,000 topics, but
    /// in a place where no other reader waits behind it. It does so one scan after the other.
    fn scan<R>(&mut self, query: impl FnMut(&Self::View<'_>) -> Result<R, Stale>) -> R {
        self.read(query)
    }

    /// Lets go of the state that the reader may hold between two reads. A thread that has nothing to read calls it now
    /// and then, so that an idle reader keeps no old state alive.
    fn refresh(&mut self) {}
}

/// Makes changes visible, each as a whole.
pub trait Publisher: Send + 'static {
    /// How many topics one step of the sweep looks at; a command may have to wait for one step. More where a change costs much
    /// however small it is.
    const SWEEP_TOPICS: usize = SWEEP_TOPICS;

    /// Makes `change` visible: every read that begins after the return sees it whole, no read sees a part of it.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Blocking
    /// As the strategy says: a locking one waits for the queries that are running.
    ///
    /// # Complexity
    /// O(changed topics), or more where the strategy says so. What the change replaces is dropped on this thread, after
    /// readers can go on.
    fn publish(&mut self, change: Change);

    /// Housekeeping between changes: drops old states that no reader needs any more. Bounded, and never required for
    /// a change to be seen.
    fn tick(&mut self) {}
}

/// How many topics one step of the sweep looks at: less than a millisecond, so that a command never waits longer for it.
pub const SWEEP_TOPICS: usize = 1_024;

/// The one writer of a registry, the same for all strategies: applies a command to the tables, derives the change of
/// the image, publishes it, and only then answers.
pub struct Writer<P> {
    tables: Tables,
    image: Image,
    publisher: P,
}

impl<P: Publisher> Writer<P> {
    /// Makes the writer of an empty registry.
    pub fn new(publisher: P, limits: TableLimits) -> Self {
        Self { tables: Tables::new(limits), image: Image::empty(), publisher }
    }

    /// Executes a command at time `now`: when it returns, every later read sees the effect.
    ///
    /// # Blocking
    /// As [`Publisher::publish`].
    ///
    /// # Complexity
    /// See [`Tables::apply`] and [`Image::derive`].
    pub fn execute(&mut self, command: &Command, now: Millis) -> Applied {
        let applied = self.apply(command, now);
        self.publish();
        applied
    }

    /// Applies a command without making it visible: the first half of [`execute`](Self::execute), for several commands
    /// that are published as one. None of them is answered before [`publish`](Self::publish).
    pub fn apply(&mut self, command: &Command, now: Millis) -> Applied {
        self.tables.apply(command, now)
    }

    /// Removes a part of what dead brokers left behind, and does the housekeeping of the strategy; says whether there
    /// is more to remove. To be called between commands: at once while there is more, else now and then.
    pub fn tick(&mut self) -> bool {
        let is_more = self.tables.sweep(P::SWEEP_TOPICS);
        self.publish();
        self.publisher.tick();
        is_more
    }

    /// Makes everything that was applied visible, as one change: when it returns, every later read sees the effect.
    ///
    /// # Blocking
    /// As [`Publisher::publish`].
    pub fn publish(&mut self) {
        if let Some(change) = self.image.derive(&mut self.tables) {
            self.publisher.publish(change);
        }
    }

    /// The tables, for tests.
    #[doc(hidden)]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }
}

impl<P> fmt::Debug for Writer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("tables", &self.tables).finish_non_exhaustive()
    }
}
