//! The loop of one load thread.

use std::{
    io::ErrorKind,
    net::SocketAddr,
    os::fd::AsRawFd as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::bail;
use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token, unix::SourceFd};
use rustix::{
    fd::OwnedFd,
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime},
};

use super::{
    Report,
    frames::Frames,
    link::{Link, Loss},
    window::{Ended, Window},
};
use crate::{
    client::Answer,
    faults::{Fault, Faults},
};

/// Says whether an answer is right.
pub(crate) trait Judge {
    /// What is known when a request is sent, and needed when its answer comes.
    type Mark: Copy;

    /// This question is about to be asked.
    fn mark(&mut self, question: u32) -> Self::Mark;

    /// It was answered.
    fn judge(&mut self, question: u32, mark: Self::Mark, code: i32, body: &[u8]) -> Result<(), (Fault, String)>;
}

/// What a load thread does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'p> {
    pub(crate) addr: SocketAddr,
    pub(crate) frames: &'p Frames,
    /// Which question is asked, by the number of the request modulo the length.
    pub(crate) order: &'p [u32],
    pub(crate) connections: usize,
    pub(crate) pace: Pace,
    /// No request is sent afterwards.
    pub(crate) duration: Duration,
    /// How many requests may still be sent, by all threads; `None` for any number.
    pub(crate) left: Option<&'p AtomicU64>,
    /// An answer that comes later does not count.
    pub(crate) timeout: Duration,
    /// Nothing that comes after something that is wrong is of interest.
    pub(crate) ends_with_fault: bool,
    /// No request is sent once this is true.
    pub(crate) stop: &'p AtomicBool,
    /// Where to say how far it is.
    pub(crate) live: Option<&'p Live>,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many wait for an answer on each connection.
    Closed { in_flight: usize },
    /// At fixed times, whatever comes back. Of the requests of all threads, so many a second, this thread sends each
    /// `of`th, from `first` on.
    Open { per_second: u64, first: u64, of: u64 },
}

/// What a thread has done so far.
#[derive(Debug)]
pub(crate) struct Live(Mutex<Option<(Report, u64)>>);

impl Live {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What is right, and how many are not.
    pub(crate) fn get(&self) -> Option<(Report, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, report: &Report, faults: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((report.clone(), faults));
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) faults: Faults,
}

/// Room for one read.
const READ_BYTES: usize = 256 << 10;
/// How often a thread looks for answers that do not come, and says how far it is.
const TICK: Duration = Duration::from_millis(100);
/// A thread sleeps at least that long: requests that are due meanwhile are sent together.
const SLEEP_MIN: Duration = Duration::from_micros(100);
/// How many requests of an open loop may wait for their answers, in one thread: some 50 MB of memory.
const WAITING_MAX: usize = 1 << 18;
const TIMER: Token = Token(usize::MAX);

/// Runs a load in this thread.
///
/// # Errors
/// When no connection can be made. What goes wrong later is in the outcome.
pub(crate) fn run<J: Judge>(plan: &Plan<'_>, judge: J) -> anyhow::Result<Outcome> {
    Connected::to(plan.addr, plan.connections)?.run(plan, judge)
}

/// The connections of a load, before it begins.
pub(crate) struct Connected {
    poll: Poll,
    timer: OwnedFd,
    links: Vec<Link>,
    faults: Faults,
}

impl Connected {
    /// As many of them as can be made.
    ///
    /// # Errors
    /// When that is none.
    pub(crate) fn to(addr: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
        let mut faults = Faults::default();
        let mut links = Vec::new();
        for _ in 0..connections {
            match Link::connect(addr, links.len(), poll.registry()) {
                Ok(link) => links.push(link),
                Err(error) => faults.add(Fault::Connect, || error.to_string()),
            }
        }
        if links.is_empty() {
            bail!("{addr}: {faults}");
        }
        Ok(Self { poll, timer, links, faults })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.links.len()
    }

    /// Runs a load over them, whatever address and number the plan has.
    ///
    /// # Errors
    /// When the system does not let it wait.
    pub(crate) fn run<J: Judge>(self, plan: &Plan<'_>, judge: J) -> anyhow::Result<Outcome> {
        let Self { poll, timer, links, faults } = self;
        let (window, report, start) = (Window::new(), Report::new()?, Instant::now());
        let deadline = start + plan.duration;
        let asker = Asker { plan, judge, window, report, faults, start, deadline, lost: 0, is_over: false };
        let scratch = vec![0; READ_BYTES].into();
        let engine = Engine { poll, timer, links, scratch, asker, next_turn: 0, is_armed: false, touched: Vec::new() };
        engine.run()
    }
}

struct Engine<'p, J: Judge> {
    poll: Poll,
    timer: OwnedFd,
    links: Vec<Link>,
    scratch: Box<[u8]>,
    asker: Asker<'p, J>,
    /// The number of requests of an open loop that were due.
    next_turn: u64,
    /// The timer is set.
    is_armed: bool,
    /// Connections with requests that are about to be sent.
    touched: Vec<usize>,
}

impl<J: Judge> Engine<'_, J> {
    fn run(mut self) -> anyhow::Result<Outcome> {
        let mut events = Events::with_capacity(1024);
        let mut ticked = self.asker.start;
        let mut expired = Vec::new();
        self.begin();
        while !self.is_done() {
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                let Some(link) = self.links.get_mut(event.token().0).filter(|link| !link.is_lost) else { continue };
                let mut result = Ok(());
                if event.is_readable() {
                    let asker = &mut self.asker;
                    let take = |link: &mut Link, answer: &Answer<'_>, now| asker.take(link, answer, now);
                    result = link.read(&mut self.scratch, event.is_read_closed(), take);
                }
                if let Err(loss) = result.and_then(|()| link.flush()) {
                    self.asker.lose(link, loss);
                }
            }
            self.send_due()?;
            let now = Instant::now();
            if now.saturating_duration_since(ticked) >= TICK {
                ticked = now;
                self.tick(now, &mut expired);
            }
        }
        self.tick(Instant::now(), &mut expired);
        Ok(Outcome { report: self.asker.report, faults: self.asker.faults })
    }

    /// The first requests of a closed loop.
    fn begin(&mut self) {
        let Pace::Closed { in_flight } = self.asker.plan.pace else { return };
        for link in &mut self.links {
            (0..in_flight).for_each(|_| self.asker.ask(link, Instant::now()));
            if let Err(loss) = link.flush() {
                self.asker.lose(link, loss);
            }
        }
    }

    fn is_done(&self) -> bool {
        let asker = &self.asker;
        (asker.is_over && asker.window.open() == 0)
            || asker.lost == self.links.len()
            || (asker.plan.ends_with_fault && asker.faults.total() > 0)
    }

    /// Sends what is due in an open loop, over the connections in turn, and sets the timer for the next.
    fn send_due(&mut self) -> anyhow::Result<()> {
        let Pace::Open { per_second, first, of } = self.asker.plan.pace else { return Ok(()) };
        if self.asker.is_over {
            return Ok(());
        }
        let due = |turn: u64| {
            let nanos = u128::from(first + turn * of) * 1_000_000_000 / u128::from(per_second);
            Duration::from_nanos(nanos as u64)
        };
        let elapsed = self.asker.start.elapsed();
        let oldest = due(self.next_turn);
        if self.is_armed && oldest > elapsed {
            return Ok(());
        }
        while due(self.next_turn) <= elapsed && !self.asker.is_over {
            let due = due(self.next_turn);
            if due >= self.asker.plan.duration {
                self.asker.is_over = true;
                break;
            }
            let at = (self.next_turn % self.links.len() as u64) as usize;
            self.next_turn += 1;
            if self.asker.window.open() >= WAITING_MAX {
                self.asker.faults.add(Fault::Unsent, || format!("{WAITING_MAX} requests wait for their answers"));
                continue;
            }
            // The next one takes the requests of one that is lost.
            let (before, after) = self.links.split_at_mut(at);
            if let Some(link) = after.iter_mut().chain(before).find(|link| !link.is_lost) {
                self.asker.ask(link, self.asker.start + due);
                self.touched.push(link.number);
            }
        }
        if oldest <= elapsed {
            for at in self.touched.drain(..) {
                let link = &mut self.links[at];
                if let Err(loss) = link.flush() {
                    self.asker.lose(link, loss);
                }
            }
            let late = self.asker.start.elapsed().saturating_sub(oldest);
            self.asker.report.sent_late_max = self.asker.report.sent_late_max.max(late.as_nanos() as u64);
        }
        let pause = due(self.next_turn).saturating_sub(self.asker.start.elapsed()).max(SLEEP_MIN);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value })?;
        self.is_armed = true;
        Ok(())
    }

    fn tick(&mut self, now: Instant, expired: &mut Vec<usize>) {
        let asker = &mut self.asker;
        let plan = asker.plan;
        // An open loop ends with the last request that is due.
        let is_closed = matches!(plan.pace, Pace::Closed { .. });
        asker.is_over |= plan.stop.load(Ordering::Relaxed) || (is_closed && now >= asker.deadline);
        asker.window.expire(now, plan.timeout, expired);
        asker.faults.add_many(Fault::Timeout, expired.len() as u64, || format!("no answer in {:?}", plan.timeout));
        if is_closed {
            for &at in &*expired {
                let link = &mut self.links[at];
                asker.ask(link, now);
                if let Err(loss) = link.flush() {
                    asker.lose(link, loss);
                }
            }
        }
        if let Some(live) = plan.live {
            live.set(&asker.report, asker.faults.total());
        }
    }
}

/// Asks, and takes the answers.
struct Asker<'p, J: Judge> {
    plan: &'p Plan<'p>,
    judge: J,
    window: Window<J::Mark>,
    report: Report,
    faults: Faults,
    start: Instant,
    /// No answer of a closed loop counts afterwards.
    deadline: Instant,
    /// How many connections are lost.
    lost: usize,
    /// Nothing is asked any more.
    is_over: bool,
}

impl<J: Judge> Asker<'_, J> {
    /// Asks the next question, unless it is over.
    fn ask(&mut self, link: &mut Link, since: Instant) {
        if self.is_over || link.is_lost {
            return;
        }
        let take_one = |left: u64| left.checked_sub(1);
        if let Some(left) = self.plan.left
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_err()
        {
            self.is_over = true;
            return;
        }
        let number = self.window.next();
        let question = self.plan.order[(number % self.plan.order.len() as u64) as usize];
        let mark = self.judge.mark(question);
        self.window.begin(question, link.number, since, mark);
        self.plan.frames.append(&mut link.output, question, number);
    }

    fn take(&mut self, link: &mut Link, answer: &Answer<'_>, now: Instant) {
        let sent = match self.window.end(answer.opaque, link.number) {
            Ended::Answered(sent) => sent,
            Ended::Late => return,
            Ended::Unknown => {
                let words = || format!("answer to request {}, which is not in flight", answer.opaque);
                return self.faults.add(Fault::Opaque, words);
            }
        };
        let is_closed = matches!(self.plan.pace, Pace::Closed { .. });
        let is_in_time = !is_closed || now < self.deadline;
        match self.judge.judge(sent.question, sent.mark, answer.code, answer.body) {
            // What a closed loop gets after its end would make it longer.
            Ok(()) if is_in_time => {
                self.report.record(now.saturating_duration_since(sent.since));
                self.report.elapsed = now - self.start;
            }
            Ok(()) => self.report.late_answers += 1,
            Err((fault, words)) => self.faults.add(fault, || words),
        }
        if is_closed {
            self.is_over |= !is_in_time;
            self.ask(link, now);
        }
    }

    fn lose(&mut self, link: &mut Link, (fault, words): Loss) {
        self.lost += usize::from(!link.is_lost);
        link.is_lost = true;
        link.output.clear();
        let unanswered = self.window.lose(link.number) as u64;
        self.faults.add_many(fault, unanswered.max(1), || words);
    }
}

/// An empty histogram of nanoseconds, with three digits.
pub(crate) fn latency_histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)?)
}

/// Latencies above count as this: ten minutes, in nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
