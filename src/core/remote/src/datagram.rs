//! Datagrams over UDP.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{UdpSocket, lookup_host};
use tokio::time::Instant;

use crate::RemoteError;
use crate::answer::Answer;
use crate::stream::host_and_port;

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
    /// Which of the addresses of the name is used: the next one after each failure.
    turn: usize,
}

impl DatagramTarget {
    /// Checks the address, `HOST:PORT`; opens no socket. Errors: it is invalid.
    pub fn new(address: impl Into<String>) -> Result<Self, RemoteError> {
        let address = address.into();
        host_and_port(&address)?;
        Ok(Self { address, socket: None, turn: 0 })
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
            // An earlier datagram reached no receiver. The name is resolved again, and its next address is tried.
            Err(error) => {
                self.turn = self.turn.wrapping_add(1);
                Answer::retry(error.to_string())
            }
        }
    }

    async fn open(&mut self) -> Result<UdpSocket, String> {
        let found = tokio::time::timeout(RESOLVE_TIMEOUT, lookup_host(&self.address)).await;
        let found = found.map_err(|_| format!("not resolved within {RESOLVE_TIMEOUT:?}"))?.map_err(text)?;
        self.open_any(found.collect()).await
    }

    /// A socket for the first address, beginning with the one whose turn it is, that this machine has a route to.
    async fn open_any(&mut self, mut found: Vec<SocketAddr>) -> Result<UdpSocket, String> {
        // A datagram to a wrong address is often lost without notice. Most daemons listen on IPv4, and Go's clients prefer it.
        found.sort_by_key(SocketAddr::is_ipv6);
        let mut failed = None;
        for _ in 0..found.len() {
            let Some(to) = found.get(self.turn % found.len()) else { break };
            match open(*to).await {
                Ok(socket) => return Ok(socket),
                Err(error) => drop(failed.get_or_insert(text(error))),
            }
            self.turn = self.turn.wrapping_add(1);
        }
        Err(failed.unwrap_or_else(|| "the name has no address".to_owned()))
    }
}

async fn open(to: SocketAddr) -> std::io::Result<UdpSocket> {
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from).await?;
    socket.connect(to).await?;
    Ok(socket)
}

fn text(error: std::io::Error) -> String {
    error.to_string()
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

    #[tokio::test]
    async fn the_addresses_of_a_name_take_turns_when_they_fail() {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = receiver.local_addr().unwrap().port();
        let mut target = DatagramTarget::new(format!("statsd:{port}")).unwrap();
        // IPv4 comes first; there is no route to the first address, and nobody listens at the second.
        let addresses =
            [format!("[::1]:{port}"), format!("255.255.255.255:{port}"), format!("127.0.0.2:{port}")];
        let mut addresses: Vec<SocketAddr> =
            addresses.iter().map(|address| address.parse().unwrap()).collect();
        addresses.push(receiver.local_addr().unwrap());
        let mut peers = Vec::new();
        for _ in 0..3 {
            let socket = target.open_any(addresses.clone()).await.unwrap();
            peers.push(socket.peer_addr().unwrap());
            target.socket = Some((socket, Instant::now()));
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(50) && target.socket.is_some() {
                target.send(b"requests:1|c").await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        assert_eq!(peers, [addresses[2], addresses[3], addresses[3]]);
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
