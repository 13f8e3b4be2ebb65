//! Changing the configuration while the server runs. Java: `UPDATE_NAMESRV_CONFIG`, 318.

use std::sync::PoisonError;

use super::keys::{self, Effect, ValueError, shown};
use super::properties::{self, Entry, PropertiesError};
use super::{Lines, Live, Settings, with_value};
use crate::storage::{self, StorageError};

/// Longest body of an update, in bytes. All keys together are about 2,000 bytes.
pub const CONFIG_UPDATE_BYTES_MAX: usize = 64 << 10;

/// Keys that are refused in every update, whatever `configBlackList` says: they name files that the server writes.
const ALWAYS_BLACK_LISTED: [&str; 4] = ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"];

/// An update that changed nothing. The text is the remark of the answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateRefusal {
    /// The sender may not update the configuration.
    #[error("Can not update config from this address, see adminAllowCidrs.")]
    NotAllowed,
    /// One of the keys may not be updated.
    #[error("Can not update config in black list.")]
    BlackListed,
    /// The body is no properties text.
    #[error("string2Properties error")]
    Malformed(#[from] PropertiesError),
    /// The body is too long.
    #[error("update of {bytes} bytes exceeds config_update_bytes_max {CONFIG_UPDATE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Neither a key that is known nor one of the configuration file. The original ignores it.
    #[error("{key:?} is not a configuration key")]
    UnknownKey {
        /// The key, cut to a length that fits a message.
        key: String,
    },
    /// The key is honoured at the start only.
    #[error("{key} needs a restart: set it in the configuration file")]
    NeedsRestart {
        /// The key.
        key: &'static str,
    },
    /// The key belongs to the original; this server does not honour it.
    #[error("{key} has no effect in this server")]
    NoEffect {
        /// The key.
        key: &'static str,
    },
    /// The value is not what its key takes. The original ignores it.
    #[error(transparent)]
    BadValue(#[from] ValueError),
    /// The new configuration could not be stored.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl UpdateRefusal {
    /// The response code. Java: `NO_PERMISSION` 16 or `SYSTEM_ERROR` 1.
    pub fn code(&self) -> i32 {
        match self {
            Self::NotAllowed | Self::BlackListed => 16,
            _ => 1,
        }
    }
}

/// An update that has taken effect.
#[derive(Debug, Default)]
#[must_use]
pub struct Updated {
    /// Why it is not stored, and lost at the next start: the file cannot be written at all.
    pub not_stored: Option<StorageError>,
}

impl Updated {
    /// The remark of the answer, if there is something to say.
    pub fn remark(&self) -> Option<String> {
        let error = self.not_stored.as_ref()?;
        Some(format!("In effect until the next start, but not stored: {error}"))
    }
}

impl Settings {
    /// Changes the configuration as `body`, a properties text in ISO-8859-1, says: all of it or nothing. When this
    /// returns, the change is stored at [`config_store_path`](super::Config::config_store_path), the previous file
    /// is its `.bak`, and every later read sees the change. Where that file cannot be written at all, the change is
    /// seen all the same, and what is returned says so. An empty body is fine and changes nothing.
    ///
    /// The caller has asked [`is_admin_allowed`](Self::is_admin_allowed) before.
    ///
    /// Blocks on the disk, and on another update; O(n log k) for a body of n bytes.
    ///
    /// # Errors
    ///
    /// Why nothing was changed.
    pub fn update(&self, body: &[u8]) -> Result<Updated, UpdateRefusal> {
        let bytes = body.len();
        if bytes == 0 {
            return Ok(Updated::default());
        }
        if bytes > CONFIG_UPDATE_BYTES_MAX {
            return Err(UpdateRefusal::TooLong { bytes });
        }
        let entries = properties::parse(&properties::decode_latin1(body))?;
        if entries.iter().any(|entry| self.is_black_listed(&entry.key)) {
            return Err(UpdateRefusal::BlackListed);
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = lines.clone();
        let mut live = self.live.load();
        for entry in &entries {
            live = change(&mut next, live, entry)?;
        }
        let not_stored =
            match storage::replace(&*self.storage, &self.config.config_store_path, stored(&next).as_bytes()) {
                Err(error) if error.is_unwritable() => Some(error),
                other => other.map(|()| None)?,
            };
        self.live.store(live);
        self.show(&next);
        *lines = next;
        Ok(Updated { not_stored })
    }

    fn is_black_listed(&self, key: &str) -> bool {
        let key = key.trim();
        ALWAYS_BLACK_LISTED.contains(&key) || self.black_list.iter().any(|listed| listed == key)
    }
}

fn change(lines: &mut Lines, live: Live, entry: &Entry) -> Result<Live, UpdateRefusal> {
    let Some(key) = keys::find(&entry.key) else {
        let line = lines.get_mut(&entry.key).ok_or_else(|| UpdateRefusal::UnknownKey { key: shown(&entry.key) })?;
        line.clone_from(&entry.value);
        return Ok(live);
    };
    let Effect::Live(live_key) = key.effect else {
        return Err(match key.effect {
            Effect::Ignored => UpdateRefusal::NoEffect { key: key.name },
            _ => UpdateRefusal::NeedsRestart { key: key.name },
        });
    };
    let value = key.parse(&entry.value)?;
    lines.insert(entry.key.clone(), value.to_string());
    Ok(with_value(live, live_key, &value))
}

/// The text for the file: what is shown, but escaped, so that it is read back as it was.
fn stored(lines: &Lines) -> String {
    let mut out = String::new();
    lines.iter().for_each(|(key, value)| properties::write_entry(&mut out, key, value));
    out
}
