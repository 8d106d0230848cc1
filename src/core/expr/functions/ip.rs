//! `ip(s)` and equality of IP_ADDRESS.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bumpalo::Bump;

use super::super::EvalError;

/// The 16 bytes of an address written as a dotted quad or as IPv6 text; IPv4 is mapped.
///
/// Refused: ports, prefixes, zones, brackets, blanks, leading zeros in a dotted quad.
pub fn ip<'a>(text: &[u8], arena: &'a Bump) -> Result<&'a [u8], EvalError<'a>> {
    match parse(text) {
        Some(address) => Ok(arena.alloc(address.octets())),
        None => Err(EvalError::failed(
            arena,
            format_args!("could not convert {} to IP_ADDRESS", String::from_utf8_lossy(text)),
        )),
    }
}

fn parse(text: &[u8]) -> Option<Ipv6Addr> {
    match std::str::from_utf8(text).ok()?.parse::<IpAddr>().ok()? {
        IpAddr::V4(v4) => Some(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => Some(v6),
    }
}

/// Equality after mapping 4-byte values to their 16-byte form; values of other lengths only when identical.
pub fn ip_equal(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((mapped(a), mapped(b)), (Some(a), Some(b)) if a == b)
}

fn mapped(address: &[u8]) -> Option<[u8; 16]> {
    match address.len() {
        4 => <[u8; 4]>::try_from(address).ok().map(|v4| Ipv4Addr::from(v4).to_ipv6_mapped().octets()),
        _ => address.try_into().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_equal_their_mapped_form() {
        assert!(ip_equal(&[10, 0, 0, 1], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]));
        assert!(ip_equal(&[], &[]));
        assert!(ip_equal(&[1, 2], &[1, 2]));
        assert!(!ip_equal(&[1, 2, 3, 4], &[1, 2, 3, 4, 0]));
    }
}
