//! A hash index over a few thousand names, tuned for look-ups that mostly miss.

/// An open-addressing table of name numbers with a load factor of at most 1/4.
#[derive(Debug)]
pub(super) struct NameIndex {
    /// One more than the number of a name; 0 is free.
    buckets: Box<[u32]>,
    /// How far a hash is shifted right to select a bucket.
    shift: u32,
}

impl NameIndex {
    /// Numbers unique names from 0.
    pub(super) fn new<'n>(names: impl ExactSizeIterator<Item = &'n [u8]>) -> Self {
        let len = (names.len().max(4) * 4).next_power_of_two();
        let mut index =
            Self { buckets: vec![0; len].into_boxed_slice(), shift: u64::BITS - len.trailing_zeros() };
        for (name, number) in names.zip(1u32..) {
            let free = index.probe(name).find(|at| index.buckets.get(*at) == Some(&0));
            if let Some(bucket) = free.and_then(|at| index.buckets.get_mut(at)) {
                *bucket = number;
            }
        }
        index
    }

    /// The number of a name; `name_of` returns the name of a number.
    #[inline]
    pub(super) fn find<'n>(&self, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) -> Option<u32> {
        for at in self.probe(name) {
            let number = self.buckets.get(at)?.checked_sub(1)?;
            if name_of(number) == name {
                return Some(number);
            }
        }
        None
    }

    /// The buckets to probe for a name, in order.
    #[inline]
    fn probe(&self, name: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let start = (hash(name) >> self.shift) as usize;
        let mask = self.buckets.len() - 1;
        (0..=mask).map(move |step| (start + step) & mask)
    }
}

/// Mixes the length and both ends of a name. Names that differ only in the middle collide.
#[inline]
fn hash(name: &[u8]) -> u64 {
    const K1: u64 = 0x9e37_79b9_7f4a_7c15;
    const K2: u64 = 0xd6e8_feb8_6659_fd93;
    let (first, last) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (name.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)), 0),
    };
    (first.wrapping_mul(K1) ^ last.rotate_left(29)).wrapping_add(name.len() as u64).wrapping_mul(K2)
}

#[cfg(test)]
mod tests {
    use super::NameIndex;

    #[test]
    fn finds_exactly_the_indexed_names() {
        let names: Vec<String> = (0..3000)
            .map(|i| if i % 2 == 0 { format!("a{i}") } else { format!("source.labels.{i}.with.a.long.end") })
            .collect();
        let index = NameIndex::new(names.iter().map(|n| n.as_bytes()));
        let find = |name: &str| index.find(name.as_bytes(), |i| names[i as usize].as_bytes());
        for (i, name) in names.iter().enumerate() {
            assert_eq!(find(name), Some(i as u32), "{name}");
        }
        for other in ["", "a", "a1", "source.labels.0.with.a.long.end"] {
            assert_eq!(find(other), None, "{other}");
        }
    }
}
