//! Time that the core of a server gave to neither the server nor idleness: the host of the machine took it, or other programs did.
//!
//! On a machine that is shared, the host takes a core for milliseconds at a time, some percent of the time: a 99th percentile is then that of
//! the host. A thread that runs only when nobody else does takes what the server leaves, so that the CPU times of both, and of the
//! kernel's thread for packets, add up to the time of the core, but for what was lost. CPU times do not have what the host took
//! (`CONFIG_PARAVIRT_TIME_ACCOUNTING` of Linux). The server's core never sleeps meanwhile, attacked or not.

use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cores::{Cores, at_once, move_to, yield_to_others};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_micros(100);

/// Looks at the core of a server.
pub(crate) struct Witness {
    looks: JoinHandle<Vec<Look>>,
    idler: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

/// What was lost until a point in time.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    lost: Duration,
}

/// What was lost, and when.
#[derive(Debug, Default)]
pub(crate) struct LostTime(Vec<Look>);

impl Witness {
    /// Looks at the core of a server until it ends; `None` unless latencies are measured and the server has one core.
    pub(crate) fn start(server: u32) -> Option<Self> {
        let core = Cores::only_of_server()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let idler = std::thread::spawn(move || idle(core, &stops));
        let packets = thread_of_packets(core).expect("a thread of the kernel");
        let clocks = [CpuClock::of(server), CpuClock::of_thread(&idler), CpuClock::of(packets)];
        let stops = Arc::clone(&stop);
        let looks = std::thread::spawn(move || {
            at_once();
            let mut looks = Vec::new();
            let (began, used) = (Instant::now(), total(&clocks));
            while !stops.load(Ordering::Relaxed) {
                let used = total(&clocks).saturating_sub(used);
                let at = Instant::now();
                looks.push(Look { at, lost: (at - began).saturating_sub(used) });
                std::thread::sleep(INTERVAL);
            }
            looks
        });
        Some(Self { looks, idler, stop })
    }

    /// Ends it.
    pub(crate) fn end(self) -> LostTime {
        self.stop.store(true, Ordering::Relaxed);
        let looks = self.looks.join().expect("it does not panic");
        self.idler.join().expect("it does not panic");
        LostTime::of(looks)
    }
}

/// Takes what the server leaves of its core until `stop` is set. Once it runs, the system would let it run until the next tick, 4 ms, however
/// long a thread of the server that was preempted has waited: it offers the core again and again.
fn idle(core: usize, stop: &AtomicBool) {
    move_to(core);
    yield_to_others();
    while !stop.load(Ordering::Relaxed) {
        (0..500).for_each(|_| std::hint::spin_loop());
        std::thread::yield_now();
    }
}

impl LostTime {
    /// The kernel adds what a process used when another one runs, or at its next tick: until then too much seems to be lost. What was lost
    /// until a point in time is no more than what seems to be lost until any later one.
    fn of(mut looks: Vec<Look>) -> Self {
        let mut least = Duration::MAX;
        for look in looks.iter_mut().rev() {
            least = least.min(look.lost);
            look.lost = least;
        }
        Self(looks)
    }

    /// What was lost between two points in time.
    pub(crate) fn between(&self, begin: Instant, end: Instant) -> Duration {
        self.until(end).saturating_sub(self.until(begin)).min(end.saturating_duration_since(begin))
    }

    /// What was lost as a share of the time.
    pub(crate) fn share(&self) -> f64 {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return 0.0 };
        last.lost.as_secs_f64() / (last.at - first.at).as_secs_f64().max(1e-9)
    }

    /// What was lost until a point in time, in proportion to the time between two looks.
    fn until(&self, time: Instant) -> Duration {
        let after = self.0.partition_point(|look| look.at < time);
        let (before, after) = (after.checked_sub(1).and_then(|at| self.0.get(at)), self.0.get(after));
        match (before, after) {
            (Some(before), Some(after)) => {
                let share = (time - before.at).as_secs_f64() / (after.at - before.at).as_secs_f64();
                before.lost + after.lost.saturating_sub(before.lost).mul_f64(share.clamp(0.0, 1.0))
            }
            (only, other) => only.or(other).map_or(Duration::ZERO, |look| look.lost),
        }
    }
}

fn total(clocks: &[CpuClock]) -> Duration {
    clocks.iter().map(CpuClock::now).sum()
}

/// The thread of the kernel that receives packets on a core when there are many.
fn thread_of_packets(core: usize) -> Option<u32> {
    let name = format!("ksoftirqd/{core}\n");
    let entries = std::fs::read_dir("/proc").ok()?;
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.into_iter()
        .find(|id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|found| found == name))
}

/// The CPU time of a process or a thread.
#[derive(Debug, Clone, Copy)]
struct CpuClock(libc::clockid_t);

impl CpuClock {
    fn of(process: u32) -> Self {
        let mut clock = 0;
        let id = libc::pid_t::try_from(process).expect("the id of a process");
        #[expect(unsafe_code, reason = "clock_getcpuclockid, which the standard library does not have")]
        // SAFETY: the system writes the clock.
        let error = unsafe { libc::clock_getcpuclockid(id, &raw mut clock) };
        assert_eq!(error, 0, "process {process}");
        Self(clock)
    }

    fn of_thread<T>(thread: &JoinHandle<T>) -> Self {
        let mut clock = 0;
        #[expect(unsafe_code, reason = "pthread_getcpuclockid, which the standard library does not have")]
        // SAFETY: the handle is not joined yet, so that the thread is there; the system writes the clock.
        let error = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) };
        assert_eq!(error, 0, "the thread runs");
        Self(clock)
    }

    fn now(&self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        #[expect(unsafe_code, reason = "clock_gettime, which the standard library has for two clocks only")]
        // SAFETY: the system writes the time. Of a process that has ended it writes nothing.
        unsafe {
            libc::clock_gettime(self.0, &raw mut time);
        }
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        Duration::new(seconds.expect("above zero"), nanos.expect("below a second"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_time_is_that_between_two_points() {
        let begin = Instant::now();
        let look =
            |at, lost| Look { at: begin + Duration::from_millis(at), lost: Duration::from_millis(lost) };
        let lost = LostTime::of(vec![look(0, 0), look(10, 4), look(10, 0), look(20, 8), look(30, 8)]);
        let between = |from, to| {
            lost.between(begin + Duration::from_millis(from), begin + Duration::from_millis(to)).as_millis()
        };
        assert_eq!(between(0, 10), 0);
        assert_eq!(between(0, 30), 8);
        assert_eq!(between(10, 15), 4);
        assert_eq!(between(15, 25), 4);
        assert_eq!(between(25, 40), 0);
        assert_eq!(LostTime::default().between(begin, begin + INTERVAL), Duration::ZERO);
    }
}
