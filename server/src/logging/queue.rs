//! The lines that wait to be written.

use std::{
    io::{self, ErrorKind, Write},
    mem,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Bytes of lines that wait to be written: some 7,000 lines, which is a second of `RUST_LOG=debug` under load. As many
/// again may be with the thread that writes. Beyond it lines are dropped, and counted.
pub(super) const QUEUE_BYTES_MAX: usize = 1 << 20;
/// A buffer that has grown beyond this is not kept.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Pause before another try, where somebody else has made the descriptor one that does not wait.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Lines from any thread for one that writes them.
///
/// Whoever adds a line never waits for a write: the lock is held while bytes are copied, and never longer.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    written: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: Vec<u8>,
    /// Whether the thread that writes has lines that are not waiting any more.
    is_writing: bool,
    /// Lines that were dropped, since the beginning, ...
    lost: u64,
    /// ... and how many of them somebody has asked for.
    taken: u64,
}

impl Queue {
    pub(super) const fn new() -> Self {
        let state = State { waiting: Vec::new(), is_writing: false, lost: 0, taken: 0 };
        Self { state: Mutex::new(state), filled: Condvar::new(), written: Condvar::new() }
    }

    /// Adds lines, or drops and counts them when there is no room.
    pub(super) fn push(&self, lines: &[u8]) {
        let mut state = self.lock();
        if state.waiting.len() + lines.len() > QUEUE_BYTES_MAX {
            state.lost += count(lines);
        } else {
            self.add(state, lines);
        }
    }

    /// Adds lines whatever waits already: for the end of a process.
    pub(super) fn push_last(&self, lines: &[u8]) {
        self.add(self.lock(), lines);
    }

    fn add(&self, mut state: MutexGuard<'_, State>, lines: &[u8]) {
        state.waiting.extend_from_slice(lines);
        if !state.is_writing {
            self.filled.notify_one();
        }
    }

    /// Waits until every line is written or lost, but not longer than this.
    pub(super) fn flush(&self, wait: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        drop(self.written.wait_timeout_while(self.lock(), wait, is_busy));
    }

    /// Lines that were lost since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        let mut state = self.lock();
        let lost = state.lost;
        lost - mem::replace(&mut state.taken, lost)
    }

    /// Takes all lines, for the thread that writes. Waits for some until `due`; there may be none then.
    fn take(&self, due: Instant, lines: &mut Vec<u8>) {
        let wait = due.saturating_duration_since(Instant::now());
        let is_empty = |state: &mut State| state.waiting.is_empty();
        let (mut state, _) =
            self.filled.wait_timeout_while(self.lock(), wait, is_empty).unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut state.waiting, lines);
        state.is_writing = !lines.is_empty();
    }

    /// What was taken is dealt with. Gives the lines that were lost since the beginning.
    fn done(&self, lost: u64) -> u64 {
        let mut state = self.lock();
        state.is_writing = false;
        state.lost += lost;
        let lost = state.lost;
        drop(state);
        self.written.notify_all();
        lost
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what the queue gets, on a thread of its own. A write that fails costs the lines of it, one that waits costs those
/// that find no room meanwhile.
#[derive(Debug)]
pub(super) struct LineWriter<W> {
    sink: W,
    lines: Vec<u8>,
    /// The last line that was written has no end.
    is_torn: bool,
    /// Lost lines that have been said.
    said: u64,
    /// Why they were lost, where a write has failed.
    failure: Option<io::Error>,
}

/// Lines are lost, and the log can be written again.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) lines: u64,
    /// The last failed write; `None` when there was no room in the queue.
    pub(super) failure: Option<io::Error>,
}

impl<W: Write> LineWriter<W> {
    pub(super) fn new(sink: W) -> Self {
        Self { sink, lines: Vec::new(), is_torn: false, said: 0, failure: None }
    }

    /// Writes the next lines; waits for some until `due`.
    pub(super) fn write_next(&mut self, queue: &Queue, due: Instant) -> Option<Gap> {
        queue.take(due, &mut self.lines);
        if self.lines.is_empty() {
            return None;
        }
        let result = self.write_lines();
        let lost = queue.done(result.as_ref().err().map_or(0, |(lines, _)| *lines));
        self.lines.clear();
        self.lines.shrink_to(KEPT_BYTES_MAX);
        match result {
            Err((_, failure)) => {
                self.failure = Some(failure);
                None
            }
            Ok(()) if lost > self.said => {
                let lines = lost - mem::replace(&mut self.said, lost);
                Some(Gap { lines, failure: self.failure.take() })
            }
            Ok(()) => None,
        }
    }

    /// The error is why, and how many lines are lost.
    fn write_lines(&mut self) -> Result<(), (u64, io::Error)> {
        let Self { sink, lines, is_torn, .. } = self;
        if *is_torn {
            write_all(sink, b"\n").map_err(|(_, failure)| (count(lines), failure))?;
            *is_torn = false;
        }
        write_all(sink, lines).map_err(|(written, failure)| {
            *is_torn = lines[..written].last().is_some_and(|&last| last != b'\n');
            (count(&lines[written..]), failure)
        })
    }
}

/// The error is why, and how many bytes are written.
fn write_all(sink: &mut impl Write, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match sink.write(&bytes[written..]) {
            Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_PAUSE),
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

fn count(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes so many bytes, then fails.
    struct Disk {
        room: usize,
        written: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room).min(3);
            self.room -= taken;
            self.written.extend_from_slice(&bytes[..taken]);
            if taken == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_costs_lines_and_their_number_is_said_when_there_is_room() {
        let queue = Queue::new();
        let mut writer = LineWriter::new(Disk { room: 7, written: Vec::new() });
        queue.push(b"one\ntwo\nthree\n");
        assert!(writer.write_next(&queue, Instant::now()).is_none());
        queue.push(b"four\n");
        assert!(writer.write_next(&queue, Instant::now()).is_none());
        assert_eq!(queue.take_lost(), 3);
        writer.sink.room = 1_000;
        queue.push(b"five\n");
        let gap = writer.write_next(&queue, Instant::now()).expect("it is said");
        assert_eq!((gap.lines, gap.failure.map(|error| error.kind())), (3, Some(ErrorKind::StorageFull)));
        queue.push(b"six\n");
        assert!(writer.write_next(&queue, Instant::now()).is_none(), "it is said once");
        assert_eq!(writer.sink.written, b"one\ntwo\nfive\nsix\n");
        assert_eq!(queue.take_lost(), 0);
    }

    #[test]
    fn a_line_after_half_a_line_begins_at_the_margin() {
        let queue = Queue::new();
        let mut writer = LineWriter::new(Disk { room: 5, written: Vec::new() });
        queue.push(b"one\ntwo\n");
        assert!(writer.write_next(&queue, Instant::now()).is_none());
        writer.sink.room = 1_000;
        queue.push(b"three\n");
        assert_eq!(writer.write_next(&queue, Instant::now()).map(|gap| gap.lines), Some(1));
        assert_eq!(writer.sink.written, b"one\nt\nthree\n");
    }

    #[test]
    fn a_full_queue_costs_lines_but_last_words_find_room() {
        let queue = Queue::new();
        let line = [&[b'x'; 1_023][..], b"\n"].concat();
        for _ in 0..QUEUE_BYTES_MAX / line.len() + 5 {
            queue.push(&line);
        }
        queue.push_last(b"last\n");
        assert_eq!(queue.take_lost(), 5);
        let mut writer = LineWriter::new(Vec::new());
        let gap = writer.write_next(&queue, Instant::now()).expect("it is said");
        assert_eq!((gap.lines, gap.failure.is_none()), (5, true));
        assert_eq!(writer.sink.len(), QUEUE_BYTES_MAX + 5);
        assert!(writer.sink.ends_with(b"last\n"));
        assert!(writer.lines.capacity() <= KEPT_BYTES_MAX);
    }

    /// Says when it is asked to write, and waits until it may.
    struct Pipe {
        asked: mpsc::Sender<()>,
        may_write: mpsc::Receiver<()>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.asked.send(());
            self.may_write.recv().map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_write_that_waits_makes_nobody_else_wait_for_long() {
        const LONG: Duration = Duration::from_secs(60);
        let queue = Queue::new();
        let (asked, is_asked) = mpsc::channel();
        let (read, may_write) = mpsc::channel();
        let start = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = LineWriter::new(Pipe { asked, may_write });
                writer.write_next(&queue, start + LONG);
                writer.write_next(&queue, start + LONG);
            });
            queue.push(b"one\n");
            is_asked.recv_timeout(LONG).expect("it writes");
            queue.push(&[b'\n'; QUEUE_BYTES_MAX]);
            queue.push(b"two\n");
            assert_eq!(queue.take_lost(), 1, "what finds no room is lost");
            let before = Instant::now();
            queue.flush(Duration::from_millis(50));
            assert!(before.elapsed() >= Duration::from_millis(50), "lines wait");
            read.send(()).and_then(|()| read.send(())).expect("it writes");
            queue.flush(LONG);
        });
        assert!(start.elapsed() < LONG, "nobody waits for lines that are written");
    }
}
