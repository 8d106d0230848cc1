//! Plain HTTP/1.1 requests to loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::DEADLINE;

/// An HTTP response.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpAnswer {
    /// Status code.
    pub(crate) status: u16,
    /// Header names in lower case, in order.
    pub(crate) headers: Vec<(String, String)>,
    /// Body.
    pub(crate) body: String,
}

/// Sends one HTTP request; redirects are not followed.
pub(crate) fn http(method: &str, url: &str, body: &str) -> Result<HttpAnswer, String> {
    http_with(method, url, &[], body)
}

/// As [`http`], with request headers.
pub(crate) fn http_with(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<HttpAnswer, String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| format!("not a plain HTTP URL: {url}"))?;
    let (host, path) =
        rest.split_once('/').map_or((rest, "/".to_owned()), |(host, path)| (host, format!("/{path}")));
    let text = |error: std::io::Error| format!("{url}: {error}");
    let mut stream = TcpStream::connect(host).map_err(text)?;
    stream.set_read_timeout(Some(DEADLINE)).map_err(text)?;
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(text)?;
    parse_http(&bytes).ok_or_else(|| format!("{url}: not an HTTP answer"))
}

fn parse_http(bytes: &[u8]) -> Option<HttpAnswer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = bytes.get(end + 4..)?;
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { dechunk(rest)? } else { rest.to_vec() };
    Some(HttpAnswer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

fn dechunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(end + 2..end + 2 + size)?);
        bytes = bytes.get(end + 2 + size + 2..)?;
    }
}
