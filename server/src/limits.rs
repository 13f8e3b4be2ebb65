//! The limits of frames and headers, with their units and reasons.
//!
//! What comes behind them has its own: bodies ([`BodyLimits`](crate::body::BodyLimits)), the KV store
//! ([`KvLimits`](crate::kv::KvLimits)), the tables ([`TableLimits`](registry_core::TableLimits)). Limits of time and of
//! queues stand in the modules of `runtime` that keep them.

/// The bounds of one frame and its header.
///
/// Sizes are bytes unless a field says otherwise. The defaults follow the original where it has a limit, so that
/// nothing that works against it is refused here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest frame read, its length word included. Default 16,777,216.
    ///
    /// Java: `com.rocketmq.remoting.frameMaxLength`. About 98,000 topics fit into one registration.
    pub frame_bytes_max: usize,
    /// Largest header read. Default 65,536; key `headerBytesMax`.
    ///
    /// Java has no limit of its own. Official headers have some hundred bytes; a header is parsed on a thread that serves
    /// lookups, and one of this length holds them up for less than a millisecond.
    pub header_bytes_max: usize,
    /// Largest frame written. Default 2,147,483,647: the length word is signed for most clients.
    ///
    /// Java has no limit of its own here. A larger answer is replaced by an error.
    pub answer_bytes_max: usize,
    /// Longest PROXY protocol line (version 1), its line end included. Default 107, the longest that the protocol
    /// allows; the netty decoder of the original stops at 108.
    pub proxy_v1_bytes_max: usize,
    /// Largest PROXY protocol header (version 2). Default 65,551: 16 fixed bytes and all that its length can say.
    ///
    /// Java: the same, from netty.
    pub proxy_v2_bytes_max: usize,
    /// Entries of `extFields` in one request, repeated keys included. Default 1,024.
    ///
    /// Java has no limit. Official clients send about ten; each entry costs 48 bytes here, whatever it costs its sender.
    pub ext_fields_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 16_777_216,
            header_bytes_max: 65_536,
            answer_bytes_max: 2_147_483_647,
            proxy_v1_bytes_max: 107,
            proxy_v2_bytes_max: 65_551,
            ext_fields_max: 1_024,
        }
    }
}
