//! Java's `.properties` format: comments, three kinds of separators, continued lines, `\uXXXX`.

use std::borrow::Cow;

/// One property and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, unescaped.
    pub key: String,
    /// The value, unescaped. Blanks at its end belong to it.
    pub value: String,
    /// The line on which it begins, counted from 1.
    pub line: usize,
}

/// Text that is no properties file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertiesError {
    /// Not four hexadecimal digits behind `\u`.
    #[error("line {line}: \\u is not followed by four hexadecimal digits")]
    MalformedEscape {
        /// The line on which the property begins.
        line: usize,
    },
    /// One half of a surrogate pair without the other. Java would keep it; it is no character.
    #[error("line {line}: \\u{unit:04x} is half of a surrogate pair")]
    LoneSurrogate {
        /// The line on which the property begins.
        line: usize,
        /// The half.
        unit: u16,
    },
}

/// Reads all properties of `text` in their order, repeated keys included (the last one counts).
///
/// # Errors
///
/// The first malformed escape.
pub fn parse(text: &str) -> Result<Vec<Entry>, PropertiesError> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = text.split('\n').zip(1..);
    let mut entries = Vec::new();
    while let Some((first, line)) = lines.next() {
        let mut piece = first.trim_start_matches(BLANKS);
        if piece.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = Cow::Borrowed("");
        while let Some(head) = without_continuation(piece) {
            logical += head;
            piece = lines.next().map_or("", |(next, _)| next.trim_start_matches(BLANKS));
        }
        logical += piece;
        if !logical.is_empty() {
            entries.push(entry(&logical, line)?);
        }
    }
    Ok(entries)
}

/// Decodes a properties file: UTF-8, with or without a byte order mark; else ISO-8859-1, as Java reads it. The flag
/// says whether it was UTF-8.
pub fn decode_file(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text)), true),
        Err(_) => (Cow::Owned(decode_latin1(bytes)), false),
    }
}

/// Decodes ISO-8859-1, in which every byte is a character.
pub fn decode_latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Appends `key=value` and a line feed, escaped so that [`parse`], and Java in any character set, reads the same.
pub fn write_entry(out: &mut String, key: &str, value: &str) {
    for character in key.chars() {
        if matches!(character, ' ' | '=' | ':' | '#' | '!') {
            out.push('\\');
        }
        write_escaped(out, character);
    }
    out.push('=');
    if value.starts_with(' ') {
        out.push('\\');
    }
    value.chars().for_each(|character| write_escaped(out, character));
    out.push('\n');
}

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// A line goes on when it ends in an odd number of backslashes.
fn without_continuation(line: &str) -> Option<&str> {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    if backslashes % 2 == 1 { line.strip_suffix('\\') } else { None }
}

fn entry(logical: &str, line: usize) -> Result<Entry, PropertiesError> {
    let mut is_escaped = false;
    let key_end = logical.find(|character: char| {
        let ends = !is_escaped && (BLANKS.contains(&character) || matches!(character, '=' | ':'));
        is_escaped = character == '\\' && !is_escaped;
        ends
    });
    let (key, rest) = logical.split_at(key_end.unwrap_or(logical.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(BLANKS);
    Ok(Entry { key: unescape(key, line)?, value: unescape(value, line)?, line })
}

fn unescape(text: &str, line: usize) -> Result<String, PropertiesError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut characters = escape.chars();
        match characters.next() {
            Some('u') => {
                let (character, behind) = unicode(characters.as_str(), line)?;
                out.push(character);
                rest = behind;
                continue;
            }
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some(other) => out.push(other),
            None => {}
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    Ok(out)
}

/// The character whose digits `text` begins with, and what follows; a surrogate pair takes two escapes.
fn unicode(text: &str, line: usize) -> Result<(char, &str), PropertiesError> {
    let (first, rest) = hex_unit(text, line)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Ok((character, rest));
    }
    let lone = PropertiesError::LoneSurrogate { line, unit: first };
    let Some(second) = rest.strip_prefix("\\u") else { return Err(lone) };
    let (second, rest) = hex_unit(second, line)?;
    match char::decode_utf16([first, second]).next() {
        Some(Ok(character)) => Ok((character, rest)),
        _ => Err(lone),
    }
}

fn hex_unit(text: &str, line: usize) -> Result<(u16, &str), PropertiesError> {
    let malformed = PropertiesError::MalformedEscape { line };
    match text.split_at_checked(4) {
        Some((digits, rest)) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            let unit = u16::from_str_radix(digits, 16).map_err(|_| malformed)?;
            Ok((unit, rest))
        }
        _ => Err(malformed),
    }
}

fn write_escaped(out: &mut String, character: char) {
    match character {
        '\\' => out.push_str("\\\\"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\u{c}' => out.push_str("\\f"),
        ' '..='~' => out.push(character),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04X}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().map(|entry| (entry.key, entry.value)).collect()
    }

    fn one(text: &str) -> (String, String) {
        let mut pairs = pairs(text);
        assert_eq!(pairs.len(), 1, "{text:?} gives {pairs:?}");
        pairs.remove(0)
    }

    #[test]
    fn reads_what_java_reads() {
        let cases = [
            ("a=b", "a", "b"),
            ("a:b", "a", "b"),
            ("a b", "a", "b"),
            ("  a \t=\u{c} b ", "a", "b "),
            ("a = : b", "a", ": b"),
            ("a==b", "a", "=b"),
            ("a", "a", ""),
            ("a=", "a", ""),
            ("=b", "", "b"),
            ("a\\=b=c", "a=b", "c"),
            ("a\\ b c", "a b", "c"),
            ("a\\\\=b", "a\\", "b"),
            ("a=b\\", "a", "b"),
            ("a=\\t\\n\\r\\f\\x\\\"", "a", "\t\n\r\u{c}x\""),
            ("enableTopicLis\\u0074=\\u4e2d\\ud83d\\ude00!", "enableTopicList", "中😀!"),
            ("# c\n! c\n\n  enableTopic\\\n    List = false\r\n", "enableTopicList", "false"),
            ("a=1\\\n#2", "a", "1#2"),
            ("\\\na=1", "a", "1"),
            ("a=1\\\r\n  2\\\r3", "a", "123"),
        ];
        for (text, key, value) in cases {
            assert_eq!(one(text), (key.to_owned(), value.to_owned()), "{text:?}");
        }
        assert_eq!(pairs("a=1\\\n\nb"), [("a".into(), "1".into()), ("b".into(), String::new())]);
        assert_eq!(pairs("\\\n\n#c\n"), []);
        assert_eq!(pairs("# c \\\na=1"), [("a".into(), "1".into())], "comments do not go on");
    }

    #[test]
    fn counts_lines() {
        let lines: Vec<_> = parse("# c\r\n\ra=1\\\n  2\nb=3").unwrap().into_iter().map(|entry| entry.line).collect();
        assert_eq!(lines, [3, 5]);
    }

    #[test]
    fn refuses_malformed_escapes() {
        for text in ["a=1\nb=\\u12", "a=1\nb=\\u12g4", "a=1\n\\u+123=b", "a=1\nb=\\u00é"] {
            assert_eq!(parse(text), Err(PropertiesError::MalformedEscape { line: 2 }), "{text}");
        }
        for text in ["a=\\ud83d", "a=\\ud83dx", "a=\\ud83d\\u0041", "a=\\ude00"] {
            assert!(matches!(parse(text), Err(PropertiesError::LoneSurrogate { line: 1, .. })), "{text}");
        }
    }

    #[test]
    fn decodes_files_and_bodies() {
        assert_eq!(decode_file("\u{feff}a=é".as_bytes()), ("a=é".into(), true));
        assert_eq!(decode_file(b"a=\xe9"), ("a=é".into(), false));
        assert_eq!(decode_latin1("é".as_bytes()), "Ã©");
    }

    #[test]
    fn a_value_cannot_add_a_line() {
        let mut out = String::new();
        write_entry(&mut out, "k", "a\nkvConfigPath=/x\r\nb");
        assert_eq!(out, "k=a\\nkvConfigPath=/x\\r\\nb\n");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in proptest::collection::vec((any::<String>(), any::<String>()), 0..8)) {
            let mut out = String::new();
            entries.iter().for_each(|(key, value)| write_entry(&mut out, key, value));
            prop_assert!(out.is_ascii());
            prop_assert_eq!(out.lines().count(), entries.len());
            prop_assert_eq!(pairs(&out), entries);
        }

        #[test]
        fn odd_text_is_read_back(entries in proptest::collection::vec(("[ =:#!\\\\\t\r\n\u{c}ué中😀]{0,8}", "[ =:#!\\\\\t\r\nu0]{0,8}"), 0..8)) {
            let mut out = String::new();
            entries.iter().for_each(|(key, value)| write_entry(&mut out, key, value));
            prop_assert_eq!(pairs(&out), entries);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&decode_latin1(&bytes));
            let _ = parse(&decode_file(&bytes).0);
        }
    }
}
