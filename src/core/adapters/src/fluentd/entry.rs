//! Entries: their encoding as msgpack, and on disk.

use std::sync::Arc;

use mixer_attribute::text::go_text;
use mixer_attribute::{Timestamp, Value};
use mixer_delivery::{Item, StoredItem};
use mixer_engine::adapter::{BoundInstance, Instance};
use rmp::encode as msgpack;

/// The variable that is the tag.
const TAG: &str = "tag";
/// The member with the severity, which takes the place of a variable of that name.
const SEVERITY: &str = "severity";
/// The member with the name of the instance, if a variable is the tag.
const NAME: &str = "name";
/// The extension type of instants in the forward protocol's records, as Go's library writes them.
const INSTANT: i8 = 5;

/// A log entry on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub(super) time: i64,
    pub(super) tag: Arc<[u8]>,
    /// The record, a map.
    pub(super) record: Box<[u8]>,
}

impl Item for Entry {
    fn size(&self) -> usize {
        size_of::<Self>() + self.tag.len() + self.record.len()
    }
}

impl StoredItem for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.time.to_le_bytes());
        out.extend(u32::try_from(self.tag.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&self.tag);
        out.extend_from_slice(&self.record);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (time, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (tag, record) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        Some(Self { time: i64::from_le_bytes(*time), tag: tag.into(), record: record.into() })
    }
}

/// How instances become entries, with everything constant already encoded.
pub(super) struct EntryTemplate {
    name: Arc<[u8]>,
    timestamp: Option<usize>,
    severity: Option<usize>,
    /// The variable `tag`.
    tag: Option<usize>,
    /// Encoded keys and positions of the other variables.
    members: Vec<(Vec<u8>, usize)>,
    integer_duration: bool,
}

impl EntryTemplate {
    pub(super) fn new(instance: &BoundInstance, integer_duration: bool) -> Self {
        let tag = instance.entries("variables").find(|(key, _)| *key == TAG).map(|(_, at)| at);
        let is_replaced = |key: &str| key == SEVERITY || tag.is_some() && (key == TAG || key == NAME);
        let members = instance.entries("variables").filter(|(key, _)| !is_replaced(key));
        let members = members.map(|(key, at)| {
            let mut name = Vec::new();
            push_text(&mut name, key.as_bytes());
            (name, at)
        });
        Self {
            name: instance.name.as_bytes().into(),
            timestamp: instance.position("timestamp"),
            severity: instance.position(SEVERITY),
            tag,
            members: members.collect(),
            integer_duration,
        }
    }

    pub(super) fn entry(&self, instance: &Instance<'_>) -> Entry {
        let value = |position: Option<usize>| position.and_then(|at| instance.value(at));
        let time = match value(self.timestamp) {
            Some(Value::Timestamp(time)) => time,
            _ => Timestamp::YEAR_ONE,
        };
        let mut record = Vec::with_capacity(256);
        let count = self.members.len() + 1 + usize::from(self.tag.is_some());
        // Writing to a Vec cannot fail.
        let _ = msgpack::write_map_len(&mut record, length(count));
        for (key, at) in &self.members {
            record.extend_from_slice(key);
            self.push_value(&mut record, instance.value(*at));
        }
        push_text(&mut record, SEVERITY.as_bytes());
        match value(self.severity) {
            Some(Value::String(severity)) => push_text(&mut record, severity),
            _ => push_text(&mut record, b""),
        }
        if self.tag.is_some() {
            push_text(&mut record, NAME.as_bytes());
            push_text(&mut record, &self.name);
        }
        let tag = match value(self.tag) {
            None => Arc::clone(&self.name),
            Some(Value::String(tag)) => tag.into(),
            Some(other) => go_text(other).to_string().into_bytes().into(),
        };
        Entry { time: time.seconds, tag, record: record.into() }
    }

    fn push_value(&self, out: &mut Vec<u8>, value: Option<Value<'_>>) {
        // Writing to a Vec cannot fail.
        let _ = match value {
            None => msgpack::write_nil(out),
            Some(Value::Int64(number)) => {
                msgpack::write_sint(out, number).map(drop).map_err(std::io::Error::from)
            }
            Some(Value::Double(number)) => msgpack::write_f64(out, number).map_err(std::io::Error::from),
            Some(Value::Bool(value)) => msgpack::write_bool(out, value),
            Some(Value::String(text)) => {
                push_text(out, text);
                Ok(())
            }
            Some(Value::Bytes(address)) => {
                let written = msgpack::write_bin_len(out, length(address.len()));
                out.extend_from_slice(address);
                written.map(drop).map_err(std::io::Error::from)
            }
            Some(Value::Duration(duration)) if self.integer_duration => {
                msgpack::write_sint(out, duration.nanos / 1_000_000).map(drop).map_err(std::io::Error::from)
            }
            Some(Value::Duration(duration)) => {
                push_text(out, duration.to_string().as_bytes());
                Ok(())
            }
            Some(Value::Timestamp(time)) => {
                let written = msgpack::write_ext_meta(out, 12, INSTANT);
                out.extend(time.seconds.to_be_bytes());
                out.extend(time.nanos.to_be_bytes());
                written.map(drop).map_err(std::io::Error::from)
            }
            Some(Value::StringMap(map)) => {
                let mut entries = map.entries.to_vec();
                entries.sort_unstable();
                let written = msgpack::write_map_len(out, length(entries.len()));
                for (key, value) in entries {
                    push_text(out, key);
                    push_text(out, value);
                }
                written.map(drop).map_err(std::io::Error::from)
            }
        };
    }
}

/// Appends a string. Bytes that are not UTF-8 are sent as they are.
pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    // Writing to a Vec cannot fail.
    let _ = msgpack::write_str_len(out, length(text.len()));
    out.extend_from_slice(text);
}

/// Lengths of msgpack have 32 bits; an entry that long exceeds every limit.
pub(super) fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the time and of the length of the tag.
    const HEAD: usize = size_of::<i64>() + size_of::<u32>();

    #[test]
    fn entries_survive_the_disk() {
        let entry = Entry { time: -5, tag: (*b"app.web").into(), record: Box::new([0x80]) };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(bytes.len(), HEAD + 8);
        assert_eq!(Entry::decode(&bytes), Some(entry));
        for cut in 0..HEAD + 7 {
            assert_eq!(Entry::decode(&bytes[..cut]), None, "{cut} bytes");
        }
    }
}
