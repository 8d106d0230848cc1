//! `server`: from flags, environment and configuration file to a running server.

mod config_file;
mod decision_flags;
mod flags;
mod introspection_flags;
mod signals;

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
    // compat(1.3): mixs has no such paths; pinned by the cases in cli/monitoring.yaml.
    options.health_endpoints = !personality.is_legacy();
    if args.print_config {
        config_file::print(&args.settings, io)?;
        return Ok(Exit::Success);
    }
    if args.dry_run {
        return rehearse(&options, io);
    }
    banner(args, &options, io)?;
    let effects = signals::Signalled::default();
    let server = match Server::start_with(&options, &effects) {
        Ok(server) => server,
        Err(reason) => return effects.interrupted_with().map_or_else(|| Err(not_started(&reason)), Ok),
    };
    announce(&server, &options, io)?;
    crate::core::resident::release_start_code();
    Ok(signals::serve(server, effects, options))
}

/// What the originals say when everything is up.
fn announce(server: &Server, options: &ServerOptions, io: &mut Io) -> Result<(), Stop> {
    writeln!(io.out, "Istio Mixer: {}", BuildInfo::of_this_program().short())?;
    // The port alone says where only if it is the one of the flag.
    let by_port =
        options.address.is_empty() && options.listen_address().ok().as_ref() == Some(server.api_address());
    match (server.bound_address(), by_port) {
        (Some(bound), true) => writeln!(io.out, "Starting gRPC server on port {}", bound.port())?,
        (Some(bound), false) => writeln!(io.out, "Starting gRPC server on tcp://{bound}")?,
        (None, _) => writeln!(io.out, "Starting gRPC server on {}", server.api_address())?,
    }
    io.out.flush()?;
    Ok(())
}

/// What `--dry-run` found. Errors in the configuration make the status a failure, although a server would serve the rest.
fn rehearse(options: &ServerOptions, io: &mut Io) -> Outcome {
    let report = Server::rehearse(options).map_err(|reason| not_started(&reason))?;
    let [rules, handlers, instances] = report.configured;
    let [errors, warnings] = report.problems;
    writeln!(io.out, "would serve:")?;
    writeln!(io.out, "  api            {}", report.api_address)?;
    writeln!(io.out, "  monitoring     port {}", options.monitoring_port)?;
    match options.introspection.port {
        0 => writeln!(io.out, "  ControlZ       off")?,
        port => writeln!(io.out, "  ControlZ       {}:{port}", options.introspection.address)?,
    }
    writeln!(io.out, "  workers        {}", report.workers)?;
    writeln!(io.out, "  configuration  {}", options.config_store_url)?;
    writeln!(io.out, "                 {rules} rules, {handlers} handlers, {instances} instances")?;
    writeln!(io.out, "                 {errors} errors, {warnings} warnings")?;
    if errors > 0 {
        let failure = Failure::local(format!("the configuration has {errors} errors"));
        return Err(failure.hint("see the log above, or `mixer validate`").into());
    }
    Ok(Exit::Success)
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
