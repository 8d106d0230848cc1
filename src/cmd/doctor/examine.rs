//! The checks of `doctor`.

mod configuration;
mod controlz;
mod deliveries;
mod enforcement;
mod handlers;
mod readiness;
mod sockets;
mod unlimited;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use self::readiness::Readiness;
use super::finding::{CheckStatus, Finding};
use crate::cmd::server::{SOCKET_IN_USE, general_hint, tls_hint, unknown_language, without_secrets};
use mixer_base::dial::dial;
use mixer_base::output_file::{self, Obstacle, OutputUse};
use mixer_base::rotate::os_text;
use mixer_base::secrets::mask_address;
use mixer_engine::decision::{RecordingOptions, full_recording};
use mixer_engine::runtime::{ProcessUser, effective_user};
use mixer_net::address::ListenAddress;
use mixer_net::listener::{ListenError, bind_tcp};
use mixer_net::tls;
use mixer_server::{Effects as _, ProbeOptions, Rehearsal, ServerOptions};

/// The check of the address of the API.
const API: &str = "api";
/// The check of the address of ControlZ.
const CONTROLZ: &str = "ControlZ";
/// The check of the address of checks of Envoy over HTTP.
const ENVOY_HTTP: &str = "envoy http";
/// The check of the address of rate limits of Envoy over HTTP.
const ENVOY_LIMITS: &str = "envoy rate limits";
/// The check of the pid file.
const PID_FILE: &str = "pid file";
/// A lower limit of open files is a warning.
const MIN_OPEN_FILES: u64 = 4096;
/// Maximum variables of the environment that a finding names.
const MAX_VARIABLES: usize = 10;
/// Timeout of network requests.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Runs all checks for a server with these settings, and shows no secret of their addresses. Must run on an event loop.
pub(super) async fn all(options: &ServerOptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    let settings = options.check().and_then(|()| options.check_effects());
    let settings = settings.and_then(|()| options.check_addresses()).and_then(|()| options.log.check());
    findings.push(match settings {
        Ok(()) => ok("settings", "valid".to_owned()),
        Err(error) => fail("settings", error.0, "see `mixer doctor --help`"),
    });
    findings.extend(
        options
            .without_effect(false)
            .into_iter()
            .map(|lost| warn("settings", lost, "omit the flag, or the other one")),
    );
    let misspelt = "`mixer server --print-config` prints every setting with its origin";
    findings.extend(options.suspicions.iter().map(|what| warn("environment", what.clone(), misspelt)));
    if !options.unread_variables.is_empty() {
        let names = options.unread_variables.iter().take(MAX_VARIABLES).map(String::as_str);
        let names = names.collect::<Vec<_>>().join(", ");
        let others = options.unread_variables.len().saturating_sub(MAX_VARIABLES);
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        findings.push(ok("environment", format!("no setting has {names}{others}")));
    }
    findings.extend(
        unknown_language(options)
            .map(|failure| fail("environment", failure.what, failure.hint.as_deref().unwrap_or_default())),
    );
    ports(options, &mut findings).await;
    security(options, &mut findings);
    let is_running = running(&options.monitoring_listen_address()).await;
    let user = if is_running { other_user(&options.monitoring_listen_address()) } else { None };
    findings.extend(user.as_ref().map(|(server, own)| of_another_user(server.id, *own)));
    let user = user.map(|(server, _)| server);
    findings.extend(configuration::examine(options, is_running, user).await);
    files(options, is_running, &mut findings);
    findings.push(open_files());
    collectors(options, &mut findings).await;
    if is_running {
        let readiness = Readiness::ask(options).await.unwrap_or_default();
        let mut of_parts = enforcement::of_running(&readiness.not_enforced);
        of_parts.extend(readiness.other_store(&options.config_store_url));
        of_parts.extend(controlz::examine(options).await);
        of_parts.extend(handlers::examine_running(options).await);
        let of_whole = readiness.findings(findings.iter().chain(&of_parts));
        findings.extend(of_whole.into_iter().chain(of_parts));
        findings.extend(deliveries::examine(options).await);
        findings.extend(unlimited::examine(options).await);
    }
    for finding in &mut findings {
        finding.detail = without_secrets(&finding.detail, options);
        finding.hint = finding.hint.as_deref().map(|hint| without_secrets(hint, options));
    }
    findings
}

fn ok(check: &'static str, detail: String) -> Finding {
    Finding { check, verdict: CheckStatus::Ok, detail, hint: None }
}

fn warn(check: &'static str, detail: String, hint: &str) -> Finding {
    Finding { check, verdict: CheckStatus::Warn, detail, hint: Some(hint.to_owned()) }
}

fn fail(check: &'static str, detail: String, hint: &str) -> Finding {
    Finding { check, verdict: CheckStatus::Fail, detail, hint: Some(hint.to_owned()) }
}

/// The listening sockets.
async fn ports(options: &ServerOptions, findings: &mut Vec<Finding>) {
    let monitoring = options.monitoring_listen_address();
    let running = running(&monitoring).await;
    let finding = |check, address: String, bound: Result<(), ListenError>, hint: &str| match bound {
        Ok(()) => match not_listening(check).filter(|_| running && port_of(&address) != Some(0)) {
            Some(hint) => {
                warn(check, format!("{address} is free: the running server does not listen there"), hint)
            }
            None => ok(check, format!("{address} is free")),
        },
        Err(error) if !error.is_in_use() => {
            let hint = general_hint(&error.0).unwrap_or(hint);
            fail(check, error.0, hint)
        }
        Err(error) if running => match is_foreign(&monitoring, &address) {
            Some(true) => fail(
                check,
                error.0,
                "another process than the running server uses it (`ss -lxtnp` shows which): stop it, or choose another address",
            ),
            Some(false) => ok(check, format!("{address} is in use by the running server")),
            None => {
                ok(check, format!("{address} is in use; this user may not see whether by the running server"))
            }
        },
        Err(error) => fail(check, error.0, hint),
    };
    match options.listen_address() {
        Err(error) => findings.push(fail(API, error.0, "use --address tcp://HOST:PORT or unix:///PATH")),
        Ok(address) => {
            let listen = || Rehearsal.listen(&address, options.socket_mode).map(drop);
            let (bound, hint) = match &address {
                ListenAddress::Unix(path) => {
                    let refused = Rehearsal.refuse_served_socket(path);
                    let bound = refused.and_then(|()| Rehearsal.remove_socket(path)).and_then(|()| listen());
                    (bound, SOCKET_IN_USE)
                }
                ListenAddress::Tcp { .. } => (
                    listen(),
                    "stop the process that uses it (`ss -ltnp` shows it), or choose another --address",
                ),
            };
            findings.push(finding(API, address.to_string(), bound, hint));
        }
    }
    let introspection = options.introspection.listen_address();
    for (check, address, enabled, hint) in [
        ("monitoring", monitoring.clone(), true, "choose another --monitoring-port or --monitoring-address"),
        (
            "metrics",
            options.metrics_listen_address(),
            true,
            "choose another --metrics-port or --metrics-address",
        ),
        (
            CONTROLZ,
            introspection.clone().unwrap_or_default(),
            introspection.is_some(),
            "choose another --ctrlz-port, or 0 for none",
        ),
        (
            ENVOY_HTTP,
            options.envoy_http_address.clone(),
            !options.envoy_http_address.is_empty(),
            "choose another --envoy-http-address",
        ),
        (
            ENVOY_LIMITS,
            options.envoy_ratelimit_http_address.clone(),
            !options.envoy_ratelimit_http_address.is_empty(),
            "choose another --envoy-ratelimit-http-address",
        ),
    ] {
        if enabled {
            let bound = bind_tcp("tcp", &address).map(drop);
            findings.push(finding(check, format!("tcp://{address}"), bound, hint));
        }
    }
    if introspection.is_some()
        && let Err(why) = options.introspection.guard()
    {
        let detail = format!("a start would serve without it: {why}");
        findings.push(fail(
            CONTROLZ,
            detail,
            "put a token into the file of --ctrlz-token-file, readable by the server",
        ));
    }
}

/// What it means that a running server does not listen at the address of a check; `None` if it need not.
fn not_listening(check: &str) -> Option<&'static str> {
    match check {
        API => Some(
            "it was started with another --address, or no client can reach it: see why it is not ready, or start it again",
        ),
        CONTROLZ => Some(
            "it was started with another --ctrlz-port or --ctrlz-address: nothing is known of its handlers, deliveries and rate limits \
             without that",
        ),
        ENVOY_HTTP => Some(
            "it was started without --envoy-http-address, or with another one, and no check of Envoy arrives there: start it again",
        ),
        ENVOY_LIMITS => Some(
            "it was started without --envoy-ratelimit-http-address, or with another one, and no call of Envoy arrives there: start it again",
        ),
        // The port of metrics is that of a handler.
        _ => None,
    }
}

/// The port of an address to listen at.
fn port_of(address: &str) -> Option<u16> {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

/// Whether another process than the one that listens at the address of monitoring listens at this one, `tcp://…` or `unix://…`; `None` if
/// that cannot be told.
fn is_foreign(monitoring: &str, address: &str) -> Option<bool> {
    let monitoring = sockets::of_port(port_of(monitoring)?);
    let listening = match address.strip_prefix("unix://") {
        Some(path) => sockets::of_path(path),
        None => sockets::of_port(port_of(address)?),
    };
    sockets::is_of_another(&monitoring, &listening)
}

/// The user of the server that listens at the address of monitoring, and the id of that of this process, if they differ and that can be told.
fn other_user(monitoring: &str) -> Option<(ProcessUser, u32)> {
    let server = sockets::user_of(&sockets::of_port(port_of(monitoring)?))?;
    let own = effective_user().ok()?;
    (server.id != own).then_some((server, own))
}

/// That files are examined as another user than the server's.
fn of_another_user(server: u32, own: u32) -> Finding {
    warn(
        "user",
        format!(
            "the running server has the user id {server}, and this command {own}: what is found of files is what this user may do"
        ),
        &format!("run it as the user of the server: `sudo -u '#{server}' mixer doctor …`"),
    )
}

/// Where a server on this machine is reached that listens at this address of TCP.
fn reached_at(address: &str) -> Option<String> {
    let (host, port) = address.rsplit_once(':')?;
    // A server that listens everywhere listens here.
    let host = if matches!(host, "" | "*" | "0.0.0.0" | "[::]") { "localhost" } else { host };
    Some(format!("{host}:{port}"))
}

/// Whether a mixer serves monitoring at this address.
async fn running(monitoring: &str) -> bool {
    tls::install_crypto_provider();
    let Some(place) = reached_at(monitoring) else { return false };
    let Ok(client) = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build() else { return false };
    let answer = client.get(format!("http://{place}/metrics")).send().await;
    match answer {
        Ok(answer) => answer.text().await.is_ok_and(|text| text.contains("istio_build{component=\"mixer\"")),
        Err(_) => false,
    }
}

/// Certificates and keys.
fn security(options: &ServerOptions, findings: &mut Vec<Finding>) {
    let settings = &options.tls;
    tls::install_crypto_provider();
    match Rehearsal.load_tls(settings) {
        Ok(Some(_)) => {}
        Ok(None) => {
            let is_local = options.listen_address().is_ok_and(|address| address.is_local());
            findings.push(match is_local {
                true => ok("tls", "plaintext, for clients on this machine only".to_owned()),
                false => warn(
                    "tls",
                    "the API accepts plaintext from other machines".to_owned(),
                    "set --tls-cert-file and --tls-key-file",
                ),
            });
            return;
        }
        Err(error) => {
            let text = error.to_string();
            let hint = tls_hint(&text);
            findings.push(fail("tls", text, hint));
            return;
        }
    }
    for path in [&settings.cert_file, &settings.client_ca_file] {
        if !path.as_os_str().is_empty() {
            findings.push(certificate(path));
        }
    }
}

fn certificate(path: &Path) -> Finding {
    let until = match tls::valid_until(path) {
        Ok(until) => until,
        Err(error) => return fail("tls", error.to_string(), "use a PEM file with a certificate"),
    };
    let detail = format!("`{}` is valid until {}", path.display(), until.rfc3339_micros());
    let left = until.to_system_time().map(|until| until.duration_since(SystemTime::now()));
    match left {
        Some(Err(_)) => fail("tls", detail, "it has expired: replace the file; no restart is needed"),
        Some(Ok(left)) if left < tls::EXPIRES_SOON => {
            let hint = "replace the file soon; it is reloaded within seconds, without a restart";
            warn("tls", format!("{detail}, {} days", left.as_secs() / 86_400), hint)
        }
        Some(Ok(_)) | None => ok("tls", detail),
    }
}

/// The output files, beside a running server or not.
fn files(options: &ServerOptions, is_running: bool, findings: &mut Vec<Finding>) {
    let appended = OutputUse::default();
    let rotated = OutputUse { is_rotated: true, ..appended };
    let mut all: Vec<(&'static str, PathBuf, OutputUse)> = Vec::new();
    let targets = options.log.targets.iter().filter(|target| !matches!(target.as_str(), "stdout" | "stderr"));
    all.extend(targets.map(|target| ("log", PathBuf::from(target), appended)));
    all.extend([
        ("log", options.log.rotate.clone(), rotated),
        ("decision log", options.decisions.log.path.clone(), rotated),
        ("recording", options.decisions.recording.path.clone(), appended),
    ]);
    for (check, path, how) in all.into_iter().filter(|(_, path, _)| !path.as_os_str().is_empty()) {
        findings.push(appendable(check, &path, how));
    }
    findings.extend(recording(&options.decisions.recording));
    let probe = |of: &ProbeOptions| if of.is_enabled() { of.path.clone() } else { PathBuf::new() };
    for (check, path) in [
        (PID_FILE, &options.pid_file),
        ("liveness probe", &probe(&options.liveness_probe)),
        ("readiness probe", &probe(&options.readiness_probe)),
    ] {
        if path.as_os_str().is_empty() {
            continue;
        }
        findings.push(match check {
            // A running server has its own.
            PID_FILE if !is_running => writable(check, path, Rehearsal.write_pid_file(path).map(drop)),
            _ => writable(check, path, output_file::check_replaceable(path)),
        });
    }
}

/// A file that lines are appended to.
fn appendable(check: &'static str, path: &Path, how: OutputUse) -> Finding {
    match output_file::examine(path, how) {
        Ok(()) => ok(check, format!("`{}` is writable", path.display())),
        Err(Obstacle::Space(why)) => {
            warn(check, why, "what cannot be written is lost: free space, or choose another disk")
        }
        Err(Obstacle::Access(why)) => {
            fail(check, why, "create the directory, writable by the server, or correct the path")
        }
    }
}

/// A recording that is full: the server records nothing more.
fn recording(options: &RecordingOptions) -> Option<Finding> {
    if options.path.as_os_str().is_empty() {
        return None;
    }
    let why = full_recording(options).ok().flatten()?;
    Some(warn(
        "recording",
        why,
        "for traffic without an end, use --decision-log, which `mixer diff` reads as well",
    ))
}

/// A file that is created or replaced, if that can be done.
fn writable(check: &'static str, path: &Path, replaceable: io::Result<()>) -> Finding {
    if let Err(error) = replaceable {
        let detail = format!("`{}`: {}", path.display(), os_text(&error));
        return fail(check, detail, "create the directory, writable by the server, or correct the path");
    }
    match rustix::fs::statvfs(output_file::directory_of(path)) {
        Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < output_file::LITTLE_SPACE => {
            let left = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
            let detail = format!("`{}`: {left} MiB of free disk space", path.display());
            warn(check, detail, "what cannot be written is lost: free space, or choose another disk")
        }
        _ => ok(check, format!("`{}` is writable", path.display())),
    }
}

/// The limit of open files.
fn open_files() -> Finding {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()).map(str::parse::<u64>);
    match soft {
        Some(Ok(limit)) if limit < MIN_OPEN_FILES => warn(
            "open files",
            format!("at most {limit}; every connection needs one"),
            "set `LimitNOFILE=65536` in the systemd unit, or run `ulimit -n 65536`",
        ),
        Some(Ok(limit)) => ok("open files", format!("at most {limit}")),
        // `unlimited`, or a system without /proc.
        _ => ok("open files", "no known limit".to_owned()),
    }
}

/// Reachability of trace collectors.
async fn collectors(options: &ServerOptions, findings: &mut Vec<Finding>) {
    let tracing = &options.tracing;
    if let Err(error) = tracing.check() {
        findings.push(fail("tracing", error.0, "set only one of Zipkin and Jaeger; URLs begin with http://"));
        return;
    }
    for url in [&tracing.zipkin_url, &tracing.jaeger_url, &tracing.otlp_url] {
        if !url.is_empty() {
            findings.push(collector(url).await);
        }
    }
}

async fn collector(url: &str) -> Finding {
    let place = reqwest::Url::parse(url).ok().and_then(|url| {
        Some((Arc::<str>::from(url.host_str()?.trim_matches(['[', ']'])), url.port_or_known_default()?))
    });
    let Some((host, port)) = place else {
        let shown = mask_address(url);
        return fail("tracing", format!("`{shown}` has no host"), "use http://HOST:PORT/PATH");
    };
    let (url, connect) = (mask_address(url), dial(&host, port, TIMEOUT));
    let why = match tokio::time::timeout(TIMEOUT, connect).await {
        Ok(Ok(_)) => return ok("tracing", format!("{url} is reachable")),
        Ok(Err(error)) => os_text(&error),
        Err(_) => format!("no response within {} s", TIMEOUT.as_secs()),
    };
    warn(
        "tracing",
        format!("{url}: {why}"),
        "calls do not wait for the collector; spans are lost until it is reachable",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_without_room_is_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calls.jsonl");
        std::fs::write(&path, "{}\n{}\n").unwrap();
        let of = |path: &Path, max_calls| {
            recording(&RecordingOptions { path: path.to_owned(), max_calls, max_bytes: 100 })
        };
        let finding = of(&path, 2).unwrap();
        assert_eq!(finding.verdict, CheckStatus::Warn);
        assert!(finding.detail.contains("is full"), "{}", finding.detail);
        assert!(of(&path, 3).is_none() && of(Path::new(""), 0).is_none());
    }
}
