//! The image: what readers see of the tables, with the pieces of answers already encoded.
//!
//! A state of the registry is a [`Root`] (small, immutable, replaced as a whole) and a large map from topic to
//! [`Entry`]. An answer is not kept anywhere: it is stitched together from pieces, which few topics do not share.

mod derive;
mod group;
mod root;
mod topic;

pub use derive::Image;
pub(crate) use group::write_addrs;
pub use group::{Group, Setting};
pub use root::Root;
pub use topic::{Entry, MappingPiece};

use crate::Name;

/// How numeric keys of JSON objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyStyle {
    /// Bare: `{0:"a"}`. What the original writes for clients before 4.9.4, and in 106 and 901 for everybody.
    Bare,
    /// Quoted: `{"0":"a"}`, which is JSON.
    Quoted,
}

/// A change of the image, ready to be published as a whole.
#[derive(Clone, Debug)]
pub struct Change {
    /// The new root.
    pub root: std::sync::Arc<Root>,
    /// Topics that changed: the new entry, or `None` where the topic is gone. The last entry of a name counts.
    pub topics: Vec<(Name, Option<Entry>)>,
}
