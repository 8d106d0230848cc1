//! The flags of tracing.

use crate::cmd::value;
use mixer_spans::TracingOptions;

/// Flags of tracing.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Tracing")]
pub(crate) struct TracingFlags {
    /// URL of a Zipkin collector. Example: http://zipkin:9411/api/v1/spans.
    #[arg(
        long = "trace-zipkin-url",
        alias = "trace_zipkin_url",
        default_value = "",
        hide_default_value = true,
        value_name = "URL"
    )]
    trace_zipkin_url: String,
    /// URL of a Jaeger collector. Example: http://jaeger:14268/api/traces?format=jaeger.thrift.
    #[arg(
        long = "trace-jaeger-url",
        alias = "trace_jaeger_url",
        default_value = "",
        hide_default_value = true,
        value_name = "URL"
    )]
    trace_jaeger_url: String,
    /// URL of an OpenTelemetry collector (OTLP over HTTP). Example: http://collector:4318/v1/traces.
    #[arg(
        long = "trace-otlp-url",
        alias = "trace_otlp_url",
        default_value = "",
        hide_default_value = true,
        value_name = "URL"
    )]
    trace_otlp_url: String,
    /// Write a log record for every span.
    #[arg(
        long = "trace-log-spans", alias = "trace_log_spans", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    trace_log_spans: bool,
    /// Fraction of new traces that are sampled, from 0 to 1.
    #[arg(
        long = "trace-sampling-rate", alias = "trace_sampling_rate", default_value = "0", value_parser = value::float,
        value_name = "RATE"
    )]
    trace_sampling_rate: f64,
}

impl TracingFlags {
    /// The settings.
    pub(crate) fn options(&self) -> TracingOptions {
        TracingOptions {
            zipkin_url: self.trace_zipkin_url.clone(),
            jaeger_url: self.trace_jaeger_url.clone(),
            otlp_url: self.trace_otlp_url.clone(),
            log_spans: self.trace_log_spans,
            sampling_rate: self.trace_sampling_rate,
        }
    }
}
