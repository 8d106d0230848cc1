//! The message of a unary call, and the messages of a client stream.

use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use http::{HeaderMap, Method, header};
use http_body::Body;
use http_body_util::BodyExt as _;

use super::framing::PREFIX;
use super::received::{Received, expected_length};
use super::{Code, GrpcError};
use mixer_http2::CountedBody;

/// Errors: UNIMPLEMENTED for another HTTP method than POST.
pub fn require_post(method: &Method) -> Result<(), GrpcError> {
    if *method == Method::POST {
        return Ok(());
    }
    Err(GrpcError::new(Code::Unimplemented, "gRPC calls are POST requests"))
}

/// Whether the content type of a request is that of gRPC: `application/grpc`, alone or followed by `+` or `;` and more.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.as_bytes().strip_prefix(b"application/grpc"))
        .is_some_and(|rest| matches!(rest, [] | [b'+' | b';', ..]))
}

/// Reads the message of a unary call. A message that arrives in one DATA frame is not copied.
///
/// Errors: RESOURCE_EXHAUSTED above `max_message` bytes; UNIMPLEMENTED for a compressed message; INTERNAL for a body that is not
/// one message; CANCELLED if the client resets the stream or disconnects.
async fn read_message<B>(body: &mut B, max_message: usize) -> Result<Bytes, GrpcError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut first: Option<Bytes> = None;
    let mut rest = Received::new();
    // END_STREAM often comes with the last DATA frame; polling again would cost a lookup.
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        let frame =
            frame.map_err(|e| GrpcError::invalid(Code::Cancelled, format!("the request broke off: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.is_empty() {
            continue;
        }
        if rest.bytes().is_empty() {
            match first.take() {
                None => {
                    check_prefix(&data, max_message)?;
                    first = Some(data);
                }
                Some(head) => {
                    rest = Received::of(&head, &data)?;
                    check_prefix(rest.bytes(), max_message)?;
                }
            }
        } else {
            rest.append(&data)?;
            check_prefix(rest.bytes(), max_message)?;
        }
    }
    let mut framed = first.unwrap_or_else(|| rest.into_bytes());
    if expected_length(&framed) != Some(framed.len()) {
        return Err(GrpcError::invalid(Code::Internal, "the request is not one whole gRPC message"));
    }
    framed.advance(PREFIX);
    Ok(framed)
}

/// As `read_message`, until `due`. Errors: also DEADLINE_EXCEEDED.
pub(crate) async fn read_message_by<B>(
    body: &mut B,
    max_message: usize,
    due: Instant,
) -> Result<Bytes, GrpcError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut reading = std::pin::pin!(read_message(body, max_message));
    // Most messages are complete; they need no timer.
    match futures_util::poll!(reading.as_mut()) {
        Poll::Ready(message) => message,
        Poll::Pending => match Box::pin(tokio::time::timeout_at(due.into(), reading)).await {
            Ok(message) => message,
            Err(_) => Err(incomplete_in_time()),
        },
    }
}

/// The messages of a client stream.
pub struct Messages<B> {
    body: B,
    /// Received bytes of the next messages.
    rest: Received,
    max_message: usize,
    receive_timeout: Duration,
    /// When the message that is being received must be complete.
    due: Option<Instant>,
    /// Bytes of earlier messages that the caller keeps.
    kept: usize,
}

impl<B> Messages<B>
where
    B: CountedBody + Unpin,
    B::Error: std::fmt::Display,
{
    /// The messages in `body`, each at most `max_message` bytes, and complete within `receive_timeout` of its first byte.
    pub fn new(body: B, max_message: usize, receive_timeout: Duration) -> Self {
        Self { body, rest: Received::new(), max_message, receive_timeout, due: None, kept: 0 }
    }

    /// States how many bytes of the messages so far the caller keeps until the stream ends; they count like those being received.
    pub fn set_kept(&mut self, bytes: usize) {
        self.kept = bytes;
    }

    /// The next message; `None` at the end of the stream. Cancel-safe.
    ///
    /// Errors: as `read_message`; DEADLINE_EXCEEDED for a message that takes too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, GrpcError> {
        // The previous message was used.
        self.body.keep(self.rest.bytes().len() + self.kept);
        loop {
            if self.rest.bytes().first().is_some_and(|flag| *flag != 0) {
                return Err(compressed());
            }
            if let Some(length) = expected_length(self.rest.bytes()) {
                if length - PREFIX > self.max_message {
                    return Err(too_large(length - PREFIX, self.max_message));
                }
                if self.rest.bytes().len() >= length {
                    let mut message = self.rest.take(length);
                    message.advance(PREFIX);
                    self.due = None;
                    return Ok(Some(message));
                }
            }
            let frame = match self.due_at() {
                // Between messages a stream may be idle.
                None => self.body.frame().await,
                Some(due) => match tokio::time::timeout_at(due.into(), self.body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => return Err(incomplete_in_time()),
                },
            };
            match frame {
                None if self.rest.bytes().is_empty() => return Ok(None),
                None => return Err(GrpcError::invalid(Code::Internal, "the call ends inside a message")),
                Some(Err(e)) => {
                    return Err(GrpcError::invalid(Code::Cancelled, format!("the request broke off: {e}")));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.append(&data)?;
                    }
                }
            }
        }
    }

    /// When the message that is being received must be complete; `None` between messages.
    fn due_at(&mut self) -> Option<Instant> {
        if self.rest.bytes().is_empty() {
            return None;
        }
        let timeout = self.receive_timeout;
        Some(*self.due.get_or_insert_with(|| Instant::now() + timeout))
    }
}

/// DEADLINE_EXCEEDED for a message that did not arrive in time.
fn incomplete_in_time() -> GrpcError {
    let text = "the message was not received in time (grpc-timeout, --receive-timeout)";
    GrpcError::invalid(Code::DeadlineExceeded, text)
}

fn compressed() -> GrpcError {
    GrpcError::invalid(Code::Unimplemented, "compressed messages are not accepted here; send identity")
}

fn too_large(length: usize, max_message: usize) -> GrpcError {
    let text = format!("grpc: received message larger than max ({length} vs. {max_message})");
    GrpcError::of_size(Code::ResourceExhausted, text)
}

fn check_prefix(framed: &[u8], max_message: usize) -> Result<(), GrpcError> {
    if framed.first().is_some_and(|flag| *flag != 0) {
        return Err(compressed());
    }
    match expected_length(framed) {
        Some(length) if length - PREFIX > max_message => Err(too_large(length - PREFIX, max_message)),
        Some(length) if framed.len() > length => {
            Err(GrpcError::invalid(Code::Internal, "more than one message in a unary call"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn content_types_of_grpc_are_recognized() {
        let recognized = |text: &'static str| {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(text))]);
            is_grpc(&headers)
        };
        for good in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
            assert!(recognized(good), "{good}");
        }
        for bad in
            ["", "application/json", "application/grpc-web", "application/grpcx", "text/application/grpc"]
        {
            assert!(!recognized(bad), "{bad}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }

    /// A body that yields frames and then waits for ever, or ends.
    struct Frames {
        frames: std::collections::VecDeque<Bytes>,
        ends: bool,
        kept: std::cell::Cell<usize>,
    }

    impl Frames {
        fn of(frames: &[&'static [u8]], ends: bool) -> Self {
            Self {
                frames: frames.iter().map(|frame| Bytes::from_static(frame)).collect(),
                ends,
                kept: usize::MAX.into(),
            }
        }
    }

    impl Body for Frames {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            match self.frames.pop_front() {
                Some(frame) => Poll::Ready(Some(Ok(http_body::Frame::data(frame)))),
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    impl CountedBody for Frames {
        fn keep(&self, bytes: usize) {
            self.kept.set(bytes);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_must_be_complete_in_time() {
        let begun = Instant::now();
        let due = begun + Duration::from_secs(3);
        let mut whole = Frames::of(&[&[0, 0, 0, 0, 2], &[7, 8]], true);
        assert_eq!(read_message_by(&mut whole, 100, due).await.unwrap(), [7, 8][..]);
        for frames in [&[][..], &[&[0, 0, 0, 0, 2, 7][..]]] {
            let mut body = Frames::of(frames, false);
            let error = read_message_by(&mut body, 100, due).await.unwrap_err();
            assert_eq!(error.code, Code::DeadlineExceeded, "{error}");
        }
        // On a stream, the time counts from the first byte of a message.
        let frames = Frames::of(&[&[0, 0, 0, 0, 1, 7], &[0, 0, 0, 0, 2, 8]], false);
        let mut messages = Messages::new(frames, 100, Duration::from_secs(3));
        assert_eq!(messages.next().await.unwrap().unwrap(), [7][..]);
        let error = messages.next().await.unwrap_err();
        assert_eq!((error.code, messages.body.kept.get()), (Code::DeadlineExceeded, 0));
        let mut idle = Messages::new(Frames::of(&[&[0, 0, 0, 0, 0]], false), 100, Duration::from_secs(3));
        assert!(idle.next().await.unwrap().is_some());
        assert!(tokio::time::timeout(Duration::from_secs(1000), idle.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_message_is_up_to_its_sender() {
        for (frames, ends, code) in [
            (&[&[1, 0, 0, 0, 1, 7][..]][..], true, Code::Unimplemented),
            (&[&[0, 0, 0, 0, 1, 7, 8][..]][..], true, Code::Internal),
            (&[&[0, 0, 0, 0, 2, 7][..]][..], true, Code::Internal),
            (&[&[0, 0, 0, 0, 101][..]][..], true, Code::ResourceExhausted),
            (&[&[0, 0, 0, 0, 2, 7][..]][..], false, Code::DeadlineExceeded),
        ] {
            let due = Instant::now() + Duration::from_secs(3);
            let mut body = Frames::of(frames, ends);
            let error = read_message_by(&mut body, 100, due).await.unwrap_err();
            assert_eq!((error.code, error.is_invalid), (code, true), "{error}");
        }
    }

    #[tokio::test]
    async fn a_stream_keeps_nothing_of_its_largest_message() {
        let large: &'static [u8] = Box::leak(vec![7; 1 << 20].into());
        let frames = Frames::of(&[&[0, 0, 0x10, 0, 0], large, &[0, 0, 0, 0, 1]], false);
        let mut messages = Messages::new(frames, 8 << 20, Duration::from_secs(3));
        assert_eq!(messages.next().await.unwrap().unwrap().len(), 1 << 20);
        messages.set_kept(300);
        let waiting = tokio::time::timeout(Duration::from_millis(1), messages.next()).await;
        assert!(waiting.is_err());
        assert!(messages.rest.capacity() <= 1024, "{} bytes", messages.rest.capacity());
        assert_eq!(messages.body.kept.get(), 300, "what the caller keeps counts");
    }

    #[tokio::test]
    async fn nothing_is_reserved_for_a_prefix() {
        let frames = Frames::of(&[&[0, 0, 0x7f, 0xff, 0xff], &[7; 100]], false);
        let mut messages = Messages::new(frames, 8 << 20, Duration::from_secs(3));
        let waiting = tokio::time::timeout(Duration::from_millis(1), messages.next()).await;
        assert!(waiting.is_err());
        assert!(messages.rest.capacity() < 1024, "{} bytes", messages.rest.capacity());
    }
}
