//! Listen addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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

/// What a TCP socket is bound to.
#[derive(Debug, PartialEq, Eq)]
enum Host<'a> {
    /// All addresses of both families.
    Any,
    /// All of one family, or one.
    V4(Option<Ipv4Addr>),
    V6(Option<Ipv6Addr>),
    /// Whatever the name resolves to.
    Name(&'a str),
}

impl<'a> Host<'a> {
    fn of(network: &str, host: &'a str) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match (host.parse::<IpAddr>(), network) {
            (Err(_), "tcp4") if host.is_empty() => Self::V4(None),
            (Err(_), "tcp6") if host.is_empty() => Self::V6(None),
            (Err(_), _) if host.is_empty() => Self::Any,
            (Err(_), _) => Self::Name(host),
            (Ok(IpAddr::V4(ip)), _) => Self::V4(Some(ip).filter(|ip| !ip.is_unspecified())),
            (Ok(IpAddr::V6(ip)), "tcp") if ip.is_unspecified() => Self::Any,
            (Ok(IpAddr::V6(ip)), _) => Self::V6(Some(ip).filter(|ip| !ip.is_unspecified())),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::V4(a), Self::V4(b)) => a.is_none() || b.is_none() || a == b,
            (Self::V6(a), Self::V6(b)) => a.is_none() || b.is_none() || a == b,
            (Self::Name(a), Self::Name(b)) => a.eq_ignore_ascii_case(b),
            // What a name resolves to is known to the system alone, but it is an address of this host.
            (Self::Name(_), Self::V4(None)) | (Self::V4(None), Self::Name(_)) => true,
            (Self::V4(_) | Self::Name(_), _) | (Self::V6(_), _) => false,
        }
    }
}

impl ListenAddress {
    /// Whether two sockets certainly cannot both listen, one on each. Port 0 is another port each time.
    pub fn overlaps(&self, other: &Self) -> bool {
        let parts = |address: &'_ Self| match address {
            Self::Unix(_) => None,
            Self::Tcp { network, address } => {
                let (host, port) = address.rsplit_once(':')?;
                let port = port.parse::<u16>().ok().filter(|port| *port != 0)?;
                Some((network.clone(), host.to_owned(), port))
            }
        };
        match (self, other) {
            (Self::Unix(a), Self::Unix(b)) => a == b,
            _ => parts(self).zip(parts(other)).is_some_and(
                |((network, host, port), (network_b, host_b, port_b))| {
                    port == port_b && Host::of(&network, &host).overlaps(&Host::of(&network_b, &host_b))
                },
            ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_if_both_sockets_cannot_be_open() {
        for (a, b, overlap) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            (":80", "127.0.0.1:80", true),
            (":80", "[::1]:80", true),
            (":80", "localhost:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "localhost:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("[::]:80", "127.0.0.1:80", true),
            ("tcp6://[::]:80", "127.0.0.1:80", false),
            ("tcp6://:80", "tcp4://:80", false),
            ("localhost:80", "LOCALHOST:80", true),
            ("localhost:80", "127.0.0.1:80", false),
            ("unix:///run/a", "unix:///run/a", true),
            ("unix:///run/a", "unix:///run/b", false),
            ("unix:///run/a", ":80", false),
            ("127.0.0.1:http", "127.0.0.1:http", false),
        ] {
            let parsed = |text| ListenAddress::parse(text).unwrap();
            assert_eq!(parsed(a).overlaps(&parsed(b)), overlap, "{a} {b}");
            assert_eq!(parsed(b).overlaps(&parsed(a)), overlap, "{b} {a}");
        }
    }
}
