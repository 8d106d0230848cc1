//! A bit set with interior mutability.

use std::cell::Cell;

use bumpalo::Bump;

/// A fixed-size bit set whose bits can be set through a shared reference.
#[derive(Debug, Clone, Copy)]
pub(super) struct BitSet<'a>(&'a [Cell<u64>]);

impl<'a> BitSet<'a> {
    pub(super) fn new(len: usize, arena: &'a Bump) -> Self {
        Self(arena.alloc_slice_fill_with(len.div_ceil(64), |_| Cell::new(0)))
    }

    #[inline]
    pub(super) fn insert(self, index: usize) {
        if let Some(bits) = self.0.get(index / 64) {
            bits.set(bits.get() | 1 << (index % 64));
        }
    }

    pub(super) fn clear(self) {
        self.0.iter().for_each(|bits| bits.set(0));
    }

    /// The indexes, ascending.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> + 'a {
        self.0.iter().enumerate().flat_map(|(i, bits)| {
            let mut bits = bits.get();
            std::iter::from_fn(move || {
                let next = (bits != 0).then_some(i * 64 + bits.trailing_zeros() as usize);
                bits &= bits.wrapping_sub(1);
                next
            })
        })
    }

    pub(super) fn copy(self, arena: &'a Bump) -> &'a [u64] {
        arena.alloc_slice_fill_iter(self.0.iter().map(Cell::get))
    }

    pub(super) fn restore(self, bits: &[u64]) {
        self.0.iter().zip(bits).for_each(|(to, from)| to.set(*from));
    }
}
