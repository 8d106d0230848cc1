//! Calls by method and status, and why some fail.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::outcomes::{Outcomes, Shedding};
use super::page::Page;
use super::trend::{View, WINDOW};
use super::{Server, format, plot};

/// What became of the calls since the start, and a second over the last ones.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallsInfo {
    calls: u64,
    failed: u64,
    failed_by_status: BTreeMap<&'static str, u64>,
    /// Calls that were refused for what their caller sent, by the status with which they count: `OK` if the answer is a denial.
    invalid_by_status: BTreeMap<&'static str, u64>,
    /// Failed calls of Envoy that `errorMode` or shadow mode allowed, and those that `errorMode` denied.
    failed_allowed: u64,
    failed_denied: u64,
    unanswered: u64,
    shed: u64,
    load_shedding: Shedding,
    /// `null` where it is not known.
    failed_per_second: f64,
    unanswered_per_second: f64,
    shed_per_second: f64,
    methods: Vec<MethodInfo>,
}

/// The calls of a method by the name of their status.
#[derive(Debug, Serialize)]
pub(super) struct MethodInfo {
    method: &'static str,
    completed: BTreeMap<&'static str, u64>,
}

/// The current values.
pub(super) fn json(server: &Server) -> CallsInfo {
    let trend = server.trend.view(server);
    let methods = server.trend.calls().by_method();
    let methods = methods.into_iter().map(|(method, completed)| MethodInfo { method, completed }).collect();
    CallsInfo {
        calls: trend.outcomes.calls,
        failed: trend.outcomes.failures(),
        failed_allowed: trend.outcomes.allowed,
        failed_denied: trend.outcomes.denied,
        unanswered: trend.outcomes.unanswered,
        shed: trend.outcomes.shed,
        load_shedding: server.shedding,
        failed_per_second: trend.failed.now(),
        unanswered_per_second: trend.unanswered.now(),
        shed_per_second: trend.shed.now(),
        failed_by_status: trend.outcomes.failed,
        invalid_by_status: trend.outcomes.invalid,
        methods,
    }
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let trend = server.trend.view(server);
    let methods = server.trend.calls().by_method();
    Page {
        path: "/callz/",
        title: "Calls",
        lead: html! { "Calls by status, since the start. A denied request is an answered call." },
        json: "/callj/",
        body: html! {
            section #calls data-live {
                dl.figures {
                    (format::figure("Calls", format::count(trend.outcomes.calls), "that ended"))
                    @for figure in figures(&trend, server.shedding) { (figure) }
                }
                div.plots {
                    (rates(&trend))
                    (plot::lines(
                        "Failed calls per second",
                        &[("failed", &trend.failed), ("unanswered", &trend.unanswered), ("shed", &trend.shed)],
                        plot::Unit::Count,
                    ))
                }
                (reasons(server, &trend.outcomes))
                h2 { "Methods" }
                @if methods.is_empty() { (format::nothing("No call yet.")) } @else { (table(&methods)) }
            }
        },
    }
    .answer(server)
}

/// The figures of calls that fail.
pub(super) fn figures(trend: &View, shedding: Shedding) -> Vec<Markup> {
    let outcomes = &trend.outcomes;
    let failures = outcomes.failures();
    let rate = |bad: bool, rate: f64| html! { a.bad[bad] href="/callz/" { (format::short(rate)) "/s" } };
    let by_status = html! {
        (format::count(failures)) " total"
        @for (status, count) in &outcomes.failed { ", " (format::count(*count)) " " (status) }
    };
    let mut figures = vec![format::figure("Failed", rate(failures > 0, trend.failed.now()), by_status)];
    if outcomes.unanswered > 0 {
        let note =
            html! { (format::count(outcomes.unanswered)) " total, whose callers left before the answer" };
        figures.push(format::figure("Unanswered", rate(true, trend.unanswered.now()), note));
    }
    if shedding != Shedding::Disabled {
        let note = match shedding {
            Shedding::LogOnly => "total that would be refused",
            Shedding::Enforce | Shedding::Disabled => "total, among the failed ones",
        };
        let note = html! { (format::count(outcomes.shed)) " " (note) };
        figures.push(format::figure("Shed", rate(outcomes.shed > 0, trend.shed.now()), note));
    }
    figures
}

/// The plot of calls.
pub(super) fn rates(trend: &View) -> Markup {
    let mut series = vec![("checks", &trend.checks), ("reports", &trend.reports)];
    if trend.limits_total > 0 {
        series.push(("rate limits", &trend.limits));
    }
    if trend.outcomes.failures() > 0 {
        series.push(("failed", &trend.failed));
    }
    plot::lines("Calls per second", &series, plot::Unit::Count)
}

/// Why calls of a status fail, and the page that has more.
fn reason(status: &str) -> (&'static str, &'static str, &'static str) {
    match status {
        "UNAVAILABLE" => (
            "load shedding of Mixer's calls, a full pool, or no configuration that serves",
            "/poolz/",
            "Pools",
        ),
        "INTERNAL" => ("a handler, an instance or a condition failed", "/handlerz/", "Handlers"),
        "RESOURCE_EXHAUSTED" => (
            "load shedding of Envoy's calls, a message that is too large, a full pool, or no memory",
            "/poolz/",
            "Pools",
        ),
        "DEADLINE_EXCEEDED" => (
            "the deadline of the caller passed, or its message did not arrive in time",
            "/latencyz/",
            "Latency",
        ),
        "INVALID_ARGUMENT" => ("the call was refused for what its caller sent", "/callerz/", "Callers"),
        "UNIMPLEMENTED" => {
            ("the service is turned off, or the message is compressed", "/configz/", "Configuration")
        }
        "UNKNOWN" => ("a rate limit could not be evaluated, or reports failed", "/handlerz/", "Handlers"),
        _ => ("the status is that of a handler", "/handlerz/", "Handlers"),
    }
}

/// What the statuses of failed calls mean.
fn reasons(server: &Server, outcomes: &Outcomes) -> Markup {
    let withheld = server.runtime.load_full().withheld.is_some();
    html! {
        @if outcomes.failures() + outcomes.unanswered > 0 {
            h2 { "Why calls fail" }
            div.scroll { table.numbers.cards {
                thead { tr { th { "Status" } th.number { "Calls" } th { "Reason" } th {} } }
                tbody {
                    @for (status, count) in &outcomes.failed {
                        @let (why, path, page) = reason(status);
                        tr {
                            th scope="row" { (status) }
                            td.number data-label="Calls" { (format::count(*count)) }
                            td data-label="Reason" {
                                (why)
                                @if *status == "UNAVAILABLE" && withheld { "; " strong { "no configuration serves now" } }
                                @if let Some(count) = outcomes.invalid.get(status).filter(|_| *status != "INVALID_ARGUMENT") {
                                    "; " (format::count(*count)) " were refused for what their caller sent"
                                }
                            }
                            td { a href=(path) { (page) } }
                        }
                    }
                    @if outcomes.unanswered > 0 { tr {
                        th scope="row" { "CANCELLED" }
                        td.number data-label="Calls" { (format::count(outcomes.unanswered)) }
                        td data-label="Reason" { "the caller left before the answer: a handler is slow, or its timeout is short; its failure mode decides" }
                        td { a href="/latencyz/" { "Latency" } }
                    } }
                }
            } }
            @if server.shedding == Shedding::Enforce && outcomes.shed > 0 {
                p { "Load shedding refused " (format::count(outcomes.shed)) " of them: those of Mixer's clients with " code { "UNAVAILABLE" } ", those of Envoy with " code { "RESOURCE_EXHAUSTED" } "." }
            }
            @if outcomes.allowed + outcomes.denied > 0 {
                p { "Of the failed calls of Envoy " code { "errorMode" } " or shadow mode allowed " (format::count(outcomes.allowed)) " and denied " (format::count(outcomes.denied)) "." }
            }
        }
    }
}

fn table(methods: &[(&'static str, BTreeMap<&'static str, u64>)]) -> Markup {
    html! {
        div.scroll { table.numbers.cards {
            thead { tr { th { "Method" } th { "Status" } th.number { "Calls" } } }
            tbody { @for (method, completed) in methods { @for (status, count) in completed { tr {
                th scope="row" { (method.rsplit('/').next().unwrap_or(method)) " " small.dim { (method) } }
                td data-label="Status" { span.pill.(if *status == "OK" { "good" } else { "bad" }) { (status) } }
                td.number data-label="Calls" { (format::count(*count)) }
            } } } }
        } }
    }
}

/// That quantiles of checks have those that failed; empty if none does.
pub(super) fn note_on_quantiles(trend: &View) -> Markup {
    html! {
        "over the last " (format::long(WINDOW))
        @if trend.failed.now() > 0.0 { ", with those that fail" }
    }
}
