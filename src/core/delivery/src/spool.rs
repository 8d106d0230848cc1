//! Records on disk that survive a restart: what a [spill](crate::Spill) is kept in.
//!
//! A spool is a directory:
//!
//! | file | content |
//! | --- | --- |
//! | `00000001.spool`, … | a segment: [`MAGIC`] with the version of the format, then records |
//! | `cursor` | number of a segment and offset of the oldest record in it: [the later one of two](cursor) |
//! | `lock` | locked while the spool is open, since two processes would deliver everything twice |
//! | `owner` | [whose](Owner) items these are: another does not deliver them |
//!
//! A record is its length, its number of items and a CRC-32 of both and of the payload, each four bytes in little-endian order,
//! and the payload. A record is on disk when [`Spool::push`] returns: it is lost by neither a killed process nor a power failure.
//! A record that was being written when the process ended is the end of the newest segment, and is cut off at the next start. Every other record
//! that fails its checksum is damaged: it is [skipped](Spool::skip_damaged) when it is the oldest, and its items are lost. So are those of a segment
//! that somebody removed. A record counts as delivered when the cursor is past it; what was delivered since the cursor was written is delivered once
//! more after a kill. Segments that are delivered are removed, for which a full disk needs no room. Files that are no segments are left alone.
//!
//! A directory that is removed or moved while it is open is noticed before anything counts as on disk there, or is removed: see [`Spool::check`].

mod cursor;
mod look;
mod owner;
mod segment;

use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cursor::{Cursor, Position};
pub(crate) use look::look;
pub use owner::Owner;
use owner::Recorded;
pub(crate) use segment::Record;
use segment::{HEADER, Head, LARGEST, MAGIC, Reader, checksum};

/// The error for a directory that is locked.
const IN_USE: &str = "it is in use by another process";
/// The kind of the error for a directory that has items of another owner.
pub(crate) const OF_ANOTHER: io::ErrorKind = io::ErrorKind::ResourceBusy;
/// The kind of the error for a directory that is not where it was. A file system says so, too, of one whose server has forgotten it.
pub(crate) const GONE: io::ErrorKind = io::ErrorKind::StaleNetworkFileHandle;
/// Bytes at which a segment is complete. Space is freed segment by segment.
const SEGMENT: u64 = 4 << 20;
/// The file that is locked.
const LOCK: &str = "lock";

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    number: u64,
    /// Its length.
    bytes: u64,
    /// Items in it that wait, those that are damaged included.
    items: u64,
}

/// Which file it is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Of what is at a path; `None`: nothing is there.
    fn at(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(Self::of(&metadata))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// An open file, and which it is: nothing else is that one as long as it is open.
#[derive(Debug)]
struct Held {
    file: File,
    identity: Identity,
}

impl Held {
    fn new(file: File) -> io::Result<Self> {
        let identity = Identity::of(&file.metadata()?);
        Ok(Self { file, identity })
    }
}

/// A bounded queue of records on disk.
#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    /// Most bytes of all segments.
    limit: u64,
    /// From the oldest to the newest.
    segments: VecDeque<Segment>,
    /// Segments that are delivered and could not be removed.
    delivered: Vec<Segment>,
    cursor: Cursor,
    /// The newest segment, if it takes more records.
    writer: Option<File>,
    /// Where the oldest record begins in the oldest segment.
    offset: u64,
    next_number: u64,
    /// Bytes and items of the oldest record, once it was read.
    oldest: Option<(u64, u32)>,
    /// Its owner, until the disk says so.
    unrecorded: Option<Owner>,
    /// The directory itself.
    home: Held,
    /// Is locked.
    lock: Held,
    /// Whether the file system tells which file is which, and which were removed.
    is_watched: bool,
}

/// Creates a directory, and the file that is to be locked.
///
/// Errors: it cannot be used.
pub(crate) fn prepare(directory: &Path) -> io::Result<File> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    create(&directory.join(LOCK))
}

impl Spool {
    /// Opens a directory, which is created if there is none, and cuts off a record that was not written completely.
    ///
    /// Errors: the file system, another process has it open, or it has items of [another owner](OF_ANOTHER). Without items, and without an
    /// owner, anyone takes it.
    pub(crate) fn open(directory: &Path, limit: u64, owner: &Owner) -> io::Result<Self> {
        let lock = prepare(directory)?;
        let locked = lock.try_lock();
        let recorded = Recorded::read(directory)?;
        let other = recorded.as_ref().filter(|recorded| owner.is_other(Some(recorded)));
        match (locked, other) {
            (Err(TryLockError::WouldBlock), Some(other)) => {
                let why = format!(
                    "it is in use by {other}, and this is {owner}: each handler needs a `spillDirectory` of its own"
                );
                return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
            }
            (Err(TryLockError::WouldBlock), None) => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, IN_USE));
            }
            (Err(TryLockError::Error(error)), _) => return Err(error),
            (Ok(()), Some(other)) if has_segments(directory)? => {
                let why = format!(
                    "it has what {other} keeps, which {owner} does not send: give this handler another \
                     `spillDirectory`, or remove the file `owner` there, and it sends that as well"
                );
                return Err(io::Error::new(OF_ANOTHER, why));
            }
            (Ok(()), _) => {}
        }
        let is_recorded = recorded.is_some() && other.is_none();
        let (lock, home) = (Held::new(lock)?, Held::new(File::open(directory)?)?);
        let is_found =
            |path: &Path, held: &Held| Identity::at(path).is_ok_and(|at| at == Some(held.identity));
        let is_watched =
            is_found(directory, &home) && is_found(&directory.join(LOCK), &lock) && is_linked(&lock.file);
        let mut spool = Self {
            directory: directory.to_owned(),
            limit,
            segments: VecDeque::new(),
            delivered: Vec::new(),
            cursor: Cursor::open(directory),
            writer: None,
            offset: MAGIC.len() as u64,
            next_number: 1,
            oldest: None,
            unrecorded: Some(owner.clone()).filter(|_| !is_recorded),
            home,
            lock,
            is_watched,
        };
        spool.recover()?;
        // On a full disk it is tried again before anything is written.
        let _ = spool.record_owner();
        Ok(spool)
    }

    fn record_owner(&mut self) -> io::Result<()> {
        if let Some(owner) = &self.unrecorded {
            owner.record(&self.directory)?;
            self.unrecorded = None;
        }
        Ok(())
    }

    /// Whether the directory is where it was. A lock that was removed there, as by who removes old files, is taken again.
    ///
    /// Errors: the directory is [gone](GONE), or somebody else has locked it since, or the file system.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        let path = self.directory.join(LOCK);
        if !self.is_watched || Identity::at(&path)? == Some(self.lock.identity) {
            return Ok(());
        }
        if Identity::at(&self.directory)? != Some(self.home.identity) {
            return Err(io::Error::new(GONE, "the directory was removed or moved"));
        }
        let lock = create(&path)?;
        match lock.try_lock() {
            Ok(()) => self.lock = Held::new(lock)?,
            Err(TryLockError::WouldBlock) => return Err(io::Error::new(io::ErrorKind::WouldBlock, IN_USE)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(())
    }

    /// Whether a directory that is [gone](Self::check) was removed: it does not come back. One that was moved may.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_watched && !is_linked(&self.lock.file)
    }

    /// Items that wait.
    pub(crate) fn items(&self) -> u64 {
        self.segments.iter().map(|segment| segment.items).sum()
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().chain(&self.delivered).map(|segment| segment.bytes).sum()
    }

    /// Appends a record. Returns false, and changes nothing, if it does not fit.
    ///
    /// Errors: the record could not be written, or nobody would find it; those before it are not affected.
    pub(crate) fn push(&mut self, items: u32, payload: &[u8]) -> io::Result<bool> {
        let length = (HEADER + payload.len()) as u64;
        self.check()?;
        if self.is_watched && self.writer.as_ref().is_some_and(|file| !is_linked(file)) {
            // Somebody removed it.
            self.writer = None;
        }
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
        let Some(mut file) = self.writer.take() else { return Ok(false) };
        let written = file.write_all(&record).and_then(|()| file.sync_data()).and_then(|()| self.check());
        let Some(segment) = self.segments.back_mut() else { return Ok(false) };
        if let Err(error) = written {
            // What was written of it is cut off, or else the segment takes no more.
            if file.set_len(segment.bytes).and_then(|()| file.seek(SeekFrom::End(0))).is_ok() {
                self.writer = Some(file);
            }
            return Err(error);
        }
        segment.bytes += length;
        segment.items += u64::from(items);
        self.writer = Some(file);
        Ok(true)
    }

    /// The oldest record; `None` if there is none.
    ///
    /// Errors: it cannot be read. [`io::ErrorKind::InvalidData`]: never again, because it is damaged, or its segment was removed.
    pub(crate) fn oldest(&mut self) -> io::Result<Option<Record>> {
        let Some(segment) = self.segments.front().copied() else { return Ok(None) };
        if self.offset >= segment.bytes {
            return Ok(None);
        }
        self.check()?;
        let mut read = self.read(segment);
        if read.as_ref().is_err_and(is_absent) {
            // So it seems as well if the directory is elsewhere since.
            self.check()?;
            read = self.read(segment);
        }
        if read.as_ref().is_err_and(is_absent) {
            self.check()?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a segment was removed"));
        }
        let record = read?;
        self.oldest = record.as_ref().map(|read| ((HEADER + read.payload.len()) as u64, read.items));
        record.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a record is damaged"))
    }

    /// The oldest record, which is in this segment; `None` if it is damaged.
    fn read(&self, segment: Segment) -> io::Result<Option<Record>> {
        Reader::open(&self.path(segment.number), segment.bytes)?.record(self.offset)
    }

    /// The oldest record, which was read, is settled. Errors: it is removed all the same, but the disk does not take that: after a restart it may
    /// be there again, or still takes room.
    pub(crate) fn remove_oldest(&mut self) -> io::Result<()> {
        let Some((bytes, items)) = self.oldest.take() else { return Ok(()) };
        self.offset += bytes;
        if let Some(segment) = self.segments.front_mut() {
            segment.items = segment.items.saturating_sub(u64::from(items));
        }
        self.leave()
    }

    /// The oldest record will never be read: gives it up, and the rest of its segment if it does not tell where the next one begins. Returns the number
    /// of items that are lost.
    pub(crate) fn skip_damaged(&mut self) -> io::Result<u64> {
        self.oldest = None;
        let Some(segment) = self.segments.front().copied() else { return Ok(0) };
        let (offset, left) = match Reader::open(&self.path(segment.number), segment.bytes) {
            Err(error) if is_absent(&error) => (segment.bytes, 0),
            reader => {
                let mut reader = reader?;
                let next = self.offset + reader.hole(self.offset)?.bytes;
                (next, reader.items(next)?)
            }
        };
        self.offset = offset;
        if let Some(segment) = self.segments.front_mut() {
            segment.items = left;
        }
        // It is given up also if the disk does not take that.
        let _ = self.leave();
        Ok(segment.items.saturating_sub(left))
    }

    /// Removes what is delivered and could not be removed.
    pub(crate) fn tidy(&mut self) -> io::Result<()> {
        self.leave()
    }

    /// Removes segments that are delivered completely, and writes the cursor.
    fn leave(&mut self) -> io::Result<()> {
        self.retire_delivered();
        // What has its place now is somebody else's.
        self.check()?;
        let removed = self.remove_delivered();
        self.cursor.write(self.position()).and(removed)
    }

    /// Segments that are delivered completely are to be removed.
    fn retire_delivered(&mut self) {
        while let Some(segment) = self.segments.pop_front_if(|segment| self.offset >= segment.bytes) {
            self.offset = MAGIC.len() as u64;
            if self.segments.is_empty() {
                self.writer = None;
            }
            self.delivered.push(segment);
        }
    }

    fn remove_delivered(&mut self) -> io::Result<()> {
        let mut removed = Ok(());
        for segment in std::mem::take(&mut self.delivered) {
            match std::fs::remove_file(self.path(segment.number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    self.delivered.push(segment);
                    removed = Err(error);
                }
                _ => {}
            }
        }
        removed
    }

    /// Where the oldest record is.
    fn position(&self) -> Position {
        let number = self.segments.front().map_or(self.next_number, |segment| segment.number);
        Position { number, offset: self.offset }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(file_name(number))
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        self.record_owner()?;
        let number = self.next_number;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path(number))?;
        self.next_number += 1;
        if let Err(error) = file.write_all(MAGIC).and_then(|()| file.sync_data()) {
            let _ = std::fs::remove_file(self.path(number));
            return Err(error);
        }
        self.cursor.prepare();
        // The names of the files are in the directory.
        File::open(&self.directory)?.sync_all()?;
        self.segments.push_back(Segment { number, bytes: MAGIC.len() as u64, items: 0 });
        self.writer = Some(file);
        Ok(())
    }

    /// Finds the segments, removes those that were delivered, and cuts off a record that was not written completely.
    fn recover(&mut self) -> io::Result<()> {
        let start = Position { number: 0, offset: MAGIC.len() as u64 };
        let Position { number: first, offset } = self.cursor.read().unwrap_or(start);
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            numbers.extend(entry?.file_name().to_str().and_then(number_of));
        }
        numbers.sort_unstable();
        // Beyond the cursor, too: what is below it counts as delivered, and files that are no segments stay.
        let next = numbers.last().map_or(0, |last: &u64| last.saturating_add(1));
        self.next_number = next.max(first).max(1);
        let mut heads = Vec::new();
        for number in numbers {
            heads.push((number, segment::head(&self.path(number))?));
        }
        let newest = heads.iter().rev().find(|(_, head)| matches!(head, Head::Segment(_)));
        let newest = newest.map(|(number, _)| *number);
        for (number, head) in heads {
            let path = self.path(number);
            let bytes = match head {
                Head::Foreign => {
                    tracing::warn!(path = %path.display(), "a file is no segment of a spill, or damaged: it is left alone");
                    continue;
                }
                Head::Unwritten => {
                    std::fs::remove_file(&path)?;
                    continue;
                }
                Head::Segment(_) if number < first => {
                    std::fs::remove_file(&path)?;
                    continue;
                }
                Head::Segment(bytes) if Some(number) == newest => {
                    let whole = Reader::open(&path, bytes)?.whole()?;
                    OpenOptions::new().write(true).open(&path)?.set_len(whole)?;
                    whole
                }
                Head::Segment(bytes) => bytes,
            };
            self.segments.push_back(Segment { number, bytes, items: 0 });
        }
        if self.segments.front().is_some_and(|segment| segment.number == first) {
            self.offset = offset.max(MAGIC.len() as u64);
        }
        self.retire_delivered();
        self.remove_delivered()?;
        // From the cursor on.
        let mut offset = self.offset;
        let mut counts = Vec::with_capacity(self.segments.len());
        for segment in &self.segments {
            counts.push(Reader::open(&self.path(segment.number), segment.bytes)?.items(offset)?);
            offset = MAGIC.len() as u64;
        }
        self.segments.iter_mut().zip(counts).for_each(|(segment, items)| segment.items = items);
        Ok(())
    }
}

/// Whether a directory has segments. Those that are delivered are removed.
fn has_segments(directory: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        if entry?.file_name().to_str().and_then(number_of).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The number in the name of a segment; `None` if it is another name.
fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".spool")?.parse().ok()?;
    (name == file_name(number)).then_some(number)
}

fn file_name(number: u64) -> String {
    format!("{number:08}.spool")
}

/// Whether nothing is where something is looked for.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether an open file has a name: it was not removed.
fn is_linked(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
pub(crate) mod tests;
