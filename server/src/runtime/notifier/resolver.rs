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
pub(super) async fn run<T>(names: mpsc::Receiver<(Name, T)>, results: mpsc::Sender<Resolved<T>>) {
    run_with(lookup, names, results).await;
}

/// A name, its address, and what waited for it.
type Resolved<T> = (Name, Option<SocketAddr>, T);

async fn run_with<T>(
    lookup: impl Fn(&Name) -> oneshot::Receiver<Option<SocketAddr>>,
    mut names: mpsc::Receiver<(Name, T)>,
    results: mpsc::Sender<Resolved<T>>,
) {
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

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;

    #[test]
    fn a_name_waits_until_the_thread_of_the_one_before_has_ended() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let begun: Rc<RefCell<Vec<oneshot::Sender<Option<SocketAddr>>>>> = Rc::default();
            let threads = Rc::clone(&begun);
            let lookup = move |_: &Name| {
                let (sender, receiver) = oneshot::channel();
                threads.borrow_mut().push(sender);
                receiver
            };
            let (names, asked) = mpsc::channel(4);
            let (answers, mut results) = mpsc::channel(4);
            tokio::task::spawn_local(run_with(lookup, asked, answers));
            for (number, name) in ["slow", "next", "slow"].into_iter().enumerate() {
                names.try_send((name.into(), number)).unwrap();
            }
            assert_eq!(results.recv().await.unwrap(), ("slow".into(), None, 0), "not in time");
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(begun.borrow().len(), 1, "a second thread beside the first");
            begun.borrow_mut().pop().unwrap().send(None).unwrap();
            while begun.borrow().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let address: SocketAddr = "10.0.0.1:10911".parse().unwrap();
            begun.borrow_mut().pop().unwrap().send(Some(address)).unwrap();
            assert_eq!(results.recv().await.unwrap(), ("next".into(), Some(address), 1));
            assert_eq!(results.recv().await.unwrap(), ("slow".into(), None, 2), "remembered");
            assert!(begun.borrow().is_empty());
        });
    }
}
