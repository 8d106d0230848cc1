//! Handlers: state, call statistics and queues.

use std::collections::HashMap;

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::{Page, in_turns};
use super::quantile::quantile;
use super::{Server, configuration, format, parameter, plot, withheld};
use mixer_base::metrics::{Family, HistogramSample, SampleValue};
use mixer_base::pool::PoolStatus;
use mixer_base::scheduling::let_others_run;
use mixer_base::secrets::mask_text;
use mixer_config::Diagnostic;
use mixer_engine::adapter::QueueStatus;
use mixer_engine::snapshot::is_spill_conflict;

/// Maximum number of handlers on the page.
const LISTED: usize = 200;

/// JSON of a handler.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HandlerInfo {
    name: String,
    resource: String,
    adapter: String,
    /// `live`, `troubled` or `failed`.
    state: &'static str,
    /// Why it is degraded or failed.
    trouble: Option<String>,
    instances: Vec<String>,
    tasks: usize,
    calls: u64,
    errors: u64,
    /// Seconds.
    mean: f64,
    /// Seconds: the upper bound of the bucket; `null` without calls, and above the last bound.
    p99: f64,
    queues: Vec<Queue>,
    notes: Vec<(&'static str, String)>,
}

#[derive(Debug, Serialize)]
struct Queue {
    name: String,
    length: usize,
    capacity: usize,
    dropped: u64,
}

impl From<&QueueStatus> for Queue {
    fn from(queue: &QueueStatus) -> Self {
        let QueueStatus { name, length, capacity, dropped } = queue.clone();
        Self { name, length, capacity, dropped }
    }
}

/// Asynchronous calls of a handler: in flight, and queued.
fn waiting(pool: PoolStatus) -> Vec<QueueStatus> {
    let PoolStatus { limit, in_flight, queued, queue, refused } = pool;
    if in_flight == 0 && refused == 0 {
        return Vec::new();
    }
    let status = |name: &str, length, capacity, dropped| QueueStatus {
        name: name.to_owned(),
        length,
        capacity,
        dropped,
    };
    vec![status("calls in flight", in_flight, limit, 0), status("queued calls", queued, queue, refused)]
}

/// Call statistics of a handler.
#[derive(Default)]
struct Calls {
    counts: Vec<u64>,
    sum: f64,
    errors: u64,
}

/// Statistics by handler name.
fn calls(server: &Server) -> HashMap<String, Calls> {
    let mut all: HashMap<String, Calls> = HashMap::new();
    let durations = server.metrics.samples_of_calls(Family::RuntimeDispatchDuration);
    for mut sample in durations.into_iter().flat_map(|family| family.samples) {
        let SampleValue::Histogram(HistogramSample { counts, sum, .. }) = &sample.value else { continue };
        let failed = sample.labels.iter().any(|(name, value)| *name == "error" && value == "true");
        let Some((_, handler)) = sample.labels.iter_mut().find(|(name, _)| *name == "handler") else {
            continue;
        };
        let calls = all.entry(std::mem::take(handler)).or_default();
        calls.counts.resize(counts.len(), 0);
        calls.counts.iter_mut().zip(counts).for_each(|(all, n)| *all += n);
        calls.sum += sum;
        if failed {
            calls.errors += counts.iter().sum::<u64>();
        }
    }
    all
}

/// All handlers by name: live ones, then those that failed to build.
pub(super) fn json(server: &Server) -> Vec<HandlerInfo> {
    let published = server.runtime.load_full();
    let bounds = Family::RuntimeDispatchDuration.info().bounds;
    let mut calls = calls(server);
    let live = published.routes.handlers().iter().map(|handler| {
        let_others_run();
        let status = handler.status();
        let calls = calls.remove(handler.name()).unwrap_or_default();
        let count: u64 = calls.counts.iter().sum();
        HandlerInfo {
            name: handler.name().to_owned(),
            resource: handler.config.key.to_string(),
            adapter: handler.adapter().to_owned(),
            state: if status.trouble.is_some() { "troubled" } else { "live" },
            trouble: status.trouble.map(|trouble| mask_text(&trouble).into_owned()),
            instances: handler.instances.iter().map(|i| i.name.to_string()).collect(),
            tasks: handler.live_tasks(),
            calls: count,
            errors: calls.errors,
            mean: if count == 0 { 0.0 } else { calls.sum / count as f64 },
            p99: quantile(bounds, &calls.counts, 0.99),
            queues: waiting(handler.waiting()).iter().chain(&status.queues).map(Queue::from).collect(),
            notes: status.notes,
        }
    });
    let is_failure = |d: &&Diagnostic| d.code == "handler-build" || is_spill_conflict(d.code);
    let failed = published.diagnostics.iter().filter(is_failure).map(|d| HandlerInfo {
        name: d.resource.clone(),
        resource: d.resource.clone(),
        adapter: String::new(),
        state: "failed",
        trouble: Some(mask_text(&d.message).into_owned()),
        instances: Vec::new(),
        tasks: 0,
        calls: 0,
        errors: 0,
        mean: 0.0,
        p99: f64::NAN,
        queues: Vec::new(),
        notes: Vec::new(),
    });
    live.chain(failed).collect()
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let all = json(server);
    let mut found: Vec<&HandlerInfo> =
        all.iter().filter(|h| format::matches(q, &[&h.name, &h.adapter, h.state])).collect();
    let of = found.len();
    if of > LISTED {
        // What has a problem is not among those that have no room.
        found.sort_by_key(|handler| handler.state == "live");
        found.truncate(LISTED);
    }
    Page {
        path: "/handlerz/",
        title: "Handlers",
        lead: html! { "A handler is built when a rule refers to it, reused while its configuration is unchanged, and closed after its last call." },
        json: "/handlerj/",
        body: html! {
            div.bar { (format::filter(q, "handlers")) }
            section #handlers data-live {
                (withheld::notice(&server.runtime.load_full()))
                div.scroll { table.numbers.cards {
                    thead { tr { th { "Handler" } th { "State" } th.number { "Calls" } th.number { "Errors" } th.number { "Mean" } th.number { "p99" } th.number { "Tasks" } th { "Inside" } } }
                    tbody { @for handler in in_turns(&found) { (row(handler)) } }
                } }
                @if found.is_empty() { (format::nothing(if q.is_empty() { "There are none. Unused handlers are not built." } else { "No handler matches. Unused handlers are not built." })) }
                (format::shown(found.len(), of))
            }
        },
    }
    .answer(server)
}

fn last_bound() -> f64 {
    Family::RuntimeDispatchDuration.info().bounds.last().copied().unwrap_or_default()
}

fn row(handler: &HandlerInfo) -> Markup {
    let class = match handler.state {
        "live" => "good",
        "troubled" => "warn",
        _ => "bad",
    };
    html! {
        tr {
            th scope="row" { (configuration::link(&handler.resource)) br; small.dim { (handler.adapter) @if !handler.instances.is_empty() { ", " (handler.instances.len()) @if handler.instances.len() == 1 { " instance" } @else { " instances" } } } }
            td data-label="State" { span.pill.(class) { (handler.state) } @if let Some(trouble) = &handler.trouble { " " span.trouble { (format::message(trouble)) } } }
            td.number data-label="Calls" { (format::count(handler.calls)) }
            td.number data-label="Errors" { span.bad[handler.errors > 0] { (format::count(handler.errors)) } }
            td.number data-label="Mean" { (format::seconds(handler.mean)) }
            td.number data-label="p99" { (format::at_most(handler.p99, last_bound())) }
            td.number data-label="Tasks" { (handler.tasks) }
            td data-label="Inside" {
                @for queue in &handler.queues {
                    @let share = queue.length as f64 / queue.capacity.max(1) as f64;
                    div.queue { (queue.name) ": " (format::count(queue.length as u64)) " of " (format::count(queue.capacity as u64))
                        @if share >= 0.01 { (plot::bar(share)) }
                        @if queue.dropped > 0 { span.bad { (format::count(queue.dropped)) " lost" } } }
                }
                @for (name, value) in &handler.notes { div { span.dim { (name) ": " } (value) } }
            }
        }
    }
}
