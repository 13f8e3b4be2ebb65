//! The compressed form of a registration: one zlib stream of parts, each with its length in front.
//!
//! The stream is inflated as it is parsed, so that memory holds one part at a time, whatever the stream inflates to.

use std::io::{self, BufReader, Read};

use flate2::bufread::ZlibDecoder;
use registry_core::{Name, QueueSettings, RegisterBody, TopicMapping, TopicTable};

use super::{
    BodyError, BodyLimits, Quoted, check_count, check_name, parse_whole,
    register::{Parser, last_of_each_mapping, last_of_each_topic},
};
use crate::{json, remoting::codes::VERSION_5_0_0};

/// Bytes to inflate at a time.
const CHUNK: usize = 32 << 10;
/// Compressed bytes that a usual topic takes.
const TOPIC_BYTES: usize = 16;

/// Says whether these are the first bytes of a zlib stream as Java writes it. No JSON starts with an `x`.
pub(crate) fn is_zlib(body: &[u8]) -> bool {
    matches!(*body, [0x78, flags, ..] if u16::from_be_bytes([0x78, flags]).is_multiple_of(31))
}

/// How many times longer a compressed registration of a broker is when it is inflated, at most.
const INFLATED_TIMES: usize = 16;

/// Bytes of a body, inflated as an honest one would be.
pub(crate) fn likely_bytes(body: &[u8]) -> usize {
    if is_zlib(body) { body.len().saturating_mul(INFLATED_TIMES) } else { body.len() }
}

/// Parses a compressed registration. What follows the last part is not looked at.
pub(super) fn parse_compressed(body: &[u8], version: i32, parser: Parser<'_>) -> Result<RegisterBody, BodyError> {
    let mut parts = Parts::new(body, parser.limits);
    let data_version = parse_whole(parts.part("dataVersion")?, |reader| parser.read_version_or_now(reader))?;
    let data_version = match data_version {
        Some(version) => version,
        None => super::version::version_of_now(parser.now_wall_ms),
    };
    let topics = read_topics(&mut parts, body.len())?;
    // A list that cannot be read is an empty one, as in the original.
    let filter_servers = match parse_whole(parts.part("filterServerList")?, |reader| parser.read_filter_servers(reader))
    {
        Ok(servers) => servers.flatten(),
        Err(BodyError::Json(_)) => Some(Vec::new()),
        Err(error) => return Err(error),
    };
    let mappings = if version >= VERSION_5_0_0 { read_mappings(&mut parts, parser)? } else { Vec::new() };
    Ok(RegisterBody { data_version, topics: Some(topics), mappings, filter_servers })
}

fn read_topics(parts: &mut Parts<'_>, body_bytes: usize) -> Result<TopicTable, BodyError> {
    let limits = parts.limits;
    let count = parts.count("topic count", "topics_max", limits.topics_max)?;
    // The count is only a claim.
    let likely = count.min(body_bytes / TOPIC_BYTES);
    let mut table = TopicTable::with_capacity(likely, likely.saturating_mul(24));
    for _ in 0..count {
        let line = json::utf8(parts.part("topic")?)?;
        let (name, settings) = parse_topic_line(&line)?;
        check_name(name, limits)?;
        table.push(name, name, settings);
    }
    Ok(last_of_each_topic(table))
}

/// Parses `name readQueues writeQueues perm filterType [attributes]`.
fn parse_topic_line(line: &str) -> Result<(&str, QueueSettings), BodyError> {
    let invalid = |what| BodyError::TopicLine(Quoted::of(line), what);
    let mut fields = line.split(' ');
    let name = fields.next().unwrap_or_default();
    let mut number = |what| fields.next().and_then(|field| field.parse::<i32>().ok()).ok_or_else(|| invalid(what));
    let settings = QueueSettings {
        read_queues: number("readQueueNums")?,
        write_queues: number("writeQueueNums")?,
        perm: number("perm")?,
        topic_sys_flag: 0,
    };
    match fields.next() {
        Some("SINGLE_TAG" | "MULTI_TAG") => Ok((name, settings)),
        _ => Err(invalid("topicFilterType")),
    }
}

fn read_mappings(parts: &mut Parts<'_>, parser: Parser<'_>) -> Result<Vec<(Name, TopicMapping)>, BodyError> {
    let limits = parts.limits;
    let count = parts.count("mapping count", "mappings_max", limits.mappings_max)?;
    let mut mappings = Vec::new();
    for index in 0..count {
        let incomplete = |what| BodyError::IncompleteMapping(Quoted::of(&index.to_string()), what);
        let mapping = parse_whole(parts.part("mapping")?, |reader| parser.read_mapping(reader, ""))?;
        let mapping = mapping.ok_or_else(|| incomplete("value"))?;
        let key = mapping.topic.clone().ok_or_else(|| incomplete("topic"))?;
        mappings.push((key, mapping));
    }
    Ok(last_of_each_mapping(mappings))
}

/// The inflated stream, cut into its parts.
struct Parts<'a> {
    stream: BufReader<ZlibDecoder<&'a [u8]>>,
    /// How many bytes may still be inflated.
    left: u32,
    part: Vec<u8>,
    limits: &'a BodyLimits,
}

impl<'a> Parts<'a> {
    fn new(body: &'a [u8], limits: &'a BodyLimits) -> Self {
        let stream = BufReader::with_capacity(CHUNK, ZlibDecoder::new(body));
        Self { stream, left: limits.inflate_bytes_max, part: Vec::new(), limits }
    }

    /// The next part, without its length. Allocates as bytes arrive, not as they are announced.
    fn part(&mut self, what: &'static str) -> Result<&[u8], BodyError> {
        let length = self.number(what)?;
        let limit = self.limits.part_bytes_max;
        if length > limit {
            return Err(BodyError::TooLong { bytes: length as usize, limit_name: "part_bytes_max", limit });
        }
        self.take(length)?;
        self.part.clear();
        let read = Read::by_ref(&mut self.stream).take(u64::from(length)).read_to_end(&mut self.part);
        match read {
            Ok(bytes) if bytes == length as usize => Ok(&self.part),
            Ok(_) => Err(BodyError::Ended(what)),
            Err(error) => Err(stream_error(&error, what)),
        }
    }

    fn count(&mut self, what: &'static str, limit_name: &'static str, limit: u32) -> Result<usize, BodyError> {
        let count = self.number(what)? as usize;
        check_count(count.saturating_sub(1), limit_name, limit)?;
        Ok(count)
    }

    /// Reads a length or count, which the original has as a signed integer.
    fn number(&mut self, what: &'static str) -> Result<u32, BodyError> {
        let mut bytes = [0; 4];
        self.take(4)?;
        self.stream.read_exact(&mut bytes).map_err(|error| stream_error(&error, what))?;
        let value = i32::from_be_bytes(bytes);
        u32::try_from(value).map_err(|_| BodyError::Negative { what, value })
    }

    fn take(&mut self, bytes: u32) -> Result<(), BodyError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(BodyError::InflatedTooLong(self.limits.inflate_bytes_max))?;
        Ok(())
    }
}

fn stream_error(error: &io::Error, what: &'static str) -> BodyError {
    if error.kind() == io::ErrorKind::UnexpectedEof { BodyError::Ended(what) } else { BodyError::Zlib(what) }
}
