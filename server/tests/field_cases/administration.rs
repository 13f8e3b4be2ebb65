//! administration
