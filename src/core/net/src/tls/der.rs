//! The little of DER that certificates need beyond what webpki gives.

/// A sequence.
pub(super) const SEQUENCE: u8 = 0x30;
/// An object identifier.
pub(super) const OBJECT_ID: u8 = 0x06;
/// Octets.
pub(super) const OCTET_STRING: u8 = 0x04;

/// Whether something holds.
pub(super) const BOOLEAN: u8 = 0x01;
/// A whole number.
pub(super) const INTEGER: u8 = 0x02;
/// Bits, after the number of those that are not used.
pub(super) const BIT_STRING: u8 = 0x03;
/// The optional version of a certificate, and its extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

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

/// The names and the validity of a certificate.
pub(super) struct Names<'c> {
    /// Whether it has no version: there were no extensions.
    pub(super) is_version_1: bool,
    pub(super) issuer: &'c [u8],
    /// Two times.
    pub(super) validity: &'c [u8],
    pub(super) subject: &'c [u8],
}

/// The names and the validity of a certificate.
pub(super) fn names(certificate: &[u8]) -> Option<Names<'_>> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    let version = expect(rest, VERSION);
    if let Some((_, after)) = version {
        rest = after;
    }
    // Serial number, algorithm.
    for _ in 0..2 {
        (_, _, rest) = element(rest)?;
    }
    let (issuer, rest) = expect(rest, SEQUENCE)?;
    let (validity, rest) = expect(rest, SEQUENCE)?;
    let (subject, _) = expect(rest, SEQUENCE)?;
    Some(Names { is_version_1: version.is_none(), issuer, validity, subject })
}

/// The value of an extension of a certificate.
pub(super) fn extension<'c>(certificate: &'c [u8], id: &[u8]) -> Option<&'c [u8]> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (body, _) = expect(certificate, SEQUENCE)?;
    let (_, extensions) = elements(body).find(|(tag, _)| *tag == EXTENSIONS)?;
    let (extensions, _) = expect(extensions, SEQUENCE)?;
    elements(extensions).find_map(|(_, extension)| {
        let (found, rest) = expect(extension, OBJECT_ID)?;
        // Between them, whether it is critical.
        let value = elements(rest).find(|(tag, _)| *tag == OCTET_STRING)?.1;
        (found == id).then_some(value)
    })
}
