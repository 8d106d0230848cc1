//! Counts of verdicts, as metrics and for operators.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use parking_lot::Mutex;

use super::review::{Request, Verdict};
use mixer_base::metrics::{Family, Metrics};
use mixer_base::time::Moment;

/// Refusals that are kept for operators.
const KEPT: usize = 64;
/// Most characters of a message that are kept.
const MAX_MESSAGE: usize = 1024;

/// Counts verdicts. Labels are those of kinds that Galley knows; what callers make up counts as `other`.
pub struct Tally {
    metrics: Arc<Metrics>,
    passed: AtomicU64,
    failed: AtomicU64,
    last: Mutex<VecDeque<Refusal>>,
}

/// A review that was refused.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// When.
    pub at: Moment,
    /// `KIND NAMESPACE/NAME`
    pub resource: String,
    /// The message of the answer.
    pub message: String,
}

impl Tally {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, passed: AtomicU64::new(0), failed: AtomicU64::new(0), last: Mutex::default() }
    }

    /// Reviews that passed.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Reviews that did not.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The last refusals, newest first.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.last.lock().iter().rev().cloned().collect()
    }

    pub(super) fn refused_request(&self, status: StatusCode) {
        self.metrics.counter(Family::GalleyValidationHttpErrors, &[status.as_str()]).increment();
    }

    pub(super) fn count(&self, request: &Request, verdict: &Verdict) {
        let resource = &request.resource;
        let is_known = mixer_schema::kinds()
            .iter()
            .any(|kind| kind.plural == resource.resource && kind.group == resource.group);
        let (group, version, plural) = match is_known {
            true => (&*resource.group, known_version(&resource.version), &*resource.resource),
            false if resource.resource.is_empty() => ("", "", ""),
            false => ("other", "other", "other"),
        };
        match verdict.reason {
            None => {
                self.passed.fetch_add(1, Ordering::Relaxed);
                self.metrics.counter(Family::GalleyValidationPassed, &[group, plural, version]).increment();
            }
            Some(reason) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                let labels = [group, reason.name(), plural, version];
                self.metrics.counter(Family::GalleyValidationFailed, &labels).increment();
            }
        }
        if !verdict.allowed {
            self.keep(request, &verdict.message);
        }
    }

    fn keep(&self, request: &Request, message: &str) {
        let resource = format!("{} {}/{}", request.kind.kind, request.namespace, request.name);
        let cut = |text: &str| text.chars().take(MAX_MESSAGE).collect::<String>();
        let refusal = Refusal { at: Moment::now(), resource: cut(&resource), message: cut(message) };
        let mut last = self.last.lock();
        if last.len() >= KEPT {
            last.pop_front();
        }
        last.push_back(refusal);
    }
}

/// A version of a known group; others are callers' inventions.
fn known_version(version: &str) -> &str {
    let is_known = mixer_schema::kinds().iter().any(|kind| kind.version == version);
    if is_known || matches!(version, "v1" | "v1beta1") { version } else { "other" }
}
