//! Memory of the process as the kernel reports it.

use serde::Serialize;

/// Bytes from `/proc/self/status`; 0 for what the kernel does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    /// Virtual memory.
    pub(super) virtual_size: u64,
    /// Resident memory: private and mapped.
    pub(super) resident: u64,
    /// Peak resident memory.
    pub(super) peak_resident: u64,
    /// Private resident memory: heap and stacks.
    pub(super) anonymous: u64,
    /// Resident pages of mapped files, mostly the executable. The page cache shares them between processes and can drop them.
    pub(super) files: u64,
    /// Virtual memory for data.
    pub(super) data: u64,
    /// Stack of the main thread.
    pub(super) stack: u64,
    /// Swapped out.
    pub(super) swapped: u64,
}

impl Memory {
    /// Reads the current values.
    pub(super) fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
    }

    fn parse(status: &str) -> Self {
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            number.unwrap_or(0) * 1024
        };
        Self {
            virtual_size: kilobytes("VmSize"),
            resident: kilobytes("VmRSS"),
            peak_resident: kilobytes("VmHWM"),
            anonymous: kilobytes("RssAnon"),
            files: kilobytes("RssFile"),
            data: kilobytes("VmData"),
            stack: kilobytes("VmStk"),
            swapped: kilobytes("VmSwap"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_values_are_converted_to_bytes() {
        let status =
            "Name:\tx\nVmPeak:\t  9 kB\nVmSize:\t    2048 kB\nVmRSS:\t  1024 kB\nRssAnon:\t 512 kB\n";
        let memory = Memory::parse(status);
        assert_eq!((memory.virtual_size, memory.resident, memory.anonymous), (2 << 20, 1 << 20, 512 << 10));
        assert_eq!(memory.swapped, 0);
        assert!(Memory::now().resident > 0);
    }
}
