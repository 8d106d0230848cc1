//! Calls of gRPC while a caller waits: any method of one server, messages as bytes.
//!
//! Unlike [`GrpcTarget`](crate::GrpcTarget), which delivers batches, a call is never tried again once the server may have seen it, and
//! fails at once while there is no connection.
//!
//! Every runtime has a connection of its own, and drives it: a call wakes no other thread.

mod link;

pub use link::http2_client;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, TE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, StatusCode, Version};
use tonic::{Code, Status};

use crate::RemoteError;
use crate::connector::Connector;
use crate::grpc::of_http;
use link::{Links, SetupFuture};
use mixer_net::tls::ClientTlsOptions;

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// The metadata of every call.
const METADATA: [(HeaderName, HeaderValue); 3] = [
    (TE, HeaderValue::from_static("trailers")),
    (CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
    (USER_AGENT, HeaderValue::from_static("grpc-rust-mixer")),
];
/// The longest timeout that can be sent: eight digits of hours.
const LONGEST: u128 = 99_999_999;

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct ChannelOptions {
    /// `HOST:PORT`, `:PORT` of this machine, or `unix:PATH`.
    pub address: String,
    /// TLS; `None` for plain text.
    pub tls: Option<ClientTlsOptions>,
    /// The limit of connecting, TLS included.
    pub connect_timeout: Duration,
    /// Most bytes of an answer.
    pub max_answer: usize,
}

impl ChannelOptions {
    /// The defaults for an address: plain text, 5 seconds to connect, answers of 4 MiB.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            tls: None,
            connect_timeout: Duration::from_secs(5),
            max_answer: 4 << 20,
        }
    }
}

/// A server that is called. A clone shares the connections, which are made when a call needs them.
#[derive(Debug, Clone)]
pub struct GrpcChannel {
    address: Arc<str>,
    place: Arc<Connector>,
    links: Arc<Links>,
    max_answer: usize,
}

/// What is sent.
struct Call {
    path: PathAndQuery,
    header: Option<(HeaderName, HeaderValue)>,
    deadline: Option<Duration>,
    /// With its prefix.
    message: Bytes,
}

impl Call {
    fn request(&self, place: &Connector) -> Result<Request<()>, Status> {
        let mut headers = HeaderMap::with_capacity(METADATA.len() + 2);
        headers.extend(METADATA);
        if let Some(deadline) = self.deadline {
            headers.insert("grpc-timeout", timeout(deadline));
        }
        if let Some((name, value)) = &self.header {
            headers.insert(name, value.clone());
        }
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = place.uri(self.path.clone())?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

impl GrpcChannel {
    /// Checks the address and loads the certificates; opens no connection.
    ///
    /// Errors: an invalid address, or a certificate that cannot be used.
    pub fn new(options: &ChannelOptions) -> Result<Self, RemoteError> {
        let place = Connector::new(&options.address, options.tls.as_ref(), options.connect_timeout)?;
        Ok(Self {
            address: options.address.as_str().into(),
            place: Arc::new(place),
            links: Arc::default(),
            max_answer: options.max_answer,
        })
    }

    /// The address, as configured.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Begins every connection of calls with `setup`: calls use it once that has succeeded, and fail with its error otherwise.
    #[must_use]
    pub fn with_setup<F>(self, setup: impl Fn(GrpcConnection) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (place, max_answer) = (Arc::clone(&self.place), self.max_answer);
        let setup = move |sender| {
            let connection = GrpcConnection { sender, place: Arc::clone(&place), max_answer };
            Box::pin(setup(connection)) as SetupFuture
        };
        Self { links: Arc::new(Links::with_setup(Arc::new(setup))), ..self }
    }

    /// A connection of its own, which calls of the channel do not use. It ends with its last clone.
    ///
    /// Errors: UNAVAILABLE without a connection.
    pub async fn connect(&self) -> Result<GrpcConnection, Status> {
        let sender = link::open(&self.place).await.map_err(Status::unavailable)?;
        Ok(GrpcConnection { sender, place: Arc::clone(&self.place), max_answer: self.max_answer })
    }

    /// Makes a connection for nothing else, and ends it. Errors: why there is none.
    pub async fn reach(&self) -> Result<(), String> {
        self.place.connect().await.map(drop)
    }

    /// Calls a method.
    ///
    /// Errors: the status of the server; UNAVAILABLE without a connection; DEADLINE_EXCEEDED; RESOURCE_EXHAUSTED for an answer that is too
    /// long.
    pub async fn call(
        &self,
        path: PathAndQuery,
        message: &[u8],
        header: Option<(HeaderName, HeaderValue)>,
        deadline: Option<Duration>,
    ) -> Result<Bytes, Status> {
        let call = Call { path, header, deadline, message: grpc_message(message)? };
        within(deadline, self.exchange(&call)).await
    }

    /// Sends a request and reads its answer; once more if the server says that it has not begun it.
    async fn exchange(&self, call: &Call) -> Result<Bytes, Status> {
        let sender = self.links.sender(&self.place).await?;
        let answered =
            match grpc_exchange(sender, call.request(&self.place)?, call.message.clone(), self.max_answer)
                .await
            {
                Err(error) if was_not_begun(&error) => {
                    let sender = self.links.sender(&self.place).await?;
                    grpc_exchange(sender, call.request(&self.place)?, call.message.clone(), self.max_answer)
                        .await
                }
                answered => answered,
            };
        answered.map_err(|error| status_of(&error))?
    }
}

/// One connection to a server. A clone is the same connection.
#[derive(Debug, Clone)]
pub struct GrpcConnection {
    sender: SendRequest<Bytes>,
    place: Arc<Connector>,
    max_answer: usize,
}

impl GrpcConnection {
    /// As [`GrpcChannel::call`], on this connection and no other.
    pub async fn call(
        &self,
        path: PathAndQuery,
        message: &[u8],
        header: Option<(HeaderName, HeaderValue)>,
        deadline: Option<Duration>,
    ) -> Result<Bytes, Status> {
        let call = Call { path, header, deadline, message: grpc_message(message)? };
        let request = call.request(&self.place)?;
        let answer = grpc_exchange(self.sender.clone(), request, call.message, self.max_answer);
        within(deadline, async { answer.await.map_err(|error| status_of(&error))? }).await
    }

    /// Whether it takes further calls.
    pub fn is_open(&self) -> bool {
        link::has_not_ended(&mut self.sender.clone())
    }
}

async fn within(
    deadline: Option<Duration>,
    answer: impl Future<Output = Result<Bytes, Status>>,
) -> Result<Bytes, Status> {
    match deadline {
        None => answer.await,
        Some(deadline) => tokio::time::timeout(deadline, answer)
            .await
            .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("no answer within {deadline:?}")))),
    }
}

/// Sends a request of one message on a connection, and reads its answer of one message of at most `max_answer` bytes. `message` has its prefix:
/// [`grpc_message`].
///
/// Errors: the connection or the stream failed; within, the status of the server.
pub async fn grpc_exchange(
    mut sender: SendRequest<Bytes>,
    request: Request<()>,
    message: Bytes,
    max_answer: usize,
) -> Result<Result<Bytes, Status>, h2::Error> {
    let (response, mut body) = sender.send_request(request, false)?;
    body.send_data(message, true)?;
    read_answer(response, max_answer).await
}

/// As [`grpc_exchange`], of a message that goes on with pieces: each is asked for when there is room for it.
pub async fn grpc_exchange_with(
    mut sender: SendRequest<Bytes>,
    request: Request<()>,
    message: Bytes,
    more: impl Iterator<Item = Bytes>,
    max_answer: usize,
) -> Result<Result<Bytes, Status>, h2::Error> {
    let mut more = more.peekable();
    let (response, mut body) = sender.send_request(request, false)?;
    let is_all = more.peek().is_none();
    body.send_data(message, is_all)?;
    if is_all {
        return read_answer(response, max_answer).await;
    }
    let mut sending = pin!(async move {
        while let Some(piece) = more.next() {
            send_piece(&mut body, piece, more.peek().is_none()).await?;
        }
        // The stream is reset when it is dropped: the answer has ended before.
        Ok::<_, h2::Error>(body)
    });
    let mut answer = pin!(read_answer(response, max_answer));
    let mut sent = None;
    poll_fn(|cx| {
        if sent.is_none()
            && let Poll::Ready(outcome) = sending.as_mut().poll(cx)
        {
            // Why it failed, the answer tells.
            sent = Some(outcome.ok());
        }
        answer.as_mut().poll(cx)
    })
    .await
}

/// Sends a piece, as fast as the server takes it.
async fn send_piece(body: &mut SendStream<Bytes>, mut piece: Bytes, is_last: bool) -> Result<(), h2::Error> {
    while !piece.is_empty() {
        body.reserve_capacity(piece.len());
        let room = match poll_fn(|cx| body.poll_capacity(cx)).await {
            Some(room) => room?,
            // No more can be sent: the stream was reset.
            None => return Err(h2::Reason::CANCEL.into()),
        };
        let part = piece.split_to(room.min(piece.len()));
        if !part.is_empty() {
            body.send_data(part, is_last && piece.is_empty())?;
        }
    }
    Ok(())
}

async fn read_answer(
    response: ResponseFuture,
    max_answer: usize,
) -> Result<Result<Bytes, Status>, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    if let Some(status) = status_in(&head.headers) {
        // Without a message.
        return Ok(Err(failure(status)));
    }
    if let Some(status) = not_grpc(head.status, &head.headers) {
        return Ok(Err(status));
    }
    let mut answer = Received::default();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        answer.add(chunk);
        if let Some(status) = too_long(answer.so_far(), max_answer) {
            return Ok(Err(status));
        }
    }
    let answer = answer.into_bytes();
    let trailers = body.trailers().await?.unwrap_or_default();
    Ok(match status_in(&trailers) {
        Some(status) if status.code() == Code::Ok => message_of(&answer),
        Some(status) => Err(status),
        None => Err(Status::internal("server closed the stream without sending trailers")),
    })
}

/// The status in heads or trailers; INTERNAL for several, of which nobody can tell which one is meant.
fn status_in(fields: &HeaderMap) -> Option<Status> {
    match fields.get_all("grpc-status").iter().nth(1) {
        Some(_) => Some(Status::internal("the answer has more than one grpc-status")),
        None => Status::from_header_map(fields),
    }
}

/// A message with its prefix, not compressed.
///
/// Errors: RESOURCE_EXHAUSTED for one of 4 GiB.
pub fn grpc_message(message: &[u8]) -> Result<Bytes, Status> {
    let length = u32::try_from(message.len())
        .map_err(|_| Status::resource_exhausted("the request has more than 4 GiB"))?;
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(length);
    framed.put_slice(message);
    Ok(framed.freeze())
}

/// The body of an answer, which usually comes in one piece.
#[derive(Debug, Default)]
struct Received {
    first: Bytes,
    /// Everything, once there is a second piece.
    all: Vec<u8>,
}

impl Received {
    fn add(&mut self, piece: Bytes) {
        match (self.first.is_empty(), self.all.is_empty()) {
            (true, true) => self.first = piece,
            (false, true) => self.all = [std::mem::take(&mut self.first), piece].concat(),
            (_, false) => self.all.extend_from_slice(&piece),
        }
    }

    fn so_far(&self) -> &[u8] {
        if self.all.is_empty() { &self.first } else { &self.all }
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}

/// The status of an answer that is one but has no message.
fn failure(status: Status) -> Status {
    match status.code() {
        Code::Ok => Status::internal("the server sent no message"),
        _ => status,
    }
}

/// The status of an answer that is none of gRPC.
fn not_grpc(status: StatusCode, headers: &HeaderMap) -> Option<Status> {
    if status != StatusCode::OK {
        let code = match status {
            // A limit that whoever asks can bring about is no want of a server.
            StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
            other => of_http(other),
        };
        let text = format!("unexpected HTTP status code received from server: {status}");
        return Some(Status::new(code, text));
    }
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_grpc = kind.starts_with(b"application/grpc");
    (!is_grpc).then(|| {
        let kind = crate::answer::foreign(&String::from_utf8_lossy(kind));
        Status::unknown(format!("unexpected content-type {kind:?}"))
    })
}

/// The status of an answer of which enough is there to see that it is too long.
fn too_long(answer: &[u8], most: usize) -> Option<Status> {
    let announced = answer.get(1..PREFIX).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    let announced = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let length = announced.max(answer.len().saturating_sub(PREFIX));
    (length > most).then(|| {
        Status::resource_exhausted(format!("grpc: received message larger than max ({length} vs. {most})"))
    })
}

/// The only message of an answer.
fn message_of(answer: &Bytes) -> Result<Bytes, Status> {
    let (compressed, length) = match answer.first_chunk::<PREFIX>() {
        None => return Err(Status::internal("the server sent no message")),
        Some([compressed, length @ ..]) => (*compressed, u32::from_be_bytes(*length)),
    };
    if compressed != 0 {
        return Err(Status::internal("grpc: compressed flag set with identity or empty encoding"));
    }
    let message = answer.slice(PREFIX..);
    match usize::try_from(length) {
        Ok(length) if length == message.len() => Ok(message),
        Ok(length) if length < message.len() => {
            Err(Status::internal("the server sent more than one message"))
        }
        _ => Err(Status::internal("unexpected EOF")),
    }
}

/// Whether the server says that nothing of a call has begun: the stream was refused, or is above those of a graceful GOAWAY.
pub fn was_not_begun(error: &h2::Error) -> bool {
    let is_graceful = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (is_graceful || is_refused)
}

/// <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#errors>
fn status_of(error: &h2::Error) -> Status {
    let text = error.to_string();
    if error.is_io() || error.is_go_away() {
        return Status::unavailable(text);
    }
    match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => Status::unavailable(text),
        Some(h2::Reason::CANCEL) => Status::cancelled(text),
        Some(h2::Reason::ENHANCE_YOUR_CALM) => Status::resource_exhausted(text),
        Some(h2::Reason::INADEQUATE_SECURITY) => Status::permission_denied(text),
        _ => Status::internal(text),
    }
}

/// A timeout as gRPC writes it: at most eight digits and a unit.
fn timeout(timeout: Duration) -> HeaderValue {
    let nanos = timeout.as_nanos();
    let units = [("n", 1), ("u", 1_000), ("m", 1_000_000), ("S", 1_000_000_000), ("H", 3_600_000_000_000)];
    let fitting = units.into_iter().find(|(_, unit)| nanos / unit <= LONGEST);
    let (unit, count) = fitting.map_or(("H", LONGEST), |(unit, size)| (unit, nanos / size));
    HeaderValue::try_from(format!("{count}{unit}")).unwrap_or(HeaderValue::from_static("99999999H"))
}

/// The text of a failed call, as Go's library prints it: `rpc error: code = Unknown desc = no`.
pub fn grpc_error_text(status: &Status) -> String {
    let code = match status.code() {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        // The other names are equal to Go's.
        other => format!("{other:?}"),
    };
    let mut text = format!("rpc error: code = {code} desc = {}", status.message());
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
