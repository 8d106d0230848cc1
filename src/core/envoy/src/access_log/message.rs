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
        let mut scan = LogScan::new(body, max_entries);
        while !scan.advance(usize::MAX)? {}
        Ok(scan.message)
    }

    /// The encoded entries with their kinds, in order.
    pub fn entries(&self) -> LogEntries<'a> {
        self.entries
    }
}

/// [`LogMessage::read`] in pieces. The entries of a long message are not in the caches of the processor: to find one takes some 0.1 us.
#[derive(Debug)]
pub struct LogScan<'a> {
    message: LogMessage<'a>,
    lists: Reader<'a>,
    /// What is left of the list that is being read.
    list: Reader<'a>,
    max_entries: usize,
    fields_left: usize,
}

impl<'a> LogScan<'a> {
    /// At the begin of a message.
    pub fn new(body: &'a [u8], max_entries: usize) -> Self {
        let entries = LogEntries { lists: Reader::new(body), kind: LogKind::Http, list: Reader::new(&[]) };
        Self {
            message: LogMessage { identifier: None, entry_count: 0, entries },
            lists: Reader::new(body),
            list: Reader::new(&[]),
            max_entries,
            fields_left: max_entries.saturating_add(MAX_FIELDS),
        }
    }

    /// Reads up to so many fields; true at the end of the message, or behind the first entry beyond `max_entries`.
    ///
    /// Errors: those of [`LogMessage::read`].
    pub fn advance(&mut self, fields: usize) -> Result<bool, DecodeError> {
        let Self { message, lists, list, max_entries, fields_left } = self;
        for _ in 0..fields {
            if let Some((number, _)) = read_bytes(list, fields_left)? {
                message.entry_count += usize::from(number == 1);
                if message.entry_count > *max_entries {
                    return Ok(true);
                }
                continue;
            }
            match read_bytes(lists, fields_left)? {
                None => return Ok(true),
                Some((1, bytes)) => message.identifier = Some(bytes),
                Some((2 | 3, bytes)) => *list = Reader::new(bytes),
                Some(_) => {}
            }
        }
        Ok(false)
    }

    /// What was read.
    pub fn message(&self) -> LogMessage<'a> {
        self.message
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A length-delimited field.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
        [field, bytes.to_vec()].concat()
    }

    #[test]
    fn a_message_is_the_same_in_pieces_of_any_length() {
        let entries = |count: usize| field(1, b"an entry").repeat(count);
        let lists = [field(2, &entries(3)), field(3, &[]), field(2, &entries(1)), field(3, &entries(2))];
        let body = [field(1, b"who"), lists.concat(), field(9, b"unknown")].concat();
        let whole = LogMessage::read(&body, 100).unwrap();
        assert_eq!((whole.identifier, whole.entry_count), (Some(&b"who"[..]), 6));
        for piece in 1..20 {
            let mut scan = LogScan::new(&body, 100);
            let mut pieces = 1;
            while !scan.advance(piece).unwrap() {
                pieces += 1;
            }
            let read = scan.message();
            assert_eq!((read.identifier, read.entry_count), (whole.identifier, whole.entry_count), "{piece}");
            assert!(read.entries().eq(whole.entries()));
            assert!(pieces <= body.len() / piece + 1, "each piece goes on, {piece}");
        }
        assert_eq!(LogMessage::read(&body, 4).unwrap().entry_count, 5);
    }
}
