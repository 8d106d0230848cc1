//! Signal handling of a running server.

use std::ffi::OsString;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::args::ParseOptions;
use crate::cmd::exit::Exit;
use mixer_base::task::{self, Group};
use mixer_server::{Controls, Effects, Server, ServerOptions, SystemEffects};

/// Delay between a shutdown request over ControlZ and the shutdown, so that the response is delivered.
const STOP_DELAY: Duration = Duration::from_secs(1);

/// Time limit for writing the records of the stop itself.
const LAST_RECORDS: Duration = Duration::from_millis(200);

/// The system effects, and the signals received since the threads of the server were started.
#[derive(Default)]
pub(super) struct SignalEffects {
    signals: OnceLock<tokio::sync::Mutex<Signals>>,
    interrupted: OnceLock<StopSignal>,
}

impl SignalEffects {
    /// The exit status if a signal interrupted the start.
    pub(super) fn interrupted_with(&self) -> Option<Exit> {
        self.interrupted.get().map(|signal| signal.exit())
    }
}

impl Effects for SignalEffects {
    fn background(&self) -> std::io::Result<tokio::runtime::Runtime> {
        let runtime = SystemEffects.background()?;
        let guard = runtime.enter();
        let signals = Signals::listen()?;
        drop(guard);
        // The server calls this once.
        let _ = self.signals.set(tokio::sync::Mutex::new(signals));
        Ok(runtime)
    }

    fn interrupted(&self) -> Pin<Box<dyn Future<Output = String> + '_>> {
        Box::pin(async {
            let Some(signals) = self.signals.get() else { return std::future::pending().await };
            let signal = signals.lock().await.stop().await;
            let _ = self.interrupted.set(signal);
            format!("interrupted by {}", signal.name())
        })
    }
}

/// Serves until shutdown is requested, then shuts down in order. A second SIGINT or SIGTERM exits immediately.
/// See docs/operations.md.
pub(super) fn serve(
    server: Server,
    effects: SignalEffects,
    options: ServerOptions,
    parse: ParseOptions,
) -> Exit {
    let Some(signals) = effects.signals.into_inner() else { return Exit::Internal };
    let mut signals = signals.into_inner();
    let log = server.controls().log.clone();
    let mut running = RunningServer { options, parse, controls: Arc::clone(server.controls()) };
    let (reason, failed) = server.background().block_on(running.until_ended(&mut signals));
    if failed {
        tracing::error!("stopping on {reason}");
    } else {
        tracing::info!("stopping on {reason}");
    }
    drop(running);
    Group::new("second signal").spawn_on(server.background(), async move {
        let second = signals.stop().await;
        std::process::exit(i32::from(second.exit().code()));
    });
    let report = server.stop();
    // What the stop itself logged.
    log.flush(LAST_RECORDS);
    match (report.is_complete(), failed) {
        (_, true) => Exit::Internal,
        (true, false) => Exit::Success,
        (false, false) => Exit::Local,
    }
}

/// A signal that ends a server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StopSignal {
    Interrupt,
    Terminate,
}

impl StopSignal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            StopSignal::Interrupt => "SIGINT",
            StopSignal::Terminate => "SIGTERM",
        }
    }

    pub(crate) fn exit(self) -> Exit {
        match self {
            StopSignal::Interrupt => Exit::Interrupted,
            StopSignal::Terminate => Exit::Terminated,
        }
    }
}

/// The signals that a server handles.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
    quit: Signal,
}

/// What to do on a signal that does not stop the server.
enum SignalAction {
    Reload,
    UserSignal,
    Dump,
    ThreadReport,
}

impl Signals {
    /// Installs the handlers. Must run on an event loop.
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    async fn stop(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }

    async fn next(&mut self) -> Result<SignalAction, StopSignal> {
        tokio::select! {
            _ = self.interrupt.recv() => Err(StopSignal::Interrupt),
            _ = self.terminate.recv() => Err(StopSignal::Terminate),
            _ = self.hangup.recv() => Ok(SignalAction::Reload),
            _ = self.user1.recv() => Ok(SignalAction::UserSignal),
            _ = self.user2.recv() => Ok(SignalAction::Dump),
            _ = self.quit.recv() => Ok(SignalAction::ThreadReport),
        }
    }
}

/// A running server and its current settings.
struct RunningServer {
    options: ServerOptions,
    parse: ParseOptions,
    controls: Arc<Controls>,
}

impl RunningServer {
    /// Handles signals until the server must stop. Returns the reason, and whether it is a failure of an essential task, of which
    /// handling signals is one.
    async fn until_ended(&mut self, signals: &mut Signals) -> (String, bool) {
        let parts = tokio::sync::Mutex::new((self, signals));
        let handle = || async {
            let (running, signals) = &mut *parts.lock().await;
            running.until_stopped(signals).await
        };
        task::main_loop(handle).await
    }

    /// Handles signals; returns the reason for the shutdown.
    async fn until_stopped(&mut self, signals: &mut Signals) -> String {
        let controls = Arc::clone(&self.controls);
        let requested = async {
            let reason = controls.stop_requested().await;
            tokio::time::sleep(STOP_DELAY).await;
            reason
        };
        let mut requested = std::pin::pin!(requested);
        loop {
            let action = tokio::select! {
                reason = &mut requested => return reason,
                action = signals.next() => action,
            };
            match action {
                Err(stop) => return stop.name().to_owned(),
                Ok(SignalAction::Reload) => {
                    tracing::info!("reloading on SIGHUP");
                    let settings_apply = self.reload_settings(std::env::args_os().collect());
                    self.controls.reload_with(settings_apply);
                }
                Ok(SignalAction::UserSignal) => self.controls.rotate_log(),
                Ok(SignalAction::Dump) => self.controls.dump_to_log(),
                Ok(SignalAction::ThreadReport) => {
                    self.controls.log.print_error(self.controls.thread_report().as_bytes());
                }
            }
        }
    }

    /// Reloads the command line with `--config-file`. Log levels take effect; other changes require a restart, and are logged.
    /// Returns whether the settings could be read.
    fn reload_settings(&mut self, args: Vec<OsString>) -> bool {
        let reloaded = match (self.parse)(args) {
            Ok(Some(options)) => options,
            Ok(None) => return true,
            Err(shown) => {
                tracing::error!(
                    problem = one_line(&shown.err),
                    "reloading the settings failed; the previous settings stay in effect"
                );
                return false;
            }
        };
        let mut changed = self.options.clone();
        changed.log.output_level.clone_from(&reloaded.log.output_level);
        changed.log.stack_trace_level.clone_from(&reloaded.log.stack_trace_level);
        changed.log.caller.clone_from(&reloaded.log.caller);
        if changed.log != self.options.log {
            match self.controls.log.change(&changed.log) {
                Ok(()) => self.options.log = changed.log,
                Err(error) => tracing::error!("changing the log settings failed: {error}"),
            }
        }
        for ((name, old), (_, new)) in self.options.banner().into_iter().zip(reloaded.banner()) {
            // The default store depends on the program name.
            let defaulted = name == "ConfigStoreURL" && new.is_empty();
            if old != new && !defaulted && name != "LoggingOptions" {
                tracing::warn!(old, new, "a change of {name} takes effect after a restart");
            }
        }
        true
    }
}

/// The lines of an error, what, cause and hint, as one.
fn one_line(error: &str) -> String {
    let lines = error.trim_end().lines().map(str::trim);
    let parts = lines.map(|line| line.trim_start_matches("error: ").trim_start_matches("cause: "));
    parts.collect::<Vec<_>>().join("; ")
}
