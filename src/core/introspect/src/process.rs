//! The process: identity, environment, arguments, build.

use std::net::IpAddr;
use std::path::PathBuf;

use axum::response::Response;
use maud::html;
use serde::Serialize;

use super::page::Page;
use super::{Console, format, parameter};
use mixer_base::build_info::BuildInfo;
use mixer_base::secrets::{mask_arguments, mask_variable};

/// compat(1.3): members and their order.
#[derive(Debug, Serialize)]
pub(super) struct ProcessInfo {
    egid: i64,
    euid: i64,
    gid: i64,
    groups: Option<Vec<i64>>,
    pid: u32,
    ppid: i64,
    uid: i64,
    wd: String,
    hostname: String,
    tempdir: String,
    threads: i64,
    /// compat(1.3): goroutines in Istio Mixer; threads here.
    goroutines: i64,
    open_files: usize,
}

/// The fields of `/proc/self/status`.
fn status_line<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn numbers(line: Option<&str>) -> Vec<i64> {
    line.unwrap_or_default().split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect()
}

/// The process information.
pub(super) fn json() -> ProcessInfo {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids =
        |name: &str, index: usize| numbers(status_line(&status, name)).get(index).copied().unwrap_or(-1);
    let groups = numbers(status_line(&status, "Groups"));
    let threads = ids("Threads", 0);
    ProcessInfo {
        egid: ids("Gid", 1),
        euid: ids("Uid", 1),
        gid: ids("Gid", 0),
        groups: (!groups.is_empty()).then_some(groups),
        pid: std::process::id(),
        ppid: ids("PPid", 0),
        uid: ids("Uid", 0),
        wd: std::env::current_dir().unwrap_or_default().display().to_string(),
        hostname: super::host::host_name(),
        tempdir: std::env::temp_dir().display().to_string(),
        threads,
        goroutines: threads,
        open_files: std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count().saturating_sub(1)),
    }
}

/// The first non-loopback address of the host, else a loopback address.
// The kernel chooses the source address of a datagram socket when it is connected; nothing is sent.
pub(super) fn address() -> IpAddr {
    let chosen = std::net::UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| {
        socket.connect(("192.0.2.1", 9))?;
        socket.local_addr()
    });
    chosen.map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip())
}

/// The path of the executable.
pub(super) fn program() -> PathBuf {
    std::env::args_os().next().map(PathBuf::from).unwrap_or_default()
}

/// The page.
pub(super) fn page(server: &Console) -> Response {
    let info = json();
    let groups =
        info.groups.clone().unwrap_or_default().iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
    let rows: Vec<(&str, String)> = vec![
        ("Process", info.pid.to_string()),
        ("Parent", info.ppid.to_string()),
        ("User", format!("{} (effective {})", info.uid, info.euid)),
        ("Group", format!("{} (effective {})", info.gid, info.egid)),
        ("Groups", groups),
        ("Working directory", info.wd),
        ("Temporary directory", info.tempdir),
        ("Host name", info.hostname),
        ("Address", address().to_string()),
        ("Threads", info.threads.to_string()),
        ("Open files", info.open_files.to_string()),
        ("Started", format::instant(server.started.time())),
    ];
    Page {
        path: "/procz/",
        title: "Process Info",
        lead: html! { "The process as reported by the operating system." },
        json: "/procj/",
        body: html! { section #process data-live { (pairs(&rows)) } },
    }
    .answer(server)
}

/// A table of names and values.
fn pairs(rows: &[(&str, String)]) -> maud::Markup {
    html! {
        div.scroll { table.pairs { tbody { @for (name, value) in rows {
            tr { th scope="row" { (name) } td { code { (value) } } }
        } } } }
    }
}

/// An environment variable.
#[derive(Debug, Serialize)]
pub(super) struct Variable {
    name: String,
    value: String,
}

/// Whether secrets are requested, with `?reveal=1`, and may be revealed.
pub fn reveals(server: &Console, parameters: &[(String, String)]) -> bool {
    server.guard.may_reveal && !parameter(parameters, "reveal").is_empty()
}

/// The environment in the order of Istio Mixer. Secret values are masked unless `reveal` is given and the guard permits it.
pub(super) fn environment(server: &Console, parameters: &[(String, String)]) -> Vec<Variable> {
    let reveal = reveals(server, parameters);
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let mut variables: Vec<(String, String)> = std::env::vars_os().map(|(n, v)| (text(n), text(v))).collect();
    variables.sort_by_cached_key(|(name, value)| format!("{name}={value}"));
    variables
        .into_iter()
        .map(|(name, value)| {
            let value = if reveal { value } else { mask_variable(&name, &value).into_owned() };
            Variable { value, name }
        })
        .collect()
}

/// The environment page.
pub(super) fn environment_page(server: &Console, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let reveal = reveals(server, parameters);
    let all = environment(server, parameters);
    let rows: Vec<&Variable> = all.iter().filter(|v| format::matches(q, &[&v.name, &v.value])).collect();
    Page {
        path: "/envz/",
        title: "Environment Variables",
        lead: html! { "Environment of the process. Secret values are masked." },
        json: "/envj/",
        body: html! {
            div.bar {
                (format::filter(q, "variables"))
                @if reveal { a.button href="/envz/" { "Hide secrets" } }
                @else if server.guard.may_reveal { a.button href="/envz/?reveal=1" { "Reveal secrets" } }
            }
            section #environment data-live {
                div.scroll { table.pairs { tbody { @for variable in &rows {
                    tr { th scope="row" { (variable.name) } td { code { (variable.value) } } }
                } } } }
                @if rows.is_empty() { (format::nothing("No variable matches.")) }
            }
        },
    }
    .answer(server)
}

/// The arguments; secret values are masked.
pub(super) fn arguments() -> Vec<String> {
    mask_arguments(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()))
}

/// The page of arguments and settings.
pub(super) fn arguments_page(server: &Console) -> Response {
    Page {
        path: "/argz/",
        title: "Command-Line Arguments",
        lead: html! { "Command line of the process and the resulting settings." },
        json: "/argj/",
        body: html! {
            ol.arguments start="0" { @for argument in arguments() { li { code { (argument) } } } }
            h2 { "Settings" }
            (pairs(&server.settings))
        },
    }
    .answer(server)
}

/// compat(1.3): members and their order.
#[derive(Debug, Serialize)]
pub(super) struct Version {
    version: &'static str,
    revision: &'static str,
    user: &'static str,
    host: &'static str,
    golang_version: &'static str,
    hub: &'static str,
    status: &'static str,
    tag: &'static str,
}

/// The build information.
pub(super) fn version() -> Version {
    let BuildInfo { version, revision, user, host, hub, status, tag, toolchain } =
        BuildInfo::of_this_program();
    Version { version, revision, user, host, golang_version: toolchain, hub, status, tag }
}

/// The page.
pub(super) fn version_page(server: &Console) -> Response {
    let info = version();
    let rows: Vec<(&str, String)> = [
        ("Version", info.version),
        ("Revision", info.revision),
        ("Tag", info.tag),
        ("Built by", info.user),
        ("Built on", info.host),
        ("Compiler", info.golang_version),
        ("Image hub", info.hub),
        ("Status", info.status),
    ]
    .into_iter()
    .map(|(name, value)| (name, value.to_owned()))
    .collect();
    Page {
        path: "/versionz/",
        title: "Version Info",
        lead: html! { "Build information." },
        json: "/versionj/",
        body: pairs(&rows),
    }
    .answer(server)
}
