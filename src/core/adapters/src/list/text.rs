//! Addresses as text, without allocation.

use std::io::Write as _;

use mixer_attribute::text::ip_text;

/// Buffer for the text of one address.
#[derive(Debug)]
pub(super) struct AddressBuffer {
    bytes: [u8; 64],
}

impl Default for AddressBuffer {
    fn default() -> Self {
        Self { bytes: [0; 64] }
    }
}

/// The text of an address. Bytes of any other length become text that is not an address.
pub(super) fn address<'b>(bytes: &[u8], buffer: &'b mut AddressBuffer) -> &'b [u8] {
    let mut rest = &mut buffer.bytes[..];
    // Longer text is truncated: no address is that long.
    let _ = write!(rest, "{}", ip_text(bytes));
    let left = rest.len();
    buffer.bytes.get(..buffer.bytes.len() - left).unwrap_or_default()
}
