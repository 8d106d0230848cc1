//! The buckets of a family of histograms: the classic ones of its table, and for durations those of native histograms beside them.
//!
//! One row of cells counts for both: its bounds are those of either, so that a value is counted once.

use std::sync::LazyLock;

use super::families::{FAMILIES, Family, FamilyInfo};
use crate::exposition::{NATIVE_SCHEMA, NativeBuckets};

/// Native buckets per doubling of the value.
const PER_DOUBLING: i32 = 1 << NATIVE_SCHEMA;
/// Native buckets of a histogram, without the zero bucket: from about 120 ns to 8 minutes. Longer calls count in the last one.
const NATIVE: usize = 128;
/// Largest recorded value of the zero bucket, before it is rounded down to a bound: 128 ns.
const ZERO: f64 = 128.0;
/// Rows of [`Buckets::starts`]: four for each number of bits.
const ROWS: usize = 252;

/// Bounds of cells in the recorded unit, and what they belong to.
#[derive(Debug)]
pub(super) struct Buckets {
    /// A cell counts the values below its bound; one more cell has the others.
    bounds: Box<[u64]>,
    /// The cell of the least value, by number of bits and the two bits below the highest.
    starts: Box<[u8]>,
    /// The classic bucket of each cell.
    classic: Box<[u8]>,
    /// The native bucket of each cell; 0 is the zero bucket. Empty if the family has none.
    native: Box<[u8]>,
    /// Index of the zero bucket's bound: `2^(zero / PER_DOUBLING)`, in the unit of the family's name.
    zero: i32,
    width: usize,
}

impl Buckets {
    /// Those of a family of histograms. The first call computes them.
    pub(super) fn of(family: Family) -> &'static Self {
        static ALL: LazyLock<Vec<Buckets>> = LazyLock::new(|| {
            FAMILIES
                .iter()
                .zip(Family::ALL)
                .map(|(info, family)| Buckets::new(info, family.is_native()))
                .collect()
        });
        static NONE: LazyLock<Buckets> = LazyLock::new(|| Buckets::new(Family::Build.info(), false));
        ALL.get(family as usize).unwrap_or(&NONE)
    }

    fn new(info: &FamilyInfo, is_native: bool) -> Self {
        let classic: Vec<u64> = info.bounds.iter().map(|bound| (bound * info.scale).round() as u64).collect();
        let zero = PER_DOUBLING * (ZERO / info.scale).log2().floor() as i32;
        // The bounds of native buckets belong to them, and recorded values are integers.
        let bound = |at: usize| {
            let exponent = (f64::from(zero) + at as f64) / f64::from(PER_DOUBLING);
            (exponent.exp2() * info.scale).floor() as u64 + 1
        };
        let native: Vec<u64> = (0..if is_native { NATIVE } else { 0 }).map(bound).collect();
        let mut bounds: Vec<u64> = classic.iter().chain(&native).copied().collect();
        bounds.sort_unstable();
        bounds.dedup();
        // The bucket of a cell is the first whose bound is not below that of the cell.
        let belongs = |buckets: &[u64]| -> Box<[u8]> {
            let cells = bounds.iter().copied().chain([u64::MAX]);
            cells
                .map(|cell| u8::try_from(buckets.partition_point(|bound| *bound < cell)).unwrap_or(u8::MAX))
                .collect()
        };
        let (of_classic, of_native) =
            (belongs(&classic), if is_native { belongs(&native) } else { Box::default() });
        let least = |row: usize| match row {
            0..4 => row as u64,
            _ => {
                let bits = (row + 4) / 4;
                (1 << bits) | (((row + 4) % 4) as u64) << (bits - 2)
            }
        };
        let start =
            |row| u8::try_from(bounds.partition_point(|bound| *bound <= least(row))).unwrap_or(u8::MAX);
        Self {
            starts: (0..ROWS).map(start).collect(),
            classic: of_classic,
            native: of_native,
            zero,
            width: classic.len() + 1,
            bounds: bounds.into(),
        }
    }

    /// Number of cells.
    pub(super) fn cells(&self) -> usize {
        self.bounds.len() + 1
    }

    /// The cell of a value. Cost: one look-up and a few comparisons.
    #[inline]
    pub(super) fn cell(&self, value: u64) -> usize {
        let row = match value {
            0..4 => value as usize,
            _ => {
                let bits = value.ilog2() as usize;
                4 * bits + ((value >> (bits - 2)) & 3) as usize - 4
            }
        };
        let start = usize::from(self.starts.get(row).copied().unwrap_or(0));
        let further = self.bounds.get(start..).unwrap_or_default();
        start + further.iter().position(|bound| value < *bound).unwrap_or(further.len())
    }

    /// Counts of the classic buckets, not cumulative, by those of the cells.
    pub(super) fn classic(&self, cells: &[u64]) -> Vec<u64> {
        summed(&self.classic, cells, self.width)
    }

    /// Counts of the native buckets.
    pub(super) fn native(&self, cells: &[u64]) -> Option<NativeBuckets> {
        if self.native.is_empty() {
            return None;
        }
        let mut counts = summed(&self.native, cells, NATIVE + 1);
        // Longer ones.
        let over = counts.pop().unwrap_or_default();
        if let Some(last) = counts.last_mut() {
            *last += over;
        }
        let zero_count = counts.first().copied().unwrap_or_default();
        let counts = counts.get(1..).unwrap_or_default().to_vec();
        let zero_threshold = (f64::from(self.zero) / f64::from(PER_DOUBLING)).exp2();
        Some(NativeBuckets { zero_threshold, zero_count, first: self.zero + 1, counts })
    }
}

fn summed(belongs: &[u8], cells: &[u64], width: usize) -> Vec<u64> {
    let mut sums = vec![0; width];
    for (bucket, count) in belongs.iter().zip(cells) {
        if let Some(sum) = sums.get_mut(usize::from(*bucket)) {
            *sum += count;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A value is in the classic bucket of which it is below the bound, and in the native one that ends at or above it.
        #[test]
        fn a_value_is_counted_in_both_of_its_buckets(exponent in 0_u32..64, below in 0_u64..=u64::MAX) {
            let value = (1_u64 << exponent) | (below & ((1_u64 << exponent) - 1));
            for family in [Family::RuntimeDispatchDuration, Family::RpcLatency, Family::RpcBytesSent] {
                let (buckets, info) = (Buckets::of(family), family.info());
                let mut cells = vec![0; buckets.cells()];
                cells[buckets.cell(value)] = 1;
                let bound = |at: usize| info.bounds.get(at).map_or(u64::MAX, |bound| (bound * info.scale).round() as u64);
                let at = (0..).find(|at| value < bound(*at) || *at == info.bounds.len()).unwrap();
                prop_assert_eq!(buckets.classic(&cells).iter().position(|count| *count == 1), Some(at));
                prop_assert_eq!(buckets.classic(&cells).iter().sum::<u64>(), 1);
                let Some(native) = buckets.native(&cells) else {
                    prop_assert_eq!(family, Family::RpcBytesSent);
                    continue;
                };
                prop_assert_eq!(native.zero_count + native.counts.iter().sum::<u64>(), 1);
                let in_unit = value as f64 / info.scale;
                match native.counts.iter().position(|count| *count == 1) {
                    None => prop_assert!(in_unit <= native.zero_threshold),
                    Some(at) => {
                        let upper = |index: i32| (f64::from(index) / f64::from(PER_DOUBLING)).exp2();
                        let index = native.first + i32::try_from(at).unwrap();
                        prop_assert!(in_unit > upper(index - 1) * (1.0 - 1e-12), "{} {}", value, index);
                        let is_last = at + 1 == native.counts.len();
                        prop_assert!(is_last || in_unit <= upper(index) * (1.0 + 1e-12), "{} {}", value, index);
                    }
                }
            }
        }
    }

    #[test]
    fn small_values_and_bounds_are_in_their_cells() {
        for family in [Family::RuntimeDispatchDuration, Family::RpcLatency, Family::DispatcherDestinations] {
            let buckets = Buckets::of(family);
            let near = buckets.bounds.iter().flat_map(|bound| [bound.saturating_sub(1), *bound, bound + 1]);
            for value in (0..600).chain(near) {
                let expected =
                    buckets.bounds.iter().position(|bound| value < *bound).unwrap_or(buckets.bounds.len());
                assert_eq!(buckets.cell(value), expected, "{value} of {family:?}");
            }
        }
        // Seconds: two cache lines of sixteen counters each for eight buckets; the sum has one.
        assert!(Buckets::of(Family::RuntimeDispatchDuration).cells() < 160);
        let native = Buckets::of(Family::RuntimeDispatchDuration).native(&[]).unwrap();
        assert_eq!((native.zero_threshold, native.counts.len()), (2_f64.powi(-23), 127));
    }
}
