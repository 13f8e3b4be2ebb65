//! The lock strategies side by side, in one process and without sockets: what readers and the writer do to each other.

pub mod world;
