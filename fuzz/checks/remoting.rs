//! What must hold for any bytes given to the remoting codec. The fuzz targets run it on what libFuzzer finds, and
//! `server/tests/fuzz_corpus.rs` on the corpus.

use server::doors::{DoorError, Doors, ProxyHeader, Verdict};
use server::limits::Limits;
use server::remoting::{
    Decoded, Encoder, Frame, FrameDecoder, FrameError, Request, RequestDecoder, RequestHeader, SerializeType,
};

/// The bytes of a connection: the same comes out however they are split, and no header of it makes the codec panic.
pub(crate) fn frame(data: &[u8]) {
    let limits = Limits { frame_bytes_max: 65_536, ..Limits::default() };
    let whole = decode_stream([data], &limits);
    // The first byte says where to cut, so that the fuzzer can choose.
    let cut = data.first().map_or(0, |&byte| usize::from(byte) * data.len() / 256);
    let (first, second) = data.split_at(cut);
    assert_eq!(decode_stream([first, second], &limits), whole, "cut at {cut}");
}

/// A JSON header: what is read can be written and read again.
pub(crate) fn json_header(data: &[u8]) {
    header(SerializeType::Json, data);
}

/// A binary header: what is read can be written and read again.
pub(crate) fn binary_header(data: &[u8]) {
    header(SerializeType::RocketMq, data);
}

#[derive(Debug, PartialEq)]
enum Event {
    Proxy(ProxyHeader),
    Frame { end: usize, header: usize, is_readable: bool },
    Refused(FrameError),
    Rejected(DoorError),
}

fn decode_stream<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Vec<Event> {
    let mut doors = any_doors();
    let mut decoder = None;
    let (mut buffer, mut consumed, mut events) = (Vec::new(), 0, Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let Some(decoder) = &mut decoder else {
                match doors.judge(&buffer[consumed..], limits) {
                    Ok(Verdict::Incomplete) => break,
                    Ok(Verdict::Proxy(header)) => {
                        consumed += header.consumed;
                        events.push(Event::Proxy(header));
                    }
                    Ok(Verdict::Frames { has_proxy_header: true }) => decoder = Some(FrameDecoder::new()),
                    Ok(Verdict::Frames { has_proxy_header: false }) => decoder = Some(FrameDecoder::of_connection()),
                    Err(error) => {
                        events.push(Event::Rejected(error));
                        return events;
                    }
                }
                continue;
            };
            match decoder.decode(&buffer[consumed..], limits) {
                Ok(Decoded::Frame(frame)) => {
                    consumed += frame.consumed;
                    let is_readable = Request::decode(&frame, limits).is_ok();
                    events.push(Event::Frame { end: consumed, header: frame.header.len(), is_readable });
                }
                Ok(Decoded::Incomplete { .. }) => break,
                Err(error) => {
                    events.push(Event::Refused(error));
                    return events;
                }
            }
        }
    }
    events
}

fn header(serialize_type: SerializeType, data: &[u8]) {
    let limits = Limits::default();
    let frame = Frame { serialize_type, header: data, body: None, consumed: 0 };
    let request = Request::decode(&frame, &limits);
    let mut with_memory = RequestDecoder::new();
    for _ in 0..2 {
        assert_eq!(with_memory.decode(&frame, &limits), request);
    }
    let Ok(request) = request else { return };
    let ext: Vec<(&str, &str)> = request.ext.iter().filter_map(|(key, _)| Some((key, request.ext.get(key)?))).collect();
    // A repaired text may have grown past what the length of a binary key can say.
    if ext.iter().any(|(key, _)| key.len() > 0x7fff) {
        return;
    }
    let mut out = Vec::new();
    let encoder = Encoder::new(serialize_type, &limits);
    let header = RequestHeader { code: request.code, flag: request.flag, opaque: request.opaque, ext: Some(&ext) };
    let mark = encoder.begin_request(&mut out, &header);
    // Escapes make text up to six times longer, so a header of the greatest length may not fit again.
    if !encoder.finish(&mut out, mark) {
        return;
    }
    let wide = Limits { frame_bytes_max: usize::MAX, ..limits };
    let Ok(Decoded::Frame(frame)) = FrameDecoder::new().decode(&out, &wide) else {
        panic!("what was written is a frame")
    };
    let again = Request::decode(&frame, &wide).expect("what was written has a header");
    assert_eq!((again.code, again.flag, again.opaque), (request.code, request.flag, request.opaque));
    for (key, value) in ext {
        assert_eq!(again.ext.get(key), Some(value));
    }
}

/// The doors for a peer that is trusted.
fn any_doors() -> Doors {
    let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
    Doors::new(loopback, &["127.0.0.0/8".parse().expect("a block")])
}
