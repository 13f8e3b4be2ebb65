//! Threads without which the server must not go on.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread::{Builder, JoinHandle},
};

use crate::logging;

/// Exit code of a process of which a critical thread has died (`EX_SOFTWARE`).
pub(crate) const EXIT_THREAD_DIED: i32 = 70;

/// Starts a thread and waits until it is ready.
///
/// `prepare` runs on the new thread and makes what `serve` needs; its error is the error of the start, so a thread that
/// cannot work never belongs to a server that says it has started. A panic of `serve` ends the process with
/// [`EXIT_THREAD_DIED`], whatever the log does: what the thread was working on may be half changed, and nobody else does its
/// work. `serve` returns when it is asked to end.
///
/// # Errors
/// The system has no thread left, or `prepare` failed.
pub(crate) fn spawn_critical<T>(
    name: &str,
    prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    serve: impl FnOnce(T) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (ready, is_ready) = mpsc::sync_channel(1);
    let named = name.to_owned();
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
    let thread = Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let serve = AssertUnwindSafe(|| match prepare() {
                Ok(prepared) => {
                    let _ = ready.send(Ok(()));
                    serve(prepared);
                }
                Err(error) => drop(ready.send(Err(error))),
            });
            if let Err(panic) = catch_unwind(serve) {
                let message = logging::panic_message(&*panic);
                logging::last_words(&format!("the thread {named} has panicked; the process ends: {message}"));
                std::process::exit(EXIT_THREAD_DIED);
            }
        })
        .map_err(failed)?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(failed(error)),
        Err(mpsc::RecvError) => Err(failed(io::Error::other("it ended before it was ready"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_not_ready_is_an_error_of_the_start() {
        let error = spawn_critical("lame", || Err::<(), _>(io::Error::other("no runtime")), |()| {}).unwrap_err();
        assert_eq!(error.to_string(), "lame: no runtime");
        let (sender, receiver) = mpsc::channel();
        let thread = spawn_critical("well", || Ok(7), move |number| sender.send(number).unwrap()).unwrap();
        assert_eq!(receiver.recv(), Ok(7));
        thread.join().unwrap();
    }
}
