//! Quantiles of histograms.

/// The upper bound of the bucket that has the `q`-quantile: where it is within the bucket is not known. Infinite if it is above the last
/// bound, NaN without values.
pub(super) fn quantile(bounds: &[f64], counts: &[u64], q: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return f64::NAN;
    }
    let rank = q * total as f64;
    let mut below = 0;
    for (bound, count) in bounds.iter().zip(counts) {
        below += count;
        if *count > 0 && below as f64 >= rank {
            return *bound;
        }
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_as_fine_as_their_buckets() {
        let bounds = [1.0, 2.0, 4.0];
        assert!(quantile(&bounds, &[0, 0, 0, 0], 0.5).is_nan());
        assert_eq!(quantile(&bounds, &[10, 0, 0, 0], 0.5), 1.0);
        assert_eq!(quantile(&bounds, &[5, 5, 0, 0], 0.5), 1.0);
        assert_eq!(quantile(&bounds, &[5, 5, 0, 0], 0.75), 2.0);
        assert_eq!(quantile(&bounds, &[0, 0, 10, 0], 1.0), 4.0);
        assert_eq!(quantile(&bounds, &[0, 0, 0, 10], 0.5), f64::INFINITY, "above the last bound");
    }
}
