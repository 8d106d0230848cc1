//! Looks for a ClientHello: the server name and the protocols that the client offers.

use tokio::net::TcpStream;

use mixer_net::tls::context::{Hello, begins_as_hello, read_hello};

use super::Refused;
use super::peek::Peeked;
use crate::connection_info::ConnectionInfo;
use crate::stats::{Block, TlsInspectorStat};

/// The transport protocol of connections with a ClientHello.
pub(super) const TLS: &str = "tls";

/// Looks at the first bytes.
///
/// A connection is TLS as soon as it begins as a ClientHello, also if this does not end in time.
///
/// Errors: a ClientHello that does not end or cannot be read, or the end of the connection.
pub(super) async fn look(
    stream: &TcpStream,
    info: &mut ConnectionInfo,
    stats: &Block<TlsInspectorStat>,
) -> Result<(), Refused> {
    let mut peeked = Peeked::new();
    loop {
        if !peeked.more(stream).await? {
            if peeked.is_full() {
                stats.increment(TlsInspectorStat::ClientHelloTooLarge);
                return Err(Refused::Invalid);
            }
            return Err(Refused::Gone);
        }
        match read_hello(peeked.bytes()) {
            Hello::Incomplete => {
                if begins_as_hello(peeked.bytes()) == Some(true) {
                    info.transport = TLS;
                }
            }
            Hello::Invalid => {
                tracing::debug!(peer = %info.remote, "the ClientHello cannot be read; the connection is closed");
                return Err(Refused::Invalid);
            }
            Hello::None => {
                stats.increment(TlsInspectorStat::TlsNotFound);
                return Ok(());
            }
            Hello::Found { server_name, protocols } => {
                stats.increment(TlsInspectorStat::TlsFound);
                stats.increment(match server_name {
                    Some(_) => TlsInspectorStat::SniFound,
                    None => TlsInspectorStat::SniNotFound,
                });
                stats.increment(match protocols.is_empty() {
                    false => TlsInspectorStat::AlpnFound,
                    true => TlsInspectorStat::AlpnNotFound,
                });
                info.transport = TLS;
                info.server_name = server_name.unwrap_or_default().to_ascii_lowercase();
                info.protocols = protocols;
                return Ok(());
            }
        }
    }
}
