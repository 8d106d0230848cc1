//! Time series of the plots.

use std::time::Duration;

/// Interval between two values.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);

/// Values over time, oldest first, one per [`SAMPLE_INTERVAL`]; NaN where nothing is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Series(pub(super) Vec<f64>);

impl Series {
    /// The newest value; NaN if it is not known.
    pub(super) fn now(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    /// The parts without gaps: position of the first value, and the values.
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, &[f64])> {
        let mut at = 0;
        self.0.split(|value| value.is_nan()).filter_map(move |run| {
            let begin = at;
            at += run.len() + 1;
            (!run.is_empty()).then_some((begin, run))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_is_between_gaps() {
        let nan = f64::NAN;
        let runs = |values: &[f64]| -> Vec<(usize, Vec<f64>)> {
            Series(values.to_vec()).runs().map(|(at, run)| (at, run.to_vec())).collect()
        };
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[nan, nan]), []);
        assert_eq!(runs(&[nan, 1.0, 2.0, nan, nan, 3.0]), [(1, vec![1.0, 2.0]), (5, vec![3.0])]);
        assert!(Series::default().now().is_nan());
    }
}
