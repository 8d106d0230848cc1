//! `server`: starts the server from flags, environment and configuration file.

mod addresses;
mod args;
mod blank;
mod config_file;
mod environment;
mod flags;
mod signals;

use std::io::Write as _;
use std::time::Duration;

pub(crate) use addresses::without_secrets;
pub(crate) use args::{DEFAULT_NAMESPACE, ParseOptions, STORE_URL, ServerArgs};
pub(crate) use blank::refuse_blank;
pub(crate) use config_file::{MergedArgs, with_config_file};
pub(crate) use environment::{unknown_language, variable};
pub(crate) use signals::StopSignal;

use super::exit::{Exit, Failure, Outcome, Stop};
use super::io::Io;
use super::output::counted;
use super::personality::Personality;
use super::verbosity::Verbosity;
use mixer_base::build_info::BuildInfo;
use mixer_base::log::json_record;
use mixer_base::quote::quoted;
use mixer_base::secrets::mask_address;
use mixer_base::task::{Group, log_panics};
use mixer_config::store::StoreError;
use mixer_engine::runtime::OnConfigError;
use mixer_server::{LogLevel, Server, ServerOptions, StartError};

/// The delay after which the code of the startup is no longer needed.
const STARTUP_CODE_RELEASE_DELAY: Duration = Duration::from_secs(1);

/// Starts the server and returns when it has stopped.
pub(crate) fn run(args: &ServerArgs, personality: Personality, parse: ParseOptions, io: &mut Io) -> Outcome {
    let mut options = args.options();
    if options.config_store_url.is_empty() {
        // compat(1.0): mixs reads the cluster it runs in. `mixer` refuses an empty URL.
        "k8s://".clone_into(&mut options.config_store_url);
    }
    if personality.is_legacy() && !args.says_config_on_error() {
        // compat(1.3): what is valid serves; pinned by the scenarios that reload configuration.
        options.config_on_error = OnConfigError::ServeValid;
    }
    if personality.is_legacy() {
        // compat(1.3): without --burstSize every call is over the rate; pinned by the test of it in cli/legacy.rs.
        options.load_shedding.burst_size.get_or_insert(0);
    }
    // compat(1.3): mixs does not serve these paths; pinned by the cases in cli/monitoring.yaml.
    options.health_endpoints = !personality.is_legacy();
    // compat(1.3): mixs reads past what is no resource of its own; pinned by the scenario kinds-unknown-ignored.
    options.problems_as_istio_mixer = personality.is_legacy();
    // compat(1.3): expressions of mixs know what manifests declare; pinned by the scenario match-unknown-attribute.
    options.standard_attributes = !personality.is_legacy();
    // compat(1.3): the PUT of a scope passes over what is no level; pinned by cli/ctrlz.yaml.
    options.introspection.scopes_as_istio = personality.is_legacy();
    // compat(1.3): lumberjack creates it.
    options.log.create_rotate_directory = personality.is_legacy();
    if args.print_config {
        let mut settings = args.settings.clone();
        config_file::tell_default(&mut settings, "config-on-error", options.config_on_error.name());
        if let Some(calls) = options.load_shedding.burst_size {
            config_file::tell_default(&mut settings, "burst-size", calls);
        }
        config_file::print(&settings, io)?;
        return Ok(Exit::Success);
    }
    if !personality.is_legacy()
        && let Some(failure) = unknown_language(&options)
    {
        return Err(failure.into());
    }
    // An invalid setting is the error of the start itself.
    if !personality.is_legacy() && options.check().is_ok() {
        options
            .check_effects()
            .and_then(|()| options.check_addresses())
            .map_err(|error| start_failure(&StartError { text: error.0, detail: None }, &options))?;
    }
    // A start with a cache serves what that has.
    if !personality.is_legacy()
        && options.config_cache.as_os_str().is_empty()
        && let Some(failure) = file_in_place_of_a_directory(&options.config_store_url)
    {
        return Err(failure.into());
    }
    if args.dry_run {
        return dry_run(&options, io);
    }
    // Without a reader of standard output, the server serves all the same.
    let _ = banner(args, &options, personality, io);
    let effects = signals::SignalEffects::default();
    let server = match Server::start_with(&options, &effects) {
        Ok(server) => server,
        Err(reason) => {
            return effects.interrupted_with().map_or_else(|| Err(start_failure(&reason, &options)), Ok);
        }
    };
    // From here on the process has threads that a full standard error must not stop.
    log_panics();
    if args.verbosity != Verbosity::Quiet {
        announce(&server, &options, personality);
    }
    Group::new("release of startup code").spawn_on(server.background(), async {
        tokio::time::sleep(STARTUP_CODE_RELEASE_DELAY).await;
        mixer_server::release_startup_code();
    });
    Ok(signals::serve(server, effects, options, parse))
}

/// Prints the start-up lines, or log records with `--log-as-json`, behind the records of the start. Those of Istio Mixer name the builder of
/// an image, whether it is known or not.
fn announce(server: &Server, options: &ServerOptions, personality: Personality) {
    let build = BuildInfo::of_this_program();
    let (program, version) = match personality.is_legacy() {
        true => ("Istio Mixer", build.short()),
        false => ("Mixer", build.with_revision()),
    };
    // The port alone is printed only if it is the one of `--port`.
    let requested = options.listen_address().ok();
    let by_port = options.address.is_empty() && requested.as_ref() == Some(server.api_address());
    let place = match (server.bound_address(), by_port) {
        (Some(bound), true) => format!("port {}", bound.port()),
        (Some(bound), false) => format!("tcp://{bound}"),
        (None, _) => server.api_address().to_string(),
    };
    let log = &server.controls().log;
    if options.log.as_json {
        log.print(&json_record(LogLevel::Info, program, &[("version", &version)]));
        log.print(&json_record(LogLevel::Info, "Starting gRPC server", &[("address", &place)]));
    } else {
        log.print(format!("{program}: {version}\nStarting gRPC server on {place}\n").as_bytes());
    }
}

/// Runs `--dry-run` and prints its result. Configuration errors are a failure, although a server would serve the valid rest, or what
/// its cache has.
fn dry_run(options: &ServerOptions, io: &mut Io) -> Outcome {
    let report = Server::rehearse(options).map_err(|reason| start_failure(&reason, options))?;
    let [rules, handlers, instances] = report.configured;
    let [errors, warnings] = report.problems;
    let shown = |text: &str| without_secrets(text, options);
    writeln!(io.out, "would serve:")?;
    writeln!(io.out, "  api            {}", report.api_address)?;
    match options.monitoring_address.as_str() {
        "" => writeln!(io.out, "  monitoring     port {}", options.monitoring_port)?,
        address => writeln!(io.out, "  monitoring     {}", shown(address))?,
    }
    let controlz = options.introspection.listen_address();
    let lacking_controlz = report.lacking.iter().find(|(what, _)| *what == "ControlZ");
    let has_controlz = controlz.as_ref().map(|_| match lacking_controlz {
        Some((_, why)) => Err((without_calls(why), general_hint(why).unwrap_or(ANOTHER_CONTROLZ))),
        None => options.introspection.guard().map(drop).map_err(|why| (why, CONTROLZ_TOKEN)),
    });
    match (controlz, &has_controlz) {
        (Some(_), Some(Err((why, _)))) => writeln!(io.out, "  ControlZ       off: {}", shown(why))?,
        (Some(address), _) => writeln!(io.out, "  ControlZ       {}", shown(&address))?,
        (None, _) => writeln!(io.out, "  ControlZ       off")?,
    }
    writeln!(io.out, "  workers        {}", report.workers)?;
    writeln!(io.out, "  configuration  {}", shown(&options.config_store_url))?;
    let (rules, handlers) = (counted(rules, "rule"), counted(handlers, "handler"));
    writeln!(io.out, "                 {rules}, {handlers}, {}", counted(instances, "instance"))?;
    let (errors, has_errors) = (counted(errors, "error"), errors > 0);
    writeln!(io.out, "                 {errors}, {}", counted(warnings, "warning"))?;
    if report.kept > 0 {
        let kept = counted(report.kept, "resource");
        writeln!(io.out, "                 {kept} in the version of --config-cache: ready, degraded")?;
    }
    if let Some(why) = &report.withheld {
        writeln!(io.out, "                 not ready, UNAVAILABLE: {}", shown(why))?;
    }
    for (component, why) in &report.degraded {
        writeln!(io.out, "  degraded       {component}: {}", shown(why))?;
    }
    if has_errors {
        let failure = Failure::local(format!("the configuration has {errors}"));
        return Err(failure.hint("see the log above, or `mixer validate`").into());
    }
    if let Some(Err((why, hint))) = has_controlz {
        let failure = Failure::local(format!("ControlZ would not be there: {}", shown(&why)));
        return Err(failure.hint(hint).into());
    }
    if let Some((what, why)) = report.lacking.first() {
        let failure = Failure::local(format!("the {what} would not be there: {why}"));
        return Err(failure.hint("create the directory, writable by the server, or correct the path").into());
    }
    Ok(Exit::Success)
}

/// The error of a store URL that names a file: a server follows the files of a directory.
fn file_in_place_of_a_directory(url: &str) -> Option<Failure> {
    let path = url.strip_prefix("fs://").map(std::path::Path::new).filter(|path| path.is_file())?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.map_or_else(|| ".".to_owned(), |parent| parent.display().to_string());
    let failure = Failure::usage(format!("a server follows a directory, and `{}` is a file", path.display()));
    Some(failure.hint(format!("name the directory that has it: --config {parent}")))
}

const CONTROLZ_TOKEN: &str = "put a token into the file of --ctrlz-token-file, readable by the server";
const ANOTHER_CONTROLZ: &str = "choose another --ctrlz-address, or --ctrlz-port 0 for none";
const MISSING_FILE: &str = "correct the path, or create the file";
const FLAGS_TOGETHER: &str = "give the flags that are named as well, or leave this one out";
const BAD_CERTIFICATE: &str = "`openssl x509 -in FILE -noout -text` prints a certificate";

/// What to do about a certificate or key that cannot be used.
pub(super) fn tls_hint(cause: &str) -> &'static str {
    // Settings that contradict each other name the flags that are missing.
    if cause.contains("needs --tls-") || cause.contains("belong together") {
        FLAGS_TOGETHER
    } else if cause.contains("no such file or directory") {
        MISSING_FILE
    } else {
        BAD_CERTIFICATE
    }
}

/// What to do about a store URL of an unknown scheme.
pub(super) fn store_hint(url: &str) -> String {
    let is_path =
        !url.contains("://") && (url.starts_with(['/', '.', '~']) || std::path::Path::new(url).exists());
    match is_path {
        true => format!("did you mean `fs://{url}`?"),
        false => "use fs://DIR, k8s://[KUBECONFIG], mcp://HOST:PORT, mcps://HOST:PORT, mcp+listen://ADDR or embedded://sample"
            .to_owned(),
    }
}

/// Hints for start-up failures, by a part of the reason. The reasons are the texts of Istio Mixer.
const START_HINTS: &[(&str, &str)] = &[
    (
        "names no attribute to mask",
        "for example request.headers[x-session] or source.user, separated by commas",
    ),
    ("permission denied", "run the server as a user with the permission, or choose another path or port"),
    (
        "address family not supported",
        "this machine has no IPv6: use an address of IPv4, for example 0.0.0.0:9091 for all interfaces",
    ),
    (
        "cannot assign requested address",
        "use an address of this machine (`ip address` shows them), or one without a host for all interfaces, for example :9091",
    ),
    ("missing port in address", "use host:port, for example 127.0.0.1:9091"),
    ("too many colons in address", "put an IPv6 address in brackets, for example [::1]:9091"),
    ("unknown network", "use tcp://HOST:PORT, tcp4://…, tcp6://… or unix:///PATH"),
    ("not a socket", "remove the file, or choose another path: the server removes sockets only"),
    (
        "no configuration has been provided",
        "outside a cluster use a kubeconfig file, k8s:///home/me/.kube/config, or a directory, fs://DIR",
    ),
    ("exceeded timeout", "the store or a handler exceeded --config-wait-timeout; see the log"),
    (
        "invalid output level",
        "levels are none, fatal, error, warn, info and debug; the format is level or scope:level",
    ),
    ("unknown scope", "`mixer server --help` lists the scopes at --log-output-level"),
    (
        "couldn't open sink",
        "create the directory of the file, or set --log-target to stdout, stderr or another file",
    ),
    ("active simultaneously", "set only one of --trace-zipkin-url and --trace-jaeger-url"),
    (
        "failed to lookup address information",
        "an address to listen at is HOST:PORT, without http:// and without a path; HOST is a name or address of this machine",
    ),
];

/// What to do about a cause that is no taken address.
pub(super) fn general_hint(cause: &str) -> Option<&'static str> {
    START_HINTS.iter().find(|(part, _)| cause.contains(part)).map(|(_, hint)| *hint)
}

/// What to do about a unix socket that another server has.
pub(super) const SOCKET_IN_USE: &str = "another process serves the socket (`ss -lxp` shows which): stop it first, or choose another path in --address";

/// What a taken port is called.
const IN_USE: &str = "address already in use";

/// What to do about a port that is taken, by what wanted to listen there.
fn port_hint(cause: &str) -> String {
    if cause.contains("listen unix ") {
        return SOCKET_IN_USE.to_owned();
    }
    let flag = match cause {
        _ if cause.contains("setup monitoring") => "--monitoring-port or --monitoring-address",
        _ if cause.contains("HTTP endpoint for Envoy") => {
            "--envoy-http-address or --envoy-ratelimit-http-address"
        }
        _ if cause.contains("prometheus metrics server") => "--metrics-port or --metrics-address",
        _ => "--port or --address",
    };
    format!(
        "another process uses the port, or another flag of this server has it: `ss -ltnp` shows processes; {flag} chooses another address \
         or port"
    )
}

fn start_failure(reason: &StartError, options: &ServerOptions) -> Stop {
    let cause = match &reason.detail {
        Some(detail) => format!("{reason}: {detail}"),
        None => reason.to_string(),
    };
    let mut failure = Failure::local("unable to initialize the server");
    let url = &options.config_store_url;
    let unknown = StoreError::Unknown { url: url.clone() };
    let is_url = cause.contains(&unknown.to_string());
    let cause = cause.replace(&unknown.to_string(), &unknown.plain());
    let cause = cause.replace(&format!("invalid config URL {url} parse {}: ", quoted(url)), "invalid URL: ");
    failure.hint = match is_url {
        true => Some(store_hint(url)),
        false if cause.contains("unable to set up TLS") && !cause.contains("permission denied") => {
            Some(tls_hint(&cause).to_owned())
        }
        false if cause.contains(IN_USE) => Some(port_hint(&cause)),
        false => general_hint(&cause).map(str::to_owned),
    };
    let shown = |text: &str| without_secrets(text, options);
    failure.hint = failure.hint.as_deref().map(shown);
    failure
        .cause(shown(&without_calls(&cause)))
        .legacy(shown(&format!("Unable to initialize Mixer: {reason}")))
        .into()
}

/// A cause without the system calls that Istio Mixer names: `listen tcp :9091: bind: address already in use`.
fn without_calls(cause: &str) -> String {
    let Some((before, rest)) = cause.split_once("listen tcp") else { return cause.to_owned() };
    let rest = rest.strip_prefix(": ").unwrap_or(rest.trim_start());
    format!("{before}{}", rest.replacen(": bind: ", ": ", 1))
}

/// Prints the settings on standard output, or a log record with `--log-as-json`.
fn banner(
    args: &ServerArgs,
    options: &ServerOptions,
    personality: Personality,
    io: &mut Io,
) -> Result<(), Stop> {
    let settings = match personality.is_legacy() {
        // compat(1.3): the flags as given, the default store among them; pinned by the test of the banner in cli/legacy.rs.
        true => {
            let mut settings = options.banner();
            for (_, value) in settings.iter_mut().filter(|(name, _)| *name == "ConfigStoreURL") {
                value.replace_range(.., &mask_address(args.config_store_url()));
            }
            settings
        }
        false => options.settings_in_effect(),
    };
    if options.log.as_json {
        let fields: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        io.out.write_all(&json_record(LogLevel::Info, "Mixer started", &fields))?;
    } else {
        writeln!(io.out, "Mixer started with")?;
        for (name, value) in settings {
            // compat(1.3): one blank after the colon of a group of settings, two after others.
            let gap = if name.ends_with("Options") || name.ends_with("CRDs") { " " } else { "  " };
            writeln!(io.out, "{name}:{gap}{value}")?;
        }
        writeln!(io.out)?;
    }
    io.out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_names_the_flag_that_changes_it() {
        for (cause, flag) in [
            ("unable to listen: listen tcp :9091: bind: address already in use", "--port or --address"),
            (
                "unable to setup monitoring: unable to listen on socket: address already in use",
                "--monitoring-port",
            ),
            ("unable to setup the HTTP endpoint for Envoy: address already in use", "--envoy-http-address"),
            ("unable to listen: listen unix /run/m.sock: bind: address already in use", "path in --address"),
        ] {
            assert!(port_hint(cause).contains(flag), "{cause}");
        }
    }

    #[test]
    fn causes_name_no_system_call() {
        for (cause, told) in [
            (
                "unable to listen: listen tcp :9091: bind: address already in use",
                "unable to listen: :9091: address already in use",
            ),
            (
                "unable to listen: listen tcp: address 127.0.0.1: missing port in address",
                "unable to listen: address 127.0.0.1: missing port in address",
            ),
            ("open a.pem: no such file or directory", "open a.pem: no such file or directory"),
        ] {
            assert_eq!(without_calls(cause), told);
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_no_bad_certificate() {
        for (cause, hint) in [
            ("--tls-client-ca-file needs --tls-cert-file and --tls-key-file", FLAGS_TOGETHER),
            (
                "a certificate and its key belong together: give --tls-cert-file and --tls-key-file",
                FLAGS_TOGETHER,
            ),
            ("open a.pem: no such file or directory", MISSING_FILE),
            ("a.pem: no certificate in it", BAD_CERTIFICATE),
        ] {
            assert_eq!(tls_hint(cause), hint, "{cause}");
        }
    }
}
