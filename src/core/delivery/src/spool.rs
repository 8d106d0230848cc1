//! Records on disk that survive a restart: what a [spill](crate::Spill) is kept in.
//!
//! A spool is a directory:
//!
//! | file | content |
//! | --- | --- |
//! | `00000001.spool`, … | a segment: [`MAGIC`] with the version of the format, then records |
//! | `cursor` | number of a segment, offset of the oldest record, checksum; replaced in one step |
//! | `lock` | locked while the spool is open, since two processes would deliver everything twice |
//!
//! A record is its length, its number of items and a CRC-32 of both and of the payload, each four bytes in little-endian order,
//! and the payload. A record is on disk when [`Spool::push`] returns: it is lost by neither a killed process nor a power failure.
//! A record that was being written when the process ended fails its checksum and is cut off at the next start. A record counts as
//! delivered when the cursor is past it; what was delivered since the cursor was written is delivered once more after a kill.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The error for a directory that is locked.
pub(crate) const IN_USE: &str = "it is in use by another process";
/// The first bytes of a segment: name and version of the format.
const MAGIC: &[u8; 8] = b"mxspool1";
/// The first bytes of a segment of any version.
const NAME: &[u8] = b"mxspool";
/// Bytes of a record before its payload.
const HEADER: usize = 12;
/// Bytes at which a segment is complete. Space is freed segment by segment.
const SEGMENT: u64 = 4 << 20;
/// The largest record.
const LARGEST: u64 = 64 << 20;

/// A batch on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Number of items.
    pub(crate) items: u32,
    /// The items.
    pub(crate) payload: Vec<u8>,
}

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    number: u64,
    /// Valid bytes.
    bytes: u64,
}

/// A bounded queue of records on disk.
#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    /// Most bytes of all segments.
    limit: u64,
    /// From the oldest to the newest.
    segments: VecDeque<Segment>,
    /// The newest segment, if it takes more records.
    writer: Option<File>,
    /// Where the oldest record begins in the oldest segment.
    offset: u64,
    /// Number of items that wait.
    items: u64,
    next_number: u64,
    /// Bytes and items of the oldest record, once it was read.
    oldest: Option<(u64, u32)>,
    /// Holds the lock.
    _lock: File,
}

impl Spool {
    /// Opens a directory, which is created if there is none, and cuts off what was not written completely.
    ///
    /// Errors: the file system, or another process has it open.
    pub(crate) fn open(directory: &Path, limit: u64) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let lock = create(&directory.join("lock"))?;
        lock.try_lock().map_err(|_| io::Error::new(io::ErrorKind::WouldBlock, IN_USE))?;
        let mut spool = Self {
            directory: directory.to_owned(),
            limit,
            segments: VecDeque::new(),
            writer: None,
            offset: MAGIC.len() as u64,
            items: 0,
            next_number: 1,
            oldest: None,
            _lock: lock,
        };
        spool.recover()?;
        Ok(spool)
    }

    /// Items that wait.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Appends a record. Returns false, and changes nothing, if it does not fit.
    ///
    /// Errors: the record could not be written; those before it are not affected.
    pub(crate) fn push(&mut self, items: u32, payload: &[u8]) -> io::Result<bool> {
        let length = (HEADER + payload.len()) as u64;
        let starts = self.writer.is_none() || self.segments.back().is_none_or(|last| last.bytes >= SEGMENT);
        let added = length + if starts { MAGIC.len() as u64 } else { 0 };
        if payload.len() as u64 > LARGEST || self.bytes() + added > self.limit {
            return Ok(false);
        }
        let mut record = Vec::with_capacity(payload.len() + HEADER);
        record.extend((payload.len() as u32).to_le_bytes());
        record.extend(items.to_le_bytes());
        record.extend(checksum(payload.len() as u32, items, payload).to_le_bytes());
        record.extend(payload);
        if starts {
            self.begin_segment()?;
        }
        let (Some(file), Some(segment)) = (&mut self.writer, self.segments.back_mut()) else {
            return Ok(false);
        };
        let written = file.write_all(&record).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // What was written of it is cut off, or else the segment takes no more.
            if file.set_len(segment.bytes).and_then(|()| file.seek(SeekFrom::End(0))).is_err() {
                self.writer = None;
            }
            return Err(error);
        }
        segment.bytes += length;
        self.items += u64::from(items);
        Ok(true)
    }

    /// The oldest record; `None` if there is none. Errors: it cannot be read.
    pub(crate) fn oldest(&mut self) -> io::Result<Option<Record>> {
        let Some(segment) = self.segments.front() else { return Ok(None) };
        if self.offset >= segment.bytes {
            return Ok(None);
        }
        let mut file = File::open(self.path(segment.number))?;
        file.seek(SeekFrom::Start(self.offset))?;
        let rest = segment.bytes - self.offset;
        let record = read_record(&mut file, rest)?;
        self.oldest = record.as_ref().map(|read| ((HEADER + read.payload.len()) as u64, read.items));
        record.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a record is damaged"))
    }

    /// The oldest record, which was read, is settled.
    pub(crate) fn remove_oldest(&mut self) -> io::Result<()> {
        let Some((bytes, items)) = self.oldest.take() else { return Ok(()) };
        self.offset += bytes;
        self.items = self.items.saturating_sub(u64::from(items));
        self.leave_segments()?;
        self.write_cursor()
    }

    /// The oldest record cannot be read: gives up the rest of its segment. Returns the number of items that are lost.
    pub(crate) fn skip_damaged(&mut self) -> io::Result<u64> {
        let before = self.items;
        self.oldest = None;
        if let Some(segment) = self.segments.front() {
            self.offset = segment.bytes;
        }
        self.leave_segments()?;
        self.items = self.count()?;
        self.write_cursor()?;
        Ok(before.saturating_sub(self.items))
    }

    /// Removes segments that are delivered completely.
    fn leave_segments(&mut self) -> io::Result<()> {
        while let Some(segment) = self.segments.front()
            && self.offset >= segment.bytes
        {
            let number = segment.number;
            self.segments.pop_front();
            self.offset = MAGIC.len() as u64;
            if self.segments.is_empty() {
                self.writer = None;
            }
            // The cursor first: a segment that is older than the cursor is removed at the next start.
            self.write_cursor()?;
            std::fs::remove_file(self.path(number))?;
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:08}.spool"))
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let number = self.next_number;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path(number))?;
        self.next_number += 1;
        if let Err(error) = file.write_all(MAGIC).and_then(|()| file.sync_data()) {
            let _ = std::fs::remove_file(self.path(number));
            return Err(error);
        }
        // The name of the file is in the directory.
        File::open(&self.directory)?.sync_all()?;
        self.segments.push_back(Segment { number, bytes: MAGIC.len() as u64 });
        self.writer = Some(file);
        Ok(())
    }

    fn write_cursor(&self) -> io::Result<()> {
        let number = self.segments.front().map_or(self.next_number, |segment| segment.number);
        let mut text = [number.to_le_bytes(), self.offset.to_le_bytes()].concat();
        text.extend(crc32fast::hash(&text).to_le_bytes());
        let (path, temporary) = (self.directory.join("cursor"), self.directory.join("cursor.tmp"));
        let mut file = create(&temporary)?;
        file.set_len(0)?;
        file.write_all(&text)?;
        file.sync_data()?;
        std::fs::rename(temporary, path)
    }

    /// Number and offset; `None` without a valid cursor: then everything that is there is delivered.
    fn read_cursor(&self) -> Option<(u64, u64)> {
        let bytes: [u8; 20] = std::fs::read(self.directory.join("cursor")).ok()?.try_into().ok()?;
        let (text, sum) = bytes.split_at(16);
        if crc32fast::hash(text).to_le_bytes() != sum {
            return None;
        }
        let (number, offset) = text.split_at(8);
        Some((u64::from_le_bytes(number.try_into().ok()?), u64::from_le_bytes(offset.try_into().ok()?)))
    }

    /// Finds the segments, removes those that were delivered, and cuts off what was not written completely.
    fn recover(&mut self) -> io::Result<()> {
        let cursor = self.read_cursor();
        let (first, offset) = cursor.unwrap_or((0, MAGIC.len() as u64));
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_suffix(".spool"))
                .and_then(|n| n.parse::<u64>().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        self.next_number = numbers.last().map_or(first.max(1), |last: &u64| last + 1);
        for number in numbers {
            let path = self.path(number);
            if number < first {
                std::fs::remove_file(&path)?;
                continue;
            }
            let valid = valid_bytes(&path)?;
            if valid == 0 {
                std::fs::remove_file(&path)?;
                continue;
            }
            OpenOptions::new().write(true).open(&path)?.set_len(valid)?;
            self.segments.push_back(Segment { number, bytes: valid });
        }
        if self.segments.front().is_some_and(|segment| segment.number == first) {
            self.offset = offset.max(MAGIC.len() as u64);
        }
        self.leave_segments()?;
        self.items = self.count()?;
        Ok(())
    }

    /// Items from the cursor on.
    fn count(&self) -> io::Result<u64> {
        let mut items = 0;
        let mut offset = self.offset;
        for segment in &self.segments {
            let mut file = File::open(self.path(segment.number))?;
            while offset < segment.bytes {
                file.seek(SeekFrom::Start(offset))?;
                let Some(record) = read_record(&mut file, segment.bytes - offset)? else { break };
                items += u64::from(record.items);
                offset += (HEADER + record.payload.len()) as u64;
            }
            offset = MAGIC.len() as u64;
        }
        Ok(items)
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn checksum(length: u32, items: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(&items.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// The record at the position of the file, which has `rest` more bytes; `None` if it is incomplete or damaged.
fn read_record(file: &mut File, rest: u64) -> io::Result<Option<Record>> {
    let mut header = [0; HEADER];
    if rest < HEADER as u64 {
        return Ok(None);
    }
    file.read_exact(&mut header)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = header;
    let (length, items) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    let sum = u32::from_le_bytes([i, j, k, l]);
    if u64::from(length) > LARGEST || HEADER as u64 + u64::from(length) > rest {
        return Ok(None);
    }
    let mut payload = vec![0; length as usize];
    file.read_exact(&mut payload)?;
    Ok((checksum(length, items, &payload) == sum).then_some(Record { items, payload }))
}

/// Bytes up to the first record that is incomplete or damaged; 0 if it is no segment. Errors: it is one of another version.
fn valid_bytes(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut magic = [0; MAGIC.len()];
    if size < MAGIC.len() as u64 {
        return Ok(0);
    }
    file.read_exact(&mut magic)?;
    if magic != *MAGIC {
        let text = "it was written by another version";
        let foreign = || Err(io::Error::new(io::ErrorKind::InvalidData, text));
        return if magic.starts_with(NAME) { foreign() } else { Ok(0) };
    }
    let mut valid = MAGIC.len() as u64;
    while valid < size
        && let Some(record) = read_record(&mut file, size - valid)?
    {
        valid += (HEADER + record.payload.len()) as u64;
    }
    Ok(valid)
}

#[cfg(test)]
pub(crate) mod tests;
