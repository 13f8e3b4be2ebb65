//! Changing the configuration while the server runs. Java: `UPDATE_NAMESRV_CONFIG`, 318.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::keys::{self, Effect, Key, Kind, Value, ValueError, shown};
use super::properties::{self, Entry, PropertiesError};
use super::{Conflict, Lines, Settings, Shown, check, fit_defaults, with_value};
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
    /// No key that is known, whether or not it stands in the configuration file. The original ignores it, and changes
    /// it if it stands there.
    #[error("{key:?} is not a configuration key: it can be changed in the configuration file only")]
    UnknownKey {
        /// The key, cut to a length that fits a message.
        key: String,
    },
    /// The key says who is trusted, which whoever is trusted now does not decide.
    #[error("{key} says who is trusted: it can be changed in the configuration file only")]
    Trust {
        /// The key.
        key: &'static str,
    },
    /// The next start would fail.
    #[error(transparent)]
    Conflict(#[from] Conflict),
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
            Self::NotAllowed | Self::BlackListed | Self::Trust { .. } => 16,
            _ => 1,
        }
    }
}

/// An update that has taken effect, now or for the next start.
#[derive(Debug, Default)]
#[must_use]
pub struct Updated {
    /// Keys that are honoured at the start only.
    pub needs_restart: BTreeSet<&'static str>,
    /// Keys of the original that this server does not honour.
    pub without_effect: BTreeSet<&'static str>,
    /// Why it is not stored, and lost at the next start: the file cannot be written at all.
    pub not_stored: Option<StorageError>,
}

impl Updated {
    /// The remark of the answer, if there is something to say.
    pub fn remark(&self) -> Option<String> {
        let list = |keys: &BTreeSet<&str>| keys.iter().copied().collect::<Vec<_>>().join(", ");
        let stored = if self.not_stored.is_none() { "stored; " } else { "" };
        let mut sentences = Vec::new();
        if !self.needs_restart.is_empty() {
            sentences.push(format!("{}: {stored}takes effect after a restart", list(&self.needs_restart)));
        }
        if !self.without_effect.is_empty() {
            sentences.push(format!("{}: {stored}has no effect in this server", list(&self.without_effect)));
        }
        if let Some(error) = &self.not_stored {
            sentences.push(format!("In effect until the next start, but not stored: {error}"));
        }
        (!sentences.is_empty()).then(|| sentences.join(". "))
    }
}

impl Settings {
    /// Changes the configuration as `body`, a properties text in ISO-8859-1, says: all of it or nothing. When this
    /// returns, the change is stored at [`config_store_path`](super::Config::config_store_path), the previous file
    /// is its `.bak`, and every later read sees the change. Where that file cannot be written at all, the change is
    /// seen all the same, and what is returned says so. A key that needs a restart, or has no effect here, is stored and
    /// shown, and what is returned names it. An empty body is fine and changes nothing.
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
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = shown.clone();
        let mut live = self.live.load();
        let mut updated = Updated::default();
        for entry in &entries {
            let (key, value) = change(&mut next, entry)?;
            match key.effect {
                Effect::Live(live_key) => live = with_value(live, live_key, &value),
                Effect::Restart => _ = updated.needs_restart.insert(key.name),
                Effect::Ignored => _ = updated.without_effect.insert(key.name),
            }
        }
        // Our own keys are shown when they are set.
        fit_defaults(&mut next.values, |key| next.lines.contains_key(key));
        check(&next.values)?;
        match storage::replace(&*self.storage, &self.config.config_store_path, stored(&next.lines).as_bytes()) {
            // What is neither stored nor in effect has not been done.
            Err(error) if error.is_unwritable() && updated.needs_restart.is_empty() => updated.not_stored = Some(error),
            result => result?,
        }
        self.live.store(live);
        self.show(&next.lines);
        *shown = next;
        Ok(updated)
    }

    fn is_black_listed(&self, key: &str) -> bool {
        let key = key.trim();
        ALWAYS_BLACK_LISTED.contains(&key) || self.black_list.iter().any(|listed| listed == key)
    }
}

fn change(next: &mut Shown, entry: &Entry) -> Result<(&'static Key, Value), UpdateRefusal> {
    let key = keys::find(&entry.key).ok_or_else(|| UpdateRefusal::UnknownKey { key: shown(&entry.key) })?;
    if key.kind == Kind::Cidrs {
        return Err(UpdateRefusal::Trust { key: key.name });
    }
    let value = key.parse(&entry.value)?;
    next.lines.insert(entry.key.clone(), value.to_string());
    next.values.insert(key.name, value.clone());
    Ok((key, value))
}

/// The text for the file: what is shown, but escaped, so that it is read back as it was.
fn stored(lines: &Lines) -> String {
    let mut out = String::new();
    lines.iter().for_each(|(key, value)| properties::write_entry(&mut out, key, value));
    out
}
