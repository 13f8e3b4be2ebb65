//! The name server.
#![forbid(unsafe_code)]

fn main() {}
