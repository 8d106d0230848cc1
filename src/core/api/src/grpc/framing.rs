//! The prefix of a gRPC message: the compressed flag and four bytes of length.

/// Length of the prefix.
pub(super) const PREFIX: usize = 5;

/// A message of no bytes with its prefix. Every message begins with it; [`finish_message`] fills in the length of a longer one.
pub const EMPTY_MESSAGE: [u8; PREFIX] = [0; PREFIX];

/// Fills in the length of a message that begins with [`EMPTY_MESSAGE`].
pub fn finish_message(out: &mut [u8]) {
    let length = u32::try_from(out.len().saturating_sub(PREFIX)).unwrap_or(u32::MAX);
    if let Some(prefix) = out.get_mut(1..PREFIX) {
        prefix.copy_from_slice(&length.to_be_bytes());
    }
}

/// The message without its prefix.
pub fn unframed(framed: &[u8]) -> &[u8] {
    framed.get(PREFIX..).unwrap_or_default()
}
