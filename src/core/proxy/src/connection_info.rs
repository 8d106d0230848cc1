//! What is known of a connection: addresses, what listener filters found, TLS.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use mixer_net::tls::context::TlsSession;

use crate::drain::Drained;

/// What is known of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionInfo {
    /// The client, as the PROXY protocol says.
    pub(crate) remote: SocketAddr,
    /// The peer of the connection.
    pub(crate) direct_remote: SocketAddr,
    /// Where the client wanted to go.
    pub(crate) local: SocketAddr,
    /// Whether `local` is not the address of the socket.
    pub(crate) is_local_restored: bool,
    /// `tls` or `raw_buffer`.
    pub(crate) transport: &'static str,
    /// The server name that the client asked for, in lower case, as the TLS inspector found it: as with Envoy, nothing else tells it to filter
    /// chains and access logs.
    pub(crate) server_name: String,
    /// Protocols of ALPN that the client offers, or the one that was found in its first bytes.
    pub(crate) protocols: Vec<String>,
    /// TLS with the client.
    pub(crate) tls: Option<TlsSession>,
    /// Of its filter chain; `None` before one is chosen.
    pub(crate) drained: Option<Rc<Drained>>,
}

impl ConnectionInfo {
    pub(crate) fn new(remote: SocketAddr, local: SocketAddr) -> Self {
        Self {
            remote,
            direct_remote: remote,
            local,
            is_local_restored: false,
            transport: "",
            server_name: String::new(),
            protocols: Vec::new(),
            tls: None,
            drained: None,
        }
    }

    /// Whether the response that is about to be sent ends the connection, because its filter chain is drained.
    pub(crate) fn closes(&self) -> bool {
        self.drained.as_ref().is_some_and(|drained| drained.closes())
    }

    /// Ready once the drain time of its filter chain is over.
    pub(crate) fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        self.drained.as_ref().map_or(Poll::Pending, |drained| drained.poll_over(cx))
    }

    /// The server name that the client asked for: by the TLS inspector, or by the handshake if there is none.
    pub(crate) fn requested_server_name(&self) -> &str {
        let of_handshake = || self.tls.as_ref().and_then(|session| session.server_name.as_deref());
        match self.server_name.as_str() {
            "" => of_handshake().unwrap_or_default(),
            name => name,
        }
    }

    /// Where the client wanted to go, if that is not the address of the socket.
    pub(crate) fn original_destination(&self) -> Option<SocketAddr> {
        self.is_local_restored.then_some(self.local)
    }
}
