//! Large answers of an endpoint for operators, within bounds: their number, and the memory of their texts.
//!
//! The text of a large answer is a [`Rendering`], which all answers with the same text share. It is sent in chunks while the client reads.
//! A client that reads slowly therefore holds a part of a text and not a copy of it, and few of them hold a place.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{LongText, answer, streamed};
use mixer_base::budget::{Account, Charge, Share};

/// Longest text that is not large.
const SMALL: usize = 64 << 10;
/// Most large answers at a time.
pub const MAX_LARGE_ANSWERS: usize = 16;
/// Bytes of a large answer besides its text: chunks, what waits for the socket, and the state of the compression.
const ANSWER_BYTES: usize = 512 << 10;
/// Length of a chunk.
const CHUNK: usize = 16 << 10;

/// The large answers of an endpoint.
#[derive(Debug)]
pub struct LargeAnswers {
    account: Arc<Account>,
    places: Arc<Semaphore>,
    renderings: Arc<Mutex<usize>>,
}

/// The text of large answers; its memory is released with the last of them.
#[derive(Debug)]
pub struct Rendering {
    pieces: Vec<Bytes>,
    renderings: Arc<Mutex<usize>>,
    _memory: Charge,
}

impl Drop for Rendering {
    fn drop(&mut self) {
        *self.renderings.lock() -= 1;
    }
}

/// There is no room for one more large answer, or no memory for one more text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

impl Busy {
    /// The answer instead.
    pub fn answer(self) -> Response {
        let text = format!(
            "too many large answers: at most {MAX_LARGE_ANSWERS} at a time, within the memory limit\n"
        );
        let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", text);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }
}

impl LargeAnswers {
    /// Answers whose memory is counted in a share.
    pub fn new(share: &Arc<Share>) -> Self {
        Self {
            account: Arc::new(share.open()),
            places: Arc::new(Semaphore::new(MAX_LARGE_ANSWERS)),
            renderings: Arc::default(),
        }
    }

    /// Whether a text of so many bytes is large.
    pub fn is_large(bytes: usize) -> bool {
        bytes > SMALL
    }

    /// Keeps a text for as long as answers send it. The first one is kept whatever its length: it depends on the configuration and not on
    /// who asks. Errors: the share has no memory for one more.
    pub fn keep(&self, text: impl Into<LongText>) -> Result<Arc<Rendering>, Busy> {
        let text = text.into();
        let mut renderings = self.renderings.lock();
        let memory = match self.account.charge(text.len()) {
            Some(charge) => charge,
            None if *renderings == 0 => self.account.overdrawn(text.len()),
            None => return Err(Busy),
        };
        *renderings += 1;
        drop(renderings);
        let renderings = Arc::clone(&self.renderings);
        Ok(Arc::new(Rendering { pieces: text.into_pieces(), renderings, _memory: memory }))
    }

    /// Whether the share has memory for one more text of so many bytes.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.account.charge(bytes).is_some()
    }

    /// Whether [`Self::keep`] would keep a text of so many bytes.
    pub fn would_keep(&self, bytes: usize) -> bool {
        self.has_room(bytes) || *self.renderings.lock() == 0
    }

    /// Answers with a text: status and headers are those of `head`. `request`: the headers of the request.
    pub fn answer(&self, request: &HeaderMap, head: Response, text: Arc<Rendering>) -> Response {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return Busy.answer() };
        // Their number is bounded, so that the share can be exceeded by the bound at most.
        let memory = self.account.overdrawn(ANSWER_BYTES);
        let (mut index, mut at) = (0, 0);
        let chunks = std::iter::from_fn(move || {
            // Place and memory are returned with the iterator: after the last chunk, or when the client is gone.
            let _held = (&place, &memory);
            let piece = text.pieces.get(index)?;
            let end = piece.len().min(at + CHUNK);
            let chunk = piece.get(at..end)?.to_vec();
            (index, at) = if end == piece.len() { (index + 1, 0) } else { (index, end) };
            Some(chunk)
        });
        let (head, _) = head.into_parts();
        let mut response = streamed(request, "application/octet-stream", chunks);
        *response.status_mut() = head.status;
        response.headers_mut().extend(head.headers);
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response
    }

    /// Answers with a text in memory, which is sent at once if it is small.
    pub fn answer_with(&self, request: &HeaderMap, head: Response, text: Bytes) -> Response {
        if !Self::is_large(text.len()) {
            let (head, _) = head.into_parts();
            return (head.status, head.headers, text).into_response();
        }
        match self.keep(text) {
            Ok(text) => self.answer(request, head, text),
            Err(busy) => busy.answer(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn head() -> Response {
        answer(StatusCode::ACCEPTED, "text/x", "")
    }

    #[tokio::test]
    async fn an_answer_is_the_whole_text() {
        let share = Arc::new(Share::new(8 << 20));
        let answers = LargeAnswers::new(&share);
        for bytes in [0, 1, SMALL, SMALL + 1, 3 * CHUNK, 1_000_001] {
            let text: Bytes = (0..bytes).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let response = answers.answer_with(&HeaderMap::new(), head(), text.clone());
            assert_eq!(response.status(), StatusCode::ACCEPTED);
            assert_eq!(response.headers()[header::CONTENT_TYPE], "text/x");
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), text, "{bytes}");
        }
    }

    #[tokio::test]
    async fn unread_answers_share_a_text_and_are_bounded() {
        let share = Arc::new(Share::new(1 << 20));
        let answers = LargeAnswers::new(&share);
        let text = answers.keep(vec![b'x'; 4 << 20]).expect("the first is kept whatever its length");
        assert_eq!(answers.keep(vec![b'y'; 4 << 20]).err(), Some(Busy), "a second one is not");
        assert!(!answers.would_keep(4 << 20));
        assert!(share.used() >= 4 << 20);
        let open = || answers.answer(&HeaderMap::new(), head(), Arc::clone(&text));
        let unread: Vec<Response> = (0..MAX_LARGE_ANSWERS).map(|_| open()).collect();
        assert!(unread.iter().all(|response| response.status() == StatusCode::ACCEPTED));
        assert_eq!(share.used(), (4 << 20) + MAX_LARGE_ANSWERS * ANSWER_BYTES);
        let refused = open();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key(header::RETRY_AFTER));
        drop((unread, text));
        // The senders notice that their clients are gone.
        while share.used() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(answers.would_keep(4 << 20));
        assert!(answers.keep(vec![b'y'; 4 << 20]).is_ok());
    }
}
