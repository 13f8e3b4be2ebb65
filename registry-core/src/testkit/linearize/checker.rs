//! The search for an order, after Wing and Gong, with the memory of Lowe.

use std::{collections::HashSet, fmt};

use super::{Call, Spec};

/// How many steps a search may make before it gives up: some seconds. Histories that are right need about as many steps
/// as they have calls; only long ones with very many calls at once come near.
pub const NODES_MAX: u64 = 2_000_000;

/// What the search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The calls can be put in this order, given by their places in the history.
    Linearizable(Vec<usize>),
    /// They cannot be put in any.
    Violated(Violation),
    /// The search was given up: neither is known.
    Unknown,
}

impl Verdict {
    /// The explanation of a history that is not linearizable.
    ///
    /// # Panics
    /// When the search was given up: a test that knows nothing must not pass.
    pub fn violation(self) -> Option<Violation> {
        match self {
            Self::Linearizable(_) => None,
            Self::Violated(violation) => Some(violation),
            Self::Unknown => panic!("the search was given up after {NODES_MAX} steps"),
        }
    }
}

/// Why a history cannot be explained, as text: no order explains the answers until the first one that is named here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The call whose answer cannot be explained together with those before it.
    culprit: String,
    /// The calls that began before that answer, in the order of their beginnings.
    prefix: Vec<String>,
    /// The longest order that was found.
    placed: Vec<String>,
    /// What could have come next, and what would have been answered.
    refused: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable: no order explains the answers up to that of\n  {}", self.culprit)?;
        for (title, lines) in [
            ("calls until then, by their beginnings", &self.prefix),
            ("longest order that explains a part", &self.placed),
            ("what could come next in it, and does not fit", &self.refused),
        ] {
            writeln!(f, "{title}:")?;
            lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        Ok(())
    }
}

/// Searches for an order of the calls that gives every answer, beginning with the state `initial`. The calls are sorted
/// by `invoked`, as [`history`](super::history) gives them.
///
/// Cost: about one step for each call when few overlap; exponential in the number of calls that overlap, at worst, and
/// bounded by [`NODES_MAX`].
pub fn check<S: Spec>(initial: &S, calls: &[Call<S::Op, S::Ret>]) -> Verdict {
    debug_assert!(calls.is_sorted_by_key(|call| call.invoked), "calls are sorted by their beginnings");
    Search::new(initial, calls).run()
}

/// A step of the search: the state after `placed`, and what may come next.
struct Node<S> {
    state: S,
    /// The call that led here; none at the root.
    placed: Option<usize>,
    next: Vec<usize>,
}

struct Search<'a, S: Spec> {
    calls: &'a [Call<S::Op, S::Ret>],
    initial: &'a S,
    is_placed: Vec<bool>,
    /// All calls before this one are placed.
    first: usize,
    /// Calls with an answer that are not placed yet.
    open: usize,
    path: Vec<Node<S>>,
    /// Sets of placed calls, and states after them, from which there is no way. A set is the first call that is missing,
    /// and those that are placed after it.
    seen: HashSet<(usize, Vec<usize>, S)>,
    /// The furthest answer before which some call had to be placed and could not, and the order that came so far.
    furthest: Option<(u64, Vec<usize>)>,
}

impl<'a, S: Spec> Search<'a, S> {
    fn new(initial: &'a S, calls: &'a [Call<S::Op, S::Ret>]) -> Self {
        Self {
            calls,
            initial,
            is_placed: vec![false; calls.len()],
            first: 0,
            open: calls.iter().filter(|call| call.ret.is_some()).count(),
            path: Vec::new(),
            seen: HashSet::new(),
            furthest: None,
        }
    }

    fn run(mut self) -> Verdict {
        self.enter(self.initial.clone(), None);
        for _ in 0..NODES_MAX {
            if self.open == 0 {
                return Verdict::Linearizable(self.order());
            }
            let Some(node) = self.path.last_mut() else {
                return Verdict::Violated(self.explain());
            };
            match node.next.pop() {
                None => self.leave(),
                Some(at) => {
                    let mut state = node.state.clone();
                    if fits(&mut state, &self.calls[at]) {
                        self.place(at);
                        if self.seen.insert((self.first, self.placed_after_first(), state.clone())) {
                            self.enter(state, Some(at));
                        } else {
                            self.take_back(at);
                        }
                    }
                }
            }
        }
        Verdict::Unknown
    }

    fn enter(&mut self, state: S, placed: Option<usize>) {
        let (deadline, mut next) = self.candidates();
        next.reverse();
        self.path.push(Node { state, placed, next });
        if deadline != u64::MAX && self.furthest.as_ref().is_none_or(|(furthest, _)| *furthest < deadline) {
            self.furthest = Some((deadline, self.order()));
        }
    }

    fn leave(&mut self) {
        if let Some(Node { placed: Some(at), .. }) = self.path.pop() {
            self.take_back(at);
        }
    }

    /// The first answer that is still open, and the calls that began before it: one of them comes next.
    fn candidates(&self) -> (u64, Vec<usize>) {
        let mut deadline = u64::MAX;
        let mut next = Vec::new();
        for (at, call) in self.calls.iter().enumerate().skip(self.first) {
            if call.invoked > deadline {
                break;
            }
            if !self.is_placed[at] {
                deadline = deadline.min(call.returned);
                next.push(at);
            }
        }
        (deadline, next)
    }

    fn place(&mut self, at: usize) {
        self.is_placed[at] = true;
        self.open -= usize::from(self.calls[at].ret.is_some());
        while self.is_placed.get(self.first) == Some(&true) {
            self.first += 1;
        }
    }

    fn take_back(&mut self, at: usize) {
        self.is_placed[at] = false;
        self.open += usize::from(self.calls[at].ret.is_some());
        self.first = self.first.min(at);
    }

    /// Few, as long as few calls overlap.
    fn placed_after_first(&self) -> Vec<usize> {
        let left = self.path.len().saturating_sub(self.first);
        let placed = (self.first..self.calls.len()).filter(|&at| self.is_placed[at]);
        placed.take(left).collect()
    }

    fn order(&self) -> Vec<usize> {
        self.path.iter().filter_map(|node| node.placed).collect()
    }

    fn explain(self) -> Violation {
        let (deadline, placed) = self.furthest.unwrap_or_default();
        let line = |call: &Call<S::Op, S::Ret>| {
            let Call { thread, op, ret, invoked, returned } = call;
            match ret {
                Some(ret) => format!("[{invoked:>4}, {returned:>4}] thread {thread}: {op:?} -> {ret:?}"),
                None => format!("[{invoked:>4},  ...] thread {thread}: {op:?} -> no answer"),
            }
        };
        let mut state = self.initial.clone();
        for &at in &placed {
            state.apply(&self.calls[at].op);
        }
        let until_then = || self.calls.iter().enumerate().filter(|(_, call)| call.invoked < deadline);
        let refused = until_then().filter(|(at, _)| !placed.contains(at)).filter_map(|(_, call)| {
            let expected = state.clone().apply(&call.op);
            let is_refused = call.ret.as_ref().is_some_and(|ret| *ret != expected);
            is_refused.then(|| format!("{} would be answered {expected:?}", line(call)))
        });
        Violation {
            culprit: self.calls.iter().find(|call| call.returned == deadline).map(line).unwrap_or_default(),
            refused: refused.collect(),
            prefix: until_then().map(|(_, call)| line(call)).collect(),
            placed: placed.iter().map(|&at| line(&self.calls[at])).collect(),
        }
    }
}

/// Makes the call and says whether its answer is the one that was given.
fn fits<S: Spec>(state: &mut S, call: &Call<S::Op, S::Ret>) -> bool {
    let ret = state.apply(&call.op);
    call.ret.as_ref().is_none_or(|given| *given == ret)
}
