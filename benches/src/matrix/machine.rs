//! The processors, and who else wants them.

use std::{fs, thread, time::Duration};

use rustix::{
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

/// Processors that this program may use.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread on one processor. Where the system says no, the thread goes where it is sent.
pub(super) fn pin(core: usize) {
    if core < cores() {
        let mut set = CpuSet::new();
        set.set(core);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Processor time of the calling thread.
pub(super) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// How long the calling thread has waited for a processor that somebody else had; zero where the system does not say.
pub(super) fn waited_for_core() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// Whether the calling thread is of a real-time class: one that spins takes its processor from all others.
pub(super) fn is_real_time() -> bool {
    policy(&fs::read_to_string("/proc/thread-self/stat").unwrap_or_default())
        .is_some_and(|policy| matches!(policy, 1 | 2))
}

/// Resident memory of this process, in bytes.
pub(super) fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// The scheduling class: the 41st field. The second one, the name, may contain anything.
fn policy(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(38)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduling_class_is_read() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        assert_eq!(policy(&format!("1 (a) b) {}", fields.join(" "))), Some(41));
        assert_eq!(policy("1 (a) S 2"), None);
    }

    #[test]
    fn this_process_is_known_to_the_system() {
        assert!(resident_bytes() > 1 << 20);
        assert!(cores() >= 1);
        let begin = thread_cpu_time();
        while thread_cpu_time() == begin {
            std::hint::spin_loop();
        }
    }
}
