//! What a running server does on signals.

use std::ffi::OsString;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::{Command, Exit};
use mixer_server::{Controls, Effects, Server, ServerOptions, SystemEffects};

/// How long the answer to a request for a stop gets to arrive, before the stop begins.
const STOP_DELAY: Duration = Duration::from_secs(1);

/// The effects of the world, and the signals that came since the threads of the server were started.
#[derive(Default)]
pub(super) struct Signalled {
    signals: OnceLock<tokio::sync::Mutex<Signals>>,
    interrupted: OnceLock<StopSignal>,
}

impl Signalled {
    /// The status for a start that was given up because of a signal.
    pub(super) fn interrupted_with(&self) -> Option<Exit> {
        self.interrupted.get().map(|signal| signal.exit())
    }
}

impl Effects for Signalled {
    fn background(&self) -> std::io::Result<tokio::runtime::Runtime> {
        let runtime = SystemEffects.background()?;
        let guard = runtime.enter();
        let signals = Signals::listen()?;
        drop(guard);
        // There is one start.
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

/// Serves until it is asked to stop, then stops in order. A second request ends the process at once. Spec: cli-operations.md 9.6.
pub(super) fn serve(server: Server, effects: Signalled, options: ServerOptions) -> Exit {
    let Some(signals) = effects.signals.into_inner() else { return Exit::Internal };
    let mut signals = signals.into_inner();
    let mut running = Running { options, controls: Arc::clone(server.controls()) };
    let why = server.background().block_on(running.until_stopped(&mut signals));
    tracing::info!("stopping on {why}");
    drop(running);
    server.background().spawn(async move {
        let second = signals.stop().await;
        std::process::exit(i32::from(second.exit().code()));
    });
    let report = server.stop();
    if report.is_complete() { Exit::Success } else { Exit::Local }
}

/// A request to stop.
#[derive(Debug, Clone, Copy)]
enum StopSignal {
    Interrupt,
    Terminate,
}

impl StopSignal {
    fn name(self) -> &'static str {
        match self {
            StopSignal::Interrupt => "SIGINT",
            StopSignal::Terminate => "SIGTERM",
        }
    }

    fn exit(self) -> Exit {
        match self {
            StopSignal::Interrupt => Exit::Interrupted,
            StopSignal::Terminate => Exit::Terminated,
        }
    }
}

/// Every signal that a server listens to.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    reload: Signal,
    user: Signal,
    dump: Signal,
    threads: Signal,
}

/// One that came and does not stop the server.
enum Request {
    Reload,
    User,
    Dump,
    Threads,
}

impl Signals {
    /// Listens from now on. Must run on an event loop.
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            reload: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
            dump: signal(SignalKind::user_defined2())?,
            threads: signal(SignalKind::quit())?,
        })
    }

    async fn stop(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }

    async fn next(&mut self) -> Result<Request, StopSignal> {
        tokio::select! {
            _ = self.interrupt.recv() => Err(StopSignal::Interrupt),
            _ = self.terminate.recv() => Err(StopSignal::Terminate),
            _ = self.reload.recv() => Ok(Request::Reload),
            _ = self.user.recv() => Ok(Request::User),
            _ = self.dump.recv() => Ok(Request::Dump),
            _ = self.threads.recv() => Ok(Request::Threads),
        }
    }
}

/// A server that runs, and the settings that it runs with.
struct Running {
    options: ServerOptions,
    controls: Arc<Controls>,
}

impl Running {
    /// Does what signals ask for; gives the reason to stop.
    async fn until_stopped(&mut self, signals: &mut Signals) -> String {
        let controls = Arc::clone(&self.controls);
        let asked = async {
            let why = controls.stop_requested().await;
            tokio::time::sleep(STOP_DELAY).await;
            why
        };
        let mut asked = std::pin::pin!(asked);
        loop {
            let request = tokio::select! {
                why = &mut asked => return why,
                request = signals.next() => request,
            };
            match request {
                Err(stop) => return stop.name().to_owned(),
                Ok(Request::Reload) => {
                    tracing::info!("reloading on SIGHUP");
                    self.reread_settings(std::env::args_os().collect());
                    self.controls.reload();
                }
                Ok(Request::User) => self.controls.rotate_log(),
                Ok(Request::Dump) => self.controls.dump_to_log(),
                Ok(Request::Threads) => {
                    // Standard error may be closed; there is nobody to tell then.
                    let _ = std::io::stderr().write_all(self.controls.thread_report().as_bytes());
                }
            }
        }
    }

    /// Reads `--config-file` again. The levels of the log take effect; other changes need a new start, and are named.
    fn reread_settings(&mut self, args: Vec<OsString>) {
        let fresh = match super::super::parse(args) {
            Ok(invocation) => match invocation.command {
                Command::Server(args) => args.options(),
                _ => return,
            },
            Err(shown) => {
                let problem = shown.err.trim_end().lines().next().unwrap_or_default().to_owned();
                tracing::error!(problem, "the settings could not be read anew, the old ones stay");
                return;
            }
        };
        let mut wanted = self.options.clone();
        wanted.log.output_level.clone_from(&fresh.log.output_level);
        wanted.log.stack_trace_level.clone_from(&fresh.log.stack_trace_level);
        wanted.log.caller.clone_from(&fresh.log.caller);
        if wanted.log != self.options.log {
            match self.controls.log.change(&wanted.log) {
                Ok(()) => self.options.log = wanted.log,
                Err(error) => tracing::error!("the settings of the log stay: {error}"),
            }
        }
        for ((name, old), (_, new)) in self.options.banner().into_iter().zip(fresh.banner()) {
            // What the default store stands for depends on the name of the program.
            let defaulted = name == "ConfigStoreURL" && new.is_empty();
            if old != new && !defaulted && name != "LoggingOptions" {
                tracing::warn!(old, new, "a change of {name} takes effect with the next start");
            }
        }
    }
}
