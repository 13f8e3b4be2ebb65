//! Axes: where a value is, and which values are written.

use super::unit::{Unit, count, trimmed};

/// How a value becomes a place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero.
    Linear,
    /// Equal factors are equal distances; what is not above zero is not shown.
    Log,
    /// A percentile p is at log10 of 1 / (1 - p): each nine is as wide as the one before, and the largest value has the
    /// place of one nine more.
    Percentile,
    /// Names, one beside the other.
    Groups(Vec<String>),
}

/// What the values of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Measured(Unit),
    /// Numbers of things.
    Counted,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) scale: Scale,
    pub(crate) values: Values,
}

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) place: f64,
    pub(crate) text: String,
}

/// The place of the largest value on an axis of percentiles: right of 99.99.
const LARGEST: f64 = 5.0;
const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 100.0];
/// About so many values are written beside an axis.
const TICKS: f64 = 5.0;

impl Axis {
    pub(crate) fn counted(label: &'static str, scale: Scale) -> Self {
        Self { label, scale, values: Values::Counted }
    }

    pub(crate) fn measured(label: &'static str, scale: Scale, unit: Unit) -> Self {
        Self { label, scale, values: Values::Measured(unit) }
    }

    pub(crate) fn percentiles() -> Self {
        Self::counted("percentile", Scale::Percentile)
    }

    pub(crate) fn groups(names: Vec<String>) -> Self {
        Self::counted("", Scale::Groups(names))
    }

    /// Where a value is; `None` if it cannot be shown.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear | Scale::Groups(_) => value,
            Scale::Log => value.log10(),
            Scale::Percentile if value >= 100.0 => LARGEST,
            Scale::Percentile => -(1.0 - value / 100.0).log10(),
        };
        place.is_finite().then_some(place)
    }

    /// The ends of the axis for values from `low` to `high`, as places.
    pub(crate) fn range(&self, low: f64, high: f64) -> (f64, f64) {
        let (low, high) = (self.place(low).unwrap_or(0.0), self.place(high).unwrap_or(1.0));
        match &self.scale {
            Scale::Linear => (low.min(0.0), if high > low.min(0.0) { high * 1.08 } else { 1.0 }),
            Scale::Log if self.values == Values::Counted => {
                let margin = 0.04 * (high - low).max(1.0);
                (low - margin, high + margin)
            }
            Scale::Log => {
                // Never less than a decade, or noise looks like a trend.
                let missing = (1.0 - (high - low)).max(0.0) / 2.0;
                (low - missing - 0.08, high + missing + 0.08)
            }
            Scale::Percentile => (low - 0.1, high + 0.2),
            Scale::Groups(names) => (-0.5, names.len() as f64 - 0.5),
        }
    }

    /// The marks between two places. `used` are the values that have points: an axis of few counts marks these.
    pub(crate) fn ticks(&self, (low, high): (f64, f64), used: &[f64]) -> Vec<Tick> {
        let values: Vec<f64> = match &self.scale {
            Scale::Groups(names) => (0..names.len()).map(|index| index as f64).collect(),
            Scale::Percentile => PERCENTILES.to_vec(),
            Scale::Log if self.values == Values::Counted => sparse(used),
            Scale::Linear if self.values == Values::Counted && used.len() <= TICKS as usize + 1 => used.to_vec(),
            Scale::Linear => multiples(low, high),
            Scale::Log => decades(low, high),
        };
        let ticks = values.into_iter().filter_map(|value| Some((self.place(value)?, value)));
        ticks
            .filter(|&(place, _)| place >= low && place <= high)
            .map(|(place, value)| Tick { place, text: self.tick_text(value) })
            .collect()
    }

    fn tick_text(&self, value: f64) -> String {
        let text = self.text(value);
        if matches!(self.values, Values::Measured(_)) { trimmed(&text) } else { text }
    }

    /// A value of this axis, as it is written.
    pub(crate) fn text(&self, value: f64) -> String {
        match (&self.scale, self.values) {
            (Scale::Groups(names), _) => names.get(value as usize).cloned().unwrap_or_default(),
            (Scale::Percentile, _) if value >= 100.0 => "max".to_owned(),
            (Scale::Percentile, _) => format!("p{value}"),
            (_, Values::Counted) => count(value),
            (_, Values::Measured(unit)) => unit.show(value),
        }
    }
}

/// Round numbers between two places of a linear axis.
fn multiples(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power).into_iter().find(|&step| step >= rough);
    let Some(step) = step.filter(|&step| step > 0.0) else { return Vec::new() };
    let first = (low / step).ceil() as i64;
    (first..).map(|index| index as f64 * step).take_while(|&value| value <= high).collect()
}

/// Powers of ten, and 2 and 5 times of them where these are few.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = match high - low {
        span if span <= 1.6 => &[1.0, 2.0, 5.0],
        span if span <= 2.6 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let (first, last) = (low.floor() as i32, high.ceil() as i32);
    (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power))).collect()
}

/// Of counts that are close to each other on a logarithmic axis only the first is written.
fn sparse(used: &[f64]) -> Vec<f64> {
    let mut kept: Vec<f64> = Vec::new();
    for &value in used {
        if kept.last().is_none_or(|&last| value / last >= 1.9) {
            kept.push(value);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_is_as_wide_as_the_one_before() {
        let axis = Axis::percentiles();
        let places: Vec<f64> = [90.0, 99.0, 99.9, 99.99].iter().filter_map(|&value| axis.place(value)).collect();
        for (index, place) in places.iter().enumerate() {
            assert!((place - (index as f64 + 1.0)).abs() < 1e-6, "{places:?}");
        }
        let texts: Vec<String> = axis.ticks((0.0, 5.0), &[]).into_iter().map(|tick| tick.text).collect();
        assert_eq!(texts, ["p50", "p90", "p99", "p99.9", "p99.99", "max"]);
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let axis = Axis::measured("latency", Scale::Log, Unit::Us);
        assert_eq!(axis.place(0.0), None);
        assert_eq!(axis.place(-1.0), None);
        assert_eq!(axis.place(f64::NAN), None);
        assert!(axis.range(f64::NAN, f64::NAN).0.is_finite());
    }

    #[test]
    fn ticks_are_round_numbers() {
        let linear = Axis::measured("memory", Scale::Linear, Unit::Mib);
        let places: Vec<f64> = linear.ticks(linear.range(0.0, 83.0), &[]).into_iter().map(|tick| tick.place).collect();
        assert_eq!(places, [0.0, 20.0, 40.0, 60.0, 80.0]);
        let log = Axis::measured("latency", Scale::Log, Unit::Us);
        let texts: Vec<String> = log.ticks(log.range(2.0, 5e3), &[]).into_iter().map(|tick| tick.text).collect();
        assert_eq!(texts, ["10 \u{b5}s", "100 \u{b5}s", "1 ms"]);
        assert!(multiples(0.0, f64::NAN).is_empty());
    }
}
