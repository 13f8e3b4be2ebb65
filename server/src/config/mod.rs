//! The configuration: where it comes from, what it means here, and how it is changed while the server runs.

pub mod properties;
