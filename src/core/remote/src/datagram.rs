//! Datagrams over UDP.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{UdpSocket, lookup_host};
use tokio::time::Instant;

use crate::RemoteError;
use crate::answer::Answer;
use crate::stream::host_of;

/// How often the name of the backend is resolved.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(60);
/// The limit of resolving a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A backend that takes datagrams. Datagrams are not acknowledged: they are delivered when they are sent.
#[derive(Debug)]
pub struct DatagramTarget {
    /// `HOST:PORT`.
    address: String,
    socket: Option<(UdpSocket, Instant)>,
}

impl DatagramTarget {
    /// Checks the address, `HOST:PORT`; opens no socket. Errors: it is invalid.
    pub fn new(address: impl Into<String>) -> Result<Self, RemoteError> {
        let address = address.into();
        host_of(&address)?;
        Ok(Self { address, socket: None })
    }

    /// Sends a datagram. One that is too large for the network is refused.
    pub async fn send(&mut self, datagram: &[u8]) -> Answer {
        let socket = match self.socket.take() {
            Some(kept) if kept.1.elapsed() < RESOLVE_INTERVAL => kept,
            kept => match (self.open().await, kept) {
                (Ok(socket), _) => (socket, Instant::now()),
                // A name that is not resolved now does not make the address unusable.
                (Err(_), Some((socket, _))) => (socket, Instant::now()),
                (Err(why), None) => return Answer::retry(why),
            },
        };
        match socket.0.send(datagram).await {
            Ok(_) => {
                self.socket = Some(socket);
                Answer::Delivered
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput || is_too_large(&error) => {
                self.socket = Some(socket);
                Answer::Refused(format!("a datagram of {} bytes: {error}", datagram.len()))
            }
            // An earlier datagram reached no receiver. The name is resolved again.
            Err(error) => Answer::retry(error.to_string()),
        }
    }

    async fn open(&self) -> Result<UdpSocket, String> {
        let text = |error: std::io::Error| error.to_string();
        let found = tokio::time::timeout(RESOLVE_TIMEOUT, lookup_host(&self.address)).await;
        let found = found.map_err(|_| format!("not resolved within {RESOLVE_TIMEOUT:?}"))?.map_err(text)?;
        let found: Vec<SocketAddr> = found.collect();
        // A datagram to a wrong address is lost without notice. Most daemons listen on IPv4, and Go's clients prefer it.
        let to = found.iter().find(|address| address.is_ipv4()).or(found.first()).copied();
        let to = to.ok_or_else(|| "the name has no address".to_owned())?;
        let from: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(from).await.map_err(text)?;
        socket.connect(to).await.map_err(text)?;
        Ok(socket)
    }
}

/// `EMSGSIZE`, which has no kind of its own.
fn is_too_large(error: &std::io::Error) -> bool {
    const EMSGSIZE: i32 = 90;
    error.raw_os_error() == Some(EMSGSIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn datagrams_arrive_and_too_large_ones_are_refused() {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut target = DatagramTarget::new(receiver.local_addr().unwrap().to_string()).unwrap();
        for datagram in [&b"requests:1|c"[..], b"latency:7|ms"] {
            assert_eq!(target.send(datagram).await, Answer::Delivered);
            let mut buffer = [0; 100];
            let length = receiver.recv(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..length], datagram);
        }
        let refused = target.send(&vec![0; 70_000]).await;
        assert!(
            matches!(&refused, Answer::Refused(why) if why.starts_with("a datagram of 70000 bytes")),
            "{refused:?}"
        );
        assert_eq!(target.send(b"more").await, Answer::Delivered);
    }

    #[tokio::test]
    async fn a_backend_that_is_gone_is_noticed() {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut target = DatagramTarget::new(receiver.local_addr().unwrap().to_string()).unwrap();
        drop(receiver);
        let mut answers = Vec::new();
        // The refusal of a datagram shows with a later one.
        while !answers.iter().any(|answer| matches!(answer, Answer::Retry { .. })) {
            assert!(answers.len() < 1000, "{answers:?}");
            answers.push(target.send(b"x").await);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(target.send(b"y").await, Answer::Delivered, "the name is resolved again");
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for valid in ["statsd:8125", "127.0.0.1:1", "[::1]:8125"] {
            assert!(DatagramTarget::new(valid).is_ok(), "{valid}");
        }
        for invalid in ["statsd", ":8125", "statsd:", "statsd:0", "statsd:99999", ""] {
            let error = DatagramTarget::new(invalid).unwrap_err().to_string();
            assert_eq!(error, format!("invalid address `{invalid}`: it must be HOST:PORT"));
        }
    }
}
