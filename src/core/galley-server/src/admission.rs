//! The admission webhook: whether an API server may accept a resource. Spec: galley.md, 19.
//!
//! | module | subject |
//! | --- | --- |
//! | [`settings`] | the settings and their errors |
//! | `review` | what arrives and what is answered: `AdmissionReview` of `v1` and `v1beta1` |
//! | `checks` | the checks of the endpoints, which give a verdict |
//! | `deep` | the checks of the policy engine, with the resources that are published |
//! | `room` | how much memory reviews may take at a time |
//! | `tally` | counts of verdicts |
//! | [`reconcile`] | keeps the webhook configuration of the cluster as it should be |
//!
//! A review never waits for a cluster, a source or a sink, and changes nothing.

mod checks;
mod deep;
pub mod reconcile;
mod review;
mod room;
pub mod settings;
mod tally;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::{HeaderMap, StatusCode, header};

use mixer_base::metrics::Metrics;
use mixer_engine::snapshot::SnapshotOptions;
use mixer_mcp::Snapshot;
use mixer_net::http::answer;

use checks::{Checks, Endpoint};
use deep::Effort;
use review::{Review, Verdict};
use room::{Room, Unanswered};
pub use settings::{Depth, ValidationOptions};
pub use tally::Tally;

/// Content type of errors.
const PLAIN: &str = "text/plain; charset=utf-8";
/// Content type of a review. compat(1.3): Galley answers as `text/plain`.
const JSON: &str = "application/json";

/// The published snapshot of policy resources.
pub type PublishedPolicy = Arc<dyn Fn() -> Option<Arc<Snapshot>> + Send + Sync>;

/// The webhook.
pub struct Admission {
    checks: Checks,
    tally: Tally,
    room: Room,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

impl Admission {
    /// A webhook that knows the kinds of these settings of the policy engine. `published` has the resources to which those under review may
    /// refer, for [`Depth::Deep`].
    pub fn new(
        policy: SnapshotOptions,
        depth: Depth,
        published: PublishedPolicy,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            checks: Checks::new(policy, depth, published),
            tally: Tally::new(metrics),
            room: Room::new(),
        })
    }

    /// The counts of verdicts.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The paths of Galley 1.3 and 1.5. Every method is accepted.
    pub fn routes(self: Arc<Self>) -> Router {
        let at = |endpoint: Endpoint| {
            let admission = Arc::clone(&self);
            any(async move |request: Request| admission.review(endpoint, request).await)
        };
        let ready = || any(async || StatusCode::OK);
        Router::new()
            .route("/admitpilot", at(Endpoint::Pilot))
            .route("/admitmixer", at(Endpoint::Mixer))
            .route("/validate", at(Endpoint::Any))
            .route("/ready", ready())
            .route("/httpsReady", ready())
    }

    async fn review(self: Arc<Self>, endpoint: Endpoint, request: Request) -> Response {
        let (head, body) = request.into_parts();
        match self.answer(endpoint, &head.headers, body).await {
            Ok(response) => response,
            Err((status, text)) => {
                self.tally.refused_request(status);
                answer(status, PLAIN, text)
            }
        }
    }

    /// Errors: the request is no review, or there is no room for it.
    async fn answer(
        self: &Arc<Self>,
        endpoint: Endpoint,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, room::Full> {
        let (body, in_memory) = self.room.body(body).await?;
        if let Some((status, text)) = unusable(headers, &body) {
            return Err((status, text.to_owned()));
        }
        let taken = self.room.tree(&body).await?;
        let effort = if taken.is_small() { Effort::Small } else { Effort::Large };
        let this = Arc::clone(self);
        // Off the thread that serves every endpoint: a resource may be large. The room is kept until that ends.
        let decide = move || {
            let _in_memory = in_memory;
            this.decide(endpoint, effort, body)
        };
        Ok(match taken.run(decide).await {
            Ok(text) => answer(StatusCode::OK, JSON, text),
            // Counted and answered by the endpoint.
            Err(Unanswered::Panic(panic)) => std::panic::resume_unwind(panic),
            Err(Unanswered::Ended) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        })
    }

    fn decide(&self, endpoint: Endpoint, effort: Effort, body: bytes::Bytes) -> String {
        let read = Review::read(&body);
        drop(body);
        let mut review = match read {
            Ok(review) => review,
            Err(problem) => return Review::default().answer(&Verdict::undecodable(&problem)),
        };
        let object = review.request.as_mut().and_then(|request| {
            let object = request.object.take()?;
            if let Some(name) = object.pointer("/metadata/name").and_then(|name| name.as_str()) {
                name.clone_into(&mut request.name);
            }
            Some(object)
        });
        let Some(request) = &review.request else {
            return review.answer(&Verdict::undecodable("no request"));
        };
        let verdict = self.checks.verdict(endpoint, effort, request, object);
        self.tally.count(request, &verdict);
        if !verdict.allowed {
            tracing::info!(
                kind = request.kind.kind,
                namespace = request.namespace,
                "refused: {}",
                verdict.message
            );
        }
        review.answer(&verdict)
    }
}

/// compat(1.3): the answer to a request that is no review; pinned by the case adm-http.
fn unusable(headers: &HeaderMap, body: &[u8]) -> Option<(StatusCode, &'static str)> {
    if body.is_empty() {
        return Some((StatusCode::BAD_REQUEST, "no body found\n"));
    }
    let kind = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    let is_json = kind == Some(b"application/json");
    (!is_json)
        .then_some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid Content-Type, want `application/json`\n"))
}

#[cfg(test)]
mod tests;
