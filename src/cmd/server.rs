//! `server`: from flags, environment and configuration file to a running server.

mod config_file;
mod flags;

use std::io::Write as _;

pub(crate) use config_file::{Merged, with_config_file};
pub(crate) use flags::ServerArgs;
pub(crate) use flags::{LogFlags, TracingFlags};

use super::{Exit, Failure, Io, Outcome, Personality, Stop};
use crate::core::build_info::BuildInfo;
use crate::core::server::{Server, ServerOptions, StartError};
use crate::core::store::EMBEDDED_SAMPLE;

/// Starts the server and returns when it has stopped. Spec: cli-operations.md 1.2, section 3.
pub(crate) fn run(args: &ServerArgs, personality: Personality, io: &mut Io) -> Outcome {
    let mut options = args.options();
    if options.config_store_url.is_empty() {
        // The originals read the cluster that they run in; `mixer` serves its sample configuration.
        let default = if personality.is_legacy() { "k8s://" } else { EMBEDDED_SAMPLE };
        options.config_store_url = default.to_owned();
    }
    if args.print_config {
        config_file::print(&args.settings, io)?;
        return Ok(Exit::Success);
    }
    banner(args, &options, io)?;
    let server = Server::start(&options).map_err(|reason| not_started(&reason))?;
    announce(&server, &options, io)?;
    Ok(serve(server))
}

/// What the originals say when everything is up.
fn announce(server: &Server, options: &ServerOptions, io: &mut Io) -> Result<(), Stop> {
    writeln!(io.out, "Istio Mixer: {}", BuildInfo::of_this_program().short())?;
    match (server.bound_address(), options.address.is_empty()) {
        (Some(bound), true) => writeln!(io.out, "Starting gRPC server on port {}", bound.port())?,
        (Some(bound), false) => writeln!(io.out, "Starting gRPC server on tcp://{bound}")?,
        (None, _) => writeln!(io.out, "Starting gRPC server on {}", server.api_address())?,
    }
    io.out.flush()?;
    Ok(())
}

/// Waits for SIGTERM or SIGINT, then stops in order. A second signal ends the process at once.
fn serve(server: Server) -> Exit {
    let first = server.background().block_on(stop_signal());
    tracing::info!("stopping on {}", first.name());
    server.background().spawn(async {
        let second = stop_signal().await;
        std::process::exit(i32::from(second.exit().code()));
    });
    if server.stop() { Exit::Success } else { Exit::Local }
}

/// A request to stop.
#[derive(Clone, Copy)]
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

async fn stop_signal() -> StopSignal {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the signals end the process themselves.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => StopSignal::Interrupt,
        _ = terminate.recv() => StopSignal::Terminate,
    }
}

fn not_started(reason: &StartError) -> Stop {
    let cause = match &reason.detail {
        Some(detail) => format!("{reason}: {detail}"),
        None => reason.to_string(),
    };
    Failure::local("unable to initialize the server")
        .cause(cause)
        .legacy(format!("Unable to initialize Mixer: {reason}"))
        .into()
}

/// The settings on standard output, before anything else.
fn banner(args: &ServerArgs, options: &ServerOptions, io: &mut Io) -> Result<(), Stop> {
    writeln!(io.out, "Mixer started with")?;
    for (name, mut value) in options.banner() {
        if name == "ConfigStoreURL" {
            value = args.config_store_url().to_owned();
        }
        // compat(1.3): groups of settings have one blank after the colon, plain ones two.
        let gap = if name.ends_with("Options") || name.ends_with("CRDs") { " " } else { "  " };
        writeln!(io.out, "{name}:{gap}{value}")?;
    }
    writeln!(io.out)?;
    io.out.flush()?;
    Ok(())
}
