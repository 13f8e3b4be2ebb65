//! Which lock strategy the server is built on.
//!
//! One is chosen when the server is compiled, so that the path of a lookup is free of indirections: by naming a feature
//! `backend-*`, or without naming one, the default. With `all-backends` every strategy is there, and `--backend` chooses.

use registry_core::Registry;

use crate::{Server, ServerError, config::Settings};

const NAMED: usize = cfg!(feature = "backend-cached") as usize
    + cfg!(feature = "backend-dashmap") as usize
    + cfg!(feature = "backend-epoch") as usize
    + cfg!(feature = "backend-left-right") as usize
    + cfg!(feature = "backend-rwlock") as usize;

#[cfg(not(any(
    feature = "all-backends",
    feature = "backend-cached",
    feature = "backend-dashmap",
    feature = "backend-epoch",
    feature = "backend-left-right",
    feature = "backend-rwlock",
    feature = "default-backend",
)))]
compile_error!(
    "no backend is selected: add one of the features backend-rwlock, backend-dashmap, backend-left-right, backend-epoch, \
     backend-cached"
);
const _: () = assert!(
    NAMED < 2 || cfg!(feature = "all-backends"),
    "two backends are selected: keep one of the features backend-rwlock, backend-dashmap, backend-left-right, \
     backend-epoch, backend-cached; or take all-backends and choose with --backend"
);

// The default has the lowest priority: naming another one is enough.
macro_rules! select {
    ($($feature:literal => $registry:ident,)*) => {
        select!(@ [] $(($feature $registry))*);
    };
    // Each line counts only where none before it does; with `all-backends`, none but the last.
    (@ [$($before:literal)*] ($feature:literal $registry:ident) $($rest:tt)*) => {
        #[cfg(all(feature = $feature, not(any(feature = "all-backends" $(, feature = $before)*))))]
        type Selected = backends::$registry;
        select!(@ [$($before)* $feature] $($rest)*);
    };
    (@ [$($before:literal)*]) => {
        #[cfg(any(feature = "all-backends", feature = "backend-rwlock", feature = "default-backend"))]
        #[cfg(any(feature = "all-backends", not(any($(feature = $before),*))))]
        type Selected = backends::RwLockRegistry;
    };
}

select! {
    "backend-cached" => CachedRegistry,
    "backend-dashmap" => DashMapRegistry,
    "backend-epoch" => EpochRegistry,
    "backend-left-right" => LeftRightRegistry,
}

/// The strategy that serves unless another one is asked for.
pub const DEFAULT: &str = <Selected as Registry>::NAME;

/// Strategies that this server can be started with.
#[cfg(feature = "all-backends")]
pub const NAMES: &[&str] = {
    macro_rules! names {
        ($($module:ident: $registry:path;)*) => { &[$(<$registry as Registry>::NAME),*] };
    }
    backends::strategies!(names)
};
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
    #[cfg(feature = "all-backends")]
    macro_rules! start_named {
        ($($module:ident: $registry:path;)*) => {
            $(if name == <$registry as Registry>::NAME {
                return Server::start::<$registry>(settings);
            })*
        };
    }
    #[cfg(feature = "all-backends")]
    backends::strategies!(start_named);
    Server::start::<Selected>(settings)
}
