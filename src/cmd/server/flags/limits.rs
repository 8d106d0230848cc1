//! The flags of limits and of load shedding.

use crate::cmd::value::{self, PerSecond};
use mixer_attribute::SignedDuration;
use mixer_server::{LoadSheddingMode, LoadSheddingOptions};

/// Limits of the server.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitFlags {
    /// Worker threads, each with its own event loop and connections; 0 means one per core.
    #[arg(long, default_value = "0", value_parser = value::uint32, value_name = "THREADS")]
    pub(crate) concurrency: u32,
    /// Run on a single thread.
    #[arg(
        long, alias = "singleThreaded", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) single_threaded: bool,
    /// Maximum size of a gRPC message in bytes, or with a unit. Example: 4MiB.
    #[arg(long, alias = "maxMessageSize", default_value = "1048576", value_parser = value::size, value_name = "BYTES")]
    pub(crate) max_message_size: u64,
    /// Maximum memory for everything that callers can make the server keep: requests, quotas, series, caches.
    ///
    /// At least 16MiB. It is divided into fixed shares; what happens when one is full is in docs/operations.md. Example: 1GiB.
    #[arg(long, default_value = "256MiB", value_parser = value::size, value_name = "BYTES")]
    pub(crate) memory_limit: u64,
    /// Maximum calls in flight per connection.
    #[arg(
        long, alias = "maxConcurrentStreams", default_value = "1024", value_parser = value::uint, value_name = "CALLS"
    )]
    pub(crate) max_concurrent_streams: u64,
    /// Maximum quotas of a check, and descriptors of a rate limit call of Envoy; a call with more is rejected.
    #[arg(long, default_value = "64", value_parser = value::uint32, value_name = "QUOTAS")]
    pub(crate) max_check_quotas: u32,
    /// Maximum records of a report, and entries of an access log message of Envoy; a message with more is rejected.
    #[arg(long, default_value = "20000", value_parser = value::uint32, value_name = "RECORDS")]
    pub(crate) max_report_records: u32,
    /// Time limit for receiving a message: a call whose message is not complete by then fails. Example: 10s.
    #[arg(long, default_value = "30s", value_parser = value::duration, value_name = "DURATION")]
    pub(crate) receive_timeout: SignedDuration,
    /// Age at which a connection gets a GOAWAY, so that clients rebalance over the servers; 0s means never. Example: 30m.
    #[arg(long, default_value = "0s", value_parser = value::duration, value_name = "DURATION")]
    pub(crate) max_connection_age: SignedDuration,
    /// Maximum asynchronous API calls in flight; synchronous calls bypass the pool.
    #[arg(long, alias = "apiWorkerPoolSize", default_value = "1024", value_parser = value::int, value_name = "CALLS")]
    pub(crate) api_worker_pool_size: i64,
    /// Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed.
    #[arg(long, default_value = "0", value_parser = value::uint32, value_name = "CALLS")]
    pub(crate) api_worker_pool_floor: u32,
    /// Maximum API calls in the queue of the pool; further calls are rejected.
    #[arg(long, default_value = "1024", value_parser = value::uint32, value_name = "CALLS")]
    pub(crate) api_queue_length: u32,
    /// Maximum asynchronous calls in flight per handler.
    #[arg(
        long, alias = "adapterWorkerPoolSize", default_value = "1024", value_parser = value::int, value_name = "CALLS"
    )]
    pub(crate) adapter_worker_pool_size: i64,
    /// Adapt the pool size to the load: initial and minimum size; 0 keeps the size fixed.
    #[arg(long, default_value = "0", value_parser = value::uint32, value_name = "CALLS")]
    pub(crate) adapter_worker_pool_floor: u32,
    /// Maximum calls in the queue of a handler; further calls fail.
    #[arg(long, default_value = "1024", value_parser = value::uint32, value_name = "CALLS")]
    pub(crate) adapter_queue_length: u32,
    /// Maximum entries of the check cache; 0 disables the cache.
    ///
    /// Without this flag the check cache is disabled. Example: 1500000
    #[arg(long, alias = "numCheckCacheEntries", value_parser = value::int32, value_name = "ENTRIES")]
    pub(crate) num_check_cache_entries: Option<i32>,
}

/// Load shedding.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Load shedding")]
pub(crate) struct SheddingFlags {
    /// Action on calls over the limits: disabled, logonly or enforce.
    #[arg(
        long = "load-shedding-mode", alias = "loadsheddingMode", default_value = "disabled",
        value_parser = value::load_shedding_mode, value_name = "MODE"
    )]
    load_shedding_mode: LoadSheddingMode,
    /// Maximum mean latency; 0s means no limit.
    #[arg(
        long, alias = "averageLatencyThreshold", default_value = "0s", value_parser = value::duration,
        value_name = "DURATION"
    )]
    average_latency_threshold: SignedDuration,
    /// Maximum latency samples per second.
    #[arg(
        long, alias = "latencySamplesPerSecond", default_value = "1.7976931348623157e+308",
        value_parser = value::per_second, hide_default_value = true, value_name = "RATE"
    )]
    latency_samples_per_second: PerSecond,
    /// Half-life of a latency sample.
    #[arg(
        long = "latency-sample-half-life", alias = "latencySampleHalflife", default_value = "1s",
        value_parser = value::duration, value_name = "DURATION"
    )]
    latency_sample_half_life: SignedDuration,
    /// Maximum calls per second; a Report counts as many calls as it has attribute sets; 0 means no limit.
    #[arg(
        long, alias = "maxRequestsPerSecond", default_value = "0", value_parser = value::per_second,
        value_name = "RATE"
    )]
    max_requests_per_second: PerSecond,
    /// Burst size of the rate limit; without it the calls of a second, or 0 if called as mixs.
    #[arg(long, alias = "burstSize", value_parser = value::int, value_name = "CALLS")]
    burst_size: Option<i64>,
    /// Fraction of the limits above that is reserved for checks: reports are rejected earlier. From 0 to 1.
    #[arg(long, default_value = "0", value_parser = value::fraction, value_name = "FRACTION")]
    load_shedding_check_reserve: f64,
    /// Fair sharing: clients with more than the mean load are rejected first.
    #[arg(
        long, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = value::boolean, hide_possible_values = true, value_name = "BOOL"
    )]
    load_shedding_fair: bool,
}

impl SheddingFlags {
    /// The settings.
    pub(crate) fn options(&self) -> LoadSheddingOptions {
        LoadSheddingOptions {
            mode: self.load_shedding_mode,
            average_latency_threshold: self.average_latency_threshold,
            samples_per_second: self.latency_samples_per_second.0,
            sample_half_life: self.latency_sample_half_life,
            max_requests_per_second: self.max_requests_per_second.0,
            burst_size: self.burst_size,
            check_reserve: self.load_shedding_check_reserve,
            fair: self.load_shedding_fair,
        }
    }
}
