//! The connection of a worker to a host that is called: opened, tried when it may be dead, and replaced.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use mixer_base::task::Group;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use super::transport::{Heard, Transport};
use crate::cluster::{Cluster, Host};
use crate::stats::ClusterStat;
use crate::upstream::{ConnectError, Connector, Pool, Protocol, Upstream};

/// The time in which a host answers a PING, after a call that it did not answer.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for the calls of a connection that is dead, and for those that nobody waits for any more; and for the end of a connection that is replaced,
/// behind its last call.
pub(super) const LEFT: Duration = Duration::from_secs(5);
/// After so long without a sign of the host, an idle connection is tried before a call is sent on it: what is between may have forgotten it.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// What calls are sent on.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    pub(super) requests: SendRequest<Bytes>,
    pub(super) heard: Rc<Heard>,
    pub(super) used: Used,
}

/// Held by all who use a connection: it has its time until the last one is gone.
pub(super) type Used = mpsc::Sender<Infallible>;

/// What calls are sent on, or why there is nothing; `None` until it is known.
type Attempted = Option<Result<Sender, ConnectError>>;

/// The connection to a host.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Taken out while it is looked at.
    current: RefCell<Option<Open>>,
    /// The attempt to have a connection. It is a task of its own, for which calls wait within their time limits: if it ended with them, there
    /// would be none as long as their time limits are shorter than a handshake.
    attempt: RefCell<Option<watch::Receiver<Attempted>>>,
    /// Whether a call was not answered since the host has last shown that it is there.
    is_doubted: Cell<bool>,
    /// Whether the attempt opens a connection: nothing is asked of the host meanwhile, not even a PING.
    is_connecting: Cell<bool>,
    /// Calls on their way, and those of them that have no end, such as of access logs.
    active: Cell<usize>,
    endless: Cell<usize>,
    /// Calls that wait for a place at the host.
    pub(super) streams: Queue,
}

impl Link {
    /// What calls are sent on, if there is no need to look at it.
    fn sender(&self) -> Option<Sender> {
        let mut current = self.current.borrow_mut();
        let open = current.as_mut()?;
        if self.active.get() == self.endless.get() && open.sender.heard.silence() >= SILENCE {
            self.is_doubted.set(true);
        }
        // Until it is answered, no call is sent on a connection that may be dead.
        (!self.is_doubted.get() && is_open(&mut open.sender.requests)).then(|| open.sender.clone())
    }

    /// Calls on their way.
    pub(super) fn active(&self) -> usize {
        self.active.get()
    }

    /// Whether a connection is being opened.
    pub(super) fn is_connecting(&self) -> bool {
        self.is_connecting.get()
    }

    /// A call was not answered: no other is sent before the host has shown that it is there.
    pub(super) fn doubt(&self) {
        self.is_doubted.set(true);
    }

    /// What sends requests to the host: on the connection that is there, or on a new one, whose task is one of `connections`.
    ///
    /// Errors: as of [`Connector::connect`].
    pub(super) async fn connected(
        self: &Rc<Self>,
        pool: &Pool,
        host: &Arc<Host>,
        connections: &Group,
    ) -> Result<Sender, ConnectError> {
        if let Some(sender) = self.sender() {
            return Ok(sender);
        }
        pool.cluster.stats.block.increment(ClusterStat::UpstreamRqPendingTotal);
        let _waiting = pool.begin_waiting(host);
        let mut cancelled = Cancelled::new(&pool.cluster, ClusterStat::UpstreamRqCancelled);
        // One that ended without an outcome, by a panic, is begun again.
        let begun = self.attempt.borrow().clone().filter(|attempt| attempt.has_changed().is_ok());
        let mut attempt = begun.unwrap_or_else(|| {
            let (outcome, attempt) = watch::channel(None);
            self.attempt.replace(Some(attempt.clone()));
            let (link, connector, host) = (Rc::clone(self), pool.connector(), Arc::clone(host));
            let of_connection = connections.clone();
            drop(connections.spawn_local(async move {
                let renewed = link.renew(&connector, &host, &of_connection).await;
                link.is_connecting.set(false);
                link.attempt.take();
                outcome.send_replace(Some(renewed));
            }));
            attempt
        });
        let outcome = attempt.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        cancelled.is_answered();
        let connected = outcome.unwrap_or(Err(ConnectError::Failed));
        if connected.is_err() {
            pool.cluster.stats.block.increment(ClusterStat::UpstreamRqPendingFailureEject);
        }
        connected
    }

    /// A place among so many calls.
    pub(super) fn place(self: &Rc<Self>, most: usize) -> Option<Stream> {
        (self.active.get() < most).then(|| {
            self.active.set(self.active.get() + 1);
            Stream { link: Rc::clone(self), is_endless: false }
        })
    }

    /// Looks whether the host is there, or connects to it.
    ///
    /// Errors: as of [`Connector::connect`].
    async fn renew(
        self: &Rc<Self>,
        connector: &Connector,
        host: &Arc<Host>,
        connections: &Group,
    ) -> Result<Sender, ConnectError> {
        let known = self.current.take();
        if let Some(mut open) = known
            && is_open(&mut open.sender.requests)
        {
            if !self.is_doubted.get() || open.is_answered().await {
                self.is_doubted.set(false);
                let sender = open.sender.clone();
                self.current.replace(Some(open));
                return Ok(sender);
            }
            tracing::warn!(host = %host.address, "a connection for gRPC is dead, and is replaced");
            open.dead.cancel();
        }
        self.is_connecting.set(true);
        let Upstream { stream, counted, .. } = connector.connect(host, Protocol::Http2).await?;
        let (transport, heard) = Transport::new(stream, connector.http2_stats());
        let connected = mixer_remote::http2_client().handshake::<_, Bytes>(transport).await;
        let (requests, mut connection) = connected.map_err(|error| {
            tracing::debug!(host = %host.address, %error, "no HTTP/2");
            ConnectError::Failed
        })?;
        let (ping, dead) = (connection.ping_pong(), CancellationToken::new());
        let (is_dead, of_host, (used, mut unused)) = (dead.clone(), Rc::clone(&heard), mpsc::channel(1));
        drop(connections.spawn_local(async move {
            let mut counted = counted;
            // Calls that are on it have their time, as long as it is not dead. Then it ends, although its host may take nothing more.
            let outlived = async {
                tokio::select! {
                    () = is_dead.cancelled() => {}
                    _ = unused.recv() => {}
                }
                tokio::time::sleep(LEFT).await;
            };
            tokio::select! {
                outcome = connection => {
                    if let Err(error) = &outcome {
                        tracing::debug!(%error, "a connection for gRPC has ended");
                    }
                    counted.closed_by_host = of_host.has_ended() || outcome.is_err_and(|error| error.is_io());
                    // The calls on it have their turn before.
                    tokio::task::yield_now().await;
                    counted.with_request = of_host.has_cut();
                }
                () = outlived => {}
            }
        }));
        self.is_doubted.set(false);
        let sender = Sender { requests, heard, used };
        self.current.replace(Some(Open { sender: sender.clone(), ping, dead }));
        Ok(sender)
    }
}

/// A connection.
struct Open {
    sender: Sender,
    ping: Option<PingPong>,
    /// Tells the connection that its host does not answer.
    dead: CancellationToken,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").finish_non_exhaustive()
    }
}

impl Open {
    /// Whether the host answers a PING in time.
    async fn is_answered(&mut self) -> bool {
        let Some(ping) = &mut self.ping else { return false };
        matches!(tokio::time::timeout(PING_TIMEOUT, ping.ping(Ping::opaque())).await, Ok(Ok(_)))
    }
}

/// A call on a connection.
#[derive(Debug)]
pub(super) struct Stream {
    link: Rc<Link>,
    is_endless: bool,
}

impl Stream {
    /// As one that has no end.
    pub(super) fn endless(mut self) -> Self {
        self.is_endless = true;
        self.link.endless.set(self.link.endless.get() + 1);
        self
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let link = &self.link;
        link.active.set(link.active.get().saturating_sub(1));
        if self.is_endless {
            link.endless.set(link.endless.get().saturating_sub(1));
        }
        link.streams.freed.notify_one();
    }
}

/// Whether a connection takes further requests.
fn is_open(sender: &mut SendRequest<Bytes>) -> bool {
    matches!(sender.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
}

/// Counts a call that this side gives up, because it takes too long or nobody waits for it any more.
pub(super) struct Cancelled(Option<Arc<Cluster>>, ClusterStat);

impl Cancelled {
    /// Of a call to this cluster.
    pub(super) fn new(cluster: &Arc<Cluster>, stat: ClusterStat) -> Self {
        Self(Some(Arc::clone(cluster)), stat)
    }

    /// It is not given up.
    pub(super) fn is_answered(&mut self) {
        self.0 = None;
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(cluster) = &self.0 {
            cluster.stats.block.increment(self.1);
        }
    }
}
