//! What `check` and `report` share: the flags of a call, the connection, workers that repeat it, and the summary.

mod caller;
mod code;
mod connection;
mod documents;
mod load;
mod secure;
mod summary;
mod trace;

use clap::ValueEnum;

pub(crate) use caller::Caller;
pub(crate) use code::{rpc_code_name, status_code_name};
pub(crate) use connection::{Connection, RpcError};
pub(crate) use documents::Documents;
pub(crate) use load::{Call, Finished, Progress, drive, wait};
pub(crate) use secure::SecureFlags;
pub(crate) use summary::{Summary, seconds_text};

use super::attributes::AttributeFlags;
use super::server::TracingFlags;
use super::source::NamespaceFlags;
use super::value;
use super::{Exit, Failure, Io, Personality};
use mixer_attribute::SignedDuration;
use mixer_spans::TracingError;
pub(crate) use trace::{CallTracer, CommandSpan};

/// Flags of `check` and `report`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CallFlags {
    /// Server to call: host:port, dns:///host:port, unix:///path or unix:path.
    #[arg(short = 'm', long, default_value = "localhost:9091", value_name = "TARGET")]
    pub(crate) mixer: String,
    /// Configuration to run the call on, in this process, without a server: fs://DIR or embedded://sample.
    #[arg(long, value_name = "URL", conflicts_with = "mixer")]
    pub(crate) config: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlags,
    #[command(flatten)]
    pub(crate) attributes: AttributeFlags,
    #[command(flatten)]
    pub(crate) load: LoadFlags,
    #[command(flatten)]
    pub(crate) secure: SecureFlags,
    #[command(flatten)]
    pub(crate) result: ResultFlags,
    #[command(flatten)]
    tracing: TracingFlags,
}

/// How often to call.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Repetition")]
pub(crate) struct LoadFlags {
    /// How often each worker repeats the call; nothing is sent from 0 down.
    #[arg(short = 'r', long, default_value = "1", value_parser = value::int, value_name = "TIMES")]
    pub(crate) repeat: i64,
    /// Workers that call at the same time.
    #[arg(short = 'c', long, default_value = "1", value_parser = value::int, value_name = "WORKERS")]
    pub(crate) concurrency: i64,
    /// Most calls per second, all workers together; no limit from 0 down.
    #[arg(long, default_value = "-1", value_parser = value::int, value_name = "CALLS")]
    pub(crate) rate: i64,
    /// Attribute sets in one report.
    #[arg(
        long = "report-batch-size", alias = "report_batch_size", default_value = "1", value_parser = value::int,
        value_name = "SETS"
    )]
    pub(crate) report_batch_size: i64,
    /// Limit of one call. Example: 5s.
    #[arg(long, value_parser = value::duration, value_name = "DURATION")]
    pub(crate) timeout: Option<SignedDuration>,
    /// Wait for a server that cannot be reached yet, at most --timeout.
    #[arg(long)]
    pub(crate) wait_for_ready: bool,
}

/// What to tell.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ResultFlags {
    /// Print the answers; failures are printed anyway by `check`.
    #[arg(
        long = "print-response", alias = "print_response", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", value_parser = value::boolean,
        hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) print_response: bool,
    /// How answers are written; a table on a terminal, else plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<CallFormat>,
    /// No progress bar and no summary.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// End with status 0 whatever the answers are.
    #[arg(long)]
    exit_zero: bool,
    /// End with the statuses of `mixer` when called by the name mixc.
    #[arg(long)]
    native_exit_codes: bool,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallFormat {
    /// For people.
    Table,
    /// The text of the originals.
    Plain,
    /// One document.
    Json,
    /// One document a line.
    JsonLines,
    /// One document an answer.
    Yaml,
}

impl CallFlags {
    /// The format: as asked for, else by terminal; the originals only have one.
    pub(crate) fn format(&self, personality: Personality, io: &Io) -> CallFormat {
        let table = io.out_is_terminal && !personality.is_legacy();
        self.result.output.unwrap_or(if table { CallFormat::Table } else { CallFormat::Plain })
    }

    /// What the command ends with, given the worst answer.
    pub(crate) fn exit(&self, personality: Personality, worst: Exit) -> Exit {
        let forgiving = self.result.exit_zero || (personality.is_legacy() && !self.result.native_exit_codes);
        if forgiving && !matches!(worst, Exit::Interrupted) { Exit::Success } else { worst }
    }

    /// Checks what the originals check after the attributes, in their order and words.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.tracing.options().check().map_err(|cause| self.untraceable(&cause))?;
        if self.load.concurrency < 1 {
            return Err(Failure::usage("concurrency has to be at least 1"));
        }
        Ok(())
    }

    fn untraceable(&self, cause: &TracingError) -> Failure {
        let target = &self.mixer;
        Failure::usage("unable to set up tracing")
            .cause(cause)
            .legacy(format!("Unable to establish connection to {target}: could not build tracer: {cause}"))
    }

    /// Begins the span of the command; `None` if nothing is traced, as with a configuration in this process.
    pub(crate) fn begin_span(&self, name: &'static str) -> Result<Option<CommandSpan>, Failure> {
        if self.config.is_some() {
            return Ok(None);
        }
        CommandSpan::begin(&self.tracing.options(), name).map_err(|cause| self.untraceable(&cause))
    }

    /// Limit of one call.
    pub(crate) fn timeout(&self) -> Option<std::time::Duration> {
        self.load.timeout.map(SignedDuration::to_std_or_zero)
    }

    /// How often the call is made in all: workers times repetitions.
    pub(crate) fn calls(&self, per_worker: i64) -> u64 {
        let total = per_worker.max(0).saturating_mul(self.load.concurrency.max(0));
        u64::try_from(total).unwrap_or(0)
    }
}
