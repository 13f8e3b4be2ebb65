//! Memory that was freed goes back to the system, without a peer's doing.
//!
//! glibc keeps what was freed in its heaps, for the next one who asks. [`limit`] bounds what it keeps at their ends and
//! how many there are; [`release`] gives back what is free between blocks in use, as after the removal of many topics.

use std::{fs, time::Duration};

/// Time between two calls of [`release`]. 10 s: what is freed is back within half a minute, and a call that finds nothing
/// is lost in the noise.
pub const RELEASE_INTERVAL: Duration = Duration::from_secs(10);

/// Below this nothing is given back. 16 MiB: a few times what an idle server has.
pub const RESIDENT_BYTES_MIN: u64 = 16 << 20;

/// Limits what the allocator keeps. To be called by the program before it starts a thread.
pub fn limit() {
    backends::memory::limit_free_memory();
}

/// Gives free memory back to the system, if there is enough to be worth it. Whoever allocates from the same heap waits
/// meanwhile: milliseconds after the removal of a million topics, else microseconds. Lookups do not allocate.
pub fn release() {
    if resident_bytes().is_none_or(|bytes| bytes > RESIDENT_BYTES_MIN) {
        backends::memory::release_free_memory();
    }
}

/// Memory of this process, as far as the system says.
fn resident_bytes() -> Option<u64> {
    let pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
