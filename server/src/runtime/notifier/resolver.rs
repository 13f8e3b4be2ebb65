//! Host names of brokers, one at a time.

use std::{
    collections::HashMap,
    net::{SocketAddr, ToSocketAddrs},
    thread,
    time::Duration,
};

use registry_core::Name;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

/// Names that wait to be resolved.
pub(super) const NAMES_MAX: usize = 64;
/// How long a notice waits for an address.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer, or that there is none, is remembered; ...
const REMEMBERED: Duration = Duration::from_secs(30);
/// ... and how many are.
const REMEMBERED_MAX: usize = 256;

/// Resolves names, for ever: each with what waits for it, back to whoever asked. The system's resolver blocks, so it
/// has a thread, never two: a name behind one that takes its time waits.
pub(super) async fn run<T>(mut names: mpsc::Receiver<(Name, T)>, results: mpsc::Sender<(Name, Option<SocketAddr>, T)>) {
    let mut remembered: HashMap<Name, (Instant, Option<SocketAddr>)> = HashMap::new();
    while let Some((name, waiting)) = names.recv().await {
        remembered.retain(|_, (at, _)| at.elapsed() < REMEMBERED);
        if let Some((_, address)) = remembered.get(&name) {
            let _ = results.send((name, *address, waiting)).await;
            continue;
        }
        let mut lookup = lookup(&name);
        let in_time = timeout(RESOLVE_TIMEOUT, &mut lookup).await;
        let address = in_time.as_ref().ok().and_then(|found| *found.as_ref().ok()?);
        if remembered.len() < REMEMBERED_MAX {
            remembered.insert(name.clone(), (Instant::now(), address));
        }
        let _ = results.send((name, address, waiting)).await;
        if in_time.is_err() {
            // The thread is still at it.
            let _ = lookup.await;
        }
    }
}

/// Not the runtime's pool: a runtime that ends waits for what runs there.
fn lookup(name: &Name) -> oneshot::Receiver<Option<SocketAddr>> {
    let (sender, receiver) = oneshot::channel();
    let name = name.clone();
    // Without a thread the sender is dropped, and the name has no address.
    let _ = thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let _ = sender.send(name.to_socket_addrs().ok().and_then(|mut found| found.next()));
    });
    receiver
}
