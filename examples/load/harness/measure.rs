//! Results of a measurement.

use std::fmt;
use std::time::Duration;

use super::client::Seen;

/// The results of a measurement; `None` where not applicable.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    /// Microseconds of CPU time of the server, per call or bag.
    pub(crate) cpu_micros: Option<f64>,
    /// Calls or bags per second.
    pub(crate) per_second: Option<f64>,
    /// Median latency of a call in microseconds.
    pub(crate) p50: Option<f64>,
    /// 99th percentile.
    pub(crate) p99: Option<f64>,
    /// 99.9th percentile.
    pub(crate) p999: Option<f64>,
    /// Seconds until the measured condition.
    pub(crate) seconds: Option<f64>,
    /// CPU seconds until the measured condition, or per idle second.
    pub(crate) cpu_seconds: Option<f64>,
    /// Resident megabytes at the end.
    pub(crate) megabytes: Option<f64>,
    /// Private memory in megabytes.
    pub(crate) private_megabytes: Option<f64>,
    /// Mapped files in megabytes.
    pub(crate) mapped_megabytes: Option<f64>,
}

impl Figures {
    /// Results of a load, per bag.
    pub(crate) fn of_load(seen: &Seen, cpu: Duration, bags: usize, resident: u64) -> Self {
        let units = seen.calls.max(1) as f64 * bags as f64;
        let quantile = |q| Some(seen.latencies.value_at_quantile(q) as f64);
        Self {
            cpu_micros: Some(cpu.as_secs_f64() * 1e6 / units),
            per_second: Some(units / seen.took.as_secs_f64()),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            megabytes: Some(megabytes(resident)),
            ..Self::default()
        }
    }

    /// The median of each result.
    pub(crate) fn median(runs: &[Figures]) -> Figures {
        let of = |pick: fn(&Figures) -> Option<f64>| {
            let mut values: Vec<f64> = runs.iter().filter_map(pick).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Figures {
            cpu_micros: of(|f| f.cpu_micros),
            per_second: of(|f| f.per_second),
            p50: of(|f| f.p50),
            p99: of(|f| f.p99),
            p999: of(|f| f.p999),
            seconds: of(|f| f.seconds),
            cpu_seconds: of(|f| f.cpu_seconds),
            megabytes: of(|f| f.megabytes),
            private_megabytes: of(|f| f.private_megabytes),
            mapped_megabytes: of(|f| f.mapped_megabytes),
        }
    }
}

/// Bytes in megabytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut part = |value: Option<f64>, digits: usize, unit: &str| match value {
            Some(value) => write!(f, "{value:.digits$} {unit}  "),
            None => Ok(()),
        };
        part(self.cpu_micros, 2, "us CPU each")?;
        part(self.per_second, 0, "per s")?;
        part(self.p50, 0, "us p50")?;
        part(self.p99, 0, "us p99")?;
        part(self.p999, 0, "us p99.9")?;
        part(self.seconds, 3, "s")?;
        part(self.cpu_seconds, 3, "s CPU")?;
        part(self.megabytes, 1, "MB")
    }
}
