//! Texts of callers in the labels of series.

use mixer_base::bounded::key_digest;

/// Longest text in bytes. Longer ones are cut.
pub(crate) const MAX_BYTES: usize = 1024;

/// Cuts a text that is too long, see [`push_cut`]. Returns whether it was too long.
pub(crate) fn cut(value: &mut Vec<u8>) -> bool {
    if value.len() <= MAX_BYTES {
        return false;
    }
    let digest = key_digest(value);
    let mut short = Vec::new();
    push_cut(&mut short, value, &digest);
    *value = short;
    true
}

/// Appends what stands for a text longer than [`MAX_BYTES`] with this BLAKE3 digest: its first characters, `…` and the first 128 bits of the
/// digest in hexadecimal digits, so that texts which differ only behind the cut stay different series.
pub(crate) fn push_cut(out: &mut Vec<u8>, value: &[u8], digest: &[u8; 32]) {
    let kept = MAX_BYTES - "…".len() - 32;
    let boundary = (0..=kept).rev().find(|at| value.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80));
    out.extend_from_slice(value.get(..boundary.unwrap_or(0)).unwrap_or(value));
    out.extend_from_slice("…".as_bytes());
    for byte in digest.iter().take(16) {
        out.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
}
