//! `StreamAccessLogsMessage`.

use super::super::wire::each_bytes;
use mixer_attribute::DecodeError;

/// The kind of an access log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// `http_logs`.
    Http,
    /// `tcp_logs`.
    Tcp,
}

/// The parts of a `StreamAccessLogsMessage`.
#[derive(Debug, Default)]
pub struct LogMessage<'a> {
    /// The identifier, in the first message of a stream.
    pub identifier: Option<&'a [u8]>,
    /// The encoded entries with their kinds.
    pub entries: Vec<(LogKind, &'a [u8])>,
}

impl<'a> LogMessage<'a> {
    /// Decodes a message. Errors: the bytes are no `StreamAccessLogsMessage`.
    pub fn read(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        let mut result = Ok(());
        each_bytes(body, |number, bytes| {
            let kind = match number {
                1 => {
                    message.identifier = Some(bytes);
                    return;
                }
                2 => LogKind::Http,
                3 => LogKind::Tcp,
                _ => return,
            };
            let read = each_bytes(bytes, |number, entry| {
                if number == 1 {
                    message.entries.push((kind, entry));
                }
            });
            if read.is_err() {
                result = read;
            }
        })?;
        result.map(|()| message)
    }
}
