//! When two answers are equal: the rules of `../vectors/README.md`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::frame::Frame;

/// How an answer is compared with the expected one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rule {
    /// All bytes.
    Exact,
    /// As values, without the named parts: `remark`, `opaque`, `style`, `body.x.y`.
    Canonical { ignore: Vec<String> },
    /// The recorded answer is not ours. The reason.
    Differs(String),
}

impl Rule {
    /// Reads the `compare` of a step.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("exact", "") => Ok(Self::Exact),
            ("canonical", "") => Ok(Self::canonical(&[])),
            ("ignore", parts) => Ok(Self::canonical(&parts.split(',').collect::<Vec<_>>())),
            ("differs", why) => Ok(Self::Differs(why.trim().to_string())),
            _ => Err(format!("unknown compare rule {text:?}")),
        }
    }

    pub(crate) fn canonical(ignore: &[&str]) -> Self {
        Self::Canonical { ignore: ignore.iter().map(|part| part.to_string()).collect() }
    }
}

/// Compares whole frames. The error says where they differ.
pub(crate) fn compare(expected: &[u8], got: &[u8], rule: &Rule) -> Result<(), String> {
    let ignore = match rule {
        Rule::Exact if expected == got => return Ok(()),
        Rule::Exact => {
            let places = match (Frame::parse(expected), Frame::parse(got)) {
                (Ok(expected), Ok(got)) => differences(&expected, &got, &[]),
                _ => Vec::new(),
            };
            return Err(if places.is_empty() { "equal values, other bytes".into() } else { places.join("; ") });
        }
        Rule::Canonical { ignore } => ignore.as_slice(),
        Rule::Differs(_) => &[],
    };
    let places = differences(&Frame::parse(expected)?, &Frame::parse(got)?, ignore);
    if places.is_empty() { Ok(()) } else { Err(places.join("; ")) }
}

/// Where two answers differ by the canonical rule; empty when they are equal.
pub(crate) fn differences(expected: &Frame, got: &Frame, ignore: &[String]) -> Vec<String> {
    let ignored = |part: &str| ignore.iter().any(|name| name == part);
    let mut places = Vec::new();
    if expected.binary != got.binary {
        places.push(format!("header type: expected binary={}, got binary={}", expected.binary, got.binary));
    }
    let headers = [&expected.header, &got.header].map(|header| {
        let fields = header.iter().filter(|(key, _)| !ignored(key));
        Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
    });
    value_differences("", &headers[0], &headers[1], &mut places);
    body_differences(expected.body.as_deref(), got.body.as_deref(), ignore, &mut places);
    places
}

/// A JSON body as a value: object keys sorted, lists sorted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Body {
    pub(crate) value: Value,
    /// Numeric keys without quotes occurred.
    pub(crate) bare_keys: bool,
}

impl Body {
    /// `None`: not JSON, even with bare numeric keys allowed.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (quoted, bare_keys) = quote_numeric_keys(bytes);
        let value = serde_json::from_slice(&quoted).ok()?;
        Some(Self { value: sorted(value), bare_keys })
    }
}

/// Puts quotes around numeric object keys, and says whether there were any to quote.
fn quote_numeric_keys(text: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut in_string = false;
    let mut bare_keys = false;
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if in_string && byte == b'\\' {
            out.extend(&text[at..text.len().min(at + 2)]);
            at += 2;
            continue;
        }
        in_string ^= byte == b'"';
        out.push(byte);
        at += 1;
        if in_string || !matches!(byte, b'{' | b',') {
            continue;
        }
        let number = text[at..].iter().take_while(|b| b.is_ascii_digit() || **b == b'-').count();
        // In a list the number is a value: no colon follows it.
        if number > 0 && text.get(at + number) == Some(&b':') {
            bare_keys = true;
            out.push(b'"');
            out.extend(&text[at..at + number]);
            out.push(b'"');
            at += number;
        }
    }
    (out, bare_keys)
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(fields.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_cached_key(Value::to_string);
            Value::Array(items)
        }
        plain => plain,
    }
}

fn body_differences(expected: Option<&[u8]>, got: Option<&[u8]>, ignore: &[String], places: &mut Vec<String>) {
    let (expected, got) = match (expected, got) {
        (None, None) => return,
        (Some(_), None) => return places.push("body: expected one, got none".into()),
        (None, Some(_)) => return places.push("body: expected none, got one".into()),
        (Some(expected), Some(got)) => (expected, got),
    };
    let paths: Vec<&str> = ignore.iter().filter_map(|part| part.strip_prefix("body.")).collect();
    match (Body::parse(expected), Body::parse(got)) {
        (Some(mut expected), Some(mut got)) => {
            for path in paths {
                remove(&mut expected.value, path);
                remove(&mut got.value, path);
            }
            value_differences("body", &expected.value, &got.value, places);
            if expected.bare_keys != got.bare_keys && !ignore.iter().any(|part| part == "style") {
                places.push(format!("style: expected bare keys={}, got {}", expected.bare_keys, got.bare_keys));
            }
        }
        _ => text_differences(&String::from_utf8_lossy(expected), &String::from_utf8_lossy(got), &paths, places),
    }
}

fn remove(value: &mut Value, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (value, rest) {
        (Value::Object(fields), None) => {
            fields.shift_remove(first);
        }
        (Value::Object(fields), Some(rest)) => {
            if let Some(inner) = fields.get_mut(first) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}

fn text_differences(expected: &str, got: &str, paths: &[&str], places: &mut Vec<String>) {
    let kept = |text: &str| -> Vec<String> {
        let ignored = |line: &str| line.split_once('=').is_some_and(|(key, _)| paths.contains(&key));
        text.split('\n').filter(|line| !ignored(line)).map(str::to_string).collect()
    };
    let (expected, got) = (kept(expected), kept(got));
    if expected == got {
        return;
    }
    let before = places.len();
    places.extend(expected.iter().filter(|line| !got.contains(line)).map(|line| format!("line missing: {line}")));
    places.extend(got.iter().filter(|line| !expected.contains(line)).map(|line| format!("line too many: {line}")));
    if places.len() == before {
        places.push("the same lines in another order".into());
    }
}

/// Lists the paths at which two sorted values differ.
fn value_differences(path: &str, expected: &Value, got: &Value, places: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                match right.get(key) {
                    Some(other) => value_differences(&format!("{path}.{key}"), value, other, places),
                    None => places.push(format!("{path}.{key}: expected {value}, got nothing")),
                }
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                places.push(format!("{path}.{key}: expected nothing, got {value}"));
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                value_differences(&format!("{path}[{index}]"), left, right, places);
            }
        }
        _ if expected == got => {}
        _ => places.push(format!("{path}: expected {expected}, got {got}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::support::frame::Request;

    fn answer(body: &str, remark: Option<&str>) -> Vec<u8> {
        let mut header = json!({"code": 0, "flag": 1, "opaque": 1});
        if let Some(remark) = remark {
            header["remark"] = remark.into();
        }
        let header = header.to_string();
        let mut frame = Vec::new();
        for length in [4 + header.len() + body.len(), header.len()] {
            frame.extend(u32::try_from(length).expect("short").to_be_bytes());
        }
        frame.extend(header.as_bytes());
        frame.extend(body.as_bytes());
        frame
    }

    fn equal(left: &str, right: &str, ignore: &[&str]) -> bool {
        compare(&answer(left, None), &answer(right, None), &Rule::canonical(ignore)).is_ok()
    }

    #[test]
    fn order_of_keys_and_lists_means_nothing() {
        assert!(equal(r#"{"a":[{"x":1},{"y":2}],"b":{}}"#, r#"{"b":{},"a":[{"y":2},{"x":1}]}"#, &[]));
        assert!(!equal(r#"{"a":[1,1]}"#, r#"{"a":[1]}"#, &[]));
        assert!(!equal(r#"{"a":1}"#, r#"{"a":"1"}"#, &[]));
    }

    #[test]
    fn bare_and_quoted_ids_are_told_apart() {
        let (bare, quoted) = (r#"{"m":{0:"a,1:b",-1:"c"}}"#, r#"{"m":{"-1":"c","0":"a,1:b"}}"#);
        assert!(!equal(bare, quoted, &[]));
        assert!(equal(bare, quoted, &["style"]));
        assert!(!equal(r#"{"m":["{0:"]}"#, r#"{"m":["{1:"]}"#, &[]));
        assert!(!Body::parse(br#"{"m":[1,2],"t":"{\"0:"}"#).expect("JSON").bare_keys);
    }

    #[test]
    fn absent_is_not_empty() {
        assert!(!equal("", "{}", &[]));
        let rule = Rule::canonical(&[]);
        assert!(compare(&answer("", None), &answer("", Some("")), &rule).is_err());
        assert!(compare(&answer("", None), &answer("", Some("x")), &Rule::canonical(&["remark"])).is_ok());
    }

    #[test]
    fn text_is_compared_line_by_line() {
        assert!(!equal("a=1\nb=2\n", "b=2\na=1\n", &[]));
        assert!(equal("a=1\nb=2\n", "a=1\nb=3\n", &["body.b"]));
        assert!(equal(r#"{"x":{"y":1},"z":2}"#, r#"{"x":{"y":9},"z":2}"#, &["body.x.y"]));
    }

    #[test]
    fn both_header_types_are_read() {
        let mut request = Request { code: 105, version: 513, opaque: 7, ..Request::default() };
        request.fields = vec![("topic".into(), "T".into())];
        let json = Frame::parse(&request.encode()).expect("JSON");
        request.binary = true;
        let binary = Frame::parse(&request.encode()).expect("binary");
        for key in ["code", "version", "opaque", "extFields"] {
            assert_eq!(json.header.get(key), binary.header.get(key), "{key}");
        }
        assert_eq!(differences(&json, &binary, &["serializeTypeCurrentRPC".into()]).len(), 1);
    }
}
