//! Is the server alive, is it ready: conditions that are looked at, and who looks.
//!
//! One [`Health`] a server feeds the probe files, `/healthz` and `/readyz`, the gRPC health service and the supervisor alike.
//!
//! | condition | of | available while |
//! | --- | --- | --- |
//! | `server` | liveness | calls are taken |
//! | `workers` | liveness | every worker's event loop turns |
//! | `dispatcher` | readiness | changes of configuration are followed |
//! | `store` | readiness | the store could be read |
//! | `log` | readiness | the last record could be written |
//!
//! Spec: cli-operations.md 2.2 and 9.7.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use tokio_util::sync::CancellationToken;

use super::workers::WorkerGroup;
use crate::core::probe::{Availability, ProbeEmitter};
use crate::core::store::ConfigStore;
use crate::core::telemetry::http::answer;
use crate::core::telemetry::log::Log;

/// How often conditions are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// An event loop that has not turned for this long is stuck.
pub(super) const STUCK: Duration = Duration::from_secs(10);

/// Whether a server is alive and ready. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Health {
    /// Whether it is alive: if not, it should be started anew.
    pub liveness: Availability,
    /// Whether it is ready: if not, callers should go elsewhere.
    pub readiness: Availability,
}

impl Health {
    /// Neither alive nor ready. The names are those of the probe files.
    pub fn new(liveness: impl Into<String>, readiness: impl Into<String>) -> Self {
        Self { liveness: Availability::new(liveness), readiness: Availability::new(readiness) }
    }
}

impl Health {
    /// `/healthz` and `/readyz` for an HTTP endpoint: 200 while available, else 503, and in any case which emitter says what.
    pub fn routes(&self) -> Router {
        let (liveness, readiness) = (self.liveness.clone(), self.readiness.clone());
        Router::new()
            .route("/healthz", get(async move || report("liveness", &liveness)))
            .route("/readyz", get(async move || report("readiness", &readiness)))
    }
}

/// The JSON of one availability.
fn report(probe: &str, availability: &Availability) -> Response {
    let emitters: serde_json::Map<String, serde_json::Value> = availability
        .emitters()
        .into_iter()
        .map(|(name, status)| (name, status.err().map_or_else(|| "available".into(), Into::into)))
        .collect();
    let available = availability.status().is_ok();
    let body = serde_json::json!({ "probe": probe, "available": available, "emitters": emitters });
    let status = if available { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, "application/json; charset=utf-8", format!("{body:#}\n"))
}

/// What is looked at once a second.
pub(super) struct Conditions {
    pub(super) store: (Arc<dyn ConfigStore>, ProbeEmitter),
    pub(super) log: (Log, ProbeEmitter),
    pub(super) workers: (Arc<WorkerGroup>, ProbeEmitter),
}

impl Conditions {
    /// Looks until `stop`.
    pub(super) async fn follow(self, stop: CancellationToken) {
        loop {
            self.look();
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn look(&self) {
        let (store, emitter) = &self.store;
        emitter.set(store.contents().unavailable.clone().map_or(Ok(()), Err));
        let (log, emitter) = &self.log;
        emitter.set(log.last_write());
        let (workers, emitter) = &self.workers;
        emitter.set(stuck(workers));
    }
}

fn stuck(workers: &WorkerGroup) -> Result<(), String> {
    let now = Instant::now();
    let stuck: Vec<String> = workers
        .last_turns()
        .into_iter()
        .enumerate()
        .map(|(number, turned)| (number, now.saturating_duration_since(turned)))
        .filter(|(_, idle)| *idle > STUCK)
        .map(|(number, idle)| format!("worker {number} has not turned for {} s", idle.as_secs()))
        .collect();
    if stuck.is_empty() { Ok(()) } else { Err(stuck.join(", ")) }
}
