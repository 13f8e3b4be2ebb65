//! The JSON that peers really send, read in one quick pass.
//!
//! Knows objects with keys in double quotes, strings without escapes, small integers, booleans and null, and space between
//! them. For all else, right or wrong, it gives up and says nothing: the lenient [`Reader`](super::Reader) decides.

use std::ops::Range;

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
        let start = self.at;
        let mut rest = self.text.as_bytes().get(start..)?;
        // Eight bytes at a time, then the last few one by one.
        while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
            if let Some(index) = first_quote_or_backslash(*chunk) {
                return self.end_string(start, self.text.len() - rest.len() + index);
            }
            rest = tail;
        }
        let index = rest.iter().position(|&byte| byte == b'"' || byte == b'\\')?;
        self.end_string(start, self.text.len() - rest.len() + index)
    }

    fn end_string(&mut self, start: usize, end: usize) -> Option<&'a str> {
        if self.text.as_bytes().get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        self.text.get(start..end)
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

fn first_quote_or_backslash(chunk: [u8; 8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // Marks bytes that are zero, and perhaps bytes above the lowest of them.
    let zeros = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    // The first byte is to be the lowest one.
    let word = u64::from_be_bytes(chunk).swap_bytes();
    let marks = zeros(word ^ (LOW * u64::from(b'"'))) | zeros(word ^ (LOW * u64::from(b'\\')));
    (marks != 0).then_some(marks.trailing_zeros() as usize / 8)
}
