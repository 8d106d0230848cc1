//! Deliveries of the process: what waits to be written or sent, and what became of it.

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::{Server, format, plot};
use mixer_base::secrets::mask_text;
use mixer_delivery::{DeliveryReport, LeftOnDisk};

/// JSON of a delivery.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeliveryInfo {
    name: &'static str,
    detail: String,
    /// `delivering`, `failing`, `paused` while its circuit breaker is open, or `left` for what is on disk and nobody sends, also since an earlier process.
    state: &'static str,
    /// Why the last attempt failed.
    trouble: Option<String>,
    failures_in_a_row: u32,
    accepted: u64,
    delivered: u64,
    dropped: Dropped,
    queued: usize,
    in_flight: usize,
    queued_bytes: usize,
    /// On disk, or on their way there or back.
    spilled: u64,
    /// Those that are on disk, and survive the process.
    on_disk: u64,
    spilled_bytes: u64,
    /// Found on disk at the start.
    recovered: u64,
    /// Absent: the queue is bounded by the memory of all queues only.
    max_queued: Option<usize>,
    max_queued_bytes: Option<usize>,
}

/// Items that were dropped, by reason.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dropped {
    full: u64,
    failed: u64,
    closed: u64,
}

impl From<DeliveryReport> for DeliveryInfo {
    fn from(report: DeliveryReport) -> Self {
        let DeliveryReport { name, detail, status, bounds, trouble } = report;
        let bounded = |bound: usize| (bound < usize::MAX).then_some(bound);
        let state = match trouble {
            _ if status.is_breaker_open => "paused",
            Some(_) => "failing",
            None => "delivering",
        };
        Self {
            name,
            detail,
            state,
            trouble: trouble.map(|why| mask_text(&why).into_owned()),
            failures_in_a_row: status.failures_in_a_row,
            accepted: status.accepted,
            delivered: status.delivered,
            dropped: Dropped { full: status.full, failed: status.failed, closed: status.closed },
            queued: status.queued,
            in_flight: status.in_flight,
            queued_bytes: status.queued_bytes,
            spilled: status.spilled,
            on_disk: status.on_disk,
            spilled_bytes: status.spilled_bytes,
            recovered: status.recovered,
            max_queued: bounded(bounds.items),
            max_queued_bytes: bounded(bounds.bytes),
        }
    }
}

impl From<LeftOnDisk> for DeliveryInfo {
    fn from(left: LeftOnDisk) -> Self {
        let LeftOnDisk { directory, name, detail, items, bytes } = left;
        let trouble = format!(
            "no handler sends what is in {}, whose handler is gone or was changed: give it the directory again, or remove that",
            directory.display()
        );
        Self {
            name,
            detail,
            state: "left",
            trouble: Some(mask_text(&trouble).into_owned()),
            failures_in_a_row: 0,
            accepted: 0,
            delivered: 0,
            dropped: Dropped { full: 0, failed: 0, closed: 0 },
            queued: 0,
            in_flight: 0,
            queued_bytes: 0,
            spilled: items,
            on_disk: items,
            spilled_bytes: bytes,
            recovered: 0,
            max_queued: None,
            max_queued_bytes: None,
        }
    }
}

/// The live deliveries, and what others left on disk.
pub(super) fn json() -> Vec<DeliveryInfo> {
    let live = mixer_delivery::list().into_iter().map(DeliveryInfo::from);
    live.chain(mixer_delivery::left_on_disk().into_iter().map(DeliveryInfo::from)).collect()
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let deliveries = json();
    Page {
        path: "/deliveryz/",
        title: "Deliveries",
        lead: html! { "What is written or sent in the background. What was accepted was delivered or dropped, or still waits." },
        json: "/deliveryj/",
        body: html! {
            section #deliveries data-live {
                div.scroll { table.numbers.cards {
                    thead { tr { th { "Delivery" } th { "State" } th { "Queue" } th.number { "Accepted" } th.number { "Delivered" } th.number { "In flight" } th.number { "No room" } th.number { "Failed" } th.number { "Closed" } } }
                    tbody { @for delivery in &deliveries { (row(delivery)) } }
                } }
                @if deliveries.is_empty() { (format::nothing("Nothing is delivered: no decision log, no spans, no handler that writes.")) }
            }
        },
    }
    .answer(server)
}

fn row(delivery: &DeliveryInfo) -> Markup {
    let class = match delivery.state {
        "delivering" => "good",
        "failing" => "warn",
        _ => "bad",
    };
    let Dropped { full, failed, closed } = delivery.dropped;
    html! {
        tr {
            th scope="row" { (delivery.name) @if !delivery.detail.is_empty() { br; small.dim { (delivery.detail) } } }
            td data-label="State" { span.pill.(class) { (delivery.state) } @if let Some(trouble) = &delivery.trouble { " " span.trouble { (format::message(trouble)) } } }
            td data-label="Queue" { (queue(delivery.queued, delivery.max_queued, "items")) (queue(delivery.queued_bytes, delivery.max_queued_bytes, "bytes"))
                @if delivery.on_disk > 0 { (queue(usize::try_from(delivery.on_disk).unwrap_or(usize::MAX), None, "items on disk")) } }
            td.number data-label="Accepted" { (format::count(delivery.accepted)) }
            td.number data-label="Delivered" { (format::count(delivery.delivered)) }
            td.number data-label="In flight" { (format::count(delivery.in_flight as u64)) }
            @for (label, dropped) in [("No room", full), ("Failed", failed), ("Closed", closed)] {
                td.number data-label=(label) { span.bad[dropped > 0] { (format::count(dropped)) } }
            }
        }
    }
}

fn queue(length: usize, bound: Option<usize>, unit: &str) -> Markup {
    let share = bound.map_or(0.0, |bound| length as f64 / bound.max(1) as f64);
    html! {
        div.queue { (format::count(length as u64)) @if let Some(bound) = bound { " of " (format::count(bound as u64)) } " " (unit)
            @if share >= 0.01 { (plot::bar(share)) } }
    }
}
