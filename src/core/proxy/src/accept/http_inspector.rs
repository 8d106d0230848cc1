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
    let mut rest = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    let method = word(&mut rest);
    if method.is_empty() || !method.iter().copied().all(is_token_byte) {
        return Found::Nothing;
    }
    if end.is_none() {
        return Found::Incomplete;
    }
    let target = word(&mut rest);
    if !is_target(target, method == b"CONNECT") {
        return Found::Nothing;
    }
    // Without a version it is HTTP/0.9. Envoy takes all others for HTTP/1.0.
    match word(&mut rest) {
        _ if !rest.is_empty() => Found::Nothing,
        b"HTTP/1.1" => Found::Http11,
        b"" => Found::Http10,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Found::Http10,
        _ => Found::Nothing,
    }
}

/// Takes what comes before blanks, and those. To Envoy's parser blanks are spaces and control characters.
fn word<'l>(line: &mut &'l [u8]) -> &'l [u8] {
    let length = line.iter().position(|byte| *byte <= b' ').unwrap_or(line.len());
    let (word, rest) = line.split_at_checked(length).unwrap_or_default();
    let blanks = rest.iter().take_while(|byte| **byte <= b' ').count();
    *line = rest.get(blanks..).unwrap_or_default();
    word
}

/// Whether this is a request target to Envoy's parser: a path, `*`, or a URL; for CONNECT a host.
fn is_target(target: &[u8], is_connect: bool) -> bool {
    let is_visible = |text: &[u8]| text.iter().all(u8::is_ascii_graphic);
    if let [b'/' | b'*', path @ ..] = target {
        return is_visible(path);
    }
    let rest = match is_connect {
        true => target,
        false => {
            let scheme =
                target.iter().take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b)).count();
            let starts = target.first().is_some_and(u8::is_ascii_alphabetic);
            match target.get(scheme..).and_then(|rest| rest.strip_prefix(b"://")) {
                Some(rest) if starts => rest,
                _ => return false,
            }
        }
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end).unwrap_or_default();
    let is_host = host.iter().all(|b| b.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=@[]_~".contains(b));
    !target.is_empty() && is_host && memchr::memmem::find(host, b"@@").is_none() && is_visible(path)
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
            // As Envoy, which takes these for HTTP as well: it reads the line as HTTP/0.9 to 9.9.
            (b"PRI * HTTP/2.0\r\nx", Found::Http10),
            (b"GET / HTTP/1.1 \r\n", Found::Http11),
            (b"GET / HTTP/1.1\t \x0b\r\n", Found::Http11),
            (b"GET /\tHTTP/1.1\r\n", Found::Http11),
            (b"GET\t /  HTTP/1.1\n", Found::Http11),
            (b"GET / HTTP/1.1\r\r\n", Found::Http11),
            (b"GET /\x00 HTTP/1.1\r\n", Found::Http11),
            (b"1_T http://a@b:1/c?d HTTP/1.1\r\n", Found::Http11),
            (b"CONNECT a:1 HTTP/1.1\r\n", Found::Http11),
            (b"OPTIONS * HTTP/1.0 \r\n", Found::Http10),
            (b"GET / HTTP/1.2\r\n", Found::Http10),
            (b"GET / HTTP/0.9\r\n", Found::Http10),
            (b"GET /\r\n", Found::Http10),
            (b"get /\n", Found::Http10),
            (b"GET / HTTP/1.1\r", Found::Incomplete),
            (b"GET / http/1.1\r\n", Found::Nothing),
            (b"GET / HTTP/1.10\r\n", Found::Nothing),
            (b"GET / HTTP/1.\r\n", Found::Nothing),
            (b"GET / HTTP/a.b\r\n", Found::Nothing),
            (b"GET / FOO/1.1\r\n", Found::Nothing),
            (b"GET / a HTTP/1.1\r\n", Found::Nothing),
            (b"GET / HTTP/1.1 x\r\n", Found::Nothing),
            (b"GET / HTTP/1.1\rfoo\n", Found::Nothing),
            (b"GET /a\x01b HTTP/1.1\r\n", Found::Nothing),
            (b"GET /a\x80b HTTP/1.1\r\n", Found::Nothing),
            (b"GET x HTTP/1.1\r\n", Found::Nothing),
            (b"GET HTTP/1.1\r\n", Found::Nothing),
            (b"GET\r\n", Found::Nothing),
            (b"GET \r\n", Found::Nothing),
            (b"G@T / HTTP/1.1\r\n", Found::Nothing),
            (b"G@T", Found::Nothing),
            (b"HTTP/1.1 200 OK\r\n", Found::Nothing),
            (b"hello world\r\n", Found::Nothing),
            (b"SSH-2.0-OpenSSH\r\n", Found::Nothing),
            (b" GET / HTTP/1.1\r\n", Found::Nothing),
            (b"\x16\x03\x01", Found::Nothing),
            (b"hello\n", Found::Nothing),
            (b"\r\n", Found::Nothing),
        ] {
            assert_eq!(found(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
