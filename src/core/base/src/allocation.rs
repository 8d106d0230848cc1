//! Bytes that a piece of work holds, counted by the allocator, and a bound for them.
//!
//! [`CountingAllocator`] is another allocator plus one addition to a number of the thread for each call. [`metered`] runs work whose
//! memory callers choose, such as the evaluation of a policy; the work asks [`is_exceeded`] from time to time, and ends when it is
//! told to. Nothing stops inside of an allocation: between two questions the work may go beyond its bound.
//!
//! ```
//! # #![allow(unsafe_code)]
//! use mixer_base::allocation::{Bounds, CountingAllocator, is_exceeded, metered};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator::new(std::alloc::System);
//!
//! let work = || {
//!     let mut held = Vec::new();
//!     while !is_exceeded() {
//!         held.push(vec![0_u8; 1000]);
//!     }
//!     held.len()
//! };
//! let (blocks, usage) = metered(Bounds::of(1 << 20), work);
//! assert!(usage.exceeded.is_some() && blocks > 1000 && blocks < 1100);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::budget::{Reservation, Share};

/// What an allocation takes besides its size: the header of the allocator, and what rounds the size up.
const BESIDES: isize = 16;
/// Bytes that are reserved at once.
const STEP: usize = 256 << 10;
/// Interval of looks at a share that is waited for.
const LOOK: Duration = Duration::from_millis(1);

thread_local! {
    /// Bytes that the thread allocated, less those that it freed: its own and those of other threads. Only differences mean something.
    static NET: Cell<isize> = const { Cell::new(0) };
    /// The value of [`NET`] beyond which work has to ask for more.
    static CEILING: Cell<isize> = const { Cell::new(isize::MAX) };
    static METER: RefCell<Option<Meter>> = const { RefCell::new(None) };
    /// When timed work has to end, and whether it was told so.
    static END: Cell<Option<(Instant, bool)>> = const { Cell::new(None) };
}

/// An allocator that counts what each thread holds. Cost: one addition to a variable of the thread for each call.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator<A = System>(A);

impl<A> CountingAllocator<A> {
    /// Counts what `allocator` allocates.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

#[inline]
fn count(change: isize) {
    NET.set(NET.get().wrapping_add(change));
}

#[inline]
fn size(layout: Layout) -> isize {
    layout.size().cast_signed().wrapping_add(BESIDES)
}

#[expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]
// SAFETY: every call is forwarded with its arguments; what is counted beside it neither allocates nor panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout));
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(size(layout).wrapping_neg());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { self.0.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size.wrapping_sub(layout.size()).cast_signed());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { self.0.realloc(memory, layout, new_size) }
    }
}

/// How much memory a piece of work may hold.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Most bytes.
    most: usize,
    /// Bytes that it may hold without asking.
    free: usize,
    /// Where the bytes beyond those come from; `None`: from nowhere.
    share: Option<Arc<Share>>,
    /// Bytes of the share that are not for this work.
    left: usize,
    /// Bytes of the share that are held for this work besides.
    beside: usize,
    /// Until when it waits for bytes of the share.
    waits_until: Option<Instant>,
}

impl Bounds {
    /// At most `most` bytes, of no share.
    pub fn of(most: usize) -> Self {
        Self { most, free: most, share: None, left: 0, beside: 0, waits_until: None }
    }

    /// At most `most` bytes, of which those beyond `free` are acquired from a share, and released when the work ends.
    pub fn within(most: usize, free: usize, share: Arc<Share>) -> Self {
        Self { most, free: free.min(most), share: Some(share), left: 0, beside: 0, waits_until: None }
    }

    /// Leaves bytes of the share to others.
    #[must_use]
    pub fn leaving(self, bytes: usize) -> Self {
        Self { left: bytes, ..self }
    }

    /// Bytes of the share that are held for this work already, and that it does not wait for therefore.
    #[must_use]
    pub fn beside(self, bytes: usize) -> Self {
        Self { beside: bytes, ..self }
    }

    /// Waits for bytes that the share does not have until this time, in place: only where the thread may be blocked, and for one piece of
    /// work of a share at a time, since two that wait for each other would do so to the end.
    #[must_use]
    pub fn waiting_until(self, until: Instant) -> Self {
        Self { waits_until: Some(until), ..self }
    }
}

/// Why work has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// It holds more than it may.
    Bound,
    /// The share has no more, because of what others hold.
    Share,
    /// It holds more than the share has for it alone.
    WholeShare,
}

/// What work did with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Why it had to end; `None`: it had not to.
    pub exceeded: Option<Exceeded>,
    /// Bytes that it left: allocated, and not freed.
    pub left: usize,
}

/// The work of a thread.
struct Meter {
    /// The value of [`NET`] when it began.
    begun: isize,
    bounds: Bounds,
    reserved: Option<Reservation>,
    exceeded: Option<Exceeded>,
}

impl Meter {
    fn new(bounds: Bounds) -> Self {
        Self { begun: NET.get(), bounds, reserved: None, exceeded: None }
    }

    fn held(&self) -> usize {
        usize::try_from(NET.get().wrapping_sub(self.begun)).unwrap_or(0)
    }

    /// What it may hold without asking again.
    fn allowed(&self) -> usize {
        self.bounds.free.saturating_add(self.reserved.as_ref().map_or(0, Reservation::bytes))
    }

    /// Acquires what it holds already, or notes why it cannot.
    fn settle(&mut self) {
        let held = self.held();
        if self.exceeded.is_some() {
            return;
        }
        if held > self.bounds.most {
            self.exceeded = Some(Exceeded::Bound);
            return;
        }
        if held <= self.allowed() {
            return;
        }
        let bytes = (held - self.allowed()).next_multiple_of(STEP);
        self.exceeded = self.acquire(bytes).err();
    }

    /// Acquires bytes of the share, for which it waits as long as its bounds say.
    fn acquire(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let Some(share) = &self.bounds.share else { return Err(Exceeded::Share) };
        let reserved = match &mut self.reserved {
            Some(reserved) => reserved,
            None => self.reserved.insert(share.reserve(0).ok_or(Exceeded::Share)?),
        };
        let whole = share.limit().saturating_sub(self.bounds.left);
        if reserved.bytes().saturating_add(bytes).saturating_add(self.bounds.beside) > whole {
            return Err(Exceeded::WholeShare);
        }
        loop {
            let has_room = share.used().saturating_add(bytes) <= whole;
            let may_wait = self.bounds.waits_until.is_some_and(|until| Instant::now() < until);
            // What cannot be had is counted once, not at every look.
            if (has_room || !may_wait) && reserved.grow_leaving(bytes, self.bounds.left) {
                return Ok(());
            }
            if !may_wait {
                return Err(Exceeded::Share);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    fn ceiling(&self) -> isize {
        match self.exceeded {
            Some(_) => isize::MIN,
            None => {
                let allowed = self.allowed().min(self.bounds.most);
                self.begun.saturating_add(isize::try_from(allowed).unwrap_or(isize::MAX))
            }
        }
    }
}

/// Ends the work of a thread, also if it panics.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        CEILING.set(isize::MAX);
        drop(METER.take());
    }
}

/// Runs work within bounds, and says what it did with memory. Without a [`CountingAllocator`] nothing is counted, and work inside of
/// other metered work has its bounds alone.
pub fn metered<T>(bounds: Bounds, work: impl FnOnce() -> T) -> (T, Usage) {
    let _ends = Ends;
    let meter = Meter::new(bounds);
    CEILING.set(meter.ceiling());
    METER.set(Some(meter));
    let done = work();
    let usage = METER.with_borrow(|meter| {
        let (exceeded, left) = meter.as_ref().map_or((None, 0), |meter| (meter.exceeded, meter.held()));
        Usage { exceeded, left }
    });
    (done, usage)
}

/// Whether the metered work of this thread has to end. Once it has, this stays true until it ended; without metered work it is false.
/// Cost: two reads of variables of the thread, and an addition to the share every 256 KiB.
#[inline]
pub fn is_exceeded() -> bool {
    NET.get() > CEILING.get() && settle()
}

/// Runs work that asks [`is_late`] from time to time. Returns whether it was told that it is. Timed work inside of other timed work has its
/// own time alone.
pub fn timed<T>(until: Instant, work: impl FnOnce() -> T) -> (T, bool) {
    struct Restores(Option<(Instant, bool)>);
    impl Drop for Restores {
        fn drop(&mut self) {
            END.set(self.0);
        }
    }
    let _restores = Restores(END.replace(Some((until, false))));
    let done = work();
    (done, END.get().is_some_and(|(_, was_late)| was_late))
}

/// Whether the time of the timed work of this thread is over; without timed work it is false. Cost: a look at the clock in timed work, else a
/// read of a variable of the thread.
#[inline]
pub fn is_late() -> bool {
    let Some((until, was_late)) = END.get() else { return false };
    let is_late = was_late || Instant::now() >= until;
    END.set(Some((until, is_late)));
    is_late
}

#[cold]
fn settle() -> bool {
    METER.with_borrow_mut(|meter| {
        let Some(meter) = meter else { return false };
        meter.settle();
        CEILING.set(meter.ceiling());
        meter.exceeded.is_some()
    })
}

/// Whether the metered work of this thread may allocate so many bytes more at once. If not, it has to end.
pub fn may_allocate(bytes: usize) -> bool {
    METER.with_borrow_mut(|meter| {
        let Some(meter) = meter else { return true };
        if meter.exceeded.is_none() && meter.held().saturating_add(bytes) > meter.bounds.most {
            meter.exceeded = Some(Exceeded::Bound);
            CEILING.set(meter.ceiling());
        }
        meter.exceeded.is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator::new(System);

    /// Holds blocks of 1000 bytes until there are `most`, or there may be no more.
    fn hold(most: usize) -> Vec<Vec<u8>> {
        let mut held = Vec::new();
        while held.len() < most && !is_exceeded() {
            held.push(vec![0_u8; 1000]);
        }
        held
    }

    #[test]
    fn work_ends_at_its_bound() {
        let (held, usage) = metered(Bounds::of(100_000), || hold(1000));
        assert_eq!(usage.exceeded, Some(Exceeded::Bound));
        assert!((90..=100).contains(&held.len()), "{}", held.len());
        assert!((100_000..120_000).contains(&usage.left), "{}", usage.left);
        // What was freed does not count.
        let (held, usage) = metered(Bounds::of(100_000), || (0..1000).map(|_| hold(50).len()).sum::<usize>());
        assert_eq!((held, usage), (50_000, Usage { exceeded: None, left: 0 }));
        assert!(!is_exceeded(), "nothing is metered");
    }

    #[test]
    fn timed_work_is_late_when_its_time_is_over() {
        assert!(!is_late());
        let now = Instant::now();
        assert_eq!(timed(now, is_late), (true, true));
        assert_eq!(timed(now, || ()), ((), false), "nobody asked");
        let later = now + Duration::from_secs(3600);
        assert_eq!(timed(later, || (timed(now, is_late), is_late())), (((true, true), false), false));
        assert!(std::panic::catch_unwind(|| timed(now, || panic!("on purpose"))).is_err());
        assert!(!is_late(), "nothing is timed");
    }

    #[test]
    fn work_that_had_to_end_has_to_although_it_freed_its_memory() {
        let ((), usage) = metered(Bounds::of(10_000), || {
            drop(hold(100));
            assert!(is_exceeded() && !may_allocate(0));
        });
        assert_eq!(usage, Usage { exceeded: Some(Exceeded::Bound), left: 0 });
    }

    #[test]
    fn memory_beyond_what_is_free_comes_from_a_share() {
        let share = Arc::new(Share::new(1 << 20));
        let bounds = |most| Bounds::within(most, 10_000, Arc::clone(&share));
        let ((few, many), usage) = metered(bounds(4 << 20), || {
            let few = hold(5);
            let of_few = share.used();
            let many = hold(400);
            assert!(share.used() > 400_000, "{}", share.used());
            (of_few, few.len() + many.len())
        });
        assert_eq!((few, many, usage.exceeded, share.used()), (0, 405, None, 0));
        // Two threads have one share.
        let held = share.reserve(700_000).unwrap();
        let (_, usage) = metered(bounds(4 << 20), || hold(1000).len());
        assert_eq!((usage.exceeded, share.used()), (Some(Exceeded::Share), 700_000));
        drop(held);
        let (blocks, usage) = metered(bounds(500_000), || hold(1000).len());
        assert_eq!((usage.exceeded, share.used()), (Some(Exceeded::Bound), 0));
        assert!(blocks < 500, "{blocks}");
    }

    #[test]
    fn work_waits_for_a_share_that_others_use() {
        let share = Arc::new(Share::new(1 << 20));
        let bounds = || Bounds::within(4 << 20, 10_000, Arc::clone(&share));
        let held = share.reserve(700_000).unwrap();
        let waiting = || bounds().waiting_until(Instant::now() + Duration::from_millis(5));
        let begun = Instant::now();
        let (_, usage) = metered(waiting(), || hold(700).len());
        assert_eq!((usage.exceeded, share.used(), share.exhausted()), (Some(Exceeded::Share), 700_000, 1));
        assert!(begun.elapsed() >= Duration::from_millis(5));
        let (begins, begun) = std::sync::mpsc::channel();
        let minute = Instant::now() + Duration::from_secs(60);
        let (blocks, usage) = std::thread::scope(|scope| {
            let bounds = bounds().waiting_until(minute);
            let work = scope.spawn(move || {
                metered(bounds, || {
                    let few = hold(200);
                    begins.send(()).unwrap();
                    few.len() + hold(500).len()
                })
            });
            begun.recv().unwrap();
            drop(held);
            work.join().unwrap()
        });
        assert_eq!((blocks, usage.exceeded, share.used(), share.exhausted()), (700, None, 0, 1));
    }

    #[test]
    fn work_for_which_a_share_is_too_small_does_not_wait() {
        let share = Arc::new(Share::new(1 << 20));
        let hour = Instant::now() + Duration::from_secs(3600);
        let bounds =
            Bounds::within(4 << 20, 10_000, Arc::clone(&share)).leaving(512 << 10).waiting_until(hour);
        let (blocks, usage) = metered(bounds, || hold(1000).len());
        assert_eq!((usage.exceeded, share.used(), share.exhausted()), (Some(Exceeded::WholeShare), 0, 0));
        assert!((500..540).contains(&blocks), "{blocks}");
        let held = share.reserve(100_000).unwrap();
        let bounds = Bounds::within(4 << 20, 10_000, Arc::clone(&share)).beside(100_000).waiting_until(hour);
        let (_, usage) = metered(bounds, || hold(2000).len());
        assert_eq!((usage.exceeded, share.used()), (Some(Exceeded::WholeShare), 100_000));
        drop(held);
    }

    #[test]
    fn a_large_block_is_refused_before_it_exists() {
        let ((), usage) = metered(Bounds::of(1 << 20), || {
            assert!(may_allocate(1 << 19) && !is_exceeded());
            assert!(!may_allocate(2 << 20) && is_exceeded());
        });
        assert_eq!(usage.exceeded, Some(Exceeded::Bound));
        assert!(may_allocate(usize::MAX), "nothing is metered");
    }

    #[test]
    fn work_that_panics_is_metered_no_longer() {
        let share = Arc::new(Share::new(1 << 20));
        let bounds = Bounds::within(4 << 20, 0, Arc::clone(&share));
        let panicking = std::panic::AssertUnwindSafe(|| {
            metered(bounds, || {
                let held = hold(10);
                assert!(held.is_empty(), "as expected");
            })
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert_eq!((share.used(), is_exceeded()), (0, false));
    }

    #[test]
    fn reallocations_count_what_they_add() {
        let (text, usage) = metered(Bounds::of(1 << 20), || {
            let mut text = Vec::with_capacity(10);
            (0..100_000_u32).for_each(|n| text.push(n as u8));
            text.shrink_to_fit();
            text
        });
        assert!((100_000..100_100).contains(&usage.left), "{}", usage.left);
        assert_eq!(text.len(), 100_000);
    }
}
