//! The log, and what the process says beside it: nobody who serves waits for either or ends for it.
//!
//! ```text
//! any thread: info!(..) --> queue, 1 MiB --> thread `log` --> standard error
//!                             | full            | fails
//!                             +---- dropped, ---+
//!                                   counted, said when the log can be written again
//! ```
//!
//! A line is formatted where it arises and copied into the queue. Only the thread `log` writes, so only it waits for a pipe
//! that nobody reads and only it meets a full disk. The hook for panics and the [`last_words`] of a thread whose end is
//! the end of the process take the same way. Nothing else may write to the standard error: no `eprintln!`, which panics
//! when it fails.
//!
//! Lines that peers can cause have a `Limit`, each kind its own. Those at `debug` have none: whoever asks for them wants
//! all.

mod limit;
mod queue;

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    panic::{self, PanicHookInfo},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use tracing::{Level, warn};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        format::Writer,
        time::{FormatTime, SystemTime},
    },
};

pub(crate) use self::limit::Limit;
use self::queue::{LineWriter, Queue};
use crate::counters::{Counters, Kind};

/// How long the end of the process waits for the log. A reader that is alive takes what waits in a few milliseconds.
const FLUSH_WAIT: Duration = Duration::from_millis(500);
/// How often is said what was left out.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);
/// Characters that are shown of the message of a panic, or of a text that could not be printed.
const TEXT_CHARS_MAX: usize = 1_024;

static LOG: Queue = Queue::new();
static IS_STARTED: AtomicBool = AtomicBool::new(false);
/// Texts for the standard output that could not be written, and are not counted yet.
static OUTPUT_LOST: AtomicU64 = AtomicU64::new(0);

/// Starts the log of this process: what `RUST_LOG` says, `info` unless set, to the standard error. Panics are lines of it.
///
/// # Errors
/// The thread that writes cannot be started.
///
/// # Panics
/// When the process has a log already.
pub fn start() -> io::Result<()> {
    thread::Builder::new().name("log".to_owned()).spawn(write_for_ever)?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(|| Lines)
        // It would say them with `eprintln!`.
        .log_internal_errors(false)
        .init();
    panic::set_hook(Box::new(log_panic));
    IS_STARTED.store(true, Ordering::Release);
    Ok(())
}

/// The end of the process as planned: says what the limits have left out, then `text` on the standard error, for whoever
/// started it. Waits until all of the log is written, for 500 ms at most; never fails.
pub fn finish(text: &str) {
    limit::say_left_out();
    say_last(text);
}

/// Says why the process is about to end, as an error of the log that `RUST_LOG` does not hide. For a thread that calls
/// `std::process::exit` next: waits until all of the log is written, for 500 ms at most; never fails.
pub fn last_words(reason: &str) {
    say_last(&line("ERROR", reason));
}

fn say_last(text: &str) {
    if IS_STARTED.load(Ordering::Acquire) {
        LOG.push_last(text.as_bytes());
        LOG.flush(FLUSH_WAIT);
    } else {
        // There is nobody else to write it.
        let _ = StandardError.write_all(text.as_bytes());
    }
}

/// The message of a panic that was caught, for [`last_words`].
pub fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    escaped(text.unwrap_or("no message"))
}

/// Writes to the standard output, and waits for it, but not longer than `wait`. What cannot be written by then is counted and
/// said in the log; it may be written still, when somebody reads at last.
pub fn print(text: &str, wait: Duration) {
    if text.is_empty() {
        return;
    }
    let (done, is_done) = mpsc::sync_channel(1);
    let bytes = text.as_bytes().to_owned();
    let write = move || {
        let mut stdout = io::stdout();
        // Nobody waits for it any more.
        let _ = done.send(stdout.write_all(&bytes).and_then(|()| stdout.flush()));
    };
    let written = thread::Builder::new()
        .name("print".to_owned())
        .spawn(write)
        .and_then(|_| is_done.recv_timeout(wait).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())));
    if let Err(error) = written {
        OUTPUT_LOST.fetch_add(1, Ordering::Relaxed);
        // Whoever has closed it does not want to know.
        if error.kind() != io::ErrorKind::BrokenPipe {
            let text = escaped(text.lines().next().unwrap_or_default());
            warn!(%error, text, "the standard output cannot be written");
        }
    }
}

/// Counts what was lost since the last call: lines of the log that were dropped, texts that could not be printed.
pub fn count_losses(counters: &Counters) {
    let losses = [("log_dropped", LOG.take_lost()), ("output_dropped", OUTPUT_LOST.swap(0, Ordering::Relaxed))];
    for (reason, number) in losses {
        if number > 0 {
            counters.add(Kind::Failure, reason, number);
        }
    }
}

fn write_for_ever() {
    let mut writer = LineWriter::new(StandardError);
    let mut summary_due = Instant::now() + SUMMARY_INTERVAL;
    loop {
        if let Some(gap) = writer.write_next(&LOG, summary_due) {
            let reason = gap.failure.map_or_else(|| "the queue is full".to_owned(), |failure| failure.to_string());
            // Room is made for it, and `RUST_LOG` does not hide it.
            LOG.push_last(
                line("WARN", &format!("lines of the log were lost: lines={} reason={reason}", gap.lines)).as_bytes(),
            );
        }
        if Instant::now() >= summary_due {
            limit::say_left_out();
            summary_due = Instant::now() + SUMMARY_INTERVAL;
        }
    }
}

/// The hook for panics. It cannot block, fail, or panic: the line goes to the queue, or is dropped.
fn log_panic(panic: &PanicHookInfo<'_>) {
    static PANICS: Limit = Limit::new(Level::ERROR, "panic");
    if !PANICS.admits() {
        return;
    }
    let message = panic_message(panic.payload());
    let thread = thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let mut text = line("ERROR", &format!("thread '{name}' panicked{place}: {message}"));
    // Only where `RUST_BACKTRACE` asks for it: it takes a while.
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        let _ = write!(text, "{backtrace}");
        text.push('\n');
    }
    LOG.push(text.as_bytes());
}

/// A line as `tracing` writes it, for where `tracing` is not to be trusted.
fn line(level: &str, text: &str) -> String {
    let mut line = String::new();
    // Writing to a string never fails.
    let _ = SystemTime.format_time(&mut Writer::new(&mut line));
    let _ = writeln!(line, " {level:>5} {text}");
    line
}

/// The start of a text, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(TEXT_CHARS_MAX) {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Where `tracing` puts its lines. Never fails.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LOG.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The descriptor, without the lock of `std`, which whoever waits for a reader would hold.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(io::stderr().as_fd(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
