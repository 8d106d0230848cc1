//! What servers of the forward protocol send: the part of msgpack that it consists of, read as it arrives.

/// Depth of arrays and maps at most.
const MAX_DEPTH: usize = 4;

/// A value of a message. Texts may be binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    Integer,
    Text(&'a [u8]),
    Array(Vec<Value<'a>>),
    Map(Vec<(Value<'a>, Value<'a>)>),
}

/// It is no message of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Removes the value at the beginning; `None` if it is incomplete. Memory is bounded by the bytes that are there.
///
/// Errors: it is no value of the protocol.
pub(super) fn value<'a>(bytes: &mut &'a [u8]) -> Result<Option<Value<'a>>, Unreadable> {
    nested(bytes, MAX_DEPTH)
}

fn nested<'a>(bytes: &mut &'a [u8], depth: usize) -> Result<Option<Value<'a>>, Unreadable> {
    let Some(&[marker]) = take(bytes, 1) else { return Ok(None) };
    let sized = |length: Option<usize>, bytes: &mut &'a [u8]| {
        let taken = length.and_then(|length| take(bytes, length));
        Ok(taken.map(Value::Text))
    };
    match marker {
        0xc0 => Ok(Some(Value::Nil)),
        0xc2 | 0xc3 => Ok(Some(Value::Bool(marker == 0xc3))),
        0x00..=0x7f | 0xe0..=0xff => Ok(Some(Value::Integer)),
        0xcc..=0xcf => Ok(take(bytes, 1 << (marker - 0xcc)).map(|_| Value::Integer)),
        0xd0..=0xd3 => Ok(take(bytes, 1 << (marker - 0xd0)).map(|_| Value::Integer)),
        0xa0..=0xbf => sized(Some(usize::from(marker & 0x1f)), bytes),
        0xc4..=0xc6 => sized(length(bytes, 1 << (marker - 0xc4)), bytes),
        0xd9..=0xdb => sized(length(bytes, 1 << (marker - 0xd9)), bytes),
        0x90..=0x9f => array(bytes, Some(usize::from(marker & 0xf)), depth),
        0xdc | 0xdd => {
            let count = length(bytes, 2 << (marker - 0xdc));
            array(bytes, count, depth)
        }
        0x80..=0x8f => map(bytes, Some(usize::from(marker & 0xf)), depth),
        0xde | 0xdf => {
            let count = length(bytes, 2 << (marker - 0xde));
            map(bytes, count, depth)
        }
        _ => Err(Unreadable),
    }
}

fn array<'a>(
    bytes: &mut &'a [u8],
    count: Option<usize>,
    depth: usize,
) -> Result<Option<Value<'a>>, Unreadable> {
    let (Some(count), depth) = (count, depth.checked_sub(1).ok_or(Unreadable)?) else { return Ok(None) };
    let mut values = Vec::new();
    for _ in 0..count {
        let Some(value) = nested(bytes, depth)? else { return Ok(None) };
        values.push(value);
    }
    Ok(Some(Value::Array(values)))
}

fn map<'a>(
    bytes: &mut &'a [u8],
    count: Option<usize>,
    depth: usize,
) -> Result<Option<Value<'a>>, Unreadable> {
    let (Some(count), depth) = (count, depth.checked_sub(1).ok_or(Unreadable)?) else { return Ok(None) };
    let mut entries = Vec::new();
    for _ in 0..count {
        let Some(key) = nested(bytes, depth)? else { return Ok(None) };
        let Some(value) = nested(bytes, depth)? else { return Ok(None) };
        entries.push((key, value));
    }
    Ok(Some(Value::Map(entries)))
}

/// A length of `size` bytes, at most 4.
fn length(bytes: &mut &[u8], size: usize) -> Option<usize> {
    let taken = take(bytes, size)?;
    Some(taken.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}
