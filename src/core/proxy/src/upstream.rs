//! Connections to hosts: opened within a time limit, counted, and kept for the next request. Those of HTTP/2 are in `http2`, requests that wait
//! for either in `demand`.

mod demand;
mod http2;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use mixer_net::stream::Stream;
use mixer_net::tls::context::HandshakeError;

use crate::buffer;
use crate::cluster::{Admitted, Balancer, Cluster, Host, Kind, Outcome, Wanted, connect_timeout};
use crate::stats::{Block, ClusterStat, Http2Stat};

pub(crate) use http2::Place;

use demand::{Demands, Waiter};
use http2::Links;

/// Idle connections that a worker keeps of a cluster.
const MAX_IDLE: usize = 1024;
/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// A connection to a host.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) stream: Stream,
    /// Received and not yet read.
    pub(crate) input: BytesMut,
    /// To be sent.
    pub(crate) output: BytesMut,
    pub(crate) counted: Counted,
    /// Whether it takes another request: a whole response was read, and the whole request sent.
    pub(crate) is_reusable: bool,
    /// When it became idle.
    since: Instant,
}

/// The accounting of a connection, which ends with it.
#[derive(Debug)]
pub(crate) struct Counted {
    cluster: Arc<Cluster>,
    open: Rc<Open>,
    _place: Admitted,
    pub(crate) host: Arc<Host>,
    opened: Instant,
    protocol: Protocol,
    /// Whether the host closed it.
    pub(crate) closed_by_host: bool,
    /// Whether a request was on it when it was closed.
    pub(crate) with_request: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let stats = &self.cluster.stats;
        self.open.closed(&self.host);
        self.host.active_connections.fetch_sub(1, Ordering::Relaxed);
        stats.block.decrement(ClusterStat::UpstreamCxActive);
        if let Some((_, active)) = self.protocol.stats() {
            stats.block.decrement(active);
        }
        stats.block.increment(ClusterStat::UpstreamCxDestroy);
        stats.block.increment(match self.closed_by_host {
            true => ClusterStat::UpstreamCxDestroyRemote,
            false => ClusterStat::UpstreamCxDestroyLocal,
        });
        if self.with_request {
            stats.block.increment(ClusterStat::UpstreamCxDestroyWithActiveRq);
            stats.block.increment(match self.closed_by_host {
                true => ClusterStat::UpstreamCxDestroyRemoteWithActiveRq,
                false => ClusterStat::UpstreamCxDestroyLocalWithActiveRq,
            });
        }
        stats.connection_length.observe(self.opened.elapsed());
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Bytes.
    Tcp,
    /// Requests of HTTP/1.1.
    Http1,
    /// Requests of HTTP/2.
    Http2,
}

impl Protocol {
    /// How connections of it are counted: all, and those that are open.
    fn stats(self) -> Option<(ClusterStat, ClusterStat)> {
        match self {
            Protocol::Tcp => None,
            Protocol::Http1 => Some((ClusterStat::UpstreamCxHttp1Total, ClusterStat::UpstreamCxHttp1Active)),
            Protocol::Http2 => Some((ClusterStat::UpstreamCxHttp2Total, ClusterStat::UpstreamCxHttp2Active)),
        }
    }

    /// Its name in ALPN.
    fn alpn(self) -> Option<&'static [u8]> {
        match self {
            Protocol::Tcp => None,
            Protocol::Http1 => Some(b"http/1.1"),
            Protocol::Http2 => Some(b"h2"),
        }
    }
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// Refused, unreachable, and the like.
    Failed,
    /// The host refuses connections.
    Refused,
    /// Not established in time.
    TimedOut,
    /// This process or this machine has no descriptor, port or memory for it.
    Exhausted,
}

impl ConnectError {
    /// Whether it says anything of the host. What this side lacks is no reason to take the host for failed: clients can use it up.
    pub(crate) fn is_of_host(self) -> bool {
        self != ConnectError::Exhausted
    }
}

/// All clusters on one worker.
#[derive(Debug)]
pub(crate) struct Pools(Vec<Rc<Pool>>);

impl Pools {
    pub(crate) fn new(clusters: &[Arc<Cluster>]) -> Self {
        Self(clusters.iter().map(|cluster| Pool::new(Arc::clone(cluster))).collect())
    }

    /// A cluster by its index.
    pub(crate) fn get(&self, cluster: usize) -> Option<&Pool> {
        self.0.get(cluster).map(Rc::as_ref)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.0.iter().map(Rc::as_ref)
    }
}

/// A cluster on one worker: the next host, and idle connections.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) cluster: Arc<Cluster>,
    state: RefCell<PoolState>,
    open: Rc<Open>,
    /// Requests of HTTP/1.1 that wait for a connection.
    wanted: Rc<Demands<Upstream>>,
    links: Links,
    /// Bytes of the messages of calls that nobody waits for any more.
    pub(crate) left: Rc<Cell<usize>>,
    /// The pool itself, for connection attempts, which outlive requests.
    itself: Weak<Pool>,
}

/// The open connections of a cluster on one worker, by host.
#[derive(Debug, Default)]
struct Open {
    counts: RefCell<Vec<(Arc<Host>, usize)>>,
    /// Tells one of those who wait of every connection that is closed, and of every place on one that is free.
    changed: Notify,
}

impl Open {
    fn opened(&self, host: &Arc<Host>) {
        let mut counts = self.counts.borrow_mut();
        match counts.iter_mut().find(|(known, _)| Arc::ptr_eq(known, host)) {
            Some((_, count)) => *count += 1,
            None => counts.push((Arc::clone(host), 1)),
        }
    }

    fn closed(&self, host: &Arc<Host>) {
        let mut counts = self.counts.borrow_mut();
        if let Some(place) = counts.iter().position(|(known, _)| Arc::ptr_eq(known, host))
            && let Some((_, count)) = counts.get_mut(place)
        {
            *count -= 1;
            if *count == 0 {
                counts.swap_remove(place);
            }
        }
        drop(counts);
        self.changed.notify_one();
    }

    fn has(&self, host: &Arc<Host>) -> bool {
        self.counts.borrow().iter().any(|(known, _)| Arc::ptr_eq(known, host))
    }
}

#[derive(Debug)]
struct PoolState {
    balancer: Balancer,
    idle: Vec<Upstream>,
}

impl Pool {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Rc<Self> {
        let balancer = Balancer::new(Arc::clone(&cluster));
        let state = RefCell::new(PoolState { balancer, idle: Vec::new() });
        let (open, wanted, links) = (Rc::default(), Demands::new(false), Links::new());
        let left = Rc::default();
        Rc::new_cyclic(|itself| Self {
            cluster,
            state,
            open,
            wanted,
            links,
            left,
            itself: Weak::clone(itself),
        })
    }

    /// The next host for what is wanted.
    pub(crate) fn choose_for(&self, wanted: Wanted) -> Option<Arc<Host>> {
        self.state.borrow_mut().balancer.choose(wanted)
    }

    /// Counts a request that waits for a connection.
    pub(crate) fn begin_waiting<'p>(&'p self, host: &'p Host) -> Waiting<'p> {
        self.cluster.stats.block.increment(ClusterStat::UpstreamRqPendingActive);
        host.pending_requests.fetch_add(1, Ordering::Relaxed);
        Waiting(self, host)
    }

    /// An idle connection to a host that is still open.
    pub(crate) fn take(&self, host: &Arc<Host>) -> Option<Upstream> {
        loop {
            let mut state = self.state.borrow_mut();
            let place = state.idle.iter().rposition(|idle| Arc::ptr_eq(&idle.counted.host, host))?;
            let mut upstream = state.idle.remove(place);
            drop(state);
            if is_open(&mut upstream) {
                return Some(upstream);
            }
        }
    }

    /// Keeps a connection for the next request: the first of those that wait, or one that is to come.
    pub(crate) fn put(&self, mut upstream: Upstream) {
        if !upstream.input.is_empty() || !upstream.output.is_empty() {
            // Bytes that no request asked for.
            return;
        }
        if !self.wanted.is_wanted(&upstream.counted.host) || is_open(&mut upstream) {
            self.hand_on(upstream);
        }
    }

    /// As [`put`](Self::put), without a look at the connection. One that is new is handed on in any case: if its host has closed it, the request
    /// fails, and does not wait for the next one.
    fn hand_on(&self, upstream: Upstream) {
        let host = Arc::clone(&upstream.counted.host);
        let Some(mut upstream) = self.wanted.hand(&host, upstream) else { return };
        buffer::release(&mut upstream.input);
        buffer::release(&mut upstream.output);
        upstream.since = Instant::now();
        let mut state = self.state.borrow_mut();
        if state.idle.len() < MAX_IDLE {
            state.idle.push(upstream);
        }
    }

    /// A connection for a request, of which none is idle: the first that is opened, or that another request has done with. As many are opened as
    /// requests wait, unless there are too many. A worker may have one to each host in any case. An attempt goes on without the request, and what
    /// it gives is for the next one.
    ///
    /// Errors: as [`connect`](Self::connect).
    pub(crate) async fn obtain(&self, host: &Arc<Host>) -> Result<Upstream, ConnectError> {
        let mut waiter = Waiter::new(self, &self.wanted, host, Pool::put);
        self.open_for(host);
        if self.wanted.needs_attempt(host) {
            self.cluster.stats.block.increment(ClusterStat::UpstreamCxOverflow);
        }
        waiter.answer().await
    }

    /// Whether there may be one more connection to a host.
    fn may_connect(&self, host: &Arc<Host>) -> bool {
        self.cluster.remaining(Kind::Connection) > 0 || !self.open.has(host)
    }

    /// Opens the connections of HTTP/1.1 that requests to a host wait for, as far as there may be more.
    fn open_for(&self, host: &Arc<Host>) {
        while self.wanted.needs_attempt(host)
            && self.may_connect(host)
            && let Some(pool) = self.itself.upgrade()
        {
            let attempt = self.wanted.begin(host);
            let counted = self.connector().begin(host, Protocol::Http1);
            let host = Arc::clone(host);
            self.links.spawn(async move {
                match counted.establish().await {
                    Ok(upstream) => {
                        attempt.succeed();
                        pool.hand_on(upstream);
                    }
                    Err(error) => attempt.fail(error),
                }
                pool.open_for(&host);
            });
        }
    }

    /// Gives those who wait what there is by now.
    fn serve_waiting(&self) {
        self.wanted.wanted().iter().for_each(|host| self.open_for(host));
        self.serve_links();
    }

    /// Closes idle connections that the host closed, that were idle for too long, or whose host is gone.
    pub(crate) fn sweep(&self) {
        let mut idle = std::mem::take(&mut self.state.borrow_mut().idle);
        if idle.is_empty() && self.links.is_empty() {
            return;
        }
        let hosts = self.cluster.hosts();
        let hosts: HashSet<*const Host> = hosts.iter().map(Arc::as_ptr).collect();
        let expired = self.links.sweep(|host| hosts.contains(&Arc::as_ptr(host)));
        self.cluster.stats.block.add(ClusterStat::UpstreamCxIdleTimeout, expired);
        idle.retain_mut(|upstream| {
            if upstream.since.elapsed() >= IDLE_TIMEOUT {
                self.cluster.stats.block.increment(ClusterStat::UpstreamCxIdleTimeout);
                return false;
            }
            hosts.contains(&Arc::as_ptr(&upstream.counted.host)) && is_open(upstream)
        });
        self.state.borrow_mut().idle = idle;
    }

    /// What opens connections, for longer than a request lives.
    pub(crate) fn connector(&self) -> Connector {
        Connector { cluster: Arc::clone(&self.cluster), open: Rc::clone(&self.open) }
    }

    /// Opens a connection.
    ///
    /// Errors: as [`Connector::connect`].
    pub(crate) async fn connect(
        &self,
        host: &Arc<Host>,
        protocol: Protocol,
    ) -> Result<Upstream, ConnectError> {
        self.connector().connect(host, protocol).await
    }
}

/// Opens connections to the hosts of a cluster.
#[derive(Debug)]
pub(crate) struct Connector {
    cluster: Arc<Cluster>,
    open: Rc<Open>,
}

impl Connector {
    /// The statistics of HTTP/2 of the cluster, if it has such.
    pub(crate) fn http2_stats(&self) -> Option<Arc<Block<Http2Stat>>> {
        self.cluster.stats.http2.clone()
    }

    /// Opens a connection.
    ///
    /// Errors: refused, or the time limit of the cluster has passed.
    pub(crate) async fn connect(
        &self,
        host: &Arc<Host>,
        protocol: Protocol,
    ) -> Result<Upstream, ConnectError> {
        self.begin(host, protocol).establish().await
    }

    /// Begins to open a connection, which is counted from now on.
    fn begin(&self, host: &Arc<Host>, protocol: Protocol) -> Counted {
        let stats = &self.cluster.stats;
        stats.block.increment(ClusterStat::UpstreamCxTotal);
        stats.block.increment(ClusterStat::UpstreamCxActive);
        if let Some((total, active)) = protocol.stats() {
            stats.block.increment(total);
            stats.block.increment(active);
        }
        self.open.opened(host);
        host.connections.fetch_add(1, Ordering::Relaxed);
        host.active_connections.fetch_add(1, Ordering::Relaxed);
        Counted {
            cluster: Arc::clone(&self.cluster),
            open: Rc::clone(&self.open),
            _place: self.cluster.count(Kind::Connection),
            host: Arc::clone(host),
            opened: Instant::now(),
            protocol,
            closed_by_host: false,
            with_request: false,
        }
    }
}

impl Counted {
    /// Opens the connection that was begun.
    ///
    /// Errors: as [`Connector::connect`].
    async fn establish(self) -> Result<Upstream, ConnectError> {
        let stats = &self.cluster.stats;
        match establish(&self.cluster, self.host.address, self.protocol.alpn()).await {
            Ok(stream) => {
                self.cluster.record(&self.host, Outcome::Connected);
                stats.connect_time.observe(self.opened.elapsed());
                let (input, output) = (BytesMut::new(), BytesMut::new());
                Ok(Upstream { stream, input, output, since: self.opened, counted: self, is_reusable: false })
            }
            Err(error) => {
                if error.is_of_host() {
                    self.host.connect_failures.fetch_add(1, Ordering::Relaxed);
                }
                stats.block.increment(ClusterStat::UpstreamCxConnectFail);
                if error == ConnectError::TimedOut {
                    stats.block.increment(ClusterStat::UpstreamCxConnectTimeout);
                }
                Err(error)
            }
        }
    }
}

/// A request that waits for a connection to a host.
#[derive(Debug)]
pub(crate) struct Waiting<'p>(&'p Pool, &'p Host);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.cluster.stats.block.decrement(ClusterStat::UpstreamRqPendingActive);
        self.1.pending_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects to an address, and negotiates TLS if the cluster says so, within the time limit of the cluster.
///
/// Errors: refused, or the time limit has passed.
pub(crate) async fn establish(
    cluster: &Cluster,
    address: SocketAddr,
    protocol: Option<&[u8]>,
) -> Result<Stream, ConnectError> {
    let limit = connect_timeout(cluster);
    let begun = Instant::now();
    let stream = match tokio::time::timeout(limit, TcpStream::connect(address)).await {
        Ok(stream) => stream.map_err(|error| failed(&error))?,
        Err(_) => return Err(ConnectError::TimedOut),
    };
    stream.set_nodelay(true).map_err(|_| ConnectError::Failed)?;
    let (Some(context), Some(stats)) = (&cluster.config.tls, &cluster.stats.tls) else {
        return Ok(Stream::Tcp(stream));
    };
    match context.connect(stream, limit.saturating_sub(begun.elapsed()), protocol).await {
        Ok((stream, session)) => {
            stats.succeeded(&session);
            Ok(stream)
        }
        Err(error) => {
            tracing::debug!(host = %address, cluster = cluster.config.name, %error, "TLS handshake failed");
            stats.failed(&error);
            Err(match error {
                HandshakeError::Timeout(_) => ConnectError::TimedOut,
                _ => ConnectError::Failed,
            })
        }
    }
}

/// Whether the other side or this one is why there is no connection.
fn failed(error: &std::io::Error) -> ConnectError {
    use std::io::ErrorKind;
    // ENFILE, EMFILE and ENOBUFS of Linux have no kind that is stable.
    let is_own = matches!(error.raw_os_error(), Some(23 | 24 | 105))
        || matches!(
            error.kind(),
            ErrorKind::AddrNotAvailable | ErrorKind::OutOfMemory | ErrorKind::WouldBlock
        );
    match error.kind() {
        _ if is_own => ConnectError::Exhausted,
        ErrorKind::ConnectionRefused => ConnectError::Refused,
        _ => ConnectError::Failed,
    }
}

/// Whether an idle connection is open and silent. A host that sends without being asked is not trusted with a request.
fn is_open(upstream: &mut Upstream) -> bool {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut byte = [0];
    let mut read = ReadBuf::new(&mut byte);
    match Pin::new(&mut upstream.stream).poll_read(&mut cx, &mut read) {
        Poll::Pending => true,
        Poll::Ready(result) => {
            upstream.counted.closed_by_host = result.is_err() || read.filled().is_empty();
            false
        }
    }
}

/// Writes what waits and ends the sending direction, within a second.
pub(crate) async fn close(stream: &mut Stream, output: &mut BytesMut) {
    let closing = poll_fn(|cx| {
        while buffer::has_output(stream, output) {
            match buffer::poll_write(stream, output, cx) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        buffer::poll_shutdown(stream, cx).map(|_| ())
    });
    // The peer may be gone; the connection is closed in any case.
    let _ = tokio::time::timeout(Duration::from_secs(1), closing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_lacks_is_told_from_what_a_host_does() {
        for (code, expected) in [
            (23, ConnectError::Exhausted),
            (24, ConnectError::Exhausted),
            (99, ConnectError::Exhausted),
            (105, ConnectError::Exhausted),
            (111, ConnectError::Refused),
            (113, ConnectError::Failed),
        ] {
            assert_eq!(failed(&std::io::Error::from_raw_os_error(code)), expected, "{code}");
        }
    }
}
