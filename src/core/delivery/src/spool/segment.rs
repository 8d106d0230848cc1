//! What is in the file of a segment.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use mixer_base::regular_file;

/// The first bytes of a segment: name and version of the format.
pub(super) const MAGIC: &[u8; 8] = b"mxspool1";
/// The first bytes of a segment of any version.
pub(super) const NAME: &[u8] = b"mxspool";
/// Bytes of a record before its payload.
pub(super) const HEADER: usize = 12;
/// The largest payload.
pub(super) const LARGEST: u64 = 64 << 20;
/// Bytes that are looked at for a record at most, each as often as it may be one of another record.
const SEARCHED: u64 = 64 << 20;
/// More than a segment has.
const LONGEST: u64 = LARGEST + super::SEGMENT + HEADER as u64;

/// A batch on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Number of items.
    pub(crate) items: u32,
    /// The items.
    pub(crate) payload: Vec<u8>,
}

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// It is a segment of this length.
    Segment(u64),
    /// A segment that ends before its first record.
    Unwritten,
    Foreign,
}

/// Looks at the beginning of a file. A damaged one before a record that is intact is that of a segment.
///
/// Errors: it was written by another version.
pub(super) fn head(path: &Path) -> io::Result<Head> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut found = Vec::new();
    (&mut file).take(MAGIC.len() as u64).read_to_end(&mut found)?;
    if found == MAGIC {
        return Ok(Head::Segment(bytes));
    }
    if MAGIC.starts_with(&found) {
        return Ok(Head::Unwritten);
    }
    if found.starts_with(NAME) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it was written by another version"));
    }
    let first = Reader { file, bytes }.record(MAGIC.len() as u64)?;
    Ok(first.map_or(Head::Foreign, |_| Head::Segment(bytes)))
}

/// The bytes before a payload.
struct Header {
    length: u32,
    items: u32,
    sum: u32,
}

impl Header {
    fn parse(bytes: [u8; HEADER]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let number = u32::from_le_bytes;
        Self { length: number([a, b, c, d]), items: number([e, f, g, h]), sum: number([i, j, k, l]) }
    }

    /// Bytes of the record.
    fn record(&self) -> u64 {
        HEADER as u64 + u64::from(self.length)
    }

    /// Whether there may be such a record where a segment has `rest` more bytes.
    fn fits(&self, rest: u64) -> bool {
        u64::from(self.length) <= LARGEST && self.record() <= rest
    }

    fn is_of(&self, payload: &[u8]) -> bool {
        checksum(self.length, self.items, payload) == self.sum
    }
}

pub(super) fn checksum(length: u32, items: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(&items.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// A part of a segment: a record, or what cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bytes: u64,
    items: u64,
}

/// Reads a segment.
pub(super) struct Reader {
    file: File,
    /// Its length.
    bytes: u64,
}

impl Reader {
    pub(super) fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, bytes })
    }

    /// A file that may be no segment, and is no one's to wait for; `None` if it is none, or of another version.
    pub(super) fn of_any(path: &Path) -> io::Result<Option<Self>> {
        let (mut file, metadata) = regular_file::open(path)?;
        let mut found = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut found)?;
        Ok((found == MAGIC).then_some(Self { file, bytes: metadata.len() }))
    }

    /// Items from an offset on, by what the headers say, of at most `left` records, which are counted down. What cannot be read is one item.
    pub(super) fn outline(&mut self, mut offset: u64, left: &mut usize) -> io::Result<u64> {
        let mut items = 0_u64;
        while offset < self.bytes && *left > 0 {
            *left -= 1;
            let Some(header) = self.header(offset)? else { return Ok(items + 1) };
            items += u64::from(header.items.clamp(1, header.length.max(1)));
            offset += header.record();
        }
        Ok(items)
    }

    /// Its length.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn rest(&self, offset: u64) -> u64 {
        self.bytes.saturating_sub(offset)
    }

    /// The header at an offset; `None` if none of a record fits there.
    fn header(&mut self, offset: u64) -> io::Result<Option<Header>> {
        if self.rest(offset) < HEADER as u64 {
            return Ok(None);
        }
        self.file.seek(SeekFrom::Start(offset))?;
        let mut bytes = [0; HEADER];
        let is_there = self.fill(&mut bytes)?;
        Ok(Some(Header::parse(bytes)).filter(|header| is_there && header.fits(self.rest(offset))))
    }

    /// Reads on. Returns false if the file ends before: somebody has cut it off.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.file.read_exact(bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            read => read.map(|()| true),
        }
    }

    /// The record at an offset; `None` if it is incomplete or damaged.
    pub(super) fn record(&mut self, offset: u64) -> io::Result<Option<Record>> {
        let Some(header) = self.header(offset)? else { return Ok(None) };
        let mut payload = vec![0; header.length as usize];
        let is_whole = self.fill(&mut payload)? && header.is_of(&payload);
        Ok(is_whole.then_some(Record { items: header.items, payload }))
    }

    /// What is at an offset.
    fn part(&mut self, offset: u64) -> io::Result<Part> {
        match self.record(offset)? {
            Some(record) => {
                Ok(Part { bytes: (HEADER + record.payload.len()) as u64, items: u64::from(record.items) })
            }
            None => self.hole(offset),
        }
    }

    /// Items from an offset on, those that are damaged included.
    pub(super) fn items(&mut self, mut offset: u64) -> io::Result<u64> {
        let mut items = 0;
        while offset < self.bytes {
            let part = self.part(offset)?;
            items += part.items;
            offset += part.bytes;
        }
        Ok(items)
    }

    /// What cannot be read at an offset: one record, if another one or the end follows where it says, and the rest otherwise, whose items are not known
    /// and count as one.
    pub(super) fn hole(&mut self, offset: u64) -> io::Result<Part> {
        if let Some(header) = self.header(offset)? {
            let next = offset + header.record();
            if next == self.bytes || self.record(next)?.is_some() {
                // No item is encoded as nothing.
                let items = u64::from(header.items.clamp(1, header.length.max(1)));
                return Ok(Part { bytes: header.record(), items });
            }
        }
        Ok(Part { bytes: self.rest(offset), items: 1 })
    }

    /// The length without a record at the end that was not written completely.
    pub(super) fn whole(&mut self) -> io::Result<u64> {
        let mut offset = MAGIC.len() as u64;
        while offset < self.bytes {
            if let Some(record) = self.record(offset)? {
                offset += (HEADER + record.payload.len()) as u64;
                continue;
            }
            let hole = self.hole(offset)?;
            if hole.bytes == self.rest(offset) && !self.has_record_after(offset)? {
                return Ok(offset);
            }
            offset += hole.bytes;
        }
        Ok(self.bytes)
    }

    /// Whether there is a record anywhere after an offset: what is there is damaged then, and not incomplete.
    fn has_record_after(&mut self, offset: u64) -> io::Result<bool> {
        self.file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        (&mut self.file).take(LONGEST).read_to_end(&mut bytes)?;
        let mut left = SEARCHED;
        let mut rest = bytes.as_slice();
        while let Some((_, after)) = rest.split_first() {
            rest = after;
            let Some((header, payloads)) = rest.split_first_chunk() else { break };
            let header = Header::parse(*header);
            if header.items == 0 || !header.fits(rest.len() as u64) {
                continue;
            }
            let Some(remaining) = left.checked_sub(header.record()) else { return Ok(true) };
            left = remaining;
            if payloads.get(..header.length as usize).is_some_and(|payload| header.is_of(payload)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
