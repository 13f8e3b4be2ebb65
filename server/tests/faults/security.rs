//! security
