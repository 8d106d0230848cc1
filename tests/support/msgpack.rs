//! Reads msgpack as JSON: binary values are `{"$bin": HEX}`, extensions `{"$ext": [TYPE, HEX]}`.

use serde_json::{Value, json};

/// The values at the beginning of `bytes`. An incomplete one at the end is left out; what is no msgpack is an error.
pub(crate) fn values(mut bytes: &[u8]) -> Result<Vec<Value>, String> {
    let mut values = Vec::new();
    loop {
        let mut rest = bytes;
        match value(&mut rest) {
            Ok(value) => values.push(value),
            Err(Unread::Incomplete) => return Ok(values),
            Err(Unread::Invalid(marker)) => return Err(format!("no msgpack: {marker:#04x}")),
        }
        bytes = rest;
    }
}

/// Bytes of the first value; `None` if it is incomplete.
pub(crate) fn length_of_first(bytes: &[u8]) -> Result<Option<usize>, String> {
    let mut rest = bytes;
    match value(&mut rest) {
        Ok(_) => Ok(Some(bytes.len() - rest.len())),
        Err(Unread::Incomplete) => Ok(None),
        Err(Unread::Invalid(marker)) => Err(format!("no msgpack: {marker:#04x}")),
    }
}

enum Unread {
    Incomplete,
    Invalid(u8),
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Unread> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(Unread::Incomplete)?;
    *bytes = rest;
    Ok(taken)
}

/// A big-endian number of so many bytes.
fn number(bytes: &mut &[u8], count: usize) -> Result<u64, Unread> {
    Ok(take(bytes, count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn length(bytes: &mut &[u8], count: usize) -> Result<usize, Unread> {
    Ok(number(bytes, count)? as usize)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value(bytes: &mut &[u8]) -> Result<Value, Unread> {
    let marker = take(bytes, 1)?[0];
    let text = |bytes: &mut &[u8], length| -> Result<Value, Unread> {
        Ok(Value::String(String::from_utf8_lossy(take(bytes, length)?).into_owned()))
    };
    let low = usize::from(marker & 0x0f);
    Ok(match marker {
        0x00..=0x7f => json!(marker),
        0x80..=0x8f => map(bytes, low)?,
        0x90..=0x9f => array(bytes, low)?,
        0xa0..=0xbf => text(bytes, usize::from(marker & 0x1f))?,
        0xc0 => Value::Null,
        0xc2 | 0xc3 => Value::Bool(marker == 0xc3),
        0xc4..=0xc6 => {
            let length = length(bytes, 1 << (marker - 0xc4))?;
            json!({ "$bin": hex(take(bytes, length)?) })
        }
        0xc7..=0xc9 => {
            let length = length(bytes, 1 << (marker - 0xc7))?;
            extension(bytes, length)?
        }
        0xca => json!(f32::from_bits(number(bytes, 4)? as u32)),
        0xcb => json!(f64::from_bits(number(bytes, 8)?)),
        0xcc..=0xcf => json!(number(bytes, 1 << (marker - 0xcc))?),
        0xd0 => json!(number(bytes, 1)? as u8 as i8),
        0xd1 => json!(number(bytes, 2)? as u16 as i16),
        0xd2 => json!(number(bytes, 4)? as u32 as i32),
        0xd3 => json!(number(bytes, 8)? as i64),
        0xd4..=0xd8 => extension(bytes, 1 << (marker - 0xd4))?,
        0xd9..=0xdb => {
            let length = length(bytes, 1 << (marker - 0xd9))?;
            text(bytes, length)?
        }
        0xdc | 0xdd => {
            let length = length(bytes, 2 << (marker - 0xdc))?;
            array(bytes, length)?
        }
        0xde | 0xdf => {
            let length = length(bytes, 2 << (marker - 0xde))?;
            map(bytes, length)?
        }
        0xe0..=0xff => json!(marker as i8),
        0xc1 => return Err(Unread::Invalid(marker)),
    })
}

fn extension(bytes: &mut &[u8], length: usize) -> Result<Value, Unread> {
    let kind = take(bytes, 1)?[0] as i8;
    Ok(json!({ "$ext": [kind, hex(take(bytes, length)?)] }))
}

fn array(bytes: &mut &[u8], length: usize) -> Result<Value, Unread> {
    (0..length).map(|_| value(bytes)).collect()
}

fn map(bytes: &mut &[u8], length: usize) -> Result<Value, Unread> {
    let mut entries = serde_json::Map::new();
    for _ in 0..length {
        let key = value(bytes)?;
        let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        if entries.insert(key, value(bytes)?).is_some() {
            // A key that is there twice.
            return Err(Unread::Invalid(0x80));
        }
    }
    Ok(Value::Object(entries))
}
