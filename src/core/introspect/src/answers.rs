//! How requests are answered: off the thread that serves every endpoint, few at a time, and with bounded memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body::Body as _;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::runtime::Handle;

use super::{MAX_BODY, Server, Shared, explain, json_text};
use mixer_engine::runtime::Published;
use mixer_net::http::{LargeAnswers, LongText, Places, Rendering};

/// Requests that are answered at a time, each on a thread. Others wait.
const MAX_RENDERINGS: usize = 2;

/// The requests that are being answered, and the large texts of the published snapshot.
#[derive(Debug)]
pub(super) struct Answers {
    renderings: Places,
    /// Explanations have places of their own: they wait for handlers.
    explanations: Places,
    of_snapshot: Mutex<BTreeMap<&'static str, SnapshotText>>,
}

/// A text, and the snapshot that it shows.
type SnapshotText = (Weak<Published>, Weak<Rendering>);

impl Default for Answers {
    fn default() -> Self {
        Self {
            renderings: Places::new(MAX_RENDERINGS),
            // More than are evaluated: the others are told so meanwhile.
            explanations: Places::new(2 * explain::MAX_CONCURRENT),
            of_snapshot: Mutex::default(),
        }
    }
}

/// Answers on a thread of its own, because rendering a large page would keep the readiness probe waiting; large answers are streamed.
pub(super) async fn bounded(State(server): State<Shared>, request: Request, next: Next) -> Response {
    let accepted: HeaderMap = request
        .headers()
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .map(|v| (header::ACCEPT_ENCODING, v.clone()))
        .collect();
    let (head, body) = request.into_parts();
    // First, so that a body that arrives slowly holds no thread.
    let body = match axum::body::to_bytes(body, MAX_BODY).await {
        Ok(body) => body,
        Err(error) => {
            let is_long =
                std::error::Error::source(&error).is_some_and(|e| e.is::<http_body_util::LengthLimitError>());
            let status = if is_long { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST };
            return (status, error.to_string()).into_response();
        }
    };
    let is_explanation = head.uri.path() == "/explainz/";
    let request = Request::from_parts(head, Body::from(body));
    let shared = Arc::clone(&server);
    let places = if is_explanation { &server.answers.explanations } else { &server.answers.renderings };
    let runtime = Handle::current();
    match places.run(move || runtime.block_on(next.run(request))).await {
        Ok(response) => streamed_if_large(&shared, &accepted, response).await,
        Err(error) => match error.try_into_panic() {
            // Counted and answered by the endpoint.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        },
    }
}

async fn streamed_if_large(server: &Server, request: &HeaderMap, mut response: Response) -> Response {
    if let Some(text) = response.extensions_mut().remove::<Arc<Rendering>>() {
        return server.large_answers.answer(request, response, text);
    }
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    if bytes.is_some_and(|bytes| !LargeAnswers::is_large(bytes)) {
        return response;
    }
    let (head, body) = response.into_parts();
    // Every answer is made in memory.
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(text) => {
            server.large_answers.answer_with(request, Response::from_parts(head, Body::empty()), text)
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A JSON answer that depends on the published snapshot only. Answers that are being sent share its text.
pub(super) fn of_snapshot<T: Serialize>(
    server: &Server,
    name: &'static str,
    value: impl FnOnce(&Published) -> T,
) -> Response {
    let published = server.runtime.load_full();
    let mut texts = server.answers.of_snapshot.lock();
    let newest = texts.get(name).filter(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(&published)));
    if let Some(text) = newest.and_then(|(_, text)| text.upgrade()) {
        return with_rendering(text);
    }
    let mut text = LongText::default();
    if let Err(error) = serde_json::to_writer_pretty(&mut text, &value(&published)) {
        return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    }
    if !LargeAnswers::is_large(text.len()) {
        return json_text(text.into_bytes());
    }
    match server.large_answers.keep(text) {
        Ok(text) => {
            texts.insert(name, (Arc::downgrade(&published), Arc::downgrade(&text)));
            with_rendering(text)
        }
        Err(busy) => busy.answer(),
    }
}

fn with_rendering(text: Arc<Rendering>) -> Response {
    let mut response = json_text(Bytes::new());
    response.extensions_mut().insert(text);
    response
}
