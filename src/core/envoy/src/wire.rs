//! Fields of Envoy's messages, and small messages that occur in many places.

use std::cell::Cell;
use std::net::IpAddr;

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use mixer_attribute::wire::{Reader, duration, timestamp};
use mixer_attribute::{DecodeError, SignedDuration, Timestamp};

/// Calls `each` for every length-delimited field of a message; skips the others.
#[inline]
pub(super) fn each_bytes<'a>(body: &'a [u8], mut each: impl FnMut(u32, &'a [u8])) -> Result<(), DecodeError> {
    each_field(body, |number, field| {
        if let FieldValue::Bytes(bytes) = field {
            each(number, bytes);
        }
    })
}

/// The value of a field by its wire type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FieldValue<'a> {
    /// An integer, enum or Boolean.
    Varint(u64),
    /// A double.
    Fixed64(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
}

/// Calls `each` for every field that is an integer, a double or length-delimited.
#[inline]
pub(super) fn each_field<'a>(
    body: &'a [u8],
    mut each: impl FnMut(u32, FieldValue<'a>),
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(body);
    while let Some((number, wire_type)) = reader.tag()? {
        match wire_type {
            0 => each(number, FieldValue::Varint(reader.varint()?)),
            1 => each(number, FieldValue::Fixed64(reader.fixed64()?)),
            2 => each(number, FieldValue::Bytes(reader.bytes()?)),
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(())
}

/// Most fields of a message of Envoy that is decoded as a whole, those of nested messages and map entries included: 5 400 headers. Envoy
/// sends 100 headers at most, unless it is told otherwise.
pub(super) const MAX_FIELDS: usize = 16 << 10;
/// Nested messages that are counted.
const MAX_DEPTH: usize = 32;

/// The fields that a message may still have. Two bytes of a message are enough for a field, and take tens of bytes decoded; fields that are
/// skipped take time.
#[derive(Debug)]
pub(super) struct FieldBudget(Cell<usize>);

impl Default for FieldBudget {
    fn default() -> Self {
        Self(Cell::new(MAX_FIELDS))
    }
}

impl FieldBudget {
    /// More than any message has.
    #[cfg(test)]
    pub(super) fn unbounded() -> Self {
        Self(Cell::new(usize::MAX))
    }

    #[inline]
    fn take(&self) -> Result<(), DecodeError> {
        let left = self.0.get().checked_sub(1).ok_or(DecodeError::TooManyFields { limit: MAX_FIELDS })?;
        self.0.set(left);
        Ok(())
    }

    /// As [`each_field`], up to the first error of `each`. Errors: also more fields than are left.
    #[inline]
    pub(super) fn each_field<'a>(
        &self,
        body: &'a [u8],
        mut each: impl FnMut(u32, FieldValue<'a>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new(body);
        while let Some((number, wire_type)) = reader.tag()? {
            self.take()?;
            match wire_type {
                0 => each(number, FieldValue::Varint(reader.varint()?))?,
                1 => each(number, FieldValue::Fixed64(reader.fixed64()?))?,
                2 => each(number, FieldValue::Bytes(reader.bytes()?))?,
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(())
    }

    /// As [`each_bytes`], up to the first error of `each`. Errors: also more fields than are left.
    #[inline]
    pub(super) fn each_bytes<'a>(
        &self,
        body: &'a [u8],
        mut each: impl FnMut(u32, &'a [u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.each_field(body, |number, field| match field {
            FieldValue::Bytes(bytes) => each(number, bytes),
            _ => Ok(()),
        })
    }

    /// As [`map_entry`]. Errors: also more fields than are left.
    #[inline]
    pub(super) fn map_entry<'a>(&self, body: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
        let (mut key, mut value) = (&[][..], &[][..]);
        self.each_bytes(body, |number, bytes| {
            match number {
                1 => key = bytes,
                2 => value = bytes,
                _ => {}
            }
            Ok(())
        })?;
        Ok((key, value))
    }

    /// Takes the fields of a `Metadata` message and of all Structs in it. Errors: there are more than are left. What is malformed is left to
    /// the decoder.
    pub(super) fn take_metadata(&self, body: &[u8]) -> Result<(), DecodeError> {
        self.take_nested(body, 1, |entry| self.take_nested(entry, 2, |inner| self.take_struct(inner)))
    }

    /// As [`take_metadata`](Self::take_metadata), of a `google.protobuf.Struct`.
    pub(super) fn take_struct(&self, body: &[u8]) -> Result<(), DecodeError> {
        self.take_fields(body, MAX_DEPTH)
    }

    fn take_fields(&self, body: &[u8], depth: usize) -> Result<(), DecodeError> {
        self.take_nested(body, 1, |entry| self.take_nested(entry, 2, |value| self.take_value(value, depth)))
    }

    fn take_value(&self, body: &[u8], depth: usize) -> Result<(), DecodeError> {
        let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
        self.take_nested(body, 5, |inner| self.take_fields(inner, depth))?;
        self.take_nested(body, 6, |list| self.take_nested(list, 1, |item| self.take_value(item, depth)))
    }

    /// Takes the fields of a message, and passes those with this number to `each`.
    fn take_nested(
        &self,
        body: &[u8],
        nested: u32,
        mut each: impl FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let taken =
            self.each_bytes(body, |number, bytes| if number == nested { each(bytes) } else { Ok(()) });
        match taken {
            Err(error @ DecodeError::TooManyFields { .. }) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Key and value of an entry of a `map<string, …>`.
#[inline]
pub(super) fn map_entry(body: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let (mut key, mut value) = (&[][..], &[][..]);
    each_bytes(body, |number, bytes| match number {
        1 => key = bytes,
        2 => value = bytes,
        _ => {}
    })?;
    Ok((key, value))
}

/// An IP address and port of an `envoy.config.core.v3.Address`; `None` for pipes, internal addresses and invalid IP addresses.
pub(super) fn address(body: &[u8]) -> Result<Option<(IpAddr, i64)>, DecodeError> {
    let mut socket = None;
    each_bytes(body, |number, bytes| {
        if number == 1 {
            socket = Some(bytes);
        }
    })?;
    let Some(socket) = socket else { return Ok(None) };
    let (mut text, mut port) = (&[][..], 0);
    each_field(socket, |number, value| match (number, value) {
        (2, FieldValue::Bytes(bytes)) => text = bytes,
        (3, FieldValue::Varint(number)) => port = i64::try_from(number).unwrap_or(0),
        _ => {}
    })?;
    Ok(ip(text).map(|ip| (ip, port)))
}

/// Parses an IP address.
pub(super) fn ip(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses an IP address as proxies write it in a header, alone or with a port: `10.0.0.1`, `10.0.0.1:80`, `[::1]`, `[::1]:80`.
pub(super) fn host_ip(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim_ascii();
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || text.parse().ok().map(|address: std::net::SocketAddr| address.ip());
    text.parse().ok().or_else(with_port).or_else(bare)
}

/// The 4 or 16 bytes of an address.
pub(super) fn ip_bytes(ip: IpAddr, arena: &Bump) -> &[u8] {
    match ip {
        IpAddr::V4(ip) => arena.alloc_slice_copy(&ip.octets()),
        IpAddr::V6(ip) => arena.alloc_slice_copy(&ip.octets()),
    }
}

/// A `google.protobuf.Timestamp`; `None` outside the years 1 to 9999.
pub(super) fn instant(body: &[u8]) -> Option<Timestamp> {
    timestamp(body).ok()
}

/// A `google.protobuf.Duration`; `None` for negative ones and those beyond 292 years.
pub(super) fn length(body: &[u8]) -> Option<SignedDuration> {
    duration(body).ok().filter(|duration| duration.nanos >= 0)
}

/// The number in a `google.protobuf.UInt32Value` or `UInt64Value`.
pub(super) fn wrapped(body: &[u8]) -> u64 {
    let mut number = 0;
    // An undecodable wrapper counts as 0, so that the rest of the entry is used.
    let _ = each_field(body, |field, value| {
        if let (1, FieldValue::Varint(value)) = (field, value) {
            number = value;
        }
    });
    number
}

/// An unsigned number as an INT64 attribute; saturates.
pub(super) fn int64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Concatenates in the arena.
pub(super) fn concat<'a>(parts: &[&[u8]], arena: &'a Bump) -> &'a [u8] {
    let mut out = ArenaVec::with_capacity_in(parts.iter().map(|part| part.len()).sum(), arena);
    for part in parts {
        out.extend_from_slice(part);
    }
    out.into_bump_slice()
}

/// The element for a field number, which counts from 1.
pub(super) fn numbered<T>(number: u32, list: &mut [T]) -> Option<&mut T> {
    list.get_mut(usize::try_from(number.checked_sub(1)?).ok()?)
}
