//! Rate limits of log records, per call site.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Admits a number of records per second and counts the suppressed ones. One per call site; see [`warn_limited!`](crate::warn_limited).
#[derive(Debug)]
pub struct RateLimit {
    per_second: u32,
    /// The second in the upper half, records admitted in it in the lower.
    window: AtomicU64,
    suppressed: AtomicU64,
}

impl RateLimit {
    /// Admits `per_second` records per second.
    pub const fn new(per_second: u32) -> Self {
        Self { per_second, window: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Admits a record, and returns how many were suppressed since the last admitted one; `None`: it is suppressed.
    pub fn admit(&self) -> Option<u64> {
        static START: OnceLock<Instant> = OnceLock::new();
        self.admit_at(START.get_or_init(Instant::now).elapsed().as_secs())
    }

    fn admit_at(&self, second: u64) -> Option<u64> {
        // The first second is 1, so that it differs from the empty window.
        let second = (second + 1) << 32;
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
        static LIMIT: $crate::log::RateLimit =
            $crate::log::RateLimit::new($per_second);
        match LIMIT.admit() {
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
        let admitted = [0, 0, 0, 0, 1, 1, 1, 5].map(|second| limit.admit_at(second));
        assert_eq!(admitted, [Some(0), Some(0), None, None, Some(2), Some(0), None, Some(1)]);
    }
}
