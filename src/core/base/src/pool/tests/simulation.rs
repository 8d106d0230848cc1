//! A backend under bursts of calls, served through a pool, in steps of a millisecond.

use std::collections::VecDeque;

use super::super::{ControlLaw, LatencyWindow};

/// How long the simulation runs, in milliseconds.
const LENGTH: u64 = 40_000;
/// Deadline of a caller, in milliseconds.
const DEADLINE: u64 = 200;
/// Calls that may wait for the pool.
const QUEUE: usize = 256;
/// The backend abandons calls after this time, in milliseconds.
const ABANDONED: u64 = 1000;
/// Service time of one call at an idle backend, in milliseconds.
const SERVICE: f64 = 10.0;

/// Calls that the backend serves at full speed: it scales up, loses most of its machines, and recovers in part.
fn parallel(now: u64) -> f64 {
    match now / 10_000 {
        0 => 16.0,
        1 => 96.0,
        2 => 6.0,
        _ => 48.0,
    }
}

/// Progress of one of `working` calls in a millisecond, as a share of its work. Calls beyond the capacity of the backend share
/// it, and each of them lowers it.
fn progress(parallel: f64, working: usize) -> f64 {
    let working = working.max(1) as f64;
    let over = (working - parallel).max(0.0);
    (parallel / working).min(1.0) / (1.0 + 0.02 * over) / SERVICE
}

/// Mean arrivals per millisecond: below capacity for three quarters of a second, then above it.
fn arrivals(now: u64) -> f64 {
    let capacity = parallel(now) / SERVICE;
    if now % 1000 < 750 { capacity * 0.7 } else { capacity * 1.6 }
}

struct Job {
    arrived: u64,
    started: u64,
    left: f64,
}

/// A deterministic generator of numbers from 0 to 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Calls answered within their deadline, with a fixed limit or with the control law.
fn goodput(fixed: usize, mut law: Option<ControlLaw>, seed: u64) -> u64 {
    let mut random = Random(seed);
    let mut limit = law.as_ref().map_or(fixed, ControlLaw::limit);
    let (mut queue, mut work) = (VecDeque::new(), Vec::<Job>::new());
    let (mut window, mut latencies, mut good) = (LatencyWindow::default(), 0.0, 0);
    for now in 0..LENGTH {
        let rate = arrivals(now);
        for _ in 0..rate as usize + usize::from(random.next() < rate.fract()) {
            if queue.len() < QUEUE {
                queue.push_back(now);
            }
        }
        while queue.front().is_some_and(|arrived| now - arrived >= DEADLINE) {
            queue.pop_front();
        }
        while work.len() < limit
            && let Some(arrived) = queue.pop_front()
        {
            work.push(Job { arrived, started: now, left: 1.0 });
        }
        window.peak = window.peak.max(work.len());
        window.queued |= !queue.is_empty();
        let progress = progress(parallel(now), work.len());
        work.retain_mut(|job| {
            job.left -= progress;
            if job.left > 0.0 {
                return now - job.arrived < ABANDONED;
            }
            good += u64::from(now - job.arrived < DEADLINE);
            window.completed += 1;
            latencies += (now + 1 - job.started) as f64 / 1000.0;
            false
        });
        if now % 100 == 99
            && let Some(law) = &mut law
        {
            window.mean_latency = latencies / window.completed.max(1) as f64;
            limit = law.step(window);
            (window, latencies) = (LatencyWindow::default(), 0.0);
        }
    }
    good
}

#[test]
fn an_adaptive_pool_answers_more_calls_in_time_than_any_fixed_one() {
    for seed in [0x2545_F491_4F6C_DD1D, 0x9E37_79B9_7F4A_7C15, 0x0123_4567_89AB_CDEF] {
        let adaptive = goodput(0, Some(ControlLaw::new(4, 512)), seed);
        let sizes = [6, 12, 16, 24, 32, 48, 64, 80, 96, 128, 256];
        let fixed = sizes.map(|size| (goodput(size, None, seed), size));
        let (best, size) = fixed.into_iter().max().unwrap_or_default();
        assert!(adaptive * 10 > best * 11, "adaptive {adaptive}, best fixed {best} with {size}");
    }
}
