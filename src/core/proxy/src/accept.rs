//! From an accepted socket to the filter that serves it: listener filters look at the connection, a filter chain is chosen, and TLS is
//! negotiated.

mod chains;
mod http_inspector;
mod peek;
mod proxy_protocol;
mod tls_inspector;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use mixer_net::stream::Stream;
use mixer_net::tls::context::{HandshakeError, ServerContext};

use crate::bootstrap::{ChainMatch, ListenerConfig, ListenerFilter};
use crate::connection_info::ConnectionInfo;
use crate::context::WorkerContext;
use crate::drain::{Drain, Drained};
use crate::http::HttpManager;
use crate::stats::{
    Block, HttpInspectorStat, ListenerStat, ManagerStat, ProxyProtocolStat, RootStat, Scope, Stats,
    TlsInspectorStat,
};
use crate::tcp_proxy::TcpProxy;
use crate::tls::TlsStats;

/// Time limit of TLS handshakes of filter chains that have none.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The filter of a filter chain.
#[derive(Debug)]
pub(crate) enum Filter {
    Tcp(TcpProxy),
    Http(Box<HttpManager>),
}

/// A filter chain as it serves.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) matching: ChainMatch,
    pub(crate) tls: Option<ChainTls>,
    pub(crate) filter: Filter,
    /// Of its connections, when it is replaced or removed.
    pub(crate) drain: Arc<Drain>,
}

/// TLS of a filter chain.
#[derive(Debug)]
pub(crate) struct ChainTls {
    context: Arc<ServerContext>,
    limit: Duration,
    stats: TlsStats,
}

impl ChainTls {
    pub(crate) fn new(context: Arc<ServerContext>, limit: Option<Duration>, stats: TlsStats) -> Self {
        Self { context, limit: limit.unwrap_or(HANDSHAKE_TIMEOUT), stats }
    }

    /// The certificates, which may be loaded again.
    pub(crate) fn context(&self) -> Arc<ServerContext> {
        Arc::clone(&self.context)
    }
}

/// The filter chains of a listener, and what looks at connections before.
#[derive(Debug)]
pub(crate) struct Entrance {
    filters: Vec<ActiveFilter>,
    limit: Option<Duration>,
    continues_on_timeout: bool,
    pub(crate) chains: Vec<Arc<Chain>>,
    pub(crate) default: Option<Arc<Chain>>,
    /// Protocols of ALPN that a filter chain names.
    protocols: HashSet<String>,
}

/// A listener filter with its statistics.
#[derive(Debug)]
enum ActiveFilter {
    Tls(Arc<Block<TlsInspectorStat>>),
    Http(Arc<Block<HttpInspectorStat>>),
    OriginalDestination,
    ProxyProtocol { is_optional: bool, stats: Arc<Block<ProxyProtocolStat>>, root: Arc<Block<RootStat>> },
}

/// Why a listener filter ends a connection.
enum Refused {
    /// What was received is not valid.
    Invalid,
    /// The client ended the connection, or reading failed.
    Gone,
}

impl From<std::io::Error> for Refused {
    fn from(_: std::io::Error) -> Self {
        Refused::Gone
    }
}

impl Entrance {
    pub(crate) fn new(
        config: &ListenerConfig,
        stats: &Stats,
        chains: Vec<Arc<Chain>>,
        default: Option<Arc<Chain>>,
    ) -> Self {
        let filters = config.listener_filters.iter().map(|filter| match filter {
            ListenerFilter::TlsInspector => ActiveFilter::Tls(stats.block(&Scope::TlsInspector)),
            ListenerFilter::HttpInspector => ActiveFilter::Http(stats.block(&Scope::HttpInspector)),
            ListenerFilter::OriginalDestination => ActiveFilter::OriginalDestination,
            ListenerFilter::ProxyProtocol { is_optional } => ActiveFilter::ProxyProtocol {
                is_optional: *is_optional,
                stats: stats.block(&Scope::ProxyProtocol),
                root: stats.block(&Scope::Root),
            },
        });
        let protocols = chains.iter().flat_map(|chain| chain.matching.protocols.iter().cloned()).collect();
        Self {
            protocols,
            filters: filters.collect(),
            limit: config.listener_filters_timeout,
            continues_on_timeout: config.continues_on_timeout,
            chains,
            default,
        }
    }

    /// Has the listener filters look at a connection. Returns false if it is to be closed.
    pub(crate) async fn look(
        &self,
        stream: &mut TcpStream,
        info: &mut ConnectionInfo,
        stats: &Block<ListenerStat>,
    ) -> bool {
        if !self.filters.is_empty() {
            let _waiting = Waiting::new(stats);
            let looking = self.filter(stream, info);
            let looked = match self.limit {
                Some(limit) => tokio::time::timeout(limit, looking).await,
                None => Ok(looking.await),
            };
            match looked {
                Ok(Ok(())) => {}
                Ok(Err(Refused::Invalid)) => {
                    stats.increment(ListenerStat::DownstreamListenerFilterError);
                    return false;
                }
                Ok(Err(Refused::Gone)) => {
                    stats.increment(ListenerStat::DownstreamListenerFilterRemoteClose);
                    return false;
                }
                Err(_) => {
                    stats.increment(ListenerStat::DownstreamPreCxTimeout);
                    // Half a ClientHello is not served without its server name: the other half may follow.
                    if !self.continues_on_timeout || info.transport == tls_inspector::TLS {
                        return false;
                    }
                    match registered_again(stream) {
                        Ok(again) => *stream = again,
                        Err(_) => return false,
                    }
                }
            }
        }
        true
    }

    /// The filter chain of a connection that the listener filters have seen; `None` if there is none, and it is to be closed.
    pub(crate) fn choose(&self, info: &mut ConnectionInfo, stats: &Block<ListenerStat>) -> Option<&Chain> {
        // A client may offer tens of thousands, each of which would be compared with those of each filter chain.
        let mut seen = HashSet::new();
        info.protocols.retain(|name| self.protocols.contains(name) && seen.insert(name.clone()));
        let found = chains::find(&self.chains, info).or(self.default.as_deref());
        if found.is_none() {
            stats.increment(ListenerStat::NoFilterChainMatch);
        }
        found
    }

    async fn filter(&self, stream: &mut TcpStream, info: &mut ConnectionInfo) -> Result<(), Refused> {
        for filter in &self.filters {
            match filter {
                ActiveFilter::Tls(stats) => tls_inspector::look(stream, info, stats).await?,
                ActiveFilter::Http(stats) => http_inspector::look(stream, info, stats).await?,
                ActiveFilter::OriginalDestination => take_original_destination(stream, info),
                ActiveFilter::ProxyProtocol { is_optional, stats, root } => {
                    let read = proxy_protocol::look(stream, info, *is_optional, stats).await;
                    if matches!(read, Err(Refused::Invalid)) {
                        root.increment(RootStat::DownstreamCxProxyProtoError);
                    }
                    read?;
                }
            }
        }
        Ok(())
    }
}

/// The socket tells again of bytes that were looked at: a filter that waits for more has forgotten the event.
fn registered_again(stream: &TcpStream) -> std::io::Result<TcpStream> {
    let socket = stream.as_fd().try_clone_to_owned()?;
    TcpStream::from_std(std::net::TcpStream::from(socket))
}

/// Counts a connection that has no filter chain yet.
struct Waiting<'s>(&'s Block<ListenerStat>);

impl<'s> Waiting<'s> {
    fn new(stats: &'s Block<ListenerStat>) -> Self {
        stats.increment(ListenerStat::DownstreamPreCxActive);
        Self(stats)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.decrement(ListenerStat::DownstreamPreCxActive);
    }
}

/// The address that a connection went to before the kernel redirected it; nothing changes if it did not.
fn take_original_destination(stream: &TcpStream, info: &mut ConnectionInfo) {
    let socket = socket2::SockRef::from(stream);
    let original = match info.local {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    };
    if let Some(original) = original.ok().and_then(|address| address.as_socket())
        && original != info.local
    {
        info.local = original;
        info.is_local_restored = true;
    }
}

impl Chain {
    /// Serves a connection of this filter chain until it ends.
    pub(crate) async fn serve(
        &self,
        stream: TcpStream,
        mut info: Box<ConnectionInfo>,
        listener: &Block<ListenerStat>,
        worker: &Rc<WorkerContext>,
    ) {
        info.drained = Some(Rc::new(Drained::new(&self.drain, &worker.drains)));
        // The peer may have reset the connection; reading tells.
        let _ = stream.set_nodelay(true);
        let stream = match &self.tls {
            None => Stream::Tcp(stream),
            // Boxed: a handshake is most of what a connection would hold for good.
            Some(tls) => match Box::pin(tls.context.accept(stream, tls.limit)).await {
                Ok((stream, session)) => {
                    tls.stats.succeeded(&session);
                    info.tls = Some(session);
                    stream
                }
                Err(error) => return self.handshake_failed(&tls.stats, &error, &info, listener),
            },
        };
        match &self.filter {
            Filter::Tcp(proxy) => proxy.serve(stream, &info, worker).await,
            Filter::Http(manager) => crate::http::serve(manager, stream, info, worker).await,
        }
    }

    fn handshake_failed(
        &self,
        stats: &TlsStats,
        error: &HandshakeError,
        info: &ConnectionInfo,
        listener: &Block<ListenerStat>,
    ) {
        tracing::debug!(peer = %info.remote, %error, "TLS handshake failed");
        stats.failed(error);
        if matches!(error, HandshakeError::Timeout(_)) {
            listener.increment(ListenerStat::DownstreamCxTransportSocketConnectTimeout);
        }
        if let Filter::Http(manager) = &self.filter {
            for stat in [
                ManagerStat::DownstreamCxTotal,
                ManagerStat::DownstreamCxSslTotal,
                ManagerStat::DownstreamCxDestroy,
                ManagerStat::DownstreamCxDestroyRemote,
            ] {
                manager.stats.increment(stat);
            }
        }
    }
}
