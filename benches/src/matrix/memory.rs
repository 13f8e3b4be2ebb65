//! Resident memory, of a process for each strategy: what one has left behind must not count for the next.

use std::{env, process::Command};

use anyhow::{Context as _, bail, ensure};
use registry_core::Registry;

use super::{
    machine::resident_bytes,
    world::{NOW, World},
};
use crate::results::{Measure, Sample};

/// Registrations of all topics, each of which changes every one of them.
const REWRITES: usize = 20;

/// Names of all strategies.
pub(super) const STRATEGIES: [&str; 5] = {
    macro_rules! names {
        ($($module:ident: $registry:ty;)*) => { [$(<$registry>::NAME,)*] };
    }
    backends::strategies!(names)
};

/// Resident bytes that the registry has added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    loaded: u64,
    rewritten: u64,
}

/// Measures a strategy in a new process of this program.
pub(super) fn measure(child_arguments: &[String], strategy: &str, topics: usize) -> anyhow::Result<Memory> {
    let mut command = Command::new(env::current_exe()?);
    command.args(child_arguments).args([strategy, &topics.to_string()]);
    let output = command.output()?;
    ensure!(output.status.success(), "{strategy}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().map(str::parse);
    let (Some(loaded), Some(rewritten)) = (numbers.next(), numbers.next()) else {
        bail!("{strategy}: two numbers were to come: {text:?}");
    };
    Ok(Memory { loaded: loaded?, rewritten: rewritten.context("the second number")? })
}

/// The samples of a strategy, in MiB.
pub(super) fn samples(strategy: &str, topics: usize, rounds: &[Memory]) -> [Sample; 2] {
    let sample = |rewrites: usize, bytes: fn(&Memory) -> u64| {
        let at = [("topics", topics as f64), ("rewrites", rewrites as f64)];
        let mib = rounds.iter().map(|memory| bytes(memory) as f64 / f64::from(1 << 20)).collect();
        Sample::new(Measure::RegistryMemory, strategy, &at, mib)
    };
    [sample(0, |memory| memory.loaded), sample(REWRITES, |memory| memory.rewritten)]
}

/// What the new process does: prints the bytes of a strategy with so many topics on two brokers, before and after many
/// registrations that change all of them.
///
/// # Errors
/// When there is no such strategy.
pub fn child(strategy: &str, topics: usize) -> anyhow::Result<()> {
    macro_rules! measure_named {
        ($($module:ident: $registry:ty;)*) => {
            match strategy {
                $(<$registry>::NAME => measure_here::<$registry>(topics)?,)*
                _ => bail!("{strategy} is no strategy"),
            }
        };
    }
    let Memory { loaded, rewritten } = backends::strategies!(measure_named);
    println!("{loaded} {rewritten}");
    Ok(())
}

fn measure_here<R: Registry>(topics: usize) -> anyhow::Result<Memory> {
    let mut world = World::<R>::empty(topics, topics, 2);
    // A registration in use is one copy of the command: its pages are there before.
    drop(world.next_rewrite());
    let before = resident_bytes();
    world.load()?;
    let loaded = resident_bytes().saturating_sub(before);
    // Unlike a worker without requests, it asks between two changes.
    let mut asker = world.questions().asker(1);
    for _ in 0..REWRITES {
        let command = world.next_rewrite();
        world.writer.execute(&command, NOW);
        asker.ask();
        asker.refresh();
        world.writer.tick();
    }
    Ok(Memory { loaded, rewritten: resident_bytes().saturating_sub(before) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_measured_holds_what_it_was_told() {
        let Memory { loaded, rewritten } = measure_here::<backends::RwLockRegistry>(10_000).unwrap();
        assert!(loaded > 1 << 20 && rewritten > 1 << 20, "{loaded} {rewritten}");
        let error = child("mutex", 1).unwrap_err().to_string();
        assert_eq!(error, "mutex is no strategy");
    }

    #[test]
    fn samples_are_in_mib() {
        let [loaded, rewritten] = samples("epoch", 10, &[Memory { loaded: 2 << 20, rewritten: 3 << 20 }]);
        assert_eq!((loaded.rounds[0], rewritten.rounds[0]), (2.0, 3.0));
        assert!(rewritten.has(&[("rewrites", 20.0), ("topics", 10.0)]));
    }
}
