//! Units of the measures, and how a value is written: three digits that count.

use crate::results::Measure;

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
    Mib,
    Kib,
    PerSecond,
    MillionsPerSecond,
    Percent,
    Times,
    Count,
}

impl Unit {
    pub(crate) const fn of(measure: Measure) -> Self {
        use Measure as M;
        match measure {
            M::QueryRate | M::StormRate => Self::PerSecond,
            M::GeneratorCpu | M::StormApplied => Self::Percent,
            M::QueryCpu
            | M::QueryLatency
            | M::OpenLatency
            | M::StormLatency
            | M::AvalancheLatency
            | M::HeartbeatCpu
            | M::ReadLatency
            | M::ChangeTime
            | M::WriterStall
            | M::Visibility => Self::Us,
            M::StormRegistration
            | M::RegistrationCpu
            | M::Wipe
            | M::Death
            | M::TopicList
            | M::TopicListLatency
            | M::Start
            | M::Gone
            | M::ConnectionLoss => Self::Ms,
            M::AvalancheTime => Self::S,
            M::Disturbance | M::AvalanchePeak => Self::Times,
            M::Memory | M::MemoryPeak | M::IdleMemory | M::RegistryMemory => Self::Mib,
            M::ConnectionMemory => Self::Kib,
            M::ReadRate | M::ReadRateCpu => Self::MillionsPerSecond,
            M::Lost | M::Torn | M::Instructions => Self::Count,
        }
    }

    /// The value with its unit, times in the unit that suits them.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Us if value.abs() >= 1e3 => Self::Ms.show(value / 1e3),
            Self::Us if value != 0.0 && value.abs() < 0.1 => format!("{} ns", digits(value * 1e3)),
            Self::Us => format!("{} \u{b5}s", digits(value)),
            Self::Ms if value.abs() >= 1e3 => Self::S.show(value / 1e3),
            Self::Ms if value != 0.0 && value.abs() < 1.0 => Self::Us.show(value * 1e3),
            Self::Ms => format!("{} ms", digits(value)),
            Self::S => format!("{} s", digits(value)),
            Self::Mib if value.abs() >= 1024.0 => format!("{} GiB", digits(value / 1024.0)),
            Self::Mib => format!("{} MiB", digits(value)),
            Self::Kib => format!("{} KiB", digits(value)),
            Self::PerSecond => format!("{}/s", short(value)),
            Self::MillionsPerSecond => format!("{} M/s", digits(value)),
            Self::Percent => format!("{} %", digits(value)),
            Self::Times => format!("{}\u{d7}", digits(value)),
            Self::Count => short(value),
        }
    }
}

/// A round number of an axis: without zeros at its end.
pub(crate) fn trimmed(text: &str) -> String {
    let end = text.find(|symbol: char| !(symbol.is_ascii_digit() || matches!(symbol, '.' | ','))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    match (number, number.contains('.')) {
        ("0", _) => number.to_owned(),
        (_, true) => format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.')),
        _ => text.to_owned(),
    }
}

/// Large numbers with k and M.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 999_500.0 => format!("{} M", digits(value / 1e6)),
        size if size >= 9_995.0 => format!("{} k", digits(value / 1e3)),
        _ => digits(value),
    }
}

/// A count of topics, connections or threads, as exact as it is.
pub(crate) fn count(value: f64) -> String {
    match value {
        value if value >= 1e6 && value % 1e5 == 0.0 => format!("{} M", value / 1e6),
        value if value >= 1e3 && value % 1e3 == 0.0 => format!("{} k", value / 1e3),
        value => format!("{value}"),
    }
}

fn digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        0.0 => 0,
        size => (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize,
    };
    let text = format!("{value:.decimals$}");
    let whole = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    match decimals {
        0 => thousands(&text),
        // A value that is a round number is written as one.
        _ if value == value.trunc() => whole(&text),
        _ => text,
    }
}

/// A whole number, all of its digits.
pub(crate) fn exact(value: f64) -> String {
    thousands(&format!("{value:.0}"))
}

fn thousands(text: &str) -> String {
    let mut out = String::new();
    let start = usize::from(text.starts_with('-'));
    for (index, digit) in text.char_indices() {
        if index > start && (text.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (value, text) in [
            (0.0, "0"),
            (0.031_25, "0.0312"),
            (1.0, "1"),
            (0.95, "0.950"),
            (2.304, "2.30"),
            (60.64, "60.6"),
            (9_876.4, "9,876"),
            (123_456.0, "123,456"),
            (-1_234.0, "-1,234"),
        ] {
            assert_eq!(digits(value), text);
        }
        assert_eq!(short(398_812.0), "399 k");
        assert_eq!(short(1_250_000.0), "1.25 M");
        assert_eq!(exact(1_234_567.0), "1,234,567");
        assert_eq!(
            ["0 ms", "0.500 \u{b5}s", "100 k/s", "1.50 s"].map(trimmed),
            ["0", "0.5 \u{b5}s", "100 k/s", "1.5 s"]
        );
        assert_eq!(count(4_096.0), "4096");
        assert_eq!(count(100_000.0), "100 k");
    }

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        assert_eq!(Unit::Us.show(781.0), "781 \u{b5}s");
        assert_eq!(Unit::Us.show(11_668.0), "11.7 ms");
        assert_eq!(Unit::Ms.show(2_260.0), "2.26 s");
        assert_eq!(Unit::Ms.show(0.03), "30 \u{b5}s");
        assert_eq!(Unit::Ms.show(0.0), "0 ms");
    }
}
