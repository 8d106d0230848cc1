//! The two ends of a connection: addresses, and identities of TLS.

use std::net::IpAddr;

use mixer_attribute::OwnedAttributes;

use super::request;
use crate::connection_info::ConnectionInfo;

/// What is known of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The first URI of the certificate of the client.
    pub(crate) principal: Option<String>,
    /// The first URI of the certificate of the proxy.
    pub(crate) local_principal: Option<String>,
    /// The server name that the client asked for.
    pub(crate) server_name: Option<String>,
    /// Whether the client has presented a certificate.
    pub(crate) is_mutual: bool,
}

impl Peer {
    /// Of a connection, as it was accepted.
    pub(crate) fn of(info: &ConnectionInfo) -> Self {
        let certificate = info.tls.as_ref().and_then(|session| session.peer.as_ref());
        Self {
            address: info.remote.ip(),
            principal: certificate.and_then(|certificate| certificate.uris.first().cloned()),
            local_principal: info.tls.as_ref().and_then(|session| session.own_uri.clone()),
            server_name: Some(info.requested_server_name().to_owned()).filter(|name| !name.is_empty()),
            is_mutual: certificate.is_some(),
        }
    }

    /// Of a connection without TLS.
    #[cfg(test)]
    pub(crate) fn plain(address: IpAddr) -> Self {
        Self { address, principal: None, local_principal: None, server_name: None, is_mutual: false }
    }

    /// Adds what requests and connections have in common.
    pub(super) fn extract(&self, into: &mut OwnedAttributes) {
        into.insert("origin.ip", request::address(self.address));
        into.insert("connection.mtls", self.is_mutual);
        let name = |uri: &Option<String>| {
            let uri = uri.as_deref().filter(|uri| !uri.is_empty())?;
            Some(uri.strip_prefix("spiffe://").unwrap_or(uri).to_owned())
        };
        if let Some(principal) = name(&self.principal) {
            let after = principal.split_once("/ns/").map(|(_, after)| after);
            let namespace = after.and_then(|after| after.split('/').next()).filter(|text| !text.is_empty());
            if let Some(namespace) = namespace {
                into.insert("source.namespace", namespace);
            }
            into.insert("source.principal", principal.as_str());
            into.insert("source.user", principal.as_str());
        }
        if let Some(principal) = name(&self.local_principal) {
            into.insert("destination.principal", principal.as_str());
        }
        if let Some(server) = self.server_name.as_deref().filter(|name| !name.is_empty()) {
            into.insert("connection.requested_server_name", server);
        }
    }
}
