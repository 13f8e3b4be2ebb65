//! The committed counts, and how others compare with them.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::Operation;

/// A count that has grown, or shrunk, by more than this is told. Two runs of the same program differ by less than half a
/// percent.
pub const LIMIT_PERCENT: f64 = 5.0;

/// Counts of all operations, and what they depend on beside the code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Version of the compiler.
    pub compiler: String,
    /// Version of valgrind.
    pub valgrind: String,
    /// Instructions by the name of the operation.
    pub instructions: BTreeMap<String, f64>,
}

/// What has become of a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    /// It has changed by so many percent, within the limit.
    Same(f64),
    /// It has shrunk by more: the baseline is to be taken again.
    Better(f64),
    /// It has grown by more.
    Worse(f64),
    /// The baseline does not have it.
    Unknown,
}

impl Baseline {
    /// Reads a baseline.
    ///
    /// # Errors
    /// When the file cannot be read, or is none.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read(file).with_context(|| file.display().to_string())?;
        serde_json::from_slice(&text).with_context(|| file.display().to_string())
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, file: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(file, text).with_context(|| file.display().to_string())
    }

    /// The count of an operation.
    pub fn of(&self, operation: Operation) -> Option<f64> {
        self.instructions.get(operation.name()).copied()
    }
}

/// Compares a count with that of the baseline.
pub fn compare(baseline: Option<f64>, now: f64) -> Comparison {
    let Some(before) = baseline.filter(|&before| before > 0.0) else { return Comparison::Unknown };
    let percent = (now / before - 1.0) * 100.0;
    if percent > LIMIT_PERCENT {
        Comparison::Worse(percent)
    } else if percent < -LIMIT_PERCENT {
        Comparison::Better(percent)
    } else {
        Comparison::Same(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_limit_is_told() {
        assert!(matches!(compare(Some(1000.0), 1051.0), Comparison::Worse(percent) if percent > 5.0));
        assert!(matches!(compare(Some(1000.0), 949.0), Comparison::Better(percent) if percent < -5.0));
        assert!(matches!(compare(Some(1000.0), 951.0), Comparison::Same(_)));
        assert_eq!(compare(None, 1.0), Comparison::Unknown);
        assert_eq!(compare(Some(0.0), 1.0), Comparison::Unknown);
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let instructions = BTreeMap::from([("lookup".to_owned(), 512.3)]);
        let baseline = Baseline { compiler: "rustc".into(), valgrind: "valgrind".into(), instructions };
        baseline.save(file.path()).unwrap();
        let loaded = Baseline::load(file.path()).unwrap();
        assert_eq!(loaded, baseline);
        assert_eq!((loaded.of(Operation::Lookup), loaded.of(Operation::Wipe)), (Some(512.3), None));
    }
}
