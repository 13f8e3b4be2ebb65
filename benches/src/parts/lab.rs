//! The servers that are compared: found, built and started.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;

use super::{NOT_ASKED_FOR, progress::Progress};
use crate::{
    instructions::Programs,
    peers,
    process::{self, Server},
    results::{BACKENDS, Results},
};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Fewer and shorter rounds.
    pub is_quick: bool,
    /// Also other name servers.
    pub with_peers: bool,
    /// Build peers that are not there.
    pub install_peers: bool,
    /// The strategies, of [`BACKENDS`].
    pub backends: Vec<String>,
    /// This program instead of a `namesrv` that is built; it has to know `--backend`.
    pub namesrv: Option<PathBuf>,
    /// The load tool, of which the floor is a command.
    pub nsbench: PathBuf,
    /// Cargo's target folder, where the peers are.
    pub target: PathBuf,
}

/// Whoever is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Our server with this strategy.
    Backend(&'static str),
    /// The canned answer with so many workers.
    Floor(usize),
    /// The official server.
    Official,
    /// rocketmq-rust.
    RocketmqRust,
}

impl Subject {
    /// Whether it is a name server of others.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Self::Official | Self::RocketmqRust)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(name) => f.write_str(name),
            Self::Floor(1) => f.write_str("floor 1 worker"),
            Self::Floor(workers) => write!(f, "floor {workers} workers"),
            Self::Official => f.write_str(peers::OFFICIAL),
            Self::RocketmqRust => f.write_str(peers::ROCKETMQ_RUST),
        }
    }
}

/// The programs that are measured, and how much of a run there is to be.
#[derive(Debug)]
pub struct Lab {
    /// Fewer and shorter rounds.
    pub is_quick: bool,
    /// Says what is going on.
    pub progress: Progress,
    backends: Vec<&'static str>,
    namesrv: PathBuf,
    nsbench: PathBuf,
    official: Option<PathBuf>,
    rocketmq_rust: Option<PathBuf>,
    /// Where our program stays the one that was built, whatever Cargo builds meanwhile.
    _programs: TempDir,
}

impl Lab {
    /// Builds our server and finds the others; those that are not there are named in `results`.
    ///
    /// # Errors
    /// When our server cannot be built, or a strategy is unknown.
    pub fn prepare(wishes: &Wishes, progress: Progress, results: &mut Results) -> anyhow::Result<Self> {
        let find = |name: &String| BACKENDS.into_iter().find(|known| known == name).context(name.clone());
        let backends = wishes.backends.iter().map(find).collect::<anyhow::Result<Vec<_>>>();
        let backends = backends.with_context(|| format!("a strategy that is none of {}", BACKENDS.join(", ")))?;
        ensure!(!backends.is_empty(), "no strategy is to be measured");
        raise_file_limit();
        let programs = TempDir::with_prefix("nsbench-")?;
        let namesrv = match &wishes.namesrv {
            Some(program) => program.canonicalize().with_context(|| program.display().to_string())?,
            None => {
                progress.say("building namesrv with all strategies");
                build_namesrv(programs.path())?
            }
        };
        let mut lab = Self {
            is_quick: wishes.is_quick,
            progress,
            backends,
            namesrv,
            nsbench: wishes.nsbench.clone(),
            official: None,
            rocketmq_rust: None,
            _programs: programs,
        };
        lab.find_peers(wishes, results);
        Ok(lab)
    }

    fn find_peers(&mut self, wishes: &Wishes, results: &mut Results) {
        let mut keep = |name: &str, found: anyhow::Result<PathBuf>| {
            found.map_err(|error| results.miss(name, format!("{error:#}"))).ok()
        };
        if !wishes.with_peers {
            for name in [peers::OFFICIAL, peers::ROCKETMQ_RUST] {
                results.miss(name, format!("{NOT_ASKED_FOR} (--no-peers)"));
            }
            return;
        }
        self.progress.say("looking for the other name servers");
        self.official = keep(peers::OFFICIAL, peers::official_jars(&wishes.target));
        let found = peers::rocketmq_rust_program(&wishes.target, wishes.install_peers);
        self.rocketmq_rust = keep(peers::ROCKETMQ_RUST, found);
    }

    /// Our strategies.
    pub(crate) fn backends(&self) -> impl Iterator<Item = Subject> {
        self.backends.iter().copied().map(Subject::Backend)
    }

    /// The default strategy, or the first of those that were asked for.
    pub(crate) fn default_backend(&self) -> Subject {
        Subject::Backend(if self.backends.contains(&BACKENDS[0]) { BACKENDS[0] } else { self.backends[0] })
    }

    /// The floor in both forms.
    pub(crate) fn floors(&self) -> [Subject; 2] {
        [Subject::Floor(1), Subject::Floor(2)]
    }

    /// Other name servers that are there.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Subject> {
        let official = self.official.is_some().then_some(Subject::Official);
        official.into_iter().chain(self.rocketmq_rust.is_some().then_some(Subject::RocketmqRust))
    }

    /// All name servers, ours first; those of others when they take part.
    pub(crate) fn name_servers(&self, with_peers: bool) -> Vec<Subject> {
        self.backends().chain(self.peers().filter(|_| with_peers)).collect()
    }

    /// Starts a subject; a floor answers with so many bytes.
    pub(crate) fn start(&self, subject: Subject, body_bytes: usize) -> anyhow::Result<Server> {
        Server::start(|home, port| match (subject, &self.official, &self.rocketmq_rust) {
            (Subject::Backend(name), ..) => {
                let mut command = process::namesrv(&self.namesrv, home, port)?;
                command.args(["--backend", name]);
                Ok(command)
            }
            (Subject::Floor(workers), ..) => {
                let mut command = Command::new(&self.nsbench);
                command.arg("floor");
                let flags = [("--port", usize::from(port)), ("--workers", workers), ("--body-bytes", body_bytes)];
                for (flag, value) in flags {
                    command.arg(flag).arg(value.to_string());
                }
                Ok(command)
            }
            (Subject::Official, Some(jars), _) => peers::official(jars, home, port),
            (Subject::RocketmqRust, _, Some(program)) => peers::rocketmq_rust(program, home, port),
            (Subject::Official | Subject::RocketmqRust, ..) => bail!("{subject} is not there"),
        })
        .with_context(|| format!("{subject} does not start"))
    }

    /// The programs whose instructions are counted.
    pub(crate) fn build_instructions(&self) -> anyhow::Result<Programs> {
        self.progress.step("instructions: building");
        Ok(Programs { instructions: build("benches", "instructions", &[])?, namesrv: self.namesrv.clone() })
    }

    /// How long a subject is loaded before it is measured: the compiler of a Java machine needs it.
    pub(crate) fn warm_up(&self, subject: Subject) -> Duration {
        match (subject, self.is_quick) {
            (Subject::Official, true) => Duration::from_secs(2),
            (Subject::Official, false) => Duration::from_secs(10),
            (_, true) => Duration::from_millis(50),
            (_, false) => Duration::from_millis(500),
        }
    }

    /// Waits until nothing of what servers needed only for a while is left in their memory: ours sweep in steps, a second
    /// apart at most.
    ///
    /// # Errors
    /// When the run is interrupted.
    pub(crate) fn settle(&self, part: &str) -> anyhow::Result<()> {
        self.progress.step(format_args!("{part}: waiting until memory has settled"));
        process::sleep(Duration::from_secs(if self.is_quick { 6 } else { 8 }))
    }

    /// A lab without programs.
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        Self {
            is_quick: true,
            progress: Progress::hidden(),
            backends: BACKENDS.into(),
            namesrv: PathBuf::new(),
            nsbench: PathBuf::new(),
            official: None,
            rocketmq_rust: None,
            _programs: TempDir::new().expect("a folder for temporary files"),
        }
    }
}

/// Builds our server, and copies it: another build would replace it.
fn build_namesrv(folder: &Path) -> anyhow::Result<PathBuf> {
    let built = build("server", "namesrv", &["--features", "all-backends"])?;
    let program = folder.join("namesrv");
    fs::copy(&built, &program).with_context(|| built.display().to_string())?;
    Ok(program)
}

/// Builds a program in the profile of this one, and says where it is.
fn build(package: &str, program: &str, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--message-format=json", "-p", package, "--bin", program]).args(arguments);
    command.arg("--manifest-path").arg(manifest);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    program_of(&process::run(&mut command)?).with_context(|| format!("cargo builds no {program}"))
}

/// The program that Cargo says it has built.
fn program_of(messages: &[u8]) -> Option<PathBuf> {
    let messages = messages.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    messages.filter_map(|message: serde_json::Value| Some(message.get("executable")?.as_str()?.into())).next_back()
}

/// Each connection is an open file, of us and of the server, which inherits the limit. Where the system says no, the part
/// that needs them fails.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_one_of_the_last_message() {
        let messages = b"{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"executable\":\"target/debug/namesrv\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(program_of(messages), Some("target/debug/namesrv".into()));
        assert_eq!(program_of(b"error"), None);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let target = tempfile::tempdir().unwrap();
        let wishes = Wishes {
            is_quick: true,
            with_peers: false,
            install_peers: false,
            backends: vec!["epoch".into(), "cached".into()],
            namesrv: Some(env::current_exe().unwrap()),
            nsbench: PathBuf::new(),
            target: target.path().to_owned(),
        };
        let mut results = Results::default();
        let lab = Lab::prepare(&wishes, Progress::hidden(), &mut results).unwrap();
        assert!(results.missing.iter().map(|missing| &*missing.subject).eq([peers::OFFICIAL, peers::ROCKETMQ_RUST]));
        assert_eq!(lab.name_servers(true), [Subject::Backend("epoch"), Subject::Backend("cached")]);
        assert_eq!(lab.default_backend(), Subject::Backend("epoch"));
        let unknown = Wishes { backends: vec!["mutex".into()], ..wishes };
        let error = Lab::prepare(&unknown, Progress::hidden(), &mut results).unwrap_err();
        assert!(format!("{error:#}").contains("mutex"), "{error:#}");
    }

    #[test]
    fn subjects_have_the_names_of_the_report() {
        let names = [Subject::Backend("left-right"), Subject::Floor(1), Subject::Floor(2), Subject::Official];
        assert_eq!(
            names.map(|subject| subject.to_string()),
            ["left-right", "floor 1 worker", "floor 2 workers", "official 5.5.0"]
        );
    }
}
