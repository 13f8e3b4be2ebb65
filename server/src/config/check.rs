//! Values that are good one by one: whether they go together.

use super::keys::{self, DefaultValue, Value};
use super::{Conflict, Values, number};

/// How many of the longest frames `memoryBytesMax` must hold: one connection may take half of it, and needs room for a
/// frame and its inflated body. With less, a frame that is allowed could never be served.
pub const FRAMES_IN_MEMORY_MIN: usize = 4;

/// What no value is wrong about by itself.
pub(super) fn check(values: &Values) -> Result<(), Conflict> {
    if values["enableControllerInNamesrv"] == Value::Flag(true) {
        return Err(Conflict::NoController);
    }
    let (memory, frame): (usize, usize) = (number(values, "memoryBytesMax"), number(values, "frameMaxLength"));
    if memory / FRAMES_IN_MEMORY_MIN < frame {
        return Err(Conflict::MemoryHoldsTooFewFrames { memory, frame });
    }
    let header: usize = number(values, "headerBytesMax");
    if header > frame {
        return Err(Conflict::HeaderExceedsFrame { header, frame });
    }
    Ok(())
}

/// Makes limits that nobody has set fit a `frameMaxLength` that somebody has.
pub(super) fn fit_defaults(values: &mut Values, is_set: impl Fn(&str) -> bool) {
    let frame: i64 = number(values, "frameMaxLength");
    if !is_set("memoryBytesMax") {
        let memory = default_number("memoryBytesMax").max(frame.saturating_mul(FRAMES_IN_MEMORY_MIN as i64));
        values.insert("memoryBytesMax", Value::Number(memory));
    }
    if !is_set("headerBytesMax") {
        values.insert("headerBytesMax", Value::Number(default_number("headerBytesMax").min(frame)));
    }
}

fn default_number(name: &str) -> i64 {
    match keys::find(name).map(|key| key.default) {
        Some(DefaultValue::Fixed(text)) => {
            text.parse().unwrap_or_else(|_| unreachable!("the default of {name} in the table is a number"))
        }
        _ => unreachable!("the table has a fixed default of {name}"),
    }
}
