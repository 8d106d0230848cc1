//! Looks for a ClientHello: the server name and the protocols that the client offers.

use tokio::net::TcpStream;

use mixer_net::tls::context::{Hello, read_hello};

use super::Refused;
use super::peek::Peeked;
use crate::connection_info::ConnectionInfo;
use crate::stats::{Block, TlsInspectorStat};

/// Looks at the first bytes.
///
/// Errors: a ClientHello that does not end, or the end of the connection.
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
            Hello::Incomplete => {}
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
                info.transport = "tls";
                info.server_name = server_name.unwrap_or_default().to_ascii_lowercase();
                info.protocols = protocols;
                return Ok(());
            }
        }
    }
}
