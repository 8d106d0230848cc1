//! Where evaluations take place: on the thread of their call while calls with inputs of about their length are quick, else on threads of
//! which those with long inputs have a part, so that short ones do not wait behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

/// How long an evaluation may hold the thread of its call.
pub(super) const INLINE: Duration = Duration::from_millis(2);
/// After one that took longer, so many quick ones in a row are evaluated on another thread before calls are trusted again.
const DISTRUST: u32 = 256;
/// Longest input of a short call, in bytes of text.
const SHORT: usize = 4 << 10;
/// Lengths that are told apart: below 1 KiB, 2 KiB, 4 KiB and so on.
const LENGTHS: usize = 12;

/// Threads for evaluations that take long, shared by the handlers of a server: for short inputs one for each core, for long ones half as
/// many.
pub(super) struct SlowThreads {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Default for SlowThreads {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            short: Arc::new(Semaphore::new(threads)),
            long: Arc::new(Semaphore::new((threads / 2).max(1))),
        }
    }
}

impl SlowThreads {
    /// Those for an input of this length.
    pub(super) fn of(&self, bytes: usize) -> &Arc<Semaphore> {
        if bytes <= SHORT { &self.short } else { &self.long }
    }
}

/// Whether calls may be evaluated on their own threads, by the length of their inputs: what is quick for short ones may not be for long
/// ones.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// Quick evaluations that are to come first.
    left: [AtomicU32; LENGTHS],
}

impl Trust {
    fn left(&self, bytes: usize) -> Option<&AtomicU32> {
        let length = usize::try_from(usize::BITS - (bytes >> 10).leading_zeros()).unwrap_or(LENGTHS);
        self.left.get(length.min(LENGTHS - 1))
    }

    /// Whether it is given to a call with an input of this length.
    pub(super) fn is_given(&self, bytes: usize) -> bool {
        self.left(bytes).is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }

    /// Notes how long an evaluation took that was not to its end on the thread of its call.
    pub(super) fn note(&self, bytes: usize, took: Duration) {
        let Some(place) = self.left(bytes) else { return };
        let left = place.load(Ordering::Relaxed);
        let left = if took < INLINE { left.saturating_sub(1) } else { DISTRUST };
        // A lost update is one evaluation more on another thread.
        place.store(left, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_evaluations_are_trusted_again() {
        let trust = Trust::default();
        assert!(trust.is_given(10));
        trust.note(10, INLINE);
        for _ in 1..DISTRUST {
            trust.note(10, INLINE / 2);
            assert!(!trust.is_given(10));
        }
        trust.note(10, INLINE * 2);
        assert!(!trust.is_given(10), "it begins again");
        for _ in 0..DISTRUST {
            assert!(!trust.is_given(10));
            trust.note(10, Duration::ZERO);
        }
        assert!(trust.is_given(10));
    }

    #[test]
    fn lengths_are_trusted_apart() {
        let trust = Trust::default();
        let lengths = [0, 1 << 10, 2 << 10, 4 << 10, 64 << 10, 1 << 20, usize::MAX];
        for slow in [1 << 10, 64 << 10, usize::MAX] {
            trust.note(slow, INLINE);
        }
        assert_eq!(
            lengths.map(|bytes| trust.is_given(bytes)),
            [true, false, true, true, false, false, false]
        );
        assert!(trust.is_given(1023) && !trust.is_given(2047), "lengths of one class share their trust");
    }

    #[tokio::test]
    async fn short_inputs_have_threads_of_their_own() {
        let threads = SlowThreads::default();
        let all = u32::try_from(threads.of(SHORT + 1).available_permits()).unwrap();
        let _held = threads.of(usize::MAX).acquire_many(all).await.unwrap();
        assert_eq!(threads.of(SHORT + 1).available_permits(), 0);
        assert!(threads.of(SHORT).try_acquire().is_ok() && threads.of(0).try_acquire().is_ok());
    }
}
