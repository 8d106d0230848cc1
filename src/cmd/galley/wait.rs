//! `galley wait`: waits until sinks have acknowledged a change; says who did not, and why.

use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::Value;

use super::document::{ServerFlags, is, list, number, sink, text};
use crate::cmd::controlz::Controlz;
use crate::cmd::event_loop::block_on;
use crate::cmd::exit::{Exit, Failure, Outcome, Stop};
use crate::cmd::io::Io;
use crate::cmd::output::{self, OutputFormat, counted, escaped};
use crate::cmd::value;
use mixer_attribute::SignedDuration;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Changes that are withheld for longer than a file is usually being written will not be published by themselves.
const WITHHELD: Duration = Duration::from_secs(2);

/// Flags of `galley wait`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WaitArgs {
    /// `latest`, the number of a publication, COLLECTION@VERSION, or KIND/NAMESPACE/NAME with or without @VERSION.
    #[arg(default_value = "latest", value_name = "TARGET")]
    target: String,
    /// Sinks that must have acknowledged it, at least; all that are connected must in any case.
    #[arg(long, default_value = "1", value_parser = value::uint, value_name = "COUNT")]
    sinks: u64,
    /// How long to wait.
    #[arg(long, default_value = "30s", value_parser = value::duration, value_name = "DURATION")]
    timeout: SignedDuration,
    #[command(flatten)]
    at: ServerFlags,
    /// Output format; default: plain.
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<OutputFormat>,
}

/// Waits and prints the result.
pub(crate) fn run(args: &WaitArgs, io: &mut Io) -> Outcome {
    let timeout = args.timeout.to_std_or_zero();
    let (report, exit) = wait(args.at.controlz(), &args.target, args.sinks, timeout, io)?;
    match args.output {
        Some(OutputFormat::Json) => writeln!(io.out, "{}", output::json(&report))?,
        Some(OutputFormat::Yaml) => write!(io.out, "{}", output::yaml(&report))?,
        _ => print(&report, args.sinks, exit, io)?,
    }
    Ok(exit)
}

/// Waits until everything that is published by now was acknowledged by all sinks, and prints the result.
pub(crate) fn wait_for_latest(galley: Controlz<'_>, timeout: Duration, io: &mut Io) -> Result<Exit, Stop> {
    let (report, exit) = wait(galley, "latest", 0, timeout, io)?;
    print(&report, 0, exit, io)?;
    Ok(exit)
}

/// The last report, and what it means.
fn wait(
    galley: Controlz<'_>,
    target: &str,
    sinks: u64,
    timeout: Duration,
    io: &mut Io,
) -> Result<(Value, Exit), Stop> {
    let path = |target: &str| {
        let encoded: String = target.bytes().map(escape).collect();
        format!("/progressj/?target={encoded}")
    };
    // What changed before this is waited for, whether galley has noticed it or not.
    let mut path_of_target = path(target) + "&look=1";
    let (started, mut withheld_since) = (Instant::now(), None);
    let bar = bar(io);
    loop {
        let mut report = galley.get(&path_of_target)?;
        // Others of its collection may change meanwhile: a later version of the collection has the resource, too.
        let resolved = text(&report, "resolved").to_owned();
        match resolved.is_empty() {
            // That version was so long ago that it is forgotten.
            true => path_of_target = path(target),
            false => path_of_target = path(&resolved),
        }
        if let Some(report) = report.as_object_mut() {
            report.insert("target".to_owned(), target.into());
        }
        let problem = text(&report, "problem");
        if !problem.is_empty() {
            return Err(Failure::usage(problem.to_owned())
                .hint("for example latest, 12, istio/policy/v1beta1/rules@7, or rule/istio-system/close")
                .into());
        }
        let (done, refused) = (list(&report, "acknowledged").len() as u64, list(&report, "refused").len());
        let outstanding = list(&report, "outstanding").len();
        bar.set_message(format!(
            "{} of {} acknowledged, {refused} refused",
            done,
            done + refused as u64 + outstanding as u64
        ));
        bar.tick();
        // A change that is withheld is none of those that sinks acknowledged. One that is delayed is published by itself.
        let withheld = list(&report, "withheld");
        let is_delayed = withheld.iter().all(|withheld| is(withheld, "isDelay"));
        if target == "latest" && !is_delayed {
            let since = *withheld_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= WITHHELD || started.elapsed() >= timeout {
                bar.finish_and_clear();
                return Ok((report, Exit::Negative));
            }
            pause(PAUSE)?;
            continue;
        }
        withheld_since = None;
        // What is not published yet may be what is waited for.
        let is_settled = target != "latest" || (number(&report, "pendingEvents") == 0 && withheld.is_empty());
        if is(&report, "isPublished") && is_settled && outstanding == 0 {
            if refused > 0 {
                bar.finish_and_clear();
                return Ok((report, Exit::Negative));
            }
            if done >= sinks {
                bar.finish_and_clear();
                return Ok((report, Exit::Success));
            }
        }
        if started.elapsed() >= timeout {
            bar.finish_and_clear();
            return Ok((report, if refused > 0 { Exit::Negative } else { Exit::Deadline }));
        }
        pause(PAUSE.min(timeout.saturating_sub(started.elapsed())))?;
    }
}

fn pause(time: Duration) -> Result<(), Stop> {
    block_on(async {
        tokio::time::sleep(time).await;
        Ok(())
    })
}

fn bar(io: &Io) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.set_draw_target(match io.err_is_terminal {
        true => ProgressDrawTarget::stderr_with_hz(10),
        false => ProgressDrawTarget::hidden(),
    });
    bar
}

/// A byte of a query parameter.
fn escape(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}

fn print(report: &Value, sinks: u64, exit: Exit, io: &mut Io) -> Result<(), Stop> {
    let done = list(report, "acknowledged").len();
    for withheld in list(report, "withheld") {
        let (source, why) = (text(withheld, "source"), text(withheld, "why"));
        writeln!(io.out, "not published: {}: {}", escaped(source), escaped(why))?;
    }
    if exit == Exit::Deadline {
        for waiting in list(report, "waiting") {
            let (source, why) = (text(waiting, "source"), text(waiting, "why"));
            if !list(report, "withheld").iter().any(|withheld| text(withheld, "source") == source) {
                writeln!(io.out, "not published: {}: {}", escaped(source), escaped(why))?;
            }
        }
    }
    for refused in list(report, "refused") {
        let (name, why) = (sink(refused.get("sink").unwrap_or(&Value::Null)), text(refused, "message"));
        let (collection, version) = (text(refused, "collection"), text(refused, "version"));
        writeln!(io.out, "refused by {}: {collection} {version}: {}", escaped(&name), escaped(why))?;
    }
    for outstanding in list(report, "outstanding") {
        let name = sink(outstanding.get("sink").unwrap_or(&Value::Null));
        writeln!(io.out, "no answer from {}: {}", escaped(&name), text(outstanding, "collection"))?;
    }
    match exit {
        Exit::Success => writeln!(io.out, "acknowledged by {}", counted(done, "sink"))?,
        Exit::Deadline if !is(report, "isPublished") => {
            writeln!(io.out, "`{}` was not published", escaped(text(report, "target")))?;
        }
        Exit::Deadline => {
            writeln!(
                io.out,
                "acknowledged by {}, of {} in time",
                counted(done, "sink"),
                sinks.max(done as u64)
            )?;
        }
        _ => writeln!(io.out, "acknowledged by {}", counted(done, "sink"))?,
    }
    Ok(())
}
