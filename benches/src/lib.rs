//! Measuring instruments: the load tool and the comparison of strategies.
//!
//! [`client`] speaks the remoting protocol, [`load`] makes load with it, [`cluster`] plays brokers, and [`process`] starts
//! and watches the servers that are measured.
#![forbid(unsafe_code)]

pub mod client;
pub mod cluster;
pub mod faults;
pub mod floor;
pub mod instructions;
pub mod load;
pub mod matrix;
pub mod mix;
pub mod page;
pub mod parts;
pub mod peers;
pub mod process;
pub mod results;
pub mod session;
pub mod storm;
pub mod versions;
