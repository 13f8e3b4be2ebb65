//! Lock strategies for the registry: how the state is shared between the writer and the readers.
//!
//! Each strategy is one file, one feature and one line here. All give the same promises, those of
//! [`registry_core::Registry`]; they differ in who waits, how long, and in memory. A strategy knows neither the rules of
//! the registry nor the bytes of an answer.
//!
//! | strategy | reader | publisher |
//! |---|---|---|
//! | [`rwlock`] | shared lock for one query | exclusive lock while a prepared change is applied |
//! | [`dashmap`] | one atomic load, one shard lock; again if two changes have gone by | one shard lock for each changed topic |
//! | [`left_right`] | wait-free | makes each change twice, waits for readers of the old copy |
//! | [`epoch`] | wait-free | builds a snapshot beside the present one, swaps a pointer |
//! | [`cached`] | one fence, one atomic load; after a change one pointer copy | builds a snapshot beside the newest, swaps it |
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

/// `Debug` for types whose content is too large, or too shared, to be shown.
macro_rules! opaque_debug {
    ($($type:ty),*) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    )*};
}

/// Calls the macro `$callback` with a line `module: Registry;` for each strategy, for tests and for a server that has all
/// of them. Needs every feature.
#[macro_export]
macro_rules! strategies {
    ($callback:ident) => {
        $callback! {
            rwlock: $crate::RwLockRegistry;
            dashmap: $crate::DashMapRegistry;
            left_right: $crate::LeftRightRegistry;
            epoch: $crate::EpochRegistry;
            cached: $crate::CachedRegistry;
        }
    };
}

pub mod memory;
mod sync;

#[cfg(feature = "baselines")]
pub mod baseline;
#[cfg(feature = "cached")]
pub mod cached;
#[cfg(feature = "dashmap")]
pub mod dashmap;
#[cfg(feature = "epoch")]
pub mod epoch;
#[cfg(any(feature = "cached", feature = "dashmap"))]
mod latest;
#[cfg(feature = "left-right")]
pub mod left_right;
#[cfg(feature = "rwlock")]
pub mod rwlock;
#[cfg(any(feature = "baselines", feature = "cached", feature = "epoch"))]
mod snapshot;
#[cfg(any(feature = "left-right", feature = "rwlock"))]
mod state;

#[cfg(feature = "cached")]
pub use cached::CachedRegistry;
#[cfg(feature = "dashmap")]
pub use dashmap::DashMapRegistry;
#[cfg(feature = "epoch")]
pub use epoch::EpochRegistry;
#[cfg(feature = "left-right")]
pub use left_right::LeftRightRegistry;
#[cfg(feature = "rwlock")]
pub use rwlock::RwLockRegistry;
#[cfg(any(feature = "baselines", feature = "cached", feature = "epoch"))]
pub use snapshot::Snapshot;
#[cfg(any(feature = "left-right", feature = "rwlock"))]
pub use state::State;
