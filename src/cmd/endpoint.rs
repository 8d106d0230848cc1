//! What answers at an address instead of what was expected, so that a failed command can say which port it was given.
//!
//! Nothing but the address is sent: no token, no attributes. Used after a failure only.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest time of one question.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes that are read of an answer.
const MAX_ANSWER: u64 = 64 << 10;

/// What answers at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// gRPC over plain text: the API, or MCP of galley.
    Grpc,
    /// ControlZ of a server, of galley, or of either: a token is needed to tell them apart.
    Controlz(Option<Program>),
    /// Metrics, and of a server also its health.
    Metrics,
    /// HTTP/1 that is nothing of this program.
    Http,
    /// TLS.
    Tls,
}

/// The programs that have ControlZ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// `mixer server`.
    Mixer,
    /// `mixer galley server`.
    Galley,
}

impl Program {
    /// The command that starts it.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Program::Mixer => "mixer server",
            Program::Galley => "mixer galley server",
        }
    }
}

impl Endpoint {
    /// For example `the ControlZ pages of galley`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Endpoint::Grpc => "a gRPC API",
            Endpoint::Controlz(None) => "ControlZ",
            Endpoint::Controlz(Some(Program::Mixer)) => "ControlZ of a mixer server",
            Endpoint::Controlz(Some(Program::Galley)) => "ControlZ of galley",
            Endpoint::Metrics => "metrics and health",
            Endpoint::Http => "another server of HTTP/1",
            Endpoint::Tls => "TLS",
        }
    }
}

/// What answers at `HOST:PORT`; `None` if nothing does, or nothing that is known.
pub(crate) async fn identify(address: &str) -> Option<Endpoint> {
    let home = ask(address, "/homej/").await?;
    let Some(home) = Answer::of(&home) else {
        // An alert of TLS, or the settings that a server of HTTP/2 sends first.
        return match home.as_slice() {
            [0x15, 0x03, ..] => Some(Endpoint::Tls),
            [0, _, _, 4, _, 0, 0, 0, 0, ..] => Some(Endpoint::Grpc),
            _ => None,
        };
    };
    if home.status == 401 && home.text.contains("a token is needed") {
        return Some(Endpoint::Controlz(None));
    }
    if home.status == 421 && home.text.contains("--ctrlz-allowed-hosts") {
        return Some(Endpoint::Controlz(None));
    }
    if home.status == 200 && home.text.contains("\"ProcessName\"") {
        let status = ask(address, "/statusj/").await.unwrap_or_default();
        let is_galley = Answer::of(&status).is_some_and(|status| status.text.contains("\"GalleyStatus\""));
        return Some(Endpoint::Controlz(Some(if is_galley { Program::Galley } else { Program::Mixer })));
    }
    let metrics = ask(address, "/metrics").await.unwrap_or_default();
    let has_metrics =
        Answer::of(&metrics).is_some_and(|page| page.status == 200 && page.text.contains("# TYPE "));
    Some(if has_metrics { Endpoint::Metrics } else { Endpoint::Http })
}

/// The beginning of an answer of HTTP/1.
struct Answer<'a> {
    status: u16,
    text: std::borrow::Cow<'a, str>,
}

impl<'a> Answer<'a> {
    /// `None` if it is not HTTP/1.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        if !bytes.starts_with(b"HTTP/1.") {
            return None;
        }
        let text = String::from_utf8_lossy(bytes);
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Some(Self { status, text })
    }
}

/// The beginning of what a server answers to a request of HTTP/1.0; `None` if it cannot be reached.
async fn ask(address: &str, path: &str) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    let exchange = async {
        // An empty host is localhost.
        let address =
            if address.starts_with(':') { format!("localhost{address}") } else { address.to_owned() };
        let mut stream = TcpStream::connect(&address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: */*\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        // A server that closes in the middle of the request has answered before.
        let _ = stream.take(MAX_ANSWER).read_to_end(&mut answer).await;
        Ok::<(), std::io::Error>(())
    };
    // A server of HTTP/2 may wait for more: what has arrived by then is its answer.
    let asked = tokio::time::timeout(TIMEOUT, exchange).await;
    match asked {
        Ok(Err(_)) => None,
        Ok(Ok(())) | Err(_) => (!answer.is_empty()).then_some(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every connection with the bytes of a path, by its first request line.
    async fn server(answer: fn(&str) -> Vec<u8>) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(request.get(..read).unwrap_or_default()).into_owned();
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                let _ = stream.write_all(&answer(&path)).await;
            }
        });
        address
    }

    fn http(status: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.0 {status}\r\n\r\n{body}").into_bytes()
    }

    #[tokio::test]
    async fn endpoints_are_told_apart() {
        type Answer = fn(&str) -> Vec<u8>;
        let cases: [(Answer, Option<Endpoint>); 8] = [
            (|_| vec![0x15, 3, 3, 0, 2, 2, 10], Some(Endpoint::Tls)),
            (|_| vec![0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100], Some(Endpoint::Grpc)),
            (|_| b"SSH-2.0-x\r\n".to_vec(), None),
            (|_| http("401 Unauthorized", "a token is needed: …"), Some(Endpoint::Controlz(None))),
            (|_| http("404 Not Found", ""), Some(Endpoint::Http)),
            (
                |path| match path {
                    "/metrics" => http("200 OK", "# TYPE a counter\n"),
                    _ => http("404 Not Found", ""),
                },
                Some(Endpoint::Metrics),
            ),
            (
                |path| match path {
                    "/homej/" => http("200 OK", "{\"ProcessName\": \"a\"}"),
                    "/statusj/" => http("200 OK", "{\"kind\": \"GalleyStatus\"}"),
                    _ => http("404 Not Found", ""),
                },
                Some(Endpoint::Controlz(Some(Program::Galley))),
            ),
            (
                |path| match path {
                    "/homej/" => http("200 OK", "{\"ProcessName\": \"a\"}"),
                    _ => http("404 Not Found", ""),
                },
                Some(Endpoint::Controlz(Some(Program::Mixer))),
            ),
        ];
        for (answer, expected) in cases {
            assert_eq!(identify(&server(answer).await).await, expected);
        }
        assert_eq!(identify("127.0.0.1:1").await, None);
    }
}
