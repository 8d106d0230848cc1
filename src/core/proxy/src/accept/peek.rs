//! Looking at the first bytes of a connection without taking them.

use std::future::poll_fn;

use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that are looked at first, and the most.
const FIRST: usize = 1 << 10;
pub(super) const MOST: usize = 64 << 10;

/// The first bytes of a connection.
#[derive(Debug)]
pub(super) struct Peeked {
    buffer: Vec<u8>,
    length: usize,
}

impl Peeked {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; FIRST], length: 0 }
    }

    /// What was seen so far.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }

    /// Whether more cannot be looked at.
    pub(super) fn is_full(&self) -> bool {
        self.length >= MOST
    }

    /// Waits for more bytes. Returns false at the end of the connection, or if there are as many as can be looked at.
    ///
    /// Errors: those of the socket.
    pub(super) async fn more(&mut self, stream: &TcpStream) -> std::io::Result<bool> {
        loop {
            if self.length == self.buffer.len() {
                if self.is_full() {
                    return Ok(false);
                }
                self.buffer.resize((self.length * 2).min(MOST), 0);
            }
            let ready = stream.ready(Interest::READABLE).await?;
            let buffer = &mut self.buffer;
            let count = poll_fn(|cx| stream.poll_peek(cx, &mut ReadBuf::new(buffer))).await?;
            if count > self.length {
                self.length = count;
                return Ok(true);
            }
            if count == 0 || ready.is_read_closed() {
                return Ok(false);
            }
            // Nothing new. The socket tells of its next bytes once this event is forgotten, which bytes of before cannot cause.
            let forget = || Err::<(), _>(std::io::ErrorKind::WouldBlock.into());
            let _ = stream.try_io(Interest::READABLE, forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn bytes_are_seen_as_they_come_and_stay() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut peeked = Peeked::new();
        client.write_all(b"ab").await.unwrap();
        assert!(peeked.more(&server).await.unwrap());
        assert_eq!(peeked.bytes(), b"ab");
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(50), peeked.more(&server)).await;
        assert!(waiting.is_err(), "nothing new");
        client.write_all(b"c").await.unwrap();
        assert!(peeked.more(&server).await.unwrap());
        assert_eq!(peeked.bytes(), b"abc");
        client.write_all(&[b'd'; 3000]).await.unwrap();
        while peeked.bytes().len() < 3003 {
            assert!(peeked.more(&server).await.unwrap());
        }
        client.shutdown().await.unwrap();
        assert!(!peeked.more(&server).await.unwrap(), "the end");
        let mut first = [0; 3];
        assert_eq!(server.try_read(&mut first).unwrap(), 3);
        assert_eq!(&first, b"abc", "nothing was taken");
    }
}
