//! What operators may see of the inside of a handler.

use mixer_attribute::SignedDuration;

/// The inside of a handler at one moment. Slow to make; for people only.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HandlerStatus {
    /// Why it does not work as it should; `None` when it does.
    pub trouble: Option<String>,
    /// Things that wait.
    pub queues: Vec<QueueStatus>,
    /// Quotas.
    pub quotas: Vec<QuotaStatus>,
    /// Anything else: name and value.
    pub notes: Vec<(&'static str, String)>,
}

/// Things that wait to be dealt with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueStatus {
    /// What waits, for example `lines`.
    pub name: String,
    /// How many.
    pub length: usize,
    /// How many may.
    pub capacity: usize,
    /// How many were lost because there were too many.
    pub dropped: u64,
}

/// A quota and what is in use of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaStatus {
    /// Full name of the instance.
    pub name: String,
    /// How much may be in use by one key, unless an override says otherwise.
    pub limit: i64,
    /// After how long an amount is available again; zero means when it is given back.
    pub window: SignedDuration,
    /// Number of keys with something in use.
    pub keys: usize,
    /// The keys with the most in use, most first.
    pub top: Vec<QuotaUse>,
}

/// What one key has in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaUse {
    /// Values of the dimensions.
    pub key: String,
    /// How much is in use.
    pub used: i64,
    /// How much may be.
    pub limit: i64,
}
