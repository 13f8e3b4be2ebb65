//! One connection: frames in, answers out, over any transport.
//!
//! ```text
//!                      ┌──────────── lookups, at once ────────────┐
//!   read ──> frames ───┤                                          ├──> answers ──> write
//!                      ├── in flight ──> lanes, writer ───────────┤
//!                      └── changes that wait for their turn ──────┘
//! ```
//!
//! All frames of one read are answered with one write. What needs another thread is *in flight* meanwhile: lookups,
//! heartbeats and lists that come behind it are answered without waiting for it. Changes of one connection are made in the
//! order in which they came. So an answer may overtake another, as in the original, whose threads take requests as they come;
//! who needs an order waits for an answer.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use registry_core::{Applied, Command, Outcome, Registry};
use tokio::sync::oneshot;

use super::{
    entry::Peer,
    lanes::Job,
    wire::{Transport, Wire},
    worker::Worker,
    writer::WriterStopped,
};
use crate::{
    counters::Kind,
    doors::DoorError,
    peers::{Account, Charge, Crowded, OverBudget, Place},
    remoting::{Decoded, Frame, FrameDecoder, FrameError, HeaderError, RequestCode, RequestDecoder},
    service::{Answer, Call, Handled, LaneAnswer, is_change},
};

/// Answers are sent when they exceed this, even if there are more frames to answer.
const ANSWER_BYTES: usize = 256 << 10;
/// Frames up to this size are copied out of the buffer when another thread needs them; larger ones take it with them.
const COPIED_BYTES_MAX: usize = 16 << 10;
/// Requests of one connection that are in flight or wait for their turn; the rest stays in its socket. As many as the
/// original takes (`serverAsyncSemaphoreValue`).
const IN_FLIGHT_MAX: usize = 64;
/// After so many reads in a row the other connections of the worker have their turn: some hundred lookups.
const READS_IN_A_ROW_MAX: u32 = 4;
/// Why a connection is closed whose peer takes no answers.
pub(super) const WRITE_STALLED: &str = "write_stalled";
/// A frame that is incomplete holds at least this, its buffer.
const INCOMPLETE_BYTES_MIN: usize = 4_096;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("closed by the peer")]
    Peer,
    #[error("drained")]
    Drained,
    #[error("closed by the server: {0}")]
    Closed(&'static str),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Door(#[from] DoorError),
    #[error(transparent)]
    Crowded(#[from] Crowded),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    #[error(transparent)]
    Writer(#[from] WriterStopped),
    #[error("a lane has stopped")]
    LaneStopped,
}

impl End {
    /// What is counted, where it is the peer's fault.
    pub(super) fn counted(&self) -> Option<(Kind, &'static str)> {
        match self {
            Self::Closed(reason) => Some((Kind::TimedOut, reason)),
            Self::Door(error) => Some((Kind::BadFrame, error.reason())),
            Self::Crowded(crowded) => Some((Kind::Rejected, crowded.reason())),
            Self::Frame(error) => Some((Kind::BadFrame, error.reason())),
            Self::Header(error) => Some((Kind::BadFrame, error.reason())),
            Self::OverBudget(_) => Some((Kind::Rejected, "over_budget")),
            Self::Peer | Self::Drained | Self::Io(_) | Self::Writer(_) | Self::LaneStopped => None,
        }
    }
}

/// A request that another thread works on.
struct InFlight {
    stage: Stage,
    opaque: i32,
    is_oneway: bool,
    /// Whether the changes behind it wait for it.
    is_change: bool,
    /// Memory that it holds.
    charge: Option<Charge>,
}

enum Stage {
    Lane(oneshot::Receiver<LaneAnswer>),
    Writer(oneshot::Receiver<Applied>, Answer),
    /// The request is handled again when the writer has done what it waits for.
    Again(oneshot::Receiver<Applied>, Bytes),
}

/// What a thread has said.
enum Said {
    Lane(LaneAnswer),
    Writer(Applied, Answer),
    Again(Bytes),
}

/// A change that waits for those before it.
struct InTurn {
    frame: Bytes,
    charge: Charge,
}

/// What a connection waits for.
enum Event {
    /// So many bytes were read; none at the end of the peer's.
    Read(usize),
    /// The request in flight at this place has got on.
    Said(usize, Said),
}

/// What has become of a frame.
enum Step {
    Done,
    Unfinished(Unfinished),
}

/// A request for another thread, or for later.
struct Unfinished {
    handled: Handled,
    opaque: i32,
    is_oneway: bool,
    is_change: bool,
    is_registration: bool,
}

pub(super) struct Connection<R: Registry, S> {
    worker: Rc<Worker<R>>,
    wire: Wire<S>,
    peer: Peer,
    place: Place,
    account: Arc<Account>,
    decoder: FrameDecoder,
    headers: RequestDecoder,
    in_flight: Vec<InFlight>,
    in_turn: VecDeque<InTurn>,
    /// How long the frame is that is being read, or the least that it holds, ...
    incoming_bytes: usize,
    /// ... and the memory for it, once there is some.
    incoming: Option<Charge>,
    /// Why nothing more is read.
    end: Option<End>,
    /// Whether a broker may depend on this connection.
    has_registered: bool,
}

impl<R: Registry, S: Transport> Connection<R, S> {
    pub(super) fn new(
        worker: Rc<Worker<R>>,
        wire: Wire<S>,
        peer: Peer,
        place: Place,
        account: Arc<Account>,
        decoder: FrameDecoder,
    ) -> Self {
        Self {
            worker,
            wire,
            peer,
            place,
            account,
            decoder,
            headers: RequestDecoder::new(),
            in_flight: Vec::new(),
            in_turn: VecDeque::new(),
            incoming_bytes: 0,
            incoming: None,
            end: None,
            has_registered: false,
        }
    }

    /// Serves the connection to its end, and says why it ended.
    pub(super) async fn serve(&mut self) -> End {
        let end = match self.serve_frames().await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        if matches!(end, End::Closed(WRITE_STALLED) | End::OverBudget(_)) {
            self.wire.abort();
        }
        end
    }

    async fn serve_frames(&mut self) -> Result<Infallible, End> {
        let mut reads_in_a_row = 0;
        loop {
            while self.serve_input()? {
                self.wire.flush(&self.account).await?;
            }
            self.wire.flush(&self.account).await?;
            if let Some(end) = self.end.take_if(|_| self.in_flight.is_empty()) {
                return Err(end);
            }
            if reads_in_a_row == READS_IN_A_ROW_MAX {
                reads_in_a_row = 0;
                tokio::task::yield_now().await;
            }
            let mut has_waited = false;
            let event = poll_fn(|context| {
                let event = self.poll_event(context);
                has_waited |= event.is_pending();
                event
            });
            match event.await? {
                Event::Read(0) => self.note_end(End::Peer),
                Event::Read(_) => reads_in_a_row = if has_waited { 0 } else { reads_in_a_row + 1 },
                Event::Said(at, said) => {
                    self.follow(at, said)?;
                    self.wire.flush(&self.account).await?;
                }
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, End>> {
        self.wire.link().check()?;
        for (at, request) in self.in_flight.iter_mut().enumerate() {
            if let Poll::Ready(said) = request.stage.poll(context) {
                return Poll::Ready(said.map(|said| Event::Said(at, said)));
            }
        }
        let may_read = self.end.is_none() && self.requests() < IN_FLIGHT_MAX && self.has_memory();
        if may_read {
            let wanted = self.incoming_bytes.saturating_sub(self.wire.input.len());
            if let Poll::Ready(read) = self.wire.poll_read(context, wanted) {
                return Poll::Ready(read.map(Event::Read));
            }
        }
        let link = self.wire.link();
        if link.is_draining() && self.in_flight.is_empty() && self.wire.is_read_out() {
            return Poll::Ready(Err(End::Drained));
        }
        link.owes.set(!may_read || !self.in_flight.is_empty());
        link.wait(context)
    }

    /// Requests that are in flight or wait for their turn.
    fn requests(&self) -> usize {
        self.in_flight.len() + self.in_turn.len()
    }

    fn has_change_in_flight(&self) -> bool {
        self.in_flight.iter().any(|request| request.is_change)
    }

    /// Nothing more is read. What the peer has asked before a bad frame is still answered; what a peer that is gone has
    /// asked is dropped, but for the changes.
    fn note_end(&mut self, end: End) {
        if matches!(end, End::Peer) {
            self.in_flight.retain(|request| request.is_change);
        }
        self.end = Some(end);
        self.incoming = None;
        self.wire.link().reading.set(None);
    }

    /// Serves every whole frame that has been read; says whether there are more, once the answers are flushed.
    fn serve_input(&mut self) -> Result<bool, End> {
        let mut at = 0;
        let mut has_served = false;
        let mut incomplete = None;
        let mut is_more = false;
        while self.end.is_none() && self.requests() < IN_FLIGHT_MAX && incomplete.is_none() {
            if self.wire.output.len() > ANSWER_BYTES {
                is_more = true;
                break;
            }
            let Self { worker, wire, headers, decoder, account, peer, .. } = self;
            let (step, consumed) = match decoder.decode(&wire.input[at..], &worker.shared.limits) {
                Ok(Decoded::Incomplete { length }) => {
                    incomplete = Some(length);
                    continue;
                }
                Ok(Decoded::Frame(frame)) => {
                    let is_turn = !self.in_flight.iter().any(|request| request.is_change);
                    (handle(worker, headers, &frame, account, peer, is_turn, &mut wire.output), frame.consumed)
                }
                Err(error) => (Err(error.into()), 0),
            };
            has_served = true;
            match step {
                Ok(Step::Done) => at += consumed,
                Ok(Step::Unfinished(request)) => {
                    self.wire.consume(at);
                    at = 0;
                    let frame = self.take_frame(consumed);
                    let charge = self.incoming.take();
                    self.send(request, frame, charge)?;
                }
                Err(end) => self.note_end(end),
            }
            self.incoming = None;
        }
        self.wire.consume(at);
        self.await_rest(incomplete, has_served);
        Ok(is_more)
    }

    /// Remembers what is needed for the rest of a frame, and since when the peer owes it.
    fn await_rest(&mut self, incomplete: Option<usize>, has_served: bool) {
        let link = self.wire.link();
        let have = self.wire.input.len();
        let Some(length) = incomplete.filter(|_| have > 0) else {
            link.reading.set(None);
            self.incoming_bytes = 0;
            return;
        };
        self.incoming_bytes = length.max(INCOMPLETE_BYTES_MIN);
        let since = link.reading.get().filter(|_| !has_served).map_or(self.worker.room.now.get(), |(since, _)| since);
        link.reading.set(Some((since, have)));
    }

    /// Whether there is memory for the frame that is being read; asks for it.
    fn has_memory(&mut self) -> bool {
        let held = self.incoming.as_ref().map_or(0, Charge::bytes);
        if held >= self.incoming_bytes {
            return true;
        }
        self.incoming = None;
        self.incoming = self.charge(self.incoming_bytes);
        let link = self.wire.link();
        // The worker wakes it now and then.
        link.lacks_memory.set(self.incoming.is_none());
        if self.incoming.is_none() {
            link.reading.set(None);
        }
        self.incoming.is_some()
    }

    fn charge(&self, bytes: usize) -> Option<Charge> {
        let charge = self.account.charge(bytes).ok();
        if charge.is_none() {
            self.worker.budget.note_short(self.worker.shared.clock.now());
        }
        charge
    }

    fn take_frame(&mut self, consumed: usize) -> Bytes {
        if consumed > COPIED_BYTES_MAX {
            return self.wire.input.split_to(consumed).freeze();
        }
        let frame = Bytes::copy_from_slice(&self.wire.input[..consumed]);
        self.wire.consume(consumed);
        frame
    }

    /// Gives a request to the thread for it, or keeps it until its turn comes.
    fn send(&mut self, request: Unfinished, frame: Bytes, charge: Option<Charge>) -> Result<(), End> {
        let Unfinished { handled, opaque, is_oneway, is_change, is_registration } = request;
        self.has_registered |= is_registration;
        let (stage, charge) = match handled {
            Handled::Answered => return Ok(()),
            Handled::Change(command, Answer::Again) => (Stage::Again(self.worker.writer.send(command)?, frame), charge),
            Handled::Change(command, answer) => (Stage::Writer(self.worker.writer.send(command)?, answer), charge),
            Handled::Deferred(_) | Handled::OutOfTurn => {
                let Some(charge) = charge.or_else(|| self.charge(frame.len())) else {
                    if !is_oneway {
                        self.worker.service.borrow().busy(opaque, &mut self.wire.output);
                    }
                    return Ok(());
                };
                let Handled::Deferred(lane) = handled else {
                    self.in_turn.push_back(InTurn { frame, charge });
                    return Ok(());
                };
                let Peer { address: peer, source, .. } = self.peer;
                let arrived = self.worker.shared.clock.now();
                let job = Job { frame, peer, source, account: Arc::clone(&self.account), charge, arrived };
                (Stage::Lane(self.worker.lanes.push(lane, job)), None)
            }
        };
        self.in_flight.push(InFlight { stage, opaque, is_oneway, is_change, charge });
        Ok(())
    }

    /// Goes on with a request after what a thread has said of it.
    fn follow(&mut self, at: usize, said: Said) -> Result<(), End> {
        if let Said::Lane(LaneAnswer { handled: Handled::Change(command, answer), charge, .. }) = said {
            let request = &mut self.in_flight[at];
            request.stage = Stage::Writer(self.worker.writer.send(command)?, answer);
            request.charge = charge;
            return Ok(());
        }
        let InFlight { opaque, is_oneway, .. } = self.in_flight.swap_remove(at);
        let output = &mut self.wire.output;
        match said {
            Said::Lane(LaneAnswer { head, body, .. }) if !is_oneway => {
                output.extend_from_slice(&head);
                body.into_iter().for_each(|body| self.wire.share(body));
            }
            Said::Lane(_) => {}
            Said::Writer(applied, answer) => {
                if matches!(applied.outcome, Outcome::Registered(_)) {
                    self.place.has_brokers();
                    self.account.note_brokers();
                }
                if !is_oneway {
                    self.worker.service.borrow().answer_change(opaque, answer, &applied, output);
                }
            }
            Said::Again(frame) => self.serve_held(frame, None)?,
        }
        while !self.has_change_in_flight()
            && let Some(InTurn { frame, charge }) = self.in_turn.pop_front()
        {
            self.serve_held(frame, Some(charge))?;
        }
        Ok(())
    }

    /// Serves a frame that was kept.
    fn serve_held(&mut self, bytes: Bytes, charge: Option<Charge>) -> Result<(), End> {
        let Self { worker, wire, headers, account, peer, .. } = self;
        let Decoded::Frame(frame) = FrameDecoder::new().decode(&bytes, &worker.shared.limits)? else { return Ok(()) };
        match handle(worker, headers, &frame, account, peer, true, &mut wire.output)? {
            Step::Done => Ok(()),
            Step::Unfinished(request) => self.send(request, bytes, charge),
        }
    }
}

/// Handles the request of a frame as far as the worker does.
fn handle<R: Registry>(
    worker: &Worker<R>,
    headers: &mut RequestDecoder,
    frame: &Frame<'_>,
    account: &Arc<Account>,
    peer: &Peer,
    is_turn: bool,
    output: &mut Vec<u8>,
) -> Result<Step, End> {
    let request = headers.decode(frame, &worker.shared.limits)?;
    if request.is_response() {
        // We have asked nothing over this connection.
        return Ok(Step::Done);
    }
    let Peer { id: connection, address: peer, source } = *peer;
    let call = Call { request: &request, body: frame.body, account, connection, peer, source, arrived: None };
    let start = output.len();
    let handled = worker.service.borrow_mut().handle(call, is_turn, output);
    let is_oneway = request.is_oneway();
    if matches!(handled, Handled::Answered) {
        if is_oneway {
            output.truncate(start);
        }
        return Ok(Step::Done);
    }
    Ok(Step::Unfinished(Unfinished {
        handled,
        opaque: request.opaque,
        is_oneway,
        is_change: is_change::<R::Reader>(request.code),
        is_registration: RequestCode::from_wire(request.code) == Some(RequestCode::RegisterBroker),
    }))
}

impl Stage {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Said, End>> {
        match self {
            Self::Lane(answer) => {
                Pin::new(answer).poll(context).map(|said| said.map(Said::Lane).map_err(|_| End::LaneStopped))
            }
            Self::Writer(applied, answer) => {
                let said = Pin::new(applied).poll(context).map_err(|_| WriterStopped.into());
                said.map_ok(|applied| Said::Writer(applied, std::mem::replace(answer, Answer::Success)))
            }
            Self::Again(applied, frame) => {
                let said = Pin::new(applied).poll(context);
                said.map(|said| said.map(|_| Said::Again(std::mem::take(frame))).map_err(|_| WriterStopped.into()))
            }
        }
    }
}

impl<R: Registry, S> Drop for Connection<R, S> {
    fn drop(&mut self) {
        let Self { worker, peer, has_registered, .. } = self;
        // A server that leaves has closed the connection itself, or might have.
        if *has_registered && worker.shared.phase.removes() {
            worker.writer.submit(Command::Disconnect(peer.id));
        }
    }
}
