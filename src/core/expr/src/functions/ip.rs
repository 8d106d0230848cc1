//! `ip(s)` and equality of IP_ADDRESS.

use bumpalo::Bump;

use super::super::EvalError;
use mixer_attribute::text::{ip_bytes_to_mapped, ip_to_mapped, parse_ip};

/// The 16 bytes of an address written as a dotted quad or as IPv6 text; IPv4 is mapped.
///
/// Errors: ports, prefixes, zones, brackets, spaces, leading zeros in a dotted quad.
pub fn ip<'a>(text: &[u8], arena: &'a Bump) -> Result<&'a [u8], EvalError<'a>> {
    match parse_ip(text) {
        Some(address) => Ok(arena.alloc(ip_to_mapped(address))),
        None => Err(EvalError::failed(
            arena,
            format_args!("could not convert {} to IP_ADDRESS", String::from_utf8_lossy(text)),
        )),
    }
}

/// Equality after mapping 4-byte values to their 16-byte form; values of other lengths are equal only if identical.
pub fn ip_equal(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((ip_bytes_to_mapped(a), ip_bytes_to_mapped(b)), (Some(a), Some(b)) if a == b)
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
