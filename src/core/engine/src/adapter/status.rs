//! The status of a handler, for operators.

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
    /// Number of keys with usage.
    pub keys: usize,
    /// The keys with the highest usage, in descending order.
    pub top: Vec<QuotaUse>,
}

/// The usage of one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaUse {
    /// Values of the dimensions.
    pub key: String,
    /// The used amount.
    pub used: i64,
    /// The limit.
    pub limit: i64,
}
