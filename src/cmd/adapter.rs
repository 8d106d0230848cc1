//! `adapter`: adapters out of process of one's own.

mod code;
mod names;
mod new;
mod policy;
mod resources;
mod template;

use std::path::PathBuf;

use super::exit::Outcome;
use super::io::Io;
use template::TemplateChoice;

/// Flags of `adapter`.
#[derive(Debug, Clone, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct AdapterArgs {
    #[command(subcommand)]
    action: AdapterCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum AdapterCommand {
    /// Write a new adapter in Rust: a crate with a gRPC server, and its resources.
    ///
    /// The crate builds and runs as it is. Its README has the commands. No file is overwritten.
    ///
    /// Example: mixer adapter new gate --template listentry,quota,owner:attribute-generator
    New(NewArgs),
    /// Print the resources of an adapter: its templates and the adapter itself.
    ///
    /// Compiles the protos of an adapter in any language; protoc is not needed.
    ///
    /// Example: mixer adapter resources gate -I proto --template istio/template/listentry.proto --params gate.proto
    Resources(ResourcesArgs),
}

/// Flags of `adapter new`.
#[derive(Debug, Clone, clap::Args)]
struct NewArgs {
    /// Name of the adapter and of its crate: lower-case letters, digits and hyphens.
    #[arg(value_name = "NAME", value_parser = names::adapter)]
    name: String,
    /// Templates that it takes, separated by commas: built-in ones, or NAME:VARIETY for one of its own.
    ///
    /// Built in: apikey, authorization, checknothing, edge, kubernetes, listentry, logentry, metric, quota, reportnothing, tracespan.
    /// Varieties: check, check-with-output, quota, report, attribute-generator.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "listentry,quota,logentry",
        value_parser = TemplateChoice::parse,
        value_name = "TEMPLATES"
    )]
    template: Vec<TemplateChoice>,
    /// Directory to write to; default: one with the name of the adapter.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Namespace of its resources.
    #[arg(long, default_value = "istio-system", value_parser = names::namespace, value_name = "NAMESPACE")]
    namespace: String,
}

/// Flags of `adapter resources`.
#[derive(Debug, Clone, clap::Args)]
struct ResourcesArgs {
    /// Name of the adapter.
    #[arg(value_name = "NAME", value_parser = names::adapter)]
    name: String,
    /// Directory that imports are relative to; may be repeated.
    #[arg(short = 'I', long, default_value = "proto", action = clap::ArgAction::Append, value_name = "DIR")]
    proto_dir: Vec<PathBuf>,
    /// Proto of a template that it takes, relative to a directory of --proto-dir; may be repeated.
    #[arg(long, required = true, action = clap::ArgAction::Append, value_name = "FILE")]
    template: Vec<String>,
    /// Proto with the message `Params`, relative to a directory of --proto-dir; default: it has no parameters.
    #[arg(long, value_name = "FILE")]
    params: Option<String>,
    /// It takes its parameters once, in a session.
    #[arg(long)]
    session_based: bool,
    /// Namespace of the resources.
    #[arg(long, default_value = "istio-system", value_parser = names::namespace, value_name = "NAMESPACE")]
    namespace: String,
}

/// Writes an adapter, or prints the resources of one.
pub(crate) fn run(args: &AdapterArgs, io: &mut Io) -> Outcome {
    match &args.action {
        AdapterCommand::New(args) => new::run(args, io),
        AdapterCommand::Resources(args) => resources::run(args, io),
    }
}
