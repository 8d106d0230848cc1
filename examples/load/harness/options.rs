//! What to measure, and how long.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Drives a server process over HTTP/2 and prints CPU time per call, calls per second, latencies and resident memory.
#[derive(Debug, Clone, Parser)]
#[command(name = "load")]
pub(crate) struct Options {
    /// What to measure; `table`, `adapters`, `curves`, `tails`, `envoy` and `galley` are those of docs/benchmarks.md.
    #[arg(value_enum)]
    pub(crate) work: Work,
    /// The server; by default the `mixer` of the same build.
    #[arg(long, value_name = "PATH")]
    pub(crate) bin: Option<PathBuf>,
    /// Another server with the same flags, measured in the same run.
    #[arg(long, value_name = "PATH")]
    pub(crate) peer_bin: Option<PathBuf>,
    /// Limitador, measured on the rate limits of `envoy`.
    #[arg(long, value_name = "PATH")]
    pub(crate) limitador_bin: Option<PathBuf>,
    /// Envoy, through which `envoy` is measured as well.
    #[arg(long, value_name = "PATH")]
    pub(crate) envoy_bin: Option<PathBuf>,
    /// Connections to the server.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) connections: usize,
    /// Calls in flight on each connection.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub(crate) streams: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4.0, value_name = "SECONDS")]
    pub(crate) duration: f64,
    /// Most calls of each measurement.
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    pub(crate) calls: usize,
    /// Calls per second, sent whether or not earlier ones are answered; 0: as many as are answered.
    #[arg(long, default_value_t = 0.0, value_name = "CALLS")]
    pub(crate) rate: f64,
    /// Rules of the large configuration.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub(crate) rules: usize,
    /// Bags of a report.
    #[arg(long, default_value_t = 25, value_name = "N")]
    pub(crate) bags: usize,
    /// Metrics that each bag of a report goes into.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) metrics: usize,
    /// Rules at the end of the curves.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub(crate) most_rules: usize,
    /// Draw the curves into this file as SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Worker threads of the server, where it has them; 0: its default.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) workers: usize,
    /// Times that each measurement is made; the medians are printed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) runs: usize,
    /// Resources of `galley`, one run each.
    #[arg(long, default_values_t = [10_000, 100_000], value_delimiter = ',', value_name = "N,…")]
    pub(crate) resources: Vec<usize>,
    /// Sinks of `galley`, one measurement each.
    #[arg(long, default_values_t = [1, 100, 1_000], value_delimiter = ',', value_name = "N,…")]
    pub(crate) sinks: Vec<usize>,
    /// Resources in a file of `galley`.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) per_file: usize,
    /// Edits of a measurement of `galley`.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) edits: usize,
    /// Seconds of `galley` before and after edits, and after a start: what a process still does then counts for them.
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    pub(crate) settle: f64,
    /// The only adapter that `adapters` measures, beside `noop`.
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,
    /// Print each run on standard error.
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// Scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Every scenario that has a row in the table of budgets.
    Table,
    /// Cost of a check with 10 to 100 000 rules, of a report with 1 to 64 metrics, and of an edit in time and memory.
    Curves,
    /// Latencies at half and at four fifths of the highest rate, quiet and while a rule is edited every second.
    Tails,
    /// Cost of each adapter: of a bag or a check with one handler, on top of the same with `noop`.
    Adapters,
    /// Cost of the services for Envoy: directly, compared with other servers, and through Envoy.
    Envoy,
    /// The configuration plane: from an edit of a file to the last ACK of many sinks, CPU time, and memory.
    Galley,
    /// An empty report: the base cost of any call.
    NoOp,
    /// Checks of the sample configuration, answered from the cache.
    CheckCached,
    /// Checks of the sample configuration without a cache.
    CheckUncached,
    /// Checks of 10 000 rules without a cache.
    CheckRules,
    /// Reports of 25 bags, each in 4 metrics of 17 dimensions; figures are of a bag.
    Report,
    /// Reports as above, and a line of JSON for each bag in a file.
    ReportLog,
    /// From the start of the process until 10 000 rules serve.
    Start,
    /// From the edit of one rule among 10 000 until it serves.
    Edit,
    /// CPU use while nothing happens, with 10 000 rules.
    Idle,
    /// Resident memory with the sample configuration.
    MemorySample,
    /// Resident memory with 10 000 rules.
    MemoryRules,
    /// Checks of Envoy (ext_authz) over the policy of examples/envoy, a third of them refused, answered from the cache.
    EnvoyCheck,
    /// As above without the cache.
    EnvoyCheckUncached,
    /// Rate-limit calls of Envoy with one descriptor.
    EnvoyLimit,
    /// Checks with a quota that redisquota counts in Redis, a round trip a call.
    QuotaExact,
    /// As above, granted from leases.
    QuotaLease,
    /// Access logs of Envoy, 25 entries a message, each into one metric; figures are of an entry.
    EnvoyLog,
}

impl Work {
    /// The rows of the table.
    pub(crate) const MEASURED: [Work; 11] = [
        Work::NoOp,
        Work::CheckCached,
        Work::CheckUncached,
        Work::CheckRules,
        Work::Report,
        Work::ReportLog,
        Work::Start,
        Work::Edit,
        Work::Idle,
        Work::MemorySample,
        Work::MemoryRules,
    ];

    /// For example `check-cached`.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned())
    }
}
