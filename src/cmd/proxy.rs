//! `proxy`: the data plane, from an Envoy bootstrap.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::exit::{Exit, Failure, Outcome};
use super::flags::{GivenFlags, Lost, lost};
use super::io::{ErrorFormat, Io};
use super::output::escaped;
use super::usage::failure_text;
use super::value;
use super::verbosity::Verbosity;
use mixer_base::log::{Log, LogOptions};
use mixer_base::{regular_file, task};
use mixer_config::{Diagnostic, Diagnostics, Severity};
use mixer_proxy::bootstrap::{self, Bootstrap};
use mixer_proxy::server::{self, DrainOptions, Options};

/// Maximum size of a bootstrap, in bytes.
const MAX_BOOTSTRAP: u64 = 16 << 20;

/// Flags of `proxy`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProxyArgs {
    /// Those that are given. The first field: the others take their values out of the matches.
    #[command(flatten)]
    given: GivenFlags,
    /// The bootstrap: a YAML or JSON file.
    #[arg(short = 'c', long, visible_alias = "config", value_name = "PATH", conflicts_with = "config_yaml")]
    config_path: Option<PathBuf>,
    /// The bootstrap as text instead of a file, YAML or JSON.
    #[arg(long, value_name = "TEXT")]
    config_yaml: Option<String>,
    /// Number of worker threads; 0 is one. Default: the number of CPUs.
    #[arg(long, value_name = "COUNT")]
    concurrency: Option<u32>,
    /// Serve, or only validate the bootstrap.
    #[arg(long, value_enum, default_value = "serve", value_name = "MODE")]
    mode: Mode,
    /// Log level.
    #[arg(short = 'l', long, value_enum, default_value = "info", value_name = "LEVEL")]
    log_level: Level,
    /// Log file; default: standard error.
    #[arg(long, value_name = "PATH")]
    log_path: Option<String>,
    /// Where to write host:port of the admin interface once it listens.
    #[arg(long, value_name = "PATH")]
    admin_address_path: Option<PathBuf>,
    /// Names that the admin interface may be asked by besides localhost and IP addresses. Example: proxy.example.com,web-1
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAMES")]
    admin_allowed_hosts: String,
    /// Time that connections have to end after SIGTERM or SIGINT, in seconds; 0 closes them at once, as Envoy does.
    ///
    /// Meanwhile /ready answers 503, responses carry `connection: close`, and new connections are accepted. Ends early when no
    /// connection is left.
    #[arg(long, default_value = "0", value_name = "SECONDS")]
    terminate_drain: u32,
    /// Time that connections of a listener have to end once it is replaced or removed, in seconds; then they are closed.
    #[arg(long, default_value = "600", value_name = "SECONDS")]
    drain_time_s: u32,
    /// How often responses end their connections during that time.
    #[arg(long, value_enum, default_value = "gradual", value_name = "STRATEGY")]
    drain_strategy: DrainStrategy,
    /// Memory for bodies of requests that filters wait for, over all connections.
    ///
    /// A body takes three eighths of it at most. Requests for which there is no memory are refused. Bodies that are kept for retries take half
    /// of it at most; beyond that they are not sent again. Example: 1GiB
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = value::size)]
    body_memory: u64,
    /// Byte counts in Mixer reports of TCP connections are those since the report before, of whatever kind.
    ///
    /// Without it they are those since the last periodic report, so that the first of these repeats the opening, as with Istio.
    #[arg(long)]
    mixer_exact_tcp_deltas: bool,
    /// Overrides `node.id`.
    #[arg(long, value_name = "ID")]
    service_node: Option<String>,
    /// Overrides `node.cluster`.
    #[arg(long, value_name = "NAME")]
    service_cluster: Option<String>,
    /// Has no effect: there is no hot restart, which needs it.
    #[arg(long, value_name = "ID")]
    base_id: Option<u32>,
    /// Has no effect: there is no hot restart.
    #[arg(long)]
    disable_hot_restart: bool,
}

/// What the command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Serve until SIGTERM or SIGINT.
    Serve,
    /// Print whether the bootstrap is valid.
    Validate,
}

/// How connections are drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DrainStrategy {
    /// The more often the later it is.
    Gradual,
    /// Always.
    Immediate,
}

/// Log levels with Envoy's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Level {
    /// As debug.
    Trace,
    /// Everything.
    Debug,
    /// Life-cycle.
    Info,
    /// Unexpected, recovered.
    #[value(alias = "warn")]
    Warning,
    /// Someone must act.
    Error,
    /// As error.
    Critical,
    /// Nothing.
    Off,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Trace | Level::Debug => "debug",
            Level::Info => "info",
            Level::Warning => "warn",
            Level::Error | Level::Critical => "error",
            Level::Off => "none",
        }
    }
}

impl ProxyArgs {
    /// Applies --verbose and --quiet, unless --log-level says another level than the default.
    pub(crate) fn apply(&mut self, verbosity: Verbosity) {
        self.log_level = match (self.log_level, verbosity) {
            (Level::Info, Verbosity::Verbose) => Level::Debug,
            (Level::Info, Verbosity::Quiet) => Level::Warning,
            (given, _) => given,
        };
    }

    /// The number of workers.
    fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.concurrency.map_or_else(cores, |count| usize::try_from(count).unwrap_or(1)).max(1)
    }
}

/// Flags that have no effect with some bootstraps.
const IDLE: &[Lost<Bootstrap>] = &[
    Lost::idle(
        &["admin-address-path", "admin-allowed-hosts"],
        |bootstrap| bootstrap.admin.is_none(),
        "the bootstrap has no `admin`",
    ),
    Lost::idle(
        &["drain-time-s", "drain-strategy"],
        // Nothing replaces or drains listeners of a bootstrap but the admin interface.
        |bootstrap| bootstrap.admin.is_none() && bootstrap.listener_file.is_none(),
        "the bootstrap has neither `lds_config` nor `admin`, so that no listener is drained; --terminate-drain is for the end",
    ),
    Lost::idle(&["base-id", "disable-hot-restart"], |_| true, "there is no hot restart"),
];

/// Validates the bootstrap, and serves.
pub(crate) fn run(args: &ProxyArgs, io: &mut Io) -> Outcome {
    let (text, name) = source(args)?;
    let mut bootstrap = match bootstrap::read(&text, &name) {
        Ok((bootstrap, warnings)) => {
            print(&warnings, io)?;
            bootstrap
        }
        Err(problems) => {
            print(&problems, io)?;
            return Ok(Exit::Negative);
        }
    };
    let problems = bootstrap.problems_with(args.workers(), &name);
    if !problems.is_empty() {
        print(&problems, io)?;
        return Ok(Exit::Negative);
    }
    if args.mode == Mode::Validate {
        writeln!(io.out, "configuration '{}' OK", escaped(&name))?;
        return Ok(Exit::Success);
    }
    bootstrap.node_id = args.service_node.clone().unwrap_or(bootstrap.node_id);
    bootstrap.node_cluster = args.service_cluster.clone().unwrap_or(bootstrap.node_cluster);
    let names = args.admin_allowed_hosts.split(',').map(|name| name.trim().to_ascii_lowercase());
    bootstrap.admin_hosts = names.filter(|name| !name.is_empty()).collect();
    serve(args, bootstrap, name)
}

fn serve(args: &ProxyArgs, bootstrap: Bootstrap, name: String) -> Outcome {
    let options = LogOptions {
        targets: vec![args.log_path.clone().unwrap_or_else(|| "stderr".to_owned())],
        output_level: format!("default:{}", args.log_level.name()),
        ..LogOptions::default()
    };
    let log = Log::install(&options)
        .map_err(|error| Failure::new(Exit::Negative, "cannot open the log").cause(error))?;
    task::log_panics();
    for lost in lost(IDLE, &args.given, &bootstrap)? {
        tracing::warn!("{lost}");
    }
    let options = Options {
        concurrency: args.workers(),
        config_path: name,
        admin_address_path: args.admin_address_path.clone(),
        terminate_drain: Duration::from_secs(args.terminate_drain.into()),
        drain: DrainOptions {
            time: Duration::from_secs(args.drain_time_s.into()),
            is_gradual: args.drain_strategy == DrainStrategy::Gradual,
        },
        exact_tcp_deltas: args.mixer_exact_tcp_deltas,
        body_memory: usize::try_from(args.body_memory).unwrap_or(usize::MAX),
    };
    let outcome = server::serve(bootstrap, options, log.clone());
    log.flush(Duration::from_millis(200));
    match outcome {
        Ok(()) => Ok(Exit::Success),
        Err(error) => Err(Failure::new(Exit::Negative, "the proxy cannot start").cause(error).into()),
    }
}

/// The text of the bootstrap and its name.
fn source(args: &ProxyArgs) -> Result<(String, String), Failure> {
    if let Some(text) = &args.config_yaml {
        return Ok((text.clone(), "--config-yaml".to_owned()));
    }
    let Some(path) = &args.config_path else {
        let failure = Failure::new(Exit::Negative, "no bootstrap is given");
        return Err(failure.hint("name its file with -c bootstrap.yaml, or give its text with --config-yaml"));
    };
    let text = read(path)?;
    Ok((text, path.display().to_string()))
}

fn read(path: &Path) -> Result<String, Failure> {
    regular_file::read_text(path, MAX_BOOTSTRAP).map_err(|error| {
        let invalid = Failure::new(Exit::Negative, format!("Invalid path: {}", path.display()));
        if error.kind() == std::io::ErrorKind::NotFound { invalid } else { invalid.cause(error) }
    })
}

/// Prints problems with their places.
fn print(problems: &Diagnostics, io: &mut Io) -> std::io::Result<()> {
    for problem in problems {
        match (io.error_format, problem.severity) {
            (ErrorFormat::Text, _) => writeln!(io.err, "{}", line(problem))?,
            (ErrorFormat::Json, Severity::Error) => {
                let mut failure = Failure::new(Exit::Negative, place_and_message(problem));
                failure.hint.clone_from(&problem.hint);
                io.err.write_all(failure_text(&failure, ErrorFormat::Json).as_bytes())?;
            }
            (ErrorFormat::Json, _) => io.warn(&place_and_message(problem))?,
        }
    }
    io.err.flush()
}

/// `error: FILE:LINE:COLUMN: PATH: MESSAGE (HINT)`.
fn line(problem: &Diagnostic) -> String {
    let mut text = format!("{}: {}", problem.severity.name(), place_and_message(problem));
    if let Some(hint) = &problem.hint {
        text.push_str(&format!(" ({hint})"));
    }
    escaped(&text).into_owned()
}

/// `FILE:LINE:COLUMN: PATH: MESSAGE`.
fn place_and_message(problem: &Diagnostic) -> String {
    let mut text = problem.file.as_deref().unwrap_or_default().to_owned();
    if let Some(span) = problem.span.filter(|span| span.start.line > 0) {
        text.push_str(&format!(":{}:{}", span.start.line, span.start.column));
    }
    if !problem.field.is_root() {
        text.push_str(&format!(": {}", problem.field));
    }
    text.push_str(&format!(": {}", problem.one_line()));
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Alone {
        #[command(flatten)]
        args: ProxyArgs,
    }

    fn told(flags: &[&str], bootstrap: &Bootstrap) -> Vec<String> {
        let parsed = Alone::try_parse_from([&["proxy"], flags].concat()).unwrap_or_else(|e| panic!("{e}"));
        lost(IDLE, &parsed.args.given, bootstrap).unwrap()
    }

    #[test]
    fn flags_without_effect_are_told() {
        let bare = Bootstrap::default();
        let with_admin = Bootstrap { admin: "127.0.0.1:0".parse().ok(), ..Bootstrap::default() };
        let with_file = Bootstrap { listener_file: Some("/lds".into()), ..Bootstrap::default() };
        for (flags, name, mended) in [
            (&["--admin-address-path", "/a"][..], "--admin-address-path", Some(&with_admin)),
            (&["--admin-allowed-hosts", "a"], "--admin-allowed-hosts", Some(&with_admin)),
            (&["--drain-time-s", "5"], "--drain-time-s", Some(&with_file)),
            (&["--drain-strategy", "immediate"], "--drain-strategy", Some(&with_admin)),
            (&["--base-id", "5"], "--base-id", None),
            (&["--disable-hot-restart"], "--disable-hot-restart", None),
        ] {
            let found = told(flags, &bare);
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("{name} has no effect: ")),
                "{found:?}"
            );
            assert!(mended.is_none_or(|bootstrap| told(flags, bootstrap).is_empty()), "{name}");
        }
        assert_eq!(told(&[], &bare), [""; 0], "defaults are not given");
    }
}
