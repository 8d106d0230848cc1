//! The overview: status, traffic, and the form that stops the process.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::process_memory::Memory;
use super::trend::View;
use super::{Console, Server, calls, configuration, format, plot, process, tasks};
use mixer_config::Severity;
use mixer_config::store::EMBEDDED_SAMPLE;

/// compat(1.3): members and their order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Home {
    process_name: String,
    heap_size: u64,
    #[serde(rename = "NumGC")]
    num_gc: u64,
    /// Unix time in nanoseconds.
    current_time: u64,
    hostname: String,
    #[serde(rename = "IP")]
    ip: String,
}

/// The JSON of Istio Mixer's home page.
pub(super) fn json(server: &Console) -> Home {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Home {
        process_name: process::program().display().to_string(),
        heap_size: Memory::now().anonymous,
        num_gc: server.trend.collections(),
        current_time: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        hostname: super::host::host_name(),
        ip: process::address().to_string(),
    }
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let published = server.runtime.load_full();
    let trend = server.trend.view(server);
    let (errors, warnings) = (published.problems(Severity::Error), published.problems(Severity::Warning));
    let rules = super::rule_state::Effect::of(&published);
    let figures = figures(server, &trend);
    Page {
        path: "/",
        title: "Overview",
        lead: html! { "Status and traffic of this server." },
        json: "/homej/",
        body: html! {
            section #overview data-live {
                (conditions(server))
                (super::envoy::unlimited_notice(server))
                (super::unenforced::notice(&published))
                (sample_notice(server))
                @for load in mixer_base::load::list() { (tasks::loading(&load)) }
                dl.figures.(columns(figures.len())) { @for figure in &figures { (figure) } }
                div.plots {
                    (calls::rates(&trend))
                    (plot::lines("Check latency", &[("p50", &trend.check_p50), ("p99", &trend.check_p99)], plot::Unit::AtMost))
                    (plot::lines("CPU, fraction of one core", &[("cpu", &trend.cpu)], plot::Unit::Share))
                    (plot::lines("Resident memory", &[("memory", &trend.memory)], plot::Unit::Bytes))
                }
                h2 { "Configuration" }
                dl.figures {
                    (format::figure("Snapshot", html! { a href="/historyz/" { (published.id()) } }, last_change(server)))
                    (format::figure("Rules", html! { a href="/rulez/" { (rules.in_effect) } }, rules.note()))
                    (format::figure("Handlers", html! { a href="/handlerz/" { (published.routes.handlers().iter().count()) } }, html! { "live" }))
                    (format::figure("Errors", html! { a.bad[errors > 0] href="/configz/" { (errors) } }, html! { "and " (format::counted(warnings as u64, "warning")) }))
                    (format::figure("On errors", html! { code { (server.runtime.on_config_error().name()) } }, html! { "--config-on-error" }))
                }
                @if errors > 0 { (configuration::first_errors(server)) }
            }
            (stop(server, "The server becomes not ready, answers calls in flight, flushes buffered reports and exits with status 0."))
        },
    }
    .answer(server)
}

/// Tells that the embedded sample serves.
fn sample_notice(server: &Server) -> Markup {
    html! {
        @if server.store.url() == EMBEDDED_SAMPLE {
            p.notice.warn #sample role="status" { strong { "The embedded sample configuration serves" } ", which allows almost every call: " code { "--config-store-url" } " names another one." }
        }
    }
}

/// The figures of the traffic and of the process.
fn figures(server: &Server, trend: &View) -> Vec<Markup> {
    let memory = Memory::now();
    let rate = |rate: f64| format!("{}/s", format::short(rate));
    let total = |count: u64| html! { (format::count(count)) " total" };
    let mut figures = vec![format::figure("Checks", rate(trend.checks.now()), total(trend.checks_total))];
    if trend.limits_total > 0 {
        figures.push(format::figure("Rate limits", rate(trend.limits.now()), total(trend.limits_total)));
    }
    let of_logs = html! {
        (total(trend.reports_total))
        @if trend.logs_total > 0 { ", " (format::count(trend.logs_total)) " of them messages of access logs" }
    };
    figures.push(format::figure("Reports", rate(trend.reports.now()), of_logs));
    if trend.entries_total > 0 {
        let note = "of access logs, in total";
        figures.push(format::figure("Log entries", format::count(trend.entries_total), note));
    }
    figures.extend(calls::figures(trend, server.shedding));
    let denials = html! { a href="/denialz/" { (rate(trend.denials.now())) } };
    figures.push(format::figure("Denials", denials, total(trend.denials_total)));
    let p99 = html! { a href="/latencyz/" { (format::at_most(trend.check_p99.now(), f64::INFINITY)) } };
    figures.push(format::figure("Check, p99", p99, calls::note_on_quantiles(trend)));
    let cpu = format!("{} %", format::short(trend.cpu.now() * 100.0));
    figures.push(format::figure("CPU", cpu, "of one core"));
    let memory = html! { a href="/memz/" { (format::bytes(memory.resident as f64)) } };
    figures.push(format::figure("Memory", memory, "resident"));
    let callers = html! { a href="/callerz/" { (server.callers()) } };
    figures.push(format::figure("Callers", callers, "connected"));
    let since = html! { "since " (format::minute(server.started.time())) };
    figures.push(format::figure("Up", format::long(server.started.age()), since));
    figures
}

/// The class for as many figures: in columns that leave the fewest places of the last row empty.
fn columns(figures: usize) -> &'static str {
    let classes = [(4, "four"), (5, "five"), (3, "three")];
    let empty = |columns: usize| figures.next_multiple_of(columns) - figures;
    classes.into_iter().min_by_key(|(columns, _)| empty(*columns)).map_or("", |(_, class)| class)
}

/// What keeps the process from being ready, and what is degraded.
pub(super) fn conditions(server: &Console) -> Markup {
    let (ready, _) = server.readiness();
    html! {
        @if !ready {
            div.notice.bad role="alert" {
                strong { "Not ready" }
                ul { @for (name, status) in (server.conditions)() {
                    @if let Err(why) = status { li { code { (name) } " " (format::message(&why)) } }
                } }
            }
        }
        @let degraded = server.degradations.list();
        @if !degraded.is_empty() {
            div.notice.warn role="status" {
                strong { "Degraded" }
                ul { @for (name, degradation) in degraded {
                    li { code { (name) } " " (format::message(&degradation.why)) ", since " (format::instant(degradation.since.time())) " (" (format::ago(degradation.since)) ")" }
                } }
            }
        }
    }
}

fn last_change(server: &Server) -> Markup {
    html! {
        @match server.runtime.history().latest() {
            Some(entry) if !entry.is_applied => { "not applied: that of " (format::ago(entry.published)) }
            Some(entry) => { "published " (format::ago(entry.published)) }
            None => "nothing published yet",
        }
    }
}

/// The form that stops the process; `what` says what happens then.
pub(super) fn stop(server: &Console, what: &str) -> Markup {
    let read_only = server.guard.read_only;
    html! {
        details.danger {
            summary { "Stop this process…" }
            form method="post" action="/exit" data-confirm="Stop this process?" {
                p { (what) }
                button.danger disabled[read_only] { "Stop gracefully" }
            }
        }
    }
}
