//! What must hold for any bytes given as a body. The fuzz target runs it on what libFuzzer finds, and
//! `server/tests/fuzz_corpus.rs` on the corpus.

use std::io::Write;

use flate2::{Compression, write::ZlibEncoder};
use server::body::{BodyLimits, parse_register_body};

const NOW: i64 = 1_795_971_484_217;

/// The body of a registration: it parses to the same every time, within the limits.
///
/// The first byte says how the rest is parsed: bits 0-1 the version, bit 2 the header's `compressed`, bit 3 whether the
/// rest is compressed first, so that the fuzzer reaches what lies in a stream.
pub(crate) fn register_body(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    let version = [36, 37, 412, 513][usize::from(mode & 3)];
    let body = if mode & 8 != 0 { zlib(rest) } else { rest.to_vec() };
    let limits = BodyLimits { inflate_bytes_max: 1 << 20, topics_max: 1_000, ..BodyLimits::default() };

    let parse = || parse_register_body(Some(&body), version, mode & 4 != 0, NOW, &limits);
    let parsed = parse();
    assert_eq!(parsed, parse());
    if let Ok(parsed) = parsed {
        assert!(parsed.topics.is_none_or(|topics| topics.len() <= 1_000));
    }
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("a Vec takes all");
    encoder.finish().expect("a Vec takes all")
}
