//! `galley watch`: events of sources as they happen.

use std::io::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::document::{ServerFlags, text};
use crate::cmd::event_loop::block_on;
use crate::cmd::exit::{Exit, Outcome};
use crate::cmd::io::Io;
use crate::cmd::output::escaped;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// Flags of `galley watch`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    at: ServerFlags,
    /// Print the events so far, and exit.
    #[arg(long)]
    once: bool,
    /// Print one JSON object per event.
    #[arg(long)]
    json: bool,
}

/// Prints events, oldest first, until SIGINT.
pub(crate) fn run(args: &WatchArgs, io: &mut Io) -> Outcome {
    let mut last: Option<Value> = None;
    loop {
        let events = args.at.controlz().get("/eventj/")?;
        let all = events.as_array().map(Vec::as_slice).unwrap_or_default();
        // Newest first; those after the last one that was printed.
        let new: Vec<&Value> = all.iter().take_while(|event| last.as_ref() != Some(*event)).collect();
        for event in new.iter().rev() {
            match args.json {
                true => writeln!(io.out, "{event}")?,
                false => writeln!(io.out, "{}", line(event))?,
            }
        }
        io.out.flush()?;
        last = all.first().cloned().or(last);
        if args.once {
            return Ok(Exit::Success);
        }
        let interrupted = block_on(async {
            let paused = tokio::time::timeout(PAUSE, tokio::signal::ctrl_c()).await;
            Ok(paused.is_ok())
        })?;
        if interrupted {
            return Ok(Exit::Interrupted);
        }
    }
}

fn line(event: &Value) -> String {
    let [at, kind, collection, name, version, source] =
        ["at", "kind", "collection", "name", "version", "source"].map(|part| text(event, part));
    let what = [collection, name, version].into_iter().filter(|part| !part.is_empty());
    let what: Vec<&str> = what.collect();
    escaped(&format!("{at}  {kind:<9} {} ({source})", what.join(" "))).into_owned()
}
