//! What every lock strategy is tested with.
//!
//! * `conformance`: the rules of the protocol as scenarios, one test each, a module for each strategy.
//! * [`machine`]: random commands; a strategy against the tables, and the tables against a naive [`Model`].

pub mod generate;
pub mod machine;
mod model;
mod probe;
mod sequential;

pub use model::Model;
pub use probe::Probe;
pub use sequential::{ScratchView, Sequential, SequentialPublisher, SequentialReader};
