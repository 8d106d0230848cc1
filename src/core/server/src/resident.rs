//! Gives back memory that only the start needed.
//!
//! A start runs through most of the program once: flags, files, parsers, handlers. The pages of code that it touched would stay in
//! the resident memory of the process for good. [`release_start_code`] takes them out; what serving needs comes back from the
//! page cache of the system at its first use, within microseconds.

use std::path::Path;

/// Unmaps the program's own code from the resident memory. Returns how many bytes of code there are; 0 where the system does not
/// offer it. Never fails: memory that stays is no error.
pub fn release_start_code() -> usize {
    let (Ok(maps), Ok(program)) = (std::fs::read_to_string("/proc/self/maps"), std::env::current_exe())
    else {
        return 0;
    };
    code_mappings(&maps, &program).map(|(start, end)| release(start, end)).sum()
}

/// The address ranges that hold code of `program`, from the text of `/proc/self/maps`: mapped from its file, executable and not
/// writable.
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
#[expect(unsafe_code, reason = "the system call takes an address; there is no safe form of it")]
fn release(start: usize, end: usize) -> usize {
    let length = end.saturating_sub(start);
    let address = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: The range is a private mapping of the program's file that was never writable, so that its pages hold what the file
    // holds, and the system reads them from there again when they are used, by this thread or any other, now or later.
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
        // What this touches is resident before.
        let _ = resident();
        let size = release_start_code();
        assert!(size > 1_000_000, "{size} bytes of code");
        assert!(resident() * 1024 < size as u64 / 2, "{} kB of {size} bytes stayed", resident());
    }
}
