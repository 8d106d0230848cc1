//! The metrics of Envoy's services. See docs/metrics.md.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::check_response::Unsupported;
use mixer_base::metrics::{Counter, Family, Metrics};

/// Most distinct domains and log names in labels; callers choose them.
const MAX_NAMES: usize = 200;

/// The counters of one worker, each looked up once in the registry.
pub(super) struct EnvoyMetrics {
    metrics: Arc<Metrics>,
    /// By a hash of family and labels.
    counters: RefCell<FxHashMap<u64, Vec<LabeledCounter>>>,
    names: RefCell<FxHashSet<Box<[u8]>>>,
    unconvertible: Counter,
}

struct LabeledCounter {
    family: Family,
    labels: Vec<String>,
    counter: Counter,
}

impl EnvoyMetrics {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        let unconvertible = metrics.counter(Family::BridgeAttributeErrors, &[]);
        Self { metrics, counters: RefCell::default(), names: RefCell::default(), unconvertible }
    }

    fn add(&self, family: Family, labels: &[&str], count: u64) {
        let mut hasher = FxHasher::default();
        (family, labels).hash(&mut hasher);
        let mut counters = self.counters.borrow_mut();
        let bucket = counters.entry(hasher.finish()).or_default();
        if let Some(found) =
            bucket.iter().find(|counter| counter.family == family && counter.labels == labels)
        {
            found.counter.add(count);
            return;
        }
        let counter = self.metrics.counter(family, labels);
        counter.add(count);
        bucket.push(LabeledCounter {
            family,
            labels: labels.iter().map(|l| (*l).to_owned()).collect(),
            counter,
        });
    }

    /// A name that a caller chose, or `other` above the bound.
    fn name<'n>(&self, name: &'n [u8]) -> Cow<'n, str> {
        let mut names = self.names.borrow_mut();
        if !names.contains(name) {
            if names.len() >= MAX_NAMES {
                return Cow::Borrowed("other");
            }
            names.insert(name.into());
        }
        String::from_utf8_lossy(name)
    }

    /// `result` is allow, deny, error, shadow_denied or shadow_allowed.
    pub(super) fn check(&self, result: &str, code: &str) {
        self.add(Family::BridgeChecks, &[code, result], 1);
    }

    /// `result` is hit, miss or expired.
    pub(super) fn cache(&self, result: &str) {
        self.add(Family::BridgeCheckCache, &[result], 1);
    }

    pub(super) fn unconvertible(&self, count: u32) {
        if count > 0 {
            self.unconvertible.add(u64::from(count));
        }
    }

    pub(super) fn unsupported(&self, unsupported: Unsupported) {
        for (op, count) in
            [("invalid_header", unsupported.invalid_header), ("response_remove", unsupported.response_remove)]
        {
            if count > 0 {
                self.add(Family::BridgeUnsupported, &[op], u64::from(count));
                mixer_base::warn_limited!(
                    1,
                    op,
                    count,
                    "header operations that the API of Envoy does not support were left out"
                );
            }
        }
    }

    /// `result` is reported, ignored or error.
    pub(super) fn entries(&self, log_name: &[u8], kind: &str, result: &str, count: u64) {
        if count > 0 {
            let name = self.name(log_name);
            self.add(Family::BridgeLogEntries, &[&name, result, kind], count);
        }
    }

    /// `result` is ok, over, shadow_over, error or no_match.
    pub(super) fn rate_limit(&self, domain: &[u8], result: &str) {
        let name = self.name(domain);
        self.add(Family::BridgeRateLimits, &[&name, result], 1);
    }
}
