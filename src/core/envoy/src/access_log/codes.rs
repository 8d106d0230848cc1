//! Enumerations and response flags of access logs.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

use crate::wire::{FieldValue, each_field};
use mixer_attribute::DecodeError;
use mixer_base::rpc_code;

/// Short names of response flags, by field number from 1.
const FLAGS: [&str; 28] = [
    "LH", "UH", "UT", "LR", "UR", "UF", "UC", "UO", "NR", "DI", "FI", "RL", "UAEX", "RLSE", "DC", "URX",
    "SI", "IH", "DPE", "UMSDR", "RFCF", "NFCF", "DT", "UPE", "NC", "OM", "DF", "DR",
];
/// The flag `unauthorized_details`; a message, not a Boolean.
const UNAUTHORIZED: u32 = 13;

/// The set flags: bit N for field N.
fn set_flags(body: &[u8]) -> Result<u64, DecodeError> {
    let mut set = 0;
    each_field(body, |number, value| {
        let is_set = match value {
            FieldValue::Varint(flag) => flag != 0,
            FieldValue::Bytes(_) => number == UNAUTHORIZED,
            FieldValue::Fixed64(_) => false,
        };
        if is_set && number < 64 {
            set |= 1 << number;
        }
    })?;
    Ok(set)
}

/// The short names of the flags that are set, joined with commas; `-` if none is.
pub(super) fn response_flags<'a>(body: &[u8], arena: &'a Bump) -> Result<&'a [u8], DecodeError> {
    let set = set_flags(body)?;
    let mut names = FLAGS.iter().zip(1..).filter(|(_, number)| set >> number & 1 == 1).map(|(name, _)| *name);
    let Some(first) = names.next() else { return Ok(b"-") };
    let Some(second) = names.next() else { return Ok(first.as_bytes()) };
    let mut out = ArenaVec::new_in(arena);
    out.extend_from_slice(first.as_bytes());
    for name in std::iter::once(second).chain(names) {
        out.push(b',');
        out.extend_from_slice(name.as_bytes());
    }
    Ok(out.into_bump_slice())
}

/// Whether the request was denied by an authorization filter.
pub(super) fn is_unauthorized(body: &[u8]) -> Result<bool, DecodeError> {
    Ok(set_flags(body)? >> UNAUTHORIZED & 1 == 1)
}

pub(super) fn tls_version(number: u64) -> &'static [u8] {
    match number {
        1 => b"TLSv1",
        2 => b"TLSv1.1",
        3 => b"TLSv1.2",
        4 => b"TLSv1.3",
        _ => b"",
    }
}

pub(super) fn http_version(number: u64) -> &'static [u8] {
    match number {
        1 => b"HTTP/1.0",
        2 => b"HTTP/1.1",
        3 => b"HTTP/2",
        4 => b"HTTP/3",
        _ => b"",
    }
}

pub(super) fn method(number: u64) -> &'static [u8] {
    match number {
        1 => b"GET",
        2 => b"HEAD",
        3 => b"POST",
        4 => b"PUT",
        5 => b"DELETE",
        6 => b"CONNECT",
        7 => b"OPTIONS",
        8 => b"TRACE",
        9 => b"PATCH",
        _ => b"",
    }
}

/// The `google.rpc.Code` with this name.
pub(super) fn code_of_name(name: &[u8]) -> Option<i64> {
    let code = (0..).map_while(rpc_code::name).position(|code| code.as_bytes() == name)?;
    i64::try_from(code).ok()
}

/// The `google.rpc.Code` that corresponds to an HTTP status.
pub(super) fn code_of_status(status: u64) -> i64 {
    match status {
        400 => 3,
        401 => 16,
        404 => 5,
        409 => 10,
        429 => 8,
        499 => 1,
        500 => 13,
        501 => 12,
        503 => 14,
        504 => 4,
        _ => 7,
    }
}
