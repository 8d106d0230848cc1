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
use http::{Method, Request, Version};
use mixer_base::task::Group;
use tokio::sync::Mutex;
use tonic::Status;

use crate::cluster::{Host, Kind, Wanted};
use crate::stats::ClusterStat;
use crate::upstream::{ConnectError, Pool, Pools, Protocol, Upstream};

/// The time limit of a call.
const TIMEOUT: Duration = Duration::from_millis(5000);
/// As gRPC writes it.
const TIMEOUT_TEXT: HeaderValue = HeaderValue::from_static("5000m");
/// Most bytes of an answer.
const MAX_ANSWER: usize = 4 << 20;
/// What a call that took too long ends with.
pub(super) const TIMED_OUT: &str = "upstream request timeout";
/// What the text of a call begins with that did not get to a server.
pub(super) const NOT_SENT: &str = "upstream connect error or disconnect/reset before headers";

/// Calls to one cluster.
#[derive(Debug)]
pub(super) struct Channel {
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
    pub(super) fn new(cluster: Option<usize>) -> Self {
        let connections = Group::new("proxy mixer connection");
        Self { cluster, links: RefCell::default(), connections }
    }

    /// Calls a method with a message and its prefix. `caller` identifies the workload of the proxy.
    ///
    /// Errors: the status of the server; UNAVAILABLE with one of the texts above if there was none.
    pub(super) async fn call(
        &self,
        pools: &Pools,
        path: &'static str,
        message: Bytes,
        caller: &HeaderValue,
    ) -> Result<Bytes, Status> {
        let Some(pool) = self.cluster.and_then(|cluster| pools.get(cluster)) else {
            return Err(not_sent("no such cluster"));
        };
        let stats = &pool.cluster.stats;
        let Some(_admitted) = pool.cluster.admit(Kind::Request) else {
            stats.block.increment(ClusterStat::UpstreamRqActiveOverflow);
            return Err(not_sent("overflow"));
        };
        let Some(host) = pool.choose_for(Wanted::default()) else {
            stats.block.increment(ClusterStat::UpstreamCxNoneHealthy);
            return Err(not_sent("no healthy upstream"));
        };
        stats.block.increment(ClusterStat::UpstreamRqTotal);
        stats.block.increment(ClusterStat::UpstreamRqActive);
        host.requests.fetch_add(1, Ordering::Relaxed);
        host.active_requests.fetch_add(1, Ordering::Relaxed);
        let _active = Active(pool, &host);
        let began = tokio::time::Instant::now();
        let answered = tokio::time::timeout(TIMEOUT, self.exchange(pool, &host, path, message, caller)).await;
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
        if status == 200 {
            stats.request_time.observe(began.elapsed());
            host.succeeded.fetch_add(1, Ordering::Relaxed);
        } else {
            host.failed.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Sends a request; once more if the server says that it has not begun it.
    async fn exchange(
        &self,
        pool: &Pool,
        host: &Arc<Host>,
        path: &'static str,
        message: Bytes,
        caller: &HeaderValue,
    ) -> Result<Result<Bytes, Status>, Broken> {
        let first = self.attempt(pool, host, path, message.clone(), caller).await;
        match first {
            Err(Broken::Http2(error)) if mixer_remote::was_not_begun(&error) => {
                self.attempt(pool, host, path, message, caller).await
            }
            answered => answered,
        }
    }

    async fn attempt(
        &self,
        pool: &Pool,
        host: &Arc<Host>,
        path: &'static str,
        message: Bytes,
        caller: &HeaderValue,
    ) -> Result<Result<Bytes, Status>, Broken> {
        let sender = self.sender(pool, host).await?.ready().await.map_err(Broken::Http2)?;
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        let uri = http::Uri::builder().scheme("http").authority("mixer").path_and_query(path);
        // Of constants only.
        *request.uri_mut() = uri.build().unwrap_or_default();
        let headers = request.headers_mut();
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-timeout", TIMEOUT_TEXT);
        headers.insert(super::forwarded::HEADER, caller.clone());
        mixer_remote::grpc_exchange(sender, request, message, MAX_ANSWER).await.map_err(Broken::Http2)
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
                tracing::debug!(%error, "a connection to Mixer has ended");
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

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.cluster.stats.block.decrement(ClusterStat::UpstreamRqActive);
        self.1.active_requests.fetch_sub(1, Ordering::Relaxed);
    }
}
