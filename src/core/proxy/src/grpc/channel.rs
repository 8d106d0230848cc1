//! Calls of gRPC to a cluster, over HTTP/2 connections of this worker: one to each host that is called.
//!
//! A call for which there is no place waits in a queue that is bounded in number and time. What is beyond ends with [`OVERFLOW`]: the proxy's
//! own limits are told from a server that does not answer, because clients can exhaust them.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong, Reason};
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::{Request, Version};
use mixer_base::task::Group;
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::framed::Framed;
use super::outgoing::Outgoing;
use super::transport::{Heard, Transport};
use crate::cluster::{Admitted, Cluster, Host, Kind, Outcome, Wanted};
use crate::stats::ClusterStat;
use crate::upstream::{ConnectError, Connector, Pool, Pools, Protocol, Upstream};

/// Most bytes of an answer.
const MAX_ANSWER: usize = 4 << 20;
/// What a call that took too long ends with.
pub(crate) const TIMED_OUT: &str = "upstream request timeout";
/// What the text of a call begins with that did not get to a server.
pub(crate) const NOT_SENT: &str = "upstream connect error or disconnect/reset before headers";

/// The text of a call that the proxy has no place or no resources for.
pub(crate) const OVERFLOW: &str =
    "upstream connect error or disconnect/reset before headers. reset reason: overflow";
/// The text of a call whose message the worker has no memory for, because of others that nobody waits for any more.
const NO_MEMORY: &str = "upstream connect error or disconnect/reset before headers. reset reason: overflow, no memory for the message";
/// How long a call waits for a place, if its time limit is not shorter.
const PLACE_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two looks at the places that other workers use.
const PLACE_INTERVAL: Duration = Duration::from_millis(10);
/// The longest pause of a call that its host refuses, before the next attempt: they double, so that a host which takes nothing is not asked by all
/// calls all the time.
const LONGEST_PAUSE: Duration = Duration::from_millis(80);
/// The time in which a host answers a PING, after a call that it did not answer.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for the calls of a connection that is dead, and for those that nobody waits for any more; and for the end of a connection that is replaced,
/// behind its last call.
const LEFT: Duration = Duration::from_secs(5);
/// Most bytes of the messages to a cluster that nobody on a worker waits for any more: beyond them no call to it begins.
const MAX_LEFT: usize = 64 << 20;
/// After so long without a sign of the host, an idle connection is tried before a call is sent on it: what is between may have forgotten it.
const SILENCE: Duration = Duration::from_secs(5);
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

/// What calls are sent on.
#[derive(Debug, Clone)]
struct Sender {
    requests: SendRequest<Bytes>,
    heard: Rc<Heard>,
    used: Used,
}

/// Held by all who use a connection: it has its time until the last one is gone.
pub(super) type Used = mpsc::Sender<Infallible>;

/// What calls are sent on, or why there is nothing; `None` until it is known.
type Attempted = Option<Result<Sender, ConnectError>>;

/// The connection to a host.
#[derive(Debug, Default)]
struct Link {
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
    streams: Queue,
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

    /// A place among so many calls.
    fn place(self: &Rc<Self>, most: usize) -> Option<Stream> {
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

/// Calls of this worker that wait for a place, in the order in which they came.
#[derive(Debug, Default)]
struct Queue {
    first: Mutex<()>,
    /// Told of every place of this worker that becomes free.
    freed: Notify,
}

impl Queue {
    /// A place, if nobody waits for one and there is one.
    fn take<P>(&self, take: impl Fn() -> Option<P>) -> Option<P> {
        let _first = self.first.try_lock().ok()?;
        take()
    }

    /// Waits until there is a place. `None` if there was none in time.
    async fn wait<P>(&self, limit: Duration, take: impl Fn() -> Option<P>) -> Option<P> {
        let waiting = async {
            let _first = self.first.lock().await;
            loop {
                if let Some(place) = take() {
                    return place;
                }
                // Ended by the interval as well: nobody tells of places that other workers free.
                let _ = tokio::time::timeout(PLACE_INTERVAL, self.freed.notified()).await;
            }
        };
        tokio::time::timeout(limit, waiting).await.ok()
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
    fn endless(mut self) -> Self {
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

/// Why a call failed before there was an answer.
enum Broken {
    Connect(ConnectError),
    Http2(h2::Error),
    /// The connection ended before anything came on it since the call was sent, or after its host said that it ends it.
    Unheard(h2::Error),
    /// The host takes no more calls at once.
    Overflow,
    /// The host has ended the connection with an error of HTTP/2.
    Faulted,
    /// The task that made the call has ended.
    Lost,
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
                was_asked = call.course.stage.get() != Stage::Unsent || !link.is_connecting.get();
                if was_asked {
                    host.timed_out.fetch_add(1, Ordering::Relaxed);
                    link.is_doubted.set(true);
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
        let mut cancelled = Cancelled(Some(Arc::clone(&pool.cluster)), ClusterStat::UpstreamRqTxReset);
        let (head, body) = (message.head.clone(), message.body());
        let exchange = mixer_remote::grpc_exchange_with(requests, request(method), head, body, MAX_ANSWER);
        let (mut answer, answered) = oneshot::channel();
        let (until, place, length) = (until.map(|until| until + LATER), Rc::clone(place), message.len());
        let (left, of_call) = (Rc::clone(&pool.left), Rc::clone(&heard));
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
            let sender = self.sender(&link, pool, host).await?;
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
            let sender = self.sender(&link, pool, host).await?;
            if link.active.get() <= sender.requests.current_max_send_streams() {
                return Ok((sender, stream));
            }
        }
    }

    /// What sends requests to a host: on the connection that is there, or on a new one.
    async fn sender(&self, link: &Rc<Link>, pool: &Pool, host: &Arc<Host>) -> Result<Sender, Broken> {
        if let Some(sender) = link.sender() {
            return Ok(sender);
        }
        pool.cluster.stats.block.increment(ClusterStat::UpstreamRqPendingTotal);
        let _waiting = pool.begin_waiting(host);
        let mut cancelled = Cancelled(Some(Arc::clone(&pool.cluster)), ClusterStat::UpstreamRqCancelled);
        // One that ended without an outcome, by a panic, is begun again.
        let begun = link.attempt.borrow().clone().filter(|attempt| attempt.has_changed().is_ok());
        let mut attempt = begun.unwrap_or_else(|| {
            let (outcome, attempt) = watch::channel(None);
            link.attempt.replace(Some(attempt.clone()));
            let (link, connector, host) = (Rc::clone(link), pool.connector(), Arc::clone(host));
            let connections = self.connections.clone();
            drop(self.connections.spawn_local(async move {
                let renewed = link.renew(&connector, &host, &connections).await;
                link.is_connecting.set(false);
                link.attempt.take();
                outcome.send_replace(Some(renewed));
            }));
            attempt
        });
        let outcome = attempt.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        cancelled.is_answered();
        outcome.unwrap_or(Err(ConnectError::Failed)).map_err(Broken::Connect)
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

/// Whether a connection takes further requests.
fn is_open(sender: &mut SendRequest<Bytes>) -> bool {
    matches!(sender.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
}

/// Whether a server did not take a call because it takes no more at once.
fn is_refusal(error: &h2::Error) -> bool {
    error.is_remote() && error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM)
}

fn not_sent(reason: &str) -> Status {
    Status::unavailable(format!("{NOT_SENT}. reset reason: {reason}"))
}

/// Whether a call failed because there was no place for it here or at the host.
pub(crate) fn is_overflow(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message().starts_with(OVERFLOW)
}

/// Whether a call failed because there is no memory for it, which clients bring about: whatever waits for it is refused.
pub(crate) fn is_without_memory(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message() == NO_MEMORY
}

/// Whether a call failed for want of an answer, for reasons that no client can bring about. Any other status is an answer: a client may have
/// chosen what the server cannot evaluate.
pub(crate) fn is_unanswered(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) && !is_overflow(status)
}

/// The status of a call without an answer. What the host says of the call or of the connection by a code of HTTP/2 is an answer: it may say it
/// because of what is asked, or of how much.
fn status_of(broken: &Broken) -> Status {
    let reason = match broken {
        Broken::Connect(ConnectError::Exhausted) | Broken::Overflow => return Status::unavailable(OVERFLOW),
        Broken::Faulted => {
            return Status::internal("the server ended the connection with an error of HTTP/2");
        }
        Broken::Lost => return Status::internal("the call was lost"),
        Broken::Connect(ConnectError::Failed | ConnectError::Refused) => "remote connection failure",
        Broken::Connect(ConnectError::TimedOut) => "connection timeout",
        Broken::Http2(error) | Broken::Unheard(error) => match (error.is_remote(), error.reason()) {
            (true, Some(Reason::NO_ERROR)) => "connection termination",
            (true, Some(Reason::REFUSED_STREAM)) => return Status::unavailable(OVERFLOW),
            (true, Some(Reason::ENHANCE_YOUR_CALM)) => return Status::resource_exhausted(error.to_string()),
            (true, Some(Reason::CANCEL)) => return Status::cancelled(error.to_string()),
            (true, Some(_)) => return Status::internal(error.to_string()),
            // An answer that is none by the rules of HTTP/2, or too long: what is asked may be the cause.
            _ if error.is_library() => return Status::internal(error.to_string()),
            _ if error.is_io() => "connection termination",
            _ => "protocol error",
        },
    };
    not_sent(reason)
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

/// Counts a call that this side gives up, because it takes too long or nobody waits for it any more.
struct Cancelled(Option<Arc<Cluster>>, ClusterStat);

impl Cancelled {
    /// It is not given up.
    fn is_answered(&mut self) {
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
