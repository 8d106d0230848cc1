//! The header `date`, formatted once a second.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// The text of the current second.
#[derive(Debug, Default)]
struct Cached {
    second: u64,
    text: String,
}

thread_local! {
    static CACHED: RefCell<Cached> = RefCell::default();
}

/// Passes the current date to `take`, in the form of RFC 9110.
pub(super) fn with<T>(take: impl FnOnce(&[u8]) -> T) -> T {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    CACHED.with_borrow_mut(|cached| {
        if cached.second != second || cached.text.is_empty() {
            cached.second = second;
            let time = jiff::Timestamp::try_from(now).unwrap_or_default();
            cached.text = time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        }
        take(cached.text.as_bytes())
    })
}
