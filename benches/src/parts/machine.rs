//! The machine and the moment.

use std::{fs, path::Path, process::Command, time::SystemTime};

use crate::{
    process::{kib_of, run},
    results::Machine,
};

/// Describes this machine, now. What it does not say is empty.
pub fn machine() -> Machine {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let load = load_average();
    Machine {
        date: date_of(now),
        processor: field_of(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_mib: kib_of(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0) >> 10,
        system: [read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease")]
            .map(|s| s.trim().to_owned())
            .join(" "),
        compiler: said_by(Command::new("rustc").arg("--version")),
        commit: commit(),
        load: (load, load),
    }
}

/// How many tasks wanted a processor in the last minute.
pub fn load_average() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0.0)
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn said_by(command: &mut Command) -> String {
    run(command).map(|text| String::from_utf8_lossy(&text).trim().to_owned()).unwrap_or_default()
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        said_by(Command::new("git").current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).args(arguments))
    };
    git(&["describe", "--always", "--dirty", "--exclude=*", "--abbrev=10"])
}

/// The value of the first line `field : value`.
fn field_of(text: &str, field: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(name, _)| name.trim() == field).map(|(_, value)| value.trim().to_owned())
}

/// Seconds since 1970 as `2026-11-29 20:15`.
fn date_of(seconds: u64) -> String {
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02}", day + 1, minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date_of(0), "1970-01-01 00:00");
        assert_eq!(date_of(951_782_399), "2000-02-28 23:59");
        assert_eq!(date_of(951_782_400), "2000-02-29 00:00");
        assert_eq!(date_of(1_796_083_199), "2026-11-30 23:59");
        assert_eq!(date_of(4_107_542_400), "2100-03-01 00:00");
    }

    #[test]
    fn fields_of_proc_files() {
        let text = "processor\t: 0\nmodel name\t: Fast One: 3 GHz\nmodel name\t: Other\n";
        assert_eq!(field_of(text, "model name").as_deref(), Some("Fast One: 3 GHz"));
        assert_eq!(field_of(text, "model"), None);
    }

    #[test]
    fn this_machine_says_what_it_is() {
        let machine = machine();
        assert!(machine.cores > 0 && machine.memory_mib > 100, "{machine:?}");
        assert!(machine.system.starts_with("Linux ") && machine.date.starts_with("20"), "{machine:?}");
    }
}
