//! The host behind all proxies: answers each head with a small body.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Outcome;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: 64\r\n\r\n\
{\"items\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],\"next\":\"/p=3\"}";
const BODY_END: &[u8] = b"\"/p=3\"}";

/// Whether a client has received all of an answer.
pub(crate) fn is_answer(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.1 200") && bytes.ends_with(BODY_END)
}

/// Whether a body is that of an answer.
pub(crate) fn is_body(bytes: &[u8]) -> bool {
    bytes.len() == 64 && bytes.ends_with(BODY_END)
}

/// Serves until it is killed.
pub(crate) fn run(listen: SocketAddr) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                // The proxy ends the connection.
                let _ = answer(stream).await;
            });
        }
    })
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    loop {
        while !buffer.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        buffer.clear();
        stream.write_all(ANSWER).await?;
    }
}
