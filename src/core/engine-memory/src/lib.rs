//! What the engine regorus asks about memory while it evaluates a policy, answered by [`mixer_base::allocation`].
//!
//! The engine looks whether the bytes that its allocator reports are above a limit of the process. Here they are [`LIMIT`] plus one
//! while the evaluation of the calling thread has to end, and none otherwise. The names are those that the engine knows.

use mixer_base::allocation::{is_exceeded, is_late};

/// The limit that has to be set in the engine, in bytes.
pub const LIMIT: u64 = 0;

/// Sets no global allocator: the program has one.
#[macro_export]
macro_rules! assign_global {
    () => {};
}

/// What the process has allocated, for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationStats {
    /// Above [`LIMIT`] if the evaluation of this thread has to end.
    pub allocated: u64,
}

/// Whether the evaluation of this thread has to end: of its memory, or of the time of a function that asks for each part of its result.
fn has_to_end() -> bool {
    is_exceeded() || is_late()
}

/// Says whether the evaluation of this thread has to end. The second part is nothing that the engine looks at.
pub fn allocation_stats_snapshot() -> (AllocationStats, ()) {
    (AllocationStats { allocated: LIMIT + u64::from(has_to_end()) }, ())
}

/// When the engine looks.
pub mod limits {
    use super::has_to_end;

    /// Nothing is buffered.
    pub fn flush_thread_counters() {}

    /// Nothing is buffered, so that there is no threshold.
    pub fn set_thread_flush_threshold(_: Option<u64>) {}

    /// Nothing is buffered, so that there is no threshold.
    pub fn thread_flush_threshold() -> Option<u64> {
        None
    }

    /// Whether the engine has to look at once.
    pub fn take_thread_flushed_since_check_flag() -> bool {
        has_to_end()
    }

    /// Nothing is buffered.
    pub fn thread_allocation_pending_delta() -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_base::allocation::{Bounds, may_allocate, metered, timed};

    #[test]
    fn what_the_engine_is_told_is_above_its_limit_once_an_evaluation_has_to_end() {
        let told = || {
            (allocation_stats_snapshot().0.allocated > LIMIT, limits::take_thread_flushed_since_check_flag())
        };
        assert_eq!(told(), (false, false));
        let (_, usage) = metered(Bounds::of(1000), || {
            assert_eq!(told(), (false, false));
            assert!(!may_allocate(2000));
            assert_eq!(told(), (true, true));
        });
        assert!(usage.exceeded.is_some());
        assert_eq!(told(), (false, false));
        assert_eq!(timed(std::time::Instant::now(), told), ((true, true), true));
        assert_eq!(told(), (false, false));
    }
}
