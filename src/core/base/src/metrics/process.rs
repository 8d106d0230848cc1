//! Metrics of the process, from `/proc`.

use super::{Collected, Family};

/// Clock ticks per second in `/proc`: always 100 in user space on the supported architectures.
const TICKS: f64 = 100.0;

/// Adds the values from `/proc`; unreadable ones are omitted.
pub(super) fn collect(into: &mut Collected) {
    let mut add = |family, value: Option<f64>| {
        if let Some(value) = value {
            into.add(family, &[], value);
        }
    };
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let stat = Stat::parse(&stat);
    add(Family::ProcessCpu, stat.map(|s| s.cpu_seconds));
    add(Family::ProcessThreads, stat.map(|s| s.threads));
    add(Family::ProcessVirtualMemory, stat.map(|s| s.virtual_bytes));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    add(Family::ProcessResidentMemory, kilobytes(&status, "VmRSS:"));
    add(Family::ProcessStartTime, stat.and_then(|s| Some(boot_time()? + s.start_seconds)));
    add(Family::ProcessOpenFds, open_descriptors());
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    add(Family::ProcessMaxFds, limit(&limits, "Max open files"));
    add(Family::ProcessVirtualMemoryMax, limit(&limits, "Max address space"));
    let mapped = kilobytes(&status, "RssFile:")
        .zip(kilobytes(&status, "RssShmem:"))
        .map(|(file, shared)| file + shared);
    for (kind, bytes) in [("private", kilobytes(&status, "RssAnon:")), ("mapped", mapped)] {
        if let Some(bytes) = bytes {
            into.add(Family::ProcessMemory, &[kind], bytes);
        }
    }
}

/// Since version 6.2, Linux states the number of open descriptors as the size of the directory. To list thousands takes a millisecond, during which
/// a core serves nobody else.
fn open_descriptors() -> Option<f64> {
    const DIRECTORY: &str = "/proc/self/fd";
    match std::fs::metadata(DIRECTORY).ok()?.len() {
        // One of those that are listed is the directory being read.
        0 => std::fs::read_dir(DIRECTORY).ok().map(|list| list.count().saturating_sub(1) as f64),
        count => Some(count as f64),
    }
}

/// User and system CPU time of the process in seconds.
pub fn cpu_seconds() -> Option<f64> {
    Stat::parse(&std::fs::read_to_string("/proc/self/stat").ok()?).map(|stat| stat.cpu_seconds)
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    threads: f64,
    start_seconds: f64,
    virtual_bytes: f64,
}

impl Stat {
    /// Parses `/proc/PID/stat`. The process name may contain anything, so fields are counted after its closing parenthesis.
    fn parse(text: &str) -> Option<Stat> {
        let (_, tail) = text.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        // proc(5) numbers fields from 1; the first one after the name is 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Stat {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            threads: field(20)?,
            start_seconds: field(22)? / TICKS,
            virtual_bytes: field(23)?,
        })
    }
}

/// A memory line of `/proc/PID/status`, in bytes.
fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

/// Seconds since the epoch.
fn boot_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|l| l.strip_prefix("btime "))?.trim().parse().ok()
}

/// The soft limit of open file descriptors; `None` if it is unlimited or cannot be read.
pub fn max_descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    limit(&limits, "Max open files").filter(|limit| *limit >= 0.0).map(|limit| limit as usize)
}

/// Resident private memory of the process, heap and stacks, in bytes.
pub fn private_bytes() -> Option<u64> {
    kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, "RssAnon:").map(|bytes| bytes as u64)
}

/// The soft limit with this name; -1 when there is none.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|l| l.strip_prefix(name))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(-1.0),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_the_name() {
        let text = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 7 18 12345 67890 21 22";
        let stat = Stat { cpu_seconds: 3.0, threads: 7.0, start_seconds: 123.45, virtual_bytes: 67890.0 };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("42 (a"), None);
        assert_eq!(Stat::parse("42 (a) S 1"), None);
    }

    #[test]
    fn limits_are_read() {
        let text = "Max open files            1024                 20000                files\n\
                    Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(limit(text, "Max open files"), Some(1024.0));
        assert_eq!(limit(text, "Max address space"), Some(-1.0));
        assert_eq!(limit(text, "Max cpu time"), None);
    }

    #[test]
    fn this_process_has_memory_and_threads() {
        let mut collected = Collected::default();
        collect(&mut collected);
        let value = |family| collected.values.get(&(family, Vec::new())).copied().unwrap();
        assert!(value(Family::ProcessResidentMemory) > 0.0);
        for kind in ["private", "mapped"] {
            assert!(collected.values[&(Family::ProcessMemory, vec![kind.to_owned()])] > 0.0, "{kind}");
        }
        assert!(value(Family::ProcessThreads) >= 1.0);
        assert!(value(Family::ProcessOpenFds) >= 1.0);
        assert!(value(Family::ProcessStartTime) > 1.5e9);
    }

    #[test]
    fn descriptors_are_counted() {
        const OPENED: usize = 300;
        let before = open_descriptors().unwrap();
        let files: Vec<_> = (0..OPENED).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        // Other tests open and close some meanwhile.
        let more = open_descriptors().unwrap() - before;
        assert!((more - files.len() as f64).abs() < 100.0, "{more} more");
    }
}
