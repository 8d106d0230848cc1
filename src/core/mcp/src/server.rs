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
use crate::encode::Dialect;
use crate::grpc::{self, Outgoing};
use crate::limiter::Rate;
use crate::message::{MeshConfigRequest, RequestResources, SinkNode};
use crate::sink::{Sink, SinkService, Updater};
use crate::source::{Revocation, Source, Stop};
use crate::transport::{self, Spawner};

/// Limits of connections, as Galley has them.
const WINDOWS: (u32, u32) = (1 << 20, 16 << 20);
const PING: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
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
    /// How often a refused peer is logged.
    pub refusal_log: Rate,
    /// Open connections; others wait.
    pub max_connections: usize,
    /// Streams of a connection.
    pub max_streams: u32,
}

impl ServerOptions {
    /// The defaults: plain text, 4096 connections of 1024 streams, a record of refused peers a minute.
    pub fn new(address: ListenAddress) -> Self {
        Self {
            address,
            tls: None,
            access_list: None,
            refusal_log: Rate { every: Duration::from_secs(60), burst: 1 },
            max_connections: 4096,
            max_streams: 1024,
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
    stop: CancellationToken,
    running: TaskTracker,
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
                let list = AccessList::read(path, options.refusal_log).map_err(ServerError::AccessList)?;
                Some(Arc::new(list))
            }
            _ => None,
        };
        let listener = Listener::bind(&options.address, None)?;
        let sink = services.sink.map(|(sink, updater)| Arc::new(SinkService::new(sink, updater)));
        let shared = Shared {
            source: services.source,
            sink,
            tls,
            access,
            max_streams: options.max_streams,
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
        listener
            .accept_all(max_connections, &stop, |accepted| {
                let connection = Arc::clone(&shared).connection(accepted);
                drop(group.spawn(shared.running.track_future(connection)));
                std::future::ready(())
            })
            .await;
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
        let (stream, peer, _place) = match accepted.with_tls(self.tls.clone()).open_keeping_place().await {
            Ok(opened) => opened,
            Err(error) if error.is_health_check() => return,
            Err(error) => {
                mixer_base::warn_limited!(10, "a connection could not be opened: {error}");
                return;
            }
        };
        let peer = Arc::new(peer);
        let service = hyper::service::service_fn(|request| {
            let (shared, peer) = (Arc::clone(&self), Arc::clone(&peer));
            async move { shared.call(request, peer).await }
        });
        let mut builder = http2::Builder::new(Spawner::new("mcp stream"));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.max_streams)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(GRACE, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %peer.address(), %error, "a connection has ended");
        }
    }

    async fn call(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Arc<Peer>,
    ) -> Result<Response<Outgoing>, Infallible> {
        let answered = match request.uri().path() {
            transport::SOURCE => self.source_stream(Dialect::Resources, request, peer).await,
            transport::AGGREGATED => self.source_stream(Dialect::Aggregated, request, peer).await,
            transport::SINK => self.sink_stream(request, peer).await,
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

    async fn source_stream(
        &self,
        dialect: Dialect,
        request: Request<Incoming>,
        peer: Arc<Peer>,
    ) -> Result<Response<Outgoing>, Status> {
        let source = self.source.as_ref().filter(|source| source.speaks(dialect));
        let source = source.ok_or_else(|| {
            let service = request.uri().path().trim_start_matches('/').split('/').next().unwrap_or_default();
            Status::unimplemented(format!("unknown service {service}"))
        })?;
        tokio::select! {
            () = source.streams.acquire() => {}
            () = self.stop.cancelled() => return Err(Status::unavailable("the server is stopping")),
        }
        let revoked = self.authenticate(&peer)?;
        let stop = Stop { server: self.stop.clone(), revoked };
        let (body, max) = (request.into_body(), source.options().max_request);
        let incoming = match dialect {
            Dialect::Resources => grpc::requests(body, max),
            Dialect::Aggregated => {
                let requests = grpc::requests::<MeshConfigRequest>(body, max);
                requests.map(|request| request.map(|(request, size)| (of_today(request), size))).boxed()
            }
        };
        let messages = source.serve(dialect, incoming, peer.address().to_string(), stop);
        Ok(grpc::streaming(source.headers(), messages))
    }

    async fn sink_stream(
        &self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
    ) -> Result<Response<Outgoing>, Status> {
        let Some(sink) = &self.sink else {
            return Err(Status::unimplemented("unknown service istio.mcp.v1alpha1.ResourceSink"));
        };
        tokio::select! {
            () = sink.streams.acquire() => {}
            () = self.stop.cancelled() => return Err(Status::unavailable("the server is stopping")),
        }
        let revoked = self.authenticate(&peer)?;
        let incoming = grpc::requests(request.into_body(), sink.max_message());
        let stop = Stop { server: self.stop.clone(), revoked };
        let messages = Arc::clone(sink).serve(incoming, peer.address().to_string(), stop);
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
