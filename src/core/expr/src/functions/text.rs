//! `toLower(s)`.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

/// The text with every code point mapped by its simple lower-case mapping; invalid UTF-8 becomes U+FFFD.
pub fn to_lower<'a>(text: &'a [u8], arena: &'a Bump) -> &'a [u8] {
    if text.is_ascii() {
        if !text.iter().any(u8::is_ascii_uppercase) {
            return text;
        }
        let lower = arena.alloc_slice_copy(text);
        lower.make_ascii_lowercase();
        return lower;
    }
    let mut lower = ArenaVec::with_capacity_in(text.len() + 4, arena);
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            // Only U+0130 has a longer full mapping; its first character is the simple one.
            let mapped = c.to_lowercase().next().unwrap_or(c);
            lower.extend_from_slice(mapped.encode_utf8(&mut [0; 4]).as_bytes());
        }
        for _ in chunk.invalid() {
            lower.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    lower.into_bump_slice()
}

/// The most bytes that [`to_lower`] makes of a text: none if it has no capitals, and at most three for a byte that is no UTF-8.
pub(crate) fn made_by_lower(text: &[u8]) -> usize {
    match text.is_ascii() {
        true if text.iter().any(u8::is_ascii_uppercase) => text.len(),
        true => 0,
        false => text.len().saturating_mul(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point_is_mapped_alone() {
        let arena = Bump::new();
        for (text, lower) in [
            (&b"ABC xyz 1"[..], &b"abc xyz 1"[..]),
            ("ΟΔΥΣΣΕΥΣ".as_bytes(), "οδυσσευσ".as_bytes()),
            ("İẞﬀ\u{2126}\u{212a}".as_bytes(), "ißﬀωk".as_bytes()),
            (b"A\xffB", "a\u{fffd}b".as_bytes()),
            (b"\xe2\x82", "\u{fffd}\u{fffd}".as_bytes()),
            (b"", b""),
        ] {
            assert_eq!(to_lower(text, &arena), lower);
        }
    }
}
