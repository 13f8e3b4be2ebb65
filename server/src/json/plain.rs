//! The JSON that peers really send, read in one quick pass.
//!
//! Knows objects with keys in double quotes, strings without escapes, small integers, booleans and null, and space between
//! them. For all else, right or wrong, it gives up and says nothing: the lenient [`Reader`](super::Reader) decides.

use std::ops::Range;

use super::find_quote_or_backslash;

/// A position in a text. Every method says `None` when it gives up.
pub(crate) struct Plain<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Plain<'a> {
    /// Starts at the first byte of `text`.
    pub(crate) fn new(text: &'a str) -> Self {
        Self::at(text, 0)
    }

    /// Starts at this byte of `text`.
    pub(crate) fn at(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Reads an object; `field` gets each key and must read its value.
    pub(crate) fn object(&mut self, mut field: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            field(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let rest = self.text.get(self.at..)?;
        let (string, rest) = rest.split_at_checked(find_quote_or_backslash(b'"', rest.as_bytes())?)?;
        self.at += string.len() + 1;
        rest.starts_with('"').then_some(string)
    }

    /// Reads a string or null.
    pub(crate) fn string_or_null(&mut self) -> Option<Option<&'a str>> {
        if self.peek()? == b'"' { self.string().map(Some) } else { self.null().map(|()| None) }
    }

    /// Reads an integer, or null as 0.
    pub(crate) fn integer(&mut self) -> Option<i32> {
        let first = self.peek()?;
        if first == b'n' {
            return self.null().map(|()| 0);
        }
        let (number, length) = integer(self.text.as_bytes().get(self.at..)?)?;
        self.at += length;
        Some(number)
    }

    /// Reads a value and forgets it. Of objects only those that have none inside.
    pub(crate) fn skip(&mut self) -> Option<()> {
        if self.peek()? == b'{' { self.object(|plain, _| plain.skip_scalar()) } else { self.skip_scalar() }
    }

    fn skip_scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            _ => self.integer().map(drop),
        }
    }

    /// Reads null.
    pub(crate) fn null(&mut self) -> Option<()> {
        self.word("null")
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.peek()?;
        let is_there = self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes());
        self.at += word.len();
        is_there.then_some(())
    }

    /// Checks that nothing but space follows.
    pub(crate) fn finish(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    /// Reads a value with `read` and says where it stands.
    pub(crate) fn spanned<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<(T, Range<usize>)> {
        self.peek()?;
        let start = self.at;
        let value = read(self)?;
        Some((value, start..self.at))
    }

    /// The next byte that is no space, which stays.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.text.as_bytes().get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let found = self.peek()? == byte;
        self.at += 1;
        found.then_some(())
    }
}

/// The integer of 32 bits at the start of `bytes`, and its length.
pub(crate) fn integer(bytes: &[u8]) -> Option<(i32, usize)> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let mut number = 0_i64;
    let mut length = 0;
    // Ten digits hold every integer of 32 bits; an eleventh is left for the next token to stumble over.
    for digit in digits.iter().take_while(|byte| byte.is_ascii_digit()).take(10) {
        number = number * 10 + i64::from(digit - b'0');
        length += 1;
    }
    let sign = bytes.len() - digits.len();
    let number = if sign > 0 { -number } else { number };
    if length == 0 { None } else { Some((i32::try_from(number).ok()?, sign + length)) }
}
