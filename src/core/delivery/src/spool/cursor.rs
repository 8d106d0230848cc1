//! The file that says what was delivered.
//!
//! It has two places, of which the older one is written: what is written when the process is killed is not needed. Its room on disk is taken once, so that
//! it is written also when the disk is full.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mixer_base::regular_file;

/// Bytes of a position: number, offset, and their CRC-32, in little-endian order.
const LENGTH: usize = 20;
/// Most bytes of the file that are read.
const MOST: u64 = 4096;
const NAME: &str = "cursor";
/// Where the two places begin. Disks write both of them in one step.
const PLACES: [usize; 2] = [0, 32];

/// The oldest record that was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// Of its segment.
    pub(super) number: u64,
    /// In its segment.
    pub(super) offset: u64,
}

impl Position {
    fn encode(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let text = [self.number.to_le_bytes(), self.offset.to_le_bytes()].concat();
        let sum = crc32fast::hash(&text).to_le_bytes();
        bytes.iter_mut().zip(text.into_iter().chain(sum)).for_each(|(place, byte)| *place = byte);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (offset, _) = rest.split_first_chunk()?;
        let position = Self { number: u64::from_le_bytes(*number), offset: u64::from_le_bytes(*offset) };
        bytes.starts_with(&position.encode()).then_some(position)
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Cursor {
    path: PathBuf,
    /// `None` until it can be opened.
    file: Option<File>,
    /// Which of the places is written next.
    next: usize,
}

impl Cursor {
    /// That of a directory.
    pub(super) fn open(directory: &Path) -> Self {
        // Earlier versions replaced the file.
        let _ = std::fs::remove_file(directory.join("cursor.tmp"));
        Self { path: directory.join(NAME), file: None, next: 0 }
    }

    /// Takes the room of the file, if the disk has any.
    pub(super) fn prepare(&mut self) {
        // It is tried again when it is written.
        let _ = self.file();
    }

    /// The file, with room for both places. One that somebody removed is made again.
    fn file(&mut self) -> io::Result<&File> {
        let is_linked = |file: &File| file.metadata().is_ok_and(|metadata| metadata.nlink() > 0);
        let file = match self.file.take().filter(is_linked) {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                let file = options
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o600)
                    .open(&self.path)?;
                let end = PLACES[1] + LENGTH;
                let length = usize::try_from(file.metadata()?.len()).unwrap_or(end);
                file.write_all_at(&vec![0; end.saturating_sub(length)], length as u64)?;
                file.sync_data()?;
                file
            }
        };
        Ok(self.file.insert(file))
    }

    /// The position that was written last; `None` without a valid one: then everything that is there is delivered.
    pub(super) fn read(&mut self) -> Option<Position> {
        let [first, second] = places(&regular_file::read(&self.path, MOST).ok()?);
        // Positions grow.
        self.next = usize::from(first > second);
        first.max(second)
    }

    pub(super) fn write(&mut self, position: Position) -> io::Result<()> {
        let next = self.next;
        let place = PLACES.get(next).copied().unwrap_or_default();
        let file = self.file()?;
        file.write_all_at(&position.encode(), place as u64)?;
        file.sync_data()?;
        self.next = 1 - next;
        Ok(())
    }
}

/// The position that was written last to the file of a directory, which may be another's; `None` without a valid one.
pub(super) fn position(directory: &Path) -> Option<Position> {
    let bytes = regular_file::read(&directory.join(NAME), MOST).ok()?;
    let [first, second] = places(&bytes);
    first.max(second)
}

fn places(bytes: &[u8]) -> [Option<Position>; 2] {
    PLACES.map(|place| Position::decode(bytes.get(place..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_a_later_one_that_is_not_written_completely() {
        let directory = tempfile::tempdir().unwrap();
        let at = |offset| Position { number: 7, offset };
        let path = directory.path().join("cursor");
        assert_eq!(Cursor::open(directory.path()).read(), None);
        // As earlier versions wrote it.
        std::fs::write(&path, at(1).encode()).unwrap();
        for offset in 2..10 {
            let mut cursor = Cursor::open(directory.path());
            assert_eq!(cursor.read(), Some(at(offset - 1)));
            cursor.prepare();
            let before = std::fs::read(&path).unwrap();
            cursor.write(at(offset)).unwrap();
            let after = std::fs::read(&path).unwrap();
            assert_eq!(before.len(), after.len());
            for cut in 0..after.len() {
                std::fs::write(&path, [&after[..cut], &before[cut..]].concat()).unwrap();
                let found = Cursor::open(directory.path()).read();
                assert!(found == Some(at(offset - 1)) || found == Some(at(offset)), "{found:?}");
            }
            std::fs::write(&path, after).unwrap();
        }
    }
}
