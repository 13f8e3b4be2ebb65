//! Load: many connections of one thread, every answer compared with what it must be.
//!
//! - **Closed loop** ([`closed`]): each connection keeps a number of requests in flight and sends the next one when an
//!   answer comes. Shows how much a server can do; its latencies flatter a slow server, which is asked less.
//! - **Open loop** ([`open`]): requests are due at fixed times, whatever the server does, and latencies count from the
//!   time at which a request was due. Shows what a client sees at a given load.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};

use crate::client::{Client, Codec, Query};

/// What is asked and what has to come back.
#[derive(Clone, Debug)]
pub struct Question {
    /// The request.
    pub query: Query,
    /// The body of its answer.
    pub expected: Box<[u8]>,
}

impl Question {
    /// Asks once; what comes back is expected from then on.
    ///
    /// # Errors
    /// When the request fails.
    pub fn learn(client: &mut Client, query: Query) -> anyhow::Result<Self> {
        let expected = client.ask(&query)?.into();
        Ok(Self { query, expected })
    }
}

/// What came of a load.
#[derive(Clone, Debug)]
pub struct Report {
    /// Answers, each compared with what was expected.
    pub answers: u64,
    /// From the first request to the last answer that counts.
    pub elapsed: Duration,
    /// Nanoseconds from the sending of a request (closed loop), or from the time it was due (open loop), to its answer.
    pub latencies: Histogram<u64>,
    /// Open loop: how late the latest request was sent, in nanoseconds. When it comes near the latencies, the load
    /// generator is measured, and not the server.
    pub sent_late_max: u64,
}

impl Report {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64()
    }

    /// A quantile of the latencies, in microseconds.
    pub fn latency_us(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Keeps `in_flight` requests on each of `connections` connections in flight for `duration`.
///
/// # Errors
/// When a connection is lost, or an answer is not what it must be.
pub fn closed(
    addr: SocketAddr,
    questions: &[Question],
    connections: usize,
    in_flight: usize,
    duration: Duration,
) -> anyhow::Result<Report> {
    ensure!(!questions.is_empty() && in_flight > 0, "nothing to ask");
    let mut links = Links::connect(addr, connections)?;
    let mut report = Report::new()?;
    let start = Instant::now();
    let deadline = start + duration;
    // The opaque of a request is its number; `sent` holds, at number modulo length, when and by which number.
    let mut sent = vec![(u64::MAX, start); connections * in_flight];
    let mut next = 0;
    let mut ask = |link: &mut Link, sent: &mut [(u64, Instant)], slot: usize, now: Instant| {
        let number = next * sent.len() as u64 + slot as u64;
        next += 1;
        sent[slot] = (number, now);
        link.ask(&question_of(questions, number).query, number)
    };
    for (number, link) in links.links.iter_mut().enumerate() {
        for slot in number * in_flight..(number + 1) * in_flight {
            ask(link, &mut sent, slot, Instant::now())?;
        }
        link.flush()?;
    }
    let mut open = sent.len();
    while open > 0 {
        links.wait(|link, answer, now| {
            let slot = (answer.number % sent.len() as u64) as usize;
            let (number, since) = sent[slot];
            ensure!(answer.number == number, "answer to request {}, which is not in flight", answer.number);
            answer.check(questions)?;
            sent[slot].0 = u64::MAX;
            if now < deadline {
                report.record(now - since);
                report.elapsed = now - start;
                ask(link, &mut sent, slot, now)
            } else {
                open -= 1;
                Ok(())
            }
        })?;
    }
    Ok(report)
}

/// Sends `per_second` requests a second for `duration`, over `connections` connections in turn.
///
/// # Errors
/// When a connection is lost, or an answer is not what it must be.
pub fn open(
    addr: SocketAddr,
    questions: &[Question],
    connections: usize,
    per_second: u32,
    duration: Duration,
) -> anyhow::Result<Report> {
    ensure!(!questions.is_empty() && per_second > 0, "nothing to ask");
    let mut links = Links::connect(addr, connections)?;
    let mut report = Report::new()?;
    let start = Instant::now();
    let schedule = Schedule { start, gap: Duration::from_secs(1) / per_second };
    let count = duration.as_nanos() / schedule.gap.as_nanos();
    let mut answered = vec![false; usize::try_from(count)?];
    let mut open = answered.len();
    let streams = links.links.iter().map(|link| link.stream_of_sender.try_clone()).collect::<io::Result<Vec<_>>>()?;
    report.sent_late_max = thread::scope(|scope| {
        let sender = scope.spawn(|| schedule.send(questions, streams, count as u64));
        while open > 0 {
            ensure!(start.elapsed() < duration + GRACE, "{open} of {count} answers are missing");
            links.wait(|_, answer, now| {
                let Some(answered) = usize::try_from(answer.number).ok().and_then(|number| answered.get_mut(number))
                else {
                    bail!("answer to request {}, which was never sent", answer.number);
                };
                ensure!(!*answered, "second answer to request {}", answer.number);
                *answered = true;
                answer.check(questions)?;
                open -= 1;
                report.record(now.saturating_duration_since(schedule.due(answer.number)));
                report.elapsed = now - start;
                Ok(())
            })?;
        }
        sender.join().expect("the sender does not panic")
    })?;
    Ok(report)
}

/// How long after the end answers may still come.
const GRACE: Duration = Duration::from_secs(30);
/// Latencies above count as this: ten minutes, in nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// Room for one read.
const READ_BYTES: usize = 256 << 10;
/// How long the generator waits for an event before it looks at the clock.
const WAIT: Duration = Duration::from_secs(1);
/// The sender sleeps at least that long: requests that are due meanwhile are sent together.
const SLEEP_MIN: Duration = Duration::from_micros(100);

/// An empty histogram of nanoseconds, with three digits.
pub(crate) fn latency_histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)?)
}

impl Report {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { answers: 0, elapsed: Duration::ZERO, latencies: latency_histogram()?, sent_late_max: 0 })
    }

    fn record(&mut self, latency: Duration) {
        self.answers += 1;
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }
}

fn question_of(questions: &[Question], number: u64) -> &Question {
    &questions[(number % questions.len() as u64) as usize]
}

/// When the requests of an open loop are due.
#[derive(Clone, Copy)]
struct Schedule {
    start: Instant,
    gap: Duration,
}

impl Schedule {
    fn due(self, number: u64) -> Instant {
        self.start + Duration::from_nanos(self.gap.as_nanos() as u64 * number)
    }

    /// Sends each request when it is due, and says how late the latest one was, in nanoseconds.
    fn send(self, questions: &[Question], mut streams: Vec<TcpStream>, count: u64) -> anyhow::Result<u64> {
        let codec = Codec::new();
        let mut frames: Vec<Vec<u8>> = vec![Vec::new(); streams.len()];
        let mut late_max = 0;
        let mut number = 0;
        while number < count {
            let now = Instant::now();
            let first = number;
            while number < count && self.due(number) <= now {
                let at = (number % streams.len() as u64) as usize;
                codec.encode(&mut frames[at], &question_of(questions, number).query, opaque_of(number)?);
                number += 1;
            }
            for (stream, frames) in streams.iter_mut().zip(&mut frames) {
                write_waiting(stream, frames)?;
                frames.clear();
            }
            if number > first {
                late_max = late_max.max(self.due(first).elapsed().as_nanos() as u64);
            }
            thread::sleep(self.due(number).saturating_duration_since(Instant::now()).max(SLEEP_MIN));
        }
        Ok(late_max)
    }
}

/// Writes to a stream that does not block, and waits where it would.
fn write_waiting(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(SLEEP_MIN),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn opaque_of(number: u64) -> anyhow::Result<i32> {
    i32::try_from(number).context("more requests than there are opaques")
}

/// An answer and the number of its request.
struct Numbered<'a> {
    number: u64,
    code: i32,
    body: &'a [u8],
}

impl Numbered<'_> {
    fn check(&self, questions: &[Question]) -> anyhow::Result<()> {
        let question = question_of(questions, self.number);
        ensure!(self.code == 0, "code {} in answer to {:?}", self.code, question.query);
        ensure!(self.body == &*question.expected, "the answer to {:?} has changed", question.query);
        Ok(())
    }
}

/// The connections of one thread.
struct Links {
    poll: Poll,
    events: Events,
    links: Vec<Link>,
    scratch: Box<[u8]>,
}

struct Link {
    stream: mio::net::TcpStream,
    stream_of_sender: TcpStream,
    codec: Codec,
    /// The start of an answer of which the rest has not come.
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Links {
    fn connect(addr: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let links = (0..connections).map(|number| {
            let stream = TcpStream::connect(addr)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let stream_of_sender = stream.try_clone()?;
            let mut stream = mio::net::TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
            Ok(Link { stream, stream_of_sender, codec: Codec::new(), input: Vec::new(), output: Vec::new() })
        });
        let links = links.collect::<io::Result<Vec<_>>>()?;
        Ok(Self { poll, events: Events::with_capacity(1024), links, scratch: vec![0; READ_BYTES].into() })
    }

    /// Waits for something to come, and hands every answer to `f`, with the time at which it was read. Then sends what
    /// `f` has asked.
    fn wait(
        &mut self,
        mut f: impl FnMut(&mut Link, &Numbered<'_>, Instant) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self.poll.poll(&mut self.events, Some(WAIT)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        for event in &self.events {
            let link = &mut self.links[event.token().0];
            if event.is_readable() {
                link.read(&mut self.scratch, &mut f)?;
            }
            link.flush()?;
        }
        Ok(())
    }
}

impl Link {
    fn ask(&mut self, query: &Query, number: u64) -> anyhow::Result<()> {
        self.codec.encode(&mut self.output, query, opaque_of(number)?);
        Ok(())
    }

    /// Sends as much as the system takes; the rest when it says so.
    fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.output.len() {
            match self.stream.write(&self.output[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.drain(..written);
        Ok(())
    }

    fn read(
        &mut self,
        scratch: &mut [u8],
        f: &mut impl FnMut(&mut Self, &Numbered<'_>, Instant) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        loop {
            let read = match self.stream.read(scratch) {
                Ok(0) => bail!("the server has closed a connection"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let now = Instant::now();
            if self.input.is_empty() {
                let consumed = self.answers(&scratch[..read], now, f)?;
                self.input.extend_from_slice(&scratch[consumed..read]);
            } else {
                self.input.extend_from_slice(&scratch[..read]);
                let input = std::mem::take(&mut self.input);
                let consumed = self.answers(&input, now, f)?;
                self.input = input;
                self.input.drain(..consumed);
            }
            // A read that did not fill its room has emptied the socket.
            if read < scratch.len() {
                return Ok(());
            }
        }
    }

    fn answers(
        &mut self,
        bytes: &[u8],
        now: Instant,
        f: &mut impl FnMut(&mut Self, &Numbered<'_>, Instant) -> anyhow::Result<()>,
    ) -> anyhow::Result<usize> {
        let mut at = 0;
        while let Some(answer) = self.codec.decode(&bytes[at..])? {
            at += answer.consumed;
            let number = u64::try_from(answer.opaque).context("a negative opaque")?;
            f(self, &Numbered { number, code: answer.code, body: answer.body }, now)?;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, net::TcpListener, thread};

    use server::{
        limits::Limits,
        remoting::{Decoded, Encoder, FrameDecoder, Request, RequestCode, SerializeType},
    };

    use super::*;

    /// Answers with the topic's name, out of order as Java servers do; from the request `wrong_from` on, wrongly.
    fn serve(connections: usize, wrong_from: i32) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        for _ in 0..connections {
            let listener = listener.try_clone().unwrap();
            thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let limits = Limits::default();
                let encoder = Encoder::new(SerializeType::Json, &limits);
                let mut input = Vec::new();
                let mut chunk = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut chunk) {
                    input.extend_from_slice(&chunk[..read]);
                    let mut answers = Vec::new();
                    while let Ok(Decoded::Frame(frame)) = FrameDecoder::after_detection().decode(&input, &limits) {
                        let request = Request::decode(&frame, &limits).unwrap();
                        let mut answer = Vec::new();
                        let mark = encoder.begin_success(&mut answer, request.opaque);
                        let topic = request.ext.get("topic").unwrap();
                        answer.extend_from_slice(if request.opaque < wrong_from { topic } else { "?" }.as_bytes());
                        encoder.finish(&mut answer, mark);
                        answers.push(answer);
                        let consumed = frame.consumed;
                        drop(request);
                        input.drain(..consumed);
                    }
                    answers.reverse();
                    let _ = stream.write_all(&answers.concat());
                }
            });
        }
        addr
    }

    fn questions() -> Vec<Question> {
        ["a", "bb", "ccc"]
            .map(|topic| {
                let query = Query::new(RequestCode::GetRouteInfoByTopic, &[("topic", topic)]);
                Question { query, expected: topic.as_bytes().into() }
            })
            .into()
    }

    #[test]
    fn closed_loops_count_checked_answers() {
        let report = closed(serve(2, i32::MAX), &questions(), 2, 3, Duration::from_millis(100)).unwrap();
        assert!(report.answers > 6 && report.latencies.len() == report.answers, "{report:?}");
        // No answer in less than a microsecond, and none that took longer than the whole.
        assert!(report.latency_us(0.0) > 1.0, "{report:?}");
        assert!(report.latency_us(1.0) <= report.elapsed.as_micros() as f64 * 1.01, "{report:?}");
        let error = closed(serve(2, 100), &questions(), 2, 3, Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("has changed"), "{error}");
    }

    #[test]
    fn open_loops_send_all_that_is_due() {
        let report = open(serve(2, i32::MAX), &questions(), 2, 1_000, Duration::from_millis(100)).unwrap();
        assert_eq!((report.answers, report.latencies.len()), (100, 100));
        let error = open(serve(2, 50), &questions(), 2, 1_000, Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("has changed"), "{error}");
    }
}
