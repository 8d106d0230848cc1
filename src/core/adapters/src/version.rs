//! Versions of what answers follow besides the configuration: lists, data, roles.

use std::sync::atomic::{AtomicU64, Ordering};

/// A version that nothing of this process has had.
pub(crate) fn next_version() -> u64 {
    static VERSIONS: AtomicU64 = AtomicU64::new(1);
    VERSIONS.fetch_add(1, Ordering::Relaxed)
}
