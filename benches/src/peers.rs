//! Other name servers, as their users run them: the official one in Java, and rocketmq-rust.
//!
//! Neither is part of this project. The official one comes from Maven, as for the tests of the server; rocketmq-rust is
//! built from its published crate, which takes minutes and is done only when it is asked for.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};

use crate::process::{run, write_config};

/// The official name server as a subject.
pub const OFFICIAL: &str = "official 5.5.0";
/// rocketmq-rust as a subject.
pub const ROCKETMQ_RUST: &str = "rocketmq-rust 1.0.0";

const JAVA_VERSION: &str = "5.5.0";
const RUST_VERSION: &str = "1.0.0";
/// The program of that crate.
const RUST_PROGRAM: &str = "rocketmq-namesrv-rust";

/// The folder with the official jars below `target`; fetched by Maven where it is not there or made from another
/// `pom.xml`.
///
/// # Errors
/// Without `java`; without `mvn`, or when it fails, unless the folder is there.
pub fn official_jars(target: &Path) -> anyhow::Result<PathBuf> {
    run(Command::new("java").arg("-version")).context("no Java")?;
    let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/peers/java/pom.xml");
    let folder = target.join(format!("peers/java-{JAVA_VERSION}"));
    let wanted = fs::read(&pom).with_context(|| pom.display().to_string())?;
    if fs::read(folder.join("pom.xml")).is_ok_and(|used| used == wanted) {
        return Ok(folder);
    }
    // The folder appears whole, by a rename: whoever fetches at the same time makes his own first.
    fs::create_dir_all(target.join("peers"))?;
    let partial = tempfile::TempDir::with_prefix_in("java-", target.join("peers"))?;
    let copied = partial.path().join("jars");
    let mut maven = Command::new("mvn");
    maven
        .args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime", "--file"])
        .arg(&pom)
        .arg(format!("-DoutputDirectory={}", copied.display()));
    run(&mut maven).context("the official jars cannot be fetched")?;
    fs::write(copied.join("pom.xml"), wanted)?;
    let _ = fs::remove_dir_all(&folder);
    fs::rename(&copied, &folder)?;
    Ok(folder)
}

/// How to start the official server: with the options of its own `runserver.sh`, but for a heap of 2 GiB at most, and
/// with its real log configuration. That is `rmq.namesrv.logback.xml` of its jar, which its launcher takes from `conf`:
/// everything from INFO on goes to files below `logs/rocketmqlogs`, through a queue (`AsyncAppender`) but for the root
/// logger. `user.home` is `home`, so they end with the run.
///
/// # Errors
/// When its configuration cannot be written.
pub fn official(jars: &Path, home: &Path, port: u16) -> anyhow::Result<Command> {
    let mut command = Command::new("java");
    command
        .args(["-server", "-Xmx2g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25"])
        .args(["-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0", "-XX:-UseLargePages"])
        .arg(format!("-Drocketmq.home.dir={}", home.display()))
        .arg(format!("-Duser.home={}", home.display()))
        // Other jars have configurations as well; this one is found as a resource of the class path.
        .arg("-Drmq.logback.configurationFile=rmq.namesrv.logback.xml")
        .arg("-cp")
        .arg(jars.join("*"))
        .arg("org.apache.rocketmq.namesrv.NamesrvStartup")
        .arg("-c")
        .arg(write_config(home, port)?);
    for name in ["ROCKETMQ_SERIALIZE_TYPE", "NAMESRV_ADDR", "ROCKETMQ_HOME", "JAVA_TOOL_OPTIONS"] {
        command.env_remove(name);
    }
    Ok(command)
}

/// The program of rocketmq-rust below `target`; built where it is not there and `install` says so.
///
/// # Errors
/// When it is not there and is not to be built, or cannot be.
pub fn rocketmq_rust_program(target: &Path, install: bool) -> anyhow::Result<PathBuf> {
    let root = target.join(format!("peers/rocketmq-rust-{RUST_VERSION}"));
    let program = root.join("bin").join(RUST_PROGRAM);
    if program.exists() {
        return Ok(program);
    }
    if !install {
        bail!("not installed; --install-peers builds it, which takes minutes");
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["install", "--quiet", "rocketmq-namesrv", "--version", RUST_VERSION, "--locked", "--root"]).arg(&root);
    run(&mut cargo).context("cannot be installed")?;
    ensure!(program.exists(), "its package has no program {RUST_PROGRAM}");
    Ok(program)
}

/// How to start rocketmq-rust: with its defaults, logging included.
///
/// # Errors
/// When its configuration cannot be written.
pub fn rocketmq_rust(program: &Path, home: &Path, port: u16) -> anyhow::Result<Command> {
    let file = home.join("namesrv.toml");
    let quoted = |path: PathBuf| serde_json::Value::from(path.display().to_string());
    let text = format!(
        "listenPort = {port}\nbindAddress = \"127.0.0.1\"\nrocketmqHome = {}\nkvConfigPath = {}\nconfigStorePath = {}\n",
        quoted(home.to_owned()),
        quoted(home.join("kvConfig.json")),
        quoted(home.join("namesrv.properties")),
    );
    fs::write(&file, text)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(file).env("ROCKETMQ_HOME", home).env("HOME", home);
    for name in ["ROCKETMQ_SERIALIZE_TYPE", "NAMESRV_ADDR", "RUST_LOG"] {
        command.env_remove(name);
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_not_there_is_told_with_the_remedy() {
        let target = tempfile::tempdir().unwrap();
        let error = rocketmq_rust_program(target.path(), false).unwrap_err().to_string();
        assert!(error.contains("--install-peers"), "{error}");
    }

    #[test]
    fn the_configuration_of_rocketmq_rust_names_the_port() {
        let home = tempfile::tempdir().unwrap();
        let command = rocketmq_rust(Path::new("server"), home.path(), 1_234).unwrap();
        let file = command.get_args().nth(1).unwrap();
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains("listenPort = 1234\n") && text.contains("rocketmqHome = \""), "{text}");
    }
}
