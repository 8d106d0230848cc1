//! The tree of commands: one definition for parsing, help, completions and manual pages of all four names.

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::server::Merged;
use super::value::Kind;
use super::{ColorChoice, ErrorFormat, Exit, Io, Outcome, Personality};
use super::{
    check, collateral, completions, crd, diff, doctor, man, probe, report, routes, server, snapshot, test,
    validate, version,
};

/// Policy and telemetry engine for service meshes.
///
/// Answers policy checks and quota questions, takes in telemetry, and shows how it arrives at its answers. One binary holds the
/// server, the client and the tools; called as mixs or mixc it answers like those programs of Istio 1.0 to 1.3.
///
/// Try it: `mixer server` in one terminal, `mixer check -s destination.service=shop` in another.
#[derive(Debug, Parser)]
#[command(
    name = "mixer",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 110
)]
pub struct Program {
    /// Flags of every command.
    #[command(flatten)]
    pub global: GlobalFlags,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command of `mixer`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GlobalFlags {
    /// When to use colours.
    ///
    /// `auto` colours on a terminal only and honours NO_COLOR, CLICOLOR_FORCE and TERM=dumb.
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        global = true,
        value_name = "WHEN",
        help_heading = "Global flags"
    )]
    pub color: ColorChoice,
    /// How failures are written to standard error.
    #[arg(
        long,
        value_enum,
        default_value = "text",
        global = true,
        value_name = "FORMAT",
        help_heading = "Global flags"
    )]
    pub error_format: ErrorFormat,
}

/// A command and its flags.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the server.
    ///
    /// Answers Check and Report over gRPC until SIGTERM or SIGINT, then drains and stops. Every flag can also be set by an
    /// environment variable or by --config-file.
    ///
    /// Example: mixer server --config-store-url fs:///etc/mixer --address tcp://127.0.0.1:9091
    Server(Box<server::ServerArgs>),
    /// Ask a server, or a configuration, whether a request may pass.
    ///
    /// The attributes describe the request; quotas are amounts to hand out. With --config the question is answered in this
    /// process, without a server.
    ///
    /// Example: mixer check -s destination.service=shop,source.user=ann -q requests=1 --explain
    Check(Box<check::CheckArgs>),
    /// Report to a server, or to a configuration, what happened.
    ///
    /// The attributes describe one request that was served.
    ///
    /// Example: mixer report -s destination.service=shop -i response.code=200 -t request.time=2017-07-04T00:01:10Z
    Report(Box<report::ReportArgs>),
    /// Tell whether a server is alive or ready.
    ///
    /// Looks at the age of a file that the server keeps fresh, asks its gRPC health service, or fetches a URL. All that is named
    /// must be available.
    ///
    /// Example: mixer probe --grpc localhost:9091 --service liveness
    Probe(Box<probe::ProbeArgs>),
    /// Find everything that is wrong with a configuration.
    ///
    /// Reads all files at once, starts nothing, and tells file, line and column, a stable code, and what to do about it. Ends with
    /// status 1 if there is an error, 3 if a path cannot be read.
    ///
    /// Example: mixer validate conf/ --lint --strict
    Validate(Box<validate::ValidateArgs>),
    /// Find what would keep a server from starting, or trouble it before long.
    ///
    /// Takes the flags of `mixer server`, and looks at ports, certificates and how long they hold, the configuration, files and the
    /// room on their disks, limits of the process, and collectors. Nothing is started; a file is made and removed where one will be
    /// written. Ends with status 1 if something must be done.
    ///
    /// Example: mixer doctor --config-file /etc/mixer/server.yaml
    Doctor(doctor::DoctorArgs),
    /// Run declared requests against a configuration, without a server.
    ///
    /// Reads files with `kind: PolicyTest`, asks the configuration that they name, and compares answers, quotas, headers, rules,
    /// referenced attributes and reports with what is expected. Nothing is reported to anybody. Ends with status 1 if a test fails,
    /// 2 if tests or configuration cannot be read.
    ///
    /// Example: mixer test policy-tests/ --filter quota --junit results.xml
    Test(Box<test::TestArgs>),
    /// Tell which recorded decisions a change of configuration alters, and why.
    ///
    /// Puts the calls that a server recorded to both configurations and compares the answers. Ends with status 1 if one differs, 2
    /// if something cannot be read.
    ///
    /// Example: mixer diff --from fs:///etc/mixer --to new/ --requests calls.jsonl
    Diff(Box<diff::DiffArgs>),
    /// Show the configuration as the engine understands it.
    ///
    /// Example: mixer snapshot dump --config fs:///etc/mixer --output yaml
    Snapshot(snapshot::SnapshotArgs),
    /// Show which requests reach which handlers.
    ///
    /// Example: mixer routes show --config fs:///etc/mixer --match source.user=ann
    Routes(routes::RoutesArgs),
    /// Print versions of program and build.
    ///
    /// Example: mixer version --output json
    Version(version::VersionArgs),
    /// Print the custom resource definitions of all kinds.
    ///
    /// Example: mixer crd all --api-version v1 | kubectl apply -f -
    Crd(crd::CrdArgs),
    /// Print a completion script for a shell.
    ///
    /// Example: mixer completions bash > /etc/bash_completion.d/mixer
    Completions(completions::CompletionsArgs),
    /// Print or write manual pages.
    ///
    /// Example: mixer man --dir /usr/local/share/man/man1
    Man(man::ManArgs),
    /// Write documentation and completion files into a directory.
    #[command(hide = true)]
    Collateral(collateral::CollateralArgs),
    /// Behave like mixs, mixc or galley of the originals.
    ///
    /// The same as calling this program through a link of that name.
    ///
    /// Example: mixer legacy mixc check -s source.user=ann
    Legacy(LegacyArgs),
}

/// `mixer legacy`; only reached when the program after it is no legacy name.
#[derive(Debug, Clone, clap::Args)]
pub struct LegacyArgs {
    /// Program and arguments, for example `mixs version -s`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

impl Command {
    /// Runs the command.
    pub(super) fn run(self, personality: Personality, io: &mut Io) -> Outcome {
        match self {
            Command::Server(args) => server::run(&args, personality, io),
            Command::Check(args) => check::run(&args, personality, io),
            Command::Report(args) => report::run(&args, personality, io),
            Command::Probe(args) => probe::run(&args, personality, io),
            Command::Validate(args) => validate::run(&args, io),
            Command::Doctor(args) => doctor::run(&args, io),
            Command::Test(args) => test::run(&args, io),
            Command::Diff(args) => diff::run(&args, io),
            Command::Snapshot(args) => snapshot::run(&args, io),
            Command::Routes(args) => routes::run(&args, io),
            Command::Version(args) => version::run(&args, personality, io),
            Command::Crd(args) => crd::run(&args, io),
            Command::Completions(args) => completions::run(&args, io),
            Command::Man(args) => man::run(&args, io),
            Command::Collateral(args) => collateral::run(&args, personality),
            Command::Legacy(args) => {
                let program = args.program.first().cloned().unwrap_or_default();
                Err(super::Failure::usage(format!("unknown legacy program `{program}`"))
                    .hint("one of mixs, mixc, galley")
                    .into())
            }
        }
    }
}

/// The tree of `mixer`, bound to the environment of this process where `environment` says so.
pub(crate) fn native(environment: bool) -> clap::Command {
    let mut root = Program::command().after_help(Exit::help());
    root = root.mut_subcommands(|c| finish(c, environment));
    root
}

/// The commands of a legacy name and the first lines of its help.
fn legacy_parts(personality: Personality) -> (&'static [&'static str], &'static str) {
    match personality {
        Personality::Mixer => (&[], ""),
        Personality::Mixs => (
            &["server", "probe", "version", "crd", "collateral"],
            "Mixer is Istio's point of integration with infrastructure backends and is the\n\
             place where policy is decided and telemetry is taken in.",
        ),
        Personality::Mixc => (
            &["check", "report", "version", "collateral"],
            "This command lets you interact with a running instance of\n\
             Mixer: ask it for a decision, or hand it a report.",
        ),
        Personality::Galley => (
            &["probe", "version", "collateral"],
            "Galley takes in configuration, checks it and hands it to those who\n\
             work by it.",
        ),
    }
}

/// The tree of a legacy name: some of the commands of `mixer`, nothing from the environment.
pub(crate) fn legacy(personality: Personality) -> clap::Command {
    let (names, about) = legacy_parts(personality);
    let mut root = clap::Command::new(personality.name()).about(about).long_about(about);
    for command in Program::command().get_subcommands().filter(|c| names.contains(&c.get_name())) {
        root = root.subcommand(finish(command.clone(), false));
    }
    root
}

/// The tree of any name as completions and manual pages show it: the legacy names with the old spellings.
pub(crate) fn for_documents(personality: Personality) -> clap::Command {
    if personality.is_legacy() { legacy(personality).mut_subcommands(old_spelling) } else { native(false) }
}

fn old_spelling(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| match arg.get_all_aliases().and_then(|a| a.first().map(|a| (*a).to_owned())) {
            Some(old) => arg.long(old),
            None => arg,
        })
        .mut_subcommands(old_spelling)
}

/// Applies the rules that hold for every flag: the last use wins, any text may be a value.
fn finish(command: clap::Command, environment: bool) -> clap::Command {
    let bind = environment && command.get_name() == "server";
    let command = command.args_override_self(true).mut_args(|arg| {
        let arg = if bind { bound(arg) } else { arg };
        if arg.is_positional() || Kind::of(&arg).is_bool() { arg } else { arg.allow_hyphen_values(true) }
    });
    command.mut_subcommands(|c| finish(c, environment))
}

/// The environment variable of a server flag, for example `MIXER_CONFIG_STORE_URL`.
pub(crate) fn variable(long: &str) -> String {
    format!("MIXER_{}", long.replace('-', "_").to_uppercase())
}

fn bound(arg: clap::Arg) -> clap::Arg {
    let Some(long) = arg.get_long().filter(|l| !matches!(*l, "config-file" | "print-config")) else {
        return arg;
    };
    let name = variable(long);
    // Kubernetes sets MIXER_PORT=tcp://… for a service that is called `mixer`; that is no port of ours.
    if std::env::var(&name).is_ok_and(|v| v.starts_with("tcp://")) && long == "port" {
        return arg;
    }
    arg.env(name).hide_env_values(true)
}

/// Parses the arguments of `mixer`.
pub(crate) fn parse(merged: &Merged) -> Result<Program, clap::Error> {
    let root = native(true);
    let matches = root.clone().try_get_matches_from(&merged.args)?;
    let mut program = Program::from_arg_matches(&matches)?;
    if let Command::Server(args) = &mut program.command {
        args.note_origins(&root, &matches, merged);
    }
    Ok(program)
}

/// Parses the rewritten arguments of a legacy name.
pub(crate) fn parse_legacy(root: clap::Command, merged: &Merged) -> Result<Command, clap::Error> {
    let matches = root.clone().try_get_matches_from(&merged.args)?;
    let mut command = Command::from_arg_matches(&matches)?;
    if let Command::Server(args) = &mut command {
        args.note_origins(&root, &matches, merged);
    }
    Ok(command)
}
