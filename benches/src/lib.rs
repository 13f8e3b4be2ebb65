//! Measuring instruments: the load tool and the comparison of strategies.
#![forbid(unsafe_code)]
