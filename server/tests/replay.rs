//! Replays.
mod support;
use support::{official, process::Settings};
#[test]
fn boots() {
    let Some(mut server) = official::start("boots", &Settings::default()) else { return };
    println!("{} {}", server.addr(), server.output());
    server.restart();
    println!("{} {}", server.addr(), server.output());
}
