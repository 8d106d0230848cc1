//! TCP connections to a host that may have several addresses.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep_until};

/// The longest lead of an address before the next one. RFC 8305, section 5.
const LONGEST_LEAD: Duration = Duration::from_millis(250);
/// The shortest one: a name with hundreds of addresses is no reason for as many connections at once.
const SHORTEST_LEAD: Duration = Duration::from_millis(10);

/// Connects to a host by its name or its address. Every address that the name has is tried, in the order of the resolver: the next one as soon
/// as one fails, and also while one does not answer, which goes on. The first connection is used; attempts that are left end.
///
/// `limit`: how long the caller waits at most. All addresses are tried within its first half as far as that leaves each of them 10 ms.
///
/// Errors: the name has no address, or why the first of its addresses cannot be connected to.
pub async fn dial(host: &str, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    dial_any(&addresses, limit).await
}

/// As [`dial`], to any of these addresses.
pub async fn dial_any(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let lead = (limit / 2 / count.max(1)).clamp(SHORTEST_LEAD, LONGEST_LEAD);
    let mut waiting = addresses.iter();
    let mut attempts: Vec<Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>> = Vec::new();
    let mut failed = None;
    loop {
        match waiting.next() {
            Some(address) => attempts.push(Box::pin(TcpStream::connect(*address))),
            None if attempts.is_empty() => {
                let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
                return Err(failed.unwrap_or_else(none));
            }
            None => {}
        }
        let is_last = waiting.len() == 0;
        let mut next_turn = std::pin::pin!(sleep_until(Instant::now() + lead));
        let ended = poll_fn(|cx| {
            for at in 0..attempts.len() {
                let Some(attempt) = attempts.get_mut(at) else { break };
                if let Poll::Ready(outcome) = attempt.as_mut().poll(cx) {
                    drop(attempts.swap_remove(at));
                    return Poll::Ready(Some(outcome));
                }
            }
            if is_last { Poll::Pending } else { next_turn.as_mut().poll(cx).map(|()| None) }
        });
        match ended.await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => drop(failed.get_or_insert(error)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::TcpListener;

    use tokio::net::TcpSocket;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_secs(10);

    /// An address whose connections are never completed: the queue of its listener is full.
    struct Silent {
        address: SocketAddr,
        _queued: Vec<TcpStream>,
        _listener: tokio::net::TcpListener,
    }

    impl Silent {
        async fn new() -> Self {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = socket.listen(0).unwrap();
            let address = listener.local_addr().unwrap();
            let mut queued = Vec::new();
            while let Ok(stream) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
                queued.push(stream.unwrap());
            }
            Self { address, _queued: queued, _listener: listener }
        }
    }

    fn refused() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn every_address_is_tried_in_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let silent = Silent::new().await;
        for (name, addresses) in [
            ("one", vec![good]),
            ("after one that refuses", vec![refused(), good]),
            ("after one that does not answer", vec![silent.address, good]),
            ("after several", vec![refused(), silent.address, silent.address, refused(), good]),
        ] {
            let begun = Instant::now();
            let stream = timeout(LIMIT, dial_any(&addresses, LIMIT)).await.expect(name).expect(name);
            assert_eq!(stream.peer_addr().unwrap(), good, "{name}");
            assert!(begun.elapsed() < LIMIT / 2, "{name}: {:?}", begun.elapsed());
        }
        // A short limit has the addresses tried sooner.
        let begun = Instant::now();
        dial_any(&[silent.address, silent.address, good], Duration::from_millis(120)).await.unwrap();
        assert!(begun.elapsed() < LONGEST_LEAD, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn the_error_is_that_of_the_first_address() {
        let (first, second) = (refused(), "[::ffff:0:0]:0".parse().unwrap());
        let error = dial_any(&[first, second], LIMIT).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = dial_any(&[], LIMIT).await.unwrap_err();
        assert_eq!(error.to_string(), "the name has no address");
    }

    #[tokio::test]
    async fn names_are_resolved() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = dial("localhost", address.port(), LIMIT).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        assert!(dial("127.0.0.1", address.port(), LIMIT).await.is_ok());
    }
}
