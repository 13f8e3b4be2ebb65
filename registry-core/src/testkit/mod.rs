//! What every lock strategy is tested with.
//!
//! * [`conformance`]: the rules of the protocol as scenarios, one test each, a module for each strategy.
//! * [`threads`]: real threads, and what they see; [`broken`] strategies show that it would be noticed.
//! * [`lists`]: kept lists while the registry changes, and how long a strategy lets others wait for a list.
//! * [`histories`]: concurrent calls, of real threads or of loom's, which [`linearize`] explains or finds wrong.
//! * [`machine`]: random commands; a strategy against the tables, and the tables against a naive [`Model`].

pub mod broken;
pub mod conformance;
pub mod fixture;
pub mod generate;
pub mod histories;
pub mod linearize;
pub mod lists;
pub mod machine;
mod model;
mod probe;
mod sequential;
pub mod threads;

pub use model::Model;
pub use probe::Probe;
pub use sequential::{ScratchView, Sequential, SequentialPublisher, SequentialReader};
