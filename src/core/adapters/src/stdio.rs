//! Writes log entries and metrics as lines of JSON or text to a standard stream or a file.
//!
//! A handler prepares a template of the lines of each instance. A report is formatted into a buffer of the worker and queued for
//! a thread that writes the lines of many reports at once. Without a queue (`writeQueueKilobytes: 0`), lines are written before
//! the report is answered: after the answer they are in the file, and write errors fail the report. All handlers of a server that
//! use a rotated file share it.
//!
//! | Parameter | Meaning |
//! | --- | --- |
//! | `outputLevel` | accepted without effect, as in Istio Mixer |
//! | `maxMegabytesBeforeRotation` | 100 by default; 0 means the default |
//! | `maxDaysBeforeRotation` | how long rotated files are kept; 0 means forever |
//! | `maxRotatedFiles` | number of rotated files to keep; 0 means all |
//! | `writeQueueKilobytes` | size of the write queue, within the memory that all queues share; 0 means that reports wait for their lines |
//!
//! Lines and files are those of Istio Mixer 1.3.

mod line;
mod queue;
mod sink;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::full::{self, Handover, WhenFull};
use crate::lines::Lines;
use line::{LineFormat, LineTemplate};
use mixer_attribute::SignedDuration;
use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_base::metrics::{Counter, Family};
use mixer_base::output_file::OutputUse;
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_delivery::{Holds, Items as _};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, Backends, BoundInstance, BuildError, Clock, Env, HandleReport, Handler,
    HandlerError, HandlerStatus, Instance, Reply, join_errors,
};
use queue::{Losses, LostNow, WriteQueue};
use sink::Sink;

mixer_config::message_enum! {
    /// Destination of lines.
    pub enum LogStream: "adapter.stdio.config.Params_Stream" {
        /// Standard output.
        0 "STDOUT" Stdout;
        /// Standard error.
        1 "STDERR" Stderr;
        /// One file.
        2 "FILE" File;
        /// A rotated file.
        3 "ROTATED_FILE" RotatedFile;
    }
}

mixer_config::message_enum! {
    /// Severity of a line.
    pub enum Level: "adapter.stdio.config.Params_Level" {
        /// Printed as `info`.
        0 "INFO" Info;
        /// Printed as `warn`.
        1 "WARNING" Warning;
        /// Printed as `error`.
        2 "ERROR" Error;
    }
}

mixer_config::message! {
    /// Parameters of the stdio adapter.
    pub struct Params: "adapter.stdio.config.Params" {
        /// Destination of lines.
        1 log_stream: LogStream = LogStream::Stdout;
        /// Levels by severity, case-sensitive; other severities are INFO.
        2 severity_levels: BTreeMap<String, Level> = default_severities();
        /// The level of metrics.
        3 metric_level: Level = Level::Info;
        /// JSON instead of text.
        4 output_as_json: bool = true;
        /// Without effect.
        5 output_level: Level = Level::Info;
        /// Path of the file.
        6 output_path: String = String::new();
        /// Size before rotation in MiB; 0 means 100.
        7 max_megabytes_before_rotation: i32 = 100;
        /// Days for which rotated files are kept; 0 means forever.
        8 max_days_before_rotation: i32 = 30;
        /// Number of rotated files to keep; 0 means all.
        9 max_rotated_files: i32 = 1000;
        /// Size of the write queue in KiB; 0 writes lines before the report is answered. Not in Istio Mixer.
        1000 write_queue_kilobytes: u32 = 4096;
        /// What happens to lines for which there is no room.
        1001 when_full: WhenFull = WhenFull::DropNewest;
        /// How long a report waits for room, with `HOLD`.
        1002 hold_timeout: SignedDuration = full::HOLD_TIMEOUT;
    }
}

fn default_severities() -> BTreeMap<String, Level> {
    let table = [
        (Level::Info, &["INFORMATIONAL", "informational", "INFO", "info"][..]),
        (Level::Warning, &["WARNING", "warning", "WARN", "warn"]),
        (Level::Error, &["ERROR", "error", "ERR", "err", "FATAL", "fatal"]),
    ];
    table.iter().flat_map(|(level, names)| names.iter().map(|name| ((*name).to_owned(), *level))).collect()
}

/// The adapter.
#[derive(Debug)]
pub struct Stdio;

impl Adapter for Stdio {
    const INFO: AdapterInfo = AdapterInfo {
        name: "stdio",
        about: "Writes logs and metrics to a standard I/O stream",
        templates: &["logentry", "metric"],
    };
    type Params = Params;

    fn validate(params: &Params, _: &[BoundInstance], problems: &mut Diagnostics) {
        full::validate(params.hold_timeout, problems);
        let is_file = matches!(params.log_stream, LogStream::File | LogStream::RotatedFile);
        let (why, hint) = match (is_file, params.output_path.is_empty()) {
            (false, false) => (
                "cannot specify an output path when using a STDOUT or STDERR log stream",
                "write `logStream: FILE` or `logStream: ROTATED_FILE` beside it, or leave it out",
            ),
            (true, true) => (
                "need a valid output path when using a FILE or ROTATED_FILE log stream",
                "write `outputPath: /PATH` beside `logStream`",
            ),
            _ => return,
        };
        let path = FieldPath::root().field("outputPath");
        let problem = Diagnostic::error("adapter-config", path, format!("outputPath: {why}"));
        problems.push(problem.with_hint(hint));
    }

    fn backends(params: &Params) -> Backends {
        let how = match params.log_stream {
            LogStream::Stdout | LogStream::Stderr => return Backends::None,
            LogStream::File => OutputUse::default(),
            LogStream::RotatedFile => sink::ROTATED,
        };
        Backends::File(PathBuf::from(&params.output_path), how)
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        let sink = Sink::open(&params, &env)
            .map_err(|why| BuildError::Refused(format!("could not build logger: {why}")))?;
        let form = if params.output_as_json { LineFormat::Json } else { LineFormat::Console };
        let count = |family| env.metrics.counter(family, &[&env.handler_name]);
        let losses =
            Losses { dropped: count(Family::StdioLinesDropped), lost: count(Family::StdioLinesLost) };
        let output = match params.write_queue_kilobytes as usize {
            0 => LineOutput::Direct(sink, losses.lost, LostNow::default()),
            kilobytes => LineOutput::Queued(WriteQueue::new(
                &env.handler_name,
                sink,
                kilobytes.saturating_mul(1024),
                params.when_full.with(params.hold_timeout),
                env.commons.get::<MemoryBudget>().share(Purpose::Queues),
                &env.commons.get::<Holds>(),
                losses,
            )),
        };
        Ok(Box::new(StdioHandler {
            lines: instances.iter().map(|instance| LineTemplate::new(instance, form, &params)).collect(),
            output,
            clock: env.clock,
        }))
    }
}

/// A built stdio adapter.
struct StdioHandler {
    /// One per bound instance.
    lines: Vec<LineTemplate>,
    output: LineOutput,
    clock: Arc<dyn Clock>,
}

/// How lines are written.
enum LineOutput {
    /// By the worker; with the counter of lost lines, and whether lines are lost now.
    Direct(Sink, Counter, LostNow),
    /// By the thread of the queue.
    Queued(WriteQueue),
}

thread_local! {
    static BATCH: RefCell<Lines> = RefCell::default();
}

impl StdioHandler {
    fn write(&self, batch: &mut Lines, instances: &[Instance<'_>]) -> Reply<()> {
        let mut handover = Handover::default();
        batch.clear();
        batch.shrink();
        let now = self.clock.now();
        for instance in instances {
            // All instances are bound when the handler is built.
            if let Some(line) = self.lines.get(instance.bound) {
                line.push(batch.buffer(), instance, now);
                batch.end_line();
            }
            if let LineOutput::Queued(queue) = &self.output
                && batch.bytes() >= queue::ENOUGH
            {
                handover.add(queue.push(batch));
                batch.clear();
            }
        }
        match &self.output {
            LineOutput::Queued(_) if batch.is_empty() => {}
            LineOutput::Queued(queue) => handover.add(queue.push(batch)),
            LineOutput::Direct(sink, lost, now) => {
                let mut errors = Vec::new();
                let lines = sink.write(batch, &mut errors);
                lost.add(lines);
                now.note(lines);
                if !errors.is_empty() {
                    return Reply::Ready(Err(HandlerError::new(join_errors(&errors))));
                }
            }
        }
        // Lines that are dropped are counted.
        handover.reply(|_| Ok(()))
    }
}

impl Handler for StdioHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let (queues, now) = match &self.output {
            LineOutput::Direct(_, _, now) => (Vec::new(), now),
            LineOutput::Queued(queue) => (vec![queue.status()], queue.lost_now()),
        };
        let trouble = now.trouble();
        HandlerStatus { trouble, queues, ..HandlerStatus::default() }
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            match &self.output {
                LineOutput::Queued(queue) if !queue.close(deadline).await => {
                    Err(HandlerError::new("lines were not written before the deadline"))
                }
                _ => Ok(()),
            }
        })
    }
}

impl HandleReport for StdioHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        BATCH.with(|batch| match batch.try_borrow_mut() {
            Ok(mut batch) => self.write(&mut batch, instances),
            Err(_) => self.write(&mut Lines::default(), instances),
        })
    }
}

#[cfg(test)]
mod tests;
