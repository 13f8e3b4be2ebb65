//! Who the peers are, and what they may hold: places for connections and bytes of memory.
//!
//! | | limits | given back |
//! |---|---|---|
//! | [`Place`] | connections: all, and of one source address; some kept for brokers | when the connection ends |
//! | [`Charge`] | bytes under way: all, of one source, of one connection; some kept for brokers | when it is dropped |

mod budget;
mod sources;

pub(crate) use budget::{Account, Budget, Charge, OverBudget};
pub(crate) use sources::{Crowded, Place, Sources};
