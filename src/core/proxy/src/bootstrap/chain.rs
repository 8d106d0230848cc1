//! Filter chains: which connections they take.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mixer_net::tls::context::ServerContext;

use super::fingerprint::Fingerprint;
use super::listener::NetworkFilter;
use super::listener_filter::ListenerFilter;
use super::reader::{Message, Value};

static MATCH: Message = Message { name: "FilterChainMatch", unsupported: &["address_suffix", "suffix_len"] };
static RANGE: Message = Message { name: "CidrRange", unsupported: &[] };

/// A filter chain.
#[derive(Debug, Clone)]
pub struct FilterChainConfig {
    /// Its name; may be empty.
    pub name: String,
    /// Which connections it takes.
    pub matching: ChainMatch,
    /// TLS of its connections; `None` for plain text.
    pub tls: Option<Arc<ServerContext>>,
    /// Time limit of the TLS handshake; `None` for the default.
    pub handshake_timeout: Option<Duration>,
    /// The filter that serves its connections.
    pub filter: NetworkFilter,
    /// What was written of it.
    pub written: Fingerprint,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The address; what is beyond the length is 0.
    address: IpAddr,
    /// Length in bits.
    length: u8,
}

impl Range {
    /// The range of the first `length` bits; more than there are count as all.
    pub(crate) fn new(address: IpAddr, length: u32) -> Self {
        let length = u8::try_from(length.min(bits(address))).unwrap_or(u8::MAX);
        Self { address: masked(address, length), length }
    }

    /// The length of the range if the address is in it.
    pub(crate) fn takes(self, address: IpAddr) -> Option<u8> {
        let is_kin = self.address.is_ipv4() == address.is_ipv4();
        (is_kin && masked(address, self.length) == self.address).then_some(self.length)
    }
}

fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

/// Where connections come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceType {
    /// Anywhere.
    #[default]
    Any,
    /// The address that they go to, or loopback.
    Local,
    /// Anywhere else.
    External,
}

/// The criteria of a filter chain; empty ones take everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainMatch {
    /// The port that connections go to.
    pub destination_port: Option<u16>,
    /// The addresses that connections go to.
    pub destinations: Vec<Range>,
    /// Server names in lower case; `.example.com` for all names below it.
    pub server_names: Vec<String>,
    /// `tls` or `raw_buffer`; empty for both.
    pub transport: String,
    /// Protocols of ALPN, or of the HTTP inspector.
    pub protocols: Vec<String>,
    /// The addresses that connections come from, whatever the PROXY protocol says.
    pub direct_sources: Vec<Range>,
    /// Where connections come from.
    pub source_type: SourceType,
    /// The addresses that connections come from.
    pub sources: Vec<Range>,
    /// The ports that connections come from.
    pub source_ports: Vec<u16>,
}

impl ChainMatch {
    /// Whether these listener filters can find what it names.
    pub(super) fn can_match(&self, filters: &[ListenerFilter]) -> bool {
        let has = |filter| filters.contains(&filter);
        let needs_tls = self.transport == "tls" || !self.server_names.is_empty();
        has(ListenerFilter::TlsInspector)
            || (!needs_tls && (self.protocols.is_empty() || has(ListenerFilter::HttpInspector)))
    }

    /// Whether there may be a connection that both take, neither more specifically.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        fn shares<T: PartialEq>(a: &[T], b: &[T]) -> bool {
            (a.is_empty() && b.is_empty()) || a.iter().any(|value| b.contains(value))
        }
        self.destination_port == other.destination_port
            && shares(&self.destinations, &other.destinations)
            && shares(&self.server_names, &other.server_names)
            && self.transport == other.transport
            && shares(&self.protocols, &other.protocols)
            && shares(&self.direct_sources, &other.direct_sources)
            && self.source_type == other.source_type
            && shares(&self.sources, &other.sources)
            && shares(&self.source_ports, &other.source_ports)
    }
}

/// Reads a FilterChainMatch.
pub(super) fn read_match(value: &Value<'_>) -> Option<ChainMatch> {
    let matching = value.message(&MATCH)?;
    let before = value.document.count();
    let ranges = |name: &str| matching.items(name).iter().filter_map(read_range).collect::<Vec<_>>();
    let port = |value: &Value<'_>, field: &str| match value.u32().map(u16::try_from) {
        Some(Ok(port @ 1..)) => Some(port),
        Some(_) => {
            value.invalid(format!(
                "FilterChainMatchValidationError.{field}: value must be inside range [1, 65535]"
            ));
            None
        }
        None => None,
    };
    let destination_port = matching.get("destination_port").and_then(|value| port(&value, "DestinationPort"));
    let mut server_names = Vec::new();
    for value in matching.items("server_names") {
        let Some(name) = value.text() else { continue };
        match name.strip_prefix('*').unwrap_or(name) {
            rest if rest.contains('*') || (rest.len() < name.len() && !rest.starts_with('.')) => {
                value.invalid(
                    "error adding listener: partial wildcards are not supported in \"server_names\"",
                );
            }
            rest => server_names.push(rest.to_ascii_lowercase()),
        }
    }
    let transport = matching.text("transport_protocol").unwrap_or_default().to_owned();
    let protocols = matching.get("application_protocols").map(|value| value.texts()).unwrap_or_default();
    let types = [("ANY", 0), ("SAME_IP_OR_LOOPBACK", 1), ("EXTERNAL", 2)];
    let source_type = match matching.get("source_type").and_then(|value| value.choice(&types)) {
        Some(1) => SourceType::Local,
        Some(2) => SourceType::External,
        _ => SourceType::Any,
    };
    let source_ports = matching.items("source_ports");
    let found = ChainMatch {
        destination_port,
        destinations: ranges("prefix_ranges"),
        server_names,
        transport,
        protocols: protocols.into_iter().map(str::to_owned).collect(),
        direct_sources: ranges("direct_source_prefix_ranges"),
        source_type,
        sources: ranges("source_prefix_ranges"),
        source_ports: source_ports.iter().filter_map(|value| port(value, "SourcePorts")).collect(),
    };
    matching.finish();
    (value.document.count() == before).then_some(found)
}

fn read_range(value: &Value<'_>) -> Option<Range> {
    let range = value.message(&RANGE)?;
    let address = match range.get("address_prefix") {
        Some(text) => {
            let written = text.nonempty("CidrRange", "AddressPrefix");
            let address = written.and_then(|text| text.parse::<IpAddr>().ok());
            if let (Some(written), None) = (written, address) {
                text.invalid(format!("malformed IP address: {written}"));
            }
            address
        }
        None => {
            range.required(
                "CidrRangeValidationError.AddressPrefix: value length must be at least 1 characters",
            );
            None
        }
    };
    let length = range.get("prefix_len").map_or(Some(0), |length| length.number(128));
    range.finish();
    Some(Range::new(address?, u32::try_from(length?).unwrap_or(128)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_take_their_addresses() {
        let range = |text: &str, length| Range::new(text.parse().unwrap(), length);
        let takes = |range: Range, text: &str| range.takes(text.parse().unwrap());
        assert_eq!(takes(range("10.1.2.3", 8), "10.9.9.9"), Some(8));
        assert_eq!(takes(range("10.1.2.3", 8), "11.0.0.0"), None);
        assert_eq!(takes(range("10.1.2.3", 99), "10.1.2.3"), Some(32));
        assert_eq!(takes(range("0.0.0.0", 0), "1.2.3.4"), Some(0));
        assert_eq!(takes(range("0.0.0.0", 0), "::1"), None);
        assert_eq!(takes(range("fe80::1", 10), "febf::9"), Some(10));
        assert_eq!(takes(range("fe80::1", 128), "fe80::2"), None);
    }
}
