//! Bodies of requests: registrations, data versions, topic routes.
//!
//! A body is parsed as a whole before anything is applied: an error means that nothing has changed.

mod compressed;
mod register;
mod route;
mod version;

pub(crate) use compressed::{is_zlib, likely_bytes};
pub use register::parse_register_body;
pub use route::parse_topic_route;
pub use version::{parse_data_version, write_data_version};

use registry_core::{Name, TableLimits};
use thiserror::Error;

use crate::json::{self, JsonError, Reader};

/// What one body may hold. Its length itself is bounded by the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Inflated bytes of a compressed registration. 64 MiB: an honest one of the largest frame inflates to less, as
    /// topics are some 40 bytes each; 16 MiB of a hostile one would be 16 GiB. The original has no limit.
    pub inflate_bytes_max: u32,
    /// Bytes of one part of a compressed registration: a topic, a mapping, the list of filter servers. 4 MiB: a mapping
    /// of 100,000 queues. Bounds the buffer for it. The original trusts the sender.
    pub part_bytes_max: u32,
    /// Topics of one registration. 1,000,000: ten times what a frame of 16 MiB holds of usual topics as JSON.
    pub topics_max: u32,
    /// Static-topic mappings of one registration. 100,000: as many as a frame of 16 MiB holds of usual ones. A mapping
    /// takes twenty times the memory of its shortest text.
    pub mappings_max: u32,
    /// Filter servers of one registration. 1,000: brokers of 4.x have a handful, later ones none.
    pub filter_servers_max: u32,
    /// Queue entries of one topic route (217). 10,000: one for each broker group of the largest cluster, and then some.
    pub queue_datas_max: u32,
    /// Bytes of one name: topic, broker, filter server, scope. 1,024
    /// ([`TableLimits::TOPIC_BYTES_MAX`]), the longest that the registry takes: a body full of longer ones ends at the first.
    pub name_bytes_max: u32,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            inflate_bytes_max: 64 << 20,
            part_bytes_max: 4 << 20,
            topics_max: 1_000_000,
            mappings_max: 100_000,
            filter_servers_max: 1_000,
            queue_datas_max: 10_000,
            name_bytes_max: TableLimits::TOPIC_BYTES_MAX.into(),
        }
    }
}

/// Why a body is refused. All of it is the sender's fault; the answer is `SYSTEM_ERROR` (1).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// Not the JSON that was expected.
    #[error("body: {0}")]
    Json(#[from] JsonError),
    /// The whole body is the text `null`.
    #[error("body is null")]
    Null,
    /// The request's version is below 0.
    #[error("version {0} is negative")]
    NegativeVersion(i32),
    /// An entry of the topic table is null or has no `topicName`.
    #[error("topic {0} has no topicName")]
    UnnamedTopic(Quoted),
    /// An entry of the mapping table is null, or it lacks the field by which it is stored.
    #[error("mapping {0} has no {1}")]
    IncompleteMapping(Quoted, &'static str),
    /// A key of `currIdMap` is no number, or its value is null.
    #[error("currIdMap entry {0} is no pair of numbers")]
    QueueId(Quoted),
    /// More entries than a limit of [`BodyLimits`] allows.
    #[error("more than {limit_name} {limit} entries")]
    TooMany {
        /// Name of the limit.
        limit_name: &'static str,
        /// Value of the limit.
        limit: u32,
    },
    /// A text that is longer than a limit of [`BodyLimits`] allows.
    #[error("text of {bytes} bytes exceeds {limit_name} {limit}")]
    TooLong {
        /// Length of the text.
        bytes: usize,
        /// Name of the limit.
        limit_name: &'static str,
        /// Value of the limit.
        limit: u32,
    },
    /// The zlib stream is broken.
    #[error("zlib stream is broken before {0}")]
    Zlib(&'static str),
    /// The zlib stream ends too early.
    #[error("zlib stream ends before {0}")]
    Ended(&'static str),
    /// A length or count inside a compressed body is negative.
    #[error("{what} is {value}")]
    Negative {
        /// What the number says.
        what: &'static str,
        /// The number.
        value: i32,
    },
    /// The inflated body exceeds [`BodyLimits::inflate_bytes_max`].
    #[error("inflated body exceeds inflate_bytes_max {0}")]
    InflatedTooLong(u32),
    /// A topic of a compressed body is not `name readQueues writeQueues perm filterType`.
    #[error("topic line {0} has no valid {1}")]
    TopicLine(Quoted, &'static str),
}

/// The start of a text that a peer sent, for messages: bounded, and escaped so that it cannot forge a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    /// Unit: characters.
    const LENGTH_MAX: usize = 64;

    pub(crate) fn of(text: &str) -> Self {
        Self(text.chars().take(Self::LENGTH_MAX).collect())
    }
}

impl std::fmt::Display for Quoted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Checks a length against [`BodyLimits::name_bytes_max`].
fn check_name(name: &str, limits: &BodyLimits) -> Result<(), BodyError> {
    let limit = limits.name_bytes_max;
    if name.len() > limit as usize {
        return Err(BodyError::TooLong { bytes: name.len(), limit_name: "name_bytes_max", limit });
    }
    Ok(())
}

/// Checks that one entry more than `count` is allowed.
fn check_count(count: usize, limit_name: &'static str, limit: u32) -> Result<(), BodyError> {
    if count >= limit as usize { Err(BodyError::TooMany { limit_name, limit }) } else { Ok(()) }
}

/// Reads a name; `None` for null.
fn read_name(reader: &mut Reader<'_>, limits: &BodyLimits) -> Result<Option<Name>, BodyError> {
    let Some(text) = reader.text()? else { return Ok(None) };
    check_name(&text, limits)?;
    Ok(Some(Name::from(&*text)))
}

/// Reads a whole text with `read`. `None` for the text `null`.
fn parse_whole<T>(
    body: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, BodyError>,
) -> Result<Option<T>, BodyError> {
    let text = json::utf8(body)?;
    let mut reader = Reader::new(&text);
    let value = if reader.null()? { None } else { Some(read(&mut reader)?) };
    reader.finish()?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_short_and_escaped() {
        assert_eq!(Quoted::of("a\nb\u{1b}").to_string(), "\"a\\nb\\u{1b}\"");
        assert_eq!(Quoted::of(&"é".repeat(1000)).0.chars().count(), 64);
    }
}
