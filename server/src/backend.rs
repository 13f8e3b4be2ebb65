//! Which lock strategy the server is built on.
//!
//! One is chosen when the server is compiled, so that the path of a lookup is free of indirections: by naming a feature
//! `backend-*`, or without naming one, the default. With `all-backends` every strategy is there, and `--backend` chooses.

use crate::{Server, ServerError, config::Settings};

#[cfg(not(any(
    feature = "all-backends",
    feature = "backend-cached",
    feature = "backend-rwlock",
    feature = "default-backend"
)))]
compile_error!("no backend is selected: add one of the features backend-cached, backend-rwlock");

#[cfg(all(not(feature = "all-backends"), feature = "backend-cached", feature = "backend-rwlock"))]
compile_error!(
    "two backends are selected: keep one of the features backend-cached, backend-rwlock, or take all-backends \
     and choose with --backend"
);

// The default has the lowest priority: naming another one is enough.
#[cfg(all(not(feature = "all-backends"), feature = "backend-cached"))]
type Selected = backends::CachedRegistry;
#[cfg(not(all(not(feature = "all-backends"), feature = "backend-cached")))]
type Selected = backends::RwLockRegistry;

/// The strategy that serves unless another one is asked for.
pub const DEFAULT: &str = <Selected as registry_core::Registry>::NAME;

/// Strategies that this server can be started with.
#[cfg(feature = "all-backends")]
pub const NAMES: &[&str] = &["rwlock", "cached"];
/// Strategies that this server can be started with.
#[cfg(not(feature = "all-backends"))]
pub const NAMES: &[&str] = &[DEFAULT];

/// Starts a server on the strategy `name`, one of [`NAMES`].
///
/// # Errors
/// As [`Server::start`].
///
/// # Panics
/// When there is no such strategy in this build.
pub fn start(name: &str, settings: Settings) -> Result<Server, ServerError> {
    assert!(NAMES.contains(&name), "{name} is none of {NAMES:?}");
    match name {
        #[cfg(feature = "all-backends")]
        "cached" => Server::start::<backends::CachedRegistry>(settings),
        _ => Server::start::<Selected>(settings),
    }
}
