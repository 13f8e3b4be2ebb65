//! The official name server, run from its jars.
//!
//! The jars come from Maven once and are kept in `target/peers`. Without `java` or `mvn` the tests that need them are
//! skipped, loudly; with `REQUIRE_PEERS=1` in the environment they fail instead.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::process::{NameServer, Settings};

/// The release that is the measure.
pub(crate) const VERSION: &str = "5.5.0";
/// A first download takes a minute or two; a lock older than this was left by a process that died.
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);

/// Starts an official name server, or says why `what` is skipped.
pub(crate) fn start(what: &str, settings: &Settings) -> Option<NameServer> {
    jars_for(what)?;
    Some(NameServer::start(launch, settings))
}

/// The folder with the official jars, or `None` after the line `SKIP what: why`. Panics with `REQUIRE_PEERS=1`.
pub(crate) fn jars_for(what: &str) -> Option<&'static Path> {
    match jars() {
        Ok(folder) => Some(folder),
        Err(why) if std::env::var("REQUIRE_PEERS").is_ok_and(|value| value == "1") => {
            panic!("{what} needs the official jars: {why}")
        }
        Err(why) => {
            say(&format!("SKIP {what}: {why}"));
            None
        }
    }
}

/// Prints a line that the test runner does not capture.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The folder with the official jars (name server, broker, tools, client); fetched at the first call.
pub(crate) fn jars() -> Result<&'static Path, String> {
    static JARS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    JARS.get_or_init(find_jars).as_deref().map_err(Clone::clone)
}

/// A `java` command with a small heap, its home in `home`, the official jars as class path and quiet logs.
/// The main class and its arguments are the caller's.
pub(crate) fn java(jars: &Path, home: &Path) -> Command {
    let logging = home.join("logback.xml");
    fs::write(&logging, "<configuration><root level=\"OFF\"/></configuration>").expect("write logback.xml");
    let mut command = Command::new("java");
    command
        .args(["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
        .arg(format!("-Drocketmq.home.dir={}", home.display()))
        .arg(format!("-Duser.home={}", home.display()))
        .arg(format!("-Drmq.logback.configurationFile={}", logging.display()))
        .arg("-cp")
        .arg(jars.join("*"))
        .env_remove("ROCKETMQ_SERIALIZE_TYPE")
        .env_remove("NAMESRV_ADDR")
        .env_remove("ROCKETMQ_HOME")
        .env_remove("JAVA_TOOL_OPTIONS");
    command
}

fn launch(home: &Path, config_file: &Path, settings: &Settings) -> Command {
    let mut command = java(jars().expect("looked up before the launch"), home);
    if settings.binary {
        command.arg("-Drocketmq.serialize.type=ROCKETMQ");
    }
    command.arg("org.apache.rocketmq.namesrv.NamesrvStartup").arg("-c").arg(config_file);
    command
}

fn find_jars() -> Result<PathBuf, String> {
    runs("java", "-version")?;
    let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/java/pom.xml");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("inside the target folder");
    let folder = target.join(format!("peers/java-{VERSION}"));
    if is_current(&folder, &pom) {
        return Ok(folder);
    }
    runs("mvn", "-version")?;
    fs::create_dir_all(target.join("peers")).map_err(|error| format!("target/peers: {error}"))?;
    let lock = Lock::take(target.join("peers/java.lock"))?;
    if !is_current(&folder, &pom) {
        copy_jars(&pom, &folder)?;
    }
    drop(lock);
    Ok(folder)
}

/// The folder is complete (it appears by a rename) and made from this very pom.
fn is_current(folder: &Path, pom: &Path) -> bool {
    match (fs::read(folder.join("pom.xml")), fs::read(pom)) {
        (Ok(used), Ok(wanted)) => used == wanted,
        _ => false,
    }
}

fn copy_jars(pom: &Path, folder: &Path) -> Result<(), String> {
    let partial = folder.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    let output = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime", "--file"])
        .arg(pom)
        .arg(format!("-DoutputDirectory={}", partial.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("mvn: {error}"))?;
    if !output.status.success() {
        return Err(format!("mvn: {}\n{}", output.status, String::from_utf8_lossy(&output.stdout)));
    }
    let moved = fs::copy(pom, partial.join("pom.xml")).and_then(|_| {
        let _ = fs::remove_dir_all(folder);
        fs::rename(&partial, folder)
    });
    moved.map_err(|error| format!("{}: {error}", folder.display()))
}

fn runs(program: &str, argument: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {argument}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Keeps two test processes from fetching at once.
pub(crate) struct Lock(PathBuf);

impl Lock {
    pub(crate) fn take(path: PathBuf) -> Result<Self, String> {
        let start = Instant::now();
        while let Err(error) = File::create_new(&path) {
            if start.elapsed() > LOCK_TIMEOUT {
                return Err(format!("{}: {error}; remove it when no test runs", path.display()));
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(Self(path))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
