//! Replays what the official name server answered to given bytes, against a fresh server each.
//!
//! `REPLAY_TARGET=official` runs the same against the official server, where every step must be as recorded.

#[path = "../support/mod.rs"]
mod support;

mod expectations;
mod scenario;

use std::collections::BTreeSet;
use std::fs;

use scenario::{Scenario, vectors};

macro_rules! scenarios {
    ($($test:ident = $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                scenario::replay($name);
            }
        )*
    };
}

scenarios! {
    every_code_json = "01-every-code-json",
    every_code_binary = "02-every-code-binary",
    every_code_server_binary = "03-every-code-server-binary",
    register_basics = "10-register-basics",
    register_versions = "11-register-versions",
    register_compressed = "12-register-compressed",
    register_crc = "13-register-crc",
    register_odd_bodies = "14-register-odd-bodies",
    register_single_topic = "15-register-single-topic",
    register_state_version = "16-register-state-version",
    roles_and_slaves = "17-roles-and-slaves",
    acting_master = "18-acting-master",
    acting_master_route = "19-acting-master-route",
    group_flags = "20-group-flags",
    heartbeat_904 = "21-heartbeat-904",
    query_data_version_322 = "22-query-data-version-322",
    unregister_104 = "23-unregister-104",
    unregister_incomplete = "24-unregister-incomplete",
    connection_loss = "25-connection-loss",
    delete_topic_with_registration = "26-delete-topic-with-registration",
    register_order_conf = "27-register-order-conf",
    route_json_modes = "30-route-json-modes",
    route_zones = "31-route-zones",
    route_names = "32-route-names",
    static_topics = "33-static-topics",
    filter_servers = "34-filter-servers",
    route_broker_down = "35-route-broker-down",
    need_wait = "36-need-wait",
    listings = "40-listings",
    delete_topic_216 = "42-delete-topic-216",
    register_topic_217 = "43-register-topic-217",
    permissions = "44-permissions",
    kv = "45-kv",
    config = "46-config",
    config_file_keys = "47-config-file-keys",
    headers_json_odd = "50-headers-json-odd",
    headers_binary_odd = "51-headers-binary-odd",
    frames_bad = "52-frames-bad",
    proxy_protocol = "53-proxy-protocol",
    unknown_codes = "54-unknown-codes",
    oneway_and_responses = "55-oneway-and-responses",
    missing_fields = "56-missing-fields",
    real_broker_acting = "real-broker-acting",
    real_broker_acting5 = "real-broker-acting5",
    real_broker_binary = "real-broker-binary",
    real_broker_compressed = "real-broker-compressed",
    real_broker = "real-broker",
    real_client = "real-client",
    real_mqadmin = "real-mqadmin",
}

#[test]
fn every_file_is_replayed() {
    let files: BTreeSet<String> = fs::read_dir(vectors())
        .expect("the vectors")
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_string))
        .collect();
    assert_eq!(files, NAMES.iter().map(|name| name.to_string()).collect());
}

/// Every step that is marked `differs` has our own expectation, and every expectation belongs to a step.
#[test]
fn every_difference_is_written_down() {
    let mut wrong = Vec::new();
    for name in NAMES {
        let scenario = Scenario::read(name);
        for step in scenario.steps.iter().filter(|step| step.differs()) {
            if expectations::of(name, step.number).is_none() {
                wrong.push(format!("{name}, step {}: no expectation of ours", step.number));
            }
        }
        for entry in expectations::TABLE.iter().filter(|entry| entry.file == *name) {
            if !scenario.steps.iter().any(|step| step.number == entry.step && step.may_differ()) {
                wrong.push(format!("{name}, step {}: an expectation without a step that may differ", entry.step));
            }
        }
    }
    for (index, entry) in expectations::TABLE.iter().enumerate() {
        if !NAMES.contains(&entry.file) || entry.section.is_empty() {
            wrong.push(format!("{entry:?}: unknown file or no section"));
        }
        if expectations::TABLE[..index].iter().any(|other| (other.file, other.step) == (entry.file, entry.step)) {
            wrong.push(format!("{entry:?}: twice"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
