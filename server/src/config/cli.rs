//! The command line of the original's `mqnamesrv`.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use clap::{Arg, CommandFactory, FromArgMatches, Parser};

use crate::backend;

use super::keys::shown;
use super::{Environment, Loaded, Warning, load};

/// How many of the words that are passed over a warning names.
const WORDS_SHOWN_MAX: usize = 8;

/// Done as asked.
pub const EXIT_OK: u8 = 0;
/// The command line is wrong.
pub const EXIT_USAGE: u8 = 1;
/// The start failed: no configuration, no KV store, no port. Java: -1.
pub const EXIT_FAILED: u8 = 255;

/// The options.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "mqnamesrv", about = "A wire-compatible RocketMQ name server.", infer_long_args = true)]
pub struct Cli {
    /// Name server configuration, a Java properties file. Updates over the network are stored in it
    #[arg(short = 'c', long = "configFile", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Accepted for the sake of old scripts, without effect
    #[arg(short = 'n', long = "namesrvAddr", value_name = "LIST")]
    pub namesrv_addr: Option<String>,
    /// Print every configuration item and exit
    #[arg(short = 'p', long = "printConfigItem")]
    pub print_config_item: bool,
    /// Words such as `start` or `key=value`, which the original ignores.
    #[arg(hide = true)]
    pub words: Vec<OsString>,
    /// Lock strategy of the registry
    #[cfg(feature = "all-backends")]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(backend::NAMES), default_value = backend::DEFAULT)]
    pub backend: String,
}

/// What to print before the process ends, and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: u8,
    /// For the standard output.
    pub stdout: String,
    /// For the standard error.
    pub stderr: String,
}

impl Cli {
    /// The lock strategy that is asked for.
    pub fn backend(&self) -> &str {
        #[cfg(feature = "all-backends")]
        return &self.backend;
        #[cfg(not(feature = "all-backends"))]
        backend::DEFAULT
    }

    /// Reads the command line; the first argument is the name of the program. `version` follows it in `--version`.
    /// As in the original, a long option may be cut short or have one dash, and other words are passed over.
    ///
    /// # Errors
    ///
    /// The help or the version was asked for, or the command line is wrong.
    pub fn parse_from_args<A>(arguments: A, version: &'static str) -> Result<Self, Exit>
    where
        A: IntoIterator<Item: Into<OsString> + Clone>,
    {
        let mut command = Self::command().version(version);
        command.build();
        let longs: Vec<_> = command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect();
        let arguments = arguments.into_iter().map(|argument| with_two_dashes(argument.into(), &longs));
        let parsed = command.try_get_matches_from(arguments);
        parsed.and_then(|matches| Self::from_arg_matches(&matches)).map_err(|error| {
            let text = error.render().to_string();
            match error.use_stderr() {
                true => Exit { code: EXIT_USAGE, stdout: String::new(), stderr: text },
                false => Exit { code: EXIT_OK, stdout: text, stderr: String::new() },
            }
        })
    }

    /// Loads the configuration that the options name. The caller prints [`Loaded::greeting`] and the warnings.
    ///
    /// # Errors
    ///
    /// The configuration cannot be loaded, or `-p` was given.
    pub fn load(&self, environment: &Environment) -> Result<Loaded, Exit> {
        let mut loaded = load(self.config_file.as_deref(), environment).map_err(|error| Exit {
            code: EXIT_FAILED,
            stdout: String::new(),
            stderr: format!("{error}\n"),
        })?;
        if !self.words.is_empty() {
            let words = self.words.iter().take(WORDS_SHOWN_MAX).map(|word| shown(&word.to_string_lossy())).collect();
            loaded.warnings.push(Warning::Words { words });
        }
        if self.print_config_item { Err(printed(&loaded)) } else { Ok(loaded) }
    }
}

/// Java's library takes `-configFile` for `--configFile`, and clap for `-c onfigFile`.
fn with_two_dashes(argument: OsString, longs: &[String]) -> OsString {
    let name = argument.to_str().and_then(|text| text.strip_prefix('-')).and_then(|text| text.split('=').next());
    let is_long = |name: &str| name.len() > 1 && longs.iter().any(|long| long.starts_with(name));
    if !name.is_some_and(is_long) {
        return argument;
    }
    let mut long = OsString::from("-");
    long.push(argument);
    long
}

impl Loaded {
    /// The line that the original prints after it has read a configuration file.
    pub fn greeting(&self) -> Option<String> {
        self.file.as_ref().map(|file| format!("load config properties file OK, {}\n", file.display()))
    }
}

fn printed(loaded: &Loaded) -> Exit {
    let mut stdout = loaded.greeting().unwrap_or_default();
    for (key, value) in &loaded.items {
        writeln!(stdout, "{key}={value}").expect("writing to a String never fails");
    }
    let line = |warning: &Warning| format!("warning: {warning}\n");
    Exit { code: EXIT_OK, stdout, stderr: loaded.warnings.iter().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Cli, Exit> {
        Cli::parse_from_args(["mqnamesrv"].iter().chain(arguments).copied(), "1.2.3 (rwlock)")
    }

    #[test]
    fn takes_the_options_of_the_original() {
        let expected = Cli {
            config_file: Some("f.properties".into()),
            namesrv_addr: Some("a:1;b:2".into()),
            print_config_item: true,
            words: vec![],
            #[cfg(feature = "all-backends")]
            backend: backend::DEFAULT.to_owned(),
        };
        assert_eq!(parse(&["-c", "f.properties", "-n", "a:1;b:2", "-p"]), Ok(expected.clone()));
        let long = ["--configFile", "f.properties", "--namesrvAddr", "a:1;b:2", "--printConfigItem"];
        assert_eq!(parse(&long), Ok(expected.clone()));
        // As Java's library reads them.
        for odd in [
            &["-configFile", "f.properties", "-namesrvAddr=a:1;b:2", "-printConfigItem"][..],
            &["--config", "f.properties", "--namesrv", "a:1;b:2", "--print"],
            &["-cf.properties", "-n=a:1;b:2", "-p"],
        ] {
            assert_eq!(parse(odd), Ok(expected.clone()), "{odd:?}");
        }
        let nothing = Cli {
            config_file: None,
            namesrv_addr: None,
            print_config_item: false,
            words: vec![],
            #[cfg(feature = "all-backends")]
            backend: backend::DEFAULT.to_owned(),
        };
        assert_eq!(parse(&[]), Ok(nothing));
    }

    #[test]
    fn help_and_version_end_well_and_mistakes_with_1() {
        for option in ["-h", "--help"] {
            let exit = parse(&[option]).unwrap_err();
            assert_eq!((exit.code, exit.stderr.as_str()), (EXIT_OK, ""));
            assert!(exit.stdout.contains("--configFile <FILE>"), "{}", exit.stdout);
        }
        for option in ["-V", "--version"] {
            let exit = parse(&[option]).unwrap_err();
            assert_eq!((exit.code, exit.stdout.as_str()), (EXIT_OK, "mqnamesrv 1.2.3 (rwlock)\n"));
        }
        for arguments in [&["-x"][..], &["--nothing"], &["-c"], &["start", "-x"], &["-Dlisten=1"]] {
            let exit = parse(arguments).unwrap_err();
            assert_eq!((exit.code, exit.stdout.as_str()), (EXIT_USAGE, ""), "{arguments:?}");
            assert!(exit.stderr.contains("--help"), "{}", exit.stderr);
        }
    }

    #[test]
    fn words_are_passed_over_wherever_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("n.properties");
        fs::write(&file, "listenPort=1\n").unwrap();
        let file = file.to_str().unwrap();
        for arguments in [
            &["start", "listenPort=2", "-c", file][..],
            &["-c", file, "start", "listenPort=2"],
            &["start", "-c", file, "listenPort=2"],
            &["-c", file, "--", "start", "listenPort=2"],
        ] {
            let loaded = parse(arguments).unwrap().load(&Environment::for_tests()).unwrap();
            assert_eq!(loaded.settings.config().listen_port, 1, "{arguments:?}");
            let words = vec!["start".to_owned(), "listenPort=2".to_owned()];
            assert_eq!(loaded.warnings, [Warning::Words { words }], "{arguments:?}");
        }
        let many = vec!["word\n"; 100];
        let loaded = parse(&many).unwrap().load(&Environment::for_tests()).unwrap();
        let text = loaded.warnings[0].to_string();
        assert!(text.len() < 200 && !text.contains('\n'), "{text}");
        let help = parse(&["-h"]).unwrap_err().stdout;
        assert!(!help.to_lowercase().contains("words"), "{help}");
    }

    #[test]
    fn a_configuration_that_cannot_be_loaded_ends_with_255() {
        let exit = parse(&["-c", "/no/such/file"]).unwrap().load(&Environment::for_tests()).unwrap_err();
        assert_eq!((exit.code, exit.stdout.as_str()), (EXIT_FAILED, ""));
        assert!(exit.stderr.contains("/no/such/file"), "{}", exit.stderr);
    }

    #[test]
    fn prints_what_is_in_effect() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("n.properties");
        fs::write(&file, "listenPort=1\nown=\\u4e2d\nconnectTimeoutMillis=5\nserverWorkerThreads=3\n").unwrap();
        let arguments = ["-p", "-c", file.to_str().unwrap()];
        let exit = parse(&arguments).unwrap().load(&Environment::for_tests()).unwrap_err();
        assert_eq!(exit.code, EXIT_OK);
        let (first, items) = exit.stdout.split_once('\n').unwrap();
        assert_eq!(first, format!("load config properties file OK, {}", file.display()));
        for line in ["listenPort=1", "own=中", "connectTimeoutMillis=5", "rocketmqHome=", "workerThreads=1"] {
            assert!(items.lines().any(|item| item == line), "{line} in {items}");
        }
        let loaded = load(Some(&file), &Environment::for_tests()).unwrap();
        let shown = String::from_utf8(loaded.settings.text().to_vec()).unwrap();
        assert!(shown.lines().all(|line| items.lines().any(|item| item == line)), "{shown}");
        assert_eq!(exit.stderr.lines().count(), 2, "{}", exit.stderr);
    }
}
