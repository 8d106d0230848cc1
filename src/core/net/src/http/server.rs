//! An HTTP/1 server with bounds: connections, time for a request to arrive, time for a client to read.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::connections::{BODY_MOMENT, Connections, Place};
use super::heads::HeadMeter;
use super::timeouts::{RequestBody, ResponseBody, WriteTimeout};
use crate::descriptors;
use crate::tls::{ServerTls, sessions};
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
    /// Open connections. At the bound, a connection whose request is not complete gives way to a new one.
    pub max_connections: usize,
    /// Bytes of heads that have not arrived completely, of all connections. Beyond it, the connection with the longest one is closed.
    pub max_head_bytes: usize,
    /// Time for the head of a request to arrive, which is also the longest time between requests.
    pub head_timeout: Duration,
    /// Time for the body of a request to arrive.
    pub body_timeout: Duration,
    /// Fewest bytes of a body that arrive in a second, on average after two; 0: any.
    pub min_body_rate: u64,
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
            min_body_rate: 4 << 10,
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

impl<S> Connection<S> {
    /// The address of the client.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }
}

impl Connection {
    /// Performs the TLS handshake, with the certificates of this moment. `None` if it fails, takes too long, or the connection has to give
    /// way meanwhile.
    pub async fn secured(self, tls: &ServerTls) -> Option<Connection<TlsStream<TcpStream>>> {
        let Self { socket, peer, place, limits, stop } = self;
        // A handshake that does not end keeps nobody out.
        place.securing();
        let handshake = sessions::handshake(TlsAcceptor::from(tls.config()).accept(socket));
        let slot = place.slot();
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => shaken,
            () = slot.closed() => return None,
            () = stop.cancelled() => return None,
        };
        match shaken {
            Ok(Ok(socket)) => {
                place.securing();
                Some(Connection { socket, peer, place, limits, stop })
            }
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
            let is_ambiguous = request.headers().get_all(header::HOST).iter().count() > 1;
            let (limit, rate) = (limits.body_timeout, limits.min_body_rate);
            let request = request.map(|body| RequestBody::new(body, place.slot(), limit, rate));
            let answered = answer(request, peer);
            async move {
                if is_ambiguous {
                    let response = unusable();
                    return Ok::<_, Infallible>(
                        response.map(|body| ResponseBody { body, _request: in_request }),
                    );
                }
                let mut answered = std::pin::pin!(answered);
                let answered = std::future::poll_fn(|cx| task::poll_contained(answered.as_mut(), cx)).await;
                let response = answered.unwrap_or_else(|panic| {
                    task::calls().count_panic(&panic);
                    failed()
                });
                Ok(response.map(|body| ResponseBody { body, _request: in_request }))
            }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(MAX_HEAD);
        let socket = HeadMeter::new(WriteTimeout::new(socket, limits.write_timeout), &place);
        let socket = TokioIo::new(socket);
        let mut connection = std::pin::pin!(builder.serve_connection(socket, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = slot.closed() => {
                // A request whose body is on its way is answered: its body fails now.
                if !slot.has_request() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                let Ok(ended) = tokio::time::timeout(BODY_MOMENT, connection).await else { return };
                ended
            }
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            match error.is_parse_version_h2() {
                true => mixer_base::warn_limited!(
                    10,
                    caller = %peer,
                    "a connection was refused: the client speaks HTTP/2, and this port HTTP/1.1: checks over HTTP (--envoy-http-address) need a \
                     cluster without http2_protocol_options, and gRPC has an address of its own, --address"
                ),
                false => tracing::debug!(%error, "connection ended"),
            }
        }
    }
}

fn failed<B: From<&'static str>>() -> Response<B> {
    let mut response = Response::new(B::from("internal error; the log of the server has the cause\n"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// The answer to a request with several `Host` headers, of which a proxy may have looked at another one. Spec: RFC 9112 section 3.2.
fn unusable<B: From<&'static str>>() -> Response<B> {
    let mut response = Response::new(B::from("the request has several Host headers\n"));
    *response.status_mut() = StatusCode::BAD_REQUEST;
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

    /// An endpoint that reads bodies, with these limits, until the token is dropped.
    async fn reading(limits: HttpLimits) -> (SocketAddr, tokio_util::sync::DropGuard) {
        use http_body_util::BodyExt as _;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let until = stop.clone();
        tokio::spawn(async move {
            let answer = |request: Request<HttpBody>, _| async move {
                match request.into_body().collect().await {
                    Ok(body) => Response::new(Full::from(format!("{} bytes", body.to_bytes().len()))),
                    Err(error) => Response::new(Full::from(error.to_string())),
                }
            };
            let begin = |connection: Connection| drop(tokio::spawn(connection.serve(answer)));
            accept(&listener, limits, until, begin).await;
        });
        (address, stop.drop_guard())
    }

    #[tokio::test]
    async fn a_request_with_several_hosts_is_refused() {
        let (address, _stop) = reading(HttpLimits::for_operators(4)).await;
        let one = exchange(address, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(one.starts_with("HTTP/1.1 200 "), "{one}");
        for second in ["Host: b", "host: a"] {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{second}\r\nConnection: close\r\n\r\n");
            let two = exchange(address, text.leak()).await;
            assert!(two.starts_with("HTTP/1.1 400 "), "{two}");
            assert!(two.ends_with("the request has several Host headers\n"), "{two}");
        }
    }

    #[tokio::test]
    async fn slow_bodies_keep_no_request_out() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (address, _stop) = reading(HttpLimits::for_operators(3)).await;
        let mut slow = Vec::new();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\nx").await.unwrap();
            slow.push(stream);
        }
        let start = std::time::Instant::now();
        let request = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
        let answer = exchange(address, request).await;
        assert!(answer.ends_with("3 bytes"), "{answer}");
        assert!(start.elapsed() < Duration::from_secs(8), "before the time of the slow ones has passed");
        // Those that nobody needs the place of fail as well, long before the deadline.
        let mut last = slow.pop().unwrap();
        let mut text = String::new();
        last.read_to_string(&mut text).await.ok();
        assert!(text.contains("the body arrives too slowly") || text.is_empty(), "{text}");
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
