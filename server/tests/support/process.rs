//! A name server as a child process: own home folder, own loopback port, ended on drop.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A JVM on a busy two-core machine needs seconds; a minute means that it hangs.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const BOOT_LINE: &str = "The Name Server boot success";
/// Another process may take the chosen port between the look and the bind.
const START_TRIES: usize = 3;

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Lines of the `-c` file, besides the port and the paths, which are the harness's.
    pub(crate) config: Vec<(String, String)>,
    /// Answers have binary headers (`rocketmq.serialize.type=ROCKETMQ`).
    pub(crate) binary: bool,
    /// The standard error; `None` is collected.
    pub(crate) stderr: Option<Arc<OwnedFd>>,
}

impl Settings {
    pub(crate) fn with(config: &[(&str, &str)]) -> Self {
        let config = config.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Self { config, ..Self::default() }
    }
}

/// How to launch one kind of server: the home folder, the `-c` file and the settings give the command.
pub(crate) type Launch = fn(home: &Path, config_file: &Path, settings: &Settings) -> Command;

/// A running name server.
#[derive(Debug)]
pub(crate) struct NameServer {
    launch: Launch,
    settings: Settings,
    home: TempDir,
    port: u16,
    child: Child,
    output: Arc<Mutex<String>>,
}

impl NameServer {
    /// Starts a server and waits until it says that it serves. Panics with the server's output when it does not.
    pub(crate) fn start(launch: Launch, settings: &Settings) -> Self {
        let home = TempDir::with_prefix("namesrv-").expect("temporary home");
        let mut last = String::new();
        for _ in 0..START_TRIES {
            let port = free_port();
            write_config(home.path(), port, settings);
            match spawn(launch, home.path(), settings) {
                Ok((child, output)) => {
                    return Self { launch, settings: settings.clone(), home, port, child, output };
                }
                Err(text) => last = text,
            }
        }
        panic!("the name server did not start:\n{last}");
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the server has printed so far, both streams.
    pub(crate) fn output(&self) -> String {
        self.output.lock().expect("output").clone()
    }

    /// Whether the server prints `text` within this time. The log is written by a thread of its own, and then collected.
    pub(crate) fn prints_within(&self, text: &str, time: Duration) -> bool {
        let start = Instant::now();
        while !self.output().contains(text) {
            if start.elapsed() > time {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Stops the server and starts it again with the same files, settings and port.
    pub(crate) fn restart(&mut self) {
        self.stop();
        match spawn(self.launch, self.home.path(), &self.settings) {
            Ok((child, output)) => {
                self.child = child;
                self.output = output;
            }
            Err(text) => panic!("the name server did not start again:\n{text}"),
        }
    }

    /// Asks the server to end, as an operator would, and makes it end when it does not.
    pub(crate) fn stop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }

    /// Sends a signal, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").arg(format!("-{name}")).arg(pid).status().expect("run kill");
        assert!(status.success(), "kill -{name}: {status}");
    }

    /// Waits until the server has ended by itself; `None` when it has not.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for the name server") {
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A number of kB in `/proc/PID/status`, in bytes: `VmRSS` is the memory now, `VmHWM` the most that it ever was.
    pub(crate) fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("Linux's /proc");
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("the field");
        let number: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
        number << 10
    }

    /// Ends the server at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn write_config(home: &Path, port: u16, settings: &Settings) {
    let mut text = String::new();
    let mut line = |key: &str, value: &str| writeln!(text, "{key}={value}").expect("a string grows");
    line("listenPort", &port.to_string());
    line("bindAddress", "127.0.0.1");
    line("kvConfigPath", &home.join("kvConfig.json").display().to_string());
    line("configStorePath", &config_file(home).display().to_string());
    for (key, value) in &settings.config {
        line(key, value);
    }
    fs::write(config_file(home), text).expect("write the configuration");
}

pub(crate) fn config_file(home: &Path) -> PathBuf {
    home.join("namesrv.properties")
}

/// Runs the command until the boot line. The error is all that it printed.
fn spawn(launch: Launch, home: &Path, settings: &Settings) -> Result<(Child, Arc<Mutex<String>>), String> {
    let stderr = match &settings.stderr {
        Some(given) => given.try_clone().expect("another descriptor").into(),
        None => Stdio::piped(),
    };
    let mut child = launch(home, &config_file(home), settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .expect("spawn the name server");
    let output = Arc::new(Mutex::new(String::new()));
    collect(child.stdout.take().expect("piped"), &output);
    if let Some(stderr) = child.stderr.take() {
        collect(stderr, &output);
    }

    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let text = output.lock().expect("output").clone();
        if text.contains(BOOT_LINE) {
            return Ok((child, output));
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("{status}\n{text}"));
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("no boot line within {START_TIMEOUT:?}\n{text}"));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn collect(stream: impl Read + Send + 'static, output: &Arc<Mutex<String>>) {
    let output = Arc::clone(output);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            let mut text = output.lock().expect("output");
            text.push_str(&line);
            text.push('\n');
        }
    });
}

/// A port that nobody listens on. Below the ephemeral range, so that no outgoing connection takes it meanwhile.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 18_000;
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        // Test processes that run at once begin at different places.
        let port = FIRST + (std::process::id().wrapping_mul(61).wrapping_add(n * 7)) % COUNT;
        let port = u16::try_from(port).expect("in the range of ports");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if free && TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_millis(50)).is_err() {
            return port;
        }
    }
}
