//! The admin interface: pages and JSON as of Envoy.

mod dump;
mod mask;
mod query;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::State as Holder;
use axum::routing::any;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mixer_base::log::{LogLevel, ScopeState};
use mixer_expr::functions::Regex;
use mixer_net::http::{HttpResponse, answer, has_known_host, is_cross_site};

use crate::bootstrap::Thresholds;
use crate::cluster::Cluster;
use crate::http::looked_up_path;
use crate::listener_manager::Shown;
use crate::running::{Running, State, shown_listeners};
use crate::stats::{Format, Selection, render};
use query::Parameters;

const TEXT: &str = "text/plain; charset=UTF-8";
const JSON: &str = "application/json";

/// A page: its path, what it is, whether it needs POST, and what it answers.
struct Page {
    path: &'static str,
    about: &'static str,
    is_post: bool,
    answer: fn(&Running, &Parameters) -> HttpResponse,
}

const PAGES: [Page; 16] = [
    Page { path: "/", about: "Admin home page", is_post: false, answer: |_, _| text(help()) },
    Page { path: "/clusters", about: "upstream cluster status", is_post: false, answer: clusters },
    Page { path: "/config_dump", about: "dump current configs", is_post: false, answer: dump::config },
    Page { path: "/drain_listeners", about: "drain listeners", is_post: true, answer: drain_listeners },
    Page {
        path: "/healthcheck/fail",
        about: "cause the server to fail health checks",
        is_post: true,
        answer: |running, _| {
            running.fail_health_checks(true);
            text("OK\n")
        },
    },
    Page {
        path: "/healthcheck/ok",
        about: "cause the server to pass health checks",
        is_post: true,
        answer: |running, _| {
            running.fail_health_checks(false);
            text("OK\n")
        },
    },
    Page {
        path: "/help",
        about: "print out list of admin commands",
        is_post: false,
        answer: |_, _| text(help()),
    },
    Page {
        path: "/hot_restart_version",
        about: "print the hot restart compatibility version",
        is_post: false,
        answer: |_, _| text("disabled"),
    },
    Page { path: "/listeners", about: "print listener info", is_post: false, answer: listeners },
    Page { path: "/logging", about: "query/change logging levels", is_post: true, answer: logging },
    Page {
        path: "/quitquitquit",
        about: "exit the server",
        is_post: true,
        answer: |running, _| {
            running.quit.cancel();
            text("OK\n")
        },
    },
    Page {
        path: READY,
        about: "print server state, return 200 if LIVE, otherwise return 503",
        is_post: false,
        answer: ready,
    },
    Page {
        path: "/reopen_logs",
        about: "reopen access logs",
        is_post: true,
        answer: |running, _| {
            running.logs.reopen();
            text("OK\n")
        },
    },
    Page {
        path: "/server_info",
        about: "print server version/status information",
        is_post: false,
        answer: dump::server_info,
    },
    Page { path: "/stats", about: "print server stats", is_post: false, answer: stats },
    Page {
        path: "/stats/prometheus",
        about: "print server stats in prometheus format",
        is_post: false,
        answer: |running, parameters| statistics(running, parameters, Format::Prometheus),
    },
];

/// The routes of the admin interface.
pub(crate) fn routes(running: &Arc<Running>) -> Router {
    // As routes and not as a fallback: the endpoint has a fallback of its own.
    Router::new().route("/", any(dispatch)).route("/{*path}", any(dispatch)).with_state(Arc::clone(running))
}

/// The page that is answered by any name: what it says is no secret, and probes come by names.
const READY: &str = "/ready";

/// The refusal of a browser that was made to ask, if it is one. The configuration and the statistics are not for pages of other sites, nor is
/// the end of the proxy. Clients that are no browsers send no origin, and need no name.
fn refusal(running: &Running, page: &str, is_post: bool, headers: &HeaderMap) -> Option<HttpResponse> {
    let is_named = headers.contains_key(header::HOST);
    if page != READY && is_named && !has_known_host(headers, &running.bootstrap.admin_hosts) {
        let body = "this proxy is not known under that name: ask for localhost or an IP address, or add the name with --admin-allowed-hosts\n";
        return Some(answer(StatusCode::MISDIRECTED_REQUEST, TEXT, body));
    }
    let body = "changes are taken from pages of this server only\n";
    (is_post && is_cross_site(headers)).then(|| answer(StatusCode::FORBIDDEN, TEXT, body))
}

async fn dispatch(
    Holder(running): Holder<Arc<Running>>,
    method: Method,
    uri: http::Uri,
    headers: HeaderMap,
) -> HttpResponse {
    let parameters = Parameters::of(uri.query().unwrap_or_default());
    let path = looked_up_path(uri.path().as_bytes());
    let found = path.as_ref().and_then(|path| PAGES.iter().find(|page| page.path.as_bytes() == path));
    let shown = found.map_or("", |page| page.path);
    let refused = refusal(&running, shown, found.is_some_and(|page| page.is_post), &headers);
    let answered = || match found {
        // As with Envoy.
        None if path.is_none() => answer(StatusCode::BAD_REQUEST, TEXT, ""),
        None => answer(StatusCode::NOT_FOUND, TEXT, format!("invalid path. {}", help())),
        Some(page) if page.is_post && method != Method::POST => {
            let body = format!("Method {method} not allowed, POST required.");
            answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, body)
        }
        Some(page) => (page.answer)(&running, &parameters),
    };
    let mut response = refused.unwrap_or_else(answered);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn text(body: impl Into<String>) -> HttpResponse {
    answer(StatusCode::OK, TEXT, body.into())
}

fn json(value: &serde_json::Value) -> HttpResponse {
    answer(StatusCode::OK, JSON, format!("{value:#}"))
}

fn invalid(body: impl Into<String>) -> HttpResponse {
    answer(StatusCode::BAD_REQUEST, TEXT, body.into())
}

fn help() -> String {
    let mut out = String::from("admin commands are:\n");
    for page in &PAGES {
        let post = if page.is_post { " (POST)" } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {}{post}: {}", page.path, page.about);
    }
    out
}

fn ready(running: &Running, _: &Parameters) -> HttpResponse {
    let state = running.state();
    let status = if state == State::Live { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, TEXT, format!("{}\n", state.name()))
}

fn listeners(running: &Running, parameters: &Parameters) -> HttpResponse {
    let shown = shown_listeners(running);
    if parameters.get("format") == Some("json") {
        let status = |listener: &Shown| {
            let (ip, port) = (listener.address.ip().to_string(), listener.address.port());
            serde_json::json!({
                "name": listener.name,
                "local_address": {"socket_address": {"address": ip, "port_value": port}},
            })
        };
        let statuses: Vec<_> = shown.iter().map(status).collect();
        return json(&serde_json::json!({ "listener_statuses": statuses }));
    }
    text(
        shown
            .iter()
            .fold(String::new(), |out, listener| format!("{out}{}::{}\n", listener.name, listener.address)),
    )
}

fn clusters(running: &Running, parameters: &Parameters) -> HttpResponse {
    let filter = match parameters.get("filter").map(|pattern| Regex::compile(pattern.as_bytes())) {
        Some(Err(why)) => return invalid(why),
        Some(Ok(filter)) => Some(filter),
        None => None,
    };
    if let Some(format) = parameters.get("format").filter(|format| *format != "text") {
        return invalid(format!("format `{format}` is not supported by this version; omit it for text\n"));
    }
    let mut out = String::new();
    for cluster in &running.shared.clusters {
        let name = &cluster.config.name;
        if filter.as_ref().is_none_or(|filter| filter.is_match(name.as_bytes())) {
            write_cluster(cluster, &mut out);
        }
    }
    text(out)
}

fn write_cluster(cluster: &Cluster, out: &mut String) {
    let name = &cluster.config.name;
    let thresholds = &cluster.config.thresholds;
    let mut line = |text: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name}::{text}");
    };
    line(&format!("observability_name::{name}"));
    if let Some([[average, threshold], [local_average, local_threshold]]) = cluster.success_rates() {
        line(&format!("outlier::success_rate_average::{}", rate(average)));
        line(&format!("outlier::success_rate_ejection_threshold::{}", rate(threshold)));
        line(&format!("outlier::local_origin_success_rate_average::{}", rate(local_average)));
        line(&format!("outlier::local_origin_success_rate_ejection_threshold::{}", rate(local_threshold)));
    }
    // There is no priority HIGH: what Envoy gives it without a configuration.
    for (priority, of) in [("default", thresholds), ("high", &Thresholds::default())] {
        line(&format!("{priority}_priority::max_connections::{}", of.connections));
        line(&format!("{priority}_priority::max_pending_requests::{}", of.pending));
        line(&format!("{priority}_priority::max_requests::{}", of.requests));
        line(&format!("{priority}_priority::max_retries::{}", of.retries));
    }
    line("added_via_api::false");
    for host in cluster.hosts().iter() {
        let counts = [
            ("cx_active", &host.active_connections),
            ("cx_connect_fail", &host.connect_failures),
            ("cx_total", &host.connections),
            ("rq_active", &host.active_requests),
            ("rq_error", &host.failed),
            ("rq_pending_active", &host.pending_requests),
            ("rq_success", &host.succeeded),
            ("rq_timeout", &host.timed_out),
            ("rq_total", &host.requests),
        ];
        for (what, count) in counts {
            line(&format!("{}::{what}::{}", host.address, count.load(Ordering::Relaxed)));
        }
        let weight = host.weight.to_string();
        let health = host.health_text();
        let [success, local_success] = host.success_rates().map(rate);
        let fixed = [
            ("hostname", host.hostname.as_str()),
            ("health_flags", health.as_str()),
            ("weight", weight.as_str()),
            ("region", ""),
            ("zone", ""),
            ("sub_zone", ""),
            ("canary", "false"),
            ("priority", "0"),
            ("success_rate", success.as_str()),
            ("local_origin_success_rate", local_success.as_str()),
        ];
        for (what, value) in fixed {
            line(&format!("{}::{what}::{value}", host.address));
        }
    }
}

/// A rate as Envoy writes it: six digits that count, without zeros at the end.
fn rate(value: f64) -> String {
    let digits = if value >= 100.0 { 3 } else { 4 };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn stats(running: &Running, parameters: &Parameters) -> HttpResponse {
    let format = match parameters.get("format") {
        None | Some("text" | "html") => Format::Text,
        Some("json") => Format::Json,
        Some("prometheus") => Format::Prometheus,
        Some(_) => return invalid("usage: /stats?format=(html|active-html|json|prometheus|text)\n\n"),
    };
    statistics(running, parameters, format)
}

fn statistics(running: &Running, parameters: &Parameters, format: Format) -> HttpResponse {
    let filter = match parameters.get("filter").map(|pattern| Regex::compile(pattern.as_bytes())) {
        Some(Err(why)) => return invalid(format!("Invalid re2 regex: {why}")),
        Some(Ok(filter)) => Some(filter),
        None => None,
    };
    let kind = parameters.get("type").filter(|kind| *kind != "All");
    if kind.is_some_and(|kind| !["Counters", "Gauges", "Histograms", "TextReadouts"].contains(&kind)) {
        return invalid("invalid &type= param");
    }
    let selection =
        Selection { used_only: parameters.has("usedonly"), filter, kind: kind.map(str::to_owned) };
    let body = render(&running.stats.samples(), &selection, format);
    let content_type = if format == Format::Json { JSON } else { TEXT };
    answer(StatusCode::OK, content_type, body)
}

fn drain_listeners(running: &Running, parameters: &Parameters) -> HttpResponse {
    let [graceful, skip_exit, inbound_only] =
        ["graceful", "skip_exit", "inboundonly"].map(|name| parameters.has(name));
    if skip_exit && !graceful {
        return invalid("skip_exit requires graceful\n");
    }
    match running.listeners.get() {
        Some(listeners) if graceful => listeners.drain_listeners(inbound_only, skip_exit),
        Some(listeners) => listeners.stop_listeners(inbound_only),
        None => {}
    }
    text("OK\n")
}

/// The levels of Envoy's loggers and those here.
const LEVELS: [(&str, LogLevel); 7] = [
    ("trace", LogLevel::Debug),
    ("debug", LogLevel::Debug),
    ("info", LogLevel::Info),
    ("warning", LogLevel::Warn),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
    ("off", LogLevel::None),
];

/// The level of a name of Envoy's.
fn level(name: &str) -> Option<LogLevel> {
    let name = if name == "critical" { "error" } else { name };
    LEVELS.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
}

fn logging(running: &Running, parameters: &Parameters) -> HttpResponse {
    const USAGE: &str = "usage: /logging?<name>=<level> (change single level)\nusage: /logging?level=<level> (change all levels)\nlevels: trace debug info warning error critical off\n";
    for (name, wanted) in parameters.iter() {
        let Some(level) = level(wanted) else {
            return invalid(format!("error: unknown logger level\n{USAGE}"));
        };
        let scopes = running.log.scopes();
        let chosen: Vec<ScopeState> =
            scopes.into_iter().filter(|scope| name == "level" || scope.name == name).collect();
        if chosen.is_empty() {
            return invalid(format!("error: unknown logger name\n{USAGE}"));
        }
        for scope in chosen {
            // The scope is one of those that were listed.
            let _ = running.log.set_scope(&ScopeState { output_level: level, ..scope });
        }
    }
    let mut out = String::from("active loggers:\n");
    for scope in running.log.scopes() {
        let shown = LEVELS
            .iter()
            .rev()
            .find(|(_, level)| *level == scope.output_level)
            .map_or("off", |(name, _)| name);
        let _ = writeln!(out, "  {}: {}", scope.name, if shown == "warn" { "warning" } else { shown });
    }
    text(out)
}
