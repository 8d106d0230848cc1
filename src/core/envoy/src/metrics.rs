//! The metrics of Envoy's services. See docs/metrics.md.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::check_response::Unsupported;
use crate::config::EnvoyConfig;
use mixer_base::metrics::{Counter, Family, Metrics};

/// Most distinct log names in labels of a process; callers choose them.
const MAX_NAMES: usize = 200;

/// The log names in labels of a process.
pub(super) type LogNames = Mutex<FxHashSet<Box<[u8]>>>;

/// The counters of one worker, each looked up once in the registry.
pub(super) struct EnvoyMetrics {
    metrics: Arc<Metrics>,
    /// By a hash of family and labels.
    counters: RefCell<FxHashMap<u64, Vec<LabeledCounter>>>,
    /// The log names of this worker that are in `shared_names`.
    names: RefCell<FxHashSet<Box<[u8]>>>,
    unconvertible: Counter,
    evicted: Counter,
    log_messages: Counter,
}

struct LabeledCounter {
    family: Family,
    labels: Vec<String>,
    counter: Counter,
}

impl EnvoyMetrics {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        let unconvertible = metrics.counter(Family::BridgeAttributeErrors, &[]);
        let evicted = metrics.counter(Family::BridgeTcpStateEvicted, &[]);
        let log_messages = metrics.counter(Family::BridgeLogMessages, &[]);
        let (counters, names) = (RefCell::default(), RefCell::default());
        Self { metrics, counters, names, unconvertible, evicted, log_messages }
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

    /// Releases the counters of domains, which a new configuration may no longer have.
    pub(super) fn release_domains(&self) {
        self.counters.borrow_mut().retain(|_, bucket| {
            bucket.retain(|counter| counter.family != Family::BridgeRateLimits);
            !bucket.is_empty()
        });
    }

    /// A name that a caller chose, or `other` above the bound of the process.
    fn name<'n>(&self, names: &LogNames, name: &'n [u8]) -> Cow<'n, str> {
        let mut known = self.names.borrow_mut();
        if !known.contains(name) {
            let mut names = names.lock();
            if !names.contains(name) {
                if names.len() >= MAX_NAMES {
                    return Cow::Borrowed("other");
                }
                names.insert(name.into());
            }
            known.insert(name.into());
        }
        String::from_utf8_lossy(name)
    }

    /// `result` is allow, deny, error, error_allowed, error_denied, shadow_denied, shadow_allowed or shadow_error.
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
        for (op, count) in [
            ("invalid_header", unsupported.invalid_header),
            ("pseudo_header", unsupported.pseudo_header),
            ("response_header", unsupported.response_header),
            ("response_remove", unsupported.response_remove),
        ] {
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

    /// A message with entries of an access log.
    pub(super) fn log_message(&self) {
        self.log_messages.increment();
    }

    /// Open connections whose counters were evicted.
    pub(super) fn connections_evicted(&self, count: u64) {
        self.evicted.add(count);
        mixer_base::warn_limited!(
            1,
            count,
            "access logs of Envoy have more TCP connections than report.tcpStateEntries or the memory for them: their next entries count all \
             of their bytes again"
        );
    }

    /// `result` is reported, ignored or error; `names` are the log names in labels of the process.
    pub(super) fn entries(
        &self,
        names: &LogNames,
        (log_name, kind): (&[u8], &str),
        result: &str,
        count: u64,
    ) {
        if count > 0 {
            let name = self.name(names, log_name);
            self.add(Family::BridgeLogEntries, &[&name, result, kind], count);
        }
    }

    /// `result` is ok, over, shadow_over, error or no_match. A domain without configuration is `other`: callers choose it.
    pub(super) fn rate_limit(&self, config: &EnvoyConfig, domain: &[u8], result: &str) {
        let is_configured = config.domains.contains_key(domain)
            || config.quotas.iter().any(|quota| quota.domain.as_bytes() == domain);
        let name = if is_configured { String::from_utf8_lossy(domain) } else { Cow::Borrowed("other") };
        self.add(Family::BridgeRateLimits, &[&name, result], 1);
    }
}
