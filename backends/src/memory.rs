//! What the allocator keeps of freed memory, and giving it back.
//!
//! Here because the calls are `unsafe`, and no other crate may have any. Of glibc; elsewhere nothing happens, as the
//! allocators there have no such calls.

/// Heaps that all threads share, the first one included. 2: with eight for each core, as by default, every thread reserves
/// 64 MiB of addresses, so that a process of a few threads does not fit under a limit of them (`RLIMIT_AS`). Lookups
/// allocate nothing, so their threads do not meet in a heap.
pub const HEAPS_MAX: i32 = 2;

/// Blocks from this size on are mapped on their own, and unmapped when they are freed. Unit: bytes. 1 MiB: buffers of
/// frames and lists go back at once, those of ordinary answers and changes are reused. By default it grows to 32 MiB.
pub const MAPPED_BYTES_MIN: i32 = 1 << 20;

/// What may stay free at the end of a heap. Unit: bytes. 1 MiB: by default it grows to 64 MiB.
pub const END_BYTES_MAX: i32 = 1 << 20;

/// Sets the limits above, for the process. To be called before a second thread is started: a heap that is there stays.
///
/// Where the environment sets glibc's own variables (`MALLOC_ARENA_MAX`, `GLIBC_TUNABLES`), they are overruled.
pub fn limit_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, HEAPS_MAX),
        (libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
        (libc::M_TRIM_THRESHOLD, END_BYTES_MAX),
    ] {
        // SAFETY: takes numbers only, and holds the allocator's lock itself; a number that it does not know changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Gives free pages of all heaps back to the system. Costs O(free blocks of a page and more), and the time in which the
/// system takes the pages; threads that allocate from the same heap meanwhile wait for it.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: touches free memory only, and holds the allocator's locks itself.
    unsafe {
        libc::malloc_trim(0)
    };
}
