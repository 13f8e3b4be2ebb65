//! Lock strategies for the registry: how the state is shared between the writer and the readers.
//!
//! Each strategy is one file, one feature and one line here. All give the same promises, those of
//! [`registry_core::Registry`]; they differ in who waits, how long, and in memory. A strategy knows neither the rules of
//! the registry nor the bytes of an answer.
//!
//! | strategy | reader | publisher |
//! |---|---|---|
//! | [`rwlock`] | shared lock for one query | exclusive lock while a prepared change is applied |
//! | [`cached`] | one atomic load; after a change one pointer copy | builds a snapshot beside the newest, swaps it |
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

mod sync;

#[cfg(feature = "cached")]
pub mod cached;
#[cfg(feature = "rwlock")]
pub mod rwlock;
#[cfg(feature = "cached")]
mod snapshot;

#[cfg(feature = "cached")]
pub use cached::CachedRegistry;
#[cfg(feature = "rwlock")]
pub use rwlock::RwLockRegistry;
#[cfg(feature = "cached")]
pub use snapshot::Snapshot;
