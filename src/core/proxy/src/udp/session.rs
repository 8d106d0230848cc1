//! The sessions of a listener on one worker.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use mixer_base::task::Group;
use mixer_net::datagram::{self, Buffer, Received};
use mixer_net::descriptors;

use super::{Next, TOLD, Taken, UdpProxy, due, take_batch};
use crate::cluster::{Admitted, Host, Kind, Wanted};
use crate::context::WorkerContext;
use crate::stats::{Block, ClusterStat, ClusterUdpStat, ListenerUdpStat, UdpStat};
use crate::timer::Timer;
use crate::upstream::Pool;

/// Entries below which the table of sessions keeps its memory.
const SMALL: usize = 64;

/// Time after which a session without a way to its host looks for one again.
const RETRY: Duration = Duration::from_secs(1);

/// The sessions of a listener on one worker, which end with it.
#[derive(Debug)]
pub(super) struct Sessions(Rc<Shared>);

/// What the sessions share. Their tasks have it, too.
#[derive(Debug)]
struct Shared {
    proxy: Arc<UdpProxy>,
    /// Of the listener.
    socket: UdpSocket,
    context: Rc<WorkerContext>,
    /// Where a datagram of a host is, until it is sent on.
    buffer: RefCell<Buffer>,
    open: RefCell<HashMap<Key, Open>>,
    group: Group,
}

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    client: SocketAddr,
    /// The address that the client writes to; `None` if the listener has only one.
    local: Option<IpAddr>,
}

/// A session as it is kept. Its end is the end of its task.
#[derive(Debug)]
struct Open {
    session: Rc<Session>,
    task: AbortHandle,
    proxy: Arc<UdpProxy>,
    _place: Admitted,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
        self.proxy.stats.decrement(UdpStat::DownstreamSessActive);
    }
}

/// A session.
#[derive(Debug)]
struct Session {
    key: Key,
    host: Arc<Host>,
    /// Connected to the host; none as long as there is no way to it. One that is not connected would take datagrams of anybody.
    socket: OnceCell<UdpSocket>,
    /// Tells that there is a socket.
    connected: Notify,
    /// Not before then is looked again for a way to the host.
    again: Cell<Instant>,
    /// When it was idle for too long.
    deadline: Cell<Instant>,
}

impl Session {
    /// The socket. Errors: there is no descriptor, or no way to the host.
    fn socket(&self, now: Instant) -> std::io::Result<&UdpSocket> {
        if let Some(socket) = self.socket.get() {
            return Ok(socket);
        }
        if now < self.again.get() {
            return Err(ErrorKind::NotConnected.into());
        }
        self.again.set(now + RETRY);
        let socket = connect(self.host.address)?;
        let socket = self.socket.get_or_init(|| socket);
        self.connected.notify_one();
        Ok(socket)
    }

    /// Sends a datagram to the host.
    fn send(&self, data: &[u8], now: Instant) -> std::io::Result<usize> {
        SockRef::from(self.socket(now)?).send(data)
    }

    /// The socket, once there is one.
    async fn connected(&self) -> &UdpSocket {
        loop {
            if let Some(socket) = self.socket.get() {
                return socket;
            }
            self.connected.notified().await;
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.0.open.take().clear();
    }
}

impl Sessions {
    pub(super) fn new(proxy: Arc<UdpProxy>, socket: UdpSocket, context: Rc<WorkerContext>) -> Self {
        // One byte more, to know those that are too long.
        let buffer = RefCell::new(Buffer::new(proxy.max_reply + 1));
        let (open, group) = (RefCell::default(), Group::new("proxy UDP session"));
        Self(Rc::new(Shared { proxy, socket, context, buffer, open, group }))
    }

    /// The socket of the listener.
    pub(super) fn socket(&self) -> &UdpSocket {
        &self.0.socket
    }

    /// Sends a datagram of a client to the host of its session, which is opened if there is none.
    pub(super) fn forward(&self, datagram: &Received<'_>, now: Instant) {
        let shared = &self.0;
        let proxy = &shared.proxy;
        if datagram.data.len() > proxy.max_datagram {
            return proxy.listener_stats.increment(ListenerUdpStat::DownstreamRxDatagramDropped);
        }
        let Some((pool, stats)) = shared.route() else {
            return proxy.stats.increment(UdpStat::DownstreamSessNoRoute);
        };
        let key = Key { client: datagram.from, local: datagram.to };
        let Some(session) = self.session(key, pool, stats) else { return };
        let length = bytes(datagram.data);
        proxy.stats.add(UdpStat::DownstreamSessRxBytes, length);
        proxy.stats.increment(UdpStat::DownstreamSessRxDatagrams);
        session.deadline.set(now + proxy.idle_timeout);
        match session.send(datagram.data, now) {
            Ok(_) => {
                stats.increment(ClusterUdpStat::TxDatagrams);
                pool.cluster.stats.block.add(ClusterStat::UpstreamCxTxBytesTotal, length);
            }
            // What there is no room for is lost, as on any link, and so is what has no way to the host.
            Err(_) => stats.increment(ClusterUdpStat::TxErrors),
        }
    }

    /// The session of a datagram; `None` if there is none, and none can be opened. One whose host has become unhealthy is replaced, if
    /// there is a better one.
    fn session(&self, key: Key, pool: &Pool, stats: &Block<ClusterUdpStat>) -> Option<Rc<Session>> {
        let shared = &self.0;
        let hash = shared.proxy.hash.map(|hash| hash.of(key.client));
        let choose = || pool.choose_for(Wanted { hash, destination: None });
        let known = shared.open.borrow().get(&key).map(|open| Rc::clone(&open.session));
        let Some(known) = known else {
            let host = choose();
            if host.is_none() {
                pool.cluster.stats.block.increment(ClusterStat::UpstreamCxNoneHealthy);
            }
            return self.open(key, host?, pool, stats);
        };
        if known.host.is_healthy() {
            return Some(known);
        }
        match choose().filter(|host| host.is_healthy()) {
            Some(host) => {
                shared.close(&known);
                self.open(key, host, pool, stats)
            }
            None => Some(known),
        }
    }

    /// Opens a session, unless there are too many.
    fn open(
        &self,
        key: Key,
        host: Arc<Host>,
        pool: &Pool,
        stats: &Block<ClusterUdpStat>,
    ) -> Option<Rc<Session>> {
        let shared = &self.0;
        let proxy = Arc::clone(&shared.proxy);
        proxy.stats.increment(UdpStat::DownstreamSessTotal);
        let Some(place) = pool.cluster.admit(Kind::Connection) else {
            pool.cluster.stats.block.increment(ClusterStat::UpstreamCxOverflow);
            return None;
        };
        let now = Instant::now();
        let session = Rc::new(Session {
            key,
            host,
            socket: OnceCell::new(),
            connected: Notify::new(),
            again: Cell::new(now),
            deadline: Cell::new(now + proxy.idle_timeout),
        });
        if let Err(error) = session.socket(now) {
            let host = session.host.address;
            mixer_base::warn_limited!(1, %host, %error, "there is no way to the host of a UDP session");
            // ENFILE and EMFILE.
            let is_shortage = matches!(error.raw_os_error(), Some(23 | 24));
            if is_shortage {
                descriptors::report_shortage();
            }
            // ENOMEM and ENOBUFS as well: what follows would need more.
            if is_shortage || matches!(error.raw_os_error(), Some(12 | 105)) {
                stats.increment(ClusterUdpStat::TxErrors);
                return None;
            }
        }
        let task = shared.group.spawn_local(run(Rc::clone(shared), Rc::clone(&session))).abort_handle();
        proxy.stats.increment(UdpStat::DownstreamSessActive);
        let open = Open { session: Rc::clone(&session), task, proxy, _place: place };
        shared.open.borrow_mut().insert(key, open);
        Some(session)
    }

    /// Ends the sessions whose hosts the cluster no longer has.
    pub(super) fn end_those_of_gone_hosts(&self) {
        let Some((pool, _)) = self.0.route() else { return };
        let hosts = pool.cluster.hosts();
        let hosts: HashSet<*const Host> = hosts.iter().map(Arc::as_ptr).collect();
        let mut open = self.0.open.borrow_mut();
        open.retain(|_, open| hosts.contains(&Arc::as_ptr(&open.session.host)));
        trim(&mut open);
    }
}

impl Shared {
    /// The cluster, and what is counted of its datagrams.
    fn route(&self) -> Option<(&Pool, &Block<ClusterUdpStat>)> {
        let (cluster, stats) = self.proxy.cluster.as_ref()?;
        Some((self.context.pool(*cluster)?, stats))
    }

    /// Forgets a session, unless another one has its place.
    fn close(&self, session: &Rc<Session>) {
        // The table is borrowed only while the worker itself ends.
        let Ok(mut open) = self.open.try_borrow_mut() else { return };
        if open.get(&session.key).is_some_and(|known| Rc::ptr_eq(&known.session, session)) {
            open.remove(&session.key);
            trim(&mut open);
        }
    }

    /// Sends on a batch of what the host has sent.
    fn take(&self, session: &Session) -> Taken {
        let Some((pool, stats)) = self.route() else { return Taken::None };
        let mut buffer = self.buffer.borrow_mut();
        let deadline = Instant::now() + self.proxy.idle_timeout;
        take_batch(|| {
            let (Some(socket), room) = (session.socket.get(), &mut *buffer) else { return Next::None };
            match socket.try_io(due(socket), move || datagram::receive_from_peer(socket, room)) {
                Ok(data) => self.reply(session, data, pool, stats),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::None,
                // Also what was told of datagrams that were sent before, such as that nothing listens at the port of the host.
                Err(_) => {
                    stats.increment(ClusterUdpStat::RxErrors);
                    return Next::Error;
                }
            }
            session.deadline.set(deadline);
            Next::Taken
        })
    }

    /// Sends a datagram of the host to the client, from the address that the client writes to.
    fn reply(&self, session: &Session, data: &[u8], pool: &Pool, stats: &Block<ClusterUdpStat>) {
        if data.len() > self.proxy.max_reply {
            return stats.increment(ClusterUdpStat::RxDatagramsDropped);
        }
        let length = bytes(data);
        stats.increment(ClusterUdpStat::RxDatagrams);
        pool.cluster.stats.block.add(ClusterStat::UpstreamCxRxBytesTotal, length);
        let counted = &self.proxy.stats;
        match datagram::send(&self.socket, data, session.key.client, session.key.local) {
            Ok(()) => {
                counted.increment(UdpStat::DownstreamSessTxDatagrams);
                counted.add(UdpStat::DownstreamSessTxBytes, length);
            }
            Err(_) => counted.increment(UdpStat::DownstreamSessTxErrors),
        }
    }
}

/// The task of a session.
async fn run(shared: Rc<Shared>, session: Rc<Session>) {
    let leaving = Leaving { shared, session };
    let Leaving { shared, session } = &leaving;
    let mut timer = Timer::new();
    loop {
        // Datagrams of the client move the deadline.
        let idle = poll_fn(|cx| {
            timer.set(Some(session.deadline.get()));
            timer.poll(cx)
        });
        tokio::select! {
            ready = async { session.connected().await.ready(TOLD).await } => {
                if ready.is_err() {
                    return;
                }
            }
            () = idle => return shared.proxy.stats.increment(UdpStat::IdleTimeout),
        }
        match shared.take(session) {
            Taken::All => {}
            Taken::Some => tokio::task::yield_now().await,
            Taken::None => return,
        }
    }
}

/// Forgets a session however its task ends.
struct Leaving {
    shared: Rc<Shared>,
    session: Rc<Session>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.shared.close(&self.session);
    }
}

/// A socket that is connected to a host. Errors: there is no descriptor or no route.
fn connect(host: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(host), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&host.into())?;
    UdpSocket::from_std(socket.into())
}

/// Gives back memory that many sessions took.
fn trim(open: &mut HashMap<Key, Open>) {
    if open.capacity() > SMALL && open.len() < open.capacity() / 4 {
        open.shrink_to(open.len() * 2);
    }
}

fn bytes(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}
