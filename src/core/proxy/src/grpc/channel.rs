//! Calls of gRPC to a cluster, over HTTP/2 connections of this worker: one to each host that is called.
//!
//! A call for which there is no place waits in a queue that is bounded in number and time. What is beyond ends with [`OVERFLOW`]: the proxy's
//! own limits are told from a server that does not answer, because clients can exhaust them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::{Request, Version};
use mixer_base::task::Group;
use tokio::sync::oneshot;
use tonic::Status;

use super::framed::Framed;
use super::link::{Cancelled, LEFT, Link, Sender, Stream};
use super::outgoing::Outgoing;
use super::queue::{PLACE_INTERVAL, Queue};
use super::status::{
    Broken, NO_MEMORY, OVERFLOW, TIMED_OUT, is_overflow, is_unanswered, not_sent, status_of,
};
use crate::cluster::{Admitted, Host, Kind, Outcome, Wanted};
use crate::stats::ClusterStat;
use crate::upstream::{Pool, Pools};

/// Most bytes of an answer.
const MAX_ANSWER: usize = 4 << 20;
/// How long a call waits for a place, if its time limit is not shorter.
const PLACE_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest pause of a call that its host refuses, before the next attempt: they double, so that a host which takes nothing is not asked by all
/// calls all the time.
const LONGEST_PAUSE: Duration = Duration::from_millis(80);
/// Most bytes of the messages to a cluster that nobody on a worker waits for any more: beyond them no call to it begins.
const MAX_LEFT: usize = 64 << 20;
/// How much later than for its caller the time of a call is over for the task that makes it.
const LATER: Duration = Duration::from_millis(20);

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
    /// Whether it is sent again only if the host says that it has not begun it.
    pub(crate) once: bool,
}

/// Calls to one cluster.
#[derive(Debug)]
pub(crate) struct Channel {
    /// `None` if it does not exist.
    cluster: Option<usize>,
    links: RefCell<Vec<(Arc<Host>, Rc<Link>)>>,
    places: Rc<Queue>,
    connections: Group,
    calls: Group,
}

/// The bytes of a message that nobody waits for; given back on drop.
struct Left(Rc<Cell<usize>>, usize);

impl Left {
    fn new(all: Rc<Cell<usize>>, length: usize) -> Self {
        all.set(all.get().saturating_add(length));
        Self(all, length)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(self.1));
    }
}

/// A call that has a place.
struct Call<'c> {
    method: &'c Method<'c>,
    message: &'c Framed,
    /// When its time is over.
    until: Option<tokio::time::Instant>,
    place: &'c Rc<Place>,
    course: Course,
}

/// How far a call without an answer has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// It waits for a connection.
    #[default]
    Unsent,
    /// It is not at the host because that takes no more: it waits for a place there, or was left out and is to be sent again.
    Waiting,
    Sent,
    /// The host refused it. That it is sent again says nothing: the next refusal may be on its way.
    Refused,
}

/// The course of a call.
#[derive(Debug, Default)]
struct Course {
    stage: Cell<Stage>,
    /// Whether it is counted as a request of its host.
    is_counted: Cell<bool>,
}

impl Course {
    fn reach(&self, stage: Stage) {
        if self.stage.get() != Stage::Refused {
            self.stage.set(stage);
        }
    }

    /// Whether the host takes no more.
    fn lacks_place(&self) -> bool {
        matches!(self.stage.get(), Stage::Waiting | Stage::Refused)
    }

    /// Counts a call for which there is a connection, once.
    fn count(&self, pool: &Pool, host: &Host) {
        if !self.is_counted.replace(true) {
            pool.cluster.stats.block.increment(ClusterStat::UpstreamRqTotal);
            host.requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Channel {
    pub(crate) fn new(cluster: Option<usize>) -> Self {
        let connections = Group::new("proxy grpc connection");
        let calls = Group::new("proxy grpc call");
        Self { cluster, links: RefCell::default(), places: Rc::default(), connections, calls }
    }

    /// Calls a method with a message and its prefix.
    ///
    /// Errors: the status of the server, or that of gRPC for a stream that it reset; UNAVAILABLE with one of the texts above if there was
    /// none.
    pub(crate) async fn call(
        &self,
        pools: &Pools,
        method: &Method<'_>,
        message: Framed,
    ) -> Result<Bytes, Status> {
        let pool = self.pool(pools)?;
        let stats = &pool.cluster.stats;
        let began = tokio::time::Instant::now();
        let limit = method.timeout.unwrap_or(Duration::MAX);
        if pool.left.get() >= MAX_LEFT {
            stats.block.increment(ClusterStat::UpstreamRqActiveOverflow);
            return Err(Status::unavailable(NO_MEMORY));
        }
        // A call that finds no place in its time is one too many, and none that nobody answers.
        let Some(admitted) = self.admit(pool, limit.min(PLACE_TIMEOUT)).await else {
            stats.block.increment(ClusterStat::UpstreamRqActiveOverflow);
            return Err(Status::unavailable(OVERFLOW));
        };
        let place = Rc::new(Place(Some(admitted), Rc::clone(&self.places)));
        // Chosen now: it may have been another one before the wait.
        let host = host_of(pool)?;
        let _active = Active::new(pool, &host);
        let left = limit.saturating_sub(began.elapsed());
        let (until, course) = (began.checked_add(limit), Course::default());
        let call = Call { method, message: &message, until, place: &place, course };
        let answered = tokio::time::timeout(left, self.exchange(pool, &host, &call)).await;
        let mut was_asked = true;
        let (status, outcome) = match answered {
            Ok(Ok(answer)) => (200, answer),
            Ok(Err(broken)) => (503, Err(status_of(&broken))),
            // The host was not asked: it did not take too long.
            Err(_) if call.course.lacks_place() => (503, Err(status_of(&Broken::Overflow))),
            Err(_) => {
                stats.block.increment(ClusterStat::UpstreamRqTimeout);
                let link = self.link(pool, &host);
                // As with Envoy: whether there can be a connection is found by what opens it, and that has its own time limit.
                was_asked = call.course.stage.get() != Stage::Unsent || !link.is_connecting();
                if was_asked {
                    host.timed_out.fetch_add(1, Ordering::Relaxed);
                    link.doubt();
                }
                (504, Err(Status::unavailable(TIMED_OUT)))
            }
        };
        stats.count_response(status);
        match (status, &outcome) {
            (200, _) => pool.cluster.record(&host, Outcome::Status(200)),
            _ if !was_asked => {}
            (504, _) => pool.cluster.record(&host, Outcome::TimedOut),
            // What a client can bring about ejects no host.
            (_, Err(status)) if !is_unanswered(status) => {}
            _ => pool.cluster.record(&host, Outcome::Failed),
        }
        if status == 200 {
            stats.request_time.observe(began.elapsed());
            host.succeeded.fetch_add(1, Ordering::Relaxed);
        } else if was_asked && !outcome.as_ref().is_err_and(is_overflow) {
            host.failed.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// The cluster that is called.
    fn pool<'p>(&self, pools: &'p Pools) -> Result<&'p Pool, Status> {
        self.cluster.and_then(|cluster| pools.get(cluster)).ok_or_else(|| not_sent("no such cluster"))
    }

    /// Begins a call whose messages follow one by one.
    ///
    /// Errors: UNAVAILABLE; there is no connection to a host.
    pub(crate) async fn open(&self, pools: &Pools, method: &Method<'_>) -> Result<Outgoing, Status> {
        let pool = self.pool(pools)?;
        let host = host_of(pool)?;
        let opened = async {
            let (mut sender, stream) = self.stream(pool, &host, &Course::default()).await?;
            let sent = sender.requests.send_request(request(method), false);
            let (response, body) = sent.map_err(Broken::Http2)?;
            Ok((response, body, (stream.endless(), sender.used)))
        };
        match opened.await {
            Ok((response, body, place)) => Ok(Outgoing::new(response, body, place)),
            Err(broken) => {
                host.failed.fetch_add(1, Ordering::Relaxed);
                Err(status_of(&broken))
            }
        }
    }

    /// A place for a call, among those that the cluster may have in flight. `None` if there are too many calls, and too many that wait.
    async fn admit(&self, pool: &Pool, wait: Duration) -> Option<Admitted> {
        let take = || pool.cluster.admit(Kind::Request);
        if let Some(admitted) = self.places.take(take) {
            return Some(admitted);
        }
        let Some(_waits) = pool.cluster.admit(Kind::Pending) else {
            pool.cluster.stats.block.increment(ClusterStat::UpstreamRqPendingOverflow);
            return None;
        };
        self.places.wait(wait, take).await
    }

    /// Sends a request; again if the server says that it has not begun it: one that refuses a stream has no place for the call, as it counts
    /// those that have just ended, and one that ends connections after so many calls leaves out those behind them, as often as clients have many
    /// at once. The call waits for a place.
    ///
    /// It is also sent once more if its connection was dead, or ended gracefully with it.
    async fn exchange(
        &self,
        pool: &Pool,
        host: &Arc<Host>,
        call: &Call<'_>,
    ) -> Result<Result<Bytes, Status>, Broken> {
        let (began, mut pause) = (tokio::time::Instant::now(), PLACE_INTERVAL);
        let (mut is_left_out, mut is_repeated) = (false, call.method.once);
        loop {
            let error = match self.attempt(pool, host, call).await {
                Err(Broken::Http2(error)) if mixer_remote::was_not_begun(&error) => error,
                Err(Broken::Unheard(_)) if !std::mem::replace(&mut is_repeated, true) => continue,
                answered => return answered,
            };
            let is_refusal = is_refusal(&error);
            call.course.reach(if is_refusal { Stage::Refused } else { Stage::Waiting });
            if !std::mem::replace(&mut is_left_out, true) && !is_refusal {
                // On a new connection, on which there is room.
                continue;
            }
            if began.elapsed() >= PLACE_TIMEOUT {
                return Err(Broken::Overflow);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends a request, and waits for its answer.
    ///
    /// A call that was sent goes on when nobody waits for it any more, within its time limit, and holds its place: a server takes one that resets
    /// many for an attacker, and ends the connection with the calls of all others; and when calls are reset, and how long they are, clients of
    /// the proxy choose.
    async fn attempt(
        &self,
        pool: &Pool,
        host: &Arc<Host>,
        call: &Call<'_>,
    ) -> Result<Result<Bytes, Status>, Broken> {
        let (sender, stream) = self.stream(pool, host, &call.course).await?;
        call.course.reach(Stage::Sent);
        let Call { method, message, until, place, .. } = call;
        let Sender { requests, heard, used } = sender;
        let mut cancelled = Cancelled::new(&pool.cluster, ClusterStat::UpstreamRqTxReset);
        let (head, body) = (message.head.clone(), message.body());
        let exchange = mixer_remote::grpc_exchange_with(requests, request(method), head, body, MAX_ANSWER);
        let (mut answer, answered) = oneshot::channel();
        let (until, place, length) = (until.map(|until| until + LATER), Rc::clone(place), message.len());
        let (left, of_call, cluster) = (Rc::clone(&pool.left), Rc::clone(&heard), Arc::clone(&pool.cluster));
        drop(self.calls.spawn_local(async move {
            let _held = (stream, place, used);
            let is_over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let is_left = async {
                answer.closed().await;
                let _left = Left::new(left, length);
                tokio::time::sleep(LEFT).await;
            };
            let before = of_call.times();
            let outcome = tokio::select! {
                outcome = exchange => outcome.map_err(|error| {
                    if error.is_io() {
                        of_call.note_cut();
                        cluster.stats.block.increment(ClusterStat::UpstreamRqPendingFailureEject);
                    }
                    (error, of_call.times() == before)
                }),
                () = is_over => return,
                () = is_left => return,
            };
            cancelled.is_answered();
            // Nobody waits for it if it cannot be told.
            let _ = answer.send(outcome);
        }));
        answered.await.map_err(|_| Broken::Lost)?.map_err(|(error, is_silent)| match error.is_io() {
            // Of a call that the host has begun nothing else tells why its connection has ended.
            true if heard.has_fault() => Broken::Faulted,
            true if is_silent || heard.is_leaving() => Broken::Unheard(error),
            _ => Broken::Http2(error),
        })
    }

    /// What sends one request to a host, and its place among those that the host takes at once.
    async fn stream(
        &self,
        pool: &Pool,
        host: &Arc<Host>,
        course: &Course,
    ) -> Result<(Sender, Stream), Broken> {
        let link = self.link(pool, host);
        let until = tokio::time::Instant::now() + PLACE_TIMEOUT;
        loop {
            let sender = link.connected(pool, host, &self.connections).await.map_err(Broken::Connect)?;
            course.count(pool, host);
            // Beyond what the host takes, the call would wait within HTTP/2, and its time limit would look like that of a silent host.
            let take = || link.place(sender.requests.current_max_send_streams());
            if let Some(stream) = link.streams.take(take) {
                return Ok((sender, stream));
            }
            course.reach(Stage::Waiting);
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            let stream = link.streams.wait(left, take).await.ok_or(Broken::Overflow)?;
            // On the connection that is there by now, which may take fewer.
            let sender = link.connected(pool, host, &self.connections).await.map_err(Broken::Connect)?;
            if link.active() <= sender.requests.current_max_send_streams() {
                return Ok((sender, stream));
            }
        }
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

/// The host of a cluster that a call goes to.
fn host_of(pool: &Pool) -> Result<Arc<Host>, Status> {
    pool.choose_for(Wanted::default()).ok_or_else(|| {
        pool.cluster.stats.block.increment(ClusterStat::UpstreamCxNoneHealthy);
        not_sent("no healthy upstream")
    })
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

/// Whether a server did not take a call because it takes no more at once.
fn is_refusal(error: &h2::Error) -> bool {
    error.is_remote() && error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM)
}

/// A place among the calls in flight; another call is told when it becomes free.
#[derive(Debug)]
struct Place(Option<Admitted>, Rc<Queue>);

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.0.take());
        self.1.freed.notify_one();
    }
}

/// A call on a host.
struct Active<'c>(&'c Pool, &'c Host);

impl<'c> Active<'c> {
    fn new(pool: &'c Pool, host: &'c Host) -> Self {
        let stats = &pool.cluster.stats.block;
        stats.increment(ClusterStat::UpstreamRqActive);
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

#[cfg(test)]
mod tests;
