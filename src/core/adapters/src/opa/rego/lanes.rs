//! Where evaluations take place: on the thread of their call while calls with inputs of about their length are quick, else on threads of
//! which those with long inputs have a part, so that short ones do not wait behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

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
pub(in super::super) struct SlowThreads {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
    /// Held by the evaluation that waits for memory, so that no two wait for each other.
    memory: Arc<Semaphore>,
}

impl Default for SlowThreads {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self { short: semaphore(threads), long: semaphore((threads / 2).max(1)), memory: semaphore(1) }
    }
}

impl SlowThreads {
    /// Takes the threads for inputs of this length from all handlers.
    #[cfg(test)]
    pub(in super::super) async fn occupy(&self, bytes: usize) -> OwnedSemaphorePermit {
        let threads = if bytes <= SHORT { &self.short } else { &self.long };
        let all = u32::try_from(threads.available_permits()).expect("there are few");
        Arc::clone(threads).acquire_many_owned(all).await.expect("it is not closed")
    }
}

/// The threads of a handler: those of all handlers, and one for short and one for long inputs that no other handler can hold, however slow it is.
pub(super) struct Lanes {
    all: Arc<SlowThreads>,
    own: SlowThreads,
}

/// Allows an evaluation on a thread.
pub(super) type Permit = OwnedSemaphorePermit;

impl Lanes {
    pub(super) fn new(all: Arc<SlowThreads>) -> Self {
        let one = || Arc::new(Semaphore::new(1));
        Self { all, own: SlowThreads { short: one(), long: one(), memory: one() } }
    }

    /// A thread for an input of this length. Errors: never.
    pub(super) async fn thread(&self, bytes: usize) -> Result<Permit, AcquireError> {
        let of = |threads: &SlowThreads| {
            let threads = if bytes <= SHORT { &threads.short } else { &threads.long };
            Arc::clone(threads).acquire_owned()
        };
        tokio::select! {
            biased;
            own = of(&self.own) => own,
            shared = of(&self.all) => shared,
        }
    }

    /// The right to wait for memory, which one evaluation of a server has at a time. One of each handler stands in line for it, so that a
    /// handler with many does not hold up the others. Errors: never.
    pub(super) async fn turn(&self) -> Result<(Permit, Permit), AcquireError> {
        let own = Arc::clone(&self.own.memory).acquire_owned().await?;
        Ok((own, Arc::clone(&self.all.memory).acquire_owned().await?))
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
    use futures_util::FutureExt as _;

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

    /// How many threads are left for an input of this length.
    async fn left(lanes: &Lanes, bytes: usize) -> Vec<Permit> {
        let mut taken = Vec::new();
        while let Some(permit) = lanes.thread(bytes).now_or_never() {
            taken.push(permit.unwrap());
        }
        taken
    }

    #[tokio::test]
    async fn short_inputs_have_threads_of_their_own() {
        let lanes = Lanes::new(Arc::default());
        let long = left(&lanes, usize::MAX).await;
        assert!(long.len() >= 2 && left(&lanes, SHORT + 1).await.is_empty());
        assert!(left(&lanes, SHORT).await.len() >= 2 && left(&lanes, 0).await.len() >= 2);
    }

    #[tokio::test]
    async fn a_handler_has_a_thread_whatever_the_others_hold() {
        let all = Arc::<SlowThreads>::default();
        let [slow, other, third] = [0; 3].map(|_| Lanes::new(Arc::clone(&all)));
        for bytes in [0, usize::MAX] {
            let held = left(&slow, bytes).await;
            assert!(held.len() >= 2);
            let others = [left(&other, bytes).await, left(&third, bytes).await];
            assert_eq!(others.map(|taken| taken.len()), [1, 1]);
            drop(held);
            assert!(left(&other, bytes).await.len() >= 2, "what is not held is for all");
        }
    }

    #[tokio::test]
    async fn one_evaluation_waits_for_memory_and_one_of_each_handler_stands_in_line() {
        let all = Arc::<SlowThreads>::default();
        let [many, other] = [0; 2].map(|_| Lanes::new(Arc::clone(&all)));
        let first = many.turn().now_or_never().unwrap().unwrap();
        let mut second = Box::pin(many.turn());
        let mut of_other = Box::pin(other.turn());
        assert!((&mut second).now_or_never().is_none() && (&mut of_other).now_or_never().is_none());
        drop(first);
        // The second of the first handler comes after the first of the other one.
        let _held = (&mut of_other).now_or_never().unwrap().unwrap();
        assert!((&mut second).now_or_never().is_none());
    }
}
