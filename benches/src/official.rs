//! The official name server, from the jars that the tests of the server use as well.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};

use crate::process::write_config;

/// The release that is measured.
pub const VERSION: &str = "5.5.0";

/// The folder with the jars below `target`; fetched by Maven where it is not there or made from another `pom.xml`.
///
/// # Errors
/// Without `mvn`, or when it fails.
pub fn jars(target: &Path) -> anyhow::Result<PathBuf> {
    let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/peers/java/pom.xml");
    let folder = target.join(format!("peers/java-{VERSION}"));
    let wanted = fs::read(&pom).with_context(|| pom.display().to_string())?;
    if fs::read(folder.join("pom.xml")).is_ok_and(|used| used == wanted) {
        return Ok(folder);
    }
    // The folder appears whole, by a rename: whoever fetches at the same time makes his own first.
    fs::create_dir_all(target.join("peers"))?;
    let partial = tempfile::TempDir::with_prefix_in("java-", target.join("peers"))?;
    let copied = partial.path().join("jars");
    let output = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime", "--file"])
        .arg(&pom)
        .arg(format!("-DoutputDirectory={}", copied.display()))
        .stdin(Stdio::null())
        .output()
        .context("mvn")?;
    ensure!(output.status.success(), "mvn: {}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    fs::write(copied.join("pom.xml"), wanted)?;
    let _ = fs::remove_dir_all(&folder);
    fs::rename(&copied, &folder)?;
    Ok(folder)
}

/// How to start the official server: with the options of its own `runserver.sh`, but for a heap of 2 GiB at most, and
/// with its log switched off, which is for its good.
///
/// # Errors
/// When its files cannot be written.
pub fn namesrv(jars: &Path, home: &Path, port: u16) -> anyhow::Result<Command> {
    let logging = home.join("logback.xml");
    fs::write(&logging, "<configuration><root level=\"OFF\"/></configuration>")?;
    let mut command = Command::new("java");
    command
        .args(["-server", "-Xmx2g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25"])
        .args(["-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0", "-XX:-UseLargePages"])
        .arg(format!("-Drocketmq.home.dir={}", home.display()))
        .arg(format!("-Duser.home={}", home.display()))
        .arg(format!("-Drmq.logback.configurationFile={}", logging.display()))
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
