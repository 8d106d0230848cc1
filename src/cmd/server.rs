//! `server`: from flags, environment and configuration file to a running server.

mod config_file;
mod flags;

use std::io::Write as _;

pub(crate) use config_file::{Merged, with_config_file};
pub(crate) use flags::ServerArgs;
pub(crate) use flags::{LogFlags, TracingFlags};

use super::{Exit, Failure, Io, Outcome, Personality, Stop};
use crate::core::server::{OptionsError, ServerOptions};

/// Starts the server and returns when it has stopped. Spec: cli-operations.md 1.2, section 3.
pub(crate) fn run(args: &ServerArgs, personality: Personality, io: &mut Io) -> Outcome {
    let mut options = args.options();
    if options.config_store_url.is_empty() {
        // The originals read the cluster that they run in; `mixer` serves its sample configuration.
        let default = if personality.is_legacy() { "k8s://" } else { "embedded://" };
        options.config_store_url = default.to_owned();
    }
    if args.print_config {
        config_file::print(&args.settings, io)?;
        return Ok(Exit::Success);
    }
    banner(args, &options, io)?;
    check(&options).map_err(|reason| not_started(&reason))?;
    Ok(Exit::Success)
}

/// Settings that can be refused before anything is opened.
fn check(options: &ServerOptions) -> Result<(), OptionsError> {
    options.check()?;
    options.log.check()
}

fn not_started(reason: &OptionsError) -> Stop {
    Failure::local("unable to initialize the server")
        .cause(reason)
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
