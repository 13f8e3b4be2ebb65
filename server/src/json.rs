//! A pull parser for the JSON that RocketMQ peers send, which is more than JSON.
//!
//! Beyond RFC 8259 it reads what the original's parser reads: comments, single quotes, trailing commas, bare numeric
//! keys (`{0:"a"}`, which official brokers send), numbers as strings, `904.0`, `+105`, `0105`, raw control characters
//! in strings, zero bytes after the end. Bare words as keys and byte order marks are read from files alone.
//!
//! The caller asks for what it expects and gets slices of the input back; nothing is allocated but strings with escapes.
//! A key that occurs twice is reported twice: the last one counts, which a caller gets by plain assignment.
//!
//! ```
//! use server::json::Reader;
//!
//! let mut reader = Reader::new(r#"{"code":"105",'extFields':{"topic":"t"},/* new */"x":[1,{}],}"#);
//! let mut code = 0;
//! reader.begin_object()?;
//! while let Some(key) = reader.next_key()? {
//!     match &*key {
//!         "code" => code = reader.integer()?.unwrap_or(0),
//!         _ => reader.skip_value()?,
//!     }
//! }
//! reader.finish()?;
//! assert_eq!(code, 105);
//! # Ok::<(), server::json::JsonError>(())
//! ```

mod plain;

use std::borrow::Cow;

use memchr::memchr2;
use thiserror::Error;

pub(crate) use plain::{Plain, integer as plain_integer};

/// How deep objects and arrays may be nested. Unit: levels. Bounds the stack, as skipping a value recurses.
///
/// Peers nest six levels; the original answers a header with 200.
pub const DEPTH_MAX: u16 = 512;

/// What is wrong with a JSON text, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{problem} at byte {offset}")]
pub struct JsonError {
    /// Offset in the text, in bytes. Of a value that was read but cannot be used: the offset of its end.
    pub offset: usize,
    /// What is wrong there.
    pub problem: JsonProblem,
}

/// What is wrong with a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JsonProblem {
    /// Something else stands where this was expected.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The text ends where this was expected.
    #[error("expected {0}, found the end")]
    Ended(&'static str),
    /// A backslash is followed by something that is no escape.
    #[error("unknown escape")]
    Escape,
    /// A number does not fit the integer it is meant for.
    #[error("number does not fit {0} bits")]
    NumberRange(u32),
    /// Objects and arrays are nested deeper than [`DEPTH_MAX`].
    #[error("nested deeper than {} levels", DEPTH_MAX)]
    TooDeep,
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
}

/// Reads bytes as UTF-8, once for a whole text.
///
/// Sequences of the right form that encode nothing (overlong ones, surrogates) become U+FFFD for each byte, as in the
/// original; only then the text is copied.
///
/// # Errors
/// [`JsonProblem::Utf8`] with the offset of the first byte that cannot stand there.
pub fn utf8(bytes: &[u8]) -> Result<Cow<'_, str>, JsonError> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(Cow::Borrowed(text));
    }
    let mut repaired = String::with_capacity(bytes.len());
    let mut offset = 0;
    for chunk in bytes.utf8_chunks() {
        repaired.push_str(chunk.valid());
        offset += chunk.valid().len();
        if chunk.invalid().is_empty() {
            continue;
        }
        // The standard library reports each byte of such a sequence as a chunk of its own.
        if !is_replaceable(bytes, offset) {
            return Err(JsonError { offset, problem: JsonProblem::Utf8 });
        }
        repaired.push(char::REPLACEMENT_CHARACTER);
        offset += chunk.invalid().len();
    }
    Ok(Cow::Owned(repaired))
}

/// Says whether the byte at `offset` belongs to a sequence that has the form of UTF-8.
fn is_replaceable(bytes: &[u8], offset: usize) -> bool {
    (0..4).any(|back| {
        let Some(start) = offset.checked_sub(back) else { return false };
        let length = match bytes.get(start) {
            Some(0xc0..=0xdf) => 2,
            Some(0xe0..=0xef) => 3,
            Some(0xf0..=0xf7) => 4,
            _ => return false,
        };
        let rest = bytes.get(start + 1..start + length).unwrap_or_default();
        back < length && rest.len() == length - 1 && rest.iter().all(|byte| byte & 0xc0 == 0x80)
    })
}

/// Kinds of values, told by their first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// A string in double or single quotes.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`
    Null,
}

/// A position in a JSON text.
///
/// After an error the position is unspecified; start again with a new reader.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u16,
    /// Nothing was read yet of the object or array that was just begun.
    is_first: bool,
    takes_bare_words: bool,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `text`. Get the text of bytes from [`utf8`].
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0, is_first: false, takes_bare_words: false }
    }

    /// Starts at the first byte of the text of a file, which a person may have written: it may begin with a byte order
    /// mark, and its keys may be words without quotes.
    pub fn lenient(text: &'a str) -> Self {
        let start = text.trim_ascii_start();
        let at = text.len() - start.strip_prefix('\u{feff}').unwrap_or(start).len();
        Self { at, takes_bare_words: true, ..Self::new(text) }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Bytes from the next one to the end: the bound of what can still be read.
    pub fn remaining(&self) -> usize {
        self.text.len().saturating_sub(self.at)
    }

    /// Reads a value with `read`, if that does not give up; nothing is read if it does. `read` reads the whole value or none.
    pub(crate) fn plain<T>(&mut self, read: impl FnOnce(&mut Plain<'a>) -> Option<T>) -> Option<T> {
        let mut plain = Plain::at(self.text, self.at);
        let value = read(&mut plain)?;
        self.at = plain.offset();
        Some(value)
    }

    /// Says what kind of value comes next; reads nothing but space and comments.
    ///
    /// # Errors
    /// When no value starts there.
    pub fn peek(&mut self) -> Result<Kind, JsonError> {
        self.skip_space()?;
        match self.byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"' | b'\'') => Ok(Kind::String),
            Some(b'0'..=b'9' | b'-' | b'+') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            _ => Err(self.expected("a value")),
        }
    }

    /// Reads `null` if it comes next, and says whether it did.
    ///
    /// # Errors
    /// When no value starts there.
    pub fn null(&mut self) -> Result<bool, JsonError> {
        let is_null = self.peek()? == Kind::Null;
        if is_null {
            self.word("null")?;
        }
        Ok(is_null)
    }

    /// Reads the `{` of an object. Follow with [`next_key`](Self::next_key) until it says `None`.
    ///
    /// # Errors
    /// When something else comes next, or too many levels are open.
    pub fn begin_object(&mut self) -> Result<(), JsonError> {
        self.begin(b'{', "an object")
    }

    /// Reads the next key and its colon, or the object's end (`None`). The value is to be read before the next call.
    ///
    /// # Errors
    /// When neither comes next.
    pub fn next_key(&mut self) -> Result<Option<Cow<'a, str>>, JsonError> {
        if !self.next_item(b'}', "',' or '}'")? {
            return Ok(None);
        }
        let key = match self.byte() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote)?,
            Some(b'0'..=b'9' | b'-' | b'+') => Cow::Borrowed(self.number_token()),
            Some(b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' | 0x80..) if self.takes_bare_words => {
                Cow::Borrowed(self.bare_word())
            }
            _ => return Err(self.expected("a key or '}'")),
        };
        if self.byte() != Some(b':') {
            self.skip_space()?;
        }
        if self.byte() != Some(b':') {
            return Err(self.expected("':'"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Reads the `[` of an array. Follow with [`next_element`](Self::next_element) until it says `false`.
    ///
    /// # Errors
    /// When something else comes next, or too many levels are open.
    pub fn begin_array(&mut self) -> Result<(), JsonError> {
        self.begin(b'[', "an array")
    }

    /// Says whether another element follows, which is to be read before the next call; reads the array's end if not.
    ///
    /// # Errors
    /// When neither comes next.
    pub fn next_element(&mut self) -> Result<bool, JsonError> {
        self.next_item(b']', "',' or ']'")
    }

    /// Reads a string; `null` is `None`. What is no string is taken as its text: numbers and booleans as written, objects
    /// and arrays as their JSON.
    ///
    /// Escaped surrogates that are no pair become U+FFFD.
    ///
    /// # Errors
    /// When no value comes next, or it is broken.
    pub fn text(&mut self) -> Result<Option<Cow<'a, str>>, JsonError> {
        match self.peek()? {
            Kind::String => self.string().map(Some),
            Kind::Null => self.word("null").map(|()| None),
            _ => self.raw_value().map(|raw| Some(Cow::Borrowed(raw))),
        }
    }

    /// Reads an integer; `null` is `None`. Fractions are cut off; `true` is 1; `""` and `{}` are 0.
    ///
    /// # Errors
    /// When something else comes next, or a number that does not fit.
    pub fn integer(&mut self) -> Result<Option<i64>, JsonError> {
        match self.peek()? {
            Kind::Number => {
                let token = self.number_token();
                integer_of(token).map(Some).map_err(|problem| self.error(problem))
            }
            Kind::Null => self.word("null").map(|()| None),
            Kind::Bool => self.bool_word().map(|is_true| Some(i64::from(is_true))),
            Kind::String => {
                let text = self.string()?;
                if text.is_empty() {
                    return Ok(Some(0));
                }
                integer_of(&text).map(Some).map_err(|problem| self.error(problem))
            }
            Kind::Object => {
                self.begin_object()?;
                if self.next_key()?.is_some() {
                    return Err(self.expected("an integer"));
                }
                Ok(Some(0))
            }
            Kind::Array => Err(self.expected("an integer")),
        }
    }

    /// Reads an [`integer`](Self::integer) of 32 bits.
    ///
    /// # Errors
    /// When something else comes next, or a number that does not fit.
    pub fn integer32(&mut self) -> Result<Option<i32>, JsonError> {
        let Some(wide) = self.integer()? else { return Ok(None) };
        i32::try_from(wide).map(Some).map_err(|_| self.error(JsonProblem::NumberRange(32)))
    }

    /// Reads a boolean; `null` is `None`. `"true"` in quotes is true, as is a number other than 0; `""` is false.
    ///
    /// # Errors
    /// When something else comes next.
    pub fn boolean(&mut self) -> Result<Option<bool>, JsonError> {
        match self.peek()? {
            Kind::Bool => self.bool_word().map(Some),
            Kind::Null => self.word("null").map(|()| None),
            Kind::Number => Ok(self.integer()?.map(|value| value != 0)),
            Kind::String => match &*self.string()? {
                "true" | "TRUE" | "True" | "1" => Ok(Some(true)),
                "false" | "FALSE" | "False" | "0" | "" => Ok(Some(false)),
                _ => Err(self.error(JsonProblem::Expected("a boolean"))),
            },
            Kind::Object | Kind::Array => Err(self.expected("a boolean")),
        }
    }

    /// Reads any value and forgets it. What is skipped is checked as well as what is read.
    ///
    /// # Errors
    /// When no value comes next, or it is broken.
    pub fn skip_value(&mut self) -> Result<(), JsonError> {
        match self.peek()? {
            Kind::Object => {
                self.begin_object()?;
                while self.next_key()?.is_some() {
                    self.skip_value()?;
                }
                Ok(())
            }
            Kind::Array => {
                self.begin_array()?;
                while self.next_element()? {
                    self.skip_value()?;
                }
                Ok(())
            }
            Kind::String => self.string().map(drop),
            Kind::Bool => self.bool_word().map(drop),
            Kind::Null => self.word("null"),
            Kind::Number => match number_parts(self.number_token()) {
                Some(_) => Ok(()),
                None => Err(self.error(JsonProblem::Expected("a number"))),
            },
        }
    }

    /// Reads any value as the text that was sent for it.
    ///
    /// # Errors
    /// When no value comes next, or it is broken.
    pub fn raw_value(&mut self) -> Result<&'a str, JsonError> {
        self.peek()?;
        let start = self.at;
        self.skip_value()?;
        Ok(self.slice(start, self.at))
    }

    /// Checks that nothing follows but space, comments and zero bytes.
    ///
    /// # Errors
    /// When something does.
    pub fn finish(&mut self) -> Result<(), JsonError> {
        self.skip_space()?;
        while self.byte() == Some(0) {
            self.at += 1;
            self.skip_space()?;
        }
        if self.byte().is_some() { Err(self.expected("the end")) } else { Ok(()) }
    }

    fn begin(&mut self, open: u8, what: &'static str) -> Result<(), JsonError> {
        self.skip_space()?;
        if self.byte() != Some(open) {
            return Err(self.expected(what));
        }
        if self.depth >= DEPTH_MAX {
            return Err(self.error(JsonProblem::TooDeep));
        }
        self.at += 1;
        self.depth += 1;
        self.is_first = true;
        Ok(())
    }

    /// Moves to the next key or element, or past the `close` of the current object or array.
    fn next_item(&mut self, close: u8, what: &'static str) -> Result<bool, JsonError> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let mut may_follow = is_first;
        loop {
            match self.byte() {
                Some(byte) if byte == close => {
                    self.at += 1;
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(false);
                }
                // One comma too many means nothing after an item, and is an error before the first.
                Some(b',') if !is_first => {
                    self.at += 1;
                    may_follow = true;
                }
                Some(b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'/') => self.skip_space()?,
                Some(_) if may_follow => return Ok(true),
                _ => return Err(self.expected(what)),
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        match self.byte() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote),
            _ => Err(self.expected("a string")),
        }
    }

    /// Reads a string that starts with `quote` at the current position.
    fn quoted(&mut self, quote: u8) -> Result<Cow<'a, str>, JsonError> {
        let start = self.at + 1;
        self.at = start;
        self.skip_to_quote_or_backslash(quote)?;
        let plain = self.slice(start, self.at);
        if self.byte() == Some(quote) {
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        let mut unescaped = String::from(plain);
        loop {
            if self.byte() == Some(quote) {
                self.at += 1;
                return Ok(Cow::Owned(unescaped));
            }
            unescaped.push(self.escape()?);
            let start = self.at;
            self.skip_to_quote_or_backslash(quote)?;
            unescaped.push_str(self.slice(start, self.at));
        }
    }

    /// Moves to the next `quote` or backslash.
    fn skip_to_quote_or_backslash(&mut self, quote: u8) -> Result<(), JsonError> {
        let Some(length) = find_quote_or_backslash(quote, self.bytes_from(self.at)) else {
            self.at = self.text.len();
            return Err(self.expected("the string's end"));
        };
        self.at += length;
        Ok(())
    }

    /// Reads an escape, the backslash included.
    fn escape(&mut self) -> Result<char, JsonError> {
        let letter = self.bytes_from(self.at).get(1).copied();
        let character = match letter {
            Some(plain @ (b'"' | b'\'' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.error(JsonProblem::Escape)),
        };
        self.at += 2;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hex_escape().ok_or_else(|| self.error(JsonProblem::Escape))?;
        self.at += 6;
        if let 0xd800..=0xdbff = first
            && let Some(second @ 0xdc00..=0xdfff) = self.hex_escape()
        {
            self.at += 6;
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// The number in a `\uXXXX` at the current position, which stays.
    fn hex_escape(&self) -> Option<u32> {
        let &[b'\\', b'u', ref digits @ ..] = self.bytes_from(self.at).first_chunk::<6>()? else { return None };
        digits.iter().try_fold(0, |value, &digit| Some(value * 16 + char::from(digit).to_digit(16)?))
    }

    /// Reads the bytes that numbers are made of.
    fn number_token(&mut self) -> &'a str {
        let start = self.at;
        let rest = self.bytes_from(start);
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .unwrap_or(rest.len());
        self.at += length;
        self.slice(start, self.at)
    }

    /// Reads the bytes that names are made of.
    fn bare_word(&mut self) -> &'a str {
        let start = self.at;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        self.at += self.bytes_from(start).iter().take_while(|byte| is_part(byte)).count();
        self.slice(start, self.at)
    }

    fn bool_word(&mut self) -> Result<bool, JsonError> {
        let is_true = self.byte() == Some(b't');
        self.word(if is_true { "true" } else { "false" })?;
        Ok(is_true)
    }

    fn word(&mut self, word: &'static str) -> Result<(), JsonError> {
        let rest = self.bytes_from(self.at);
        let ends = !rest.get(word.len()).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if !rest.starts_with(word.as_bytes()) || !ends {
            return Err(self.expected(word));
        }
        self.at += word.len();
        Ok(())
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) -> Result<(), JsonError> {
        loop {
            match self.byte() {
                Some(b' ' | b'\t' | b'\n' | b'\r' | b'\x0c') => self.at += 1,
                Some(b'/') => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), JsonError> {
        let rest = self.bytes_from(self.at);
        self.at += if rest.starts_with(b"//") {
            rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| end + 1)
        } else if let Some(comment) = rest.strip_prefix(b"/*") {
            let end = comment.windows(2).position(|pair| pair == b"*/");
            end.ok_or_else(|| self.error(JsonProblem::Ended("the comment's end")))? + 4
        } else {
            return Err(self.expected("a comment"));
        };
        Ok(())
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn bytes_from(&self, start: usize) -> &'a [u8] {
        self.text.as_bytes().get(start..).unwrap_or_default()
    }

    /// The text between two positions that are next to ASCII bytes, so on character boundaries.
    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn expected(&self, what: &'static str) -> JsonError {
        let problem = if self.byte().is_some() { JsonProblem::Expected(what) } else { JsonProblem::Ended(what) };
        self.error(problem)
    }

    fn error(&self, problem: JsonProblem) -> JsonError {
        JsonError { offset: self.at, problem }
    }
}

/// Finds the first `quote` or backslash.
pub(crate) fn find_quote_or_backslash(quote: u8, bytes: &[u8]) -> Option<usize> {
    // `memchr2` goes through a pointer here, to what the processor can do: on strings of a dozen bytes that costs more than
    // wider registers gain.
    #[cfg(target_arch = "x86_64")]
    if let Some(finder) = memchr::arch::x86_64::sse2::memchr::Two::new(quote, b'\\') {
        return finder.find(bytes);
    }
    memchr2(quote, b'\\', bytes)
}

/// The integer in a text, its fraction cut off.
fn integer_of(text: &str) -> Result<i64, JsonProblem> {
    let (is_negative, whole, is_plain) = number_parts(text).ok_or(JsonProblem::Expected("an integer"))?;
    if !is_plain {
        return truncated(text);
    }
    let step = |value: Option<i64>, digit: u8| {
        let digit = i64::from(digit - b'0');
        let value = value?.checked_mul(10)?;
        if is_negative { value.checked_sub(digit) } else { value.checked_add(digit) }
    };
    whole.bytes().fold(Some(0), step).ok_or(JsonProblem::NumberRange(64))
}

/// The integer in a number with an exponent.
fn truncated(text: &str) -> Result<i64, JsonProblem> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    let value: f64 = text.parse().map_err(|_| JsonProblem::Expected("an integer"))?;
    // The cast is exact within the bounds, apart from the fraction it is meant to cut off.
    #[expect(clippy::cast_possible_truncation)]
    if (-BOUND..BOUND).contains(&value) { Ok(value as i64) } else { Err(JsonProblem::NumberRange(64)) }
}

/// Splits a number: is it negative, the digits before the point, has it no exponent. `None` if it is no number.
fn number_parts(text: &str) -> Option<(bool, &str, bool)> {
    let is_negative = text.starts_with('-');
    let unsigned = if is_negative { text.get(1..)? } else { text.strip_prefix('+').unwrap_or(text) };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();

    let (whole, mut rest) = unsigned.split_at_checked(digits(unsigned))?;
    if whole.is_empty() {
        return None;
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.get(digits(fraction)..)?;
    }
    if rest.is_empty() {
        return Some((is_negative, whole, true));
    }
    let exponent = rest.strip_prefix(['e', 'E'])?;
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    (!exponent.is_empty() && digits(exponent) == exponent.len()).then_some((is_negative, whole, false))
}

#[cfg(test)]
mod tests;
