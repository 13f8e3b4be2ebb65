//! The lock strategies side by side, in one process and without sockets: what readers and the writer do to each other.
//!
//! Beside the strategies stand two that may not serve: `frozen`, a map that never changes for its readers, the floor under
//! every read; and `dirty`, concurrent maps without a protocol, whose answers are to be found wrong. The subjects take
//! turns in short rounds and nobody is always first, so the rounds of one can be compared with those of another.
//!
//! What is measured, with the topics on two brokers, one of which changes (up to 10,000 topics of it):
//!
//! | part | topics | measures |
//! |---|---|---|
//! | open loop: a read every 4 to 10 us on one processor, a writer on another one | 10,000 with every [`Mix`]; 1,000 and 100,000 without changes and with registrations | latency of reads, torn answers |
//! | closed loop of readers on their processors | 10,000 without changes and with registrations; 1,000 and 100,000 without changes | reads a second of wall and of processor time, by threads |
//! | changes one after the other, with readers that never pause and without | 10,000 with 0 and 2 readers, some with 1; 1,000 and 100,000 without readers | time of the writer, by [`Change`]; its stalls over time |
//! | a topic comes and goes | 10,000 | time until another thread reads it |
//! | a process for each strategy | 10,000 and 100,000 | memory, before and after all topics of a broker were changed often |
//!
//! A run takes some four minutes, a quick one (no 100,000 topics, three short rounds) half a minute.
//!
//! Where threads outnumber processors the scheduler is measured too: such samples have the key `oversubscribed`. On a
//! machine that others use, a real-time class (`chrt -f 1`) makes the times those of the program; what is oversubscribed is
//! left out then, as readers that never pause would keep the writer from running.

mod changes;
mod machine;
pub mod memory;
mod plan;
mod reads;
pub mod world;

use anyhow::{Context as _, ensure};
use backends::baseline::{DirtyRegistry, FrozenRegistry};
use registry_core::{Command, Registry};

use self::{
    plan::{Part, Plan, Size},
    world::{World, topic_and_back, wipe_and_back},
};
use crate::results::{Measure, Sample};

/// What is done to the registry while it is read. The order is that of [`Mix::ALL`], the index of `mix` in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Nothing.
    Lookups,
    /// A topic is added or deleted every millisecond.
    OneTopic,
    /// A broker registers up to 10,000 topics every 10 ms, each with other settings than before.
    Registrations,
    /// A broker's write permission, or its address, changes every millisecond.
    SmallTables,
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lookups, Self::OneTopic, Self::Registrations, Self::SmallTables];

    /// What a chart calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookups => "lookups only",
            Self::OneTopic => "one topic every ms",
            Self::Registrations => "10,000 topics every 10 ms",
            Self::SmallTables => "permission or address every ms",
        }
    }

    /// The mix with this index in [`ALL`](Self::ALL), which samples have.
    pub fn of_index(index: f64) -> Option<Self> {
        Self::ALL.into_iter().find(|mix| mix.index() == index)
    }

    /// Its index in [`ALL`](Self::ALL).
    pub fn index(self) -> f64 {
        f64::from(self as u8)
    }
}

/// A kind of change. The order is that of [`Change::ALL`], the index of `change` in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// One topic is added or deleted.
    OneTopic,
    /// The write permission of all topics of a broker is taken away or given back.
    Permission,
    /// A broker returns under another address and says nothing of its topics.
    Address,
    /// A broker registers all its topics, none changed, under another address.
    AddressWithTopics,
    /// A broker registers up to 10,000 topics, all changed.
    Registration,
}

impl Change {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OneTopic, Self::Permission, Self::Address, Self::AddressWithTopics, Self::Registration];

    /// What a chart calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneTopic => "one topic",
            Self::Permission => "permission of a broker",
            Self::Address => "address of a broker",
            Self::AddressWithTopics => "address, topics compared",
            Self::Registration => "10,000 topics",
        }
    }

    /// The change with this index in [`ALL`](Self::ALL), which samples have.
    pub fn of_index(index: f64) -> Option<Self> {
        Self::ALL.into_iter().find(|change| change.index() == index)
    }

    /// Its index in [`ALL`](Self::ALL).
    pub fn index(self) -> f64 {
        f64::from(self as u8)
    }

    /// The command for such a change: by turns one thing and its reverse.
    fn command<R: Registry>(self, world: &mut World<R>, turn: usize) -> Command {
        let [there, back] = match self {
            Self::OneTopic => topic_and_back(),
            Self::Permission => wipe_and_back(),
            Self::Address => return world.change_of_address(turn, false),
            Self::AddressWithTopics => return world.change_of_address(turn, true),
            Self::Registration => return world.next_rewrite(),
        };
        if turn.is_multiple_of(2) { there } else { back }
    }
}

/// How [`measure`] measures.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fewer and shorter rounds, no 100,000 topics: to see that everything runs, not to quote.
    pub is_quick: bool,
    /// Arguments by which this program, started again, calls [`memory::child`] with the two that follow them.
    pub child_arguments: Vec<String>,
}

/// How far the measurement is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What is being measured.
    pub part: String,
    /// Rounds that are done.
    pub done: usize,
    /// Rounds in all.
    pub of: usize,
}

/// Measures everything and hands out what each part has shown as soon as it is done.
///
/// # Errors
/// When a registry refuses what it is told, a reader does not see a change, a process of its own fails, a strategy gives an
/// answer that no state gives, or `progress` says that it is enough.
pub fn measure(
    options: &Options,
    progress: &mut dyn FnMut(&Progress) -> anyhow::Result<()>,
    add: &mut dyn FnMut(Sample),
) -> anyhow::Result<()> {
    Run { plan: Plan::new(options.is_quick), done: 0, progress, add }.all(&options.child_arguments)
}

/// A value of one round: what was measured, under which conditions besides the number of topics, and how much.
type Value = (Measure, Vec<(&'static str, f64)>, f64);

struct Run<'r> {
    plan: Plan,
    done: usize,
    progress: &'r mut dyn FnMut(&Progress) -> anyhow::Result<()>,
    add: &'r mut dyn FnMut(Sample),
}

impl Run<'_> {
    fn all(mut self, child_arguments: &[String]) -> anyhow::Result<()> {
        for size in self.plan.sizes.clone() {
            self.say(format!("loading {} topics", size.topics), 0)?;
            let mut subjects = subjects(size.topics)?;
            for &part in &size.parts {
                self.part(&mut subjects, &size, part)?;
            }
        }
        let topics = self.plan.memory_topics.clone();
        for topics in topics {
            self.memory(topics, child_arguments)?;
        }
        Ok(())
    }

    fn say(&mut self, part: String, done: usize) -> anyhow::Result<()> {
        self.done += done;
        (self.progress)(&Progress { part, done: self.done, of: self.plan.steps() })
    }

    /// Lets the subjects take turns; nobody is always first.
    fn part(&mut self, subjects: &mut [Box<dyn Subject>], size: &Size, part: Part) -> anyhow::Result<()> {
        let count = subjects.len();
        let mut rounds: Vec<Vec<Vec<Value>>> = vec![Vec::new(); count];
        for turn in 0..self.plan.rounds {
            for at in (0..count).map(|at| (at + turn) % count) {
                let values = subjects[at].round(part, &self.plan);
                rounds[at].push(values.with_context(|| format!("{}, {part}", subjects[at].name()))?);
            }
            self.say(format!("{part}, {} topics", size.topics), 1)?;
        }
        for (subject, rounds) in subjects.iter().zip(&rounds) {
            let name = subject.name();
            for sample in samples(name, size.topics, rounds) {
                let torn: f64 = if sample.measure == Measure::Torn { sample.rounds.iter().sum() } else { 0.0 };
                (self.add)(sample);
                ensure!(torn == 0.0 || name == DirtyRegistry::NAME, "{name}: {torn} answers are of two states");
            }
        }
        Ok(())
    }

    fn memory(&mut self, topics: usize, child_arguments: &[String]) -> anyhow::Result<()> {
        for strategy in memory::STRATEGIES {
            self.say(format!("memory of {strategy}, {topics} topics"), 0)?;
            let rounds = (0..self.plan.memory_rounds)
                .map(|_| memory::measure(child_arguments, strategy, topics))
                .collect::<anyhow::Result<Vec<_>>>()?;
            for sample in memory::samples(strategy, topics, &rounds) {
                (self.add)(sample);
            }
            self.say(format!("memory of {strategy}, {topics} topics"), 1)?;
        }
        Ok(())
    }
}

/// A strategy with a loaded registry.
trait Subject {
    fn name(&self) -> &'static str;
    /// Measures a part once. Every round has values of the same conditions in the same order.
    fn round(&mut self, part: Part, plan: &Plan) -> anyhow::Result<Vec<Value>>;
}

impl<R: Registry> Subject for World<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn round(&mut self, part: Part, plan: &Plan) -> anyhow::Result<Vec<Value>> {
        match part {
            Part::OpenLoop(mix) => Ok(reads::open_loop(self, mix, plan)),
            Part::ClosedLoop(mix, threads) => Ok(reads::closed_loop(self, mix, threads, plan.closed)),
            Part::Changes(change, readers) => Ok(changes::under_readers(self, change, readers, plan.closed)),
            Part::Stalls => Ok(changes::stalls(self, plan.stall_slices)),
            // Its readers never see a change.
            Part::Visibility if R::NAME == FrozenRegistry::NAME => Ok(Vec::new()),
            Part::Visibility => changes::visibility(self, plan.visible_changes),
        }
    }
}

/// The floor, the baseline and the strategies, each with so many topics on two brokers.
fn subjects(topics: usize) -> anyhow::Result<Vec<Box<dyn Subject>>> {
    macro_rules! worlds {
        ($($module:ident: $registry:ty;)*) => {
            vec![
                Box::new(World::<FrozenRegistry>::new(topics, 2)?),
                Box::new(World::<DirtyRegistry>::new(topics, 2)?),
                $(Box::new(World::<$registry>::new(topics, 2)?),)*
            ]
        };
    }
    Ok(backends::strategies!(worlds))
}

/// The rounds of a subject, a sample for each value of a round.
fn samples(subject: &str, topics: usize, rounds: &[Vec<Value>]) -> Vec<Sample> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let sample = |(at, (measure, conditions, _)): (usize, &Value)| {
        let values = rounds.iter().filter_map(|round| round.get(at)).map(|value| value.2).collect();
        let at = [&conditions[..], &[("topics", topics as f64)]].concat();
        Sample::new(*measure, subject, &at, values)
    };
    first.iter().enumerate().map(sample).collect()
}

/// The conditions, and whether more threads than processors want to run.
fn at_threads(conditions: &[(&'static str, f64)], threads: usize) -> Vec<(&'static str, f64)> {
    let mut at = conditions.to_vec();
    if threads > machine::cores() {
        at.push(("oversubscribed", 1.0));
    }
    at
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn mixes_and_changes_are_known_by_index() {
        for (index, mix) in Mix::ALL.into_iter().enumerate() {
            assert_eq!((mix.index(), Mix::of_index(index as f64)), (index as f64, Some(mix)));
        }
        for (index, change) in Change::ALL.into_iter().enumerate() {
            assert_eq!((change.index(), Change::of_index(index as f64)), (index as f64, Some(change)));
        }
        assert_eq!((Mix::of_index(4.0), Change::of_index(-1.0)), (None, None));
    }

    /// Everything but the memory, which takes a program of its own.
    #[test]
    fn every_subject_is_measured_by_every_part() {
        let (mut samples, mut steps) = (Vec::new(), Vec::new());
        let plan = Plan { memory_topics: Vec::new(), ..Plan::for_tests() };
        let rounds = plan.rounds;
        let run = Run {
            plan,
            done: 0,
            progress: &mut |progress| {
                steps.push((progress.done, progress.of));
                Ok(())
            },
            add: &mut |sample| samples.push(sample),
        };
        run.all(&[]).unwrap();
        let &(done, of) = steps.last().unwrap();
        assert_eq!(done, of);

        assert!(
            samples.iter().all(|sample: &Sample| sample.rounds.len() == rounds && sample.at.contains_key("topics"))
        );
        let finite = |sample: &Sample| sample.rounds.iter().all(|value| value.is_finite() && *value >= 0.0);
        assert!(samples.iter().all(finite), "{samples:?}");
        let of = |subject: &str| -> BTreeSet<Measure> {
            samples.iter().filter(|sample| sample.subject == subject).map(|sample| sample.measure).collect()
        };
        let mut all = BTreeSet::from([
            Measure::ReadLatency,
            Measure::ReadRate,
            Measure::ReadRateCpu,
            Measure::Torn,
            Measure::ChangeTime,
            Measure::WriterStall,
            Measure::Visibility,
        ]);
        for subject in memory::STRATEGIES.into_iter().chain(["dirty"]) {
            assert_eq!(of(subject), all, "{subject}");
        }
        all.remove(&Measure::Visibility);
        assert_eq!(of("frozen"), all);
    }

    #[test]
    fn a_round_gives_a_value_to_each_sample() {
        let value = |percentile, value| (Measure::ReadLatency, vec![("percentile", percentile)], value);
        let rounds = [vec![value(50.0, 1.0), value(99.0, 3.0)], vec![value(50.0, 2.0), value(99.0, 4.0)]];
        let [p50, p99] = &samples("rwlock", 7, &rounds)[..] else { panic!("two samples") };
        assert!(p50.has(&[("percentile", 50.0), ("topics", 7.0)]) && p99.has(&[("percentile", 99.0)]));
        assert_eq!((&p50.rounds[..], &p99.rounds[..]), (&[1.0, 2.0][..], &[3.0, 4.0][..]));
    }
}
