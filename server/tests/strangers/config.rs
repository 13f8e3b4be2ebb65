//! Configurations and command lines as people have them: what is usual starts without a complaint, what cannot be served
//! does not start, and updates say when they take effect.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::report::{at_most, holds};
use crate::support::broker::{Broker, get_config, put_kv, route, update_config};
use crate::support::frame::{Client, Frame};
use crate::support::official::say;
use crate::support::ours;
use crate::support::process::{NameServer, Settings, config_file};

const EXIT_FAILED: i32 = 255;

/// As units and images start the original: words around the options, long options with one dash.
fn with_words(home: &Path, file: &Path, settings: &Settings) -> Command {
    let usual = ours::launch(home, file, settings);
    let mut command = Command::new(usual.get_program());
    command.args(["start", "listenPort=1", "-configFile"]).args(usual.get_args().skip(1)).arg("autocreate");
    command.current_dir(home);
    for (key, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

/// Starts with these lines, and must end with the code of a bad configuration. Says what it printed.
fn refused(lines: &str) -> String {
    let home = TempDir::with_prefix("namesrv-").expect("temporary home");
    let file = config_file(home.path());
    fs::write(&file, format!("listenPort=0\nbindAddress=127.0.0.1\n{lines}\n")).expect("write the configuration");
    let output = ours::run_to_end(ours::bare(home.path(), &["-c", file.to_str().expect("UTF-8")]));
    assert_eq!(output.status.code(), Some(EXIT_FAILED), "{lines}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn shown(server: &NameServer, line: &str) -> bool {
    Client::connect(server.addr()).call(&get_config()).text().lines().any(|shown| shown == line)
}

fn remark(answer: &Frame) -> &str {
    answer.remark().unwrap_or_default()
}

/// Whether the server prints `text`; lines of the log come soon after the boot line.
fn prints(server: &NameServer, text: &str) -> bool {
    server.prints_within(text, Duration::from_secs(10))
}

#[test]
fn words_blanks_and_bad_values_without_effect_do_not_stop_the_start() {
    let lines = [
        ("waitSecondsForService", "47 \t"),
        ("enableTopicList", "false "),
        ("clientRequestThreadPoolNums", "abc"),
        ("useTLS", "maybe"),
        ("own", "1"),
    ];
    let server = NameServer::start(with_words, &Settings::with(&lines));
    let code = Client::connect(server.addr()).code(&route("T"));
    holds("20", "starts with words on the command line and serves", code == 17);
    holds("20", "says which words it ignores", prints(&server, r#"["start", "listenPort=1", "autocreate"]"#));
    let are_trimmed = shown(&server, "waitSecondsForService=47") && shown(&server, "enableTopicList=false");
    holds("20", "blanks behind values are trimmed", are_trimmed);
    let is_said = prints(&server, r#"clientRequestThreadPoolNums: "abc""#) && prints(&server, r#"useTLS: "maybe""#);
    holds("20", "a bad value of a key without effect warns", is_said);
    holds("20", "and its default is shown", shown(&server, "clientRequestThreadPoolNums=8"));
    let stderr = refused("waitSecondsForService=abc");
    holds(
        "20",
        "a bad value of a key with an effect stops the start",
        stderr.contains("waitSecondsForService: \"abc\""),
    );
}

#[test]
fn an_update_that_takes_effect_later_is_stored_and_says_so() {
    let mut server = ours::start(&Settings::with(&[]));
    let long = "v".repeat(8 << 10);
    let mut client = Client::connect(server.addr());
    let answer = client.call(&update_config("frameMaxLength=4096\nserverWorkerThreads=3 \nenableTopicList=false"));
    let expected = "frameMaxLength: stored; takes effect after a restart. \
                    serverWorkerThreads: stored; has no effect in this server";
    let is_said = answer.code() == 0 && remark(&answer) == expected;
    holds("20", "318 with keys that need a restart or have no effect succeeds and says when", is_said);
    holds("20", "such a key has no effect before the restart", client.code(&put_kv("NS", "k", &long)) == 0);
    let answer = client.call(&update_config("enableTopicList=true"));
    holds("20", "318 with live keys says nothing", answer.code() == 0 && answer.remark().is_none());
    server.restart();
    let mut client = Client::connect(server.addr());
    client.send(&put_kv("NS", "k", &long).encode());
    let is_in_effect = client.is_closed_within(Duration::from_secs(10));
    holds("20", "after a restart it has", is_in_effect && shown(&server, "serverWorkerThreads=3"));
}

#[test]
fn unknown_keys_and_bad_values_are_refused_as_a_whole_wherever_they_stand() {
    let server = ours::start(&Settings::with(&[("own", "1")]));
    let read = || fs::read(config_file(server.home())).expect("the file");
    let before = read();
    let mut client = Client::connect(server.addr());
    let mut is_refused = |line: &str| {
        let answer = client.call(&update_config(&format!("enableTopicList=false\n{line}")));
        let (key, _) = line.split_once('=').expect("key=value");
        let names = answer.code() != 0 && remark(&answer).contains(key);
        names && read() == before && shown(&server, "enableTopicList=true")
    };
    for line in ["listenPort=x", "serverWorkerThreads=x"] {
        holds("20", &format!("{line}, a bad value, is refused with all of its update"), is_refused(line));
    }
    for line in ["enableControllerInNamesrv=true", "memoryBytesMax=1048576"] {
        holds("20", &format!("{line}, which would stop the next start, is refused"), is_refused(line));
    }
    for line in ["adminAllowCidrs=0.0.0.0/0", "proxyProtocolTrusted=0.0.0.0/0"] {
        holds("20", &format!("{line}, which says who is trusted, is refused"), is_refused(line));
    }
    for line in ["nobodyKnows=1", "own=2"] {
        holds("21", &format!("{line}, of an unknown key, is refused, in the file or not"), is_refused(line));
    }
}

/// Row 15: what is shown and what the writer does, which deletes topics or does not.
#[test]
#[ignore = "takes long"]
fn two_updates_at_once_have_one_order() {
    const ROUNDS: i64 = 600;
    let server = ours::start(&Settings::default());
    let mut updaters = ["true", "false"].map(|value| {
        (update_config(&format!("deleteTopicWithBrokerRegistration={value}")), Client::connect(server.addr()))
    });
    let mut client = Client::connect(server.addr());
    let mut disagree = 0;
    for round in 0..ROUNDS {
        thread::scope(|scope| {
            for (update, updater) in &mut updaters {
                scope.spawn(|| assert_eq!(updater.code(update), 0));
            }
        });
        for (counter, topics) in [(2 * round, &["A", "B"][..]), (2 * round + 1, &["A"])] {
            assert_eq!(client.code(&Broker::new("b", 0, "10.0.0.1:1", topics).at(counter).register()), 0);
        }
        let deletes = client.code(&route("B")) == 17;
        disagree += i64::from(deletes != shown(&server, "deleteTopicWithBrokerRegistration=true"));
    }
    at_most("15", "of 600 rounds of two updates after which the settings and the writer disagree", disagree, 0);
}

#[test]
fn an_ipv6_address_in_brackets_is_bound() {
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        say(&format!("SKIP an_ipv6_address_in_brackets_is_bound: {error}"));
        return;
    }
    let server = NameServer::start(ours::launch, &Settings::with(&[("bindAddress", "[::]")]));
    let port = server.addr().port();
    let code = Client::connect((Ipv6Addr::LOCALHOST, port).into()).code(&route("T"));
    holds("21", "bindAddress=[::] is bound as ::", code == 17 && shown(&server, "bindAddress=::"));
    holds("21", "the boot line has it in brackets", server.output().contains(&format!("address [::]:{port}\n")));
}

#[test]
fn a_controller_that_is_not_here_stops_the_start() {
    let stderr = refused("enableControllerInNamesrv=true");
    let names = ["enableControllerInNamesrv=true", "mqcontroller", "ControllerStartup"];
    holds(
        "21",
        "a start with the controller is refused and names what to run",
        names.iter().all(|name| stderr.contains(name)),
    );
}

#[test]
fn what_is_usual_warns_of_nothing_and_says_who_may_change_the_configuration() {
    // The harness writes configStorePath as well: the file of -c itself.
    let plain = ours::start(&Settings::with(&[]));
    let is_said = prints(&plain, "from=127.0.0.0/8,::1/128") && prints(&plain, "adminAllowCidrs");
    holds("21", "one line says from where and with which key the configuration may be changed", is_said);
    let is_quiet = |server: &NameServer| !server.output().contains("WARN");
    holds("21", "configStorePath that names the file of -c warns of nothing", is_quiet(&plain));
    let usual = ours::start(&Settings::with(&[("configStorePath", "/home/rocketmq/namesrv/namesrv.properties")]));
    prints(&usual, "adminAllowCidrs");
    holds("21", "nor does the default of the original", is_quiet(&usual));
    let other = ours::start(&Settings::with(&[("configStorePath", "/elsewhere/x.properties")]));
    holds("21", "another file is said", prints(&other, "/elsewhere/x.properties"));

    let named = ours::start(&Settings::with(&[("adminAllowCidrs", "127.0.0.5")]));
    holds("21", "the line names what is configured", prints(&named, "from=127.0.0.5/32"));
    let update = update_config("enableTopicList=false");
    let refused = Client::connect(named.addr()).call(&update);
    holds(
        "21",
        "others are refused, with the key",
        refused.code() == 16 && remark(&refused).contains("adminAllowCidrs"),
    );
    let taken = Client::connect_from(Ipv4Addr::new(127, 0, 0, 5), named.addr()).code(&update);
    holds("21", "and it is taken", taken == 0);
}
