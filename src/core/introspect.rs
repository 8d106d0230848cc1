//! What a running server lets its operators see over HTTP, on the ControlZ port.
//!
//! Reads the published table and nothing else; changes nothing. Spec: cli-operations.md 4 and 9.5.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::core::routing::outline;
use crate::core::runtime::Runtime;
use crate::core::snapshot::dump;

/// The pages of the introspection port.
pub fn routes(runtime: Arc<Runtime>) -> Router {
    Router::new()
        .route("/routesj/", get(routing_table))
        .route("/snapshotj/", get(snapshot))
        .with_state(runtime)
}

/// The routing table as `routes show` prints it.
async fn routing_table(State(runtime): State<Arc<Runtime>>) -> Response {
    let published = runtime.load_full();
    let handlers = published.routes.handlers();
    json(&outline(published.routes.snapshot(), &|handler| handlers.get(&handler.key).is_some()))
}

/// The snapshot as `snapshot dump` prints it, with what handlers and routes had to say.
async fn snapshot(State(runtime): State<Arc<Runtime>>) -> Response {
    let published = runtime.load_full();
    let mut found = dump(published.routes.snapshot());
    found.errors = published.diagnostics.iter().map(Into::into).collect();
    json(&found)
}

fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_string_pretty(value) {
        Ok(text) => {
            let mut response = text.into_response();
            let kind = HeaderValue::from_static("application/json; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
