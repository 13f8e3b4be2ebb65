//! What the peers are made of: fetched by the ordinary clients of their registries, kept in `target/peers`.
//!
//! A folder there is complete, because it appears by a rename, and names in its file `made-from` what it was made
//! from, so that a changed program or version is made anew.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::support::official::{self, Lock};

/// The last release of the 4.9 line that has the fixes of the name server's configuration.
pub(crate) const OLD_VERSION: &str = "4.9.7";

/// Gives what a test cannot do without, or says why the test is skipped. Panics with `REQUIRE_PEERS=1`.
pub(crate) fn required<T>(test: &str, found: Result<T, String>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(why) if std::env::var("REQUIRE_PEERS").is_ok_and(|value| value == "1") => {
            panic!("{test} cannot run: {why}")
        }
        Err(why) => {
            println!("SKIP {test}: {why}");
            None
        }
    }
}

/// The folder with the sources of the peers.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers")
}

/// Jars and our compiled programs, as a class path.
pub(crate) fn java() -> Result<String, String> {
    let jars = official::jars()?.join("*").display().to_string();
    let programs = compiled("java-programs", &["java/Mqadmin.java", "java/Traffic.java"], &jars)?;
    Ok(format!("{}:{jars}", programs.display()))
}

/// The same for the 4.9 line: its broker and its client.
pub(crate) fn old_java() -> Result<String, String> {
    let pom = "java-4.9.7/pom.xml";
    let folder = installed(&format!("java-{OLD_VERSION}"), &[pom], |folder| {
        run(Command::new("mvn")
            .args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime", "--file"])
            .arg(sources().join(pom))
            .arg(format!("-DoutputDirectory={}", folder.display())))
    })?;
    let jars = folder.join("*").display().to_string();
    let programs = compiled("java-4.9.7-programs", &["java/Traffic.java"], &jars)?;
    Ok(format!("{}:{jars}", programs.display()))
}

/// The Go client, built.
pub(crate) fn go() -> Result<PathBuf, String> {
    let folder = installed("go", &["go/main.go", "go/go.mod", "go/go.sum"], |folder| {
        run(Command::new("go")
            .args(["build", "-o"])
            .arg(folder.join("traffic"))
            .arg(".")
            .current_dir(sources().join("go")))
    })?;
    Ok(folder.join("traffic"))
}

/// The folder with the Python packages.
pub(crate) fn python() -> Result<PathBuf, String> {
    run(Command::new("python3").arg("--version"))?;
    let requirements = "python/requirements.txt";
    installed("python", &[requirements], |folder| {
        run(Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"])
            .arg(folder)
            .arg("--requirement")
            .arg(sources().join(requirements)))
    })
}

/// The folder with the Node packages.
pub(crate) fn node() -> Result<PathBuf, String> {
    run(Command::new("node").arg("--version"))?;
    let manifests = ["node/package.json", "node/package-lock.json"];
    let folder = installed("node", &manifests, |folder| {
        for manifest in manifests {
            let manifest = sources().join(manifest);
            let name = manifest.file_name().expect("a file");
            fs::copy(&manifest, folder.join(name)).map_err(|error| format!("{}: {error}", manifest.display()))?;
        }
        run(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder))
    })?;
    Ok(folder.join("node_modules"))
}

fn compiled(name: &str, programs: &[&str], class_path: &str) -> Result<PathBuf, String> {
    installed(name, programs, |folder| {
        let mut javac = Command::new("javac");
        javac.arg("-cp").arg(class_path).arg("-d").arg(folder);
        run(javac.args(programs.iter().map(|program| sources().join(program))))
    })
}

/// The folder `target/peers/<name>`, made by `make` unless it is there and was made from the same `inputs`.
fn installed(name: &str, inputs: &[&str], make: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    // Threads of this process wait here, other processes at the lock file.
    static MADE: Mutex<Option<HashMap<String, Result<PathBuf, String>>>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    if let Some(known) = made.get(name) {
        return known.clone();
    }
    let outcome = find_or_make(name, inputs, make);
    made.insert(name.to_owned(), outcome.clone());
    outcome
}

fn find_or_make(
    name: &str,
    inputs: &[&str],
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let peers = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("inside the target folder").join("peers");
    fs::create_dir_all(&peers).map_err(|error| format!("{}: {error}", peers.display()))?;
    let folder = peers.join(name);
    let made_from = contents(inputs)?;
    let is_current = || fs::read(folder.join("made-from")).is_ok_and(|stamp| stamp == made_from);
    if is_current() {
        return Ok(folder);
    }
    let _lock = Lock::take(peers.join(format!("{name}.lock")))?;
    if is_current() {
        return Ok(folder);
    }
    let partial = peers.join(format!("{name}.partial"));
    let _ = fs::remove_dir_all(&partial);
    let failed = |error: std::io::Error| format!("{}: {error}", partial.display());
    fs::create_dir_all(&partial).map_err(failed)?;
    make(&partial)?;
    fs::write(partial.join("made-from"), &made_from).map_err(failed)?;
    let _ = fs::remove_dir_all(&folder);
    fs::rename(&partial, &folder).map_err(failed)?;
    Ok(folder)
}

fn contents(inputs: &[&str]) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    for input in inputs {
        let file = sources().join(input);
        all.extend(fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(all)
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("{program}: {}\n{out}{err}", output.status))
}
