//! Heap profiles: the stacks of sampled allocations that are still live.
//!
//! [`SampledAllocator`] is the system allocator plus one relaxed load per call while sampling is off. While it is on, each thread
//! records the stack of one allocation per sampling interval in a fixed-size lock-free table, and a free clears its slot. Only the
//! reader of the table allocates.

#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::caller::Caller;

/// Live samples that the table holds; a power of two.
const SLOTS: usize = 1 << 14;
/// Maximum depth of a recorded stack.
const FRAMES: usize = 40;
/// Mean sampling interval in bytes for a profile of limited length.
const DEFAULT_RATE: u64 = 64 << 10;
/// Address in a slot whose record is being written.
const RESERVED: usize = 1;

/// Whether allocations are sampled.
static SAMPLING: AtomicBool = AtomicBool::new(false);
/// Whether sampling is continuous.
static CONTINUOUS: AtomicBool = AtomicBool::new(false);
/// Mean sampling interval in bytes.
static RATE: AtomicU64 = AtomicU64::new(DEFAULT_RATE);
/// Number of the current profile of limited length.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Whether a profile of limited length is being taken.
static TAKING: AtomicBool = AtomicBool::new(false);

/// Samples by the hash of their address. No probing: on a collision the later allocation is not recorded.
static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

struct Slot {
    /// 0: free.
    address: AtomicUsize,
    size: AtomicUsize,
    rate: AtomicU64,
    epoch: AtomicU32,
    depth: AtomicUsize,
    frames: [AtomicUsize; FRAMES],
}

impl Slot {
    const fn new() -> Self {
        Self {
            address: AtomicUsize::new(0),
            size: AtomicUsize::new(0),
            rate: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            depth: AtomicUsize::new(0),
            frames: [const { AtomicUsize::new(0) }; FRAMES],
        }
    }

    fn of(address: usize) -> Option<&'static Self> {
        // The low bits are alignment.
        let hash = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> (usize::BITS - 14);
        TABLE.get(hash)
    }
}

/// Sampling state of a thread.
struct ThreadSampler {
    /// Bytes until the next sample.
    left: Cell<i64>,
    /// State of the generator; 0 before the first use.
    seed: Cell<u64>,
    /// Allocations of the profiler itself are not sampled.
    busy: Cell<bool>,
}

thread_local! {
    static LOCAL: ThreadSampler = const { ThreadSampler { left: Cell::new(0), seed: Cell::new(0), busy: Cell::new(false) } };
}

impl ThreadSampler {
    /// Bytes to the next sample, exponentially distributed with mean `rate`.
    fn draw(&self, rate: u64) -> i64 {
        let mut seed = self.seed.get();
        if seed == 0 {
            seed = (std::ptr::from_ref(self).addr() as u64) | 1;
        }
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        self.seed.set(seed);
        let share = ((seed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (-share.ln() * rate as f64) as i64
    }
}

/// The system allocator with heap sampling.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampledAllocator;

// SAFETY: every call goes to `System` with the same layout; recorded addresses are never dereferenced.
unsafe impl GlobalAlloc for SampledAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        let memory = unsafe { System.alloc(layout) };
        if SAMPLING.load(Ordering::Relaxed) {
            maybe_record(memory, layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if SAMPLING.load(Ordering::Relaxed) {
            maybe_record(memory, layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if SAMPLING.load(Ordering::Relaxed) {
            forget(memory);
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_sampling = SAMPLING.load(Ordering::Relaxed);
        if is_sampling {
            // Another thread may get this address as soon as it is freed.
            forget(memory);
        }
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        let moved = unsafe { System.realloc(memory, layout, size) };
        if is_sampling {
            maybe_record(moved, size);
        }
        moved
    }
}

/// Records the allocation if the sampling interval is over.
#[cold]
fn maybe_record(memory: *mut u8, size: usize) {
    // No thread-local state while the thread is being destroyed.
    let _ = LOCAL.try_with(|local| {
        if local.busy.get() || memory.is_null() {
            return;
        }
        let rate = RATE.load(Ordering::Relaxed);
        if local.seed.get() == 0 {
            local.left.set(local.draw(rate));
        }
        let left = local.left.get().saturating_sub_unsigned(size as u64);
        local.left.set(left);
        if left < 0 {
            local.busy.set(true);
            record(memory.addr(), size, rate);
            local.left.set(local.draw(rate));
            local.busy.set(false);
        }
    });
}

/// Records an allocation unless its slot is in use.
fn record(address: usize, size: usize, rate: u64) {
    let Some(slot) = Slot::of(address) else { return };
    if slot.address.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    slot.size.store(size, Ordering::Relaxed);
    slot.rate.store(rate, Ordering::Relaxed);
    slot.epoch.store(EPOCH.load(Ordering::Relaxed), Ordering::Relaxed);
    let mut frames = slot.frames.iter();
    // SAFETY: the closure only stores addresses and resolves no symbols; unwinding takes no lock on this platform.
    unsafe {
        backtrace::trace_unsynchronized(|frame| match frames.next() {
            Some(slot) => {
                slot.store(frame.ip().addr(), Ordering::Relaxed);
                true
            }
            None => false,
        });
    }
    slot.depth.store(FRAMES - frames.len(), Ordering::Relaxed);
    slot.address.store(address, Ordering::Release);
}

/// Clears the record of an allocation before it is freed.
#[cold]
fn forget(memory: *mut u8) {
    if let Some(slot) = Slot::of(memory.addr())
        && slot.address.load(Ordering::Relaxed) == memory.addr()
        && !memory.is_null()
    {
        slot.address.store(0, Ordering::Release);
    }
}

/// Live allocations with the same stack.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LiveStack {
    /// Return addresses, innermost first.
    pub(super) frames: Vec<usize>,
    /// Estimated number.
    pub(super) objects: f64,
    /// Estimated size, in bytes.
    pub(super) bytes: f64,
}

/// Samples allocations from now on, one per `rate` bytes on average.
pub fn sample_continuously(rate: u64) {
    RATE.store(rate.max(1), Ordering::Relaxed);
    CONTINUOUS.store(true, Ordering::Relaxed);
    SAMPLING.store(true, Ordering::Relaxed);
}

/// Whether sampling is continuous.
pub(super) fn is_sampled_continuously() -> bool {
    CONTINUOUS.load(Ordering::Relaxed)
}

/// All live samples.
pub(super) fn in_use() -> Vec<LiveStack> {
    quietly(|| read(|_| true))
}

/// Samples made within `length`, or until the caller leaves, that are live at its end. Blocks the thread. `None`: such a profile is
/// already being taken.
pub(super) fn in_use_since(length: Duration, caller: &Caller) -> Option<Vec<LiveStack>> {
    if TAKING.swap(true, Ordering::Acquire) {
        return None;
    }
    if !is_sampled_continuously() {
        RATE.store(DEFAULT_RATE, Ordering::Relaxed);
        // Samples of an earlier profile may have been freed while sampling was off.
        for slot in TABLE.iter().filter(|slot| slot.address.load(Ordering::Relaxed) > RESERVED) {
            slot.address.store(0, Ordering::Relaxed);
        }
    }
    let epoch = EPOCH.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    SAMPLING.store(true, Ordering::Relaxed);
    caller.wait(length);
    let live = quietly(|| read(|of| of == epoch));
    if !is_sampled_continuously() {
        SAMPLING.store(false, Ordering::Relaxed);
    }
    TAKING.store(false, Ordering::Release);
    Some(live)
}

/// Runs `work` without sampling its allocations.
pub(super) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let before = LOCAL.with(|local| local.busy.replace(true));
    let done = work();
    LOCAL.with(|local| local.busy.set(before));
    done
}

fn read(is_included: impl Fn(u32) -> bool) -> Vec<LiveStack> {
    let mut live = Vec::new();
    for slot in &TABLE {
        let address = slot.address.load(Ordering::Acquire);
        if address <= RESERVED || !is_included(slot.epoch.load(Ordering::Relaxed)) {
            continue;
        }
        let depth = slot.depth.load(Ordering::Relaxed);
        let frames = slot.frames.iter().take(depth).map(|frame| frame.load(Ordering::Relaxed)).collect();
        let size = slot.size.load(Ordering::Relaxed).max(1) as f64;
        let rate = slot.rate.load(Ordering::Relaxed).max(1) as f64;
        if slot.address.load(Ordering::Acquire) != address {
            // Freed while it was read.
            continue;
        }
        // Unbiases the sample: an allocation of this size is sampled with probability 1 - e^(-size/rate).
        let objects = 1.0 / (1.0 - (-size / rate).exp());
        live.push(LiveStack { frames, objects, bytes: objects * size });
    }
    live
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_allocations_are_found_and_freed_ones_are_not() {
        // Called directly: the test program has another global allocator.
        let small = Layout::from_size_align(1 << 10, 8).unwrap();
        let large = Layout::from_size_align(1 << 20, 8).unwrap();
        let taker = std::thread::spawn(|| {
            let (_presence, caller) = crate::caller::arrive();
            let held = in_use_since(Duration::from_millis(400), &caller).unwrap();
            (held, SAMPLING.load(Ordering::Relaxed))
        });
        while !SAMPLING.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert!(in_use_since(Duration::ZERO, &crate::caller::arrive().1).is_none(), "one at a time");
        // SAFETY: the layouts have a size, and what is freed is freed once with its layout.
        let kept = unsafe {
            let kept: Vec<*mut u8> = (0..8).map(|_| SampledAllocator.alloc(large)).collect();
            for _ in 0..10_000 {
                let passing = SampledAllocator.alloc(small);
                SampledAllocator.dealloc(passing, small);
            }
            let grown = SampledAllocator.realloc(SampledAllocator.alloc_zeroed(small), small, 2 << 20);
            SampledAllocator.dealloc(grown, Layout::from_size_align(2 << 20, 8).unwrap());
            kept
        };
        let (held, still) = taker.join().unwrap();
        assert!(!still, "sampling ends with the profile");
        // SAFETY: see above.
        kept.iter().for_each(|memory| unsafe { SampledAllocator.dealloc(*memory, large) });
        let bytes: f64 = held.iter().map(|h| h.bytes).sum();
        // Two of the eight may have collided in one slot.
        let expected = (6 << 20) as f64..(9 << 20) as f64;
        assert!(expected.contains(&bytes), "{bytes} bytes in {} stacks", held.len());
        assert!(held.iter().all(|h| h.frames.len() > 2));
    }

    #[test]
    fn the_mean_interval_is_the_rate() {
        let local = ThreadSampler { left: Cell::new(0), seed: Cell::new(0), busy: Cell::new(false) };
        let mean = (0..20_000).map(|_| local.draw(1 << 16) as f64).sum::<f64>() / 20_000.0;
        assert!((60_000.0..71_000.0).contains(&mean), "{mean}");
    }
}
