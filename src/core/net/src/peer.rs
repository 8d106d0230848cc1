//! The peer of a connection: its address and its identity.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::tls::PeerIdentity;

/// The address of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// Unix socket.
    Unix,
}

/// An address of IPv4 as such, although a socket for both versions says `::ffff:127.0.0.1`.
fn shown(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// `host:port`, or `unix`.
impl std::fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeerAddress::Tcp(address) => write!(f, "{}", shown(*address)),
            PeerAddress::Unix => f.write_str("unix"),
        }
    }
}

/// The peer of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// TCP.
    Tcp(SocketAddr),
    /// TLS; the identity is present if client certificates are requested.
    Tls(SocketAddr, Option<Arc<PeerIdentity>>),
    /// Unix socket.
    Unix,
}

impl Peer {
    /// Whether the peer is on this host.
    pub fn is_local(&self) -> bool {
        match self {
            Peer::Tcp(address) | Peer::Tls(address, _) => address.ip().to_canonical().is_loopback(),
            Peer::Unix => true,
        }
    }

    /// A hash that identifies the client across connections: of its principal if it has one, else of its host.
    pub fn key(&self) -> u64 {
        use std::hash::{Hash as _, Hasher as _};
        let mut hasher = rustc_hash::FxHasher::default();
        match (self, self.principal()) {
            (_, Some(name)) if !name.is_empty() => name.hash(&mut hasher),
            (Peer::Tcp(address) | Peer::Tls(address, _), _) => address.ip().to_canonical().hash(&mut hasher),
            (Peer::Unix, _) => return 1,
        }
        // FxHasher mixes the upper bits best.
        hasher.finish() >> 20
    }

    /// The address without the identity.
    pub fn address(&self) -> PeerAddress {
        match self {
            Peer::Tcp(address) | Peer::Tls(address, _) => PeerAddress::Tcp(*address),
            Peer::Unix => PeerAddress::Unix,
        }
    }

    /// The principal in the client certificate, empty without a certificate; `None` if none is requested.
    pub fn principal(&self) -> Option<&str> {
        match self {
            Peer::Tls(_, identity) => identity.as_ref().map(|identity| identity.principal()),
            Peer::Tcp(_) | Peer::Unix => None,
        }
    }
}

/// The address or `unix`, followed by the principal if there is one.
impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Tcp(address) => write!(f, "{}", shown(*address)),
            Peer::Tls(address, _) => match self.principal() {
                None | Some("") => write!(f, "{}", shown(*address)),
                Some(name) => write!(f, "{} {name}", shown(*address)),
            },
            Peer::Unix => f.write_str("unix"),
        }
    }
}
