//! What a RocketMQ name server's registry means, once, for every lock strategy.
//!
//! Three layers, and data flows down them:
//!
//! 1. **Meaning**: [`Tables`], the sequential registry. A [`Command`] goes in, an [`Applied`] comes out.
//! 2. **Image**: [`Root`] and [`Entry`], what readers see of the tables, with the pieces of answers encoded when they
//!    are written. [`Image`] derives the [`Change`] that a command makes.
//! 3. **Strategy**: [`Registry`], how the image is shared. The crate `backends` has them; they know neither rules nor
//!    bytes.
//!
//! Every query of the protocol is a function over [`View`] in [`query`]. A state machine test compares the image with
//! one made from scratch after every command; the rules themselves are compared with the answers of the original in the
//! tests of the server.
#![forbid(unsafe_code)]

mod command;
mod cow_map;
mod image;
pub mod json;
mod liveness;
#[doc(hidden)]
pub mod query;
mod registry;
mod sync;
mod tables;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod value;
mod view;

pub use command::{Applied, Command, Master, MinIdChange, Outcome, Refusal, Registered};
pub use cow_map::CowMap;
pub use image::{Change, Entry, Group, Image, KeyStyle, MappingPiece, Root, Setting};
pub use liveness::{LiveKey, LiveRecord, Pulse};
pub use registry::{BesideARead, Publisher, Reader, Registry, SWEEP_TOPICS, Writer};
pub use tables::{
    HEARTBEAT_TIMEOUT_MS_DEFAULT, HEARTBEAT_TIMEOUT_MS_MAX, HEARTBEAT_TIMEOUT_MS_MIN, Slot, TableLimits, Tables,
    is_worth_shrinking,
};
pub use value::{
    ConnectionId, DataVersion, Millis, Name, QueueSettings, RegisterBody, Registration, Source, TopicMapping,
    TopicTable, Unregistration,
};
pub use view::{Stale, View};
