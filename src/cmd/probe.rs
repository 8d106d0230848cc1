//! `probe`: is a server alive or ready, judged by the age of the file that it keeps fresh.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::server::LogFlags;
use super::value;
use super::{Exit, Failure, Io, Outcome, Personality, Stop};
use crate::core::attribute::SignedDuration;
use crate::core::probe::{self, Inspection};

/// Flags of `probe`.
#[derive(Debug, Clone, clap::Args)]
pub struct ProbeArgs {
    /// File to inspect.
    ///
    /// Only its time counts, not its content. Required. Several files may be given, each with a --probe-path of its own; all
    /// must be fresh.
    #[arg(long, value_parser = value::path, value_name = "PATH")]
    probe_path: Vec<PathBuf>,
    /// How old the file may be.
    ///
    /// With a unit; 10ms of tolerance are added. Required. Example: 2s
    #[arg(long, value_parser = value::duration, default_value = "0s", hide_default_value = true, value_name = "DURATION")]
    interval: SignedDuration,
    #[command(flatten)]
    log: LogFlags,
}

/// Inspects the files. Spec: cli-operations.md 2.1.
pub(crate) fn run(args: &ProbeArgs, personality: Personality, io: &mut Io) -> Outcome {
    let paths: Vec<&PathBuf> = args.probe_path.iter().filter(|p| !p.as_os_str().is_empty()).collect();
    // The originals take one path: the last one given.
    let skipped = if personality.is_legacy() { paths.len().saturating_sub(1) } else { 0 };
    let interval = u64::try_from(args.interval.nanos).ok().filter(|n| *n > 0).map(Duration::from_nanos);
    let (Some(interval), false) = (interval, paths.is_empty()) else {
        return Err(Failure::usage("probe needs a path and an interval above zero")
            .hint("for example --probe-path /run/mixer/ready --interval 2s")
            .into())
        .or_else(|stop| invalid_options(stop, personality));
    };
    for path in paths.into_iter().skip(skipped) {
        let inspection = probe::inspect(path, interval, SystemTime::now());
        if let Some(cause) = problem(path, interval, &inspection) {
            return Err(unavailable(path, &cause, personality).into());
        }
    }
    writeln!(io.out, "OK")?;
    Ok(Exit::Success)
}

fn invalid_options(stop: Stop, personality: Personality) -> Outcome {
    match personality {
        Personality::Mixer => Err(stop),
        Personality::Galley => Err(Failure::local("some options are not valid").into()),
        _ => Err(Failure::local("Some options are not valid").into()),
    }
}

fn unavailable(path: &Path, cause: &str, personality: Personality) -> Failure {
    let shown = path.display();
    let first = if personality == Personality::Galley { 'f' } else { 'F' };
    Failure::new(Exit::Negative, format!("`{shown}` is not available"))
        .cause(cause)
        .legacy(format!("{first}ail on inspecting path {shown}: {cause}"))
}

/// Why the probe says no, if it does.
fn problem(path: &Path, interval: Duration, inspection: &Inspection) -> Option<String> {
    let path = path.display();
    match inspection {
        Inspection::Fresh => None,
        Inspection::Unreadable(error) => Some(format!("stat {path}: {error}")),
        Inspection::Stale(modified) => {
            let limit = interval + probe::TOLERANCE;
            let limit = SignedDuration::from_nanos(i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX));
            let time = local_time(*modified);
            Some(format!("file {path} is too old (last modified time {time}, should be within {limit})"))
        }
    }
}

/// A time in the zone of this process, as Go prints it: `2020-01-02 03:04:05 +0000 UTC`.
fn local_time(time: SystemTime) -> String {
    let Ok(timestamp) = jiff::Timestamp::try_from(time) else { return String::from("unknown") };
    let zoned = timestamp.to_zoned(jiff::tz::TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M:%S%.f %z %Z").to_string()
}
