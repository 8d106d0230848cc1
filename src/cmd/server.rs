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
use mixer_base::build_info::BuildInfo;
use mixer_base::log::json_record;
use mixer_config::store::EMBEDDED_SAMPLE;
use mixer_server::{LogLevel, Server, ServerOptions, StartError};

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
    Ok(signals::serve(server, effects, options))
}

/// What the originals say when everything is up; as records where the log is JSON.
fn announce(server: &Server, options: &ServerOptions, io: &mut Io) -> Result<(), Stop> {
    let version = BuildInfo::of_this_program().short();
    // The port alone says where only if it is the one of the flag.
    let asked = options.listen_address().ok();
    let by_port = options.address.is_empty() && asked.as_ref() == Some(server.api_address());
    let place = match (server.bound_address(), by_port) {
        (Some(bound), true) => format!("port {}", bound.port()),
        (Some(bound), false) => format!("tcp://{bound}"),
        (None, _) => server.api_address().to_string(),
    };
    if options.log.as_json {
        io.out.write_all(&json_record(LogLevel::Info, "Istio Mixer", &[("version", &version)]))?;
        io.out.write_all(&json_record(LogLevel::Info, "Starting gRPC server", &[("address", &place)]))?;
    } else {
        writeln!(io.out, "Istio Mixer: {version}")?;
        writeln!(io.out, "Starting gRPC server on {place}")?;
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

/// What to do about a start that failed, by a part of the reason. The reasons are those of the originals.
const CURES: &[(&str, &str)] = &[
    (
        "address already in use",
        "another process listens there: end it (`ss -ltnp` names it), or choose another address or port",
    ),
    ("permission denied", "run the server as a user who may do that, or choose another place"),
    ("missing port in address", "write host:port, for example 127.0.0.1:9091"),
    ("too many colons in address", "write an IPv6 address in brackets, for example [::1]:9091"),
    ("unknown network", "write tcp://HOST:PORT, tcp4://…, tcp6://… or unix:///PATH"),
    ("not a socket", "move that file away, or choose another path: only sockets are removed"),
    (
        "unknown config URL",
        "write fs://DIR, k8s://KUBECONFIG, mcp://HOST:PORT, mcps://HOST:PORT or embedded://sample",
    ),
    (
        "no configuration has been provided",
        "outside a cluster name a file, k8s:///home/me/.kube/config, or a directory, fs://DIR",
    ),
    (
        "exceeded timeout",
        "the store or a handler takes longer than --config-wait-timeout; the log says which",
    ),
    (
        "invalid output level",
        "levels are none, fatal, error, warn, info and debug, written level or scope:level",
    ),
    ("unknown scope", "`mixer server --help` lists the scopes at --log-output-level"),
    (
        "couldn't open sink",
        "make the directory of the file, or name stdout, stderr or another file in --log-target",
    ),
    ("active simultaneously", "name one of --trace-zipkin-url and --trace-jaeger-url"),
    ("unable to set up TLS", "`openssl x509 -in FILE -noout -text` shows what a certificate says"),
];

fn not_started(reason: &StartError) -> Stop {
    let cause = match &reason.detail {
        Some(detail) => format!("{reason}: {detail}"),
        None => reason.to_string(),
    };
    let mut failure = Failure::local("unable to initialize the server");
    failure.hint = CURES.iter().find(|(part, _)| cause.contains(part)).map(|(_, cure)| (*cure).to_owned());
    failure.cause(cause).legacy(format!("Unable to initialize Mixer: {reason}")).into()
}

/// The settings on standard output, before anything else; as a record where the log is JSON.
fn banner(args: &ServerArgs, options: &ServerOptions, io: &mut Io) -> Result<(), Stop> {
    let mut settings = options.banner();
    for (_, value) in settings.iter_mut().filter(|(name, _)| *name == "ConfigStoreURL") {
        value.replace_range(.., args.config_store_url());
    }
    if options.log.as_json {
        let fields: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        io.out.write_all(&json_record(LogLevel::Info, "Mixer started", &fields))?;
    } else {
        writeln!(io.out, "Mixer started with")?;
        for (name, value) in settings {
            // compat(1.3): groups of settings have one blank after the colon, plain ones two.
            let gap = if name.ends_with("Options") || name.ends_with("CRDs") { " " } else { "  " };
            writeln!(io.out, "{name}:{gap}{value}")?;
        }
        writeln!(io.out)?;
    }
    io.out.flush()?;
    Ok(())
}
