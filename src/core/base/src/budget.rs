//! One budget in bytes for everything that callers can make a server keep.
//!
//! A [`MemoryBudget`] is divided into fixed shares, one a [`Purpose`]: what floods one share cannot take memory from the others.
//! Bytes are acquired from a share in two ways:
//!
//! - a [`Reservation`] for one thing with an end, such as the body of a request: dropping it releases the bytes;
//! - an [`Account`] for a table that lives long, such as the cells of one handler. While several accounts share, each is
//!   guaranteed its part of one half, and the other half goes to whoever asks first.
//!
//! Cost: one or two atomic additions for each [`acquire`](Account::acquire) or [`reserve`](Share::reserve), and none otherwise. Callers
//! acquire when they create or grow something, not for every request.
//!
//! ```
//! use mixer_base::budget::{MemoryBudget, Purpose};
//! let budget = MemoryBudget::new(64 << 20);
//! let share = budget.share(Purpose::Connections);
//! let mut body = share.reserve(1 << 20).ok_or("busy")?;
//! assert!(body.grow(4096) && share.used() == (1 << 20) + 4096);
//! drop(body);
//! assert_eq!(share.used(), 0);
//! # Ok::<(), &str>(())
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::metrics::{Collect, Collected, Family};

/// The default limit: 256 MiB.
pub const DEFAULT_MEMORY_LIMIT: usize = 256 << 20;

/// The smallest limit: every share has then room for some requests of usual size, or a few thousand entries.
pub const MIN_MEMORY_LIMIT: usize = 16 << 20;

/// Number of equal parts into which the limit is divided.
const PARTS: usize = 32;

/// What a share of the budget is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Requests that are being read, and answers that are not sent yet.
    Connections,
    /// What checks and rate limit calls decoded that wait for handlers.
    WaitingCalls,
    /// Amounts in use of memquota.
    QuotaCells,
    /// Answers of memquota by deduplication id.
    Deduplication,
    /// Counters of rate-limit windows.
    RateLimits,
    /// Series of the prometheus adapter.
    Series,
    /// Renderings of the metrics page for scrapes that run.
    Scrapes,
    /// Large answers of ControlZ and of the monitoring endpoint.
    Pages,
    /// Answers of handlers with `mixer.dev/on-error: lastKnown`, and those that handlers cache.
    LastKnown,
    /// Cached checks.
    CheckCache,
    /// What waits to be written or sent: calls for the decision log and the recording, lines of stdio, spans.
    Queues,
    /// Byte counts of the TCP connections in Envoy's access logs.
    AccessLogs,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Purpose; 12] = [
        Purpose::Connections,
        Purpose::WaitingCalls,
        Purpose::QuotaCells,
        Purpose::Deduplication,
        Purpose::RateLimits,
        Purpose::Series,
        Purpose::Scrapes,
        Purpose::Pages,
        Purpose::LastKnown,
        Purpose::CheckCache,
        Purpose::Queues,
        Purpose::AccessLogs,
    ];

    /// The label in metrics and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Connections => "connections",
            Purpose::WaitingCalls => "waiting-calls",
            Purpose::QuotaCells => "quota-cells",
            Purpose::Deduplication => "deduplication",
            Purpose::RateLimits => "rate-limits",
            Purpose::Series => "series",
            Purpose::Scrapes => "scrapes",
            Purpose::Pages => "pages",
            Purpose::LastKnown => "last-known",
            Purpose::CheckCache => "check-cache",
            Purpose::Queues => "queues",
            Purpose::AccessLogs => "access-logs",
        }
    }

    /// Whether its bytes are acquired from the share. Caches bound themselves by its limit, and report what they use.
    fn is_measured(self) -> bool {
        self != Purpose::CheckCache
    }

    /// Its part of the limit, in parts of 32.
    fn parts(self) -> usize {
        match self {
            Purpose::Connections => 7,
            Purpose::WaitingCalls => 2,
            Purpose::QuotaCells => 4,
            Purpose::Deduplication => 1,
            Purpose::RateLimits => 3,
            Purpose::Series => 4,
            Purpose::Scrapes => 2,
            Purpose::Pages => 1,
            Purpose::LastKnown => 1,
            Purpose::CheckCache => 3,
            Purpose::Queues => 3,
            Purpose::AccessLogs => 1,
        }
    }
}

/// The budget of one server.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: usize,
    shares: [Arc<Share>; Purpose::ALL.len()],
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let share = |purpose: Purpose| Arc::new(Share::new(limit / PARTS * purpose.parts()));
        Self { limit, shares: Purpose::ALL.map(share) }
    }

    /// The bytes of all shares.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The share of a purpose.
    pub fn share(&self, purpose: Purpose) -> &Arc<Share> {
        let [first, ..] = &self.shares;
        // INVARIANT: `Purpose::ALL` lists the purposes in their order.
        self.shares.get(purpose as usize).unwrap_or(first)
    }
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::new(DEFAULT_MEMORY_LIMIT)
    }
}

impl Collect for MemoryBudget {
    fn collect(&self, into: &mut Collected) {
        for purpose in Purpose::ALL {
            let (share, labels) = (self.share(purpose), [purpose.name()]);
            into.add(Family::MemoryLimit, &labels, share.limit() as f64);
            if purpose.is_measured() {
                into.add(Family::MemoryInUse, &labels, share.used() as f64);
                into.add(Family::MemoryExhausted, &labels, share.exhausted() as f64);
            }
        }
    }
}

/// The part of a budget for one purpose.
#[derive(Debug)]
pub struct Share {
    limit: usize,
    used: AtomicUsize,
    accounts: AtomicUsize,
    exhausted: AtomicU64,
}

impl Share {
    /// A share of its own, for tables outside of a server and for tests.
    pub fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0), accounts: AtomicUsize::new(0), exhausted: AtomicU64::new(0) }
    }

    /// Most bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether it has so many bytes more, without a count if not.
    pub fn has(&self, bytes: usize) -> bool {
        self.used().checked_add(bytes).is_some_and(|sum| sum <= self.limit)
    }

    /// How often bytes were asked for that the share did not have.
    pub fn exhausted(&self) -> u64 {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// Acquires bytes until the reservation is dropped; `None` if the share does not have them.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        self.add(bytes, self.limit).then(|| Reservation { share: Arc::clone(self), bytes })
    }

    /// Opens an account, which holds nothing yet.
    pub fn open(self: &Arc<Self>) -> Account {
        self.accounts.fetch_add(1, Ordering::Relaxed);
        Account { share: Arc::clone(self), used: AtomicUsize::new(0) }
    }

    /// What each account can acquire whatever the others hold.
    fn guarantee(&self) -> usize {
        match self.accounts.load(Ordering::Relaxed) {
            0 | 1 => self.limit,
            accounts => self.limit / 2 / accounts,
        }
    }

    /// What an account beyond its guarantee leaves for those that are below theirs.
    fn reserved_for_others(&self) -> usize {
        match self.accounts.load(Ordering::Relaxed) {
            0 | 1 => 0,
            accounts => self.limit / 2 / accounts * (accounts - 1),
        }
    }

    /// Adds bytes unless they exceed `most`.
    fn add(&self, bytes: usize, most: usize) -> bool {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        // Relaxed: only the sum matters, no other memory is published with it.
        let added = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if !added {
            self.exhausted.fetch_add(1, Ordering::Relaxed);
        }
        added
    }

    fn subtract(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "released {bytes} of {before} bytes");
    }
}

/// Bytes of a share; released when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    share: Arc<Share>,
    bytes: usize,
}

impl Reservation {
    /// Bytes reserved.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Acquires more bytes. Returns false, and changes nothing, if the share does not have them.
    pub fn grow(&mut self, bytes: usize) -> bool {
        self.grow_leaving(bytes, 0)
    }

    /// [`grow`](Self::grow), if as many bytes as `left` are then left to others.
    pub fn grow_leaving(&mut self, bytes: usize, left: usize) -> bool {
        let grown = self.share.add(bytes, self.share.limit.saturating_sub(left));
        self.bytes += if grown { bytes } else { 0 };
        grown
    }

    /// Releases bytes; at most all of them.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.share.subtract(bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.share.subtract(self.bytes);
    }
}

/// The bytes of one owner of tables within a share. Everything is released when it is dropped.
#[derive(Debug)]
pub struct Account {
    share: Arc<Share>,
    used: AtomicUsize,
}

impl Account {
    /// The share.
    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Acquires bytes. Returns false, and changes nothing, if the share does not have them for this account.
    pub fn acquire(&self, bytes: usize) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let most = match used <= self.share.guarantee() {
            true => self.share.limit,
            false => self.share.limit - self.share.reserved_for_others(),
        };
        let acquired = self.share.add(bytes, most);
        if !acquired {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        acquired
    }

    /// Acquires bytes until the charge is dropped; `None` if the share does not have them for this account.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.acquire(bytes).then(|| Charge { account: Arc::clone(self), bytes })
    }

    /// Acquires bytes until the charge is dropped even if the share does not have them, for what exists already.
    pub fn overdrawn(self: &Arc<Self>, bytes: usize) -> Charge {
        self.overdraw(bytes);
        Charge { account: Arc::clone(self), bytes }
    }

    /// Acquires bytes even if the share does not have them, for what exists already.
    pub fn overdraw(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.share.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases bytes.
    pub fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.share.subtract(bytes);
    }
}

/// Bytes of an account; released when it is dropped. For what can outlive the table that it was in.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.share.subtract(self.used());
        self.share.accounts.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_the_whole_limit() {
        let budget = MemoryBudget::default();
        let shares: usize = Purpose::ALL.iter().map(|purpose| budget.share(*purpose).limit()).sum();
        assert_eq!((shares, budget.limit()), (DEFAULT_MEMORY_LIMIT, DEFAULT_MEMORY_LIMIT));
        for (index, purpose) in Purpose::ALL.into_iter().enumerate() {
            assert_eq!(purpose as usize, index, "{}", purpose.name());
        }
    }

    #[test]
    fn a_reservation_is_released_once() {
        let share = Arc::new(Share::new(100));
        let mut first = share.reserve(60).unwrap();
        assert!(share.reserve(41).is_none() && !first.grow(41));
        assert!(first.grow(40));
        assert_eq!((share.used(), first.bytes(), share.exhausted()), (100, 100, 2));
        first.shrink(50);
        assert!(!first.grow_leaving(31, 20) && first.grow_leaving(30, 20) && first.grow(20));
        first.shrink(30);
        let second = share.reserve(30).unwrap();
        first.shrink(1000);
        drop(first);
        assert_eq!(share.used(), 30);
        drop(second);
        assert_eq!((share.used(), share.reserve(usize::MAX).is_none()), (0, true));
    }

    #[test]
    fn an_account_has_its_guarantee_whatever_the_others_hold() {
        let share = Arc::new(Share::new(1200));
        let flooded = share.open();
        let exhaust = |account: &Account| while account.acquire(1) {};
        exhaust(&flooded);
        assert_eq!(flooded.used(), 1200, "one account has the whole share");
        flooded.release(1200);
        let quiet = [share.open(), share.open()];
        exhaust(&flooded);
        assert_eq!(flooded.used(), 800, "half of the share, and its part of the other half");
        for account in &quiet {
            assert!(account.acquire(200));
            assert!(!account.acquire(1));
        }
        assert_eq!(share.used(), 1200);
        drop(flooded);
        assert!(quiet.iter().all(|account| account.acquire(100)), "what was released is for all");
        drop(quiet);
        assert_eq!((share.used(), share.accounts.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn threads_never_exceed_a_share() {
        let share = Arc::new(Share::new(1000));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let share = &share;
                scope.spawn(move || {
                    let account = share.open();
                    for step in 0..2000_usize {
                        let bytes = (step * 7 + thread) % 90;
                        if account.acquire(bytes) {
                            assert!(share.used() <= 1000);
                            account.release(bytes);
                        }
                        drop(share.reserve(bytes));
                    }
                });
            }
        });
        assert_eq!(share.used(), 0);
    }
}
