//! The wire format of protobuf.

use prost::encoding::{WireType, encode_key, encode_varint};

/// A length-delimited field.
pub(super) fn bytes(number: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// A length-delimited field whose content `write` appends.
pub(super) fn nested(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(number, WireType::LengthDelimited, out);
    let start = out.len();
    write(out);
    let mut length = Vec::with_capacity(4);
    encode_varint(out.len().saturating_sub(start) as u64, &mut length);
    out.splice(start..start, length);
}

/// A varint field.
pub(super) fn varint(number: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

/// A double field.
pub(super) fn double(number: u32, value: f64, out: &mut Vec<u8>) {
    encode_key(number, WireType::SixtyFourBit, out);
    out.extend_from_slice(&value.to_le_bytes());
}
