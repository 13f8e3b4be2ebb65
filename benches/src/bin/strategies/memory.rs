//! Resident memory, of a process for each strategy: what one has left behind must not count for the next.

use std::{env, process::Command};

use anyhow::{Context as _, bail, ensure};
use registry_core::Registry;

use crate::{
    machine::resident_bytes,
    world::{Asker, NOW, World},
};

/// Full registrations, each of which changes every topic.
pub(crate) const REWRITES: usize = 40;

/// Resident bytes that the registry has added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) loaded: u64,
    pub(crate) rewritten: u64,
}

/// Measures a strategy in a new process of this program.
pub(crate) fn measure(strategy: &str, topics: usize) -> anyhow::Result<Memory> {
    let topics = topics.to_string();
    let output = Command::new(env::current_exe()?).args(["--memory-of", strategy, "--topics", &topics]).output()?;
    ensure!(output.status.success(), "{strategy}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().map(str::parse);
    let (Some(loaded), Some(rewritten)) = (numbers.next(), numbers.next()) else {
        bail!("{strategy}: two numbers were to come: {text:?}");
    };
    Ok(Memory { loaded: loaded?, rewritten: rewritten.context("the second number")? })
}

/// In that process.
pub(crate) fn measure_here<R: Registry>(topics: usize) -> anyhow::Result<Memory> {
    let mut world = World::<R>::empty(topics);
    // A registration in use is one copy of the command: its pages are there before.
    drop(world.next_rewrite());
    let before = resident_bytes();
    world.load()?;
    let loaded = resident_bytes().saturating_sub(before);
    // Unlike a worker without requests, it asks between two changes.
    let mut asker = Asker::new(world.registry.reader(), world.topics.clone(), 1);
    for _ in 0..REWRITES {
        let command = world.next_rewrite();
        world.writer.execute(&command, NOW);
        asker.ask();
        asker.refresh();
        world.writer.tick();
    }
    Ok(Memory { loaded, rewritten: resident_bytes().saturating_sub(before) })
}
