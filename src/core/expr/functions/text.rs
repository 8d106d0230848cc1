//! `toLower(s)`.

use bumpalo::Bump;

/// The text with every code point mapped by its one-to-one lower-case mapping; bytes that are not UTF-8 become U+FFFD,
/// unless all of the text is ASCII.
pub fn to_lower<'a>(text: &'a [u8], arena: &'a Bump) -> &'a [u8] {
    if text.is_ascii() {
        if !text.iter().any(u8::is_ascii_uppercase) {
            return text;
        }
        let lower = arena.alloc_slice_copy(text);
        lower.make_ascii_lowercase();
        return lower;
    }
    text
}
