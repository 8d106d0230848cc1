//! Random ids.

/// A random id, version 4 of RFC 9562.
pub(crate) fn random() -> String {
    of(fastrand::u128(..))
}

fn of(random: u128) -> String {
    let bits = (random & !(0xf000_u128 << 64) & !(0xc000_u128 << 48)) | (0x4000 << 64) | (0x8000 << 48);
    let digits = format!("{bits:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn an_id_is_a_random_uuid() {
        let id = of(u128::MAX);
        assert_eq!(id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(of(0), "00000000-0000-4000-8000-000000000000");
    }
}
