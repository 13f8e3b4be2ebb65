//! Measuring instruments: the load tool and the comparison of strategies.
//!
//! [`client`] speaks the remoting protocol, [`load`] makes load with it, [`cluster`] plays brokers, [`storm`] and [`mix`]
//! are what they do meanwhile, and [`session`] is all of that together: a run of the load tool. [`floor`] is the server
//! that others are compared with, and [`process`] starts and watches the servers that are measured.
//!
//! [`parts`] is what the report measures, partly beside the servers of others ([`peers`]); [`results`] is what it leaves, and
//! [`page`] shows it. [`matrix`] and [`instructions`] do without a server.
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
