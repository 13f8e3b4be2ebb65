//! A queue in which those who asked for much wait for those who asked for little.
//!
//! Start-time fair queueing: each job gets the time at which it would begin if all flows (connections) took turns by what
//! they cost, and the earliest goes first. What a flow costs is what its jobs took, refused ones included; the jobs of one
//! source address count for each of its connections that waits, so that a source with many connections gets no more than
//! one with a single one. Connections that carry brokers go before the others, who still get one turn in four.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use foldhash::fast::RandomState;
use registry_core::ConnectionId;

/// Cost of a byte that waits, in nanoseconds of a lane: about what it takes to parse it.
const BYTE_NS: u64 = 5;
/// One turn in so many is for those who are not known, if known ones wait as well.
const TURNS: u64 = 4;
/// Flows that are remembered, beside those that wait. More are forgotten, all at once: everybody begins anew.
const FLOWS_KEPT: usize = 16_384;

/// Whose job it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) connection: ConnectionId,
    pub(super) source: IpAddr,
    /// Whether the connection carries brokers.
    pub(super) is_known: bool,
}

/// The jobs that wait, known flows apart from the others.
#[derive(Debug)]
pub(super) struct FairQueue<J> {
    known: Class<J>,
    others: Class<J>,
    /// Jobs that wait, for each source.
    waiting: HashMap<IpAddr, u64, RandomState>,
    number: u64,
    turn: u64,
}

#[derive(Debug)]
struct Class<J> {
    /// By the time at which they begin, and their number.
    jobs: BTreeMap<(u64, u64), (Flow, J)>,
    /// Until when each flow has had its share.
    paid: HashMap<ConnectionId, u64, RandomState>,
    /// The time at which the last job began.
    now: u64,
}

impl<J> FairQueue<J> {
    pub(super) fn new() -> Self {
        let class = || Class { jobs: BTreeMap::new(), paid: HashMap::default(), now: 0 };
        Self { known: class(), others: class(), waiting: HashMap::default(), number: 0, turn: 0 }
    }

    /// Adds a job of so many bytes. Cost: O(log jobs).
    pub(super) fn push(&mut self, flow: Flow, bytes: usize, job: J) {
        *self.waiting.entry(flow.source).or_default() += 1;
        self.number += 1;
        let number = self.number;
        let class = self.class_of(flow);
        let paid = class.paid.get(&flow.connection).copied().unwrap_or(0);
        class.jobs.insert((paid.max(class.now), number), (flow, job));
        self.charge(flow, (bytes as u64).saturating_mul(BYTE_NS));
    }

    /// Takes the job whose turn it is. Cost: O(log jobs).
    pub(super) fn pop(&mut self) -> Option<(Flow, J)> {
        self.turn += 1;
        let are_others_first = self.turn.is_multiple_of(TURNS);
        let Self { known, others, .. } = self;
        let (first, second) = if are_others_first { (others, known) } else { (known, others) };
        let (flow, job) = first.pop().or_else(|| second.pop())?;
        if let Some(waiting) = self.waiting.get_mut(&flow.source) {
            *waiting -= 1;
            if *waiting == 0 {
                self.waiting.remove(&flow.source);
            }
        }
        Some((flow, job))
    }

    /// A job of this flow has taken so long.
    pub(super) fn charge(&mut self, flow: Flow, ns: u64) {
        let weight = self.waiting.get(&flow.source).copied().unwrap_or(0).max(1);
        let class = self.class_of(flow);
        let paid = class.paid.entry(flow.connection).or_default();
        *paid = (*paid).max(class.now).saturating_add(ns.saturating_mul(weight));
        if class.paid.len() > FLOWS_KEPT + class.jobs.len() {
            class.paid = HashMap::default();
        }
    }

    fn class_of(&mut self, flow: Flow) -> &mut Class<J> {
        if flow.is_known { &mut self.known } else { &mut self.others }
    }
}

impl<J> Class<J> {
    fn pop(&mut self) -> Option<(Flow, J)> {
        let ((start, _), next) = self.jobs.pop_first()?;
        self.now = self.now.max(start);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(connection: u64, source: u8, is_known: bool) -> Flow {
        Flow { connection: ConnectionId(connection), source: [127, 0, 0, source].into(), is_known }
    }

    #[test]
    fn jobs_of_one_flow_keep_their_order() {
        let mut queue = FairQueue::new();
        for job in 0..10 {
            queue.push(flow(1, 1, false), 100, job);
        }
        let order: Vec<i32> = std::iter::from_fn(|| queue.pop()).map(|(_, job)| job).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
        assert!(queue.known.jobs.is_empty() && queue.others.jobs.is_empty());
    }

    #[test]
    fn a_source_with_many_connections_gets_no_more_than_one_with_a_single_one() {
        const JOB_NS: u64 = 100_000_000;
        let mut queue = FairQueue::new();
        let mut served = [0, 0];
        for connection in 0..300 {
            queue.push(flow(connection, 1, false), 60_000, 0);
        }
        queue.push(flow(1_000, 2, false), 60_000, 1);
        // Both always have something to ask.
        for _ in 0..2_000 {
            let (flow, source) = queue.pop().unwrap();
            queue.charge(flow, JOB_NS);
            served[source] += 1;
            queue.push(flow, 60_000, source);
        }
        assert!(served[1] >= 600, "{served:?}");
        assert!(served[0] >= 600, "{served:?}");
    }

    #[test]
    fn who_asks_for_little_goes_before_who_has_had_much() {
        let mut queue = FairQueue::new();
        let heavy = flow(1, 1, false);
        queue.push(heavy, 60_000, "first");
        queue.pop();
        queue.charge(heavy, 500_000_000);
        queue.push(heavy, 60_000, "heavy again");
        queue.push(flow(2, 2, false), 200, "small");
        assert_eq!(queue.pop().unwrap().1, "small");
        assert_eq!(queue.pop().unwrap().1, "heavy again");
    }

    #[test]
    fn known_flows_go_first_and_the_others_do_not_starve() {
        let mut queue = FairQueue::new();
        for connection in 0..100 {
            queue.push(flow(connection, 1, false), 100, false);
            queue.push(flow(1_000 + connection, 1, true), 100, true);
        }
        let order: Vec<bool> = std::iter::from_fn(|| queue.pop()).map(|(_, is_known)| is_known).take(100).collect();
        let known = order.iter().filter(|&&is_known| is_known).count();
        assert_eq!(known, 75);
        assert!(order[0]);
    }

    #[test]
    fn flows_are_forgotten() {
        let mut queue = FairQueue::new();
        for connection in 0..100_000 {
            let flow = flow(connection, 1, connection % 2 == 0);
            queue.push(flow, 100, ());
            queue.pop();
            queue.charge(flow, 1_000);
        }
        assert!(queue.known.paid.len() <= FLOWS_KEPT + 1 && queue.others.paid.len() <= FLOWS_KEPT + 1);
        assert!(queue.waiting.is_empty());
    }
}
