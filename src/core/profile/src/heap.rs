//! Which code holds memory: the stacks of sampled allocations that are still in use.
//!
//! [`SampledAllocator`] is the allocator of the system with one question more a call: whether anybody samples now. If so, every
//! thread notes the stack of one allocation in so many bytes, in a table of fixed size without locks, and frees look there
//! whether they concern it. Nothing here allocates, but what reads the table. The program installs it; see `main.rs`.

#![expect(unsafe_code, reason = "an allocator can only be written so")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Allocations that can be known at once; a power of two.
const SLOTS: usize = 1 << 14;
/// Frames that are kept of a stack.
const FRAMES: usize = 40;
/// Bytes between two samples while somebody asked for a profile.
const PASSING_RATE: u64 = 64 << 10;
/// Stands in a slot whose record is being written.
const RESERVED: usize = 1;

/// Whether allocations are looked at.
static SAMPLING: AtomicBool = AtomicBool::new(false);
/// Whether they are for good.
static LASTING: AtomicBool = AtomicBool::new(false);
/// Mean number of bytes between two samples.
static RATE: AtomicU64 = AtomicU64::new(PASSING_RATE);
/// Counts profiles that look at a length of time.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Whether such a profile is being taken.
static TAKING: AtomicBool = AtomicBool::new(false);

/// An allocation that is known stands at the hash of its address, and nowhere else.
static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

struct Slot {
    /// 0 for nothing.
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
        // The lowest bits of addresses are alike.
        let hash = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> (usize::BITS - 14);
        TABLE.get(hash)
    }
}

/// What a thread knows between allocations.
struct Local {
    /// Bytes until the next sample.
    left: Cell<i64>,
    /// 0 before the first.
    seed: Cell<u64>,
    /// What is allocated now is not looked at.
    busy: Cell<bool>,
}

thread_local! {
    static LOCAL: Local = const { Local { left: Cell::new(0), seed: Cell::new(0), busy: Cell::new(false) } };
}

impl Local {
    /// Bytes to the next sample: random, so that what repeats is not missed, and as many as the rate in the mean.
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

/// The allocator of the system, which can be asked what holds memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampledAllocator;

// SAFETY: memory is that of the system's allocator, with its layouts; what is noted about it is never used to reach it.
unsafe impl GlobalAlloc for SampledAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let memory = unsafe { System.alloc(layout) };
        if SAMPLING.load(Ordering::Relaxed) {
            consider(memory, layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if SAMPLING.load(Ordering::Relaxed) {
            consider(memory, layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if SAMPLING.load(Ordering::Relaxed) {
            forget(memory);
        }
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_sampling = SAMPLING.load(Ordering::Relaxed);
        if is_sampling {
            // Afterwards somebody else may have that address.
            forget(memory);
        }
        // SAFETY: as the caller promises.
        let moved = unsafe { System.realloc(memory, layout, size) };
        if is_sampling {
            consider(moved, size);
        }
        moved
    }
}

/// Notes an allocation if it is its turn.
#[cold]
fn consider(memory: *mut u8, size: usize) {
    // A thread that ends notes nothing more.
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
            note(memory.addr(), size, rate);
            local.left.set(local.draw(rate));
            local.busy.set(false);
        }
    });
}

/// Writes the record of an allocation. If its slot is taken, it stays unknown.
fn note(address: usize, size: usize, rate: u64) {
    let Some(slot) = Slot::of(address) else { return };
    if slot.address.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    slot.size.store(size, Ordering::Relaxed);
    slot.rate.store(rate, Ordering::Relaxed);
    slot.epoch.store(EPOCH.load(Ordering::Relaxed), Ordering::Relaxed);
    let mut frames = slot.frames.iter();
    // SAFETY: frames are only counted here and symbols are not looked up; walking the stack so needs no lock on this system.
    unsafe {
        backtrace::trace_unsynchronized(|frame| match frames.next() {
            Some(place) => {
                place.store(frame.ip().addr(), Ordering::Relaxed);
                true
            }
            None => false,
        });
    }
    slot.depth.store(FRAMES - frames.len(), Ordering::Relaxed);
    slot.address.store(address, Ordering::Release);
}

/// Forgets an allocation that is about to end.
#[cold]
fn forget(memory: *mut u8) {
    if let Some(slot) = Slot::of(memory.addr())
        && slot.address.load(Ordering::Relaxed) == memory.addr()
        && !memory.is_null()
    {
        slot.address.store(0, Ordering::Release);
    }
}

/// Gives memory that is free back to the system, as far as the allocator knows of it.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Allocations in use that have one stack.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Held {
    /// Return addresses, innermost first.
    pub(super) frames: Vec<usize>,
    /// Estimated number.
    pub(super) objects: f64,
    /// Estimated size, in bytes.
    pub(super) bytes: f64,
}

/// Samples allocations from now on, one in so many bytes.
pub fn sample_for_good(rate: u64) {
    RATE.store(rate.max(1), Ordering::Relaxed);
    LASTING.store(true, Ordering::Relaxed);
    SAMPLING.store(true, Ordering::Relaxed);
}

/// Whether allocations are sampled for good.
pub(super) fn is_sampled_for_good() -> bool {
    LASTING.load(Ordering::Relaxed)
}

/// Everything that is known and in use now.
pub(super) fn in_use() -> Vec<Held> {
    quietly(|| read(|_| true))
}

/// What was allocated within that time and is in use at its end. Blocks its thread. `None`: another one is being taken.
pub(super) fn in_use_since(length: Duration) -> Option<Vec<Held>> {
    if TAKING.swap(true, Ordering::Acquire) {
        return None;
    }
    if !is_sampled_for_good() {
        RATE.store(PASSING_RATE, Ordering::Relaxed);
        // What was left behind by the profile before may have ended unseen.
        for slot in TABLE.iter().filter(|slot| slot.address.load(Ordering::Relaxed) > RESERVED) {
            slot.address.store(0, Ordering::Relaxed);
        }
    }
    let epoch = EPOCH.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    SAMPLING.store(true, Ordering::Relaxed);
    std::thread::sleep(length);
    let held = quietly(|| read(|of| of == epoch));
    if !is_sampled_for_good() {
        SAMPLING.store(false, Ordering::Relaxed);
    }
    TAKING.store(false, Ordering::Release);
    Some(held)
}

/// What the reader itself allocates is no part of the picture.
pub(super) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let before = LOCAL.with(|local| local.busy.replace(true));
    let done = work();
    LOCAL.with(|local| local.busy.set(before));
    done
}

fn read(wanted: impl Fn(u32) -> bool) -> Vec<Held> {
    let mut held = Vec::new();
    for slot in &TABLE {
        let address = slot.address.load(Ordering::Acquire);
        if address <= RESERVED || !wanted(slot.epoch.load(Ordering::Relaxed)) {
            continue;
        }
        let depth = slot.depth.load(Ordering::Relaxed);
        let frames = slot.frames.iter().take(depth).map(|frame| frame.load(Ordering::Relaxed)).collect();
        let size = slot.size.load(Ordering::Relaxed).max(1) as f64;
        let rate = slot.rate.load(Ordering::Relaxed).max(1) as f64;
        if slot.address.load(Ordering::Acquire) != address {
            // It ended while it was read.
            continue;
        }
        // A small allocation is seldom met, and stands for all those that were not.
        let objects = 1.0 / (1.0 - (-size / rate).exp());
        held.push(Held { frames, objects, bytes: objects * size });
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_found_and_what_ended_is_not() {
        // The allocator of this test program is another; this one is asked directly.
        let small = Layout::from_size_align(1 << 10, 8).unwrap();
        let large = Layout::from_size_align(1 << 20, 8).unwrap();
        let taker = std::thread::spawn(|| {
            let held = in_use_since(Duration::from_millis(400)).unwrap();
            (held, SAMPLING.load(Ordering::Relaxed))
        });
        while !SAMPLING.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        assert!(in_use_since(Duration::ZERO).is_none(), "one at a time");
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
        assert!(!still, "nothing is sampled when nobody asks");
        // SAFETY: see above.
        kept.iter().for_each(|memory| unsafe { SampledAllocator.dealloc(*memory, large) });
        let bytes: f64 = held.iter().map(|h| h.bytes).sum();
        // Two of the eight may have met in one slot.
        let expected = (6 << 20) as f64..(9 << 20) as f64;
        assert!(expected.contains(&bytes), "{bytes} bytes in {} stacks", held.len());
        assert!(held.iter().all(|h| h.frames.len() > 2));
    }

    #[test]
    fn samples_come_as_often_as_they_should() {
        let local = Local { left: Cell::new(0), seed: Cell::new(0), busy: Cell::new(false) };
        let mean = (0..20_000).map(|_| local.draw(1 << 16) as f64).sum::<f64>() / 20_000.0;
        assert!((60_000.0..71_000.0).contains(&mean), "{mean}");
    }
}
