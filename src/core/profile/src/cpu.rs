//! CPU profiles: stacks sampled by `ITIMER_PROF`.
//!
//! While a profile is taken, SIGPROF interrupts a running thread; the handler records its stack in a fixed-size table, without
//! locks and without allocation. Otherwise there is no timer.

#![expect(unsafe_code, reason = "signal handlers and timers are system calls without a safe form")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::caller::Caller;

/// Distinct stacks in the table; further ones are counted together in [`OVERFLOW`].
const STACKS: usize = 1 << 13;
/// Slots probed for a stack.
const TRIES: usize = 16;
/// Maximum depth of a recorded stack.
const FRAMES: usize = 64;
/// Maximum number of address ranges that are not unwound.
const RANGES: usize = 32;
/// Hash in a slot that is being written.
const RESERVED: u64 = 1;

/// Whether a profile is being taken.
static TAKING: AtomicBool = AtomicBool::new(false);
/// Whether the handler records samples.
static SAMPLING: AtomicBool = AtomicBool::new(false);
static TABLE: [Slot; STACKS] = [const { Slot::new() }; STACKS];
/// Samples that found no slot.
static OVERFLOW: AtomicU64 = AtomicU64::new(0);
/// Code that is not unwound from: it may hold a lock that the unwinder takes.
static NOT_UNWOUND: [(AtomicUsize, AtomicUsize); RANGES] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; RANGES];

struct Slot {
    /// 0: free.
    hash: AtomicU64,
    count: AtomicU64,
    thread: [AtomicU64; 2],
    depth: AtomicUsize,
    frames: [AtomicUsize; FRAMES],
}

impl Slot {
    const fn new() -> Self {
        Self {
            hash: AtomicU64::new(0),
            count: AtomicU64::new(0),
            thread: [const { AtomicU64::new(0) }; 2],
            depth: AtomicUsize::new(0),
            frames: [const { AtomicUsize::new(0) }; FRAMES],
        }
    }
}

/// A stack and its number of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SampledStack {
    /// Name of the thread.
    pub(super) thread: String,
    /// Return addresses, innermost first.
    pub(super) frames: Vec<usize>,
    /// Samples.
    pub(super) count: u64,
}

/// Samples for `length` at `frequency` a second of CPU time, or until the caller leaves. Blocks the thread. `None`: another profile
/// is being taken, or the timer cannot be set.
pub(super) fn profile(length: Duration, frequency: u32, caller: &Caller) -> Option<Vec<SampledStack>> {
    if TAKING.swap(true, Ordering::Acquire) {
        return None;
    }
    // Writing only to used slots leaves untouched pages unallocated.
    for stack in TABLE.iter().filter(|slot| slot.hash.load(Ordering::Relaxed) != 0) {
        stack.hash.store(0, Ordering::Relaxed);
    }
    OVERFLOW.store(0, Ordering::Relaxed);
    find_libraries();
    SAMPLING.store(true, Ordering::SeqCst);
    let is_running = install_handler() && set_timer(1_000_000 / frequency.max(1));
    if is_running {
        caller.wait(length);
    }
    // The handler stays: a pending SIGPROF would otherwise end the process.
    set_timer(0);
    SAMPLING.store(false, Ordering::SeqCst);
    let stacks = read();
    TAKING.store(false, Ordering::Release);
    is_running.then_some(stacks)
}

/// Whether a profile is being taken.
#[cfg(test)]
pub(super) fn is_sampling() -> bool {
    SAMPLING.load(Ordering::Relaxed)
}

fn read() -> Vec<SampledStack> {
    let recorded = TABLE.iter().filter(|slot| slot.hash.load(Ordering::Acquire) > RESERVED);
    let mut stacks: Vec<SampledStack> = recorded
        .map(|stack| {
            let depth = stack.depth.load(Ordering::Relaxed);
            let name: Vec<u8> =
                stack.thread.iter().flat_map(|part| part.load(Ordering::Relaxed).to_le_bytes()).collect();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            SampledStack {
                thread: String::from_utf8_lossy(name).into_owned(),
                frames: stack.frames.iter().take(depth).map(|f| f.load(Ordering::Relaxed)).collect(),
                count: stack.count.load(Ordering::Relaxed),
            }
        })
        .collect();
    let overflow = OVERFLOW.load(Ordering::Relaxed);
    if overflow > 0 {
        stacks.push(SampledStack { thread: "overflow".to_owned(), frames: Vec::new(), count: overflow });
    }
    stacks
}

/// Finds the address ranges of the libraries that the unwinder uses.
fn find_libraries() {
    const NAMES: [&str; 4] = ["/libc.so", "/libgcc_s", "/ld-linux", "[vdso]"];
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let ranges = maps.lines().filter(|line| NAMES.iter().any(|name| line.contains(name)));
    let ranges = ranges.filter_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
    });
    for (place, (start, end)) in NOT_UNWOUND.iter().zip(ranges.chain(std::iter::repeat((0, 0)))) {
        place.0.store(start, Ordering::Relaxed);
        place.1.store(end, Ordering::Relaxed);
    }
}

fn is_unwound(address: usize) -> bool {
    !NOT_UNWOUND
        .iter()
        .any(|(start, end)| (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address))
}

fn install_handler() -> bool {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
    // SAFETY: the structure is plain data, and every member that is read is set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// Sets the interval of the timer in microseconds of CPU time; 0 stops it.
fn set_timer(microseconds: u32) -> bool {
    let every = libc::timeval { tv_sec: 0, tv_usec: libc::suseconds_t::from(microseconds) };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: both are valid for the call, and a null pointer is allowed for the second.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) == 0 }
}

/// The instruction pointer of the interrupted thread.
fn interrupted(context: *mut c_void) -> usize {
    // SAFETY: with SA_SIGINFO the kernel passes a `ucontext_t`.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_ref() }) else { return 0 };
    #[cfg(target_arch = "x86_64")]
    let address =
        context.uc_mcontext.gregs.get(libc::REG_RIP as usize).map_or(0, |at| at.cast_unsigned() as usize);
    #[cfg(target_arch = "aarch64")]
    let address = context.uc_mcontext.pc as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let address = 0;
    address
}

/// Async-signal-safe: takes no lock and does not allocate.
extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    if !SAMPLING.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the address is that of the current thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: see above.
    let before = unsafe { *errno };
    let at = interrupted(context);
    let mut frames = [0_usize; FRAMES];
    let mut depth = 0;
    if is_unwound(at) {
        // SAFETY: the interrupted code holds no lock of the unwinder; symbols are not resolved.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                let address = frame.ip().addr();
                // The frames above the interrupted one belong to this handler.
                if (depth > 0 || address == at)
                    && let Some(frame) = frames.get_mut(depth)
                {
                    *frame = if depth == 0 { at.wrapping_add(1) } else { address };
                    depth += 1;
                }
                depth < FRAMES
            });
        }
    }
    if depth == 0 {
        frames = [0; FRAMES];
        if let Some(first) = frames.first_mut() {
            *first = at.wrapping_add(1);
        }
        depth = 1;
    }
    record(frames.get(..depth).unwrap_or_default());
    // SAFETY: see above.
    unsafe { *errno = before };
}

/// Name of the current thread, NUL-padded.
fn thread_name() -> [u64; 2] {
    let mut name = [0_u64; 2];
    // SAFETY: the kernel writes at most sixteen bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Counts a stack.
fn record(frames: &[usize]) {
    let thread = thread_name();
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = thread.iter().copied().chain(frames.iter().map(|at| *at as u64)).fold(0x51_7c_c1, mix);
    let hash = hash.max(RESERVED + 1);
    for step in 0..TRIES {
        let Some(stack) = TABLE.get((hash as usize).wrapping_add(step) % STACKS) else { return };
        match stack.hash.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                stack.frames.iter().zip(frames).for_each(|(place, at)| place.store(*at, Ordering::Relaxed));
                stack
                    .thread
                    .iter()
                    .zip(thread)
                    .for_each(|(place, part)| place.store(part, Ordering::Relaxed));
                stack.depth.store(frames.len(), Ordering::Relaxed);
                stack.count.store(1, Ordering::Relaxed);
                stack.hash.store(hash, Ordering::Release);
                return;
            }
            Err(known) if known == hash => {
                stack.count.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Err(_) => {}
        }
    }
    OVERFLOW.fetch_add(1, Ordering::Relaxed);
}
