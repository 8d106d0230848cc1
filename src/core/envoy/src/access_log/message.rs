//! `StreamAccessLogsMessage`.

use super::super::wire::each_bytes;
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
    /// Decodes a message, except for the content of its entries. Errors: the bytes are no `StreamAccessLogsMessage`.
    pub fn read(body: &'a [u8]) -> Result<Self, DecodeError> {
        let (mut identifier, mut entry_count) = (None, 0);
        let mut result = Ok(());
        each_bytes(body, |number, bytes| match number {
            1 => identifier = Some(bytes),
            2 | 3 => {
                let read = each_bytes(bytes, |number, _| entry_count += usize::from(number == 1));
                if read.is_err() {
                    result = read;
                }
            }
            _ => {}
        })?;
        let entries = LogEntries { lists: Reader::new(body), kind: LogKind::Http, list: Reader::new(&[]) };
        result.map(|()| Self { identifier, entry_count, entries })
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
        loop {
            while let Some((number, bytes)) = next_bytes(&mut self.list) {
                if number == 1 {
                    return Some((self.kind, bytes));
                }
            }
            let (number, bytes) = next_bytes(&mut self.lists)?;
            self.kind = match number {
                2 => LogKind::Http,
                3 => LogKind::Tcp,
                _ => continue,
            };
            self.list = Reader::new(bytes);
        }
    }
}

/// The next length-delimited field; `None` at the end, and for bytes that are no message.
fn next_bytes<'a>(reader: &mut Reader<'a>) -> Option<(u32, &'a [u8])> {
    while let Some((number, wire_type)) = reader.tag().ok()? {
        match wire_type {
            2 => return Some((number, reader.bytes().ok()?)),
            _ => reader.skip(wire_type).ok()?,
        }
    }
    None
}
