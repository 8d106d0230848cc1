//! How requests are answered: off the thread that serves every endpoint, few at a time, and with bounded memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

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

use super::{Console, MAX_BODY, Shared, SharedConsole, explain, json_text};
use mixer_base::task::Group;
use mixer_engine::runtime::Published;
use mixer_net::http::{Busy, LargeAnswers, LongText, Places, Rendering};

/// Requests that are answered at a time, each on a thread. Others wait.
const MAX_RENDERINGS: usize = 2;

/// How long a large text of a snapshot is kept for the next one who asks: whoever asks all the time has it rendered once in this time.
const KEPT: Duration = Duration::from_secs(5);

/// The requests that are being answered, and the large texts of the published snapshot.
#[derive(Debug)]
pub(super) struct Answers {
    renderings: Places,
    /// Explanations have places of their own: they wait for handlers.
    explanations: Places,
    of_snapshot: Mutex<BTreeMap<&'static str, SnapshotText>>,
}

/// A text of a snapshot.
#[derive(Debug)]
struct SnapshotText {
    of: Weak<Published>,
    /// Whether the configuration was examined by then.
    is_examined: bool,
    /// What answers are sending, if it is large.
    sent: Weak<Rendering>,
    /// The text, for [`KEPT`].
    kept: Option<Text>,
    /// Its length in bytes, also if there was no room for it.
    length: usize,
}

#[derive(Debug, Clone)]
enum Text {
    Small(Bytes),
    Large(Arc<Rendering>),
}

impl Text {
    fn answer(self) -> Response {
        match self {
            Self::Small(text) => json_text(text),
            Self::Large(text) => {
                let mut response = json_text(Bytes::new());
                response.extensions_mut().insert(text);
                response
            }
        }
    }
}

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
pub(super) async fn bounded(State(server): State<SharedConsole>, request: Request, next: Next) -> Response {
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

async fn streamed_if_large(server: &Console, request: &HeaderMap, mut response: Response) -> Response {
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
            // Not waited for: it is held while a text is rendered, and this thread serves all operators' endpoints.
            if !server.large_answers.has_room(text.len())
                && let Some(mut texts) = server.answers.of_snapshot.try_lock()
            {
                make_room(&mut texts);
            }
            server.large_answers.answer_with(request, Response::from_parts(head, Body::empty()), text)
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Whether a text of so many bytes would be kept, if necessary after texts that nobody is sending were freed.
fn has_room(server: &Console, texts: &mut BTreeMap<&'static str, SnapshotText>, bytes: usize) -> bool {
    let would_keep = || !LargeAnswers::is_large(bytes) || server.large_answers.would_keep(bytes);
    would_keep() || {
        make_room(texts);
        would_keep()
    }
}

/// Frees the kept texts that nobody is sending.
fn make_room(texts: &mut BTreeMap<&'static str, SnapshotText>) {
    texts.values_mut().for_each(|text| text.kept = None);
}

/// A JSON answer that depends on the published snapshot only. Answers that are being sent, or asked for soon after, share its text.
pub(super) fn of_snapshot<T: Serialize>(
    server: &Shared,
    name: &'static str,
    value: impl FnOnce(&Published) -> T,
) -> Response {
    let published = server.runtime.load_full();
    let mut texts = server.answers.of_snapshot.lock();
    let is_examined = published.is_examined();
    let is_shown = |text: &&SnapshotText| {
        std::ptr::eq(text.of.as_ptr(), Arc::as_ptr(&published)) && text.is_examined == is_examined
    };
    let known = texts.get(name).filter(is_shown);
    if let Some(text) = known.and_then(|known| known.kept.clone().or(known.sent.upgrade().map(Text::Large))) {
        return text.answer();
    }
    let length = known.map_or(0, |known| known.length);
    // Those of another snapshot are not kept beside it.
    texts.retain(|_, text| is_shown(&&*text));
    if !has_room(server, &mut texts, length) {
        // Rendering it would be in vain.
        return Busy.answer();
    }
    let mut text = LongText::default();
    if let Err(error) = serde_json::to_writer_pretty(&mut text, &value(&published)) {
        return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    }
    let (of, length) = (Arc::downgrade(&published), text.len());
    let text = if LargeAnswers::is_large(length) {
        has_room(server, &mut texts, length);
        match server.large_answers.keep(text) {
            Ok(text) => Text::Large(text),
            Err(busy) => {
                texts.insert(name, SnapshotText { of, is_examined, sent: Weak::new(), kept: None, length });
                return busy.answer();
            }
        }
    } else {
        Text::Small(text.into_bytes().into())
    };
    let sent = if let Text::Large(text) = &text { Arc::downgrade(text) } else { Weak::new() };
    let kept = Some(text.clone());
    texts.insert(name, SnapshotText { of: of.clone(), is_examined, sent, kept, length });
    let server = Arc::downgrade(server);
    Group::new("kept page").spawn(async move {
        loop {
            tokio::time::sleep(KEPT).await;
            let Some(server) = server.upgrade() else { return };
            // Held while a text is rendered, which takes long.
            if let Some(mut texts) = server.answers.of_snapshot.try_lock() {
                let text = texts.get_mut(name).filter(|text| text.of.ptr_eq(&of));
                return drop(text.and_then(|text| text.kept.take()));
            }
        }
    });
    text.answer()
}
