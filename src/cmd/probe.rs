//! `probe`: checks whether a server is alive or ready, by a probe file, its gRPC health service, or HTTP.

mod target;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use target::{ProbeTarget, Unavailable};

use super::call::MixerConnection;
use super::event_loop::block_on;
use super::exit::{Exit, Failure, Outcome, Stop};
use super::flags::{ClientTlsFlags, GivenFlags, LogFlags, Lost, tell_lost};
use super::io::Io;
use super::personality::Personality;
use super::value::{self, ApiAddress};
use mixer_attribute::{SignedDuration, Timestamp};

/// Interval of `--watch` without `--interval`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Flags of `probe`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ProbeArgs {
    /// Those that are given. The first field: the others take their values out of the matches.
    #[command(flatten)]
    given: GivenFlags,
    /// Probe file to check.
    ///
    /// Only the modification time counts, not the content. May be repeated; all files must be fresh.
    #[arg(long, value_parser = value::path, value_name = "PATH")]
    probe_path: Vec<PathBuf>,
    /// Maximum age of the probe file, and interval of --watch.
    ///
    /// A tolerance of 10ms is added. Required with --probe-path. Example: 2s
    #[arg(long, value_parser = value::duration, default_value = "0s", hide_default_value = true, value_name = "DURATION")]
    interval: SignedDuration,
    /// Server whose gRPC health service is called: host:port or unix:///path; may be repeated.
    ///
    /// Without a port, 9091. `--grpc` is the same.
    #[arg(long, alias = "grpc", value_parser = value::target, value_name = "ADDRESS")]
    server: Vec<ApiAddress>,
    /// Service name of the health check: empty or istio.mixer.v1.Mixer for readiness, `liveness` for liveness.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "SERVICE")]
    service: String,
    /// URL that must return a 2xx status; may be repeated. Example: http://localhost:15014/readyz
    #[arg(long, value_name = "URL")]
    http: Vec<String>,
    /// Timeout of a gRPC or HTTP request.
    #[arg(long, value_parser = value::duration, default_value = "1s", value_name = "DURATION")]
    timeout: SignedDuration,
    /// Watch the targets and print every change, until SIGINT.
    #[arg(long)]
    watch: bool,
    /// Output format.
    #[arg(short = 'o', long, value_enum, default_value = "plain", value_name = "FORMAT")]
    output: ProbeFormat,
    #[command(flatten)]
    tls: ClientTlsFlags,
    #[command(flatten)]
    log: LogFlags,
}

/// Output formats of `probe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProbeFormat {
    /// One line.
    Plain,
    /// One JSON document; with --watch one line per change.
    Json,
}

/// The result of probing one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ProbeResult {
    target: String,
    kind: &'static str,
    available: bool,
    cause: Option<String>,
    /// What helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Flags that are for targets of another kind.
const IDLE: &[Lost<ProbeArgs>] = &[
    Lost::idle(
        &["service", "tls", "ca-file", "cert-file", "key-file", "server-name"],
        |args| args.server.is_empty(),
        "it is for calls of a server, which --server names",
    ),
    Lost::idle(
        &["timeout"],
        |args| args.server.is_empty() && args.http.is_empty(),
        "it is for --server and --http; the age of a file is that of --interval",
    ),
    Lost::idle(
        &["interval"],
        |args| args.probe_path.is_empty() && !args.watch,
        "it is for --probe-path and --watch",
    ),
];

/// Probes the targets.
pub(crate) fn run(args: &ProbeArgs, personality: Personality, io: &mut Io) -> Outcome {
    if !personality.is_legacy() {
        tell_lost(IDLE, &args.given, args, io)?;
    }
    block_on(async {
        let targets = targets(args, personality)?;
        if args.watch { watch(args, &targets, io).await } else { once(args, &targets, personality, io).await }
    })
}

/// The targets of the flags. Errors: no target, or a file without an interval.
fn targets(args: &ProbeArgs, personality: Personality) -> Result<Vec<ProbeTarget>, Stop> {
    let paths: Vec<&PathBuf> = args.probe_path.iter().filter(|p| !p.as_os_str().is_empty()).collect();
    let interval = u64::try_from(args.interval.nanos).ok().filter(|n| *n > 0).map(Duration::from_nanos);
    let remote = args.server.len() + args.http.len();
    // compat(1.0): mixs takes one path, the last one.
    let skipped = if personality.is_legacy() { paths.len().saturating_sub(1) } else { 0 };
    let files = match (interval, paths.is_empty()) {
        (Some(interval), false) => {
            let files = paths.into_iter().skip(skipped);
            let as_istio = personality.is_legacy();
            files.map(|path| ProbeTarget::File { path: path.clone(), interval, as_istio }).collect()
        }
        (_, true) if remote > 0 => Vec::new(),
        _ => return Err(invalid_options(personality)),
    };
    let timeout = args.timeout.to_std_or_zero();
    let mut targets: Vec<ProbeTarget> = files;
    for address in &args.server {
        let tls = args.tls.load(address)?;
        let connection = MixerConnection::new(&address.target, Some(timeout), tls);
        let connection = if personality.is_legacy() { connection } else { connection.explaining() };
        targets.push(ProbeTarget::Grpc {
            address: address.target.clone(),
            service: args.service.clone(),
            connection: Box::new(connection),
        });
    }
    if !args.http.is_empty() {
        mixer_net::tls::install_crypto_provider();
        let client = reqwest::Client::builder().timeout(timeout).no_proxy().build();
        let client = client.map_err(|e| Failure::local("cannot probe over HTTP").cause(e))?;
        targets.extend(
            args.http.iter().map(|url| ProbeTarget::Http { url: with_scheme(url), client: client.clone() }),
        );
    }
    Ok(targets)
}

/// As other commands, an address alone is one of HTTP.
fn with_scheme(url: &str) -> String {
    let url = url.strip_prefix("tcp://").unwrap_or(url);
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

fn invalid_options(personality: Personality) -> Stop {
    match personality {
        Personality::Mixer => {
            Failure::usage("probe requires --probe-path with an --interval above zero, --server or --http")
                .hint("for example --probe-path /run/mixer/ready --interval 2s, or --server localhost:9091")
                .into()
        }
        Personality::Galley => Failure::local("some options are not valid").into(),
        _ => Failure::local("Some options are not valid").into(),
    }
}

async fn probe(target: &ProbeTarget) -> ProbeResult {
    let (cause, hint) = match target.probe().await {
        Ok(()) => (None, None),
        Err(Unavailable { cause, hint }) => (Some(cause), hint),
    };
    ProbeResult { target: target.name(), kind: target.kind(), available: cause.is_none(), cause, hint }
}

/// Probes every target once. Plain output stops at the first unavailable target.
async fn once(args: &ProbeArgs, targets: &[ProbeTarget], personality: Personality, io: &mut Io) -> Outcome {
    let mut seen = Vec::new();
    for target in targets {
        let one = probe(target).await;
        let stop = !one.available && args.output == ProbeFormat::Plain;
        seen.push(one);
        if stop {
            break;
        }
    }
    let refused = seen.iter().find(|one| !one.available);
    if args.output == ProbeFormat::Json {
        let document = serde_json::json!({
            "apiVersion": "mixer/v1", "kind": "ProbeResult", "available": refused.is_none(), "targets": seen,
        });
        writeln!(io.out, "{document:#}")?;
        return Ok(if refused.is_none() { Exit::Success } else { Exit::Negative });
    }
    match refused {
        Some(one) => Err(unavailable(one, personality).into()),
        None => {
            writeln!(io.out, "OK")?;
            Ok(Exit::Success)
        }
    }
}

fn unavailable(seen: &ProbeResult, personality: Personality) -> Failure {
    let ProbeResult { target, cause, hint, .. } = seen;
    let cause = cause.clone().unwrap_or_default();
    let first = if personality == Personality::Galley { 'f' } else { 'F' };
    let failure = Failure::new(Exit::Negative, format!("`{target}` is not available"))
        .cause(&cause)
        .legacy(format!("{first}ail on inspecting path {target}: {cause}"));
    Failure { hint: hint.clone(), ..failure }
}

/// Probes periodically and prints changes, until SIGINT.
async fn watch(args: &ProbeArgs, targets: &[ProbeTarget], io: &mut Io) -> Outcome {
    let every = Some(args.interval.to_std_or_zero()).filter(|d| !d.is_zero()).unwrap_or(WATCH_INTERVAL);
    let mut before: Vec<Option<ProbeResult>> = vec![None; targets.len()];
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        for (target, before) in targets.iter().zip(&mut before) {
            let now = probe(target).await;
            if before.as_ref() != Some(&now) {
                print_change(args.output, &now, io)?;
                *before = Some(now);
            }
        }
        tokio::select! {
            _ = &mut interrupt => return Ok(Exit::Interrupted),
            () = tokio::time::sleep(every) => {}
        }
    }
}

fn print_change(format: ProbeFormat, seen: &ProbeResult, io: &mut Io) -> Result<(), Stop> {
    let time = Timestamp::from_system_time(SystemTime::now()).rfc3339_micros();
    match format {
        ProbeFormat::Json => {
            let mut document = serde_json::json!({
                "apiVersion": "mixer/v1", "kind": "ProbeChange", "time": time.to_string(),
            });
            if let (Some(all), Ok(serde_json::Value::Object(more))) =
                (document.as_object_mut(), serde_json::to_value(seen))
            {
                all.extend(more);
            }
            writeln!(io.out, "{document}")?;
        }
        ProbeFormat::Plain => match &seen.cause {
            None => writeln!(io.out, "{time} {} available", seen.target)?,
            Some(cause) => writeln!(io.out, "{time} {} unavailable: {cause}", seen.target)?,
        },
    }
    io.out.flush()?;
    Ok(())
}
