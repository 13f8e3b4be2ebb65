//! What is wrong with a configuration: errors, with which the server does not start, and warnings.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::FRAMES_IN_MEMORY_MIN;
use super::keys::ValueError;
use super::properties::PropertiesError;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file of `-c` cannot be read.
    #[error("cannot read the configuration file {file}: {source}", file = file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file of `-c` is no properties file.
    #[error("{file}: {source}", file = file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The reason, with the line.
        source: PropertiesError,
    },
    /// A value in the file is not what its key takes.
    #[error("{file}, line {line}: {source}", file = file.display())]
    BadValue {
        /// The file.
        file: PathBuf,
        /// The line on which the property begins.
        line: usize,
        /// Key, value and what would be good.
        source: ValueError,
    },
    /// A value from the environment is not what its key takes.
    #[error("environment: {source}")]
    BadEnvironment {
        /// Key, value and what would be good.
        source: ValueError,
    },
    /// The values are good one by one, but not for this server.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// A path is not set and there is no home folder for its default.
    #[error("{key} is not set, and its default needs a home folder, which is not known")]
    NoHome {
        /// The key.
        key: &'static str,
    },
}

/// Values with which this server does not serve, though their keys take them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// `memoryBytesMax` holds fewer than [`FRAMES_IN_MEMORY_MIN`] frames of `frameMaxLength`.
    #[error(
        "memoryBytesMax={memory} does not hold {FRAMES_IN_MEMORY_MIN} frames of frameMaxLength={frame}: \
         set memoryBytesMax to at least {least}",
        least = frame.saturating_mul(FRAMES_IN_MEMORY_MIN)
    )]
    MemoryHoldsTooFewFrames {
        /// `memoryBytesMax`.
        memory: usize,
        /// `frameMaxLength`.
        frame: usize,
    },
    /// `headerBytesMax` is more than `frameMaxLength`: no frame has room for such a header.
    #[error("headerBytesMax={header} exceeds frameMaxLength={frame}: set headerBytesMax to at most {frame}")]
    HeaderExceedsFrame {
        /// `headerBytesMax`.
        header: usize,
        /// `frameMaxLength`.
        frame: usize,
    },
    /// `enableControllerInNamesrv` is on: brokers would look for a controller that is not here.
    #[error(
        "enableControllerInNamesrv=true: there is no controller in this name server, and brokers would find none: run \
         it by itself (bin/mqcontroller, org.apache.rocketmq.controller.ControllerStartup), name it in controllerAddr \
         of the brokers, and set enableControllerInNamesrv=false here"
    )]
    NoController,
}

/// Something in the configuration that the operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Nobody knows this key; it is kept and shown.
    Unknown {
        /// The key.
        key: String,
        /// The line on which it stands.
        line: usize,
    },
    /// The original knows this key; this server does not honour it.
    Ignored {
        /// The key.
        key: &'static str,
        /// The value, which is not the default.
        value: String,
    },
    /// The same with a value that the original would not take either: its default holds, as there.
    IgnoredValue {
        /// The line on which it stands.
        line: usize,
        /// Key, value and what would be good.
        source: ValueError,
    },
    /// Words on the command line that are no options. The original ignores them silently.
    Words {
        /// The words, each cut to a length that fits a message; the first ones of many.
        words: Vec<String>,
    },
    /// The file names another file for updates, but with `-c` they go to the file of `-c`.
    StorePathReplaced {
        /// The file that was named.
        named: String,
    },
    /// Every user of the machine may replace the file that updates are stored in.
    WorldWritableFolder {
        /// The folder of the file.
        folder: PathBuf,
    },
    /// The file is not UTF-8 and was read as ISO-8859-1.
    NotUtf8,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, line } => write!(f, "line {line}: unknown key {key:?}, kept without effect"),
            Self::Ignored { key, value } => write!(f, "{key}={value:?} has no effect in this server"),
            Self::IgnoredValue { line, source } => write!(f, "line {line}: {source}; it has no effect in this server"),
            Self::Words { words } => {
                write!(f, "ignored on the command line: {words:?}; keys are set in the file of -c")
            }
            Self::StorePathReplaced { named } => {
                write!(f, "configStorePath={named:?} has no effect: updates are stored in the file of -c")
            }
            Self::WorldWritableFolder { folder } => {
                write!(f, "every user of this machine may replace the configuration in {folder:?}")
            }
            Self::NotUtf8 => f.write_str("the configuration file is not UTF-8 and was read as ISO-8859-1"),
        }
    }
}
