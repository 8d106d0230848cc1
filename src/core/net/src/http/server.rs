//! An HTTP/1 server with bounds: connections, time for a request to arrive, time for a client to read.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::connections::{Connections, Place};
use super::heads::HeadMeter;
use super::timeouts::{RequestBody, ResponseBody, WriteTimeout};
use crate::descriptors;
use crate::tls::ServerTls;
use mixer_base::task;

/// Longest head of a request: Envoy's default is 60 KiB.
const MAX_HEAD: usize = 64 << 10;

/// The first pause after an error of accept(2).
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Bounds of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// Open connections. At the bound, a connection without a request gives way to a new one.
    pub max_connections: usize,
    /// Bytes of heads that have not arrived completely, of all connections. Beyond it, the connection with the longest one is closed.
    pub max_head_bytes: usize,
    /// Time for the head of a request to arrive, which is also the longest time between requests.
    pub head_timeout: Duration,
    /// Time for the body of a request to arrive.
    pub body_timeout: Duration,
    /// How long a client may take nothing of a response.
    pub write_timeout: Duration,
}

impl HttpLimits {
    /// The bounds of an endpoint for operators.
    pub fn for_operators(max_connections: usize) -> Self {
        let timeout = Duration::from_secs(10);
        Self {
            max_connections,
            max_head_bytes: 1 << 20,
            head_timeout: timeout,
            body_timeout: timeout,
            write_timeout: timeout,
        }
    }
}

/// The body of a request.
pub type HttpBody = RequestBody<Incoming>;

/// A pause between attempts that fail.
#[derive(Debug)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Backoff {
    /// Waits, longer each time.
    pub async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// An accepted connection: of plain text, or of TLS after [`secured`](Self::secured).
#[derive(Debug)]
pub struct Connection<S = TcpStream> {
    socket: S,
    peer: SocketAddr,
    place: Place,
    limits: HttpLimits,
    stop: CancellationToken,
}

/// Accepts connections until `stop`; `begin` starts the task of each, which calls [`Connection::serve`].
pub async fn accept(
    listener: &TcpListener,
    limits: HttpLimits,
    stop: CancellationToken,
    mut begin: impl FnMut(Connection),
) {
    let connections = Connections::new(limits.max_connections, limits.max_head_bytes);
    let mut shortage = descriptors::shortage();
    let mut backoff = Backoff::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            // The API has no descriptor left. The sender is never dropped.
            _ = shortage.changed() => {
                connections.close_waiting();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                mixer_base::warn_limited!(1, %error, "a connection could not be accepted");
                connections.close_waiting();
                backoff.pause().await;
                continue;
            }
        };
        backoff = Backoff::default();
        let place = tokio::select! {
            () = stop.cancelled() => return,
            place = connections.enter() => place,
        };
        begin(Connection { socket, peer, place, limits, stop: stop.clone() });
        mixer_base::scheduling::let_others_run();
    }
}

impl Connection {
    /// Performs the TLS handshake, with the certificates of this moment. `None` if it fails, takes too long, or the connection has to give
    /// way meanwhile.
    pub async fn secured(self, tls: &ServerTls) -> Option<Connection<TlsStream<TcpStream>>> {
        let Self { socket, peer, place, limits, stop } = self;
        // A handshake that does not end keeps nobody out.
        place.read_all();
        let handshake = TlsAcceptor::from(tls.config()).accept(socket);
        let slot = place.slot();
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => shaken,
            () = slot.closed() => return None,
            () = stop.cancelled() => return None,
        };
        match shaken {
            Ok(Ok(socket)) => Some(Connection { socket, peer, place, limits, stop }),
            Ok(Err(error)) => {
                tracing::debug!(%peer, %error, "the TLS handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!(%peer, "the TLS handshake was not complete within {HANDSHAKE_TIMEOUT:?}");
                None
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Answers requests until the client closes the connection, exceeds a time limit or must give way, or until the endpoint stops.
    /// A panic of `answer` is answered with status 500.
    pub async fn serve<A, F, B>(self, answer: A)
    where
        A: Fn(Request<HttpBody>, SocketAddr) -> F,
        F: Future<Output = Response<B>>,
        B: Body<Data = Bytes> + From<&'static str> + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { socket, peer, place, limits, stop } = self;
        let slot = place.slot();
        let service = hyper::service::service_fn(|request: Request<Incoming>| {
            let in_request = place.request();
            let answered = answer(request.map(|body| RequestBody::new(body, limits.body_timeout)), peer);
            async move {
                let mut answered = std::pin::pin!(answered);
                let answered = std::future::poll_fn(|cx| task::poll_contained(answered.as_mut(), cx)).await;
                let response = answered.unwrap_or_else(|panic| {
                    task::calls().count_panic(&panic);
                    failed()
                });
                Ok::<_, Infallible>(response.map(|body| ResponseBody { body, _request: in_request }))
            }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(MAX_HEAD);
        let socket = HeadMeter::new(WriteTimeout::new(socket, limits.write_timeout), &place);
        let socket = TokioIo::new(socket);
        let mut connection = std::pin::pin!(builder.serve_connection(socket, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = slot.closed() => return,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }
}

fn failed<B: From<&'static str>>() -> Response<B> {
    let mut response = Response::new(B::from("internal error; the log of the server has the cause\n"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use http_body_util::Full;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Sends requests and reads until the server closes the connection.
    async fn exchange(address: SocketAddr, text: &'static str) -> String {
        let exchanged = tokio::task::spawn_blocking(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        exchanged.await.unwrap()
    }

    #[tokio::test]
    async fn a_panic_is_answered_with_500_and_the_connection_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, running) = (CancellationToken::new(), TaskTracker::new());
        let (until, tracked) = (stop.clone(), running.clone());
        let accepting = tokio::spawn(async move {
            let answer = |request: Request<HttpBody>, _| async move {
                assert_ne!(request.uri().path(), "/panic", "on purpose");
                Response::new(Full::from("well"))
            };
            let begin = |connection: Connection| drop(tracked.spawn(connection.serve(answer)));
            accept(&listener, HttpLimits::for_operators(4), until, begin).await;
        });
        let both =
            "GET /panic HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = exchange(address, both).await;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        assert!(answer.contains("HTTP/1.1 200 OK") && answer.ends_with("well"), "{answer}");
        stop.cancel();
        accepting.await.unwrap();
        running.close();
        running.wait().await;
    }
}
