//! Reading the KV file as the original does, also one that was written by hand.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Namespace, Table, Values};
use crate::json::{self, JsonError, Kind, Reader};

/// What is wrong with a KV file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// No JSON, not even in the sense of [`json`].
    #[error(transparent)]
    Json(#[from] JsonError),
    /// JSON of another shape.
    #[error("{place} is not {expected}")]
    Shape {
        /// The path of the member.
        place: String,
        /// What should be there.
        expected: &'static str,
    },
}

impl Table {
    /// Reads a file. Beyond what peers may send, a byte order mark and keys without quotes are fine. Members that are
    /// null are absent, other values that are no strings are taken as they are written, a name that occurs twice is
    /// the last one, and members beside `configTable` do not matter.
    pub(super) fn decode(file: &[u8]) -> Result<Self, Damage> {
        let text = json::utf8(file)?;
        let mut reader = Reader::lenient(&text);
        let mut table = Self::default();
        object(
            &mut reader,
            || "the file".into(),
            |reader, key| {
                if key != "configTable" {
                    return Ok(reader.skip_value()?);
                }
                table = Self::default();
                optional_object(
                    reader,
                    || "configTable".into(),
                    |reader, name| {
                        table.namespaces.remove(&*name);
                        let mut values = Values::new();
                        let is_there = optional_object(
                            reader,
                            || format!("configTable.{name:?}"),
                            |reader, key| {
                                match reader.text()? {
                                    Some(text) => values.insert(key.into(), text.into()),
                                    None => values.remove(&*key),
                                };
                                Ok(())
                            },
                        )?;
                        if is_there {
                            table.namespaces.insert(name.into(), Arc::new(Namespace::new(values)));
                        }
                        Ok(())
                    },
                )?;
                Ok(())
            },
        )?;
        reader.finish()?;
        Ok(table)
    }
}

/// Reads an object; `member` gets each key and reads its value.
fn object<'a>(
    reader: &mut Reader<'a>,
    place: impl FnOnce() -> String,
    mut member: impl FnMut(&mut Reader<'a>, Cow<'a, str>) -> Result<(), Damage>,
) -> Result<(), Damage> {
    if reader.peek()? != Kind::Object {
        return Err(Damage::Shape { place: place(), expected: "an object" });
    }
    reader.begin_object()?;
    while let Some(key) = reader.next_key()? {
        member(reader, key)?;
    }
    Ok(())
}

/// Reads an [`object`], null or an empty string, and says whether it was an object.
fn optional_object<'a>(
    reader: &mut Reader<'a>,
    place: impl FnOnce() -> String,
    member: impl FnMut(&mut Reader<'a>, Cow<'a, str>) -> Result<(), Damage>,
) -> Result<bool, Damage> {
    match reader.peek()? {
        Kind::Null | Kind::String => match reader.text()?.as_deref() {
            None | Some("") => Ok(false),
            Some(_) => Err(Damage::Shape { place: place(), expected: "an object" }),
        },
        _ => object(reader, place, member).map(|()| true),
    }
}
