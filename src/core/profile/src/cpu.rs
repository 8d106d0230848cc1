//! Which code runs: stacks noted by the timer that counts the CPU time of the process.
//!
//! While a profile is taken, the kernel interrupts a running thread a hundred times a second of CPU time; the handler notes its
//! stack in a table of fixed size, without locks and without asking for memory. Otherwise there is no timer.

#![expect(unsafe_code, reason = "a handler of signals can only be written so")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Stacks that can be told apart; more are counted as one without frames.
const STACKS: usize = 1 << 13;
/// Places that are tried for a stack.
const TRIES: usize = 16;
/// Frames that are kept of a stack.
const FRAMES: usize = 64;
/// Parts of libraries that are known.
const RANGES: usize = 32;
/// Stands for a stack that is being written.
const RESERVED: u64 = 1;

/// Whether a profile is being taken.
static TAKING: AtomicBool = AtomicBool::new(false);
/// Whether the handler notes anything.
static NOTING: AtomicBool = AtomicBool::new(false);
static TABLE: [Stack; STACKS] = [const { Stack::new() }; STACKS];
/// Stacks that had no place.
static OTHERS: AtomicU64 = AtomicU64::new(0);
/// Code that cannot be left by walking the stack while a signal is handled: it may hold what the walk needs.
static FORBIDDEN: [(AtomicUsize, AtomicUsize); RANGES] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; RANGES];

struct Stack {
    /// 0 for nothing.
    hash: AtomicU64,
    count: AtomicU64,
    thread: [AtomicU64; 2],
    depth: AtomicUsize,
    frames: [AtomicUsize; FRAMES],
}

impl Stack {
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

/// A stack and how often it was met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// Name of the thread.
    pub(super) thread: String,
    /// Addresses behind the instruction that each frame is at, innermost first.
    pub(super) frames: Vec<usize>,
    /// How often.
    pub(super) count: u64,
}

/// Notes stacks for that long, so many a second of CPU time. Blocks its thread. `None`: another profile is being taken, or the
/// system has no such timer.
pub(super) fn profile(length: Duration, frequency: u32) -> Option<Vec<Seen>> {
    if TAKING.swap(true, Ordering::Acquire) {
        return None;
    }
    // What was never written to takes no memory, and stays so.
    for stack in TABLE.iter().filter(|stack| stack.hash.load(Ordering::Relaxed) != 0) {
        stack.hash.store(0, Ordering::Relaxed);
    }
    OTHERS.store(0, Ordering::Relaxed);
    forbid_libraries();
    NOTING.store(true, Ordering::SeqCst);
    let runs = listen() && set_timer(1_000_000 / frequency.max(1));
    if runs {
        std::thread::sleep(length);
    }
    // The handler stays: a signal that is under way would end the process without it.
    set_timer(0);
    NOTING.store(false, Ordering::SeqCst);
    let seen = read();
    TAKING.store(false, Ordering::Release);
    runs.then_some(seen)
}

/// Whether a profile is being taken.
#[cfg(test)]
pub(super) fn is_taking() -> bool {
    NOTING.load(Ordering::Relaxed)
}

fn read() -> Vec<Seen> {
    let noted = TABLE.iter().filter(|stack| stack.hash.load(Ordering::Acquire) > RESERVED);
    let mut seen: Vec<Seen> = noted
        .map(|stack| {
            let depth = stack.depth.load(Ordering::Relaxed);
            let name: Vec<u8> =
                stack.thread.iter().flat_map(|part| part.load(Ordering::Relaxed).to_le_bytes()).collect();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            Seen {
                thread: String::from_utf8_lossy(name).into_owned(),
                frames: stack.frames.iter().take(depth).map(|f| f.load(Ordering::Relaxed)).collect(),
                count: stack.count.load(Ordering::Relaxed),
            }
        })
        .collect();
    let others = OTHERS.load(Ordering::Relaxed);
    if others > 0 {
        seen.push(Seen { thread: "others".to_owned(), frames: Vec::new(), count: others });
    }
    seen
}

/// Finds out where the libraries are that the walk itself uses.
fn forbid_libraries() {
    const NAMES: [&str; 4] = ["/libc.so", "/libgcc_s", "/ld-linux", "[vdso]"];
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let ranges = maps.lines().filter(|line| NAMES.iter().any(|name| line.contains(name)));
    let ranges = ranges.filter_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
    });
    for (place, (start, end)) in FORBIDDEN.iter().zip(ranges.chain(std::iter::repeat((0, 0)))) {
        place.0.store(start, Ordering::Relaxed);
        place.1.store(end, Ordering::Relaxed);
    }
}

fn is_forbidden(address: usize) -> bool {
    FORBIDDEN
        .iter()
        .any(|(start, end)| (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address))
}

/// Installs the handler.
fn listen() -> bool {
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

/// Lets the timer strike every so many microseconds of CPU time; 0 stops it.
fn set_timer(microseconds: u32) -> bool {
    let every = libc::timeval { tv_sec: 0, tv_usec: libc::suseconds_t::from(microseconds) };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: both are valid for the call, and a null pointer is allowed for the second.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) == 0 }
}

/// Where the thread was.
fn interrupted(context: *mut c_void) -> usize {
    // SAFETY: the kernel gives a handler of this kind its context.
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

/// Runs wherever the timer strikes: nothing here may take a lock or ask for memory.
extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    if !NOTING.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the place is that of the present thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: see above.
    let before = unsafe { *errno };
    let at = interrupted(context);
    let mut frames = [0_usize; FRAMES];
    let mut depth = 0;
    if !is_forbidden(at) {
        // SAFETY: code that holds what the walk needs was not interrupted; symbols are not looked up.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                let address = frame.ip().addr();
                // What stands above is this handler.
                if (depth > 0 || address == at)
                    && let Some(place) = frames.get_mut(depth)
                {
                    *place = if depth == 0 { at.wrapping_add(1) } else { address };
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
    note(frames.get(..depth).unwrap_or_default());
    // SAFETY: see above.
    unsafe { *errno = before };
}

/// Name of the present thread, in two words.
fn thread_name() -> [u64; 2] {
    let mut name = [0_u64; 2];
    // SAFETY: the kernel writes at most sixteen bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Counts a stack.
fn note(frames: &[usize]) {
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
    OTHERS.fetch_add(1, Ordering::Relaxed);
}
