//! What a query may look at.

use std::sync::Arc;

use crate::{Entry, Root};

/// The state that a query looks at is being changed: the strategy runs the query again on a newer one.
///
/// A query passes it on with `?`. It is made by strategies only, and never leaves [`Reader::read`](crate::Reader::read).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale(());

impl Stale {
    /// Says that the state has changed under the query. For strategies.
    pub const fn new() -> Self {
        Self(())
    }
}

impl Default for Stale {
    fn default() -> Self {
        Self::new()
    }
}

/// One state of the registry.
///
/// All methods of one view show the same state, or fail with [`Stale`]. A closure that is passed to a method must not
/// call the view again: in a sharded strategy it runs under the lock of a shard.
pub trait View {
    /// The small tables.
    fn root(&self) -> &Root;

    /// A share in the small tables of this state, to look at when the query has returned. One atomic increment.
    fn share_root(&self) -> Arc<Root>;

    /// Runs `f` on the entry of `topic`, or on `None` when there is none.
    ///
    /// # Errors
    /// [`Stale`] when the strategy cannot show this state of the topic any more.
    fn with_topic<R>(&self, topic: &str, f: impl FnOnce(Option<&Entry>) -> R) -> Result<R, Stale>;

    /// Runs `f` on every topic, in no particular order. Whoever calls it reads by [`scan`](crate::Reader::scan), and leaves
    /// for later what can be done later.
    ///
    /// # Errors
    /// [`Stale`] when the strategy cannot show this state of the topics any more; `f` may have seen some of them.
    fn for_each_topic(&self, f: impl FnMut(&str, &Entry)) -> Result<(), Stale>;
}
