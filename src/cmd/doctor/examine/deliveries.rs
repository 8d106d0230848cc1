//! What the running server writes and sends in the background: whether it arrives.

use std::sync::Arc;

use serde::Deserialize;

use super::{TIMEOUT, controlz, ok, warn};
use crate::cmd::doctor::finding::Finding;
use crate::cmd::output::counted;
use mixer_engine::snapshot::Snapshot;
use mixer_server::{LeftOnDisk, ServerOptions, left_on_disk};

const CHECK: &str = "delivery";
/// Most directories with entries that are named.
const MAX_LEFT: usize = 10;
/// What to do about entries that nobody sends.
const CURE_OF_LEFT: &str = "give the directory to that handler again, or to another one of its adapter, without the file `owner`, and they are sent; or \
                            remove it";

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
    let of = |deliveries: Vec<Delivery>| deliveries.iter().map(finding).collect();
    controlz::findings(options, "/deliveryj/", of).await
}

/// What earlier handlers left on disk, for a server that does not run. A disk that hangs is not waited for.
pub(super) async fn left(options: &ServerOptions, snapshot: &Arc<Snapshot>) -> Vec<Finding> {
    let (options, snapshot) = (options.clone(), Arc::clone(snapshot));
    let look = tokio::task::spawn_blocking(move || left_on_disk(&options, &snapshot));
    let found = tokio::time::timeout(TIMEOUT, look).await;
    let found = found.ok().and_then(Result::ok).unwrap_or_default();
    let (shown, others) = found.split_at_checked(MAX_LEFT).unwrap_or((&found, &[]));
    let mut findings: Vec<Finding> = shown.iter().map(finding_of_left).collect();
    if !others.is_empty() {
        let directories = others.len();
        findings.push(warn(
            CHECK,
            format!("entries are left in {directories} more directories"),
            CURE_OF_LEFT,
        ));
    }
    findings
}

fn finding_of_left(left: &LeftOnDisk) -> Finding {
    let LeftOnDisk { directory, detail, items, bytes, .. } = left;
    let (items, directory) = (counted(*items, "item"), directory.display());
    let text = format!(
        "{items} of {detail} ({} KiB): no handler sends what is in `{directory}`",
        bytes.div_ceil(1024)
    );
    warn(CHECK, text, CURE_OF_LEFT)
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
        "left" => {
            let why = trouble.as_deref().unwrap_or("no handler sends it");
            warn(CHECK, format!("{}{of}: {why}", counted(*spilled, "item")), CURE_OF_LEFT)
        }
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
    fn what_is_left_on_disk_is_told_with_its_cure() {
        let json = r#"[{"name": "fluentd sender", "detail": "h.ns", "state": "left", "trouble": "no handler sends what is in /var/a, whose handler is gone or was changed",
                    "delivered": 0, "dropped": {"full": 0, "failed": 0, "closed": 0}, "queued": 0, "inFlight": 0, "spilled": 7}]"#;
        let list: Vec<Delivery> = serde_json::from_str(json).unwrap();
        let found = finding(&list[0]);
        let text =
            "7 items of h.ns: no handler sends what is in /var/a, whose handler is gone or was changed";
        assert_eq!((found.verdict, found.detail.as_str()), (CheckStatus::Warn, text));
        assert_eq!(found.hint.as_deref(), Some(CURE_OF_LEFT));
    }

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
