//! The requests that wait for an answer, in the order of sending.

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use super::frames::{OPAQUES, place_of};

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent<M> {
    pub(super) question: u32,
    /// The connection it was sent on.
    pub(super) link: usize,
    /// When it was sent, or due.
    pub(super) since: Instant,
    pub(super) mark: M,
    is_open: bool,
}

/// What an opaque means when an answer comes.
#[derive(Debug)]
pub(super) enum Ended<M> {
    /// The answer that was waited for.
    Answered(Sent<M>),
    /// Its time was out before.
    Late,
    /// Nobody waits for it.
    Unknown,
}

/// From the oldest request that waits to the newest.
#[derive(Debug)]
pub(super) struct Window<M> {
    /// Number of the first one in `sent`.
    first: u64,
    sent: VecDeque<Sent<M>>,
    open: usize,
    /// Places of requests whose answer may still come, and does not count.
    expired: HashSet<u64>,
}

impl<M: Copy> Window<M> {
    pub(super) fn new() -> Self {
        Self { first: 0, sent: VecDeque::new(), open: 0, expired: HashSet::new() }
    }

    /// How many wait for an answer.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// The number of the next request.
    pub(super) fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    pub(super) fn begin(&mut self, question: u32, link: usize, since: Instant, mark: M) {
        self.sent.push_back(Sent { question, link, since, mark, is_open: true });
        self.open += 1;
    }

    /// An answer with this opaque has come on this connection.
    pub(super) fn end(&mut self, opaque: i32, link: usize) -> Ended<M> {
        let Some(place) = place_of(opaque) else { return Ended::Unknown };
        let index = (place + OPAQUES - self.first % OPAQUES) % OPAQUES;
        match usize::try_from(index).ok().and_then(|index| self.sent.get_mut(index)) {
            Some(sent) if sent.is_open && sent.link == link => {
                sent.is_open = false;
                let sent = *sent;
                self.close(1);
                Ended::Answered(sent)
            }
            _ if self.expired.remove(&place) => Ended::Late,
            _ => Ended::Unknown,
        }
    }

    /// Gives up those that wait for longer than `timeout`, and tells their connections.
    pub(super) fn expire(&mut self, now: Instant, timeout: Duration, expired: &mut Vec<usize>) {
        expired.clear();
        for (number, sent) in (self.first..).zip(&mut self.sent) {
            if now.saturating_duration_since(sent.since) < timeout {
                break;
            }
            if sent.is_open {
                sent.is_open = false;
                expired.push(sent.link);
                self.expired.insert(number % OPAQUES);
            }
        }
        self.close(expired.len());
    }

    /// Gives up those of a connection, and says how many they were.
    pub(super) fn lose(&mut self, link: usize) -> usize {
        let lost = self.sent.iter_mut().filter(|sent| sent.is_open && sent.link == link);
        let count = lost.map(|sent| sent.is_open = false).count();
        self.close(count);
        count
    }

    fn close(&mut self, count: usize) {
        self.open -= count;
        while self.sent.front().is_some_and(|sent| !sent.is_open) {
            self.sent.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: i32 = 1_000_000_000;

    fn window(count: u32) -> (Window<()>, Instant) {
        let (mut window, start) = (Window::new(), Instant::now());
        (0..count).for_each(|number| {
            window.begin(number, (number % 2) as usize, start + Duration::from_secs(number.into()), ())
        });
        (window, start)
    }

    #[test]
    fn each_request_is_answered_once_and_on_its_connection() {
        let (mut window, _) = window(4);
        assert!(matches!(window.end(FIRST + 1, 0), Ended::Unknown));
        assert!(matches!(window.end(FIRST + 1, 1), Ended::Answered(Sent { question: 1, .. })));
        assert!(matches!(window.end(FIRST + 1, 1), Ended::Unknown));
        assert_eq!((window.open(), window.sent.len()), (3, 4));
        assert!(matches!(window.end(FIRST, 0), Ended::Answered(Sent { question: 0, .. })));
        assert_eq!((window.open(), window.sent.len(), window.next()), (2, 2, 4));
        for opaque in [FIRST, FIRST + 4, FIRST - 1, -1] {
            assert!(matches!(window.end(opaque, 0), Ended::Unknown), "{opaque}");
        }
    }

    #[test]
    fn the_answer_to_an_expired_one_is_late_once() {
        let (mut window, start) = window(4);
        let mut links = Vec::new();
        window.expire(start + Duration::from_secs(5), Duration::from_secs(4), &mut links);
        assert_eq!((&links[..], window.open()), (&[0, 1][..], 2));
        assert!(matches!(window.end(FIRST, 0), Ended::Late));
        assert!(matches!(window.end(FIRST, 0), Ended::Unknown));
        assert!(matches!(window.end(FIRST + 2, 0), Ended::Answered(_)));
        assert_eq!((window.lose(1), window.open(), window.sent.len()), (1, 0, 0));
    }
}
