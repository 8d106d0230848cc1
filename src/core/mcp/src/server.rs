//! The port on which sources and sinks are served: TLS, access list, limits.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use mixer_base::task::{Group, Task};
use mixer_net::accepted::Accepted;
use mixer_net::address::ListenAddress;
use mixer_net::listener::{ListenError, Listener};
use mixer_net::peer::Peer;
use mixer_net::tls::{ServerTls, ServerTlsOptions, TlsError};

use crate::access::AccessList;
use crate::account::{Account, ConnectionCharge};
use crate::encode::Dialect;
use crate::grpc::{self, Outgoing};
use crate::limiter::{Limiter, Rate};
use crate::message::{MeshConfigRequest, RequestResources, SinkNode};
use crate::sink::{Sink, SinkService, Updater};
use crate::source::{Revocation, Source, Stop};
use crate::transport::{self, Spawner};

/// What a peer may send on a stream and on a connection before it is read: a sink sends requests of some hundred bytes.
const WINDOWS_OF_SINKS: (u32, u32) = (64 << 10, 64 << 10);
/// The same of a source, which sends whole collections.
const WINDOWS_OF_SOURCES: (u32, u32) = (1 << 20, 2 << 20);
const PING: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may have no stream: sinks whose stream has ended open another one after 30 s at the latest.
const IDLE: Duration = Duration::from_secs(60);
/// How long streams may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where it listens.
    pub address: ListenAddress,
    /// TLS with client certificates; `None`: plain text, and everyone is allowed.
    pub tls: Option<ServerTlsOptions>,
    /// The list of allowed or denied identities; `None`: every verified client is allowed.
    pub access_list: Option<PathBuf>,
    /// Whether a list that does not exist is an error. Otherwise it denies nobody.
    pub needs_access_list: bool,
    /// How often a refused peer is logged.
    pub refusal_log: Rate,
    /// Open connections; others wait.
    pub max_connections: usize,
    /// Streams of a connection. A sink needs one for all of its collections.
    pub max_streams: u32,
    /// Most bytes that all peers together can make this process keep: connections, streams, messages that are not complete, versions that
    /// sinks say they have. Beyond it, the connection that takes most is closed. At least two messages always fit.
    pub max_memory: usize,
    /// How long a sink may take for the first request of a stream.
    pub first_request: Duration,
}

impl ServerOptions {
    /// The defaults: plain text, 4096 connections of 32 streams, 256 MiB, 10 s for the first request of a stream, a record of refused peers
    /// a minute.
    pub fn new(address: ListenAddress) -> Self {
        Self {
            address,
            tls: None,
            access_list: None,
            needs_access_list: true,
            refusal_log: Rate { every: Duration::from_secs(60), burst: 1 },
            max_connections: 4096,
            max_streams: 32,
            max_memory: 256 << 20,
            first_request: Duration::from_secs(10),
        }
    }
}

/// What a server serves.
#[derive(Default)]
pub struct Services {
    /// `ResourceSource`, and the aggregated service if the source has it.
    pub source: Option<Arc<Source>>,
    /// `ResourceSink`.
    pub sink: Option<(Arc<Sink>, Box<dyn Updater>)>,
}

/// A server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is in use, or cannot be listened on.
    #[error("unable to listen: {0}")]
    Listen(#[from] ListenError),
    /// A certificate or a key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The access list.
    #[error("{0}")]
    AccessList(String),
}

/// A server that listens and accepts nothing yet.
pub struct Server {
    listener: Listener,
    max_connections: usize,
    shared: Arc<Shared>,
}

/// What all connections of a server share.
struct Shared {
    source: Option<Arc<Source>>,
    sink: Option<Arc<SinkService>>,
    tls: Option<Arc<ServerTls>>,
    access: Option<Arc<AccessList>>,
    max_streams: u32,
    /// Of a stream, and of a connection.
    windows: (u32, u32),
    account: Arc<Account>,
    first_request: Duration,
    stop: CancellationToken,
    running: TaskTracker,
}

/// What the streams of a connection share.
struct Caller {
    peer: Arc<Peer>,
    charge: Arc<ConnectionCharge>,
    /// Held by the stream that waits for the limit of new streams: one of a connection, so that peers have their turns one after the other.
    turn: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the socket and reads all files. Must run on an event loop.
    ///
    /// Errors: the address cannot be listened on, or a file cannot be used.
    pub fn bind(options: ServerOptions, services: Services) -> Result<Self, ServerError> {
        let tls = options.tls.map(ServerTls::load).transpose()?.map(Arc::new);
        let access = match (&tls, &options.access_list) {
            (Some(_), Some(path)) => {
                let list = AccessList::read(path, options.needs_access_list, options.refusal_log)
                    .map_err(ServerError::AccessList)?;
                Some(Arc::new(list))
            }
            _ => None,
        };
        let listener = Listener::bind(&options.address, None)?;
        let sink = services.sink.map(|(sink, updater)| Arc::new(SinkService::new(sink, updater)));
        let windows = if sink.is_some() { WINDOWS_OF_SOURCES } else { WINDOWS_OF_SINKS };
        let messages = [
            sink.as_ref().map_or(0, |sink| sink.max_message()),
            services.source.as_ref().map_or(0, |source| source.options().max_request),
        ];
        let least = messages.into_iter().max().unwrap_or(0).saturating_mul(2);
        let shared = Shared {
            source: services.source,
            sink,
            tls,
            access,
            max_streams: options.max_streams,
            windows,
            account: Account::new(options.max_memory.max(least), windows.1 as usize),
            first_request: options.first_request,
            stop: CancellationToken::new(),
            running: TaskTracker::new(),
        };
        Ok(Self { listener, max_connections: options.max_connections, shared: Arc::new(shared) })
    }

    /// The address of the socket; `None` of a unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.listener.local_address()
    }

    /// Serves until `stop`; then ends all streams with UNAVAILABLE, and returns when the connections are closed, after 5 s at the latest.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { listener, max_connections, shared } = self;
        let followers = shared.follow_files(&stop);
        let group = Group::new("mcp connection");
        // It keeps its socket, so that nobody is refused while it is down.
        let accept = || {
            listener.accept_all(max_connections, &stop, |accepted| {
                let connection = Arc::clone(&shared).connection(accepted);
                drop(group.spawn(shared.running.track_future(connection)));
                std::future::ready(())
            })
        };
        Task::serving("mcp port").supervised(stop.clone(), accept).await;
        drop(listener);
        shared.stop.cancel();
        shared.running.close();
        // Connections that are still open close with their tasks, which end by the same limit.
        let _ = tokio::time::timeout(GRACE, shared.running.wait()).await;
        for follower in followers {
            // A panic has been logged.
            let _ = follower.await;
        }
    }
}

impl Shared {
    /// Reads certificates and access list again when they change.
    fn follow_files(&self, stop: &CancellationToken) -> Vec<tokio::task::JoinHandle<()>> {
        let mut followers = Vec::new();
        if let Some(tls) = self.tls.clone() {
            let until = stop.clone();
            let follow = move || Arc::clone(&tls).follow(until.clone());
            followers.push(Task::restarted("mcp certificates").spawn(stop.clone(), follow));
        }
        if let Some(access) = self.access.clone() {
            let until = stop.clone();
            let follow = move || Arc::clone(&access).follow(until.clone());
            followers.push(Task::restarted("mcp access list").spawn(stop.clone(), follow));
        }
        followers
    }

    /// Serves a connection to its end; or, when the server stops, until its streams have ended.
    async fn connection(self: Arc<Self>, accepted: Accepted) {
        let charge = self.account.open();
        let opening = accepted.with_tls(self.tls.clone()).open_keeping_place();
        let opened = tokio::select! {
            opened = opening => opened,
            () = charge.ended(IDLE) => return,
        };
        let (stream, peer, _place) = match opened {
            Ok(opened) => opened,
            Err(error) if error.is_health_check() => return,
            Err(error) => {
                mixer_base::warn_limited!(10, "a connection could not be opened: {error}");
                return;
            }
        };
        let caller = Arc::new(Caller { peer: Arc::new(peer), charge, turn: tokio::sync::Mutex::default() });
        let service = hyper::service::service_fn(|request| {
            let (shared, caller) = (Arc::clone(&self), Arc::clone(&caller));
            async move { shared.call(request, caller).await }
        });
        let mut builder = http2::Builder::new(Spawner::new("mcp stream"));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.max_streams)
            .initial_stream_window_size(self.windows.0)
            .initial_connection_window_size(self.windows.1)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            // Whatever its streams have is dropped with it.
            () = caller.charge.ended(IDLE) => return,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(GRACE, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %caller.peer.address(), %error, "a connection has ended");
        }
    }

    async fn call(
        self: Arc<Self>,
        request: Request<Incoming>,
        caller: Arc<Caller>,
    ) -> Result<Response<Outgoing>, Infallible> {
        let answered = match request.uri().path() {
            transport::SOURCE => self.source_stream(Dialect::Resources, request, &caller).await,
            transport::AGGREGATED => self.source_stream(Dialect::Aggregated, request, &caller).await,
            transport::SINK => self.sink_stream(request, &caller).await,
            path => {
                let path = path.trim_start_matches('/');
                let (service, method) = path.rsplit_once('/').unwrap_or((path, ""));
                Err(Status::unimplemented(format!("unknown method {method} for service {service}")))
            }
        };
        answered.or_else(|status| grpc::refused(&status))
    }

    /// Errors: the peer may not have a stream.
    fn authenticate(&self, peer: &Arc<Peer>) -> Result<Revocation, Status> {
        let refuse = |reason: String| Status::unauthenticated(format!("Authentication failure: {reason}"));
        let Some(access) = &self.access else {
            let is_missing = self.tls.is_some() && !matches!(&**peer, Peer::Tls(_, _));
            if is_missing {
                return Err(refuse("denying by default: no auth info found".to_owned()));
            }
            return Ok(std::future::pending().boxed());
        };
        access.check(peer).map_err(refuse)?;
        let revoked = Arc::clone(access).revoked(Arc::clone(peer));
        Ok(async move { refuse(revoked.await) }.boxed())
    }

    /// Lets a stream of an allowed peer begin, at the rate of `limit`. Errors: the server stops.
    async fn admit(&self, limit: &Limiter, caller: &Caller, revoked: Revocation) -> Result<Stop, Status> {
        let charge = caller.charge.stream();
        let turn = async {
            let _turn = caller.turn.lock().await;
            limit.acquire().await;
        };
        tokio::select! {
            () = turn => {}
            () = self.stop.cancelled() => return Err(Status::unavailable("the server is stopping")),
        }
        Ok(Stop { server: self.stop.clone(), revoked, first_request: Some(self.first_request), charge })
    }

    async fn source_stream(
        &self,
        dialect: Dialect,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> Result<Response<Outgoing>, Status> {
        let source = self.source.as_ref().filter(|source| source.speaks(dialect));
        let source = source.ok_or_else(|| {
            let service = request.uri().path().trim_start_matches('/').split('/').next().unwrap_or_default();
            let hint = match (&self.source, dialect) {
                (Some(_), Dialect::Aggregated) => ": sinks of Istio 1.0 and 1.1 are served with --legacy-mcp",
                _ => "",
            };
            Status::unimplemented(format!("unknown service {service}{hint}"))
        })?;
        let revoked = self.authenticate(&caller.peer)?;
        let stop = self.admit(&source.streams, caller, revoked).await?;
        let charge = stop.charge.clone();
        let (body, max) = (request.into_body(), source.options().max_request);
        let incoming = match dialect {
            Dialect::Resources => grpc::requests(body, max, charge),
            Dialect::Aggregated => {
                let requests = grpc::requests::<MeshConfigRequest>(body, max, charge);
                requests.map(|request| request.map(|(request, size)| (of_today(request), size))).boxed()
            }
        };
        let messages = source.serve(dialect, incoming, caller.peer.address().to_string(), stop);
        Ok(grpc::streaming(source.headers(), messages))
    }

    async fn sink_stream(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> Result<Response<Outgoing>, Status> {
        let Some(sink) = &self.sink else {
            return Err(Status::unimplemented("unknown service istio.mcp.v1alpha1.ResourceSink"));
        };
        let revoked = self.authenticate(&caller.peer)?;
        let place = sink.place()?;
        let stop = self.admit(&sink.streams, caller, revoked).await?;
        let incoming = grpc::requests(request.into_body(), sink.max_message(), stop.charge.clone());
        let messages = Arc::clone(sink).serve(incoming, caller.peer.address().to_string(), stop, place);
        Ok(grpc::streaming(&[], messages))
    }
}

/// A request of releases 1.0 and 1.1: the collection is the type URL.
fn of_today(request: MeshConfigRequest) -> RequestResources {
    let node = request.sink_node.unwrap_or_default();
    RequestResources {
        sink_node: Some(SinkNode { id: node.id, ..SinkNode::default() }),
        collection: request.type_url,
        response_nonce: request.response_nonce,
        error_detail: request.error_detail,
        ..RequestResources::default()
    }
}
