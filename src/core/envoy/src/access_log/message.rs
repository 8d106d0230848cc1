//! `StreamAccessLogsMessage`.

use crate::wire::MAX_FIELDS;
use mixer_attribute::DecodeError;
use mixer_attribute::wire::Reader;

/// The kind of an access log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// `http_logs`.
    Http,
    /// `tcp_logs`.
    Tcp,
}

/// The parts of a `StreamAccessLogsMessage`.
#[derive(Debug, Clone, Copy)]
pub struct LogMessage<'a> {
    /// The identifier, in the first message of a stream.
    pub identifier: Option<&'a [u8]>,
    /// Number of entries.
    pub entry_count: usize,
    entries: LogEntries<'a>,
}

impl<'a> LogMessage<'a> {
    /// Decodes a message, except for the content of its entries. Stops at the first entry beyond `max_entries`, which it counts.
    ///
    /// Errors: the bytes are no `StreamAccessLogsMessage`, or there are too many fields besides the entries.
    pub fn read(body: &'a [u8], max_entries: usize) -> Result<Self, DecodeError> {
        let entries = LogEntries { lists: Reader::new(body), kind: LogKind::Http, list: Reader::new(&[]) };
        let mut message = Self { identifier: None, entry_count: 0, entries };
        let mut lists = Reader::new(body);
        let mut fields = max_entries.saturating_add(MAX_FIELDS);
        while let Some((number, bytes)) = read_bytes(&mut lists, &mut fields)? {
            match number {
                1 => message.identifier = Some(bytes),
                2 | 3 => {
                    let mut list = Reader::new(bytes);
                    while let Some((number, _)) = read_bytes(&mut list, &mut fields)? {
                        message.entry_count += usize::from(number == 1);
                        if message.entry_count > max_entries {
                            return Ok(message);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(message)
    }

    /// The encoded entries with their kinds, in order.
    pub fn entries(&self) -> LogEntries<'a> {
        self.entries
    }
}

/// Iterates over the encoded entries of a valid message.
#[derive(Debug, Clone, Copy)]
pub struct LogEntries<'a> {
    lists: Reader<'a>,
    /// The list that is being read, and the kind of its entries.
    kind: LogKind,
    list: Reader<'a>,
}

impl<'a> Iterator for LogEntries<'a> {
    type Item = (LogKind, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        // They were counted when the message was read.
        let mut left = usize::MAX;
        loop {
            // The message is valid: no read fails.
            while let Ok(Some((number, bytes))) = read_bytes(&mut self.list, &mut left) {
                if number == 1 {
                    return Some((self.kind, bytes));
                }
            }
            let (number, bytes) = read_bytes(&mut self.lists, &mut left).ok()??;
            self.kind = match number {
                2 => LogKind::Http,
                3 => LogKind::Tcp,
                _ => continue,
            };
            self.list = Reader::new(bytes);
        }
    }
}

/// The next length-delimited field; `None` at the end. Errors: also more fields than `left`, from which they are subtracted.
fn read_bytes<'a>(reader: &mut Reader<'a>, left: &mut usize) -> Result<Option<(u32, &'a [u8])>, DecodeError> {
    while let Some((number, wire_type)) = reader.tag()? {
        *left = left.checked_sub(1).ok_or(DecodeError::TooManyFields { limit: MAX_FIELDS })?;
        match wire_type {
            2 => return Ok(Some((number, reader.bytes()?))),
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(None)
}
