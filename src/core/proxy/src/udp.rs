//! UDP: listeners of datagrams, and the proxy that forwards them.
//!
//! Each worker has a socket of its own, and sessions for the clients whose datagrams the system gives to it. A session is a client and the
//! local address that it writes to, with a connected socket to a host. It counts as a connection of its cluster, which bounds how
//! many there are; it ends when it is idle, when its host is gone, and with its listener.

mod session;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use mixer_net::datagram::{self, Buffer};

use crate::bootstrap::UdpHash;
use crate::cluster::xx_hash;
use crate::context::WorkerContext;
use crate::stats::{Block, ClusterUdpStat, ListenerUdpStat, UdpStat};

use session::Sessions;

/// Datagrams that are taken from one socket before others have their turn.
const BATCH: usize = 64;
/// What a socket tells of. An error alone, such as that nothing listens at the port of a host, does not make it readable.
const TOLD: Interest = Interest::READABLE.add(Interest::ERROR);

/// The UDP proxy of a listener as it serves.
#[derive(Debug)]
pub(crate) struct UdpProxy {
    /// The cluster, and what is counted of its datagrams; `None` if it does not exist.
    pub(crate) cluster: Option<(usize, Arc<Block<ClusterUdpStat>>)>,
    /// Time without a datagram in either direction after which a session ends.
    pub(crate) idle_timeout: Duration,
    pub(crate) hash: Option<SessionHash>,
    /// Bytes of the longest datagram that is forwarded, of clients and of hosts.
    pub(crate) max_datagram: usize,
    pub(crate) max_reply: usize,
    pub(crate) stats: Arc<Block<UdpStat>>,
    pub(crate) listener_stats: Arc<Block<ListenerUdpStat>>,
}

/// What decides to which host a session goes, with consistent hashing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionHash {
    SourceAddress,
    Fixed(u64),
}

impl SessionHash {
    pub(crate) fn new(policy: &UdpHash) -> Self {
        match policy {
            UdpHash::SourceAddress => SessionHash::SourceAddress,
            UdpHash::Key(key) => SessionHash::Fixed(xx_hash(key.as_bytes())),
        }
    }

    fn of(self, client: SocketAddr) -> u64 {
        match self {
            SessionHash::SourceAddress => xx_hash(client.ip().to_string().as_bytes()),
            SessionHash::Fixed(hash) => hash,
        }
    }
}

/// How the datagrams of a socket were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    All,
    /// There may be more.
    Some,
    /// The socket has nothing but errors.
    None,
}

impl UdpProxy {
    /// Forwards the datagrams of a socket until the listener stops. Returns early if it cannot.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        socket: UdpSocket,
        context: &Rc<WorkerContext>,
        stopped: &CancellationToken,
    ) {
        let pool = self.cluster.as_ref().and_then(|(cluster, _)| context.pool(*cluster));
        let mut members = pool.map(|pool| pool.cluster.members());
        let sessions = Sessions::new(Arc::clone(self), socket, Rc::clone(context));
        // One byte more, to know those that are too long.
        let mut buffer = Buffer::new(self.max_datagram + 1);
        loop {
            tokio::select! {
                ready = sessions.socket().ready(TOLD) => {
                    if ready.is_err() {
                        return;
                    }
                }
                () = changed(&mut members) => {
                    sessions.end_those_of_gone_hosts();
                    continue;
                }
                () = stopped.cancelled() => return,
            }
            match self.take(&sessions, &mut buffer) {
                Taken::All => {}
                Taken::Some => tokio::task::yield_now().await,
                Taken::None => return,
            }
        }
    }

    /// Takes a batch of datagrams.
    fn take(&self, sessions: &Sessions, buffer: &mut Buffer) -> Taken {
        let (socket, now) = (sessions.socket(), Instant::now());
        take_batch(|| {
            let room = &mut *buffer;
            match socket.try_io(due(socket), move || datagram::receive(socket, room)) {
                Ok(received) => sessions.forward(&received, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::None,
                Err(_) => {
                    self.stats.increment(UdpStat::DownstreamSessRxErrors);
                    return Next::Error;
                }
            }
            Next::Taken
        })
    }
}

/// What a socket is ready for: an attempt for several things at once is never made.
fn due(socket: &UdpSocket) -> Interest {
    match socket.try_io(Interest::ERROR, || Ok(())) {
        Ok(()) => Interest::ERROR,
        Err(_) => Interest::READABLE,
    }
}

/// What came next from a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Taken,
    Error,
    None,
}

/// Takes datagrams until there are none, or others are to have their turn.
fn take_batch(mut next: impl FnMut() -> Next) -> Taken {
    let mut failures = 0;
    for _ in 0..BATCH {
        match next() {
            Next::Taken => {}
            Next::Error => failures += 1,
            Next::None => return Taken::All,
        }
    }
    if failures == BATCH { Taken::None } else { Taken::Some }
}

/// Completes when hosts of the cluster have come or gone.
async fn changed(members: &mut Option<watch::Receiver<(u64, bool)>>) {
    let has_changed = match members {
        Some(members) => members.changed().await.is_ok(),
        None => false,
    };
    if !has_changed {
        std::future::pending().await
    }
}
