//! Open files: as many as the system allows, and how many of them are for connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use super::notifier;
use crate::config::Config;

/// Connections where no key says how many: more than any cluster has clients of one name server, and a bound on memory
/// (4 KiB each: 256 MiB).
const CONNECTIONS_MAX: usize = 65_536;
/// A server that could not have so many is not started.
const CONNECTIONS_MIN: usize = 16;

/// Standard streams, listener, signals, and the poller of the thread that accepts.
const FILES_OF_CONTROL: u64 = 12;
/// Poller, waker and timer of a worker.
const FILES_OF_WORKER: u64 = 4;
/// A file that is being replaced, its backup and their folder, for the KV store and the configuration.
const FILES_OF_STORAGE: u64 = 8;
/// Connections that were accepted and are about to be refused.
const FILES_SPARE: u64 = 8;

/// The limit of open files is too low for this configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of open files is {limit}: {reserved} are needed beside connections, and {CONNECTIONS_MIN} connections at least; \
     raise it (ulimit -n, LimitNOFILE) or lower workerThreads"
)]
pub struct TooFewFiles {
    limit: u64,
    reserved: u64,
}

/// Raises this process's limit of open files to all that the system allows. To be called before anything is opened.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // What cannot be raised is counted with as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// How many connections there may be at a time. Warns when `maxConnections` is more.
///
/// # Errors
/// Hardly any.
pub(super) fn connections_max(config: &Config) -> Result<usize, TooFewFiles> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let reserved = reserved(config);
    let max = for_connections(limit, reserved, config.connections_max)?;
    if let Some(asked) = config.connections_max.filter(|asked| *asked > max) {
        warn!(
            "maxConnections={asked} is more than the limit of open files allows: {limit}, of which {reserved} are needed \
             beside connections, so there may be {max}; raise the limit (ulimit -n, LimitNOFILE) or lower maxConnections"
        );
    }
    Ok(max)
}

fn reserved(config: &Config) -> u64 {
    let workers = FILES_OF_WORKER * config.worker_threads as u64;
    FILES_OF_CONTROL + workers + FILES_OF_STORAGE + notifier::CONNECTIONS_MAX as u64 + FILES_SPARE
}

fn for_connections(limit: u64, reserved: u64, asked: Option<usize>) -> Result<usize, TooFewFiles> {
    let left = usize::try_from(limit.saturating_sub(reserved)).unwrap_or(usize::MAX);
    if left < CONNECTIONS_MIN {
        return Err(TooFewFiles { limit, reserved });
    }
    Ok(asked.unwrap_or(CONNECTIONS_MAX).min(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_what_is_left() {
        assert_eq!(for_connections(1_024, 100, None), Ok(924));
        assert_eq!(for_connections(1_000_000, 100, None), Ok(CONNECTIONS_MAX));
        assert_eq!(for_connections(1_000_000, 100, Some(200_000)), Ok(200_000));
        assert_eq!(for_connections(1_024, 100, Some(200_000)), Ok(924));
        assert_eq!(for_connections(1_024, 100, Some(10)), Ok(10));
        let refused = for_connections(40, 100, None).unwrap_err();
        assert!(refused.to_string().starts_with("the limit of open files is 40: 100 are needed"), "{refused}");
        assert!(for_connections(115, 100, Some(1)).is_err());
    }
}
