//! Notices to brokers: `NOTIFY_MIN_BROKER_ID_CHANGE` (905).
//!
//! ```text
//! writer -> Notice -> rule (or resolver, then rule) -> a queue for each group -> a handful of connections
//! ```
//!
//! Whom to tell comes from the network, so nothing of it is believed: a recipient is an address from which its broker
//! registered, or one of `notifyAllowCidrs`, and never this server.

mod connection;
mod resolver;
mod rule;

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

use registry_core::{MinIdChange, Name};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
};
use tracing::debug;

use self::connection::Progress;
use crate::{
    body::Quoted,
    counters::Kind,
    remoting::{RequestCode, RequestHeader, codes::FLAG_ONEWAY},
    service::Shared,
};

/// A change that the members of a group are told of.
#[derive(Debug)]
pub(crate) struct Notice(pub(crate) MinIdChange);

/// Changes that wait for the notifier. More are dropped: brokers ask for themselves, too.
pub(crate) const NOTICES_MAX: usize = 1_024;
/// Connections to brokers at a time: descriptors are for peers.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Of them to one host, so that a host that does not answer leaves connections to others.
const CONNECTIONS_PER_HOST_MAX: usize = 8;
/// Notices that wait in one connection.
const NOTICES_PER_CONNECTION_MAX: usize = 16;
/// Notices that wait for a connection, each for one broker: of all groups, ...
const WAITING_MAX: usize = 4_096;
/// ... and of one.
const WAITING_PER_GROUP_MAX: usize = 64;
/// Bytes of the notices that wait for a connection.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Members that are told of one change: a group has a master and a few slaves.
const RECIPIENTS_MAX: usize = 16;

type Frame = Arc<[u8]>;

/// A notice for one broker.
#[derive(Debug)]
struct Delivery {
    target: SocketAddr,
    frame: Frame,
}

/// A connection as the notifier sees it.
struct Connection {
    queue: mpsc::Sender<Frame>,
    progress: Rc<Progress>,
}

/// Sends notices, for ever. Never blocks its thread.
pub(crate) async fn run(shared: Arc<Shared>, own_port: u16, mut notices: mpsc::Receiver<Notice>) {
    let (names, asked) = mpsc::channel(resolver::NAMES_MAX);
    let (answers, mut resolved) = mpsc::channel(1);
    tokio::task::spawn_local(resolver::run(asked, answers));
    let mut notifier = Notifier {
        shared,
        own_port,
        names,
        waiting: Waiting::default(),
        connections: HashMap::new(),
        tasks: JoinSet::new(),
        idle: Rc::default(),
    };
    let idle = Rc::clone(&notifier.idle);
    let mut opaque = 0i32;
    loop {
        tokio::select! {
            notice = notices.recv() => {
                let Some(Notice(change)) = notice else { return };
                opaque = opaque.wrapping_add(1);
                notifier.take(change, opaque);
            }
            Some((name, address, (group, frame))) = resolved.recv() => match address {
                Some(target) => notifier.admit(&group, &name, target, frame),
                None => notifier.lost(&name, "notice_unresolved"),
            },
            Some(_) = notifier.tasks.join_next() => {
                notifier.connections.retain(|_, connection| !connection.queue.is_closed());
            }
            () = idle.notified() => {}
        }
        notifier.send_what_can_be();
    }
}

struct Notifier {
    shared: Arc<Shared>,
    own_port: u16,
    names: mpsc::Sender<(Name, (Name, Frame))>,
    waiting: Waiting,
    connections: HashMap<SocketAddr, Connection>,
    tasks: JoinSet<()>,
    /// A connection has sent all it had.
    idle: Rc<Notify>,
}

impl Notifier {
    fn take(&mut self, change: MinIdChange, opaque: i32) {
        let frame = encode(&self.shared, &change, opaque);
        for (at, name) in change.recipients.iter().enumerate() {
            let frame = Arc::clone(&frame);
            if at >= RECIPIENTS_MAX {
                self.lost(name, "notice_too_many_recipients");
            } else if let Ok(target) = name.parse() {
                self.admit(&change.broker_name, name, target, frame);
            } else if !self.shared.config.config().notify_host_names {
                self.lost(name, "notice_host_name");
            } else if self.names.try_send((name.clone(), (change.broker_name.clone(), frame))).is_err() {
                self.lost(name, "notice_dropped");
            }
        }
    }

    fn admit(&mut self, group: &Name, name: &str, target: SocketAddr, frame: Frame) {
        if let Err(reason) = rule::check(&self.shared, self.own_port, name, target) {
            self.lost(name, reason);
        } else if !self.waiting.push(group, Delivery { target, frame }) {
            self.lost(name, "notice_dropped");
        }
    }

    fn lost(&self, name: &str, reason: rule::Reason) {
        debug!(addr = %Quoted::of(name), reason, "a broker is not notified");
        self.shared.counters.count(Kind::Failure, reason);
    }

    /// Group by group, until none can go on.
    fn send_what_can_be(&mut self) {
        let mut stuck = 0;
        while stuck < self.waiting.groups.len() {
            let Some(group) = self.waiting.groups.front() else { return };
            let Some(Delivery { target, frame }) = group.deliveries.front() else { return };
            let (target, frame) = (*target, Arc::clone(frame));
            if self.send(target, frame) {
                self.waiting.pop();
                stuck = 0;
            } else {
                self.waiting.groups.rotate_left(1);
                stuck += 1;
            }
        }
    }

    /// Gives a notice to a connection, a new one if need be; `false` when it has to wait for one.
    fn send(&mut self, target: SocketAddr, frame: Frame) -> bool {
        if let Some(Connection { queue, progress }) = self.connections.get(&target) {
            // A queue that is closed belongs to a task that has ended and will be joined.
            let is_taken = queue.try_send(frame).is_ok();
            progress.unsent.set(progress.unsent.get() + usize::from(is_taken));
            return is_taken;
        }
        let host = target.ip().to_canonical();
        let is_there = |other: &SocketAddr| other.ip().to_canonical() == host;
        let of_host = self.connections.keys().filter(|other| is_there(other)).count();
        if of_host >= CONNECTIONS_PER_HOST_MAX {
            self.close_idle(is_there);
            return false;
        }
        if self.tasks.len() >= CONNECTIONS_MAX {
            self.close_idle(|_| true);
            return false;
        }
        self.open(target, frame);
        true
    }

    /// Ends a connection that has nothing to send; its task says when its place is free.
    fn close_idle(&mut self, is_candidate: impl Fn(&SocketAddr) -> bool) {
        let is_idle = |connection: &Connection| connection.progress.unsent.get() == 0;
        let mut candidates = self.connections.iter().filter(|(target, _)| is_candidate(target));
        if let Some(target) = candidates.find(|(_, connection)| is_idle(connection)).map(|(target, _)| *target)
            && let Some(connection) = self.connections.get_mut(&target)
        {
            // The receiver sees its last sender go.
            connection.queue = mpsc::channel(1).0;
        }
    }

    fn open(&mut self, target: SocketAddr, frame: Frame) {
        let (queue, frames) = mpsc::channel(NOTICES_PER_CONNECTION_MAX);
        let _ = queue.try_send(frame);
        let progress = Rc::new(Progress::default());
        progress.unsent.set(1);
        self.connections.insert(target, Connection { queue, progress: Rc::clone(&progress) });
        let (shared, idle) = (Arc::clone(&self.shared), Rc::clone(&self.idle));
        self.tasks.spawn_local(async move {
            let connect_timeout = shared.config.config().connect_timeout;
            let served = connection::serve(target, connect_timeout, frames, Rc::clone(&progress), idle).await;
            if let Err(error) = served {
                debug!(%target, %error, "cannot notify a broker");
                let lost = progress.unsent.get().max(1);
                shared.counters.add(Kind::Failure, "notice_failed", u64::try_from(lost).unwrap_or(u64::MAX));
            }
        });
    }
}

/// Notices that wait for a connection: groups take turns.
#[derive(Debug, Default)]
struct Waiting {
    /// None of them is empty.
    groups: VecDeque<Group>,
    number: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Group {
    name: Name,
    deliveries: VecDeque<Delivery>,
}

impl Waiting {
    /// `false` when there is no room.
    fn push(&mut self, name: &Name, delivery: Delivery) -> bool {
        let bytes = delivery.frame.len();
        if self.number >= WAITING_MAX || self.bytes + bytes > WAITING_BYTES_MAX {
            return false;
        }
        match self.groups.iter_mut().find(|group| group.name == *name) {
            Some(group) if group.deliveries.len() >= WAITING_PER_GROUP_MAX => return false,
            Some(group) => group.deliveries.push_back(delivery),
            None => self.groups.push_back(Group { name: name.clone(), deliveries: VecDeque::from([delivery]) }),
        }
        self.number += 1;
        self.bytes += bytes;
        true
    }

    /// Takes the first notice of the first group, which is the last one then.
    fn pop(&mut self) {
        let Some(mut group) = self.groups.pop_front() else { return };
        if let Some(delivery) = group.deliveries.pop_front() {
            self.number -= 1;
            self.bytes -= delivery.frame.len();
        }
        if !group.deliveries.is_empty() {
            self.groups.push_back(group);
        }
    }
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
