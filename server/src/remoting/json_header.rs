//! The JSON header of requests.

use std::borrow::Cow;

use super::codes::Language;
use super::header::{ExtFields, HeaderError, Request};
use super::template::{OPEN_KEY, Spans};
use crate::json::{self, Kind, Plain, Reader};
use crate::limits::Limits;

/// Reads a whole header into `request`, which is fresh. Unknown keys are skipped, absent and null numbers are 0, the last
/// of equal keys counts. Of a header in the usual form it says where others like it differ.
pub(super) fn decode<'a>(
    header: &'a [u8],
    request: &mut Request<'a>,
    limits: &Limits,
) -> Result<Option<Spans>, HeaderError> {
    match json::utf8(header)? {
        Cow::Borrowed(text) => {
            let mut spans = Spans::default();
            if parse_plain(text, request, &mut spans, limits).is_some() {
                return Ok(Some(spans));
            }
            *request = Request::default();
            parse(text, request, limits)?;
        }
        // The text was repaired, so it cannot be borrowed from the frame. No client sends such a header.
        Cow::Owned(text) => {
            let mut borrowed = Request::default();
            parse(&text, &mut borrowed, limits)?;
            *request = Request { ext: borrowed.ext.into_owned(), ..borrowed };
        }
    }
    Ok(None)
}

/// What [`parse`] does, for headers in the usual form; `None` for all others.
fn parse_plain<'a>(text: &'a str, request: &mut Request<'a>, spans: &mut Spans, limits: &Limits) -> Option<()> {
    let mut plain = Plain::new(text);
    plain.object(|plain, key| {
        match key {
            "code" => request.code = plain.integer()?,
            "extFields" => parse_plain_ext(plain, &mut request.ext, spans, limits)?,
            "flag" => request.flag = plain.integer()?,
            "language" => request.language = plain.string_or_null()?.and_then(Language::from_name),
            "opaque" => (request.opaque, spans.opaque) = plain.spanned(Plain::integer)?,
            "version" => request.version = plain.integer()?,
            _ => plain.skip()?,
        }
        Some(())
    })?;
    plain.finish()
}

fn parse_plain_ext<'a>(
    plain: &mut Plain<'a>,
    ext: &mut ExtFields<'a>,
    spans: &mut Spans,
    limits: &Limits,
) -> Option<()> {
    ext.clear();
    spans.argument = 0..0;
    if plain.peek()? == b'n' {
        return plain.null();
    }
    plain.object(|plain, key| {
        let (value, span) = plain.spanned(Plain::string_or_null)?;
        if key == OPEN_KEY {
            spans.argument = span;
        }
        ext.push(Cow::Borrowed(key), value.map(Cow::Borrowed), limits).ok()
    })
}

fn parse<'a>(text: &'a str, request: &mut Request<'a>, limits: &Limits) -> Result<(), HeaderError> {
    let mut reader = Reader::new(text);
    reader.begin_object()?;
    while let Some(key) = reader.next_key()? {
        match &*key {
            "code" => request.code = reader.integer32()?.unwrap_or(0),
            "extFields" => parse_ext(&mut reader, &mut request.ext, limits)?,
            "flag" => request.flag = reader.integer32()?.unwrap_or(0),
            "language" => request.language = parse_language(&mut reader)?,
            "opaque" => request.opaque = reader.integer32()?.unwrap_or(0),
            "version" => request.version = reader.integer32()?.unwrap_or(0),
            _ => reader.skip_value()?,
        }
    }
    reader.finish()?;
    Ok(())
}

/// A name, of which unknown ones are nobody's fault, or a number, of which unknown ones are.
fn parse_language(reader: &mut Reader<'_>) -> Result<Option<Language>, HeaderError> {
    if reader.peek()? == Kind::String {
        return Ok(reader.text()?.and_then(|name| Language::from_name(&name)));
    }
    let Some(ordinal) = reader.integer32()? else { return Ok(None) };
    Language::from_wire(ordinal).map(Some).ok_or(HeaderError::UnknownLanguage(ordinal))
}

fn parse_ext<'a>(reader: &mut Reader<'a>, ext: &mut ExtFields<'a>, limits: &Limits) -> Result<(), HeaderError> {
    ext.clear();
    if reader.null()? {
        return Ok(());
    }
    reader.begin_object()?;
    while let Some(key) = reader.next_key()? {
        let value = reader.text()?;
        ext.push(key, value, limits)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(header: &[u8]) -> Result<Request<'_>, HeaderError> {
        let mut request = Request::default();
        decode(header, &mut request, &Limits::default()).map(|_| request)
    }

    fn plain(text: &str) -> Option<Request<'_>> {
        let mut request = Request::default();
        parse_plain(text, &mut request, &mut Spans::default(), &Limits::default()).map(|()| request)
    }

    fn lenient(text: &str) -> Result<Request<'_>, HeaderError> {
        let mut request = Request::default();
        parse(text, &mut request, &Limits::default()).map(|()| request)
    }

    #[test]
    fn the_headers_of_clients_go_the_quick_way() {
        for text in [
            r#"{"code":105,"extFields":{"topic":"HD"},"flag":0,"language":"JAVA","opaque":2147483647,"serializeTypeCurrentRPC":"JSON","version":513}"#,
            r#"{"code":105,"language":"GO","version":317,"opaque":-2147483648,"flag":0,"remark":"","extFields":{"topic":"HD"}}"#,
            "{\"code\":105,\"extFields\":{\"AccessKey\":\"\",\"topic\":\"HD\",\"x\":null},\"flag\":0,\"language\":\"CPP\",\"opaque\":0,\"remark\":\"\",\"version\":63}\n",
            "{\r\n\t\"code\": 105, \"extFields\" : { \"topic\":\"HD\" } , \"remark\":null }",
        ] {
            let request = plain(text).unwrap();
            assert_eq!(lenient(text).as_ref(), Ok(&request), "{text}");
            assert_eq!((request.code, request.ext.get("topic")), (105, Some("HD")));
            assert!(request.ext.is_borrowed());
        }
    }

    #[test]
    fn odd_forms_are_read() {
        for (text, code) in [
            ("{}", 0),
            (r#"{"code":null}"#, 0),
            (r#"{"code":"904"}"#, 904),
            (r#"{"code":904.0}"#, 904),
            (r#"{"code":+105}"#, 105),
            (r#"{"code":0105}"#, 105),
            (r#"{"code":true}"#, 1),
            (r#"{"code":""}"#, 0),
            (r#"{"code":{}}"#, 0),
            (r#"{"code":1,"code":105}"#, 105),
            (r#"{'code':105,}"#, 105),
            ("/* c */{\"code\":105,// d\n}/* e */\0", 105),
            (r#"{"\u0063ode":105}"#, 105),
            (r#"{"code":105,"language":"KLINGON"}"#, 105),
            (r#"{"code":105,"language":13,"d":{"e":[1,null,"x"]}}"#, 105),
        ] {
            assert_eq!(read(text.as_bytes()).map(|request| request.code), Ok(code), "{text}");
        }
    }

    #[test]
    fn broken_headers_are_refused() {
        for text in [
            "",
            "   ",
            "null",
            "[]",
            "105",
            "nojson",
            "\u{feff}{}",
            r#"{"code":105"#,
            r#"{"code":105}x"#,
            r#"{"code":105}}"#,
            r#"{"code":105}{"code":105}"#,
            r#"{"code":2147483648}"#,
            r#"{"code":-2147483649}"#,
            r#"{"code":12345678901}"#,
            r#"{"code":NaN}"#,
            r#"{"code":-}"#,
            r#"{"code":"x"}"#,
            r#"{"language":14}"#,
            r#"{"language":-1}"#,
            r#"{"extFields":"x"}"#,
            r#"{"extFields":[]}"#,
            r#"{"extFields":1}"#,
            r#"{"extFields":{"topic"#,
            r#"{"extFields":{"topic":"\q"}}"#,
        ] {
            assert_eq!(read(text.as_bytes()).map_err(|error| error.reason()), Err("bad_json"), "{text}");
        }
        assert!(read(b"{\"extFields\":{\"topic\":\"H\xff\"}}").is_err());
        assert!(read(b"{\"fl\xff\":1}").is_err());
    }

    #[test]
    fn values_of_other_types_are_their_text() {
        let text = r#"{"extFields":{"n":5,"f":1.5,"t":true,"o":{"a": 1},"l":[1],"z":null,"e":"\u0048\ud83d\ude00\n"}}"#;
        let request = read(text.as_bytes()).unwrap();
        let expected = [
            ("n", Some("5")),
            ("f", Some("1.5")),
            ("t", Some("true")),
            ("o", Some(r#"{"a": 1}"#)),
            ("l", Some("[1]")),
            ("z", None),
            ("e", Some("H\u{1f600}\n")),
        ];
        assert_eq!(request.ext.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_last_ext_fields_count() {
        let request = read(br#"{"extFields":{"a":"1","b":"2"},"extFields":{"a":"3"}}"#).unwrap();
        assert_eq!(request.ext.iter().collect::<Vec<_>>(), [("a", Some("3"))]);
        let request = read(br#"{"extFields":{"a":"1"},"extFields":null}"#).unwrap();
        assert_eq!(request.ext.get("a"), None);
    }

    #[test]
    fn overlong_utf8_is_replaced() {
        let request = read(b"{\"code\":105,\"extFields\":{\"topic\":\"H\xc1\x84\"}}").unwrap();
        assert_eq!((request.code, request.ext.get("topic")), (105, Some("H\u{fffd}\u{fffd}")));
    }

    #[test]
    fn depth_is_bounded_and_length_is_not() {
        let nested = |levels| [r#"{"d":"#, &"[".repeat(levels), &"]".repeat(levels), "}"].concat();
        assert!(read(nested(200).as_bytes()).is_ok());
        assert!(read(nested(10_000).as_bytes()).is_err());
        assert!(read("[".repeat(1_000_000).as_bytes()).is_err());
        let long = "x".repeat(1_000_000);
        let text = [r#"{"remark":""#, &long, r#"","extFields":{"topic":""#, &long, r#""}}"#].concat();
        assert_eq!(read(text.as_bytes()).unwrap().ext.get("topic"), Some(&*long));
    }

    #[test]
    fn ext_fields_are_counted() {
        let limits = Limits { ext_fields_max: 2, ..Limits::default() };
        let mut request = Request::default();
        let text = br#"{"extFields":{"a":"1","b":"2"}}"#;
        assert!(decode(text, &mut request, &limits).is_ok());
        let text = br#"{"extFields":{"a":"1","b":"2","a":"3"}}"#;
        assert_eq!(decode(text, &mut request, &limits).unwrap_err(), HeaderError::TooManyFields { max: 2 });
    }

    /// Pieces of headers, sound and not, so that most texts get some way.
    fn any_text() -> impl Strategy<Value = String> {
        let field = prop::sample::select(vec![
            r#""code":105"#,
            r#""code":"7""#,
            r#""code": -7 "#,
            r#""opaque":4294967296"#,
            r#""opaque":2147483647"#,
            r#""flag":null"#,
            r#""flag":1.0"#,
            r#""language":"GO""#,
            r#""language":9"#,
            r#""version":0513"#,
            r#""remark":"\n""#,
            r#""x":true"#,
            r#""extFields":null"#,
            r#""extFields":{}"#,
            r#""extFields":{"topic":"é","a":"b","a":null}"#,
            r#""extFields":{"topic":"a\u0041","a":1}"#,
            r#""extFields":{"topic":"a",}"#,
            "'x':1",
            "\n",
            "",
        ]);
        let end = prop::sample::select(vec!["}", "}", "}", " }\n", "", "}x", "}\0", "}}"]);
        (prop::collection::vec(field, 0..6), end).prop_map(|(fields, end)| format!("{{{}{end}", fields.join(",")))
    }

    proptest! {
        #[test]
        fn the_quick_way_leads_to_the_same_place(text in any_text()) {
            if let Some(request) = plain(&text) {
                prop_assert_eq!(lenient(&text), Ok(request));
            }
        }

        #[test]
        fn numbers_are_the_same_either_way(number in any::<i64>()) {
            for number in [number, i64::from(number as i32)] {
                let text = format!(r#"{{"opaque":{number}}}"#);
                if let Some(request) = plain(&text) {
                    prop_assert_eq!(i64::from(request.opaque), number);
                    prop_assert_eq!(lenient(&text), Ok(request));
                } else {
                    prop_assert!(i32::try_from(number).is_err());
                }
            }
        }
    }
}
