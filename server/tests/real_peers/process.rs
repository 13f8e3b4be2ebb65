//! Child processes that end with the value that holds them, so none survives a failed test.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A JVM on a busy two-core machine needs seconds; this long means that it hangs.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest command waits 60 s for messages.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// Ends each answer of our Java programs.
const END_OF_ANSWER: &str = "\u{4}";

/// Waits until `condition` holds and says how long that took. Panics with `what` when it takes longer than `limit`.
pub(crate) fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
    start.elapsed()
}

/// A `java` command with a small heap and quiet logs, at home in `home`. The main class is the caller's.
pub(crate) fn java(class_path: &str, home: &Path) -> Command {
    let logging = home.join("logback.xml");
    std::fs::write(&logging, "<configuration><root level=\"OFF\"/></configuration>").expect("write logback.xml");
    let mut command = Command::new("java");
    command
        .args(["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=512m"])
        // The 4.9 line reaches into the JDK.
        .args(["--add-opens", "java.base/java.nio=ALL-UNNAMED"])
        .args(["--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"])
        .args(["--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED"])
        .arg(format!("-Drocketmq.home.dir={}", home.display()))
        .arg(format!("-Duser.home={}", home.display()))
        .arg(format!("-Djava.io.tmpdir={}", home.display()))
        .arg(format!("-Drmq.logback.configurationFile={}", logging.display()))
        .args(["-cp", class_path])
        .current_dir(home)
        .env_remove("ROCKETMQ_SERIALIZE_TYPE")
        .env_remove("NAMESRV_ADDR")
        .env_remove("ROCKETMQ_HOME")
        .env_remove("JAVA_TOOL_OPTIONS");
    command
}

/// A program that runs until it is told to end.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    output: Arc<Mutex<String>>,
}

impl Process {
    /// Starts the program and waits until it prints `ready`. Panics with all that it printed when it does not.
    pub(crate) fn start(name: &str, command: &mut Command, ready: &str) -> Self {
        let mut child = spawn(command, Stdio::null());
        let output = Arc::default();
        collect(child.stdout.take().expect("piped"), Arc::clone(&output));
        collect(child.stderr.take().expect("piped"), Arc::clone(&output));
        let mut process = Self { name: name.to_owned(), child, output };
        let deadline = Instant::now() + START_TIMEOUT;
        while !process.output().contains(ready) {
            if let Ok(Some(status)) = process.child.try_wait() {
                panic!("{name} ended, {status}:\n{}", process.output());
            }
            assert!(Instant::now() < deadline, "{name} is not ready after {START_TIMEOUT:?}:\n{}", process.output());
            thread::sleep(Duration::from_millis(10));
        }
        process
    }

    /// Runs the program to its end and gives all that it printed, or that with the reason why it failed.
    pub(crate) fn run(name: &str, command: &mut Command, limit: Duration) -> Result<String, String> {
        let mut child = spawn(command, Stdio::null());
        let output = Arc::default();
        let readers = [
            collect(child.stdout.take().expect("piped"), Arc::clone(&output)),
            collect(child.stderr.take().expect("piped"), Arc::clone(&output)),
        ];
        let mut process = Self { name: name.to_owned(), child, output };
        let deadline = Instant::now() + limit;
        let status = loop {
            match process.child.try_wait().expect("wait for a child") {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    return Err(format!("no end after {limit:?}:\n{}", process.output()));
                }
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        for reader in readers {
            let _ = reader.join();
        }
        if status.success() { Ok(process.output()) } else { Err(format!("{status}:\n{}", process.output())) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn output(&self) -> String {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the program at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            println!("--- {} printed:\n{}", self.name, self.output());
        }
    }
}

/// One of our Java programs that answer lines.
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
    errors: Arc<Mutex<String>>,
    _home: TempDir,
}

impl Program {
    pub(crate) fn start(class_path: &str, main_class: &'static str) -> Self {
        let home = TempDir::with_prefix("peer-").expect("temporary home");
        let mut child = spawn(java(class_path, home.path()).arg(main_class), Stdio::piped());
        let commands = child.stdin.take().expect("piped");
        let output = child.stdout.take().expect("piped");
        let errors = Arc::default();
        collect(child.stderr.take().expect("piped"), Arc::clone(&errors));
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { name: main_class, child, commands, answers, errors, _home: home }
    }

    /// Gives the lines that the program printed for this command.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Vec<String> {
        let line = words.join("\t");
        writeln!(self.commands, "{line}").expect("the program reads commands");
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut lines = Vec::new();
        loop {
            match self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line == END_OF_ANSWER => return lines,
                Ok(line) => lines.push(line),
                Err(why) => {
                    let why = match why {
                        RecvTimeoutError::Timeout => "takes too long",
                        RecvTimeoutError::Disconnected => "ended the program",
                    };
                    let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
                    panic!("{} {words:?} {why}:\n{}\n{errors}", self.name, lines.join("\n"));
                }
            }
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(command: &mut Command, input: Stdio) -> Child {
    let program = command.get_program().display().to_string();
    command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("start {program}: {error}"))
}

fn collect(stream: impl Read + Send + 'static, output: Arc<Mutex<String>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut lines = BufReader::new(stream).split(b'\n').map_while(Result::ok);
        for line in &mut lines {
            let mut text = output.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
        }
    })
}
