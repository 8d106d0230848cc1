//! Random UUIDs.

/// The length of the text of a UUID.
pub(crate) const LENGTH: usize = 36;

/// A random UUID, version 4, as text.
pub(crate) fn random() -> [u8; LENGTH] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bits = (fastrand::u128(..) & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
    let mut text = [b'-'; LENGTH];
    let mut nibble = 32_u32;
    for (place, byte) in text.iter_mut().enumerate() {
        if !matches!(place, 8 | 13 | 18 | 23) {
            nibble = nibble.saturating_sub(1);
            let digit = usize::try_from((bits >> (4 * nibble)) & 0xf).unwrap_or(0);
            *byte = HEX.get(digit).copied().unwrap_or(b'0');
        }
    }
    text
}

/// As a string.
pub(crate) fn text(uuid: [u8; LENGTH]) -> String {
    String::from_utf8_lossy(&uuid).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_has_version_4() {
        let (a, b) = (super::text(super::random()), super::text(super::random()));
        assert_ne!(a, b);
        let groups: Vec<usize> = a.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{a}");
        assert_eq!(a.as_bytes()[14], b'4', "{a}");
        assert!(matches!(a.as_bytes()[19], b'8'..=b'9' | b'a'..=b'b'), "{a}");
    }
}
