//! The protobuf encoding, into one buffer.

/// The wire type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WireType {
    /// A number of variable length.
    Varint = 0,
    /// 8 bytes.
    Fixed64 = 1,
    /// A length and as many bytes.
    Bytes = 2,
    /// 4 bytes.
    Fixed32 = 5,
}

/// Writes the tag of a field.
pub fn put_tag(number: u32, wire_type: WireType, out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | wire_type as u64, out);
}

/// Writes a number of variable length, in as few bytes as possible.
pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a signed number as `sint64` does.
pub fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

/// Writes a length-delimited field.
pub fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(number, WireType::Bytes, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes what `write` writes, and its length before it. A length of more than one byte moves what was written.
///
/// Errors: those of `write`.
pub fn put_length<T, E>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<T, E>) -> Result<T, E> {
    let at = out.len();
    out.push(0);
    let start = out.len();
    let result = write(out)?;
    let len = out.len() - start;
    if len < 0x80 {
        if let Some(place) = out.get_mut(at) {
            *place = len as u8;
        }
        return Ok(result);
    }
    let end = out.len();
    // The bytes of the length that do not fit in the place of the first one.
    let mut rest = len as u64 >> 7;
    let mut more = 0;
    while rest > 0 {
        more += 1;
        rest >>= 7;
    }
    out.resize(end + more, 0);
    out.copy_within(start..end, start + more);
    let mut left = len as u64;
    for place in out.iter_mut().skip(at).take(more + 1) {
        *place = left as u8 | 0x80;
        left >>= 7;
    }
    if let Some(last) = out.get_mut(at + more) {
        *last &= 0x7f;
    }
    Ok(result)
}
