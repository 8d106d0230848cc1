//! Connections of HTTP/2 to hosts: many requests on each.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::time::Instant;

use mixer_base::task::Group;

use super::demand::{Demands, Waiter};
use super::{ConnectError, Counted, IDLE_TIMEOUT, Open, Pool, Protocol, Upstream};
use crate::bootstrap::Http2Options;
use crate::cluster::{Host, connect_timeout};
use crate::stats::{ClusterStat, Http2Stat};
use crate::transport::{SEND_BUFFER, Transport};

/// Maximum size of the head of a response, in bytes.
const MAX_RESPONSE_HEAD: u32 = 60 << 10;

/// Frames of data without any after which a connection takes no further requests: `h2` ends one that has 100 of them, with all its requests.
const MAX_EMPTY_FRAMES: u32 = 50;

/// What small frames of data may take, in bytes, until the requests that they are for have received them; a frame counts up to 256. Beyond, `h2`
/// ends a connection, with all its requests.
const FRAME_BUDGET: usize = 32 << 20;

/// The connections of a cluster on one worker.
#[derive(Debug)]
pub(super) struct Links {
    links: RefCell<Vec<Link>>,
    /// Requests that wait for a place.
    wanted: Rc<Demands<Place>>,
    connections: Group,
}

/// A connection.
#[derive(Debug)]
struct Link {
    host: Arc<Host>,
    sender: SendRequest<Bytes>,
    used: Rc<Used>,
}

/// What is known of a connection by all who use it.
#[derive(Debug)]
struct Used {
    /// Requests on it.
    streams: Cell<usize>,
    /// Since when there are none.
    idle_since: Cell<Instant>,
    is_closed: Cell<bool>,
    /// Whether it takes no further requests.
    is_retired: Cell<bool>,
    /// Whether its end has cut a response.
    has_cut: Cell<bool>,
    open: Rc<Open>,
}

/// A place for one request on a connection; given back on drop.
#[derive(Debug)]
pub(crate) struct Place {
    /// Takes one request.
    pub(crate) sender: SendRequest<Bytes>,
    pub(crate) host: Arc<Host>,
    used: Rc<Used>,
    /// Whether a request was sent of which the response is not complete.
    is_unanswered: Cell<bool>,
}

impl Place {
    /// Notes that a request is sent, or that its response is complete.
    pub(crate) fn set_unanswered(&self, is_unanswered: bool) {
        self.is_unanswered.set(is_unanswered);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_unanswered.get() && self.used.is_closed.get() {
            self.used.has_cut.set(true);
        }
        self.used.streams.set(self.used.streams.get().saturating_sub(1));
        self.used.idle_since.set(Instant::now());
        self.used.open.changed.notify_one();
    }
}

impl Links {
    pub(super) fn new() -> Self {
        let connections = Group::new("proxy connection to a host");
        Self { links: RefCell::default(), wanted: Demands::new(true), connections }
    }

    /// Starts a task of a connection, or of an attempt at one.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        drop(self.connections.spawn_local(task));
    }

    /// A place on a connection that is there, of which each has at most so many.
    fn find(&self, host: &Arc<Host>, max_streams: u32) -> Option<Place> {
        let mut links = self.links.borrow_mut();
        // The requests that are on one that is left go on.
        links.retain(|link| !link.used.is_closed.get() && !link.used.is_retired.get());
        let max_streams = usize::try_from(max_streams).unwrap_or(usize::MAX);
        for link in links.iter_mut().filter(|link| Arc::ptr_eq(&link.host, host)) {
            let places = max_streams.min(link.sender.current_max_send_streams());
            if link.used.streams.get() < places && is_open(&mut link.sender) {
                return Some(link.place());
            }
        }
        None
    }

    /// Closes connections that were idle for too long, and those whose host is gone, once they are idle. Returns how many of the former.
    pub(super) fn sweep(&self, hosts: impl Fn(&Arc<Host>) -> bool) -> u64 {
        let mut count = 0;
        self.links.borrow_mut().retain(|link| {
            let is_idle = link.used.streams.get() == 0;
            let is_old = is_idle && link.used.idle_since.get().elapsed() >= IDLE_TIMEOUT;
            count += u64::from(is_old);
            !link.used.is_closed.get() && !is_old && (!is_idle || hosts(&link.host))
        });
        count
    }

    /// Whether there is nothing to sweep.
    pub(super) fn is_empty(&self) -> bool {
        self.links.borrow().is_empty()
    }
}

impl Link {
    fn place(&self) -> Place {
        self.used.streams.set(self.used.streams.get() + 1);
        Place {
            sender: self.sender.clone(),
            host: Arc::clone(&self.host),
            used: Rc::clone(&self.used),
            is_unanswered: Cell::new(false),
        }
    }
}

impl Pool {
    /// A place for a request on a connection to a host, if one has room for which nobody waits.
    pub(crate) fn take_place(&self, host: &Arc<Host>) -> Option<Place> {
        if self.links.wanted.is_wanted(host) {
            return None;
        }
        self.links.find(host, self.http2_options().max_streams)
    }

    /// A place for a request: on a connection with room, on a new one, or, if there are too many connections, the first that another request
    /// has done with. A worker may have one connection to each host in any case. All who wait have one attempt at a time, which goes on without
    /// them.
    ///
    /// Errors: as [`connect`](Self::connect).
    pub(crate) async fn place(&self, host: &Arc<Host>) -> Result<Place, ConnectError> {
        let mut waiter = Waiter::new(self, &self.links.wanted, host, |_, place| drop(place));
        self.serve_link(host);
        if self.links.wanted.needs_attempt(host) {
            self.cluster.stats.block.increment(ClusterStat::UpstreamCxOverflow);
        }
        waiter.answer().await
    }

    /// Gives those who wait for a place what there is by now.
    pub(super) fn serve_links(&self) {
        self.links.wanted.wanted().iter().for_each(|host| self.serve_link(host));
    }

    /// Hands out the places on connections to a host, and opens another connection if those who wait need it.
    fn serve_link(&self, host: &Arc<Host>) {
        let (wanted, max_streams) = (&self.links.wanted, self.http2_options().max_streams);
        while wanted.is_wanted(host)
            && let Some(place) = self.links.find(host, max_streams)
        {
            drop(wanted.hand(host, place));
        }
        if !wanted.needs_attempt(host) || !self.may_connect(host) {
            return;
        }
        let Some(pool) = self.itself.upgrade() else { return };
        let attempt = wanted.begin(host);
        let counted = self.connector().begin(host, Protocol::Http2);
        let host = Arc::clone(host);
        self.links.spawn(async move {
            match pool.open_link(counted).await {
                Ok(()) => attempt.succeed(),
                Err(error) => attempt.fail(error),
            }
            pool.serve_link(&host);
        });
    }

    fn http2_options(&self) -> Http2Options {
        self.cluster.config.http2.unwrap_or(Http2Options::CLIENT)
    }

    /// Opens the connection that was begun.
    async fn open_link(&self, counted: Counted) -> Result<(), ConnectError> {
        let options = self.http2_options();
        let Upstream { stream, counted, .. } = counted.establish().await?;
        let host = Arc::clone(&counted.host);
        let (transport, traffic) = Transport::of_host(stream, self.cluster.stats.http2.clone());
        let mut builder = h2::client::Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(options.stream_window)
            .initial_connection_window_size(options.connection_window)
            .max_header_list_size(MAX_RESPONSE_HEAD)
            .max_send_buffer_size(SEND_BUFFER)
            .data_frame_budget(FRAME_BUDGET)
            .initial_max_send_streams(usize::try_from(options.max_streams).unwrap_or(usize::MAX));
        let handshake = builder.handshake::<_, Bytes>(transport);
        let connected = tokio::time::timeout(connect_timeout(&self.cluster), handshake).await;
        let connected = connected.map_err(|_| ConnectError::TimedOut)?;
        let (sender, connection) = connected.map_err(|error| {
            tracing::debug!(host = %host.address, %error, "an HTTP/2 connection cannot be opened");
            ConnectError::Failed
        })?;
        let used = Rc::new(Used {
            streams: Cell::new(0),
            idle_since: Cell::new(Instant::now()),
            is_closed: Cell::new(false),
            is_retired: Cell::new(false),
            has_cut: Cell::new(false),
            open: Rc::clone(&self.open),
        });
        self.links.links.borrow_mut().push(Link { host, sender, used: Rc::clone(&used) });
        let cluster = Arc::clone(&self.cluster);
        self.links.spawn(async move {
            // As a whole, so that it is counted until the connection has ended.
            let mut counted = counted;
            let mut connection = pin!(connection);
            let result = poll_fn(|cx| {
                let polled = connection.as_mut().poll(cx);
                let (received, sent) = traffic.take();
                used.is_retired.set(traffic.empty_frames() >= MAX_EMPTY_FRAMES);
                cluster.stats.block.add(ClusterStat::UpstreamCxRxBytesTotal, received);
                cluster.stats.block.add(ClusterStat::UpstreamCxTxBytesTotal, sent);
                if traffic.is_flooded() && polled.is_pending() {
                    return Poll::Ready(Err(h2::Reason::ENHANCE_YOUR_CALM.into()));
                }
                polled
            })
            .await;
            if let Err(error) = &result {
                tracing::debug!(%error, cluster = cluster.config.name, "an HTTP/2 connection to a host has ended");
                if let (true, Some(http2)) = (traffic.is_flooded(), &cluster.stats.http2) {
                    http2.increment(Http2Stat::OutboundControlFlood);
                }
                if !error.is_io() && !error.is_remote() {
                    cluster.stats.block.increment(ClusterStat::UpstreamCxProtocolError);
                }
            }
            used.is_closed.set(true);
            counted.closed_by_host = traffic.has_ended() || result.is_err_and(|error| error.is_io());
            // What this side ends, as after a GOAWAY, ends behind its requests. As its host ends it, some may be answered of which nobody has read
            // the end: they have their turn before.
            if counted.closed_by_host && used.streams.get() > 0 {
                tokio::task::yield_now().await;
                counted.with_request = used.has_cut.get() || used.streams.get() > 0;
            }
        });
        Ok(())
    }
}

/// Whether a connection takes further requests.
fn is_open(sender: &mut SendRequest<Bytes>) -> bool {
    matches!(sender.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
}
