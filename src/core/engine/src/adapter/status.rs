//! The status of a handler, for operators.

use std::cmp::Ordering;
use std::time::Duration;

use mixer_attribute::SignedDuration;

/// The status of a handler at one moment. Expensive: for the introspection pages only.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HandlerStatus {
    /// Why it is degraded; `None` when it is healthy.
    pub trouble: Option<String>,
    /// Its queues.
    pub queues: Vec<QueueStatus>,
    /// Its quotas.
    pub quotas: Vec<QuotaStatus>,
    /// Other facts: name and value.
    pub notes: Vec<(&'static str, String)>,
}

impl HandlerStatus {
    /// Its notes in one line.
    pub(crate) fn described(&self) -> String {
        let notes = self.notes.iter().map(|(name, value)| format!("{name}: {value}"));
        notes.collect::<Vec<_>>().join(", ")
    }
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueStatus {
    /// Kind of its entries, for example `lines`.
    pub name: String,
    /// Number of entries.
    pub length: usize,
    /// Maximum number of entries.
    pub capacity: usize,
    /// Number of entries dropped because the queue was full.
    pub dropped: u64,
}

/// A quota and its usage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaStatus {
    /// Full name of the instance.
    pub name: String,
    /// Limit per key without an override.
    pub limit: i64,
    /// The window; zero for amounts that clients release.
    pub window: SignedDuration,
    /// Number of keys of which usage is known.
    pub keys: usize,
    /// The keys that use most of their limit, in descending order.
    pub top: Vec<QuotaUse>,
    /// The first overrides, in the order in which they apply.
    pub overrides: Vec<QuotaOverride>,
    /// Number of all overrides.
    pub override_count: usize,
    /// The backend that counts; `None`: the handler does.
    pub shared: Option<SharedQuota>,
}

/// The dimensions of a key, in their order: name and value as text, secrets included. A name is empty where the digest of all values
/// stands for them.
pub type QuotaKey = Vec<(String, String)>;

/// Another limit for certain keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaOverride {
    /// The dimensions that must match.
    pub dimensions: QuotaKey,
    /// The limit.
    pub limit: i64,
}

/// The usage of one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaUse {
    /// Its dimensions.
    pub key: QuotaKey,
    /// The used amount.
    pub used: i64,
    /// The limit.
    pub limit: i64,
    /// Whether an override applies.
    pub is_override: bool,
    /// How it is known.
    pub source: QuotaSource,
}

/// How the usage of a key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuotaSource {
    /// The handler counts.
    #[default]
    Handler,
    /// The backend said so, so long ago.
    Backend {
        /// Since then.
        ago: Duration,
    },
    /// The backend said so when it granted or renewed a lease, from which the handler has granted since.
    Lease {
        /// Since the answer of the backend.
        ago: Duration,
        /// The share of the lease.
        share: i64,
        /// What was granted of it.
        used: i64,
        /// For how long the rest can be granted; zero: no longer.
        lasts: Duration,
    },
    /// The handler counts against a part of the limit, because the backend does not answer.
    LocalShare,
}

/// A quota that a backend counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedQuota {
    /// Its address, without secrets.
    pub backend: String,
    /// What allocates now.
    pub mode: QuotaMode,
    /// Why and for how long the backend does not answer; `None`: it does.
    pub outage: Option<QuotaOutage>,
    /// What calls get while it does not.
    pub without: String,
}

/// What allocates amounts of a shared quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuotaMode {
    /// A round trip to the backend for each call.
    #[default]
    Exact,
    /// Leases of shares, of this length.
    Leases(Duration),
    /// This part of the limit in percent, because the backend does not answer.
    LocalShare(i64),
}

/// An outage of the backend of a quota.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaOutage {
    /// One line.
    pub why: String,
    /// How long it lasts.
    pub lasts: Duration,
}

impl QuotaUse {
    /// Orders uses by the used part of their limit, then by amount, in descending order.
    pub fn by_share(&self, other: &Self) -> Ordering {
        let scaled = |used: &Self, of: &Self| i128::from(used.used) * i128::from(of.limit.max(1));
        let share = scaled(other, self).cmp(&scaled(self, other));
        share.then_with(|| other.used.cmp(&self.used)).then_with(|| self.key.cmp(&other.key))
    }
}
