//! Symbols as text, without allocating where an answer needs none.

use std::io::Write as _;

use mixer_attribute::text::ip_text;

/// Room for the text of one address.
#[derive(Debug)]
pub(super) struct Room {
    bytes: [u8; 64],
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: [0; 64] }
    }
}

/// The text of an address; bytes that are no address have a text that is none.
pub(super) fn address<'r>(bytes: &[u8], room: &'r mut Room) -> &'r [u8] {
    let mut rest = &mut room.bytes[..];
    // What does not fit is left out: no address is that long.
    let _ = write!(rest, "{}", ip_text(bytes));
    let left = rest.len();
    room.bytes.get(..room.bytes.len() - left).unwrap_or_default()
}
