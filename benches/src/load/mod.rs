//! Load: many connections of one thread, every answer compared with what it must be.
//!
//! - **Closed loop** ([`closed`]): each connection keeps a number of requests in flight and sends the next one when an
//!   answer comes. Shows how much a server can do; its latencies flatter a slow server, which is asked less.
//! - **Open loop** ([`open`]): requests are due at fixed times, whatever the server does, and latencies count from the
//!   time at which a request was due. Shows what a client sees at a given load.

mod engine;
mod frames;
mod link;
mod routes;
mod window;

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;

pub(crate) use self::{
    engine::{Judge, Live, Outcome, Pace, Plan, latency_histogram, run},
    frames::Frames,
    routes::{Expected, Routes},
};
use crate::{
    client::{Client, Query},
    faults::Fault,
    versions::Versions,
};

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
    /// Closed loop: right answers to requests that were in flight at the end, which count for nothing else.
    pub late_answers: u64,
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
    Connected::to(addr, connections)?.closed(questions, in_flight, duration)
}

/// Connections that have nothing to do yet: what it costs to make thousands of them is not the load's.
pub struct Connected(SocketAddr, engine::Connected);

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connected").field(&self.0).finish()
    }
}

impl Connected {
    /// Makes so many.
    ///
    /// # Errors
    /// When none can be made.
    pub fn to(addr: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        Ok(Self(addr, engine::Connected::to(addr, connections)?))
    }

    /// As the function [`closed`].
    ///
    /// # Errors
    /// As there.
    pub fn closed(self, questions: &[Question], in_flight: usize, duration: Duration) -> anyhow::Result<Report> {
        ensure!(!questions.is_empty() && in_flight > 0, "nothing to ask");
        let frames = Frames::new(questions.iter().map(|question| &question.query));
        strict(self, &frames, Pace::Closed { in_flight }, duration, Exact(questions))
    }
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
    let frames = Frames::new(questions.iter().map(|question| &question.query));
    let pace = Pace::Open { per_second: per_second.into(), first: 0, of: 1 };
    strict(Connected::to(addr, connections)?, &frames, pace, duration, Exact(questions))
}

/// As [`closed`], for routes of topics whose brokers register meanwhile, as those of a storm do. Every route must show the
/// brokers in `versions`, each at a version that is neither older than one that was seen for the same topic before nor
/// than what was acknowledged when it was asked for; everything else must stay what it was.
///
/// # Errors
/// As [`closed`].
pub fn closed_while_changing(
    addr: SocketAddr,
    topics: &[String],
    connections: usize,
    in_flight: usize,
    duration: Duration,
    versions: &Arc<Versions>,
) -> anyhow::Result<Report> {
    ensure!(!topics.is_empty() && in_flight > 0, "nothing to ask");
    let queries: Vec<Query> = topics.iter().map(|topic| Query::route(topic)).collect();
    let brokers = versions.names().map(str::to_owned).collect();
    let versions = Some(Arc::clone(versions));
    let expected = Expected { brokers, is_fixed: true, is_ours: true, versions, ..Expected::default() };
    let judge = Routes::new(&queries, expected);
    strict(Connected::to(addr, connections)?, &Frames::new(&queries), Pace::Closed { in_flight }, duration, judge)
}

/// How long an answer may take when nothing may go wrong: a JVM that collects its garbage needs seconds.
const GRACE: Duration = Duration::from_secs(30);

/// Runs a load of which everything must be right, each question as often as the others.
fn strict(
    Connected(addr, connections): Connected,
    frames: &Frames,
    pace: Pace,
    duration: Duration,
    judge: impl Judge,
) -> anyhow::Result<Report> {
    let order: Vec<u32> = (0..u32::try_from(frames.len())?).collect();
    let plan = Plan {
        addr,
        frames,
        order: &order,
        connections: connections.count(),
        pace,
        duration,
        left: None,
        timeout: GRACE,
        ends_with_fault: true,
        stop: &AtomicBool::new(false),
        live: None,
    };
    let Outcome { report, faults } = connections.run(&plan, judge)?;
    if let Some((_, _, words)) = faults.iter().next() {
        bail!("{words}");
    }
    ensure!(report.answers > 0, "no answer in {duration:?}");
    Ok(report)
}

/// Each question has one answer.
struct Exact<'q>(&'q [Question]);

impl Judge for Exact<'_> {
    type Mark = ();

    fn mark(&mut self, _: u32) {}

    fn judge(&mut self, question: u32, (): (), code: i32, body: &[u8]) -> Result<(), (Fault, String)> {
        let Question { query, expected } = &self.0[question as usize];
        if code != 0 {
            return Err((Fault::Code, format!("code {code} in answer to {query:?}")));
        }
        if *body != **expected {
            return Err((Fault::Body, format!("the answer to {query:?} has changed")));
        }
        Ok(())
    }
}

impl Report {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            answers: 0,
            late_answers: 0,
            elapsed: Duration::ZERO,
            latencies: latency_histogram()?,
            sent_late_max: 0,
        })
    }

    /// The answers of another thread, too.
    pub(crate) fn merge(&mut self, other: &Self) -> anyhow::Result<()> {
        self.answers += other.answers;
        self.late_answers += other.late_answers;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.add(&other.latencies)?;
        self.sent_late_max = self.sent_late_max.max(other.sent_late_max);
        Ok(())
    }

    fn record(&mut self, latency: Duration) {
        self.answers += 1;
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

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
                    while let Ok(Decoded::Frame(frame)) = FrameDecoder::new().decode(&input, &limits) {
                        let request = Request::decode(&frame, &limits).unwrap();
                        let mut answer = Vec::new();
                        let mark = encoder.begin_success(&mut answer, request.opaque);
                        let topic = request.ext.get("topic").unwrap();
                        answer.extend_from_slice(
                            if request.opaque - 1_000_000_000 < wrong_from { topic } else { "?" }.as_bytes(),
                        );
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
        assert_eq!(report.late_answers, 6, "{report:?}");
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
