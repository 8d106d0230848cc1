//! `GET /rlconfig`: every limit of the configuration.

use std::io::Write as _;
use std::sync::{Arc, Weak};

use http::{HeaderMap, StatusCode};
use tokio::sync::Mutex;

use crate::config::config_of;
use mixer_base::budget::Share;
use mixer_engine::runtime::{Published, Runtime};
use mixer_net::http::{HttpResponse, LargeAnswers, LongText, Places, Rendering, answer};

const TEXT: &str = "text/plain";

/// The page of limits. It is made on another thread, one at a time; answers of the same configuration share its text.
pub(super) struct LimitsPage {
    answers: LargeAnswers,
    places: Places,
    /// The configuration of the last text, and the text while it is being sent.
    last: Mutex<(Weak<Published>, Weak<Rendering>)>,
}

impl LimitsPage {
    /// A page whose memory is counted in a share.
    pub(super) fn new(share: &Arc<Share>) -> Self {
        Self { answers: LargeAnswers::new(share), places: Places::new(1), last: Mutex::default() }
    }

    /// One limit per line. `request`: the headers of the request.
    pub(super) async fn answer(&self, runtime: &Runtime, request: &HeaderMap) -> HttpResponse {
        // Others wait for the text that is being made.
        let mut last = self.last.lock().await;
        let published = runtime.load_full();
        let known = last.1.upgrade().filter(|_| std::ptr::eq(last.0.as_ptr(), Arc::as_ptr(&published)));
        let text = match known {
            Some(text) => text,
            None => {
                let of = Arc::downgrade(&published);
                let Ok(text) = self.places.run(move || written(&published)).await else {
                    let failed = "internal error; the log of the server has the cause\n";
                    return answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, failed);
                };
                if !LargeAnswers::is_large(text.len()) {
                    return answer(StatusCode::OK, TEXT, text.into_bytes());
                }
                match self.answers.keep(text) {
                    Ok(text) => {
                        *last = (of, Arc::downgrade(&text));
                        text
                    }
                    Err(busy) => return busy.answer(),
                }
            }
        };
        self.answers.answer(request, answer(StatusCode::OK, TEXT, ""), text)
    }
}

fn written(published: &Published) -> LongText {
    let domains = &config_of(published.routes.snapshot()).domains;
    let mut sorted: Vec<_> = domains.values().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = LongText::default();
    for limit in sorted.iter().flat_map(|domain| domain.descriptors.limits()) {
        let unit = limit.unit.map_or("UNLIMITED", |unit| unit.name());
        // Writing to memory cannot fail.
        let _ = writeln!(
            out,
            "{}: unit={unit} requests_per_unit={}, shadow_mode: {}, quota_mode: {}",
            limit.full_key, limit.requests_per_unit, limit.shadow_mode, limit.quota_mode
        );
    }
    out
}
