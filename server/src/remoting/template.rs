//! The header of a connection's last request as a template for the next one.
//!
//! A client library writes all its route queries alike: they differ in `opaque` and in one argument, the topic. A header
//! that repeats the text between these two says the same as the last one did, so comparing it replaces parsing it.

use std::{borrow::Cow, ops::Range, str};

use super::header::{HeaderError, Request};
use crate::{
    json::{find_quote_or_backslash, plain_integer},
    limits::Limits,
};

/// A header with two places left open.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// The text before, between and after the open places.
    literals: [Box<[u8]>; 3],
    is_opaque_first: bool,
    /// What the header says but for the open places.
    request: Request<'static>,
}

/// Where a header says what changes from one request to the next; empty where it does not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans {
    /// The value of `opaque`.
    pub(super) opaque: Range<usize>,
    /// The value of the argument [`OPEN_KEY`], with its quotes.
    pub(super) argument: Range<usize>,
}

/// What stands in the open places of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit<'h> {
    opaque: i32,
    argument: &'h str,
}

/// The argument whose value may differ.
pub(super) const OPEN_KEY: &str = "topic";

/// Longer headers are no route queries of a client: their texts are not kept.
const HEADER_BYTES_MAX: usize = 1_024;

impl Template {
    /// The template of a header that was read as `request`; `None` when it has not both places, or one of them twice.
    pub(super) fn new(header: &[u8], request: &Request<'_>, spans: &Spans) -> Option<Self> {
        let once = request.ext.iter().filter(|&(key, _)| key == OPEN_KEY).count() == 1;
        if header.len() > HEADER_BYTES_MAX || !once || request.ext.get(OPEN_KEY).is_none() || spans.opaque.is_empty() {
            return None;
        }
        // The quotes are no part of the open place.
        let opaque = spans.opaque.clone();
        let argument = spans.argument.start + 1..spans.argument.end.checked_sub(1)?;
        let is_opaque_first = opaque.start < argument.start;
        let (first, second) = if is_opaque_first { (opaque, argument) } else { (argument, opaque) };
        let literals = [header.get(..first.start)?, header.get(first.end..second.start)?, header.get(second.end..)?];
        let request = Request { ext: request.ext.clone().into_owned(), ..*request };
        Some(Self { literals: literals.map(Box::from), is_opaque_first, request })
    }

    /// What stands in the open places of a header; `None` when the header has another form, or a rare one.
    pub(super) fn fit<'h>(&self, header: &'h [u8]) -> Option<Fit<'h>> {
        let [before, between, after] = &self.literals;
        let mut rest = header.strip_prefix(&**before)?;
        let (opaque, argument);
        if self.is_opaque_first {
            opaque = take_integer(&mut rest)?;
            rest = rest.strip_prefix(&**between)?;
            argument = take_string(&mut rest)?;
        } else {
            argument = take_string(&mut rest)?;
            rest = rest.strip_prefix(&**between)?;
            opaque = take_integer(&mut rest)?;
        }
        (rest == &**after).then_some(Fit { opaque, argument })
    }

    /// Fills a fresh request with what the template and the open places say.
    pub(super) fn fill<'a>(
        &'a self,
        fit: &Fit<'a>,
        request: &mut Request<'a>,
        limits: &Limits,
    ) -> Result<(), HeaderError> {
        let Request { code, language, version, flag, ext, opaque: _ } = &self.request;
        (request.code, request.language, request.version, request.flag) = (*code, *language, *version, *flag);
        request.opaque = fit.opaque;
        for (key, value) in ext.iter() {
            let value = if key == OPEN_KEY { Some(fit.argument) } else { value };
            request.ext.push(Cow::Borrowed(key), value.map(Cow::Borrowed), limits)?;
        }
        Ok(())
    }
}

/// Cuts off an integer that is written as every client writes it.
fn take_integer(rest: &mut &[u8]) -> Option<i32> {
    let (number, length) = plain_integer(rest)?;
    *rest = rest.get(length..)?;
    Some(number)
}

/// Cuts off a string without escapes, up to its closing quote.
fn take_string<'h>(rest: &mut &'h [u8]) -> Option<&'h str> {
    let end = find_quote_or_backslash(b'"', rest)?;
    let (text, tail) = rest.split_at_checked(end)?;
    *rest = tail;
    // A backslash is not what follows in the template.
    str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::remoting::{Frame, RequestDecoder, SerializeType};

    fn frame(header: &str) -> Frame<'_> {
        let header = header.as_bytes();
        Frame { serialize_type: SerializeType::Json, header, body: None, consumed: 0 }
    }

    fn template(header: &str) -> Option<Template> {
        let mut request = Request::default();
        let spans = super::super::json_header::decode(header.as_bytes(), &mut request, &Limits::default());
        Template::new(header.as_bytes(), &request, &spans.unwrap()?)
    }

    #[test]
    fn the_next_query_of_a_client_fits() {
        for (first, next, other) in [
            (
                r#"{"code":105,"extFields":{"topic":"HD"},"flag":0,"language":"JAVA","opaque":9,"serializeTypeCurrentRPC":"JSON","version":513}"#,
                r#"{"code":105,"extFields":{"topic":"Topic-2"},"flag":0,"language":"JAVA","opaque":10,"serializeTypeCurrentRPC":"JSON","version":513}"#,
                r#"{"code":105,"extFields":{"topic":"Topic-2"},"flag":0,"language":"JAVA","opaque":10,"serializeTypeCurrentRPC":"JSON","version":0}"#,
            ),
            (
                r#"{"code":105,"language":"GO","version":317,"opaque":-1,"flag":0,"remark":"","extFields":{"a":null,"topic":"HD"}}"#,
                r#"{"code":105,"language":"GO","version":317,"opaque":2147483647,"flag":0,"remark":"","extFields":{"a":null,"topic":""}}"#,
                r#"{"code":105,"language":"GO","version":317,"opaque":2147483647,"flag":0,"remark":"","extFields":{"a":"0","topic":""}}"#,
            ),
        ] {
            let template = template(first).unwrap();
            let fit = template.fit(next.as_bytes()).unwrap();
            let mut request = Request::default();
            template.fill(&fit, &mut request, &Limits::default()).unwrap();
            assert_eq!(Request::decode(&frame(next), &Limits::default()), Ok(request));
            assert_eq!(template.fit(other.as_bytes()), None);
        }
    }

    #[test]
    fn what_a_client_would_not_send_does_not_fit() {
        let text = |opaque: &str, topic: &str| {
            format!(r#"{{"code":105,"extFields":{{"topic":"{topic}"}},"opaque":{opaque}}}"#)
        };
        let template = template(&text("1", "T")).unwrap();
        assert!(template.fit(text("-2147483648", "é").as_bytes()).is_some());
        for odd in [
            text("2147483648", "T"),
            text("", "T"),
            text("-", "T"),
            text("1.0", "T"),
            text("null", "T"),
            text("1", r"\u0041"),
            text("1", r#"T","topic":"U"#),
            text("1", "T") + " ",
        ] {
            assert_eq!(template.fit(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn headers_without_both_places_make_no_template() {
        for text in [
            r#"{"code":105,"opaque":1}"#,
            r#"{"code":105,"extFields":{"topic":"T"}}"#,
            r#"{"code":105,"extFields":{"topic":null},"opaque":1}"#,
            r#"{"code":105,"extFields":{"topic":"T"},"extFields":{"a":"b"},"opaque":1}"#,
            r#"{"code":105,"extFields":{"topic":"T","topic":"U"},"opaque":1}"#,
            r#"{"code":105,"extFields":{"topic":"T"},"opaque":"1"}"#,
        ] {
            assert!(template(text).is_none(), "{text}");
        }
    }

    /// Headers of which many fit the one before, and some nearly do.
    fn any_header() -> impl Strategy<Value = String> {
        let topic = prop_oneof![
            4 => "[A-Za-z%_|0-9-]{0,40}",
            1 => prop::sample::select(vec!["é", "\u{7f}", r"a\u0041", r#"T","topic":"U"#, r#"T"},"opaque":7,"x":{"a":"b"#])
                .prop_map(str::to_owned),
        ];
        let opaque = prop_oneof![
            4 => any::<i32>().prop_map(|number| number.to_string()),
            1 => prop::sample::select(vec!["007", "-0", "null", " 5", "5 ", "12345678901", "1e3", "\"4\""]).prop_map(str::to_owned),
        ];
        let form = prop::sample::select(vec![
            r#"{"code":105,"extFields":{"topic":"TOPIC"},"flag":0,"language":"JAVA","opaque":OPAQUE,"version":513}"#,
            r#"{"code":105,"language":"GO","opaque":OPAQUE,"flag":0,"extFields":{"a":"","topic":"TOPIC","z":null}}"#,
            r#"{"code":904,"opaque":OPAQUE,"opaque":3,"extFields":{"topic":"TOPIC"},"extFields":{"topic":"TOPIC"}}"#,
            r#"{ "opaque": OPAQUE, "remark":"TOPIC", "extFields":{"topic": "TOPIC"} }"#,
        ]);
        (form, topic, opaque).prop_map(|(form, topic, opaque)| form.replace("TOPIC", &topic).replace("OPAQUE", &opaque))
    }

    proptest! {
        #[test]
        fn memory_makes_no_difference(headers in prop::collection::vec(any_header(), 1..12)) {
            let mut decoder = RequestDecoder::new();
            for header in &headers {
                let frame = frame(header);
                prop_assert_eq!(decoder.decode(&frame, &Limits::default()), Request::decode(&frame, &Limits::default()));
            }
        }
    }
}
