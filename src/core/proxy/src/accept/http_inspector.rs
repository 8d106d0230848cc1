//! Looks for a request of HTTP: its version.

use tokio::net::TcpStream;

use super::Refused;
use super::peek::Peeked;
use crate::connection_info::ConnectionInfo;
use crate::head::is_token_byte;
use crate::stats::{Block, HttpInspectorStat};

/// What HTTP/2 begins with.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the first bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Incomplete,
    Nothing,
    Http10,
    Http11,
    Http2,
}

/// Looks at the first bytes, unless the connection is TLS.
///
/// Errors: the end of the connection.
pub(super) async fn look(
    stream: &TcpStream,
    info: &mut ConnectionInfo,
    stats: &Block<HttpInspectorStat>,
) -> Result<(), Refused> {
    if info.transport == super::tls_inspector::TLS {
        return Ok(());
    }
    let mut peeked = Peeked::new();
    let (stat, protocol) = loop {
        if !peeked.more(stream).await.inspect_err(|_| stats.increment(HttpInspectorStat::ReadError))? {
            if peeked.is_full() {
                break (HttpInspectorStat::HttpNotFound, None);
            }
            return Err(Refused::Gone);
        }
        match found(peeked.bytes()) {
            Found::Incomplete => {}
            Found::Nothing => break (HttpInspectorStat::HttpNotFound, None),
            Found::Http10 => break (HttpInspectorStat::Http10Found, Some("http/1.0")),
            Found::Http11 => break (HttpInspectorStat::Http11Found, Some("http/1.1")),
            Found::Http2 => break (HttpInspectorStat::Http2Found, Some("h2c")),
        }
    };
    stats.increment(stat);
    info.protocols = protocol.map(str::to_owned).into_iter().collect();
    Ok(())
}

fn found(bytes: &[u8]) -> Found {
    if bytes.starts_with(PREFACE) {
        return Found::Http2;
    }
    if PREFACE.starts_with(bytes) {
        return Found::Incomplete;
    }
    let end = memchr::memchr(b'\n', bytes);
    let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    let method = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    if method.is_empty() || !method.iter().copied().all(is_token_byte) {
        return Found::Nothing;
    }
    if end.is_none() {
        return Found::Incomplete;
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.rsplit(|byte| *byte == b' ').next() {
        Some(b"HTTP/1.1") => Found::Http11,
        Some(b"HTTP/1.0") => Found::Http10,
        _ => Found::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found() {
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\nHost"[..], Found::Http11),
            (b"GET / HTTP/1.0\r\n", Found::Http10),
            (b"GET / HTTP/1.1", Found::Incomplete),
            (b"GE", Found::Incomplete),
            (b"P", Found::Incomplete),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n", Found::Incomplete),
            (PREFACE, Found::Http2),
            (b"PRI * HTTP/2.0\r\nx", Found::Nothing),
            (b"\x16\x03\x01", Found::Nothing),
            (b"hello\n", Found::Nothing),
            (b"\r\n", Found::Nothing),
        ] {
            assert_eq!(found(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
