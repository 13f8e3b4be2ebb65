//! The JSON header of requests.

use std::borrow::Cow;

use super::codes::Language;
use super::header::{ExtFields, HeaderError, Request};
use crate::json::{self, Kind, Reader};
use crate::limits::Limits;

/// Reads a whole header. Unknown keys are skipped, absent and null numbers are 0, the last of equal keys counts.
pub(super) fn decode<'a>(header: &'a [u8], limits: &Limits) -> Result<Request<'a>, HeaderError> {
    match json::utf8(header)? {
        Cow::Borrowed(text) => parse(text, limits),
        // The text was repaired, so it cannot be borrowed from the frame. No client sends such a header.
        Cow::Owned(text) => {
            let request = parse(&text, limits)?;
            Ok(Request { ext: request.ext.into_owned(), ..request })
        }
    }
}

fn parse<'a>(text: &'a str, limits: &Limits) -> Result<Request<'a>, HeaderError> {
    let mut reader = Reader::new(text);
    let mut request = Request::default();
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
    Ok(request)
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
