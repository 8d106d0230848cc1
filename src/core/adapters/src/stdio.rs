//! Writes log entries and metrics as lines of JSON or text to a standard stream or a file.
//!
//! A handler works out at build time how the lines of each instance begin and where their members stand; a report is formatted
//! into memory of the worker, and the lines are handed to a thread that writes those of many reports at once. Without a queue
//! (`writeQueueKilobytes: 0`) they are written before the report is answered, so that whoever got the answer finds the lines, and
//! hears of it when they cannot be written. Files that are rotated are shared by all handlers of a server that name them.
//!
//! | Parameter | Meaning |
//! | --- | --- |
//! | `outputLevel` | accepted, filters nothing, as in the originals |
//! | `maxMegabytesBeforeRotation` | 100 unless given; 0 means that as well |
//! | `maxDaysBeforeRotation` | how long rotated files are kept; 0 means for ever |
//! | `maxRotatedFiles` | how many are kept; 0 means all |
//! | `writeQueueKilobytes` | lines that may wait to be written; 0 means that reports wait instead |
//!
//! Spec: adapters-inprocess.md section 11.

mod line;
mod queue;
mod sink;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use line::{Form, Line};
use mixer_base::metrics::{Counter, Family};
use mixer_config::{Diagnostic, Diagnostics, FieldPath};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, Clock, Env, HandleReport, Handler, HandlerError,
    HandlerStatus, Instance, Reply, join_errors,
};
use queue::{Losses, WriteQueue};
use sink::{Batch, Sink};

mixer_config::message_enum! {
    /// Where lines go.
    pub enum LogStream: "adapter.stdio.config.Params_Stream" {
        /// Standard output.
        0 "STDOUT" Stdout;
        /// Standard error.
        1 "STDERR" Stderr;
        /// One file.
        2 "FILE" File;
        /// A file that is renamed and begun anew.
        3 "ROTATED_FILE" RotatedFile;
    }
}

mixer_config::message_enum! {
    /// How bad it is.
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
        /// Where lines go.
        1 log_stream: LogStream = LogStream::Stdout;
        /// The level of each severity, exactly as written; others are INFO.
        2 severity_levels: BTreeMap<String, Level> = default_severities();
        /// The level of metrics.
        3 metric_level: Level = Level::Info;
        /// JSON or text.
        4 output_as_json: bool = true;
        /// Without effect.
        5 output_level: Level = Level::Info;
        /// The file.
        6 output_path: String = String::new();
        /// Size before rotation in MiB; 0 means 100.
        7 max_megabytes_before_rotation: i32 = 100;
        /// Days that rotated files are kept; 0 means for ever.
        8 max_days_before_rotation: i32 = 30;
        /// Rotated files that are kept; 0 means all.
        9 max_rotated_files: i32 = 1000;
        /// KiB of lines that may wait to be written; 0 writes them before the report is answered. Not in the originals.
        1000 write_queue_kilobytes: u32 = 4096;
    }
}

fn default_severities() -> BTreeMap<String, Level> {
    let table = [
        (Level::Info, &["INFORMATIONAL", "informational", "INFO", "info"][..]),
        (Level::Warning, &["WARNING", "warning", "WARN", "warn"]),
        (Level::Error, &["ERROR", "error", "ERR", "err", "FATAL", "fatal"]),
    ];
    table.iter().flat_map(|(level, words)| words.iter().map(|word| ((*word).to_owned(), *level))).collect()
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
        let is_file = matches!(params.log_stream, LogStream::File | LogStream::RotatedFile);
        let why = match (is_file, params.output_path.is_empty()) {
            (false, false) => "cannot specify an output path when using a STDOUT or STDERR log stream",
            (true, true) => "need a valid output path when using a FILE or ROTATED_FILE log stream",
            _ => return,
        };
        let path = FieldPath::root().field("outputPath");
        problems.push(Diagnostic::error("adapter-config", path, format!("outputPath: {why}")));
    }

    async fn build(
        params: Params,
        instances: Vec<BoundInstance>,
        env: Env,
    ) -> Result<Box<dyn Handler>, BuildError> {
        let sink = Sink::open(&params, &env)
            .map_err(|why| BuildError::Refused(format!("could not build logger: {why}")))?;
        let form = if params.output_as_json { Form::Json } else { Form::Console };
        let count = |family| env.metrics.counter(family, &[&env.handler_name]);
        let losses =
            Losses { dropped: count(Family::StdioLinesDropped), lost: count(Family::StdioLinesLost) };
        let output = match params.write_queue_kilobytes as usize {
            0 => Output::Direct(sink, losses.lost),
            kilobytes => Output::Queued(WriteQueue::new(
                &env.handler_name,
                sink,
                kilobytes.saturating_mul(1024),
                losses,
            )),
        };
        Ok(Box::new(StdioHandler {
            lines: instances.iter().map(|instance| Line::new(instance, form, &params)).collect(),
            output,
            clock: env.clock,
        }))
    }
}

/// A built stdio adapter.
struct StdioHandler {
    /// One a bound instance.
    lines: Vec<Line>,
    output: Output,
    clock: Arc<dyn Clock>,
}

/// How lines are written.
enum Output {
    /// Where they come from; the counter is of those that could not be.
    Direct(Sink, Counter),
    /// By somebody else.
    Queued(WriteQueue),
}

thread_local! {
    static BATCH: RefCell<Batch> = RefCell::default();
}

impl StdioHandler {
    fn write(&self, batch: &mut Batch, instances: &[Instance<'_>]) -> Result<(), HandlerError> {
        batch.clear();
        let now = self.clock.now();
        for instance in instances {
            // An instance that the handler was not built with cannot come; if it did there would be no line for it.
            if let Some(line) = self.lines.get(instance.bound) {
                line.push(batch.bytes(), instance, now);
                batch.end_line();
            }
        }
        match &self.output {
            Output::Queued(queue) => queue.push(batch),
            Output::Direct(sink, lost) => {
                let mut errors = Vec::new();
                lost.add(sink.write(batch, &mut errors));
                if !errors.is_empty() {
                    return Err(HandlerError::new(join_errors(&errors)));
                }
            }
        }
        Ok(())
    }
}

impl Handler for StdioHandler {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }

    fn status(&self) -> HandlerStatus {
        let (queues, lost) = match &self.output {
            Output::Direct(_, lost) => (Vec::new(), lost.get()),
            Output::Queued(queue) => (vec![queue.status()], queue.lost()),
        };
        let trouble = (lost > 0).then(|| format!("{lost} lines could not be written"));
        HandlerStatus { trouble, queues, ..HandlerStatus::default() }
    }

    fn close(
        &self,
        deadline: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        Box::pin(async move {
            match &self.output {
                Output::Queued(queue) if !queue.close(deadline).await => {
                    Err(HandlerError::new("lines are left that could not be written in time"))
                }
                _ => Ok(()),
            }
        })
    }
}

impl HandleReport for StdioHandler {
    fn report(&self, instances: &[Instance<'_>]) -> Reply<()> {
        Reply::Ready(BATCH.with(|batch| match batch.try_borrow_mut() {
            Ok(mut batch) => self.write(&mut batch, instances),
            Err(_) => self.write(&mut Batch::default(), instances),
        }))
    }
}

#[cfg(test)]
mod tests;
