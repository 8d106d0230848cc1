//! How the system schedules threads that answer calls, and those that give way to them.

use std::sync::atomic::{AtomicBool, Ordering};

/// The time slice of a thread that answers calls.
const SLICE: std::time::Duration = std::time::Duration::from_micros(100);

/// Asks the system for short time slices of the calling thread, not of those that it starts: when it wakes up, it preempts a thread with long
/// ones, such as one that builds a configuration or renders a page, instead of waiting until that one's slice is over (1 to 4 ms). Its
/// share of the time is the same.
///
/// Linux has this since 6.12 (`sched_setattr(2)`, `sched_runtime` of SCHED_OTHER). Elsewhere, and under another policy, nothing
/// changes.
pub fn prefer_short_waits() {
    CALLS_WAIT.store(true, Ordering::Relaxed);
    #[cfg(target_os = "linux")]
    linux::set_slice(SLICE);
}

/// Whether threads of this process answer calls. A process without any yields to nobody: on a busy machine each yield gives all of its share to
/// other programs.
static CALLS_WAIT: AtomicBool = AtomicBool::new(false);

/// How long a thread that does long work goes on before others may run, see [`let_others_run`].
const STRETCH: std::time::Duration = std::time::Duration::from_micros(50);

/// Lets the threads that wait for this core run, if the calling thread has not done so for 50 us. Long work that no call waits for, such as
/// rendering a large text, calls it after each small part: when a worker wakes up the system may let the running thread go on until its next
/// tick (1 to 4 ms), but not past this. Nothing happens in a process without threads that [answer calls](prefer_short_waits). Costs a reading of the clock, and a system call in 50 us.
pub fn let_others_run() {
    thread_local! {
        static SINCE: std::cell::Cell<Option<std::time::Instant>> = const { std::cell::Cell::new(None) };
    }
    if !CALLS_WAIT.load(Ordering::Relaxed) {
        return;
    }
    let now = std::time::Instant::now();
    let goes_on = SINCE.get().is_some_and(|since| now.saturating_duration_since(since) < STRETCH);
    if !goes_on {
        std::thread::yield_now();
        SINCE.set(Some(std::time::Instant::now()));
    }
}

/// The parts of long data, between which others may run: see [`let_others_run`]. A part is at most 32 KiB long, for some 10 us of work at a byte
/// or more a cycle.
pub fn parts_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(32 << 10).inspect(|_| let_others_run())
}

/// Gives the calling thread, and those that it starts, a tenth of the weight of a thread that answers calls: for work that takes milliseconds, that
/// no call waits for, and that holds no lock which calls take. The system looks which thread is to run when one wakes up, and at its ticks (every
/// 1 to 4 ms). After a thread of calls has run for a moment, one of the same weight is owed as much, so that a call that arrives right then
/// waits for a tick.
pub fn give_way() {
    #[cfg(target_os = "linux")]
    linux::set_nice(linux::GIVING_WAY);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;

    /// The nice value of a tenth of the usual weight. The allocator has locks that all threads take: with less weight, a thread that is interrupted
    /// while it holds one would not go on for a tenth of a second on a core that others keep busy.
    pub(super) const GIVING_WAY: libc::c_int = 10;

    /// The calling thread.
    const SELF: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;

    /// The attributes of the calling thread.
    #[expect(unsafe_code, reason = "a system call that rustix and libc do not wrap")]
    pub(super) fn attributes() -> Option<libc::sched_attr> {
        let size = u32::try_from(size_of::<libc::sched_attr>()).ok()?;
        let mut attributes = libc::sched_attr {
            size,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: the system writes at most `size` bytes to `attributes`, which has them.
        let read =
            unsafe { libc::syscall(libc::SYS_sched_getattr, SELF, &raw mut attributes, size, NO_FLAGS) };
        (read == 0).then_some(attributes)
    }

    #[expect(unsafe_code, reason = "a system call that the standard library does not have")]
    pub(super) fn set_nice(nice: libc::c_int) {
        const OF_THREAD: libc::id_t = 0;
        // SAFETY: it takes no pointer. A failure changes nothing, which is allowed.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, OF_THREAD, nice) };
    }

    #[expect(unsafe_code, reason = "a system call that rustix and libc do not wrap")]
    pub(super) fn set_slice(slice: Duration) {
        let Some(mut attributes) = attributes() else { return };
        if i32::try_from(attributes.sched_policy) != Ok(libc::SCHED_OTHER) {
            return;
        }
        attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
        attributes.sched_flags |= u64::from(libc::SCHED_FLAG_RESET_ON_FORK.unsigned_abs());
        // SAFETY: the system reads `attributes`, whose first field has its size. A failure changes nothing, which is allowed.
        unsafe { libc::syscall(libc::SYS_sched_setattr, SELF, &raw const attributes, NO_FLAGS) };
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_is_that_of_the_calling_thread_alone() {
        let of_new_thread = || std::thread::spawn(linux::attributes).join().unwrap().unwrap();
        let before = of_new_thread();
        std::thread::spawn(move || {
            prefer_short_waits();
            let own = linux::attributes().unwrap();
            // Before Linux 6.12 the system keeps no slice.
            assert!([SLICE.as_nanos(), u128::from(before.sched_runtime)].contains(&own.sched_runtime.into()));
            assert_eq!((own.sched_policy, own.sched_nice), (before.sched_policy, before.sched_nice));
            assert_eq!(of_new_thread().sched_runtime, before.sched_runtime);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_weight_is_that_of_the_calling_thread_and_of_those_that_it_starts() {
        let nice = || linux::attributes().unwrap().sched_nice;
        let before = nice();
        let given = std::thread::spawn(move || {
            give_way();
            [nice(), std::thread::spawn(nice).join().unwrap()]
        });
        assert_eq!(given.join().unwrap(), [linux::GIVING_WAY; 2]);
        assert_eq!(nice(), before);
    }
}
