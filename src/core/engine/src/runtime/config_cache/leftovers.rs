//! What processes leave that end while they write the cache: each a file of up to [`MAX_CACHE_BYTES`](super::MAX_CACHE_BYTES).

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use super::FILE;
use mixer_base::regular_file;

/// A file that was not written for so long, and that nobody has locked, is not being written.
const LONG_AGO: Duration = Duration::from_secs(60);

/// The name of the file to which a process writes.
pub(super) fn temporary(process: u32) -> String {
    format!(".{FILE}.{process}")
}

/// The process that writes to a file of this name.
fn process_of(name: &str) -> Option<u32> {
    name.strip_prefix('.')?.strip_prefix(FILE)?.strip_prefix('.')?.parse().ok()
}

/// Locks a file while it is written, where the file system has locks. Nobody waits for it.
pub(super) fn claim(file: &File) {
    let _ = file.try_lock();
}

/// Removes from a directory what is left of `user` and of processes that no longer run. What cannot be removed stays.
pub(super) fn remove(directory: &Path, user: u32) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let process = entry.file_name().to_str().and_then(process_of);
        if process.is_some_and(|process| is_left(&entry.path(), process, user)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether nobody writes the file of a process. A process in another namespace is not seen, and has a lock. The number of one that ended may be
/// that of another program.
fn is_left(path: &Path, process: u32, user: u32) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let Some((file, metadata)) = regular_file::open(path).ok().filter(|_| is_file) else { return false };
    let locked = file.try_lock();
    if metadata.uid() != user || matches!(locked, Err(TryLockError::WouldBlock)) {
        return false;
    }
    // Without locks, a process in another namespace may be writing.
    let is_running = locked.is_err() || Path::new(&format!("/proc/{process}")).exists();
    let age = metadata.modified().ok().and_then(|written| written.elapsed().ok());
    !is_running || age.is_some_and(|age| age > LONG_AGO)
}
