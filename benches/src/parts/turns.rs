//! Subjects that take turns, so that all of them see the same noise.

use anyhow::ensure;

use super::lab::{Lab, Subject};
use crate::{process, results::Results};

/// What a part needs of each of its subjects.
pub(crate) struct Turns<'l, T> {
    lab: &'l Lab,
    part: &'static str,
    all: Vec<(Subject, T)>,
}

impl<'l, T> Turns<'l, T> {
    /// Makes what is needed of each subject; one of which that fails is named as missing.
    ///
    /// # Errors
    /// When the run is interrupted.
    pub(crate) fn prepare(
        lab: &'l Lab,
        part: &'static str,
        subjects: impl IntoIterator<Item = Subject>,
        results: &mut Results,
        mut make: impl FnMut(Subject) -> anyhow::Result<T>,
    ) -> anyhow::Result<Self> {
        let mut turns = Self { lab, part, all: Vec::new() };
        for subject in subjects {
            lab.progress.step(format_args!("{part}: preparing {subject}"));
            match make(subject) {
                Ok(made) => turns.all.push((subject, made)),
                Err(error) => turns.miss(subject, &error, results)?,
            }
        }
        Ok(turns)
    }

    /// Gives each subject its turn, in another order in each round; one that fails is named as missing and has no more
    /// turns.
    ///
    /// # Errors
    /// When the run is interrupted.
    pub(crate) fn round(
        &mut self,
        round: usize,
        results: &mut Results,
        mut turn: impl FnMut(Subject, &mut T, &mut Results) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut failed = Vec::new();
        let count = self.all.len();
        for number in 0..count {
            // Nobody is always first.
            let at = (round + number) % count;
            let (subject, made) = &mut self.all[at];
            self.lab.progress.step(format_args!("{}: round {}, {subject}", self.part, round + 1));
            if let Err(error) = turn(*subject, made, results) {
                failed.push((*subject, error));
            }
            ensure!(!process::are_ended(), "interrupted");
        }
        self.all.retain(|(subject, _)| !failed.iter().any(|(other, _)| other == subject));
        failed.iter().try_for_each(|(subject, error)| self.miss(*subject, error, results))
    }

    /// Lets only this subject go on.
    pub(crate) fn keep(&mut self, subject: Subject) {
        self.all.retain(|(other, _)| *other == subject);
    }

    fn miss(&self, subject: Subject, error: &anyhow::Error, results: &mut Results) -> anyhow::Result<()> {
        ensure!(!process::are_ended(), "interrupted");
        let reason = format!("{}: {error:#}", self.part);
        self.lab.progress.say(format_args!("{subject} is left out of {reason}"));
        results.miss(subject, reason);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_always_first_and_who_fails_is_out() {
        let lab = Lab::for_tests();
        let mut results = Results::default();
        let make = |subject| match subject {
            Subject::Official => anyhow::bail!("no Java"),
            subject => Ok(subject.to_string()),
        };
        let subjects = [Subject::Backend("epoch"), Subject::Floor(1), Subject::Official, Subject::Backend("cached")];
        let mut turns = Turns::prepare(&lab, "storm", subjects, &mut results, make).unwrap();
        let mut seen = Vec::new();
        for round in 0..3 {
            let turn = |subject: Subject, made: &mut String, _: &mut Results| {
                assert_eq!(*made, subject.to_string());
                seen.push((round, made.clone()));
                ensure!(round != 1 || subject != Subject::Floor(1), "gone");
                Ok(())
            };
            turns.round(round, &mut results, turn).unwrap();
        }
        // Who fails again for the same reason is named once.
        Turns::prepare(&lab, "storm", [Subject::Official], &mut results, make).unwrap();
        let order: Vec<&str> = seen.iter().map(|(_, name)| &**name).collect();
        let floor = "floor 1 worker";
        assert_eq!(order, ["epoch", floor, "cached", floor, "cached", "epoch", "epoch", "cached"]);
        let missing: Vec<_> = results.missing.iter().map(|missing| (&*missing.subject, &*missing.reason)).collect();
        assert_eq!(missing, [("official 5.5.0", "storm: no Java"), (floor, "storm: gone")]);
    }
}
