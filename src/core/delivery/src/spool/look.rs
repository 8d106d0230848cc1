//! What is in a directory that nobody has open, without opening it: nothing there is changed.

use std::fs::TryLockError;
use std::io;
use std::path::Path;

use mixer_base::regular_file;

use super::segment::{MAGIC, Reader};
use super::{cursor, number_of, owner};

/// Most segments and records that are looked at.
const MAX_SEGMENTS: usize = 10_000;
const MAX_RECORDS: usize = 100_000;

/// What is kept in a directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whose it is, as it is shown.
    pub(crate) owner: Option<String>,
    /// Items, at least.
    pub(crate) items: u64,
    /// Bytes of its segments.
    pub(crate) bytes: u64,
}

/// What is kept in a directory; `None` if it is no spool, or somebody has it open.
///
/// Errors: the file system.
pub(crate) fn look(directory: &Path) -> io::Result<Option<Found>> {
    // For as long as a look: who opens the directory meanwhile tries again.
    let (lock, _) = regular_file::open(&directory.join(super::LOCK))?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    let position = cursor::position(directory);
    let (first, offset) = position.map_or((0, 0), |position| (position.number, position.offset));
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory)?.take(MAX_SEGMENTS) {
        numbers.extend(entry?.file_name().to_str().and_then(number_of).filter(|number| *number >= first));
    }
    numbers.sort_unstable();
    let (mut items, mut bytes, mut left) = (0, 0, MAX_RECORDS);
    for number in numbers {
        let begin = MAGIC.len() as u64;
        let offset = if number == first { offset.max(begin) } else { begin };
        let Some(mut segment) = Reader::of_any(&directory.join(super::file_name(number)))? else { continue };
        items += segment.outline(offset, &mut left)?;
        bytes += segment.bytes();
    }
    let owner = owner::shown(directory);
    Ok(Some(Found { owner, items, bytes }))
}
