//! The flags of `check` and `report`.

use clap::ValueEnum;

use super::trace::CommandSpan;
use crate::cmd::exit::{Exit, Failure, Outcome, Stop};
use crate::cmd::flags::{
    AttributeFlags, ClientTlsFlags, GivenFlags, Lost, NamespaceFlags, TracingFlags, tell_lost,
};
use crate::cmd::io::Io;
use crate::cmd::personality::Personality;
use crate::cmd::source::{Remark, Unserved};
use crate::cmd::value::{self, ApiAddress};
use mixer_attribute::SignedDuration;
use mixer_spans::TracingError;

/// Flags of `check` and `report`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CallFlags {
    /// Those that are given. The first field of the first group: the others take their values out of the matches.
    #[command(flatten)]
    pub(crate) given: GivenFlags,
    /// Server address: host:port, dns:///host:port, unix:///path or unix:path.
    ///
    /// Without a port, 9091. `--mixer` is the same.
    #[arg(
        short = 'm', long, alias = "mixer", default_value = "localhost:9091", value_parser = value::target, value_name = "ADDRESS"
    )]
    pub(crate) server: ApiAddress,
    /// Configuration to evaluate in this process instead of calling a server: fs://DIR, a path, `-` for standard input, or embedded://sample.
    ///
    /// Repeatable: all of them are one configuration.
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    pub(crate) config: Vec<String>,
    /// Take --config as a server with --config-on-error serve-valid: without what has an error.
    ///
    /// Without it, a configuration with errors ends with status 3 whatever the result: a server answers otherwise. One with nothing, or of
    /// which errors leave nothing, does so in any case: its path may be wrong.
    #[arg(long)]
    serve_valid: bool,
    #[command(flatten)]
    pub(crate) namespace: NamespaceFlags,
    #[command(flatten)]
    pub(crate) attributes: AttributeFlags,
    #[command(flatten)]
    pub(crate) load: LoadFlags,
    #[command(flatten)]
    pub(crate) tls: ClientTlsFlags,
    #[command(flatten)]
    pub(crate) result: ResultFlags,
    #[command(flatten)]
    tracing: TracingFlags,
}

/// Repetition of calls.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Repetition")]
pub(crate) struct LoadFlags {
    /// Calls per worker; 0 or less sends nothing.
    #[arg(short = 'r', long, default_value = "1", value_parser = value::int, value_name = "TIMES")]
    pub(crate) repeat: i64,
    /// Concurrent workers.
    #[arg(short = 'c', long, default_value = "1", value_parser = value::int, value_name = "WORKERS")]
    pub(crate) concurrency: i64,
    /// Maximum calls per second of all workers; 0 or less means no limit.
    #[arg(long, default_value = "-1", value_parser = value::int, value_name = "CALLS")]
    pub(crate) rate: i64,
    /// Attribute sets per report.
    #[arg(
        long = "report-batch-size", alias = "report_batch_size", default_value = "1", value_parser = value::int,
        value_name = "SETS"
    )]
    pub(crate) report_batch_size: i64,
    /// Timeout per call. Example: 5s.
    ///
    /// Default: 10s for calls of a server; none with --config, and called as mixc.
    #[arg(long, value_parser = value::duration, value_name = "DURATION")]
    pub(crate) timeout: Option<SignedDuration>,
    /// Wait until the server is reachable, at most --timeout.
    ///
    /// Without that flag it waits for ever.
    #[arg(long)]
    pub(crate) wait_for_ready: bool,
}

/// Output.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ResultFlags {
    /// Print responses; `check` prints failures even without it.
    #[arg(
        long = "print-response", alias = "print_response", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) print_response: bool,
    /// Output format; default: table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<CallFormat>,
    /// Print no results, progress bar, summary or warnings: the exit status tells the result, and failed calls are told on
    /// standard error. Results are printed all the same with --output.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Exit with status 0 regardless of the results.
    #[arg(long)]
    exit_zero: bool,
    /// Use the exit statuses of `mixer` when called as mixc.
    #[arg(long)]
    native_exit_codes: bool,
}

impl ResultFlags {
    /// Whether no result is printed.
    pub(crate) fn hides_results(&self) -> bool {
        self.quiet && self.output.is_none()
    }
}

/// Output formats of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallFormat {
    /// Tables.
    Table,
    /// The text of Istio mixc.
    Plain,
    /// One JSON document.
    Json,
    /// One JSON document per line.
    JsonLines,
    /// One YAML document per response.
    Yaml,
}

fn is_local(flags: &CallFlags) -> bool {
    !flags.config.is_empty()
}

/// Flags that are for calls of a server, or for a configuration.
const IDLE: &[Lost<CallFlags>] = &[
    Lost::idle(
        &["tls", "ca-file", "cert-file", "key-file", "server-name", "wait-for-ready"],
        is_local,
        "--config is evaluated in this process, and no server is called",
    ),
    Lost::idle(
        &["trace-zipkin-url", "trace-jaeger-url", "trace-otlp-url", "trace-log-spans", "trace-sampling-rate"],
        is_local,
        "--config is evaluated in this process, which sends no spans",
    ),
    Lost::idle(
        &["trace-sampling-rate"],
        |flags| !is_local(flags) && !flags.tracing.options().is_enabled(),
        "spans go nowhere without --trace-zipkin-url, --trace-jaeger-url, --trace-otlp-url or --trace-log-spans",
    ),
    Lost::idle(
        &["default-namespace", "serve-valid"],
        |flags| !is_local(flags),
        "the server has its own; it is for --config",
    ),
];

impl CallFlags {
    /// Tells the flags that have no effect. Istio's client does not.
    pub(crate) fn tell_lost(&self, personality: Personality, io: &mut Io) -> Result<(), Stop> {
        if personality.is_legacy() { Ok(()) } else { tell_lost(IDLE, &self.given, self, io) }
    }

    /// The value of `--output`, or its default.
    pub(crate) fn format(&self, personality: Personality, io: &Io) -> CallFormat {
        let table = io.out_is_terminal && !personality.is_legacy();
        self.result.output.unwrap_or(if table { CallFormat::Table } else { CallFormat::Plain })
    }

    /// Whether a configuration of which that is so fails the command: a server answers otherwise, and nobody says that it is meant.
    pub(crate) fn refuses(&self, personality: Personality, why: Unserved) -> bool {
        let is_meant = match why {
            Unserved::Errors => self.serve_valid,
            Unserved::Empty => false,
        };
        !is_meant && !personality.is_legacy() && !self.result.exit_zero
    }

    /// The result of the command, from the worst of its calls. `unserved`: why a server would not answer with the configuration.
    pub(crate) fn outcome(
        &self,
        personality: Personality,
        worst: Exit,
        unserved: Option<&Remark>,
        io: &mut Io,
    ) -> Outcome {
        match unserved.filter(|unserved| self.refuses(personality, unserved.why)) {
            Some(unserved) if matches!(worst, Exit::Success | Exit::Negative) => {
                return Err(unserved.failure("this is not how a server answers").into());
            }
            // What failed has a status of its own.
            Some(unserved) if !self.result.quiet => io.warn(&unserved.text())?,
            _ => {}
        }
        let forgiving = self.result.exit_zero || (personality.is_legacy() && !self.result.native_exit_codes);
        Ok(if forgiving && !matches!(worst, Exit::Interrupted) { Exit::Success } else { worst })
    }

    /// Validates tracing and concurrency, in the order and with the texts of Istio mixc.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.tracing.options().check().map_err(|cause| self.tracing_failure(&cause))?;
        if self.load.concurrency < 1 {
            return Err(
                Failure::usage("concurrency has to be at least 1").hint("for example --concurrency 4")
            );
        }
        Ok(())
    }

    fn tracing_failure(&self, cause: &TracingError) -> Failure {
        let target = &self.server;
        Failure::usage("unable to set up tracing")
            .cause(cause)
            .hint("give one of --trace-zipkin-url, --trace-jaeger-url and --trace-otlp-url, as http://HOST:PORT/PATH, or none")
            .legacy(format!("Unable to establish connection to {target}: could not build tracer: {cause}"))
    }

    /// Starts the span of the command; `None` without tracing and with `--config`.
    pub(crate) fn begin_span(&self, name: &'static str) -> Result<Option<CommandSpan>, Failure> {
        if !self.config.is_empty() {
            return Ok(None);
        }
        CommandSpan::begin(&self.tracing.options(), name).map_err(|cause| self.tracing_failure(&cause))
    }

    /// Timeout per call.
    pub(crate) fn timeout(&self) -> Option<std::time::Duration> {
        self.load.timeout.map(SignedDuration::to_std_or_zero)
    }

    /// Total number of calls: workers times repetitions.
    pub(crate) fn calls(&self, per_worker: i64) -> u64 {
        let total = per_worker.max(0).saturating_mul(self.load.concurrency.max(0));
        u64::try_from(total).unwrap_or(0)
    }
}
