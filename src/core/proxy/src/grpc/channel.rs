//! Calls of gRPC to a cluster, over HTTP/2 connections of this worker: one to each host that is called.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::{Request, Version};
use mixer_base::task::Group;
use tokio::sync::Mutex;
use tonic::Status;

use super::outgoing::Outgoing;
use crate::cluster::{Host, Kind, Outcome, Wanted};
use crate::stats::ClusterStat;
use crate::upstream::{ConnectError, Pool, Pools, Protocol, Upstream};

/// Most bytes of an answer.
const MAX_ANSWER: usize = 4 << 20;
/// What a call that took too long ends with.
pub(crate) const TIMED_OUT: &str = "upstream request timeout";
/// What the text of a call begins with that did not get to a server.
pub(crate) const NOT_SENT: &str = "upstream connect error or disconnect/reset before headers";

/// A method, and how it is called.
#[derive(Debug)]
pub(crate) struct Method<'m> {
    /// `/package.Service/Method`.
    pub(crate) path: &'static str,
    /// The host that calls name: the authority of a URI.
    pub(crate) authority: &'m str,
    /// The time limit of a call; `None` for no limit.
    pub(crate) timeout: Option<Duration>,
    /// A further header.
    pub(crate) header: Option<(&'static str, &'m HeaderValue)>,
}

/// Calls to one cluster.
#[derive(Debug)]
pub(crate) struct Channel {
    /// `None` if it does not exist.
    cluster: Option<usize>,
    links: RefCell<Vec<(Arc<Host>, Rc<Link>)>>,
    connections: Group,
}

/// The connection to a host.
#[derive(Debug, Default)]
struct Link {
    /// Locked while it is being made, so that calls wait for one attempt.
    sender: Mutex<Option<SendRequest<Bytes>>>,
    /// Attempts that failed, and why the last one did.
    failed: Cell<(u64, Option<ConnectError>)>,
}

/// Why a call failed before there was an answer.
enum Broken {
    Connect(ConnectError),
    Http2(h2::Error),
}

impl Channel {
    pub(crate) fn new(cluster: Option<usize>) -> Self {
        let connections = Group::new("proxy grpc connection");
        Self { cluster, links: RefCell::default(), connections }
    }

    /// Calls a method with a message and its prefix.
    ///
    /// Errors: the status of the server; UNAVAILABLE with one of the texts above if there was none.
    pub(crate) async fn call(
        &self,
        pools: &Pools,
        method: &Method<'_>,
        message: Bytes,
    ) -> Result<Bytes, Status> {
        let (pool, host) = self.host(pools)?;
        let stats = &pool.cluster.stats;
        let Some(_admitted) = pool.cluster.admit(Kind::Request) else {
            stats.block.increment(ClusterStat::UpstreamRqActiveOverflow);
            return Err(not_sent("overflow"));
        };
        let _active = Active::new(pool, &host);
        let began = tokio::time::Instant::now();
        let limit = method.timeout.unwrap_or(Duration::MAX);
        let answered = tokio::time::timeout(limit, self.exchange(pool, &host, method, message)).await;
        let (status, outcome) = match answered {
            Ok(Ok(answer)) => (200, answer),
            Ok(Err(broken)) => (503, Err(status_of(&broken))),
            Err(_) => {
                stats.block.increment(ClusterStat::UpstreamRqTimeout);
                host.timed_out.fetch_add(1, Ordering::Relaxed);
                (504, Err(Status::unavailable(TIMED_OUT)))
            }
        };
        stats.count_response(status);
        pool.cluster.record(
            &host,
            match status {
                200 => Outcome::Status(200),
                504 => Outcome::TimedOut,
                _ => Outcome::Failed,
            },
        );
        if status == 200 {
            stats.request_time.observe(began.elapsed());
            host.succeeded.fetch_add(1, Ordering::Relaxed);
        } else {
            host.failed.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// The cluster, and the host of it that a call goes to.
    fn host<'p>(&self, pools: &'p Pools) -> Result<(&'p Pool, Arc<Host>), Status> {
        let Some(pool) = self.cluster.and_then(|cluster| pools.get(cluster)) else {
            return Err(not_sent("no such cluster"));
        };
        let Some(host) = pool.choose_for(Wanted::default()) else {
            pool.cluster.stats.block.increment(ClusterStat::UpstreamCxNoneHealthy);
            return Err(not_sent("no healthy upstream"));
        };
        Ok((pool, host))
    }

    /// Begins a call whose messages follow one by one.
    ///
    /// Errors: UNAVAILABLE; there is no connection to a host.
    pub(crate) async fn open(&self, pools: &Pools, method: &Method<'_>) -> Result<Outgoing, Status> {
        let (pool, host) = self.host(pools)?;
        pool.cluster.stats.block.increment(ClusterStat::UpstreamRqTotal);
        host.requests.fetch_add(1, Ordering::Relaxed);
        let opened = async {
            let mut sender = self.sender(pool, &host).await?.ready().await.map_err(Broken::Http2)?;
            sender.send_request(request(method), false).map_err(Broken::Http2)
        };
        match opened.await {
            Ok((response, body)) => Ok(Outgoing::new(response, body)),
            Err(broken) => {
                host.failed.fetch_add(1, Ordering::Relaxed);
                Err(status_of(&broken))
            }
        }
    }

    /// Sends a request; once more if the server says that it has not begun it.
    async fn exchange(
        &self,
        pool: &Pool,
        host: &Arc<Host>,
        method: &Method<'_>,
        message: Bytes,
    ) -> Result<Result<Bytes, Status>, Broken> {
        let first = self.attempt(pool, host, method, message.clone()).await;
        match first {
            Err(Broken::Http2(error)) if mixer_remote::was_not_begun(&error) => {
                self.attempt(pool, host, method, message).await
            }
            answered => answered,
        }
    }

    async fn attempt(
        &self,
        pool: &Pool,
        host: &Arc<Host>,
        method: &Method<'_>,
        message: Bytes,
    ) -> Result<Result<Bytes, Status>, Broken> {
        let sender = self.sender(pool, host).await?.ready().await.map_err(Broken::Http2)?;
        mixer_remote::grpc_exchange(sender, request(method), message, MAX_ANSWER).await.map_err(Broken::Http2)
    }

    /// What sends requests to a host: on the connection that is there, or on a new one.
    async fn sender(&self, pool: &Pool, host: &Arc<Host>) -> Result<SendRequest<Bytes>, Broken> {
        let link = self.link(pool, host);
        let (failures, _) = link.failed.get();
        let mut current = link.sender.lock().await;
        if let Some(sender) = &mut *current
            && is_open(sender)
        {
            return Ok(sender.clone());
        }
        *current = None;
        // The attempt that this call waited for.
        if let (after, Some(error)) = link.failed.get()
            && after != failures
        {
            return Err(Broken::Connect(error));
        }
        let upstream = pool.connect(host, Protocol::Tcp).await.map_err(|error| {
            link.failed.set((failures.wrapping_add(1), Some(error)));
            Broken::Connect(error)
        })?;
        let Upstream { stream, counted, .. } = upstream;
        let connected = mixer_remote::http2_client().handshake::<_, Bytes>(stream).await;
        let (sender, connection) = connected.map_err(Broken::Http2)?;
        drop(self.connections.spawn_local(async move {
            let mut counted = counted;
            if let Err(error) = connection.await {
                counted.closed_by_host = true;
                tracing::debug!(%error, "a connection for gRPC has ended");
            }
        }));
        *current = Some(sender.clone());
        Ok(sender)
    }

    /// The connection to a host; those to hosts that the cluster has no more are forgotten.
    fn link(&self, pool: &Pool, host: &Arc<Host>) -> Rc<Link> {
        let mut links = self.links.borrow_mut();
        if let Some((_, link)) = links.iter().find(|(known, _)| Arc::ptr_eq(known, host)) {
            return Rc::clone(link);
        }
        let hosts = pool.cluster.hosts();
        links.retain(|(known, _)| hosts.iter().any(|host| Arc::ptr_eq(host, known)));
        let link = Rc::<Link>::default();
        links.push((Arc::clone(host), Rc::clone(&link)));
        link
    }
}

/// The head of a call.
fn request(method: &Method<'_>) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = http::Method::POST;
    *request.version_mut() = Version::HTTP_2;
    let uri = http::Uri::builder().scheme("http").authority(method.authority).path_and_query(method.path);
    // Both were checked with the configuration.
    *request.uri_mut() = uri.build().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    if let Some(limit) = method.timeout.and_then(timeout_text) {
        headers.insert("grpc-timeout", limit);
    }
    if let Some((name, value)) = method.header {
        headers.insert(name, value.clone());
    }
    request
}

/// A time limit as gRPC writes it: eight digits at most.
fn timeout_text(limit: Duration) -> Option<HeaderValue> {
    let (millis, seconds) = (limit.as_millis(), limit.as_secs());
    let text = match millis {
        ..100_000_000 => format!("{millis}m"),
        _ => format!("{}S", seconds.min(99_999_999)),
    };
    HeaderValue::try_from(text).ok()
}

/// Whether a connection takes further requests.
fn is_open(sender: &mut SendRequest<Bytes>) -> bool {
    matches!(sender.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
}

fn not_sent(reason: &str) -> Status {
    Status::unavailable(format!("{NOT_SENT}. reset reason: {reason}"))
}

fn status_of(broken: &Broken) -> Status {
    not_sent(match broken {
        Broken::Connect(ConnectError::Failed) => "remote connection failure",
        Broken::Connect(ConnectError::TimedOut) => "connection timeout",
        Broken::Http2(error) if error.is_io() || error.is_go_away() => "connection termination",
        Broken::Http2(error) if error.is_reset() => "remote reset",
        Broken::Http2(_) => "protocol error",
    })
}

/// A call on a host.
struct Active<'c>(&'c Pool, &'c Host);

impl<'c> Active<'c> {
    fn new(pool: &'c Pool, host: &'c Host) -> Self {
        let stats = &pool.cluster.stats.block;
        stats.increment(ClusterStat::UpstreamRqTotal);
        stats.increment(ClusterStat::UpstreamRqActive);
        host.requests.fetch_add(1, Ordering::Relaxed);
        host.active_requests.fetch_add(1, Ordering::Relaxed);
        Self(pool, host)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.cluster.stats.block.decrement(ClusterStat::UpstreamRqActive);
        self.1.active_requests.fetch_sub(1, Ordering::Relaxed);
    }
}
