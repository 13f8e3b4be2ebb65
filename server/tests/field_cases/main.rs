//! What went wrong elsewhere: public reports about name servers, each as a short test over TCP.
//!
//! Lost, stale and torn routes, surprises of the wire format, and what operators ran into. Cases that need a kill, a
//! signal or another clock are in `faults`.

#[path = "../support/mod.rs"]
mod support;

mod administration;
mod routes;
mod wire;

use serde_json::Value;

use crate::support::broker::{cluster_info, route};
use crate::support::canonical::Body;
use crate::support::frame::{Client, Frame};

/// The JSON body of a successful answer, object keys and lists sorted.
fn body(answer: &Frame) -> Value {
    assert_eq!(answer.code(), 0, "{}", answer.show());
    Body::parse(answer.body.as_deref().expect("a body")).expect("JSON").value
}

fn route_of(client: &mut Client, topic: &str) -> Value {
    body(&client.call(&route(topic)))
}

fn clusters_of(client: &mut Client) -> Value {
    body(&client.call(&cluster_info()))
}

/// The answer of a registry in which nobody is registered.
fn assert_empty(client: &mut Client) {
    assert_eq!(client.call(&cluster_info()).text(), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
}

/// The one permission and number of read queues that a topic of one broker has.
fn perm_and_queues(client: &mut Client, topic: &str) -> (i64, i64) {
    let route = route_of(client, topic);
    let queues = route["queueDatas"].as_array().expect("a list");
    assert_eq!(queues.len(), 1, "{route}");
    let number = |key: &str| queues[0][key].as_i64().expect("a number");
    (number("perm"), number("readQueueNums"))
}
