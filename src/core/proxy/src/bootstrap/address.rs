//! Addresses.

use std::net::{IpAddr, SocketAddr};

use super::reader::{Fields, Message, Value};

static ADDRESS: Message = Message { name: "Address", unsupported: &["pipe", "envoy_internal_address"] };
static SOCKET_ADDRESS: Message = Message {
    name: "SocketAddress",
    unsupported: &["named_port", "resolver_name", "ipv4_compat", "network_namespace_filepath"],
};

/// A host and a port; the host may be a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// An address or a DNS name.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether it is one of UDP.
    pub is_udp: bool,
}

impl HostPort {
    /// The socket address, if the host is no name.
    pub fn literal(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.parse::<IpAddr>().ok()?, self.port))
    }
}

/// Reads an Address. `of` is the message that needs it.
pub(super) fn read(value: &Value<'_>) -> Option<HostPort> {
    let address = value.message(&ADDRESS)?;
    let socket = address.message("socket_address", &SOCKET_ADDRESS);
    let read = socket.and_then(read_socket);
    let is_set =
        |entry: &mixer_config::MappingEntry| !matches!(entry.value.kind, mixer_config::NodeKind::Null);
    if read.is_none() && !address.value.node.entries().iter().any(is_set) {
        address.required("AddressValidationError: field: \"address\", reason: is required");
    }
    address.finish();
    read
}

fn read_socket(socket: Fields<'_>) -> Option<HostPort> {
    let protocol = socket.get("protocol");
    let protocol = protocol.map_or(Some(0), |protocol| protocol.choice(&[("TCP", 0), ("UDP", 1)]));
    let host = match socket.get("address") {
        Some(host) => host.nonempty("SocketAddress", "Address"),
        None => {
            socket
                .required("SocketAddressValidationError.Address: value length must be at least 1 characters");
            None
        }
    };
    let port = match socket.get("port_value") {
        None => {
            socket.required(
                "SocketAddressValidationError.PortSpecifier: field: \"port_specifier\", reason: is required",
            );
            None
        }
        Some(port) => match port.number(u64::from(u32::MAX)).map(u16::try_from) {
            Some(Ok(number)) => Some(number),
            Some(Err(_)) => {
                port.invalid(
                    "SocketAddressValidationError.PortValue: value must be less than or equal to 65535",
                );
                None
            }
            None => None,
        },
    };
    socket.finish();
    Some(HostPort { host: host?.to_owned(), port: port?, is_udp: protocol? == 1 })
}

/// Reads an Address that must be an IP address, and whether it is one of UDP; `None` if that is not known.
pub(super) fn read_literal(value: &Value<'_>) -> (Option<SocketAddr>, Option<bool>) {
    let Some(address) = read(value) else {
        let protocol = value.node.get("socket_address").and_then(|socket| socket.get("protocol"));
        return (None, protocol.is_none().then_some(false));
    };
    let literal = address.literal();
    if literal.is_none() {
        value.invalid(format!("malformed IP address: {}", address.host));
    }
    (literal, Some(address.is_udp))
}

/// Reads the Address of a server of TCP, which must be an IP address.
pub(super) fn read_tcp(value: &Value<'_>) -> Option<SocketAddr> {
    let (address, is_udp) = read_literal(value);
    if is_udp == Some(true) {
        value.unsupported("protocol UDP");
    }
    address
}
