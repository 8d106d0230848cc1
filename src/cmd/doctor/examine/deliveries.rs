//! What the running server writes and sends in the background: whether it arrives.

use serde::Deserialize;

use super::{controlz, ok, warn};
use crate::cmd::doctor::finding::Finding;
use crate::cmd::output::counted;
use mixer_server::ServerOptions;

const CHECK: &str = "delivery";

/// A delivery in `/deliveryj/` of ControlZ.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delivery {
    name: String,
    detail: String,
    state: String,
    trouble: Option<String>,
    delivered: u64,
    dropped: Dropped,
    queued: u64,
    in_flight: u64,
    spilled: u64,
}

#[derive(Debug, Deserialize)]
struct Dropped {
    full: u64,
    failed: u64,
    closed: u64,
}

/// One finding for each delivery of a server that runs with these settings; none without ControlZ, or if it does not answer.
pub(super) async fn examine(options: &ServerOptions) -> Vec<Finding> {
    let deliveries = controlz::get::<Vec<Delivery>>(options, "/deliveryj/").await.unwrap_or_default();
    deliveries.iter().map(finding).collect()
}

fn finding(delivery: &Delivery) -> Finding {
    let Delivery { name, detail, state, trouble, delivered, dropped, queued, in_flight, spilled } = delivery;
    let of = if detail.is_empty() { String::new() } else { format!(" of {detail}") };
    let waiting = queued + in_flight + spilled;
    let lost = dropped.full + dropped.failed + dropped.closed;
    let counts = format!("{} delivered, {waiting} waiting, {lost} lost", counted(*delivered, "item"));
    let why = trouble.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    match state.as_str() {
        "delivering" if lost == 0 => ok(CHECK, format!("{name}{of}: {counts}")),
        "delivering" => warn(
            CHECK,
            format!("{name}{of}: {counts}"),
            "ControlZ, Deliveries shows why; `mixer_delivery_items_total` when",
        ),
        state => warn(
            CHECK,
            format!("{name}{of} is {state}{why}; {counts}"),
            "calls do not wait for it; what has no room in its queue is lost",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::finding::CheckStatus;

    #[test]
    fn losses_and_failures_are_warnings() {
        for (state, trouble, full, verdict, text) in [
            (
                "delivering",
                "null",
                0,
                CheckStatus::Ok,
                "statsd sender of h.ns: 7 items delivered, 3 waiting, 0 lost",
            ),
            (
                "delivering",
                "null",
                2,
                CheckStatus::Warn,
                "statsd sender of h.ns: 7 items delivered, 3 waiting, 2 lost",
            ),
            (
                "paused",
                "\"refused\"",
                0,
                CheckStatus::Warn,
                "statsd sender of h.ns is paused: refused; 7 items delivered, 3 waiting, 0 lost",
            ),
        ] {
            let json = format!(
                r#"[{{"name": "statsd sender", "detail": "h.ns", "state": "{state}", "trouble": {trouble}, "delivered": 7,
                    "dropped": {{"full": {full}, "failed": 0, "closed": 0}}, "queued": 1, "inFlight": 2, "spilled": 0, "more": 1}}]"#
            );
            let list: Vec<Delivery> = serde_json::from_str(&json).unwrap();
            let found = finding(&list[0]);
            assert_eq!((found.verdict, found.detail.as_str()), (verdict, text));
        }
    }
}
