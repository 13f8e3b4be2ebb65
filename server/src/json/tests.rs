use proptest::prelude::*;

use super::*;

fn integer(text: &str) -> Result<Option<i64>, JsonProblem> {
    let mut reader = Reader::new(text);
    let value = reader.integer().map_err(|error| error.problem)?;
    reader.finish().map_err(|error| error.problem)?;
    Ok(value)
}

fn string(text: &str) -> Result<Cow<'_, str>, JsonError> {
    let mut reader = Reader::new(text);
    let value = reader.text()?;
    reader.finish()?;
    Ok(value.expect("no null in these tests"))
}

fn skip(text: &str) -> Result<(), JsonError> {
    let mut reader = Reader::new(text);
    reader.skip_value()?;
    reader.finish()
}

#[test]
fn integers_in_all_spellings() {
    for text in ["105", "+105", "0105", "105.0", "105.99", "\"105\"", "'+105'", "105e0", "1.05E+2", "\"105.5\""] {
        assert_eq!(integer(text), Ok(Some(105)), "{text}");
    }
    for text in ["0", "-0", "false", "\"\"", "{}", "{ }", "0.9", "-0.9", "5e-1"] {
        assert_eq!(integer(text), Ok(Some(0)), "{text}");
    }
    assert_eq!(integer("true"), Ok(Some(1)));
    assert_eq!(integer("null"), Ok(None));
    assert_eq!(integer("-9223372036854775808"), Ok(Some(i64::MIN)));
    assert_eq!(integer("9223372036854775807"), Ok(Some(i64::MAX)));
    for text in ["9223372036854775808", "-9223372036854775809", "1e19", "-1e300", "1e999"] {
        assert_eq!(integer(text), Err(JsonProblem::NumberRange(64)), "{text}");
    }
    for text in
        ["\"x\"", "[]", "{\"a\":1}", "-", "1-", "1e", "e1", "0x69", "NaN", "1 2", "", " ", "nul", "nulls", "tru"]
    {
        assert!(integer(text).is_err(), "{text}");
    }
}

#[test]
fn integers_of_32_bits() {
    assert_eq!(Reader::new("-2147483648").integer32(), Ok(Some(i32::MIN)));
    assert_eq!(Reader::new("null").integer32(), Ok(None));
    let error = Reader::new(" 2147483648").integer32().unwrap_err();
    assert_eq!(error, JsonError { offset: 11, problem: JsonProblem::NumberRange(32) });
    assert_eq!(error.to_string(), "number does not fit 32 bits at byte 11");
}

#[test]
fn booleans() {
    for text in ["true", "\"true\"", "1", "'1'", "-7"] {
        assert_eq!(Reader::new(text).boolean(), Ok(Some(true)), "{text}");
    }
    for text in ["false", "\"false\"", "0", "\"\""] {
        assert_eq!(Reader::new(text).boolean(), Ok(Some(false)), "{text}");
    }
    assert_eq!(Reader::new("null").boolean(), Ok(None));
    for text in ["\"x\"", "{}", "[]", "trueish", ""] {
        assert!(Reader::new(text).boolean().is_err(), "{text}");
    }
}

#[test]
fn strings_are_borrowed_unless_escaped() {
    for (text, expected) in [
        ("\"\"", ""),
        ("\"abc\"", "abc"),
        ("'it\"s'", "it\"s"),
        ("\"a longer one, of more than eight bytes: é😀\"", "a longer one, of more than eight bytes: é😀"),
        ("\"raw\ttab\u{1}\"", "raw\ttab\u{1}"),
    ] {
        assert!(matches!(string(text), Ok(Cow::Borrowed(value)) if value == expected), "{text}");
    }
    assert_eq!(string(r#""\"\\\/\b\f\n\r\t\'\u0041\u00e9\ud83d\ude00é""#).unwrap(), "\"\\/\u{8}\u{c}\n\r\t'Aé😀é");
    assert_eq!(string(r#""\ud800""#).unwrap(), "\u{fffd}");
    assert_eq!(string(r#""\ud800\u0041\udc00x""#).unwrap(), "\u{fffd}A\u{fffd}x");
    assert_eq!(string(r#""q\"😀\ud83d\ude00""#).unwrap(), "q\"😀😀");
    for text in [r#""\q""#, r#""\u12""#, r#""\u12g4""#, r#""\u+123""#, r#""\"#] {
        assert!(string(text).is_err(), "{text}");
    }
    assert_eq!(string("\"abc'").unwrap_err(), JsonError { offset: 5, problem: JsonProblem::Ended("the string's end") });
}

#[test]
fn every_position_of_the_quote_is_found() {
    for length in 0..40 {
        for quote in ['"', '\''] {
            let body: String = ('a'..='z').cycle().take(length).collect();
            let text = format!("{quote}{body}{quote}");
            assert_eq!(string(&text).unwrap(), body);
            let escaped = format!("{quote}{body}\\n{body}{quote}   ");
            assert_eq!(string(&escaped).unwrap(), format!("{body}\n{body}"));
        }
    }
}

#[test]
fn other_values_as_text() {
    for (text, expected) in [("5", "5"), ("-1.50", "-1.50"), ("true", "true"), (" [1, {\"a\":2}] ", "[1, {\"a\":2}]")] {
        assert_eq!(string(text).unwrap(), expected);
    }
    assert_eq!(Reader::new("null").text(), Ok(None));
}

#[test]
fn objects_with_all_kinds_of_keys() {
    let text = "{\"a\":1, 'b' : 2 ,/* c */ 0:3,-5 : 4, // line\n\"\":5,,}\0 \0/* end */";
    let mut reader = Reader::new(text);
    let mut seen = Vec::new();
    reader.begin_object().unwrap();
    while let Some(key) = reader.next_key().unwrap() {
        seen.push((key.into_owned(), reader.integer().unwrap().unwrap()));
    }
    reader.finish().unwrap();
    let expected = [("a", 1), ("b", 2), ("0", 3), ("-5", 4), ("", 5)];
    assert_eq!(seen, expected.map(|(key, value)| (key.to_owned(), value)));
}

#[test]
fn structure_is_checked() {
    for text in ["{}", "[]", "[1,]", "[1,,]", "[[],{}]", "{\"a\":[1,null,{\"b\":.5}]}".replace(".5", "0.5").as_str()] {
        assert_eq!(skip(text), Ok(()), "{text}");
    }
    for text in [
        "",
        " ",
        "{",
        "[",
        "{bad",
        "{bad:1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{,}",
        "[,1]",
        "[1 2]",
        "[}",
        "{]",
        "{\"a\":1]",
        "[1}",
        "{}x",
        "{}}",
        "{}{}",
        "\u{feff}{}",
        "/",
        "/*",
        "/* *",
        "{} /* ",
        "nojson",
        "[1.2.3]",
        "\0{}",
    ] {
        assert!(skip(text).is_err(), "{text}");
    }
    assert_eq!(skip("{\"a\":1 \"b\":2}").unwrap_err().to_string(), "expected ',' or '}' at byte 7");
    assert_eq!(skip("{\"a\":").unwrap_err().to_string(), "expected a value, found the end at byte 5");
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(skip(&nested(usize::from(DEPTH_MAX))), Ok(()));
    let error = skip(&nested(usize::from(DEPTH_MAX) + 1)).unwrap_err();
    assert_eq!(error, JsonError { offset: usize::from(DEPTH_MAX), problem: JsonProblem::TooDeep });
    let wide = format!("[{}]", "[],".repeat(10_000));
    assert_eq!(skip(&wide), Ok(()), "closed levels do not count");
    assert!(skip(&"{\"a\":".repeat(10_000)).is_err());
}

#[test]
fn raw_values() {
    let mut reader = Reader::new(" {\"a\" : [ 1,'x' ] } ");
    assert_eq!(reader.raw_value(), Ok("{\"a\" : [ 1,'x' ] }"));
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn utf8_policy() {
    assert!(matches!(utf8("é😀".as_bytes()), Ok(Cow::Borrowed("é😀"))));
    // Overlong forms of two, three and four bytes, and a surrogate.
    for bytes in [&b"\xc1\x84"[..], b"\xe0\x81\x84", b"\xf0\x80\x81\x84", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"] {
        let text = utf8(bytes).unwrap();
        assert_eq!(text, "\u{fffd}".repeat(bytes.len()));
    }
    for (bytes, offset) in [
        (&b"a\xff"[..], 1),
        (b"\xfe", 0),
        (b"a\x80", 1),
        (b"\xc3", 0),
        (b"\xc3\xa9\xa9", 2),
        (b"\xe2\x82", 0),
        (b"\xe2\x82x", 0),
        (b"\xc1\x84\xff", 2),
    ] {
        assert_eq!(utf8(bytes), Err(JsonError { offset, problem: JsonProblem::Utf8 }), "{bytes:?}");
    }
}

/// Plain JSON in compact and in pretty form.
fn plain_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// What the reader reads, as a value.
fn read(reader: &mut Reader<'_>) -> Result<serde_json::Value, JsonError> {
    Ok(match reader.peek()? {
        Kind::Object => {
            let mut map = serde_json::Map::new();
            reader.begin_object()?;
            while let Some(key) = reader.next_key()? {
                map.insert(key.into_owned(), read(reader)?);
            }
            map.into()
        }
        Kind::Array => {
            let mut list = Vec::new();
            reader.begin_array()?;
            while reader.next_element()? {
                list.push(read(reader)?);
            }
            list.into()
        }
        Kind::String => reader.text()?.expect("a string").into_owned().into(),
        Kind::Number => reader.integer()?.into(),
        Kind::Bool => reader.boolean()?.into(),
        Kind::Null => {
            assert!(reader.null()?);
            serde_json::Value::Null
        }
    })
}

proptest! {
    #[test]
    fn reads_plain_json_as_serde_json_does(value in plain_json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let mut reader = Reader::new(&text);
            prop_assert_eq!(read(&mut reader), Ok(value.clone()));
            prop_assert_eq!(reader.finish(), Ok(()));
            prop_assert_eq!(Reader::new(&text).raw_value(), Ok(&*text));
        }
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), jsonish in "[{}\\[\\]\"':,0-9a-u\\\\/* \\n-]{0,40}") {
        for text in [utf8(&bytes), utf8(jsonish.as_bytes())].into_iter().flatten() {
            let _ = skip(&text);
            let _ = read(&mut Reader::new(&text));
        }
    }
}

#[test]
fn files_may_have_a_byte_order_mark_and_words_as_keys() {
    let keys = |mut reader: Reader<'_>| -> Option<Vec<String>> {
        let mut keys = Vec::new();
        reader.begin_object().ok()?;
        while let Some(key) = reader.next_key().ok()? {
            keys.push(key.into_owned());
            reader.skip_value().ok()?;
        }
        reader.finish().ok().map(|()| keys)
    };
    for (text, expected) in [
        ("\u{feff}{\"a\":1}", &["a"][..]),
        (" \n\u{feff} {a:1,_b : {c:[]},$2:2,\u{4e2d}:3,}", &["a", "_b", "$2", "\u{4e2d}"]),
    ] {
        assert_eq!(keys(Reader::lenient(text)).unwrap(), expected, "{text}");
        assert_eq!(keys(Reader::new(text)), None, "{text}");
    }
    for text in ["\u{feff}\u{feff}{}", "{a-b:1}", "{a:b}", "{%:1}", "{a b:1}", "{\u{feff}\"a\":1 "] {
        assert_eq!(keys(Reader::lenient(text)), None, "{text}");
    }
}
