//! The command tree: one definition for parsing, help, completions and man pages of all four program names.

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::exit::Exit;
use super::flag_type::FlagType;
use super::flags::AttributeFlags;
use super::io::{ColorChoice, ErrorFormat};
use super::personality::Personality;
use super::server::{self, MergedArgs};
use super::verbosity::Verbosity;
use super::{
    adapter, check, collateral, completions, crd, diff, doctor, eval, explain_code, fmt, galley, init, man,
    probe, proxy, report, routes, snapshot, test, validate, value, version,
};
use mixer_config::store::EMBEDDED_SAMPLE;

/// Policy and telemetry engine for service meshes.
///
/// Serves policy checks and quota allocations, collects telemetry, and explains its decisions. One binary contains the server, the
/// client and the tools; called as mixs or mixc it behaves like those programs of Istio 1.0 to 1.3.
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
pub(crate) struct CommandLine {
    /// Flags of every command.
    #[command(flatten)]
    pub(crate) global: GlobalFlags,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command of `mixer`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GlobalFlags {
    /// When to color output.
    ///
    /// `auto` colors on a terminal only and honors NO_COLOR, CLICOLOR_FORCE and TERM=dumb.
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        global = true,
        value_name = "WHEN",
        help_heading = "Global flags"
    )]
    pub(crate) color: ColorChoice,
    /// Format of error messages on standard error.
    #[arg(
        long,
        value_enum,
        default_value = "text",
        global = true,
        value_name = "FORMAT",
        help_heading = "Global flags"
    )]
    pub(crate) error_format: ErrorFormat,
    /// Log at level debug: servers in their log, other commands on standard error.
    #[arg(short = 'v', long, global = true, help_heading = "Global flags")]
    pub(crate) verbose: bool,
    /// Print errors only, no results, warnings and progress: the exit status tells the result.
    ///
    /// With --output, results are printed all the same. Servers log warnings and errors.
    #[arg(long, global = true, help_heading = "Global flags")]
    pub(crate) quiet: bool,
    /// Whether --output is given.
    #[arg(skip)]
    pub(crate) has_output: bool,
}

impl GlobalFlags {
    /// How much the command says; of both flags, --verbose counts.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.verbose, self.quiet) {
            (true, _) => Verbosity::Verbose,
            (false, true) => Verbosity::Quiet,
            (false, false) => Verbosity::Normal,
        }
    }
}

/// A command and its flags.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a commented policy to begin with.
    ///
    /// Rules, a limit, metrics, tests, and for Envoy its bootstrap. Nothing that exists is overwritten.
    ///
    /// Example: mixer init shop --for envoy
    Init(init::InitArgs),
    /// Bring configuration files into their layout.
    ///
    /// Order of the keys of resources, two blanks of indentation, no blanks at the ends of lines. Comments stay with the key or item below
    /// them. Files that would mean something else afterwards, or lose a comment, are refused and left as they are.
    ///
    /// Files are replaced one by one, with their owner, permissions and extended attributes. Refused, while the others are formatted, are
    /// those that are read-only, have several names (hard links), belong to somebody else, or were changed meanwhile.
    ///
    /// Exit status: 0; 1 if --check finds a file to format; 2 if a file cannot be formatted; 3 if one cannot be read or written.
    ///
    /// Example: mixer fmt --check policy
    Fmt(fmt::FmtArgs),
    /// Start the server.
    ///
    /// Serves Check and Report over gRPC until SIGTERM or SIGINT, then drains and stops. Every flag can also be set by an
    /// environment variable or in --config-file.
    ///
    /// Example: mixer server --config-store-url fs:///etc/mixer --address tcp://127.0.0.1:9091
    Server(Box<server::ServerArgs>),
    /// Check a request against a server or a configuration.
    ///
    /// The attributes describe the request; quotas are amounts to allocate. With --config the check runs in this process, without a
    /// server.
    ///
    /// Example: mixer check -s destination.service=shop,source.user=ann -q request-count=1 --explain
    Check(Box<check::CheckArgs>),
    /// Report a request to a server or a configuration.
    ///
    /// The attributes describe a request that was served. With --repeat, a summary says how many records were sent, and of how many the server
    /// says that it took them; of a report that fails, handlers may have taken some.
    ///
    /// Example: mixer report -s destination.service=shop -i response.code=200 -t request.time=2017-07-04T00:01:10Z
    Report(Box<report::ReportArgs>),
    /// Check whether a server is alive or ready.
    ///
    /// Checks the age of a probe file, calls the gRPC health service, or fetches a URL. Every target must be available.
    ///
    /// Example: mixer probe --grpc localhost:9091 --service liveness
    Probe(Box<probe::ProbeArgs>),
    /// Validate a configuration.
    ///
    /// Reports every problem with file, line and column, a stable code and a hint. `mixer explain-code CODE` says what a code means. Resources that only the configuration plane uses, such
    /// as VirtualServices, are checked as by its admission webhook. Starts nothing. Exits with status 1 if there is an error, 3 if a path
    /// cannot be read.
    ///
    /// Example: mixer validate conf/ --lint --strict
    Validate(Box<validate::ValidateArgs>),
    /// Evaluate an expression over given attributes.
    ///
    /// Without a server and, if the attributes are given, without a configuration. A table shows the value of every part. Exits with status
    /// 1 if the value is `false` or the expression cannot be evaluated, 2 if it is not valid.
    ///
    /// Example: mixer eval 'request.path.startsWith("/admin")' -s request.path=/admin/users
    Eval(Box<eval::EvalArgs>),
    /// Say what a code of a diagnostic means, and what to do.
    ///
    /// Without a code, lists all of them. Exits with status 2 for one that does not exist.
    ///
    /// Example: mixer explain-code handler-unknown
    ExplainCode(explain_code::ExplainCodeArgs),
    /// Find problems that would prevent a server from starting or running.
    ///
    /// Takes the flags of `mixer server` and checks ports, certificates and their expiry, the configuration, output files and free disk
    /// space, process limits, and trace collectors. Starts nothing; creates and removes a temporary file in every output directory.
    /// Exits with status 1 if a check fails.
    ///
    /// Example: mixer doctor --config-file /etc/mixer/server.yaml
    Doctor(doctor::DoctorArgs),
    /// Run policy tests against a configuration, without a server.
    ///
    /// Reads files with `kind: PolicyTest`, evaluates their requests against the configuration they name, and compares statuses, quotas,
    /// headers, rules, referenced attributes and reports with the expectations. No backend is contacted. Exits with status 1 if a test
    /// fails, 2 if tests or configuration cannot be read, or the configuration has errors or nothing.
    ///
    /// Example: mixer test policy-tests/ --filter quota --junit results.xml
    Test(Box<test::TestArgs>),
    /// Show which recorded decisions a configuration change alters, and why.
    ///
    /// Replays calls that a server recorded against both configurations and compares the results, and the settings for Envoy. Exits with
    /// status 1 if a result or a setting differs, 2 if an input cannot be read or a server does not serve one of the configurations.
    ///
    /// Example: mixer diff --from fs:///etc/mixer --to new/ --requests calls.jsonl
    Diff(Box<diff::DiffArgs>),
    /// Show the compiled configuration.
    ///
    /// Example: mixer snapshot dump --config fs:///etc/mixer --output yaml
    Snapshot(snapshot::SnapshotArgs),
    /// Show which requests reach which handlers.
    ///
    /// Example: mixer routes show --config fs:///etc/mixer --match source.user=ann
    Routes(routes::RoutesArgs),
    /// Run and inspect the configuration plane.
    ///
    /// `galley server` reads resources from files or a Kubernetes cluster and distributes them to sinks, such as `mixer server`, over
    /// MCP. The other commands ask a running one at its ControlZ endpoint.
    ///
    /// Example: mixer galley server --config-path config/ --insecure
    Galley(galley::GalleyArgs),
    /// Forward traffic as an Envoy bootstrap says.
    ///
    /// Listeners with the TCP proxy or the HTTP connection manager, routes, clusters, statistics and the admin interface of Envoy. Fields that
    /// this version does not support are errors with their position, never ignored. See docs/proxy.md for what is supported.
    ///
    /// Example: mixer proxy -c bootstrap.yaml --concurrency 2
    Proxy(Box<proxy::ProxyArgs>),
    /// Start an adapter of your own, out of process.
    ///
    /// Example: mixer adapter new gate
    Adapter(adapter::AdapterArgs),
    /// Print program version and build information.
    ///
    /// Example: mixer version --output json
    Version(version::VersionArgs),
    /// Print the Kubernetes custom resource definitions.
    ///
    /// Example: mixer crd all --api-version v1 | kubectl apply -f -
    Crd(crd::CrdArgs),
    /// Print a completion script for a shell.
    ///
    /// Example: mixer completions bash > /etc/bash_completion.d/mixer
    Completions(completions::CompletionsArgs),
    /// Print or write man pages.
    ///
    /// Example: mixer man --dir /usr/local/share/man/man1
    Man(man::ManArgs),
    /// Write documentation and completion files into a directory.
    #[command(hide = true)]
    Collateral(collateral::CollateralArgs),
    /// Behave like mixs, mixc or galley of Istio.
    ///
    /// The same as calling this program through a link of that name.
    ///
    /// Example: mixer legacy mixc check -s source.user=ann
    Legacy(LegacyArgs),
}

impl Command {
    /// Whether the command is a server, which has a log of its own.
    pub(crate) fn has_a_log(&self) -> bool {
        match self {
            Command::Server(_) | Command::Proxy(_) => true,
            Command::Galley(args) => args.is_server(),
            _ => false,
        }
    }
}

/// Arguments of `mixer legacy`; the parser handles known program names before clap.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LegacyArgs {
    /// Program and arguments, for example `mixs version -s`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

impl LegacyArgs {
    /// The program name that was given.
    pub(crate) fn program(&self) -> &str {
        self.program.first().map_or("", String::as_str)
    }
}

/// The command tree of `mixer`. With `environment`, the flags of `server`, and the token of ControlZ everywhere, read environment variables.
pub(crate) fn native(environment: bool) -> clap::Command {
    let mut root = CommandLine::command().after_help(Exit::help());
    root = root.mut_subcommands(|c| finish(with_common_names(c), environment));
    root.mut_subcommand("galley", |galley| galley.mut_subcommand("server", outside_a_pod))
}

/// Called as galley, the process runs in its image: with probe files, certificates and a mesh configuration of that. Here, a directory
/// is enough.
fn outside_a_pod(server: clap::Command) -> clap::Command {
    server.mut_args(|arg| match arg.get_id().as_str() {
        "liveness_probe_path" | "readiness_probe_path" | "mesh_config_file" | "access_list_file" => {
            arg.default_value("").hide_default_value(true)
        }
        "config" => arg.visible_alias("config-file").help(
            "Resources: a directory, a file, fs://DIR or k8s://[KUBECONFIG]. Or settings: a file, YAML, JSON or TOML, whose precedence is \
             flag, file, default",
        ),
        "enable_validation" | "enable_reconcile_webhook_configuration" => arg.default_value("false"),
        _ => arg,
    })
}

/// Flags as all commands have them.
///
/// Called as mixs, no store is the cluster that it runs in; here it is the embedded sample, and an empty URL is refused. The port of an
/// address may be left out.
fn with_common_names(command: clap::Command) -> clap::Command {
    let calls_the_api = matches!(command.get_name(), "check" | "report" | "probe");
    command.mut_args(|arg| match arg.get_id().as_str() {
        server::STORE_URL => {
            arg.visible_alias("config").default_value(EMBEDDED_SAMPLE).value_parser(value::store_url)
        }
        server::DEFAULT_NAMESPACE => arg.visible_alias("default-namespace"),
        // Of Istio's client the last list counts.
        list if is_list(list) => arg.action(clap::ArgAction::Append),
        // Istio's client takes no URLs.
        "server" if calls_the_api => {
            let told = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
            let urls = "A URL without a path is taken, too: http://HOST:PORT is plain text, https://HOST:PORT is TLS, as with --tls.";
            arg.value_parser(value::api_address).long_help(format!("{told}\n\n{urls}"))
        }
        _ => arg,
    })
}

/// Whether a flag takes a list of attributes or quotas, and may be repeated.
fn is_list(id: &str) -> bool {
    AttributeFlags::LISTS.contains(&id) || id == check::QUOTAS
}

/// The flag of every command that asks ControlZ, and of the servers that have it; an environment variable sets it for all of them.
const CTRLZ_TOKEN_FILE: &str = "ctrlz_token_file";

/// The commands of a legacy program and the head of its help page.
fn legacy_parts(personality: Personality) -> (&'static [&'static str], &'static str) {
    match personality {
        Personality::Mixer => (&[], ""),
        Personality::Mixs => (
            &["server", "probe", "version", "crd", "collateral"],
            "Mixer is Istio's point of integration with infrastructure backends and is the\n\
             place where policy is evaluated and telemetry is collected.",
        ),
        Personality::Mixc => (
            &["check", "report", "version", "collateral"],
            "This command lets you interact with a running instance of\n\
             Mixer: check a request, or report one.",
        ),
        Personality::Galley => {
            (&["probe", "version", "collateral"], "Galley ingests, validates and distributes configuration.")
        }
    }
}

/// The command tree of a legacy program: a subset of `mixer`, without environment variables.
pub(crate) fn legacy(personality: Personality) -> clap::Command {
    let (names, about) = legacy_parts(personality);
    let mut root = clap::Command::new(personality.name()).about(about).long_about(about);
    let all = CommandLine::command();
    for command in all.get_subcommands().filter(|c| names.contains(&c.get_name())) {
        root = root.subcommand(finish(command.clone(), false));
    }
    if personality == Personality::Galley
        && let Some(galley) = all.find_subcommand("galley")
    {
        for command in galley.get_subcommands().filter(|c| galley::OF_ISTIO.contains(&c.get_name())) {
            root = root.subcommand(finish(command.clone(), false));
        }
    }
    root
}

/// The command tree of a program for completions and man pages: legacy programs have the legacy flag names.
pub(crate) fn for_documents(personality: Personality) -> clap::Command {
    if personality.is_legacy() {
        legacy(personality).mut_subcommands(with_legacy_names)
    } else {
        native(false)
    }
}

fn with_legacy_names(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| match arg.get_all_aliases().and_then(|a| a.first().map(|a| (*a).to_owned())) {
            Some(alias) => arg.long(alias),
            None => arg,
        })
        .mut_subcommands(with_legacy_names)
}

/// Applies the rules of every flag: the last use wins, values may start with a hyphen.
fn finish(command: clap::Command, environment: bool) -> clap::Command {
    let bind = environment && command.get_name() == "server";
    let command = command.args_override_self(true).mut_args(|arg| {
        let bind = bind || (environment && arg.get_id() == CTRLZ_TOKEN_FILE);
        let arg = if bind { bind_environment(arg) } else { arg };
        if arg.is_positional() || FlagType::of(&arg).is_bool() { arg } else { arg.allow_hyphen_values(true) }
    });
    command.mut_subcommands(|c| finish(c, environment))
}

fn bind_environment(arg: clap::Arg) -> clap::Arg {
    let Some(long) = arg.get_long().filter(|l| !matches!(*l, "config-file" | "print-config")) else {
        return arg;
    };
    let name = server::variable(long);
    // Kubernetes sets MIXER_PORT=tcp://… for a service named `mixer`, which is not a port number.
    if std::env::var(&name).is_ok_and(|v| v.starts_with("tcp://")) && long == "port" {
        return arg;
    }
    arg.env(name).hide_env_values(true)
}

/// Parses the arguments of `mixer`.
pub(crate) fn parse(merged: &MergedArgs) -> Result<CommandLine, clap::Error> {
    let root = native(true);
    let matches = root.clone().try_get_matches_from(&merged.args)?;
    server::refuse_blank(&root, &matches)?;
    let mut parsed = CommandLine::from_arg_matches(&matches)?;
    parsed.global.has_output = is_given(&matches, "output");
    let verbosity = parsed.global.verbosity();
    match &mut parsed.command {
        Command::Server(args) => {
            args.apply(verbosity);
            args.note_origins(&root, &matches, merged);
            args.note_omissions(&root, &matches);
        }
        Command::Galley(args) => args.apply(verbosity),
        Command::Proxy(args) => args.apply(verbosity),
        _ => {}
    }
    Ok(parsed)
}

/// Whether the innermost command has an argument on the command line.
fn is_given(matches: &clap::ArgMatches, id: &str) -> bool {
    if let Some((_, inner)) = matches.subcommand() {
        return is_given(inner, id);
    }
    matches.try_contains_id(id).is_ok()
        && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
}

/// Parses the rewritten arguments of a legacy program.
pub(crate) fn parse_legacy(root: clap::Command, merged: &MergedArgs) -> Result<Command, clap::Error> {
    let matches = root.clone().try_get_matches_from(&merged.args)?;
    let is_of_galley = matches.subcommand_name().is_some_and(|name| galley::OF_ISTIO.contains(&name));
    if root.get_name() == Personality::Galley.name() && is_of_galley {
        return galley::GalleyCommand::from_arg_matches(&matches)
            .map(|command| Command::Galley(galley::GalleyArgs { command }));
    }
    let mut command = Command::from_arg_matches(&matches)?;
    if let Command::Server(args) = &mut command {
        args.note_origins(&root, &matches, merged);
    }
    Ok(command)
}
