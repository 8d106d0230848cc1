//! `probe`: is a server alive or ready, judged by the age of a file that it keeps fresh, by its gRPC health service, or over HTTP.

mod target;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use target::Target;

use super::call::{Connection, SecureFlags, wait};
use super::server::LogFlags;
use super::value;
use super::{Exit, Failure, Io, Outcome, Personality, Stop};
use mixer_attribute::{SignedDuration, Timestamp};

/// How often `--watch` looks unless `--interval` says otherwise.
const LOOK: Duration = Duration::from_secs(1);

/// Flags of `probe`.
#[derive(Debug, Clone, clap::Args)]
pub struct ProbeArgs {
    /// File to inspect.
    ///
    /// Only its time counts, not its content. Several files may be given, each with a --probe-path of its own; all must be fresh.
    #[arg(long, value_parser = value::path, value_name = "PATH")]
    probe_path: Vec<PathBuf>,
    /// How old the file may be, and how often --watch looks.
    ///
    /// With a unit; 10ms of tolerance are added. Required with --probe-path. Example: 2s
    #[arg(long, value_parser = value::duration, default_value = "0s", hide_default_value = true, value_name = "DURATION")]
    interval: SignedDuration,
    /// Server to ask by its gRPC health service: host:port or unix:///path; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    grpc: Vec<String>,
    /// What to ask that service for: empty or istio.mixer.v1.Mixer for ready, `liveness` for alive.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "SERVICE")]
    service: String,
    /// URL that must answer with a status of success; may be repeated. Example: http://localhost:15014/readyz
    #[arg(long, value_name = "URL")]
    http: Vec<String>,
    /// Limit of one question over the network.
    #[arg(long, value_parser = value::duration, default_value = "1s", value_name = "DURATION")]
    timeout: SignedDuration,
    /// Keep looking and print every change, until SIGINT.
    #[arg(long)]
    watch: bool,
    /// How the result is written.
    #[arg(short = 'o', long, value_enum, default_value = "plain", value_name = "FORMAT")]
    output: ProbeFormat,
    #[command(flatten)]
    secure: SecureFlags,
    #[command(flatten)]
    log: LogFlags,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProbeFormat {
    /// One line.
    Plain,
    /// One document; with --watch one line a change.
    Json,
}

/// One look at one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Seen {
    target: String,
    kind: &'static str,
    available: bool,
    cause: Option<String>,
}

/// Looks. Spec: cli-operations.md 2.1 and 9.3.
pub(crate) fn run(args: &ProbeArgs, personality: Personality, io: &mut Io) -> Outcome {
    wait(async {
        let targets = targets(args, personality)?;
        if args.watch { watch(args, &targets, io).await } else { once(args, &targets, personality, io).await }
    })
}

/// What the flags name. Errors: nothing, or a file without an interval.
fn targets(args: &ProbeArgs, personality: Personality) -> Result<Vec<Target>, Stop> {
    let paths: Vec<&PathBuf> = args.probe_path.iter().filter(|p| !p.as_os_str().is_empty()).collect();
    let interval = u64::try_from(args.interval.nanos).ok().filter(|n| *n > 0).map(Duration::from_nanos);
    let remote = args.grpc.len() + args.http.len();
    // The originals take one path: the last one given.
    let skipped = if personality.is_legacy() { paths.len().saturating_sub(1) } else { 0 };
    let files = match (interval, paths.is_empty()) {
        (Some(interval), false) => {
            let files = paths.into_iter().skip(skipped);
            files.map(|path| Target::File { path: path.clone(), interval }).collect()
        }
        (_, true) if remote > 0 => Vec::new(),
        _ => return Err(invalid_options(personality)),
    };
    let timeout = args.timeout.to_std_or_zero();
    let mut targets: Vec<Target> = files;
    for address in &args.grpc {
        let tls = args.secure.load(address)?;
        let connection = Box::new(Connection::new(address, Some(timeout), tls));
        targets.push(Target::Grpc { address: address.clone(), service: args.service.clone(), connection });
    }
    if !args.http.is_empty() {
        mixer_net::tls::install_crypto_provider();
        let client = reqwest::Client::builder().timeout(timeout).no_proxy().build();
        let client = client.map_err(|e| Failure::local("cannot probe over HTTP").cause(e))?;
        targets.extend(args.http.iter().map(|url| Target::Http { url: url.clone(), client: client.clone() }));
    }
    Ok(targets)
}

fn invalid_options(personality: Personality) -> Stop {
    match personality {
        Personality::Mixer => {
            Failure::usage("probe needs a path and an interval above zero, or --grpc, or --http")
                .hint("for example --probe-path /run/mixer/ready --interval 2s, or --grpc localhost:9091")
                .into()
        }
        Personality::Galley => Failure::local("some options are not valid").into(),
        _ => Failure::local("Some options are not valid").into(),
    }
}

async fn look(target: &Target) -> Seen {
    let cause = target.look().await.err();
    Seen { target: target.name(), kind: target.kind(), available: cause.is_none(), cause }
}

/// One look at every target; the first one that is not available decides.
async fn once(args: &ProbeArgs, targets: &[Target], personality: Personality, io: &mut Io) -> Outcome {
    let mut seen = Vec::new();
    for target in targets {
        let one = look(target).await;
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

fn unavailable(seen: &Seen, personality: Personality) -> Failure {
    let Seen { target, cause, .. } = seen;
    let cause = cause.clone().unwrap_or_default();
    let first = if personality == Personality::Galley { 'f' } else { 'F' };
    Failure::new(Exit::Negative, format!("`{target}` is not available"))
        .cause(&cause)
        .legacy(format!("{first}ail on inspecting path {target}: {cause}"))
}

/// Looks again and again and prints what changed, until SIGINT.
async fn watch(args: &ProbeArgs, targets: &[Target], io: &mut Io) -> Outcome {
    let every = Some(args.interval.to_std_or_zero()).filter(|d| !d.is_zero()).unwrap_or(LOOK);
    let mut before: Vec<Option<Seen>> = vec![None; targets.len()];
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        for (target, before) in targets.iter().zip(&mut before) {
            let now = look(target).await;
            if before.as_ref() != Some(&now) {
                tell(args.output, &now, io)?;
                *before = Some(now);
            }
        }
        tokio::select! {
            _ = &mut interrupt => return Ok(Exit::Interrupted),
            () = tokio::time::sleep(every) => {}
        }
    }
}

fn tell(format: ProbeFormat, seen: &Seen, io: &mut Io) -> Result<(), Stop> {
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
