//! The little of DER that certificates need beyond what webpki gives.

/// A sequence.
pub(super) const SEQUENCE: u8 = 0x30;
/// An object identifier.
pub(super) const OBJECT_ID: u8 = 0x06;
/// Octets.
pub(super) const OCTET_STRING: u8 = 0x04;

/// The content of the first element if it is of this kind, and what follows.
pub(super) fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// The tag and the content of the first element, and what follows.
pub(super) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// Tags and contents of all elements, up to the first invalid one.
pub(super) fn elements(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, content, rest) = element(bytes)?;
        bytes = rest;
        Some((tag, content))
    })
}
