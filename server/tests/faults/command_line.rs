//! The command line: what is printed where, and how the process ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::support::broker::{get_config, route};
use crate::support::frame::Client;
use crate::support::local::Local;
use crate::support::ours;
use crate::support::process::{config_file, free_port};

fn home() -> TempDir {
    TempDir::with_prefix("namesrv-").expect("temporary home")
}

/// Runs the binary to its end and says exit code, output and errors.
fn run(home: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = ours::run_to_end(ours::bare(home, arguments));
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn help_goes_to_the_output_and_mistakes_to_the_errors() {
    let home = home();
    for option in ["-h", "--help"] {
        let (code, stdout, stderr) = run(home.path(), &[option]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        for named in ["-c, --configFile", "-h, --help", "-n, --namesrvAddr", "-p, --printConfigItem"] {
            assert!(stdout.contains(named), "{named} in\n{stdout}");
        }
    }
    for (arguments, named) in [
        (&["-x"][..], "-x"),
        (&["--nothing"], "--nothing"),
        (&["-c"], "--configFile"),
        (&["-n"], "--namesrvAddr"),
        (&["start", "-x"], "-x"),
    ] {
        let (code, stdout, stderr) = run(home.path(), arguments);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(stderr.contains(named) && stderr.contains("--help"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_named() {
    let home = home();
    let file = home.path().join("n.properties");
    let path = file.to_str().expect("UTF-8");
    let refused = |what: &str, named: &[&str]| {
        let (code, stdout, stderr) = run(home.path(), &["-c", path]);
        assert_eq!((code, stdout.as_str()), (Some(255), ""), "{what}: {stderr}");
        for part in named {
            assert!(stderr.contains(part), "{what}: {part} in {stderr}");
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
    };
    refused("no file", &[path]);
    fs::write(&file, "# comment\n\nlistenPort=99999\n").expect("write");
    refused("a port too large", &["listenPort", "99999", "65535", path, "line 3"]);
    fs::write(&file, "a=1\nenableTopicList=yes").expect("write");
    refused("no flag", &["enableTopicList", "yes", "true or false", path, "line 2"]);
    fs::write(&file, "enableControllerInNamesrv=true\n").expect("write");
    refused("a controller", &["enableControllerInNamesrv", "mqcontroller"]);
    fs::write(&file, "memoryBytesMax=16777216\n").expect("write");
    refused("memory for one frame", &["memoryBytesMax=16777216", "frameMaxLength=16777216", "67108864"]);
    fs::write(&file, "a=\\u12").expect("write");
    refused("no properties", &[path]);
    fs::remove_file(&file).and_then(|()| fs::create_dir(&file)).expect("a folder");
    refused("a folder", &[path]);
}

#[test]
fn words_are_passed_over_with_a_warning() {
    let home = home();
    for arguments in [&["start", "-p"][..], &["-p", "start"], &["-printConfigItem", "--", "start"]] {
        let (code, stdout, stderr) = run(home.path(), arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
        assert!(stdout.lines().any(|line| line == "listenPort=9876"), "{arguments:?}: {stdout}");
        assert!(stderr.contains("[\"start\"]"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn what_is_printed_is_what_is_in_effect() {
    let config = [("waitSecondsForService", "7"), ("own", "x y"), ("enableTopicList", "FALSE"), ("workerThreads", "2")];
    let server = Local::start(&config);
    let shown = Client::connect(server.addr()).call(&get_config()).text();
    let file = config_file(server.home());
    let (code, stdout, _) = run(server.home(), &["-p", "-c", file.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(0));
    let items: Vec<&str> = stdout.lines().collect();
    assert_eq!(items[0], format!("load config properties file OK, {}", file.display()));
    // The port is whichever was free, and the environments differ in nothing else.
    for line in shown.lines().filter(|line| !line.starts_with("listenPort=")) {
        assert!(items.contains(&line), "{line} in\n{stdout}");
    }
    for line in ["waitSecondsForService=7", "own=x y", "enableTopicList=false"] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in\n{shown}");
    }
}

#[test]
fn a_taken_port_is_named() {
    let home = home();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let file = home.path().join("n.properties");
    fs::write(&file, format!("listenPort={port}\nbindAddress=127.0.0.1\n")).expect("write");
    let (code, stdout, stderr) = run(home.path(), &["-c", file.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(255), "{stderr}");
    assert_eq!(stdout, format!("load config properties file OK, {}\n", file.display()));
    assert!(stderr.contains(&format!("Failed to bind to 127.0.0.1:{port}")), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn the_boot_line_is_the_last_word_before_the_service() {
    for (serialize_type, extra) in [("JSON", ""), ("ROCKETMQ", "serializeType=ROCKETMQ\n")] {
        let home = home();
        let port = free_port();
        let file = home.path().join("n.properties");
        fs::write(&file, format!("listenPort={port}\nbindAddress=127.0.0.1\n{extra}")).expect("write");
        let arguments = ["-c", file.to_str().expect("UTF-8"), "-n", "10.0.0.1:9876"];
        let mut command: Command = ours::bare(home.path(), &arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("spawn namesrv");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut next = || lines.next().expect("a line").expect("UTF-8");
        let (greeting, boot) = (next(), next());
        let answer = Client::connect(([127, 0, 0, 1], port).into()).call(&route("T"));
        child.kill().and_then(|()| child.wait()).expect("end it");
        assert_eq!(greeting, format!("load config properties file OK, {}", file.display()));
        let expected =
            format!("The Name Server boot success. serializeType={serialize_type}, address 127.0.0.1:{port}");
        assert_eq!(boot, expected);
        assert_eq!((answer.code(), answer.binary), (17, serialize_type == "ROCKETMQ"));
    }
}
