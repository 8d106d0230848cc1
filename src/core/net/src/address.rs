//! Listen addresses.

use std::path::PathBuf;

/// An invalid listen address. The text is that of Istio Mixer after `unable to listen: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(pub String);

/// A listen address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// `host:port`; an empty host means all interfaces, IPv6 included.
    Tcp {
        /// `tcp`, `tcp4` or `tcp6`.
        network: String,
        /// `host:port`.
        address: String,
    },
    /// A unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Parses `network://address`; the default network is `tcp`.
    ///
    /// Errors: the text of Istio Mixer, for example `listen foo: unknown network foo`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (network, address) = text.split_once("://").unwrap_or(("tcp", text));
        match network {
            "unix" => Ok(Self::Unix(PathBuf::from(address))),
            "tcp" | "tcp4" | "tcp6" => {
                let refuse = |why: &str| AddressError(format!("listen {network}: address {address}: {why}"));
                let (host, _) = address.rsplit_once(':').ok_or_else(|| refuse("missing port in address"))?;
                let bracketed = host.starts_with('[') && host.ends_with(']');
                if host.contains(':') && !bracketed {
                    return Err(refuse("too many colons in address"));
                }
                Ok(Self::Tcp { network: network.to_owned(), address: address.to_owned() })
            }
            _ => Err(AddressError(format!("listen {network}: unknown network {network}"))),
        }
    }
}

impl ListenAddress {
    /// Whether only clients on this host can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { address, .. } => {
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

/// `network://address`.
impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { network, address } => write!(f, "{network}://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}
