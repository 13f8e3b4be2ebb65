//! Measuring instruments: the load tool and the comparison of strategies.
//!
//! [`client`] speaks the remoting protocol, [`load`] makes load with it, [`cluster`] plays brokers, and [`process`] starts
//! and watches the servers that are measured.
#![forbid(unsafe_code)]

pub mod client;
pub mod cluster;
pub mod instructions;
pub mod load;
pub mod matrix;
pub mod official;
pub mod process;
pub mod results;
