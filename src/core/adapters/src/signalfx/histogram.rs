//! The distribution of values within an interval: exact extremes, and quantiles from a bounded number of bins (Ben-Haim and Tom-Tov, "A
//! Streaming Parallel Decision Tree Algorithm", 2010).

/// Bins at most; as many values are exact.
const BINS: usize = 80;

/// Values of an interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Histogram {
    /// By value.
    bins: Vec<Bin>,
    count: u64,
    least: f64,
    greatest: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bin {
    value: f64,
    count: u64,
}

impl Histogram {
    /// Bytes of all bins.
    pub(super) const BYTES: usize = (BINS + 1) * size_of::<Bin>();

    /// Adds a value, which is finite. Cost: O(bins).
    pub(super) fn add(&mut self, value: f64) {
        (self.least, self.greatest) = match self.count {
            0 => (value, value),
            _ => (self.least.min(value), self.greatest.max(value)),
        };
        self.count += 1;
        let at = self.bins.partition_point(|bin| bin.value < value);
        if let Some(bin) = self.bins.get_mut(at).filter(|bin| bin.value == value) {
            bin.count += 1;
            return;
        }
        if self.bins.capacity() == 0 {
            self.bins.reserve_exact(BINS + 1);
        }
        self.bins.insert(at, Bin { value, count: 1 });
        if self.bins.len() > BINS {
            self.merge();
        }
    }

    /// Merges the two bins that are nearest to each other.
    fn merge(&mut self) {
        let gaps = self.bins.iter().zip(self.bins.iter().skip(1)).map(|(a, b)| b.value - a.value);
        let Some((at, _)) = gaps.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)) else { return };
        let (Some(a), Some(b)) = (self.bins.get(at).copied(), self.bins.get(at + 1).copied()) else { return };
        let count = a.count + b.count;
        // Without the product, which may overflow.
        let value = a.value + (b.value - a.value) * (b.count as f64 / count as f64);
        self.bins.remove(at + 1);
        if let Some(bin) = self.bins.get_mut(at) {
            *bin = Bin { value, count };
        }
    }

    pub(super) fn least(&self) -> f64 {
        self.least
    }

    pub(super) fn greatest(&self) -> f64 {
        self.greatest
    }

    /// The least value that is not exceeded by this part of all values.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let mut left = part * self.count as f64;
        for bin in &self.bins {
            left -= bin.count as f64;
            if left <= 0.0 {
                return bin.value.clamp(self.least, self.greatest);
            }
        }
        self.greatest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.add(value));
        histogram
    }

    #[test]
    fn few_values_are_exact() {
        let histogram = of((1..=80).rev().flat_map(|value| [f64::from(value); 2]));
        assert_eq!((histogram.least(), histogram.greatest(), histogram.count), (1.0, 80.0, 160));
        for (part, value) in [(0.0, 1.0), (0.25, 20.0), (0.5, 40.0), (0.9, 72.0), (1.0, 80.0)] {
            assert_eq!(histogram.quantile(part), value, "{part}");
        }
        assert_eq!(of([-3.5]).quantile(0.99), -3.5);
        assert!(Histogram::default().is_empty() && !histogram.is_empty());
    }

    #[test]
    fn quantiles_of_many_values_are_near_and_bins_are_bounded() {
        let mut random = fastrand::Rng::with_seed(3);
        type Make = fn(&mut fastrand::Rng) -> f64;
        let makes: [Make; 3] = [
            |random| random.f64() * 1000.0,
            |random| -(1.0 - random.f64()).ln() * 1e7 + 1e6,
            |random| f64::from(random.u8(..)) - 128.0,
        ];
        for (index, make) in makes.into_iter().enumerate() {
            let mut values: Vec<f64> = (0..20_000).map(|_| make(&mut random)).collect();
            let histogram = of(values.iter().copied());
            values.sort_by(f64::total_cmp);
            assert_eq!((histogram.least(), histogram.greatest()), (values[0], values[19_999]));
            assert!(histogram.bins.len() <= BINS && histogram.bins.is_sorted_by(|a, b| a.value < b.value));
            assert_eq!(histogram.bins.iter().map(|bin| bin.count).sum::<u64>(), 20_000);
            for part in [0.25, 0.5, 0.9, 0.99] {
                let exact = values[(part * 20_000.0) as usize - 1];
                let range = values[19_999] - values[0];
                let found = histogram.quantile(part);
                assert!(
                    (found - exact).abs() <= 0.05 * exact.abs().max(range / 5.0),
                    "{index}: {part} of {exact} is {found}"
                );
            }
        }
        let mut extremes =
            of((0..200).map(|power| if power % 2 == 0 { f64::MAX } else { f64::MIN } / f64::from(power + 1)));
        extremes.add(0.0);
        assert!(extremes.quantile(0.5).is_finite() && extremes.bins.len() <= BINS);
    }
}
