//! Requests that lie ready: to send one, its bytes are copied and the digits of its opaque put in.

use memchr::memmem;

use crate::client::{Codec, Query, write_digits};

/// Opaques of a load have ten digits, so that a frame keeps its length. They repeat after [`OPAQUES`] requests.
const OPAQUE_FIRST: u32 = 1_000_000_000;
/// How many opaques there are.
pub(super) const OPAQUES: u64 = 1_000_000_000;
pub(super) const OPAQUE_DIGITS: usize = 10;
pub(super) const OPAQUE_KEY: &[u8] = b"\"opaque\":";

/// The place of a request among all that have the same opaque.
pub(super) fn place_of(opaque: i32) -> Option<u64> {
    u32::try_from(opaque).ok()?.checked_sub(OPAQUE_FIRST).map(u64::from).filter(|&place| place < OPAQUES)
}

/// The requests of a load.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    /// Counted from the start.
    opaque_at: usize,
}

impl Frames {
    /// Prepares the requests.
    pub(crate) fn new<'q>(queries: impl IntoIterator<Item = &'q Query>) -> Self {
        let codec = Codec::new();
        let mut frames = Self::default();
        for query in queries {
            let start = frames.bytes.len();
            codec.encode(&mut frames.bytes, query, OPAQUE_FIRST as i32);
            let frame = &frames.bytes[start..];
            // Quotes inside of strings are escaped, so the key is where it is found.
            let key = memmem::find(frame, OPAQUE_KEY).expect("a request has an opaque");
            frames.spans.push(Span { start, end: frames.bytes.len(), opaque_at: key + OPAQUE_KEY.len() });
        }
        frames
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Appends the request of this question; `number` counts the requests of the load.
    pub(super) fn append(&self, out: &mut Vec<u8>, question: u32, number: u64) {
        let Span { start, end, opaque_at } = self.spans[question as usize];
        let at = out.len() + opaque_at;
        out.extend_from_slice(&self.bytes[start..end]);
        write_digits(&mut out[at..][..OPAQUE_DIGITS], OPAQUE_FIRST + (number % OPAQUES) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_request_is_the_encoded_one() {
        let queries = [Query::route("a"), Query::route("\"opaque\":7")];
        let frames = Frames::new(&queries);
        for (number, place) in [(0, 0), (123, 123), (OPAQUES + 5, 5)] {
            for (question, query) in (0..).zip(&queries) {
                let (mut prepared, mut encoded) = (b"before".to_vec(), b"before".to_vec());
                frames.append(&mut prepared, question, number);
                let opaque = OPAQUE_FIRST as i32 + place;
                Codec::new().encode(&mut encoded, query, opaque);
                assert_eq!(prepared, encoded);
                assert_eq!(place_of(opaque), Some(place as u64));
            }
        }
        assert!(
            [-1, 0, OPAQUE_FIRST as i32 - 1, 2_000_000_000, i32::MAX].iter().all(|&opaque| place_of(opaque).is_none())
        );
    }
}
