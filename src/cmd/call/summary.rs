//! Counts and latencies of repeated calls.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::json;

use crate::cmd::exit::Exit;
use crate::cmd::io::{ErrorFormat, Io};

/// Maximum recorded latency: one hour.
const HIGHEST_NANOS: u64 = 3_600_000_000_000;

/// Records of reports: sets of attributes, each of which is one request that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Records {
    sent: u64,
    /// Those of reports that the server answered with OK.
    taken: u64,
}

/// Counts and latencies of all calls.
#[derive(Debug)]
pub(crate) struct Summary {
    started: Instant,
    granted: u64,
    denied: u64,
    failed: u64,
    /// Of reports: the records of them.
    records: Option<Records>,
    /// Latencies in nanoseconds; `None` only if the histogram cannot be made, which its fixed bounds rule out.
    latencies: Option<Histogram<u64>>,
    worst: Exit,
}

impl Summary {
    /// No calls yet.
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            granted: 0,
            denied: 0,
            failed: 0,
            records: None,
            latencies: Histogram::new_with_bounds(1, HIGHEST_NANOS, 3).ok(),
            worst: Exit::Success,
        }
    }

    /// Counts a call.
    pub(crate) fn add(&mut self, exit: Exit, latency: Duration) {
        match exit {
            Exit::Success => self.granted += 1,
            Exit::Negative => self.denied += 1,
            _ => self.failed += 1,
        }
        self.worst = self.worst.worst(exit);
        if let Some(latencies) = &mut self.latencies {
            latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Counts the records of a report, and whether the server took them.
    pub(crate) fn add_records(&mut self, sent: u64, is_taken: bool) {
        let records = self.records.get_or_insert_default();
        records.sent += sent;
        records.taken += if is_taken { sent } else { 0 };
    }

    /// The run was ended by a signal.
    pub(crate) fn interrupt(&mut self) {
        self.worst = Exit::Interrupted;
    }

    /// The worst result.
    pub(crate) fn worst(&self) -> Exit {
        self.worst
    }

    fn calls(&self) -> u64 {
        self.granted + self.denied + self.failed
    }

    /// Name and value of every latency figure.
    fn figures(&self) -> Vec<(&'static str, Duration)> {
        let Some(latencies) = self.latencies.as_ref().filter(|l| !l.is_empty()) else { return Vec::new() };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean of recorded values lies between them"
        )]
        let mean = latencies.mean() as u64;
        [
            ("min", latencies.min()),
            ("mean", mean),
            ("p50", latencies.value_at_quantile(0.5)),
            ("p90", latencies.value_at_quantile(0.9)),
            ("p99", latencies.value_at_quantile(0.99)),
            ("max", latencies.max()),
        ]
        .into_iter()
        .map(|(name, nanos)| (name, Duration::from_nanos(nanos)))
        .collect()
    }

    /// The summary as text.
    pub(crate) fn text(&self) -> String {
        let elapsed = self.started.elapsed();
        let seconds = elapsed.as_secs_f64().max(1e-9);
        #[expect(clippy::cast_precision_loss, reason = "the rate is printed without decimals")]
        let rate = self.calls() as f64 / seconds;
        let mut text =
            format!("{} calls in {seconds:.2}s ({rate:.0}/s): {} ok, ", self.calls(), self.granted);
        let _ = match self.records {
            None => writeln!(text, "{} denied, {} failed", self.denied, self.failed),
            // A report is not denied.
            Some(Records { sent, taken }) => {
                writeln!(text, "{} failed; {sent} records sent, {taken} taken", self.failed)
            }
        };
        let figures: Vec<String> =
            self.figures().iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
        if !figures.is_empty() {
            let _ = writeln!(text, "latency: {}", figures.join("  "));
        }
        text
    }

    /// The summary as JSON; latencies are in seconds, as text.
    pub(crate) fn json(&self) -> serde_json::Value {
        let latency: serde_json::Map<String, serde_json::Value> = self
            .figures()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(seconds_text(value))))
            .collect();
        let mut summary = json!({
            "calls": self.calls(),
            "ok": self.granted,
            "denied": self.denied,
            "failed": self.failed,
            "elapsed": seconds_text(self.started.elapsed()),
            "latency": latency,
        });
        if let (Some(Records { sent, taken }), Some(members)) = (self.records, summary.as_object_mut()) {
            members.insert("records".to_owned(), json!({ "sent": sent, "taken": taken }));
        }
        summary
    }

    /// Writes the summary to standard error, in the format of errors.
    pub(crate) fn write(&self, io: &mut Io) -> std::io::Result<()> {
        match io.error_format {
            ErrorFormat::Text => io.err.write_all(self.text().as_bytes()),
            ErrorFormat::Json => writeln!(io.err, "{}", summary_document(&self.json())),
        }
    }
}

/// A summary as a document.
pub(super) fn summary_document(summary: &serde_json::Value) -> serde_json::Value {
    json!({"apiVersion": "mixer/v1", "kind": "CallSummary", "summary": summary})
}

/// `0.0031s`.
pub(crate) fn seconds_text(duration: Duration) -> String {
    format!("{:.6}", duration.as_secs_f64()).trim_end_matches('0').trim_end_matches('.').to_owned() + "s"
}

/// Three digits and a unit.
fn short(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1e3 {
        format!("{micros:.0}us")
    } else if micros < 1e6 {
        format!("{:.2}ms", micros / 1e3)
    } else {
        format!("{:.2}s", micros / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_result_wins_and_latencies_are_ordered() {
        let mut summary = Summary::start();
        for (exit, millis) in [(Exit::Success, 1), (Exit::Negative, 2), (Exit::Rpc, 30), (Exit::Deadline, 4)]
        {
            summary.add(exit, Duration::from_millis(millis));
        }
        assert_eq!(summary.worst(), Exit::Rpc);
        let document = summary.json();
        assert_eq!(document["calls"], 4);
        assert_eq!(document["failed"], 2);
        assert_eq!(document["latency"]["min"], "0.001s");
        assert!(summary.text().contains("4 calls in"), "{}", summary.text());
    }

    #[test]
    fn records_of_reports_are_counted_as_sent_and_as_taken() {
        let mut summary = Summary::start();
        for (exit, records) in [(Exit::Success, 4), (Exit::Success, 4), (Exit::Rpc, 2)] {
            summary.add_records(records, exit == Exit::Success);
            summary.add(exit, Duration::from_millis(1));
        }
        let text = summary.text();
        assert!(text.contains(": 2 ok, 1 failed; 10 records sent, 8 taken\n"), "{text}");
        assert_eq!(summary.json()["records"], json!({"sent": 10, "taken": 8}));
        assert_eq!(Summary::start().json().get("records"), None);
    }

    #[test]
    fn seconds_have_no_trailing_zeros() {
        assert_eq!(seconds_text(Duration::from_micros(3100)), "0.0031s");
        assert_eq!(seconds_text(Duration::from_secs(2)), "2s");
    }
}
