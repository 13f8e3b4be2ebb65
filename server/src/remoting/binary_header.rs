//! The binary header of requests. Java: `RocketMQSerializable`.
//!
//! ```text
//! i16 code   i8 language   i16 version   i32 opaque   i32 flag      all big-endian
//! i32 length, remark
//! i32 length, then entries of   i16 length, key   i32 length, value   until the length is used up
//! ```

use std::borrow::Cow;

use super::codes::Language;
use super::header::{HeaderError, Request};
use crate::limits::Limits;

/// Reads a whole header. Spare bytes behind the entries are ignored, as the original does.
pub(super) fn decode<'a>(header: &'a [u8], limits: &Limits) -> Result<Request<'a>, HeaderError> {
    let mut rest = Rest(header);
    let mut request = Request {
        code: i16::from_be_bytes(rest.array("code")?).into(),
        language: Language::from_wire(i8::from_be_bytes(rest.array("language")?).into()),
        version: i16::from_be_bytes(rest.array("version")?).into(),
        opaque: i32::from_be_bytes(rest.array("opaque")?),
        flag: i32::from_be_bytes(rest.array("flag")?),
        ..Request::default()
    };
    let remark = rest.length("remark", header.len())?;
    rest.take("remark", remark)?;
    let ext_length = i32::from_be_bytes(rest.array("ext")?);
    // Below zero is no ext fields at all, not an error, in the original too.
    let ext_length = usize::try_from(ext_length).unwrap_or(0);
    if ext_length > header.len() {
        return Err(overrun("ext", ext_length, header.len()));
    }
    // The last entry may run past the said length as long as the header has the bytes.
    let start = rest.0.len();
    while start - rest.0.len() < ext_length {
        let key_length = i16::from_be_bytes(rest.array("key")?);
        let key = rest.take("key", checked("key", key_length.into(), ext_length)?)?;
        let value_length = rest.length("value", ext_length)?;
        let value = rest.take("value", value_length)?;
        // Without bytes, a key or value is null.
        if !key.is_empty() {
            let value = (!value.is_empty()).then(|| text(value));
            request.ext.push(text(key), value, limits)?;
        }
    }
    Ok(request)
}

/// What is left of the header.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], HeaderError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(HeaderError::Truncated(field))?;
        self.0 = rest;
        Ok(*array)
    }

    fn length(&mut self, field: &'static str, max: usize) -> Result<usize, HeaderError> {
        checked(field, i32::from_be_bytes(self.array(field)?), max)
    }

    fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], HeaderError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(HeaderError::Truncated(field))?;
        self.0 = rest;
        Ok(taken)
    }
}

fn checked(field: &'static str, length: i32, max: usize) -> Result<usize, HeaderError> {
    usize::try_from(length).ok().filter(|&length| length <= max).ok_or(HeaderError::LengthOverrun {
        field,
        length,
        max,
    })
}

fn overrun(field: &'static str, length: usize, max: usize) -> HeaderError {
    HeaderError::LengthOverrun { field, length: i32::try_from(length).unwrap_or(i32::MAX), max }
}

/// Invalid UTF-8 becomes U+FFFD, as in Java's `String`.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
