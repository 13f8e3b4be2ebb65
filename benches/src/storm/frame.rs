//! The registrations of one broker of a storm.

use anyhow::Context as _;
use memchr::memmem;

use super::VERSION_FIRST;
use crate::{
    client::{Codec, write_digits},
    cluster::Broker,
    versions::queues_of,
};

/// A registration, of which some digits change in place.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    body_at: usize,
    opaque_at: usize,
    crc_at: usize,
    counter_at: usize,
    queues_at: Vec<usize>,
}

impl Frame {
    pub(super) fn of(broker: &Broker, topics: &[String]) -> anyhow::Result<Self> {
        let mut registration = broker.registration(topics.iter().map(String::as_str));
        for (key, value) in &mut registration.fields {
            if *key == "bodyCrc32" {
                *value = "0".repeat(DIGITS);
            }
        }
        let mut bytes = Vec::new();
        Codec::new().encode(&mut bytes, &registration, VERSION_FIRST as i32);
        let body_at = bytes.len() - registration.body.len();
        let after = |key: &str, from: usize| {
            let at =
                memmem::find(&bytes[from..], key.as_bytes()).with_context(|| format!("a registration without {key}"));
            Ok::<_, anyhow::Error>(from + at? + key.len())
        };
        let opaque_at = after("\"opaque\":", 0)?;
        let crc_at = after("\"bodyCrc32\":\"", 0)?;
        let counter_at = after("\"counter\":", body_at)?;
        let all = |key: &'static str| memmem::find_iter(&bytes[body_at..], key).map(move |at| body_at + at + key.len());
        // In the order of the bytes, for the sake of the cache.
        let queues_at = all("QueueNums\":").collect();
        let mut frame = Self { body_at, opaque_at, crc_at, counter_at, queues_at, bytes };
        frame.set_crc();
        Ok(frame)
    }

    pub(super) fn set_opaque(&mut self, opaque: u32) {
        write_digits(&mut self.bytes[self.opaque_at..][..DIGITS], opaque);
    }

    /// Changes the data version and the queues of all topics.
    pub(super) fn set_version(&mut self, version: u32) {
        write_digits(&mut self.bytes[self.counter_at..][..DIGITS], version);
        let mut queues = [0; 4];
        write_digits(&mut queues, queues_of(version));
        for &at in &self.queues_at {
            self.bytes[at..][..queues.len()].copy_from_slice(&queues);
        }
        self.set_crc();
    }

    fn set_crc(&mut self) {
        // The checksum has no sign bit (`UtilAll.crc32`).
        let crc = crc32fast::hash(&self.bytes[self.body_at..]) & 0x7fff_ffff;
        write_digits(&mut self.bytes[self.crc_at..][..DIGITS], crc);
    }
}

/// Digits of opaques, versions and checksums.
const DIGITS: usize = 10;

#[cfg(test)]
mod tests {
    use server::{
        body::{BodyLimits, parse_register_body},
        limits::Limits,
        remoting::{Decoded, FrameDecoder, Request},
    };

    use super::*;
    use crate::cluster::topic_names;

    #[test]
    fn a_patched_frame_is_a_registration_of_its_version() {
        let broker = Broker { version: VERSION_FIRST.into(), queues: queues_of(VERSION_FIRST), ..Broker::new(7) };
        let mut frame = Frame::of(&broker, &topic_names(3)).unwrap();
        let version = VERSION_FIRST + 12_345;
        frame.set_version(version);
        frame.set_opaque(version);
        let limits = Limits::default();
        let decoded = FrameDecoder::new().decode(&frame.bytes, &limits).unwrap();
        let Decoded::Frame(cut) = decoded else { panic!("{decoded:?}") };
        assert_eq!(cut.consumed, frame.bytes.len());
        let request = Request::decode(&cut, &limits).unwrap();
        assert_eq!(request.opaque, version as i32);
        let crc: u32 = request.ext.get("bodyCrc32").unwrap().parse().unwrap();
        assert_eq!(crc, crc32fast::hash(cut.body.unwrap()) & 0x7fff_ffff);
        let body = parse_register_body(cut.body, 513, false, 0, &BodyLimits::default()).unwrap();
        assert_eq!(body.data_version.counter, Some(version.into()));
        let topics = body.topics.unwrap();
        let queues = i32::try_from(queues_of(version)).unwrap();
        assert_eq!(topics.iter().count(), 3);
        assert!(topics.iter().all(|(_, settings)| (settings.read_queues, settings.write_queues) == (queues, queues)));
    }
}
