//! Logging: scopes and levels, formats, sinks.
//!
//! [`Log`] is a `tracing` layer. The target of a record determines its scope (one table, `TARGETS`). A scope has an output level,
//! a stack trace level and a caller switch, which can be changed at run time. A record is a line of text or JSON; control
//! characters are escaped. Every sink has a bounded queue and a thread that writes it, each line in one write: whoever logs waits
//! for no disk and no pipe. A call site writes a bounded number of records a second. Records that are left out or cannot be written
//! are counted, in the metrics and in a later record. See docs/operations.md.

mod cut;
mod escape;
mod format;
mod options;
mod queue;
mod rate;
mod sink;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tracing::{Event, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

pub use crate::rate_limit::RateLimit;
pub use escape::escaped;
pub use format::json_record;
pub use options::{LogLevel, LogLevels, LogOptions, LogScopes, OptionsError, SCOPES};

use super::metrics::Counter;
use queue::Sink;
use rate::Sites;
pub use rate::is_unlimited;
use sink::Stream;

/// Target prefixes and their scopes, longest prefix first. The name of a scope is a target too; all other targets are in `default`.
const TARGETS: &[(&str, &str)] = &[
    ("mixer_api::load_shedding", "loadshedding"),
    ("mixer_engine::adapter", "adapters"),
    ("mixer_adapters", "adapters"),
    ("mixer_attribute", "attributes"),
    ("mixer_api", "api"),
    ("mixer_envoy", "api"),
    ("mixer_mcp", "mcp"),
];

/// Libraries whose debug records are dropped. `notify` logs every file system event: a log file in a watched directory would cause
/// records about itself.
const QUIET: &[&str] = &["notify", "mio"];

/// The index in [`SCOPES`] of the scope of a record with this target.
fn scope_of_target(target: &str) -> usize {
    let scope =
        TARGETS.iter().find(|(prefix, _)| target.starts_with(prefix)).map_or(target, |(_, scope)| scope);
    let index = |name: &str| SCOPES.iter().position(|(scope, _)| *scope == name);
    index(scope).or_else(|| index("default")).unwrap_or(0)
}

/// The settings of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScopeState {
    /// For example `adapters`.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Records up to this level are written.
    pub output_level: LogLevel,
    /// Records up to this level carry a stack trace.
    pub stack_trace_level: LogLevel,
    /// Whether records carry their source location.
    pub caller: bool,
}

/// The log of a process. Clones share it.
#[derive(Clone)]
pub struct Log(Arc<LogState>);

struct LogState {
    scopes: [ScopeSwitches; SCOPES.len()],
    json: AtomicBool,
    /// Each gets every record.
    sinks: RwLock<Vec<Arc<Sink>>>,
    sites: Sites,
    options: Mutex<LogOptions>,
    counters: Mutex<Counters>,
}

#[derive(Default)]
struct Counters {
    lost: Option<Counter>,
    suppressed: Option<Counter>,
}

struct ScopeSwitches {
    output: AtomicU8,
    stack_trace: AtomicU8,
    caller: AtomicBool,
}

fn level_of(number: u8) -> LogLevel {
    LogLevel::ALL.get(usize::from(number)).map_or(LogLevel::None, |(level, _)| *level)
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.scopes()).finish()
    }
}

impl Log {
    /// Creates a log and opens its files.
    ///
    /// Errors: those of [`LogOptions::check`], then of a file: `couldn't open sink "/x": open /x: no such file or directory`.
    pub fn new(options: &LogOptions) -> Result<Log, OptionsError> {
        let switches = || ScopeSwitches {
            output: AtomicU8::new(LogLevel::Info as u8),
            stack_trace: AtomicU8::new(LogLevel::None as u8),
            caller: AtomicBool::new(false),
        };
        let log = Log(Arc::new(LogState {
            scopes: std::array::from_fn(|_| switches()),
            json: AtomicBool::new(false),
            sinks: RwLock::default(),
            sites: Sites::default(),
            options: Mutex::new(options.clone()),
            counters: Mutex::default(),
        }));
        log.configure(options)?;
        Ok(log)
    }

    /// Installs the log of the process, for the records of all crates. A second call changes the settings of the installed log.
    /// Errors: as [`new`](Self::new); nothing is changed then.
    pub fn install(options: &LogOptions) -> Result<Log, OptionsError> {
        static INSTALLED: OnceLock<Log> = OnceLock::new();
        if let Some(log) = INSTALLED.get() {
            log.configure(options)?;
            return Ok(log.clone());
        }
        let log = Log::new(options)?;
        let installed = INSTALLED.get_or_init(|| {
            let subscriber = tracing_subscriber::registry().with(log.layer());
            // Fails only if a test or an embedding program has installed a subscriber, which then stays.
            let _ = tracing_subscriber::util::SubscriberInitExt::try_init(subscriber);
            log.clone()
        });
        Ok(installed.clone())
    }

    /// As [`install`](Self::install) for a process that only tries the options: no file is created or written, and what would be in files only is
    /// written to standard error. Errors: also a file that could not be opened.
    pub fn rehearse(options: &LogOptions) -> Result<Log, OptionsError> {
        options.check()?;
        Self::install(&sink::rehearse(options)?)
    }

    fn configure(&self, options: &LogOptions) -> Result<(), OptionsError> {
        let output = options.output_levels()?;
        let stack_trace = options.stack_trace_levels()?;
        let callers = options.callers()?;
        self.open(options)?;
        for (switches, (name, _)) in self.0.scopes.iter().zip(SCOPES) {
            let of = |levels: &LogLevels, default| {
                levels.iter().rev().find(|(scope, _)| scope == name).map_or(default, |(_, level)| *level)
            };
            switches.output.store(of(&output, LogLevel::Info) as u8, Ordering::Relaxed);
            switches.stack_trace.store(of(&stack_trace, LogLevel::None) as u8, Ordering::Relaxed);
            switches.caller.store(callers.iter().any(|scope| scope == name), Ordering::Relaxed);
        }
        self.0.json.store(options.as_json, Ordering::Relaxed);
        *self.0.options.lock() = options.clone();
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    }

    /// Opens the sinks of `options` and uses them.
    fn open(&self, options: &LogOptions) -> Result<(), OptionsError> {
        let earlier = self.sinks();
        let sinks = sink::open(options, &earlier)?;
        if let Some(counter) = &self.0.counters.lock().lost {
            sinks.iter().for_each(|sink| sink.count_lost_in(counter.clone()));
        }
        *self.0.sinks.write() = sinks;
        Ok(())
    }

    fn sinks(&self) -> Vec<Arc<Sink>> {
        self.0.sinks.read().clone()
    }

    /// Reopens every file, for example after it was renamed. Errors: a file that cannot be opened; all files are kept then.
    pub fn reopen(&self) -> Result<(), OptionsError> {
        let options = self.0.options.lock().clone();
        self.open(&options)
    }

    /// Rotates the rotated file and reopens the others. Errors: as [`reopen`](Self::reopen), or the rotated file cannot be renamed.
    pub fn rotate(&self) -> Result<(), OptionsError> {
        self.sinks()
            .iter()
            .try_for_each(|sink| sink.rotate())
            .map_err(|error| OptionsError(error.to_string()))?;
        self.reopen()
    }

    /// Whether the last record that was taken from the queue was written to every sink. Errors: the sinks that failed, and why.
    pub fn last_write(&self) -> Result<(), String> {
        let failures: Vec<String> = self.sinks().iter().filter_map(|sink| sink.last_write().err()).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join(", ")) }
    }

    /// To be called every second: queues a new attempt at sinks that failed, so that an idle log recovers, and counts the records
    /// that were left out.
    pub fn try_again(&self) {
        self.sinks().iter().for_each(|sink| sink.recover());
        for (site, suppressed) in self.0.sites.take_suppressed() {
            tracing::warn!(site, suppressed, "log records of a call site above its rate were left out");
        }
    }

    /// Waits until all queued records are written, at most `limit`. Returns whether they are.
    pub fn flush(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let streams = [Stream::Output, Stream::Error].into_iter().filter_map(Stream::used);
        // All sinks, even if one of them is late.
        self.sinks().into_iter().chain(streams).filter(|sink| !sink.flush(deadline)).count() == 0
    }

    /// Writes text to standard output, behind the records that are queued for it. Never waits.
    pub fn print(&self, text: &[u8]) {
        Stream::Output.sink().print(text);
    }

    /// Writes text to standard error, behind the records that are queued for it. Never waits.
    pub fn print_error(&self, text: &[u8]) {
        Stream::Error.sink().print(text);
    }

    /// Applies new settings at run time; they replace levels set with [`set_scope`](Self::set_scope). Errors: as
    /// [`new`](Self::new); nothing is changed then.
    pub fn change(&self, options: &LogOptions) -> Result<(), OptionsError> {
        self.configure(options)
    }

    /// Also counts lost records in `counter`.
    pub fn count_lost_in(&self, counter: Counter) {
        self.sinks().iter().for_each(|sink| sink.count_lost_in(counter.clone()));
        self.0.counters.lock().lost = Some(counter);
    }

    /// Counts records that are left out because of their rate in `counter`, once a later record counts them.
    pub fn count_suppressed_in(&self, counter: Counter) {
        self.0.counters.lock().suppressed = Some(counter);
    }

    /// Every scope, in name order.
    pub fn scopes(&self) -> Vec<ScopeState> {
        let state = |(switches, (name, about)): (&ScopeSwitches, (&'static str, &'static str))| ScopeState {
            name,
            about,
            output_level: level_of(switches.output.load(Ordering::Relaxed)),
            stack_trace_level: level_of(switches.stack_trace.load(Ordering::Relaxed)),
            caller: switches.caller.load(Ordering::Relaxed),
        };
        self.0.scopes.iter().zip(SCOPES).map(state).collect()
    }

    /// Changes the scope with the name of `state`. Errors: `unknown scope 'X' specified`.
    pub fn set_scope(&self, state: &ScopeState) -> Result<(), OptionsError> {
        let found = self.0.scopes.iter().zip(SCOPES).find(|(_, (name, _))| *name == state.name);
        let Some((switches, _)) = found else {
            return Err(OptionsError(format!("unknown scope '{}' specified", state.name)));
        };
        switches.output.store(state.output_level as u8, Ordering::Relaxed);
        switches.stack_trace.store(state.stack_trace_level as u8, Ordering::Relaxed);
        switches.caller.store(state.caller, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    }

    /// This log as a layer of a `tracing` subscriber.
    pub fn layer<S: Subscriber + for<'s> LookupSpan<'s>>(&self) -> impl Layer<S> + use<S> {
        RecordWriter(self.clone()).with_filter(ScopeFilter(self.clone()))
    }

    fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = level(metadata);
        let target = metadata.target();
        if level > LogLevel::Info && QUIET.iter().any(|library| target.starts_with(library)) {
            return false;
        }
        let switches = self.0.scopes.get(scope_of_target(target));
        switches.is_some_and(|s| level <= level_of(s.output.load(Ordering::Relaxed)))
    }
}

/// The level of a record; trace counts as debug.
fn level(metadata: &Metadata<'_>) -> LogLevel {
    match *metadata.level() {
        tracing::Level::ERROR => LogLevel::Error,
        tracing::Level::WARN => LogLevel::Warn,
        tracing::Level::INFO => LogLevel::Info,
        _ => LogLevel::Debug,
    }
}

/// Selects records by scope and level, before they are formatted.
struct ScopeFilter(Log);

impl<S> Filter<S> for ScopeFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.is_enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let highest = self.0.scopes().into_iter().map(|s| s.output_level).max();
        Some(match highest {
            None | Some(LogLevel::None | LogLevel::Fatal) => LevelFilter::OFF,
            Some(LogLevel::Error) => LevelFilter::ERROR,
            Some(LogLevel::Warn) => LevelFilter::WARN,
            Some(LogLevel::Info) => LevelFilter::INFO,
            Some(LogLevel::Debug) => LevelFilter::TRACE,
        })
    }
}

/// Formats and queues records.
struct RecordWriter(Log);

impl<S: Subscriber> Layer<S> for RecordWriter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let core = &*self.0.0;
        let scope = scope_of_target(event.metadata().target());
        let (Some(switches), Some((name, _))) = (core.scopes.get(scope), SCOPES.get(scope)) else { return };
        let level = level(event.metadata());
        let Some(suppressed) = core.sites.admit(level, event.metadata()) else { return };
        let context = format::RecordContext {
            level,
            scope: name,
            caller: switches.caller.load(Ordering::Relaxed),
            stack_trace: level <= level_of(switches.stack_trace.load(Ordering::Relaxed)),
            suppressed,
        };
        format::with_line(core.json.load(Ordering::Relaxed), &context, event, |line, suppressed| {
            core.sinks.read().iter().for_each(|sink| sink.push(level, line));
            if suppressed > 0
                && let Some(counter) = &core.counters.lock().suppressed
            {
                counter.add(suppressed);
            }
        });
    }
}

#[cfg(test)]
pub(crate) mod tests;
