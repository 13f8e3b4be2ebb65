//! The codec against recorded frames: cut anywhere they decode alike, and what the original served or refused is served
//! or refused.

use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;
use server::doors::{DoorError, Doors, ProxyHeader, Verdict as DoorVerdict};
use server::limits::Limits;
use server::remoting::{
    Decoded, Encoder, Frame, FrameDecoder, FrameError, HeaderError, Request, RequestHeader, ResponseCode,
    ResponseHeader, SerializeType,
};

/// One connection's doors, then its decoder, and what it has received and not consumed.
struct Connection {
    doors: Doors,
    decoder: Option<FrameDecoder>,
    buffer: Vec<u8>,
    consumed: usize,
    events: Vec<Event>,
}

/// What came out of a connection. Frames by their place in all bytes received, which is their content as well.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Proxy(ProxyHeader),
    Frame { start: usize, serialize_type: SerializeType, header: usize, body: Option<usize> },
    Refused(FrameError),
    Rejected(DoorError),
}

impl Connection {
    fn new() -> Self {
        Self { doors: any_doors(), decoder: None, buffer: Vec::new(), consumed: 0, events: Vec::new() }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !matches!(self.events.last(), Some(Event::Refused(_) | Event::Rejected(_))) {
            let Some((event, consumed)) = self.next() else { return };
            self.consumed += consumed;
            self.buffer.drain(..consumed);
            self.events.push(event);
        }
    }

    /// What stands at the start of the buffer and how long it is; `None` when it is not whole.
    fn next(&mut self) -> Option<(Event, usize)> {
        // The original has no limit of its own for headers.
        let limits = Limits { header_bytes_max: usize::MAX, ..Limits::default() };
        let Some(decoder) = &mut self.decoder else {
            return match self.doors.judge(&self.buffer, &limits) {
                Ok(DoorVerdict::Incomplete) => None,
                Ok(DoorVerdict::Proxy(header)) => Some((Event::Proxy(header), header.consumed)),
                Ok(DoorVerdict::Frames { has_proxy_header }) => {
                    let decoder = if has_proxy_header { FrameDecoder::new() } else { FrameDecoder::of_connection() };
                    self.decoder = Some(decoder);
                    self.next()
                }
                Err(error) => Some((Event::Rejected(error), 0)),
            };
        };
        match decoder.decode(&self.buffer, &limits) {
            Ok(Decoded::Frame(frame)) => {
                let Frame { serialize_type, header, body, consumed } = frame;
                assert_eq!(8 + header.len() + body.map_or(0, <[u8]>::len), consumed);
                let (header, body) = (header.len(), body.map(<[u8]>::len));
                Some((Event::Frame { start: self.consumed, serialize_type, header, body }, consumed))
            }
            Ok(Decoded::Incomplete { .. }) => None,
            Err(error) => Some((Event::Refused(error), 0)),
        }
    }

    fn events_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        let mut connection = Self::new();
        pieces.into_iter().for_each(|piece| connection.receive(piece));
        connection.events
    }
}

/// The steps of a recorded scenario.
fn steps(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/vectors/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().skip(1).map(|line| serde_json::from_str(line).expect("a step is JSON")).collect()
}

fn bytes(step: &Value, key: &str) -> Option<Vec<u8>> {
    let hex = step[key].as_str()?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    Some(hex.chunks(2).map(byte).collect())
}

/// What the odd scenarios send, and 40 short frames that are as they should be.
static RECORDED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let sent = |name: &str| steps(name).iter().filter_map(|step| bytes(step, "send_hex")).collect::<Vec<_>>();
    let mut inputs: Vec<_> = ODD.iter().flat_map(|name| sent(name)).collect();
    let good = GOOD.iter().flat_map(|name| sent(name)).filter(|frame| frame.len() <= 4_096);
    let before = inputs.len();
    inputs.extend(good.take(40));
    assert_eq!(inputs.len() - before, 40);
    inputs
});

const ODD: [&str; 4] = ["50-headers-json-odd", "51-headers-binary-odd", "52-frames-bad", "53-proxy-protocol"];
const GOOD: [&str; 5] =
    ["02-every-code-binary", "real-broker", "real-broker-binary", "real-broker-compressed", "real-client"];

#[test]
fn every_split_decodes_alike() {
    for input in RECORDED.iter() {
        let whole = Connection::events_of([&input[..]]);
        for cut in 1..input.len() {
            let (first, second) = input.split_at(cut);
            assert_eq!(Connection::events_of([first, second]), whole, "cut at {cut} of {input:02x?}");
        }
        assert_eq!(Connection::events_of(input.chunks(1)), whole, "byte by byte: {input:02x?}");
    }
}

#[test]
fn several_frames_in_one_read_decode_alike() {
    let stream = RECORDED[RECORDED.len() - 3..].concat();
    let whole = Connection::events_of([&stream[..]]);
    assert_eq!(whole.len(), 3);
    for cut in 1..stream.len() {
        let (first, second) = stream.split_at(cut);
        assert_eq!(Connection::events_of([first, second]), whole);
    }
}

#[test]
fn a_truncated_frame_is_incomplete() {
    let mut checked = 0;
    for input in RECORDED.iter() {
        let whole = Connection::events_of([&input[..]]);
        let Some(Event::Frame { .. }) = whole.last() else { continue };
        for length in 0..input.len() {
            let events = Connection::events_of([&input[..length]]);
            assert!(events.iter().all(|event| matches!(event, Event::Proxy(_))), "{events:?} of {length} bytes");
        }
        checked += 1;
    }
    assert!(checked > 150, "only {checked} inputs hold a frame");
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Served,
    Closed,
    Waiting,
}

/// The connections of a scenario, and the verdict on each of its steps.
fn verdict(connections: &mut HashMap<String, Connection>, step: &Value) -> (Verdict, Option<(i32, i32)>) {
    let input = bytes(step, "send_hex").expect("a request has bytes");
    let connection = connections.entry(step["conn"].to_string()).or_insert_with(Connection::new);
    let start = connection.consumed;
    connection.receive(&input);
    match connection.events.last() {
        Some(Event::Refused(_) | Event::Rejected(_)) => (Verdict::Closed, None),
        Some(&Event::Frame { start: frame_start, serialize_type, header, .. }) if frame_start >= start => {
            let header = &input[frame_start - start + 8..][..header];
            let frame = Frame { serialize_type, header, body: None, consumed: 0 };
            match Request::decode(&frame, &Limits::default()) {
                Ok(request) => (Verdict::Served, Some((request.code, request.opaque))),
                Err(_) => (Verdict::Closed, None),
            }
        }
        _ => (Verdict::Waiting, None),
    }
}

#[test]
fn serves_and_refuses_what_the_original_does() {
    for name in ODD {
        let steps = steps(name);
        let mut connections = HashMap::new();
        let mut checked = 0;
        for (step, next) in steps.iter().zip(steps.iter().skip(1).map(Some).chain([None])) {
            if step["send_hex"].is_null() {
                continue;
            }
            let (verdict, numbers) = verdict(&mut connections, step);
            let compare = step["compare"].as_str().unwrap_or_default();
            if compare.starts_with("differs") {
                continue;
            }
            let answer = bytes(step, "answer_hex");
            let expected = match next.map(|next| next["event"].as_str().unwrap_or_default()) {
                _ if answer.is_some() => Verdict::Served,
                Some("expect_close") => Verdict::Closed,
                Some("expect_nothing") => Verdict::Waiting,
                other => panic!("{name}: {step}: no answer, then {other:?}"),
            };
            assert_eq!(verdict, expected, "{name}: {step}");
            if let (Some(answer), Some((_, opaque))) = (answer, numbers)
                && compare == "exact"
            {
                assert_eq!(opaque, opaque_of(&answer), "{name}: {step}");
            }
            checked += 1;
        }
        assert!(checked >= 19, "{name}: only {checked} steps were compared");
    }
}

/// The opaque of a recorded answer, which repeats the request's.
fn opaque_of(answer: &[u8]) -> i32 {
    let Ok(Decoded::Frame(frame)) = FrameDecoder::new().decode(answer, &Limits::default()) else {
        panic!("the answer is a frame")
    };
    let header: Value = serde_json::from_slice(frame.header).expect("the answer has a JSON header");
    header["opaque"].as_i64().and_then(|opaque| i32::try_from(opaque).ok()).expect("an opaque")
}

#[test]
fn answers_are_written_as_the_original_writes_them() {
    let encoder = Encoder::new(SerializeType::Json, &Limits::default());
    let mut checked = 0;
    for step in ODD.iter().chain(&GOOD).flat_map(|name| steps(name)) {
        let Some(answer) = bytes(&step, "answer_hex") else { continue };
        let Ok(Decoded::Frame(frame)) = FrameDecoder::new().decode(&answer, &Limits::default()) else {
            panic!("the answer is a frame")
        };
        let fields: Value = serde_json::from_slice(frame.header).expect("the answer has a JSON header");
        let code = match fields["code"].as_i64() {
            Some(0) => ResponseCode::Success,
            Some(1) => ResponseCode::SystemError,
            Some(3) => ResponseCode::RequestCodeNotSupported,
            Some(17) => ResponseCode::TopicNotExist,
            Some(22) => ResponseCode::QueryNotFound,
            other => panic!("{other:?} is not a code of these scenarios"),
        };
        let ext: Option<Vec<_>> = fields["extFields"].as_object().map(|ext| {
            ext.iter().map(|(key, value)| (key.as_str(), value.as_str().expect("a value is text"))).collect()
        });
        let (opaque, remark) = (opaque_of(&answer), fields["remark"].as_str());
        let mut out = Vec::new();
        let mark = encoder.begin(&mut out, &ResponseHeader { code, opaque, remark, ext: ext.as_deref() });
        out.extend_from_slice(frame.body.unwrap_or_default());
        assert!(encoder.finish(&mut out, mark));
        assert_eq!(out, answer, "{step}");
        checked += 1;
    }
    assert!(checked > 150, "only {checked} answers");
}

#[test]
fn headers_of_real_peers_read_as_serde_json_reads_them() {
    let mut checked = 0;
    for step in GOOD.iter().flat_map(|name| steps(name)) {
        let Some(input) = bytes(&step, "send_hex") else { continue };
        let Ok(Decoded::Frame(frame)) = FrameDecoder::new().decode(&input, &Limits::default()) else {
            panic!("{step} is a frame")
        };
        let request = Request::decode(&frame, &Limits::default()).unwrap();
        if frame.serialize_type != SerializeType::Json {
            continue;
        }
        let header: Value = serde_json::from_slice(frame.header).unwrap();
        for (field, number) in
            [("code", request.code), ("flag", request.flag), ("opaque", request.opaque), ("version", request.version)]
        {
            assert_eq!(header[field], number, "{field} of {header}");
        }
        assert_eq!(request.language.map(|language| language.name()), header["language"].as_str());
        for (key, value) in header["extFields"].as_object().into_iter().flatten() {
            assert_eq!(request.ext.get(key), value.as_str(), "{key} of {header}");
        }
        checked += 1;
    }
    assert!(checked >= 25, "only {checked} JSON headers");
}

/// Keys and values with what JSON escapes, and with everything else.
fn any_fields() -> impl Strategy<Value = Vec<(String, String)>> {
    let text = prop_oneof!["[a-zA-Z0-9]{1,12}", "[\\x00-\\x7f]{0,12}", "\\PC{0,12}"];
    prop::collection::vec((text.clone(), text), 0..20)
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_alike(
        code in any::<i16>(), flag in any::<i32>(), opaque in any::<i32>(), fields in any_fields(),
        body in prop::collection::vec(any::<u8>(), 0..32),
    ) {
        let ext: Vec<_> = fields.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        for serialize_type in [SerializeType::Json, SerializeType::RocketMq] {
            let encoder = Encoder::new(serialize_type, &Limits::default());
            let mut out = Vec::new();
            let header = RequestHeader { code: code.into(), flag, opaque, ext: Some(&ext) };
            let mark = encoder.begin_request(&mut out, &header);
            out.extend_from_slice(&body);
            prop_assert!(encoder.finish(&mut out, mark));

            let decoded = FrameDecoder::new().decode(&out, &Limits::default());
            let Ok(Decoded::Frame(frame)) = decoded else { return Err(TestCaseError::fail("no frame")) };
            prop_assert_eq!(frame.consumed, out.len());
            prop_assert_eq!(frame.body.unwrap_or_default(), &body[..]);
            let request = Request::decode(&frame, &Limits::default()).unwrap();
            prop_assert_eq!((request.code, request.flag, request.opaque), (code.into(), flag, opaque));
            // What has no bytes is null in binary.
            let is_kept = |text: &str| serialize_type == SerializeType::Json || !text.is_empty();
            let expected: Vec<_> = ext
                .iter()
                .filter(|(key, _)| is_kept(key))
                .map(|&(key, value)| (key, is_kept(value).then_some(value)))
                .collect();
            prop_assert_eq!(request.ext.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 1..200), cut in any::<usize>()) {
        let whole = Connection::events_of([&bytes[..]]);
        let (first, second) = bytes.split_at(cut % bytes.len());
        prop_assert_eq!(Connection::events_of([first, second]), whole);
        for serialize_type in [SerializeType::Json, SerializeType::RocketMq] {
            let frame = Frame { serialize_type, header: &bytes, body: None, consumed: 0 };
            let _: Result<_, HeaderError> = Request::decode(&frame, &Limits::default());
        }
    }

    #[test]
    fn flipped_bits_never_panic(index in any::<prop::sample::Index>(), at in any::<usize>(), bit in 0..8_u32) {
        let mut input = index.get(&RECORDED).clone();
        let at = at % input.len();
        input[at] ^= 1_u8 << bit;
        let whole = Connection::events_of([&input[..]]);
        prop_assert_eq!(Connection::events_of(input.chunks(1)), whole);
        if let Some(header) = input.get(8..) {
            for serialize_type in [SerializeType::Json, SerializeType::RocketMq] {
                let frame = Frame { serialize_type, header, body: None, consumed: 0 };
                let _: Result<_, HeaderError> = Request::decode(&frame, &Limits::default());
            }
        }
    }
}

/// The doors for a peer that is trusted.
fn any_doors() -> Doors {
    let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
    Doors::new(loopback, &["127.0.0.0/8".parse().expect("a block")])
}
