//! Quantiles of histograms.

/// The `q`-quantile of a histogram, by linear interpolation within the bucket as in PromQL. Values above the last bound count as that
/// bound. 0 without values.
pub(super) fn quantile(bounds: &[f64], counts: &[u64], q: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return 0.0;
    }
    let rank = q * total as f64;
    let mut below = 0.0;
    let mut lower = 0.0;
    for (bound, count) in bounds.iter().zip(counts) {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            return lower + (bound - lower) * ((rank - below) / count).clamp(0.0, 1.0);
        }
        below += count;
        lower = *bound;
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_inside_their_bucket() {
        let bounds = [1.0, 2.0, 4.0];
        assert_eq!(quantile(&bounds, &[0, 0, 0, 0], 0.5), 0.0);
        assert_eq!(quantile(&bounds, &[10, 0, 0, 0], 0.5), 0.5);
        assert_eq!(quantile(&bounds, &[5, 5, 0, 0], 0.75), 1.5);
        assert_eq!(quantile(&bounds, &[0, 0, 10, 0], 1.0), 4.0);
        assert_eq!(quantile(&bounds, &[0, 0, 0, 10], 0.5), 4.0, "above the last bound");
    }
}
