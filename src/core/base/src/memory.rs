//! Memory of the allocator that is free, and when to return it to the system.
//!
//! The allocator of glibc keeps what was freed: after a burst of load it holds pages between live objects for good. It returns them
//! when asked ([`release`]); [`Trimmer`] decides when that is worth its cost.

mod trim;

pub use trim::trim;

/// Resident memory above the last floor that is worth returning, in bytes.
const WORTHWHILE: u64 = 16 << 20;
/// CPU seconds per second below which the process is quiet.
const QUIET: f64 = 0.1;
/// Looks in a row at which the process must be quiet.
const QUIET_LOOKS: u32 = 3;
/// Looks in a row with memory that is worth returning, after which it is returned although the process is not quiet.
const PATIENCE: u32 = 30;

/// Size from which an allocation has pages of its own, in bytes. It grows by moving pages instead of copying them, its pages come from the
/// system as they are written, and they go back when it is freed: 256 page faults per MB, 0.5 to 1 ms. So it is larger than most messages.
pub const OWN_PAGES: usize = 2 << 20;

/// Returns free memory of the allocator and of [`pages`](crate::pages) to the system. Cost: a walk over the allocator's free lists,
/// milliseconds per 100 MB; allocations of other threads wait for parts of it.
pub fn release() {
    crate::pages::release();
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "glibc has no safe interface to its allocator")]
    // SAFETY: malloc_trim is thread-safe and takes no pointer.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// More than what threads keep in caches of their own (`tcache`), so that the allocator looks at what is free.
const UNCACHED: usize = 2 << 10;

/// Has the allocator sort what the calling thread has freed. glibc keeps freed chunks in one list until an allocation finds none of its size, and
/// sorts all of them then: after some thousand an allocation of a few bytes takes 0.2 ms. Whoever frees very many in parts calls this after
/// each part. Cost: that of one allocation, and about 15 ns for each chunk.
pub fn sort_freed() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(UNCACHED)));
}

/// Sets up the allocator, before the threads start. It has at most so many arenas, each of which reserves 64 MiB of address space: by default
/// there are eight for each core.
pub fn set_up_allocator(arenas: usize) {
    #[cfg(target_env = "gnu")]
    {
        // Free memory at the end of an arena stays there until the `Trimmer` returns it: under load it would go back and forth, and to
        // return many megabytes at once holds a thread for milliseconds.
        const KEPT_FREE: libc::c_int = libc::c_int::MAX;
        // Small chunks that are freed join their neighbours at once, instead of thousands at a time when a large one is allocated.
        const LARGEST_UNJOINED: libc::c_int = 0;
        let own_pages = libc::c_int::try_from(OWN_PAGES).unwrap_or(libc::c_int::MAX);
        let arenas = libc::c_int::try_from(arenas).unwrap_or(libc::c_int::MAX);
        let options = [
            (libc::M_ARENA_MAX, arenas),
            (libc::M_MMAP_THRESHOLD, own_pages),
            (libc::M_TRIM_THRESHOLD, KEPT_FREE),
            (libc::M_MXFAST, LARGEST_UNJOINED),
        ];
        for (option, value) in options {
            #[expect(unsafe_code, reason = "glibc has no safe interface to its allocator")]
            // SAFETY: mallopt is thread-safe and takes no pointer.
            unsafe {
                libc::mallopt(option, value);
            }
        }
    }
}

/// Decides when to return memory: resident memory is well above what the last return left, and the process is quiet or was not for long.
#[derive(Debug, Default)]
pub struct Trimmer {
    /// Resident memory after the last return, or the least since.
    floor: Option<u64>,
    quiet_looks: u32,
    worthwhile_looks: u32,
}

impl Trimmer {
    /// For a process that was not loaded yet, with its resident memory if it is known: a load that begins before the first look counts
    /// as one.
    pub fn new(resident: Option<u64>) -> Self {
        Self { floor: resident, ..Self::default() }
    }

    /// Whether to [`release`] now. To be called at fixed intervals with the resident memory in bytes and the CPU time of the interval
    /// as a share of it.
    pub fn is_due(&mut self, resident: u64, cpu: f64) -> bool {
        self.quiet_looks = if cpu < QUIET { self.quiet_looks.saturating_add(1) } else { 0 };
        let floor = self.floor.map_or(resident, |floor| floor.min(resident));
        self.floor = Some(floor);
        let is_worthwhile = resident >= floor + WORTHWHILE;
        self.worthwhile_looks = if is_worthwhile { self.worthwhile_looks.saturating_add(1) } else { 0 };
        is_worthwhile && (self.quiet_looks >= QUIET_LOOKS || self.worthwhile_looks >= PATIENCE)
    }

    /// Records what is resident after a return: what did not go back is in use.
    pub fn released(&mut self, resident: u64) {
        *self = Self::new(Some(resident));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn memory_is_returned_once_when_load_has_ended() {
        let mut trimmer = Trimmer::default();
        let mut due = |resident: u64, cpu| trimmer.is_due(resident * MIB, cpu);
        assert!(
            ![(20, 0.0), (20, 0.0), (20, 0.0), (20, 0.0)].iter().any(|(r, c)| due(*r, *c)),
            "nothing to return"
        );
        assert!(
            ![(700, 2.0), (755, 1.5), (755, 0.0), (755, 0.0)].iter().any(|(r, c)| due(*r, *c)),
            "not quiet yet"
        );
        assert!(due(755, 0.0));
        trimmer.released(30 * MIB);
        let mut due = |resident: u64, cpu| trimmer.is_due(resident * MIB, cpu);
        assert!(
            ![(30, 0.0), (40, 0.0), (45, 0.0), (45, 0.0)].iter().any(|(r, c)| due(*r, *c)),
            "below what is worthwhile"
        );
        assert!(due(46, 0.0));
        trimmer.released(46 * MIB);
        let again = (0..10).any(|_| trimmer.is_due(46 * MIB, 0.0));
        assert!(!again, "what stays is in use");
        // Memory that goes back by itself lowers the floor.
        assert!(!trimmer.is_due(25 * MIB, 0.0));
        assert!(trimmer.is_due(41 * MIB, 0.0));
    }

    #[test]
    fn memory_of_a_peak_is_returned_under_a_load_that_does_not_end() {
        let mut trimmer = Trimmer::new(Some(20 * MIB));
        let looks: Vec<bool> = (0..PATIENCE).map(|_| trimmer.is_due(300 * MIB, 1.0)).collect();
        assert_eq!(looks.iter().position(|due| *due), Some(29), "a minute, with a look every two seconds");
        trimmer.released(290 * MIB);
        assert!(!(0..100).any(|_| trimmer.is_due(300 * MIB, 1.0)), "what stays is in use");
    }

    #[test]
    fn a_load_that_begins_before_the_first_look_is_returned() {
        let mut trimmer = Trimmer::new(Some(20 * MIB));
        let looks = [(300, 2.0), (250, 0.0), (250, 0.0), (250, 0.0)];
        assert_eq!(looks.map(|(mib, cpu)| trimmer.is_due(mib * MIB, cpu)), [false, false, false, true]);
    }

    /// A report of the allocator, which needs no memory once it is open.
    #[cfg(target_env = "gnu")]
    struct Report {
        stream: *mut libc::FILE,
        text: Box<[u8]>,
        _buffer: Box<[u8]>,
    }

    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "glibc has no safe interface to its allocator")]
    impl Report {
        fn open() -> Self {
            let (mut text, mut buffer): (Box<[u8]>, Box<[u8]>) =
                (vec![0; 1 << 20].into(), vec![0; 1 << 16].into());
            // SAFETY: the memory of both is as long as told, and outlives the stream, which `unsorted` closes.
            let stream = unsafe {
                let stream = libc::fmemopen(text.as_mut_ptr().cast(), text.len(), c"w".as_ptr());
                assert!(!stream.is_null());
                libc::setvbuf(stream, buffer.as_mut_ptr().cast(), libc::_IOFBF, buffer.len());
                stream
            };
            Self { stream, text, _buffer: buffer }
        }

        /// The freed chunks of all threads that are not sorted.
        fn unsorted(self) -> usize {
            // SAFETY: the stream is open, and is not used again.
            unsafe {
                libc::malloc_info(0, self.stream);
                libc::fclose(self.stream);
            }
            let report = String::from_utf8_lossy(&self.text);
            let count = |line: &str| line.split_once("count=\"")?.1.split_once('"')?.0.parse::<usize>().ok();
            report.lines().filter(|line| line.trim_start().starts_with("<unsorted")).filter_map(count).sum()
        }
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn what_was_freed_is_sorted_in_parts() {
        const OBJECTS: usize = 20_000;
        // Smaller ones join their neighbours later.
        let mut kept: Vec<Box<[u8]>> = (0..OBJECTS).map(|n| vec![n as u8; 300].into()).collect();
        // Between two that stay, a free one joins no other.
        let mut free_every_second = |after_each: fn()| {
            let (mut rest, mut number) = (Vec::with_capacity(kept.len()), 0);
            let (before, after) = (Report::open(), Report::open());
            let before = before.unsorted();
            sort_freed();
            for object in kept.drain(..) {
                number += 1;
                if number % 2 == 0 {
                    rest.push(object);
                } else {
                    drop(object);
                    after_each();
                }
            }
            let unsorted = after.unsorted().saturating_sub(before);
            kept = rest;
            unsorted
        };
        let (all, few) = (free_every_second(|| {}), free_every_second(sort_freed));
        // Tests beside this one free as well.
        assert!(all > OBJECTS / 4 && few < OBJECTS / 16, "{all} and {few} of {OBJECTS}");
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn memory_between_live_objects_goes_back_to_the_system() {
        let resident = || crate::metrics::private_bytes().unwrap();
        let before = resident();
        let mut objects: Vec<Option<Box<[u8]>>> =
            (0..200_000).map(|n| Some(vec![n as u8; 1000].into())).collect();
        let loaded = resident();
        // What stays pins the heap: without a request nothing goes back.
        objects.iter_mut().enumerate().filter(|(n, _)| n % 100 != 0).for_each(|(_, object)| *object = None);
        release();
        let after = resident();
        assert!(loaded > before + 150 * MIB, "{before} {loaded}");
        assert!(after < loaded - 100 * MIB, "{before} {loaded} {after}");
        assert_eq!(objects.iter().flatten().count(), 2000);
    }
}
