//! Notices to brokers: `NOTIFY_MIN_BROKER_ID_CHANGE` (905).

use std::{collections::HashMap, sync::Arc, time::Duration};

use registry_core::{MinIdChange, Name};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tracing::debug;

use crate::{
    body::Excerpt,
    counters::Kind,
    remoting::{RequestCode, RequestHeader, codes::FLAG_ONEWAY},
    service::Shared,
};

/// A change that the members of a group are told of.
#[derive(Debug)]
pub(crate) struct Notice(pub(crate) MinIdChange);

/// Notices that wait to be sent. More are dropped: brokers ask for themselves, too.
pub(crate) const NOTICES_MAX: usize = 1_024;
/// Notices that wait for one broker.
const NOTICES_PER_BROKER_MAX: usize = 16;
/// Brokers that are told at a time; each has a connection.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// How long a write may take (the original's budget for the whole call).
const WRITE_TIMEOUT: Duration = Duration::from_millis(300);
/// How long a connection without notices is kept (`clientChannelMaxIdleTimeSeconds`).
const IDLE: Duration = Duration::from_secs(120);

type Frame = Arc<[u8]>;

/// Sends notices, for ever. Each broker has a connection and a queue of its own, so a slow one delays nobody else.
pub(crate) async fn run(shared: Arc<Shared>, mut notices: mpsc::Receiver<Notice>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut brokers: HashMap<Name, mpsc::Sender<Frame>> = HashMap::new();
    let mut opaque = 0i32;
    while let Some(Notice(change)) = notices.recv().await {
        opaque = opaque.wrapping_add(1);
        let frame = encode(&shared, &change, opaque);
        brokers.retain(|_, queue| !queue.is_closed());
        for addr in change.recipients {
            if let Some(queue) = brokers.get(&addr) {
                if queue.try_send(Arc::clone(&frame)).is_err() {
                    shared.counters.count(Kind::Failure, "notice_dropped");
                }
                continue;
            }
            let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
                shared.counters.count(Kind::Failure, "notice_dropped");
                continue;
            };
            let (queue, frames) = mpsc::channel(NOTICES_PER_BROKER_MAX);
            let _ = queue.try_send(Arc::clone(&frame));
            brokers.insert(addr.clone(), queue);
            let shared = Arc::clone(&shared);
            tokio::task::spawn_local(async move {
                if let Err(error) = tell(&shared, &addr, frames).await {
                    debug!(addr = %Excerpt::of(&addr), %error, "cannot notify a broker");
                    shared.counters.count(Kind::Failure, "notice_dropped");
                }
                drop(permit);
            });
        }
    }
}

async fn tell(shared: &Shared, addr: &str, mut frames: mpsc::Receiver<Frame>) -> std::io::Result<()> {
    let connecting = TcpStream::connect(addr);
    let mut stream = timeout(shared.config.config().connect_timeout, connecting).await??;
    stream.set_nodelay(true)?;
    while let Ok(Some(frame)) = timeout(IDLE, frames.recv()).await {
        timeout(WRITE_TIMEOUT, stream.write_all(&frame)).await??;
    }
    Ok(())
}

fn encode(shared: &Shared, change: &MinIdChange, opaque: i32) -> Frame {
    let min_broker_id = change.min_broker_id.to_string();
    let mut ext: Vec<(&str, &str)> = Vec::with_capacity(4);
    ext.extend(change.ha_broker_addr.as_deref().map(|addr| ("haBrokerAddr", addr)));
    ext.push(("minBrokerAddr", &change.min_broker_addr));
    ext.push(("minBrokerId", &min_broker_id));
    ext.extend(change.offline_broker_addr.as_deref().map(|addr| ("offlineBrokerAddr", addr)));
    let mut out = Vec::new();
    let code = RequestCode::NotifyMinBrokerIdChange.to_wire();
    let mark =
        shared.encoder.begin_request(&mut out, &RequestHeader { code, flag: FLAG_ONEWAY, opaque, ext: Some(&ext) });
    shared.encoder.finish(&mut out, mark);
    out.into()
}
