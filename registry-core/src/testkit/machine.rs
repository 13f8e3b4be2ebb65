//! The state machine test: a strategy, the tables behind it and the naive [`Model`] go the same way, step by step.
//!
//! After every step:
//! 1. the changes that were derived, applied one after the other, give the state that is made from scratch;
//! 2. the strategy's reader, the routes and lists that it keeps, the state from scratch and the model answer every [`Probe`]
//!    alike;
//! 3. the tables agree with themselves and keep within their limits ([`Tables::check`]).
//!
//! A refused registration changes nothing. What the short cut for unchanged registrations answers is what the writer
//! would have answered, and the writer would have changed nothing. At the end the sweep changes nothing that can be
//! seen and leaves no slot of a dead group behind.

use std::{collections::BTreeSet, sync::Arc};

use proptest::test_runner::Config;

use super::{Model, Probe, ScratchView, generate, generate::Step};
use crate::{
    Applied, Command, Image, LiveKey, Millis, Outcome, Publisher, Reader, Registration, Registry, Stale, TableLimits,
    Tables, View,
    query::{self, Heartbeat, ListCache, RouteCache},
};

/// The configuration of a state machine test: `PROPTEST_CASES` runs, or 256; what failed once is kept beside the test
/// and tried again first.
pub fn config() -> Config {
    let kept = proptest::test_runner::FileFailurePersistence::WithSource("regressions");
    Config { failure_persistence: Some(Box::new(kept)), ..Config::default() }
}

/// Runs `steps` on a new registry of the strategy `R`.
///
/// # Panics
/// When something does not agree.
pub fn run<R: Registry>(steps: &[Step]) {
    let mut machine = Machine::<R>::new(TableLimits::default());
    machine.model = Some(Model::default());
    machine.run(steps);
}

/// Runs `steps` on a registry whose tables are small enough to be full. The model knows no limits and does not go along.
///
/// # Panics
/// When something does not agree, or a limit is exceeded.
pub fn run_limited<R: Registry>(steps: &[Step]) {
    let limits = TableLimits {
        groups_max: 3,
        members_max: 2,
        group_settings_max: 3,
        brokers_max: 4,
        broker_groups_max: 2,
        groupless_brokers_max: 1,
        topics_max: 4,
        topic_groups_max: 2,
        topic_mappings_max: 1,
        registry_bytes_max: 11_000,
        source_share_percent: 75,
        ..TableLimits::default()
    };
    let mut machine = Machine::<R>::new(limits);
    machine.run(steps);
}

struct Machine<R: Registry> {
    tables: Tables,
    image: Image,
    /// The changes applied one by one, without a strategy.
    derived: ScratchView,
    publisher: R::Publisher,
    reader: R::Reader,
    routes: RouteCache,
    lists: ListCache,
    model: Option<Model>,
    probes: Vec<Probe>,
    registrations: Vec<Registration>,
    deletes_topics: bool,
    /// Commands are applied that are yet to be published: readers are behind the tables.
    is_in_batch: bool,
    now: Millis,
}

impl<R: Registry> Machine<R> {
    fn new(limits: TableLimits) -> Self {
        let (registry, publisher) = R::new();
        let reader = registry.reader();
        Self {
            tables: Tables::new(limits),
            image: Image::empty(),
            derived: ScratchView::empty(),
            publisher,
            reader,
            routes: RouteCache::new(),
            lists: ListCache::new(),
            model: None,
            probes: generate::probes(),
            registrations: Vec::new(),
            deletes_topics: false,
            is_in_batch: false,
            now: Millis(1),
        }
    }

    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
            self.check();
        }
        self.sweep_to_the_end();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Apply(command) => self.apply(command),
            Step::Batch(commands) => {
                self.is_in_batch = true;
                commands.iter().for_each(|command| self.apply(command));
                self.is_in_batch = false;
                self.publish();
            }
            Step::Repeat { at, is_short_cut } => {
                if self.registrations.is_empty() {
                    return;
                }
                let registration = self.registrations[at % self.registrations.len()].clone();
                if *is_short_cut && self.short_cut(&registration) {
                    return;
                }
                self.apply(&Command::Register(Box::new(registration)));
            }
            Step::Amend { at, twist } => {
                if self.registrations.is_empty() {
                    return;
                }
                let registration = self.registrations[at % self.registrations.len()].clone();
                self.apply(&Command::Register(Box::new(twist.apply(registration))));
            }
            Step::Beat(key) => {
                let now = self.now;
                let answer = self.reader.read(|view| Ok(query::heartbeat(view.root(), key, now)));
                self.check_beat(key, answer);
            }
            Step::Ask(key, version) => {
                let now = self.now;
                let answer =
                    self.reader.read(|view| Ok(query::query_data_version(view.root(), key, *version, now).heartbeat));
                self.check_beat(key, answer);
            }
            Step::Advance(ms) => self.now.0 += ms,
            Step::Sweep(topics) => {
                self.tables.sweep(*topics);
                self.publish();
                self.publisher.tick();
            }
        }
    }

    fn check_beat(&mut self, key: &LiveKey, answer: Heartbeat) {
        let is_live = self.tables.live_record(key).is_some();
        // Nothing runs beside this test: no heartbeat meets a removal.
        assert_eq!(answer, if is_live { Heartbeat::Beaten } else { Heartbeat::Unknown });
        if let Some(model) = &mut self.model {
            assert_eq!(model.beat(key, self.now), is_live);
        }
    }

    /// Answers a registration without the writer, if it is recognised; the model takes it as any other.
    fn short_cut(&mut self, registration: &Registration) -> bool {
        let Some(outcome) = self.recognised(registration, self.now) else {
            return false;
        };
        if let Some(model) = &mut self.model {
            let applied = model.apply(&Command::Register(Box::new(registration.clone())), self.now);
            assert_eq!(applied, Applied::new(outcome), "the short cut answers otherwise than the rules");
        }
        true
    }

    fn recognised(&mut self, registration: &Registration, now: Millis) -> Option<Outcome> {
        let Registration { connection, fingerprint, .. } = *registration;
        let key = key_of(registration);
        let answer =
            self.reader.read(|view| Ok(query::unchanged_registration(view.root(), &key, connection, fingerprint, now)));
        answer.map(Outcome::Registered)
    }

    fn apply(&mut self, command: &Command) {
        let before = ScratchView::of(&self.tables);
        let recognised = match command {
            Command::Register(registration) if !self.is_in_batch => self.recognised(registration, Millis(0)),
            _ => None,
        };

        let applied = self.tables.apply(command, self.now);
        if !self.is_in_batch {
            self.publish();
        }

        if let Some(outcome) = recognised {
            assert_eq!(applied, Applied::new(outcome), "the short cut would have answered otherwise");
            assert_same_but_records(&before, &ScratchView::of(&self.tables));
        }
        if let Outcome::Refused(_) = applied.outcome {
            assert_same(&before, &ScratchView::of(&self.tables));
        }
        match command {
            Command::DeleteTopicWithRegistration(on) => self.deletes_topics = *on,
            Command::Register(registration) => self.registered(registration, &applied),
            _ => {}
        }
        if let Some(model) = &mut self.model {
            let expected = model.apply(command, self.now);
            assert_eq!(sorted(applied), sorted(expected), "the tables say otherwise than the model");
        }
    }

    fn registered(&mut self, registration: &Registration, applied: &Applied) {
        match &applied.outcome {
            Outcome::Registered(_) => {
                // One that removes topics does not count as unchanged the first time.
                if !self.deletes_topics && !self.is_in_batch {
                    let again = self.recognised(registration, Millis(0));
                    assert_eq!(again.as_ref(), Some(&applied.outcome), "not recognised at once");
                }
                self.registrations.push(registration.clone());
            }
            // What was left out may find room the next time: the writer has to look at it.
            Outcome::RegisteredInPart { .. } => {
                assert_eq!(self.recognised(registration, Millis(0)), None, "recognised without what was left out");
                assert!(self.model.is_none(), "nothing is full");
                self.registrations.push(registration.clone());
            }
            Outcome::Refused(refusal) => assert!(self.model.is_none() || !refusal.is_limit(), "nothing is full"),
            _ => {}
        }
    }

    fn publish(&mut self) {
        if let Some(change) = self.image.derive(&mut self.tables) {
            self.derived.apply(change.clone());
            self.publisher.publish(change);
        }
    }

    fn check(&mut self) {
        self.tables.check();
        let scratch = ScratchView::of(&self.tables);
        assert_same(&self.derived, &scratch);
        self.reader.read(|view| {
            assert_same(view, &scratch);
            Ok(())
        });
        for probe in &self.probes {
            let answer = self.reader.read(|view| probe.ask(view));
            assert_eq!(Ok(&answer), probe.ask(&scratch).as_ref(), "{} answers otherwise to {probe:?}", R::NAME);
            if let Some(query) = probe.route_query() {
                let mut out = Vec::new();
                let is_found = self.reader.read(|view| {
                    out.clear();
                    self.routes.route(view, &query, &mut out)
                });
                let kept = if is_found { String::from_utf8_lossy(&out) } else { "none".into() };
                assert_eq!(kept, answer, "the kept route of {probe:?}");
            }
            if let Some(list) = probe.list() {
                // Time stands still, so that every list is kept for as long as it may be.
                let kept = self.lists.get(&mut self.reader, list, Millis(0), Millis(0));
                assert_eq!(String::from_utf8_lossy(&kept), answer, "the kept list of {probe:?}");
            }
            if let Some(model) = &self.model {
                assert_eq!(answer, model.ask(probe), "the tables answer {probe:?} otherwise than the model");
            }
        }
    }

    fn sweep_to_the_end(&mut self) {
        let answers = self.answers();
        for _ in 0..1_000 {
            let is_more = self.tables.sweep(1);
            self.publish();
            self.check();
            if !is_more {
                break;
            }
        }
        assert!(!self.tables.sweep(1), "the sweep has no end");
        assert_eq!(self.answers(), answers, "the sweep changed what readers see");
        for (topic, value) in self.tables.topic_values() {
            let owners = value.mappings.iter().flat_map(|all| all.iter()).map(|mapping| mapping.owner);
            for group in value.slots.iter().map(|slot| slot.group).chain(owners) {
                assert!(self.tables.group(group).is_some(), "{topic} has something of a dead group after the sweep");
            }
        }
    }

    fn answers(&mut self) -> Vec<String> {
        self.probes.iter().map(|probe| self.reader.read(|view| probe.ask(view))).collect()
    }
}

fn key_of(registration: &Registration) -> LiveKey {
    LiveKey { cluster: registration.cluster.clone(), addr: registration.broker_addr.clone() }
}

/// The order in which groups are told is nobody's business.
fn sorted(mut applied: Applied) -> Applied {
    applied.min_id_changes.sort_by_key(|change| format!("{change:?}"));
    applied
}

/// Asserts that two views show the same state, down to the live records themselves.
fn assert_same(a: &impl View, b: &impl View) {
    assert_same_but_records(a, b);
    for key in generate::live_keys() {
        let (a, b) = (a.root().live(&key), b.root().live(&key));
        assert_eq!(a.map(std::ptr::from_ref), b.map(std::ptr::from_ref), "live record of {key:?}");
    }
}

fn assert_same_but_records(a: &impl View, b: &impl View) {
    let (root_a, root_b) = (a.root(), b.root());
    for name in generate::broker_names() {
        assert_eq!(root_a.group_index(name), root_b.group_index(name), "index of {name}");
        assert_eq!(root_a.group_named(name), root_b.group_named(name), "group {name}");
    }
    let names = |root: &crate::Root| root.groups().map(|group| Arc::clone(&group.name)).collect::<BTreeSet<_>>();
    assert_eq!(names(root_a), names(root_b), "groups");
    assert_eq!(root_a.groups().count(), root_b.groups().count(), "number of groups");
    assert_eq!(root_a.clusters(), root_b.clusters(), "clusters");
    assert_eq!(root_a.live_brokers(), root_b.live_brokers(), "number of live brokers");
    for key in generate::live_keys() {
        let version = |root: &crate::Root| root.live(&key).map(|record| (record.data_version, record.connection));
        assert_eq!(version(root_a), version(root_b), "live record of {key:?}");
    }
    assert_eq!(entries(a), entries(b), "topics");
}

fn entries(view: &impl View) -> Result<std::collections::BTreeMap<String, crate::Entry>, Stale> {
    let mut all = std::collections::BTreeMap::new();
    view.for_each_topic(|name, entry| assert!(all.insert(name.to_owned(), entry.clone()).is_none()))?;
    for (name, entry) in &all {
        view.with_topic(name, |held| assert_eq!(held, Some(entry), "topic {name}"))?;
    }
    Ok(all)
}
