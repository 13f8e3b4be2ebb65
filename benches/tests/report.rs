//! `nsbench report` as a program: what it leaves when it is interrupted, when something fails, and without measuring.

mod support;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use benches::{
    client::{Client, Query},
    cluster::{populate, topic_names},
    parts::USUAL_BODY_BYTES,
    results::{Measure, Results},
};
use rustix::process::{Pid, Signal, kill_process};
use support::NameServer;
use tempfile::TempDir;

const NSBENCH: &str = env!("CARGO_BIN_EXE_nsbench");
const TIMEOUT: Duration = Duration::from_secs(60);

/// A folder with a server that knows the command line of ours, and is the floor.
struct World {
    folder: TempDir,
    namesrv: PathBuf,
}

impl World {
    /// `then` is the last line of the server's script, which knows its `port`.
    fn new(then: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let namesrv = folder.path().join("namesrv.sh");
        let pids = folder.path().join("pids");
        let script =
            format!("#!/bin/sh\nport=$(sed -n s/^listenPort=//p \"$2\")\necho $$ >>{}\n{then}\n", pids.display());
        fs::write(&namesrv, script).unwrap();
        fs::set_permissions(&namesrv, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, namesrv }
    }

    fn report(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(NSBENCH);
        command.args(["report", "--only", "start", "--no-peers", "--backends", "epoch", "--namesrv"]);
        command.arg(&self.namesrv).arg("--out").arg(self.out()).args(arguments);
        command.env("TMPDIR", self.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn results(&self) -> Results {
        Results::load(&self.out().join("results.json")).unwrap()
    }

    /// The servers that were started so far.
    fn servers(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

fn runs(process: u32) -> bool {
    // One that has ended and is not waited for has no command line.
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn floor() -> String {
    format!("exec {NSBENCH} floor --port \"$port\"")
}

#[test]
fn an_interrupted_run_keeps_what_it_has_measured_and_leaves_no_server() {
    for signal in [Signal::INT, Signal::TERM] {
        let world = World::new(&floor());
        let child = world.report(&[]).spawn().unwrap();
        // Twenty starts are measured before the one whose memory is, a second later.
        let begin = Instant::now();
        while world.servers().len() < 21 {
            assert!(begin.elapsed() < TIMEOUT, "{:?}", world.servers());
            thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        assert!(said(&output).contains("interrupted"), "{}", said(&output));
        let results = world.results();
        assert!(!results.is_complete && results.missing.iter().all(|missing| missing.subject != "start"));
        let starts = results.of("epoch", Measure::Start, &[]).unwrap();
        assert!(starts.rounds.len() == 20 && starts.rounds.iter().all(|&ms| ms > 0.0), "{starts:?}");
        assert!(fs::read_to_string(world.out().join("report.html")).unwrap().contains("interrupted"));
        let left: Vec<u32> = world.servers().into_iter().filter(|&server| runs(server)).collect();
        assert!(left.is_empty(), "{left:?}");
        let homes = fs::read_dir(world.folder.path()).unwrap().filter_map(Result::ok);
        let homes = homes.filter(|entry| entry.file_name().to_string_lossy().starts_with("nsbench-"));
        assert_eq!(homes.count(), 0, "folders are left");
    }
}

#[test]
fn what_fails_is_named_and_the_run_ends_with_an_error() {
    let world = World::new("echo no memory >&2; exit 3");
    let output = world.report(&["--quick"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let results = world.results();
    let missing = results.missing.iter().find(|missing| missing.subject == "epoch").unwrap();
    assert!(missing.reason.contains("no memory") && missing.reason.starts_with("start"), "{}", missing.reason);
    assert!(results.is_quick && results.of("epoch", Measure::Start, &[]).is_none());
    assert!(said(&output).contains("no memory"), "{}", said(&output));
}

#[test]
fn a_run_of_some_parts_names_the_others() {
    let world = World::new(&floor());
    let output = world.report(&["--quick"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = world.results();
    assert!(results.is_complete && results.machine.cores > 0);
    assert!(results.missing.iter().any(|missing| missing.subject == "storm" && missing.reason.contains("--only")));
    assert_eq!(results.of("epoch", Measure::Start, &[]).unwrap().rounds.len(), 3);
    assert!(results.of("epoch", Measure::IdleMemory, &[]).unwrap().median().unwrap() > 0.5);
}

#[test]
fn results_are_shown_without_measuring() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("results.json");
    let mut results = Results { is_complete: true, ..Results::default() };
    results.machine.processor = "Imaginary 9000".into();
    results.record(Measure::Start, "rwlock", &[], 2.5);
    results.save(&file).unwrap();
    let output = Command::new(NSBENCH).args(["report", "--from"]).arg(&file).output().unwrap();
    assert!(output.status.success() && said(&output).contains("2.5"), "{}", said(&output));
    assert!(fs::read_to_string(folder.path().join("report.html")).unwrap().contains("Imaginary 9000"));
    let gone = Command::new(NSBENCH).args(["report", "--from"]).arg(Path::new("no-such.json")).output().unwrap();
    assert!(!gone.status.success() && said(&gone).contains("no-such.json"), "{}", said(&gone));
}

#[test]
fn an_unknown_part_is_refused_with_those_that_are_known() {
    let output = Command::new(NSBENCH).args(["report", "--only", "start,nonsense"]).output().unwrap();
    assert!(!output.status.success());
    assert!(said(&output).contains("nonsense") && said(&output).contains("avalanche"), "{}", said(&output));
}

#[test]
fn the_floor_sends_as_much_as_a_name_server() {
    let server = NameServer::start();
    let topics = topic_names(1_000);
    let _brokers = populate(server.addr, 0..8, &topics).unwrap();
    let mut client = Client::connect(server.addr).unwrap();
    for topic in [&topics[0], &topics[999]] {
        assert_eq!(client.ask(&Query::route(topic)).unwrap().len(), USUAL_BODY_BYTES);
    }
}
