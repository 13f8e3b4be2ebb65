//! Values that are good one by one: whether they go together.

use super::keys::{self, DefaultValue, Value};
use super::{Values, number};

/// How many of the longest frames `memoryBytesMax` must hold: one connection may take half of it, and needs room for a
/// frame and its inflated body. With less, a frame that is allowed could never be served.
pub const FRAMES_IN_MEMORY_MIN: usize = 4;

/// Values with which this server does not serve, though their keys take them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// `memoryBytesMax` holds fewer than [`FRAMES_IN_MEMORY_MIN`] frames of `frameMaxLength`.
    #[error(
        "memoryBytesMax={memory} does not hold {FRAMES_IN_MEMORY_MIN} frames of frameMaxLength={frame}: \
         set memoryBytesMax to at least {least}",
        least = frame.saturating_mul(FRAMES_IN_MEMORY_MIN)
    )]
    MemoryHoldsTooFewFrames {
        /// `memoryBytesMax`.
        memory: usize,
        /// `frameMaxLength`.
        frame: usize,
    },
    /// `headerBytesMax` is more than `frameMaxLength`: no frame has room for such a header.
    #[error("headerBytesMax={header} exceeds frameMaxLength={frame}: set headerBytesMax to at most {frame}")]
    HeaderExceedsFrame {
        /// `headerBytesMax`.
        header: usize,
        /// `frameMaxLength`.
        frame: usize,
    },
    /// `enableControllerInNamesrv` is on: brokers would look for a controller that is not here.
    #[error(
        "enableControllerInNamesrv=true: there is no controller in this name server, and brokers would find none: run \
         it by itself (bin/mqcontroller, org.apache.rocketmq.controller.ControllerStartup), name it in controllerAddr \
         of the brokers, and set enableControllerInNamesrv=false here"
    )]
    NoController,
}

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
