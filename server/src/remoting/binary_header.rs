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

/// Reads a whole header into `request`, which is fresh. Spare bytes behind the entries are ignored, as the original does.
pub(super) fn decode<'a>(header: &'a [u8], request: &mut Request<'a>, limits: &Limits) -> Result<(), HeaderError> {
    let mut rest = Rest(header);
    request.code = i16::from_be_bytes(rest.array("code")?).into();
    request.language = Language::from_wire(i8::from_be_bytes(rest.array("language")?).into());
    request.version = i16::from_be_bytes(rest.array("version")?).into();
    request.opaque = i32::from_be_bytes(rest.array("opaque")?);
    request.flag = i32::from_be_bytes(rest.array("flag")?);
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
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &[u8]) -> Result<Request<'_>, HeaderError> {
        let mut request = Request::default();
        decode(header, &mut request, &Limits::default()).map(|()| request)
    }

    /// Code 105, GO, version 317, opaque 7, flag 2, then the remark and ext blocks with the lengths given.
    fn header(remark_length: i32, remark: &[u8], ext_length: i32, ext: &[u8]) -> Vec<u8> {
        let fixed = b"\0\x69\x09\x01\x3d\0\0\0\x07\0\0\0\x02";
        [&fixed[..], &remark_length.to_be_bytes(), remark, &ext_length.to_be_bytes(), ext].concat()
    }

    const TOPIC: &[u8; 13] = b"\0\x05topic\0\0\0\x02HD";

    #[test]
    fn reads_every_field() {
        let bytes = header(5, b"hello", 13, TOPIC);
        let request = read(&bytes).unwrap();
        assert_eq!((request.code, request.version, request.opaque, request.flag), (105, 317, 7, 2));
        assert_eq!(request.language, Some(Language::Go));
        assert_eq!(request.ext.iter().collect::<Vec<_>>(), [("topic", Some("HD"))]);
        assert!(request.ext.is_borrowed());
    }

    #[test]
    fn numbers_are_signed_and_unknown_languages_are_none() {
        let request = read(b"\x9c\x40\xff\xff\xff\xff\xff\xff\xf7\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
        assert_eq!((request.code, request.version, request.opaque), (-25536, -1, -9));
        assert_eq!(request.language, None);
    }

    #[test]
    fn what_has_no_bytes_is_null() {
        let ext = b"\0\0\0\0\0\x01x\0\x01a\0\0\0\x01b\0\x01a\0\0\0\0";
        let bytes = header(0, b"", ext.len() as i32, ext);
        let request = read(&bytes).unwrap();
        assert_eq!(request.ext.iter().collect::<Vec<_>>(), [("a", Some("b")), ("a", None)]);
        assert_eq!(request.ext.get("a"), None);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let bytes = header(2, b"\xff\xfe", 13, b"\0\x05topic\0\0\0\x02\xff\xfe");
        assert_eq!(read(&bytes).unwrap().ext.get("topic"), Some("\u{fffd}\u{fffd}"));
    }

    #[test]
    fn the_ext_length_may_be_short_but_not_long() {
        for ext_length in [9, 12, 13] {
            let bytes = header(0, b"", ext_length, TOPIC);
            assert_eq!(read(&bytes).unwrap().ext.get("topic"), Some("HD"), "{ext_length}");
        }
        for ext_length in [0, -1, i32::MIN] {
            let bytes = header(0, b"", ext_length, TOPIC);
            assert_eq!(read(&bytes).unwrap().ext.get("topic"), None, "{ext_length}");
        }
        assert_eq!(read(&header(0, b"", 14, TOPIC)), Err(HeaderError::Truncated("key")));
        assert_eq!(read(&header(0, b"", 14, &[&TOPIC[..], &[0]].concat())), Err(HeaderError::Truncated("key")));
        let max = header(0, b"", 0, TOPIC).len();
        let error = HeaderError::LengthOverrun { field: "ext", length: 5_000, max };
        assert_eq!(read(&header(0, b"", 5_000, TOPIC)), Err(error));
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let overrun = |field, length, max| HeaderError::LengthOverrun { field, length, max };
        let whole = header(0, b"", 13, TOPIC).len();
        assert_eq!(read(&header(-1, b"", 13, TOPIC)), Err(overrun("remark", -1, whole)));
        assert_eq!(read(&header(5_000, b"", 13, TOPIC)), Err(overrun("remark", 5_000, whole)));
        assert_eq!(read(&header(30, b"", 13, TOPIC)), Err(HeaderError::Truncated("remark")));
        let entry = |ext: &[u8]| read(&header(0, b"", 13, ext)).unwrap_err();
        assert_eq!(entry(b"\xff\xfftopic\0\0\0\x02HD"), overrun("key", -1, 13));
        assert_eq!(entry(b"\x03\xe7topic\0\0\0\x02HD"), overrun("key", 999, 13));
        assert_eq!(entry(b"\0\x05topic\xff\xff\xff\xfeHD"), overrun("value", -2, 13));
        assert_eq!(entry(b"\0\x05topic\0\0\x03\xe7HD"), overrun("value", 999, 13));
        assert_eq!(entry(b"\0\x05topic\0\0\0\x03HD"), HeaderError::Truncated("value"));
    }

    #[test]
    fn cut_headers_are_refused() {
        let bytes = header(5, b"hello", 13, TOPIC);
        for length in 0..bytes.len() {
            let error = read(&bytes[..length]).unwrap_err();
            assert_eq!(error.reason(), "bad_binary_header", "{length}: {error}");
        }
    }
}
