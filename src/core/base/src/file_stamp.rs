//! The metadata of a file by which a change is detected without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

/// A file whose writers are [unknown](crate::file_writer::Writer::Unknown) counts as complete once its stamp is the same for this long.
pub const SETTLED: Duration = Duration::from_secs(1);

/// Identity, size and times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// The stamp of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Its size, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Device and inode: which file it is, by whatever name.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether both are of the same file, changed or not.
    pub fn same_file(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// The time since the last change by the clock of the system; `None` if it is in the future.
    pub fn age(&self) -> Option<Duration> {
        let (seconds, nanoseconds) = self.modified.max(self.changed);
        let changed = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
        std::time::UNIX_EPOCH.elapsed().ok()?.checked_sub(changed)
    }
}
