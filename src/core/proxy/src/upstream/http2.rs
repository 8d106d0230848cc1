//! Connections of HTTP/2 to hosts: many requests on each.

use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use tokio::sync::Mutex;
use tokio::time::Instant;

use mixer_base::task::Group;

use super::{ConnectError, IDLE_TIMEOUT, Open, Pool, Protocol, Upstream};
use crate::bootstrap::Http2Options;
use crate::cluster::{Host, Kind};
use crate::stats::ClusterStat;
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
    attempts: RefCell<Vec<(Arc<Host>, Rc<Attempt>)>>,
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
    open: Rc<Open>,
}

/// Connection attempts to a host, one at a time.
#[derive(Debug, Default)]
struct Attempt {
    lock: Mutex<()>,
    /// Those that failed, and why the last one did.
    failed: Cell<(u64, Option<ConnectError>)>,
}

/// A place for one request on a connection; given back on drop.
#[derive(Debug)]
pub(crate) struct Place {
    /// Takes one request.
    pub(crate) sender: SendRequest<Bytes>,
    pub(crate) host: Arc<Host>,
    used: Rc<Used>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.used.streams.set(self.used.streams.get().saturating_sub(1));
        self.used.idle_since.set(Instant::now());
        self.used.open.changed.notify_waiters();
    }
}

impl Links {
    pub(super) fn new() -> Self {
        let connections = Group::new("proxy connection to a host");
        Self { links: RefCell::default(), attempts: RefCell::default(), connections }
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
        self.attempts.borrow_mut().retain(|(host, attempt)| hosts(host) || Rc::strong_count(attempt) > 1);
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
        self.links.borrow().is_empty() && self.attempts.borrow().is_empty()
    }

    fn attempt(&self, host: &Arc<Host>) -> Rc<Attempt> {
        let mut attempts = self.attempts.borrow_mut();
        if let Some((_, attempt)) = attempts.iter().find(|(known, _)| Arc::ptr_eq(known, host)) {
            return Rc::clone(attempt);
        }
        let attempt = Rc::<Attempt>::default();
        attempts.push((Arc::clone(host), Rc::clone(&attempt)));
        attempt
    }
}

impl Link {
    fn place(&self) -> Place {
        self.used.streams.set(self.used.streams.get() + 1);
        Place { sender: self.sender.clone(), host: Arc::clone(&self.host), used: Rc::clone(&self.used) }
    }
}

impl Pool {
    /// A place for a request on a connection to a host, if one has room.
    pub(crate) fn take_place(&self, host: &Arc<Host>) -> Option<Place> {
        self.links.find(host, self.http2_options().max_streams)
    }

    /// A place for a request: on a connection with room, on a new one, or, if there are too many connections, the first that another request
    /// has done with. A worker may have one connection to each host in any case. Who asks at the same time waits for one attempt.
    ///
    /// Errors: as [`connect`](Self::connect).
    pub(crate) async fn place(&self, host: &Arc<Host>) -> Result<Place, ConnectError> {
        let mut is_counted = false;
        loop {
            if let Some(place) = self.take_place(host) {
                return Ok(place);
            }
            if self.cluster.remaining(Kind::Connection) == 0 && self.open.has(host) {
                if !std::mem::replace(&mut is_counted, true) {
                    self.cluster.stats.block.increment(ClusterStat::UpstreamCxOverflow);
                }
                self.open.changed.notified().await;
                continue;
            }
            let attempt = self.links.attempt(host);
            let (failures, _) = attempt.failed.get();
            let _locked = attempt.lock.lock().await;
            if let Some(place) = self.take_place(host) {
                return Ok(place);
            }
            if let (after, Some(error)) = attempt.failed.get()
                && after != failures
            {
                return Err(error);
            }
            match self.open_link(host).await {
                Ok(place) => return Ok(place),
                Err(error) => {
                    attempt.failed.set((failures.wrapping_add(1), Some(error)));
                    return Err(error);
                }
            }
        }
    }

    fn http2_options(&self) -> Http2Options {
        self.cluster.config.http2.unwrap_or(Http2Options::CLIENT)
    }

    /// Opens a connection, and takes the first place on it.
    async fn open_link(&self, host: &Arc<Host>) -> Result<Place, ConnectError> {
        let options = self.http2_options();
        let Upstream { stream, counted, .. } = self.connect(host, Protocol::Http2).await?;
        let (transport, traffic) = Transport::new(stream, BytesMut::new());
        let mut builder = h2::client::Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(options.stream_window)
            .initial_connection_window_size(options.connection_window)
            .max_header_list_size(MAX_RESPONSE_HEAD)
            .max_send_buffer_size(SEND_BUFFER)
            .data_frame_budget(FRAME_BUDGET)
            .initial_max_send_streams(usize::try_from(options.max_streams).unwrap_or(usize::MAX));
        let connected = builder.handshake::<_, Bytes>(transport).await;
        let (sender, connection) = connected.map_err(|error| {
            tracing::debug!(host = %host.address, %error, "an HTTP/2 connection cannot be opened");
            ConnectError::Failed
        })?;
        let used = Rc::new(Used {
            streams: Cell::new(0),
            idle_since: Cell::new(Instant::now()),
            is_closed: Cell::new(false),
            is_retired: Cell::new(false),
            open: Rc::clone(&self.open),
        });
        let link = Link { host: Arc::clone(host), sender, used: Rc::clone(&used) };
        let place = link.place();
        self.links.links.borrow_mut().push(link);
        // Those who wait because there are too many connections may find a place on this one.
        self.open.changed.notify_waiters();
        let cluster = Arc::clone(&self.cluster);
        drop(self.links.connections.spawn_local(async move {
            // As a whole, so that it is counted until the connection has ended.
            let mut counted = counted;
            let mut connection = pin!(connection);
            let result = poll_fn(|cx| {
                let polled = connection.as_mut().poll(cx);
                let (received, sent) = traffic.take();
                used.is_retired.set(traffic.empty_frames() >= MAX_EMPTY_FRAMES);
                cluster.stats.block.add(ClusterStat::UpstreamCxRxBytesTotal, received);
                cluster.stats.block.add(ClusterStat::UpstreamCxTxBytesTotal, sent);
                polled
            })
            .await;
            if let Err(error) = &result {
                tracing::debug!(%error, cluster = cluster.config.name, "an HTTP/2 connection to a host has ended");
                if !error.is_io() && !error.is_remote() {
                    cluster.stats.block.increment(ClusterStat::UpstreamCxProtocolError);
                }
            }
            used.is_closed.set(true);
            counted.closed_by_host = traffic.has_ended() || result.is_err_and(|error| error.is_remote());
            counted.with_request = used.streams.get() > 0;
        }));
        Ok(place)
    }
}

/// Whether a connection takes further requests.
fn is_open(sender: &mut SendRequest<Bytes>) -> bool {
    matches!(sender.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
}
