//! Drops the pages of program code that only the startup touched from resident memory.
//!
//! Startup runs most of the program once: flags, files, parsers, builders. [`release_startup_code`] drops those pages; the code that serving
//! needs is faulted in from the page cache on its next use, within microseconds. Private memory is not affected:
//! `mixer_process_memory_bytes` shows private and mapped memory apart.

use std::path::Path;

/// Drops the program's own code from resident memory. Returns the size of the code in bytes; 0 where the system does not support it.
pub fn release_startup_code() -> usize {
    let (Ok(maps), Ok(program)) = (std::fs::read_to_string("/proc/self/maps"), std::env::current_exe())
    else {
        return 0;
    };
    code_mappings(&maps, &program).map(|(start, end)| release(start, end)).sum()
}

/// The address ranges of the code of `program` in the text of `/proc/self/maps`: mapped from its file, executable, not writable.
fn code_mappings<'a>(maps: &'a str, program: &'a Path) -> impl Iterator<Item = (usize, usize)> + 'a {
    maps.lines().filter_map(move |line| {
        // start-end, permissions, offset, device, inode, path
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let is_code = fields.next()? == "r-xp";
        let path = line.find('/').and_then(|at| line.get(at..))?;
        (is_code && Path::new(path) == program).then_some(())?;
        Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
    })
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "madvise takes an address range")]
fn release(start: usize, end: usize) -> usize {
    let length = end.saturating_sub(start);
    let address = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the range is a private, never writable mapping of the program's file: its pages equal the file's and are faulted in again
    // on the next access of any thread.
    let released = unsafe { rustix::mm::madvise(address, length, rustix::mm::Advice::LinuxDontNeed) };
    if released.is_ok() { length } else { 0 }
}

#[cfg(not(target_os = "linux"))]
fn release(_start: usize, _end: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_is_released() {
        let maps = "\
00001000-00002000 r--p 00000000 fe:00 7  /opt/my mixer
00002000-00005000 r-xp 00001000 fe:00 7  /opt/my mixer
00005000-00006000 rw-p 00004000 fe:00 7  /opt/my mixer
00007000-00008000 rwxp 00004000 fe:00 7  /opt/my mixer
7f001000-7f002000 r-xp 00001000 fe:00 8  /usr/lib/libc.so.6
7f003000-7f004000 r-xp 00000000 00:00 0  [vdso]
7f005000-7f006000 r-xp 00000000 00:00 0
";
        let found: Vec<_> = code_mappings(maps, Path::new("/opt/my mixer")).collect();
        assert_eq!(found, [(0x2000, 0x5000)]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn released_code_runs_on() {
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let program = std::env::current_exe().unwrap();
            let mut of_code = false;
            let mut kilobytes = 0;
            for line in status.lines() {
                if line.contains("r-xp") {
                    of_code = line.ends_with(&*program.to_string_lossy());
                } else if let (true, Some(rss)) = (of_code, line.strip_prefix("Rss:")) {
                    kilobytes = rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
                    of_code = false;
                }
            }
            kilobytes
        };
        // The code of `resident` itself is resident before.
        let _ = resident();
        let size = release_startup_code();
        assert!(size > 1_000_000, "{size} bytes of code");
        assert!(resident() * 1024 < size as u64 / 2, "{} kB of {size} bytes stayed resident", resident());
    }
}
