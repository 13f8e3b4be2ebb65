//! One connection to a broker, kept between notices.

use std::{cell::Cell, io, net::SocketAddr, rc::Rc, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{Notify, mpsc},
    time::{Instant, timeout},
};

use super::Frame;

/// How long a write may take (the original's budget for the whole call).
const WRITE_TIMEOUT: Duration = Duration::from_millis(300);
/// How long a connection without notices is kept (`clientChannelMaxIdleTimeSeconds`).
const IDLE: Duration = Duration::from_secs(120);
/// A kept connection that ends this soon behind a notice had ended before: the notice is sent again.
const UNSURE: Duration = Duration::from_secs(1);
/// Bytes that are read and thrown away between two notices; nothing is to be said to a notice, so more ends the connection.
const UNASKED_BYTES_MAX: usize = 64 << 10;

/// What the connection and whoever fills its queue both see.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Notices in the queue and the one being sent.
    pub(super) unsent: Cell<usize>,
}

/// Sends what comes out of `frames` to `target`, until nothing comes for long or the queue is closed.
pub(super) async fn serve(
    target: SocketAddr,
    connect_timeout: Duration,
    mut frames: mpsc::Receiver<Frame>,
    progress: Rc<Progress>,
    idle: Rc<Notify>,
) -> io::Result<()> {
    let mut stream: Option<TcpStream> = None;
    let mut unsure: Option<(Frame, Instant)> = None;
    loop {
        let next = tokio::select! {
            biased;
            () = ended(stream.as_ref()) => None,
            next = timeout(IDLE, frames.recv()) => match next {
                Ok(Some(frame)) => Some(frame),
                _ => return Ok(()),
            },
        };
        let Some(frame) = next else {
            stream = None;
            if let Some((frame, sent)) = unsure.take()
                && sent.elapsed() < UNSURE
            {
                stream = Some(write_anew(target, connect_timeout, &frame).await?);
            }
            continue;
        };
        let kept = match &mut stream {
            Some(kept) => write(kept, &frame).await.is_ok(),
            None => false,
        };
        if kept {
            unsure = Some((frame, Instant::now()));
        } else {
            drop(stream.take());
            unsure = None;
            stream = Some(write_anew(target, connect_timeout, &frame).await?);
        }
        progress.unsent.set(progress.unsent.get() - 1);
        if progress.unsent.get() == 0 {
            idle.notify_one();
        }
    }
}

async fn write_anew(target: SocketAddr, connect_timeout: Duration, frame: &Frame) -> io::Result<TcpStream> {
    let mut stream = timeout(connect_timeout, TcpStream::connect(target)).await??;
    // A port of our own range may connect to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::other("connected to itself"));
    }
    stream.set_nodelay(true)?;
    write(&mut stream, frame).await?;
    Ok(stream)
}

async fn write(stream: &mut TcpStream, frame: &Frame) -> io::Result<()> {
    timeout(WRITE_TIMEOUT, stream.write_all(frame)).await?
}

/// Resolves when the peer has closed the connection, or says too much; never without a connection.
async fn ended(stream: Option<&TcpStream>) {
    let Some(stream) = stream else { return std::future::pending().await };
    let mut unasked = [0; 512];
    let mut total = 0;
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut unasked) {
            Ok(0) => return,
            Ok(bytes) => {
                total += bytes;
                if total > UNASKED_BYTES_MAX {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt, net::TcpListener};

    use super::*;

    async fn read(listener: &TcpListener) -> (TcpStream, [u8; 3]) {
        let (mut stream, _) = timeout(Duration::from_secs(10), listener.accept()).await.unwrap().unwrap();
        let mut bytes = [0; 3];
        stream.read_exact(&mut bytes).await.unwrap();
        (stream, bytes)
    }

    #[test]
    fn a_notice_behind_the_end_of_a_kept_connection_takes_a_new_one() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (queue, frames) = mpsc::channel(4);
            let progress = Rc::new(Progress::default());
            progress.unsent.set(3);
            let target = listener.local_addr().unwrap();
            let limit = Duration::from_secs(3);
            tokio::task::spawn_local(serve(target, limit, frames, Rc::clone(&progress), Rc::default()));
            let send = |bytes: &'static [u8]| queue.try_send(bytes.into()).unwrap();
            send(b"one");
            let (first, bytes) = read(&listener).await;
            assert_eq!(&bytes, b"one");
            drop(first);
            tokio::time::sleep(Duration::from_millis(50)).await;
            send(b"two");
            let (mut second, bytes) = read(&listener).await;
            assert_eq!(&bytes, b"two");
            // The end that comes just behind a notice: it is sent again.
            send(b"six");
            let mut bytes = [0; 3];
            second.read_exact(&mut bytes).await.unwrap();
            drop(second);
            let (_third, bytes) = read(&listener).await;
            assert_eq!(&bytes, b"six");
            assert_eq!(progress.unsent.get(), 0);
        });
    }
}
