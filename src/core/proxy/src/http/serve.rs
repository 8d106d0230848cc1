//! A connection from its first byte to its last: which protocol it has, and how it counts.

use std::rc::Rc;

use bytes::BytesMut;
use tokio::time::Instant;

use mixer_net::stream::Stream;

use super::client::{Client, Http1Client};
use super::connection::{Connection, End};
use super::{HttpManager, http2};
use crate::bootstrap::Codec;
use crate::connection_info::ConnectionInfo;
use crate::context::WorkerContext;
use crate::stats::{Block, ManagerStat};

/// Serves a connection until it ends.
pub(crate) async fn serve(
    manager: &HttpManager,
    stream: Stream,
    info: Box<ConnectionInfo>,
    worker: &Rc<WorkerContext>,
) {
    let is_tls = info.tls.is_some();
    let ended = Ended::new(manager, is_tls);
    let negotiated = info.tls.as_ref().and_then(|tls| tls.protocol.as_deref());
    let is_http2 = match (manager.codec, negotiated) {
        (Codec::Http1, _) => Some(false),
        (Codec::Http2, _) => Some(true),
        (Codec::Auto, Some(protocol)) => Some(protocol == b"h2"),
        // The first bytes tell.
        (Codec::Auto, None) => None,
    };
    let info = Rc::from(info);
    if is_http2 == Some(true) {
        return ended.count(serve_http2(manager, worker, stream, BytesMut::new(), info).await);
    }
    let client = Client::Http1(Http1Client::new(stream));
    let mut connection = Connection::new(manager, worker, client, Rc::clone(&info));
    let end = connection.run(is_http2.is_none()).await;
    let client = connection.finish();
    ended.count(match (end, client) {
        (End::Http2, Client::Http1(http1)) => {
            serve_http2(manager, worker, http1.stream, http1.input, info).await
        }
        (end, _) => end == End::Local,
    });
}

/// Serves a connection of HTTP/2, of which `input` was read. Returns whether this side ended it.
async fn serve_http2(
    manager: &HttpManager,
    worker: &Rc<WorkerContext>,
    stream: Stream,
    input: BytesMut,
    info: Rc<ConnectionInfo>,
) -> bool {
    let _active = OfProtocol::new(
        &manager.stats,
        ManagerStat::DownstreamCxHttp2Total,
        ManagerStat::DownstreamCxHttp2Active,
    );
    // Boxed: connections of HTTP/1.1 do not hold what it takes.
    Box::pin(http2::serve(manager, worker, stream, input, info)).await
}

/// Counts a connection of a protocol.
pub(super) struct OfProtocol<'m>(&'m Block<ManagerStat>, ManagerStat);

impl<'m> OfProtocol<'m> {
    pub(super) fn new(stats: &'m Block<ManagerStat>, total: ManagerStat, active: ManagerStat) -> Self {
        stats.increment(total);
        stats.increment(active);
        Self(stats, active)
    }
}

impl Drop for OfProtocol<'_> {
    fn drop(&mut self) {
        self.0.decrement(self.1);
    }
}

/// Counts a connection, and its end, however it comes.
struct Ended<'m> {
    manager: &'m HttpManager,
    opened: Instant,
    is_tls: bool,
}

impl<'m> Ended<'m> {
    fn new(manager: &'m HttpManager, is_tls: bool) -> Self {
        manager.stats.increment(ManagerStat::DownstreamCxTotal);
        manager.stats.increment(ManagerStat::DownstreamCxActive);
        if is_tls {
            manager.stats.increment(ManagerStat::DownstreamCxSslTotal);
            manager.stats.increment(ManagerStat::DownstreamCxSslActive);
        }
        Self { manager, opened: Instant::now(), is_tls }
    }

    /// Counts an end in order: by this side, or by the client.
    fn count(self, is_local: bool) {
        self.manager.stats.increment(match is_local {
            true => ManagerStat::DownstreamCxDestroyLocal,
            false => ManagerStat::DownstreamCxDestroyRemote,
        });
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let stats = &self.manager.stats;
        if self.is_tls {
            stats.decrement(ManagerStat::DownstreamCxSslActive);
        }
        stats.decrement(ManagerStat::DownstreamCxActive);
        stats.increment(ManagerStat::DownstreamCxDestroy);
        self.manager.connection_length.observe(self.opened.elapsed());
    }
}
