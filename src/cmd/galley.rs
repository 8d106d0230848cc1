//! `galley`: the configuration plane, and what operators ask it.

mod config_file;
mod document;
mod effects;
mod flags;
mod server;
mod show;
mod snapshot;
mod wait;
mod watch;

use std::ffi::OsString;

use clap::Subcommand;

use super::exit::{Failure, Outcome};
use super::io::Io;
use super::personality::Personality;
use super::verbosity::Verbosity;

pub(crate) use document::is_galley;
pub(crate) use wait::wait_for_latest;

/// Flags of `galley`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GalleyArgs {
    #[command(subcommand)]
    pub(crate) command: GalleyCommand,
}

impl GalleyArgs {
    /// Whether the command is the server.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.command, GalleyCommand::Server(_) | GalleyCommand::Validator(_))
    }

    /// Applies --verbose and --quiet to the log of the server.
    pub(crate) fn apply(&mut self, verbosity: Verbosity) {
        if let GalleyCommand::Server(args) = &mut self.command {
            args.apply(verbosity);
        }
    }
}

/// A command of the configuration plane.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum GalleyCommand {
    /// Starts Galley as a server
    ///
    /// Reads resources from files or a cluster, distributes them to sinks over MCP, and tells API servers which resources are valid.
    ///
    /// Example: mixer galley server --config-path config/ --insecure
    Server(Box<server::GalleyServerArgs>),
    /// Runs the admission webhook alone, as of Galley 1.0
    #[command(hide = true)]
    Validator(Box<server::ValidatorArgs>),
    /// Wait until sinks have acknowledged a change.
    ///
    /// TARGET is `latest` (everything that is published by now), the number of a publication, COLLECTION@VERSION, or
    /// KIND/NAMESPACE/NAME with an optional @VERSION. Exits with status 1 if a sink refused it, 5 if the time is up; both say who and
    /// why.
    ///
    /// Example: mixer galley wait rule/istio-system/close --sinks 2 --timeout 10s
    Wait(wait::WaitArgs),
    /// Show the sinks: what each has of every collection, and what it refused.
    ///
    /// Example: mixer galley sinks --output json
    Sinks(show::ShowArgs),
    /// Show sources, groups, sinks and the webhook at a glance.
    ///
    /// Example: mixer galley status --server localhost:9876
    Status(show::ShowArgs),
    /// Show or compare what is published.
    ///
    /// Example: mixer galley snapshot dump --output yaml
    Snapshot(snapshot::SnapshotArgs),
    /// Print events of sources as they happen.
    ///
    /// Example: mixer galley watch
    Watch(watch::WatchArgs),
}

/// Commands of operators, which the program name `galley` has as well.
const OF_OPERATORS: [&str; 5] = ["wait", "sinks", "status", "snapshot", "watch"];

/// Commands whose flags are those of Galley.
pub(crate) const OF_ISTIO: [&str; 2] = ["server", "validator"];

/// Whether the arguments of the program `galley` name a command that Istio's does not have.
pub(crate) fn is_for_operators(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|name| OF_OPERATORS.iter().any(|known| name == known))
}

/// Adds the settings of the configuration file; `root` is the command tree.
///
/// Errors: the file cannot be read, or, but for a program called `galley`, has a key without a meaning.
pub(crate) fn with_config_file(args: Vec<OsString>, root: &clap::Command) -> Result<Vec<OsString>, Failure> {
    // Flags of every command may stand before it.
    let command = args.iter().skip(1).find(|arg| root.find_subcommand(arg).is_some());
    let is_native = command.is_some_and(|name| name == "galley");
    let parent = match is_native {
        true => root.find_subcommand("galley"),
        false if root.get_name() == "galley" => Some(root),
        false => None,
    };
    match parent.and_then(|parent| parent.find_subcommand("server")) {
        Some(server) => config_file::with_file(args, server, is_native),
        None => Ok(args),
    }
}

/// Runs a command.
pub(crate) fn run(args: &GalleyArgs, personality: Personality, io: &mut Io) -> Outcome {
    match &args.command {
        GalleyCommand::Server(args) => server::run(args, personality, io),
        GalleyCommand::Validator(args) => server::run_with(&args.options(), personality, io),
        GalleyCommand::Wait(args) => wait::run(args, io),
        GalleyCommand::Sinks(args) => show::sinks(args, io),
        GalleyCommand::Status(args) => show::status(args, io),
        GalleyCommand::Snapshot(args) => snapshot::run(args, io),
        GalleyCommand::Watch(args) => watch::run(args, io),
    }
}
