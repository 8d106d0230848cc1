//! Counts and latencies of repeated calls.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::json;

use crate::cmd::exit::Exit;

/// Maximum recorded latency: one hour.
const HIGHEST_NANOS: u64 = 3_600_000_000_000;

/// Counts and latencies of all calls.
#[derive(Debug)]
pub(crate) struct Summary {
    started: Instant,
    granted: u64,
    denied: u64,
    failed: u64,
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
        let mut text = format!(
            "{} calls in {:.2}s ({rate:.0}/s): {} ok, {} denied, {} failed\n",
            self.calls(),
            seconds,
            self.granted,
            self.denied,
            self.failed
        );
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
        json!({
            "calls": self.calls(),
            "ok": self.granted,
            "denied": self.denied,
            "failed": self.failed,
            "elapsed": seconds_text(self.started.elapsed()),
            "latency": latency,
        })
    }
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
    fn seconds_have_no_trailing_zeros() {
        assert_eq!(seconds_text(Duration::from_micros(3100)), "0.0031s");
        assert_eq!(seconds_text(Duration::from_secs(2)), "2s");
    }
}
