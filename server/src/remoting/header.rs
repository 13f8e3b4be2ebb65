//! The header of a request, in either encoding.

use std::borrow::Cow;

use arrayvec::ArrayVec;
use thiserror::Error;

use super::codes::{FLAG_ONEWAY, FLAG_RESPONSE, Language, SerializeType};
use super::frame::Frame;
use super::template::Template;
use super::{binary_header, json_header};
use crate::json::JsonError;
use crate::limits::Limits;

/// The header of a frame that a peer sent. Java: `RemotingCommand`.
///
/// The remark is checked for shape and not kept: no request of a name server means anything by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// What is asked for; [`RequestCode::from_wire`](super::RequestCode::from_wire) knows its meaning. 0 if absent.
    pub code: i32,
    /// What the sender is written in; `None` if it did not say or the name is unknown.
    pub language: Option<Language>,
    /// The sender's release. 0 if absent.
    pub version: i32,
    /// What the answer must repeat. 0 if absent.
    pub opaque: i32,
    /// See [`is_response`](Self::is_response) and [`is_oneway`](Self::is_oneway). 0 if absent.
    pub flag: i32,
    /// The arguments.
    pub ext: ExtFields<'a>,
}

/// The arguments of a request. Java: `extFields`.
///
/// Up to twelve stay inside this value, more go to the heap. Values are borrowed from the frame unless they are written
/// with escapes. No argument and no `extFields` at all are the same.
#[derive(Clone, Debug, Default)]
pub struct ExtFields<'a> {
    inline: ArrayVec<Entry<'a>, INLINE_FIELDS>,
    spilled: Vec<Entry<'a>>,
}

/// A value of `None` is a written null, which hides an earlier value of the same key.
type Entry<'a> = (Cow<'a, str>, Option<Cow<'a, str>>);

/// Official clients put fewer into a route query, a heartbeat or an unregistration.
const INLINE_FIELDS: usize = 12;

/// Why a header was refused. Always the sender's fault; the original closes the connection for all of them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// Not a JSON object, or a field of it that is not what it should be.
    #[error("JSON header: {0}")]
    Json(#[from] JsonError),
    /// A length inside a binary header that is negative or exceeds what holds it.
    #[error("binary header says a {field} of {length} bytes, at most {max} are possible")]
    LengthOverrun {
        /// What the length is of.
        field: &'static str,
        /// The length said.
        length: i32,
        /// What there is room for.
        max: usize,
    },
    /// More entries than `ext_fields_max`.
    #[error("extFields has more than ext_fields_max {max} entries")]
    TooManyFields {
        /// The limit.
        max: usize,
    },
    /// A binary header that ends inside a field.
    #[error("binary header ends inside its {0}")]
    Truncated(&'static str),
    /// A language by a number that no language has.
    #[error("language {0} is not one of 0 to 13")]
    UnknownLanguage(i32),
}

impl HeaderError {
    /// A short name for counters.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Json(_) | Self::UnknownLanguage(_) => "bad_json",
            Self::LengthOverrun { .. } | Self::Truncated(_) => "bad_binary_header",
            Self::TooManyFields { .. } => "too_many_fields",
        }
    }
}

impl<'a> Request<'a> {
    /// Reads the header of `frame`.
    ///
    /// One pass over the header. Allocates nothing for a header in the form that clients send: standard JSON without
    /// escapes, or binary with valid UTF-8, and up to twelve arguments.
    ///
    /// # Errors
    ///
    /// [`HeaderError`]. The connection should be closed, as the original does.
    pub fn decode(frame: &Frame<'a>, limits: &Limits) -> Result<Self, HeaderError> {
        // Filled in place: the arguments make this too large a value to be handed around.
        let mut request = Self::default();
        match frame.serialize_type {
            SerializeType::Json => {
                json_header::decode(frame.header, &mut request, limits)?;
            }
            SerializeType::RocketMq => binary_header::decode(frame.header, &mut request, limits)?,
        }
        Ok(request)
    }

    /// Whether this is an answer. It belongs to no request of ours on an accepted connection and gets no answer.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether the sender wants no answer, whatever the result.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }
}

/// Reads the headers of one connection.
///
/// Says what [`Request::decode`] says, and quicker where a header differs from an earlier one of the connection in its
/// opaque and its topic only: so do the route queries of a client.
#[derive(Debug, Default)]
pub struct RequestDecoder {
    template: Option<Box<Template>>,
    learned: u8,
}

/// How many templates a connection may make: one for each kind of query of a usual client. A client whose headers always
/// differ costs no more than that.
const TEMPLATES_MAX: u8 = 8;

impl RequestDecoder {
    /// A decoder for a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the header of `frame`, the next one of the connection. Cost and errors are those of [`Request::decode`]; it
    /// also allocates when it keeps a template, which happens a few times in the life of a connection.
    ///
    /// # Errors
    ///
    /// As [`Request::decode`].
    pub fn decode<'a>(&'a mut self, frame: &Frame<'a>, limits: &Limits) -> Result<Request<'a>, HeaderError> {
        if frame.serialize_type != SerializeType::Json {
            return Request::decode(frame, limits);
        }
        let mut request = Request::default();
        if let Some(fit) = self.template.as_ref().and_then(|template| template.fit(frame.header)) {
            if let Some(template) = &self.template {
                template.fill(&fit, &mut request, limits)?;
            }
            return Ok(request);
        }
        let spans = json_header::decode(frame.header, &mut request, limits)?;
        if let Some(spans) = spans
            && self.learned < TEMPLATES_MAX
            && let Some(template) = Template::new(frame.header, &request, &spans)
        {
            self.template = Some(Box::new(template));
            self.learned += 1;
        }
        Ok(request)
    }
}

impl<'a> ExtFields<'a> {
    /// The value of `key`; of several the last one. `None` if absent or null. Cost: O(fields).
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries().rev().find(|(name, _)| name == key)?.1.as_deref()
    }

    /// The value of `key` as Java's `Integer.parseInt` reads it: `None` if absent or anything but a sign and digits.
    pub fn get_i32(&self, key: &str) -> Option<i32> {
        self.get(key)?.parse().ok()
    }

    /// The value of `key` as Java's `Long.parseLong` reads it: `None` if absent or anything but a sign and digits.
    pub fn get_i64(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    /// The value of `key` as Java's `Boolean.parseBoolean` reads it: every text but `true`, in any case, is false.
    /// `None` if absent.
    pub fn get_bool(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value.eq_ignore_ascii_case("true"))
    }

    /// All keys with their values, null as `None`, in the order of the frame. A key that was sent twice occurs twice.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.entries().map(|(key, value)| (key.as_ref(), value.as_deref()))
    }

    pub(super) fn clear(&mut self) {
        self.inline.clear();
        self.spilled.clear();
    }

    pub(super) fn into_owned(self) -> ExtFields<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        let own_entry = |(key, value): Entry<'a>| (own(key), value.map(own));
        ExtFields {
            inline: self.inline.into_iter().map(own_entry).collect(),
            spilled: self.spilled.into_iter().map(own_entry).collect(),
        }
    }

    /// Whether everything is a slice of the frame and nothing went to the heap.
    #[cfg(test)]
    pub(super) fn is_borrowed(&self) -> bool {
        let borrowed = |text: &Cow<'_, str>| matches!(text, Cow::Borrowed(_));
        let is_borrowed = |(key, value): &Entry<'a>| borrowed(key) && value.as_ref().is_none_or(borrowed);
        self.spilled.capacity() == 0 && self.entries().all(is_borrowed)
    }

    fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry<'a>> {
        self.inline.iter().chain(&self.spilled)
    }

    pub(super) fn push(
        &mut self,
        key: Cow<'a, str>,
        value: Option<Cow<'a, str>>,
        limits: &Limits,
    ) -> Result<(), HeaderError> {
        if self.inline.len() + self.spilled.len() >= limits.ext_fields_max {
            return Err(HeaderError::TooManyFields { max: limits.ext_fields_max });
        }
        if let Err(full) = self.inline.try_push((key, value)) {
            self.spilled.push(full.element());
        }
        Ok(())
    }
}

/// Equal if they hold the same keys and values in the same order, wherever they are kept.
impl PartialEq for ExtFields<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.entries().eq(other.entries())
    }
}

impl Eq for ExtFields<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, Option<&'static str>)]) -> ExtFields<'static> {
        let mut ext = ExtFields::default();
        for &(key, value) in pairs {
            ext.push(Cow::Borrowed(key), value.map(Cow::Borrowed), &Limits::default()).unwrap();
        }
        ext
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_null_is_absent() {
        let ext = fields(&[("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("b", None)]);
        assert_eq!(ext.get("a"), Some("3"));
        assert_eq!(ext.get("b"), None);
        assert_eq!(ext.get("c"), None);
        assert_eq!(ext.iter().collect::<Vec<_>>(), [("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("b", None)]);
    }

    #[test]
    fn more_than_twelve_spill_in_order() {
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "a"];
        let ext = fields(&keys.map(|key| (key, Some(key))));
        assert_eq!(ext.iter().map(|(key, _)| key).collect::<Vec<_>>(), keys);
        assert_eq!(ext.get("n"), Some("n"));
        assert_eq!(ext.get("l"), Some("l"));
    }

    #[test]
    fn the_number_of_fields_is_bounded() {
        let limits = Limits { ext_fields_max: 14, ..Limits::default() };
        let mut ext = ExtFields::default();
        for _ in 0..14 {
            ext.push(Cow::Borrowed("k"), None, &limits).unwrap();
        }
        assert_eq!(ext.push(Cow::Borrowed("k"), None, &limits), Err(HeaderError::TooManyFields { max: 14 }));
    }

    #[test]
    fn numbers_and_booleans_follow_java() {
        for (text, number) in [
            ("0", Some(0)),
            ("-5", Some(-5)),
            ("+5", Some(5)),
            ("007", Some(7)),
            ("2147483647", Some(i32::MAX)),
            ("2147483648", None),
            ("", None),
            ("+", None),
            ("-", None),
            (" 5", None),
            ("5 ", None),
            ("0x5", None),
            ("5.0", None),
        ] {
            assert_eq!(fields(&[("n", Some(text))]).get_i32("n"), number, "{text:?}");
        }
        assert_eq!(fields(&[("n", Some("-9223372036854775808"))]).get_i64("n"), Some(i64::MIN));
        assert_eq!(fields(&[("n", Some("9223372036854775808"))]).get_i64("n"), None);
        for (text, value) in [("true", true), ("TrUe", true), ("false", false), ("1", false), ("", false)] {
            assert_eq!(fields(&[("b", Some(text))]).get_bool("b"), Some(value), "{text:?}");
        }
        assert_eq!(fields(&[]).get_bool("b"), None);
    }
}
