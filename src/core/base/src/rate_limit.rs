//! Rate limits of log records.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// Limits of the macro [`warn_limited!`](crate::warn_limited) that have suppressed a record.
static LISTED: Mutex<Vec<&'static RateLimit>> = Mutex::new(Vec::new());

/// Admits a number of records per second and counts the suppressed ones. One per call site; see [`warn_limited!`](crate::warn_limited).
#[derive(Debug)]
pub struct RateLimit {
    per_second: u32,
    /// Where the records come from; may be empty.
    site: &'static str,
    /// The second in the upper half, records admitted in it in the lower.
    window: AtomicU64,
    suppressed: AtomicU64,
    is_listed: AtomicBool,
}

/// The current second of the process, from 1.
pub(crate) fn second() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // The first second differs from the empty window.
    START.get_or_init(Instant::now).elapsed().as_secs() + 1
}

impl RateLimit {
    /// Admits `per_second` records per second.
    pub const fn new(per_second: u32) -> Self {
        Self::at(per_second, "")
    }

    /// Admits `per_second` records per second of the call site `site`, for example `list.rs:12`.
    pub const fn at(per_second: u32, site: &'static str) -> Self {
        Self {
            per_second,
            site,
            window: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            is_listed: AtomicBool::new(false),
        }
    }

    /// Admits a record, and returns how many were suppressed since the last admitted one; `None`: it is suppressed.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(second())
    }

    /// As [`admit`](Self::admit). If no further record is admitted, the suppressed ones are counted in a record of their own.
    pub fn admit_or_note(&'static self) -> Option<u64> {
        let admitted = self.admit();
        if admitted.is_none() && !self.is_listed.swap(true, Ordering::Relaxed) {
            LISTED.lock().push(self);
        }
        admitted
    }

    fn admit_at(&self, second: u64) -> Option<u64> {
        let second = second << 32;
        let passed = self.window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |window| {
            let (at, count) = (window & !0xffff_ffff, window & 0xffff_ffff);
            match at == second {
                false => Some(second | 1),
                true if count < u64::from(self.per_second) => Some(window + 1),
                true => None,
            }
        });
        if passed.is_ok() {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// The records suppressed in a second that has passed; 0 if there are none.
    pub(crate) fn take_at(&self, second: u64) -> u64 {
        let is_current = self.window.load(Ordering::Relaxed) >> 32 == second;
        if is_current { 0 } else { self.suppressed.swap(0, Ordering::Relaxed) }
    }
}

/// As [`RateLimit::take_at`] for every limit of the macro: call site and number.
pub(crate) fn take_listed(second: u64) -> Vec<(String, u64)> {
    let taken = |limit: &&'static RateLimit| (limit.site.to_owned(), limit.take_at(second));
    LISTED.lock().iter().map(taken).collect()
}

/// Logs a warning, at most so many per second from this call site. The field `suppressed` of the next one counts those that were
/// suppressed.
///
/// ```
/// mixer_base::warn_limited!(5, quota = "rq", "Requested quota is not configured");
/// ```
#[macro_export]
macro_rules! warn_limited {
    ($per_second:expr, $($record:tt)+) => {{
        static LIMIT: $crate::rate_limit::RateLimit =
            $crate::rate_limit::RateLimit::at($per_second, ::core::concat!(::core::file!(), ":", ::core::line!()));
        match LIMIT.admit_or_note() {
            None => {}
            Some(0) => ::tracing::warn!($($record)+),
            Some(suppressed) => ::tracing::warn!(suppressed, $($record)+),
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_per_second_are_limited() {
        let limit = RateLimit::new(2);
        let admitted = [1, 1, 1, 1, 2, 2, 2, 6].map(|second| limit.admit_at(second));
        assert_eq!(admitted, [Some(0), Some(0), None, None, Some(2), Some(0), None, Some(1)]);
    }

    #[test]
    fn what_was_suppressed_is_counted_once_its_second_has_passed() {
        let limit = RateLimit::new(1);
        assert_eq!([1, 1, 1].map(|second| limit.admit_at(second)), [Some(0), None, None]);
        assert_eq!([1, 2, 3].map(|second| limit.take_at(second)), [0, 2, 0]);
        assert_eq!(limit.admit_at(4), Some(0), "counted already");
    }
}
