//! Latency of API calls by method, and of handlers.

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::configuration::HandlerLinks;
use super::page::Page;
use super::quantile::quantile;
use super::{Server, calls, format, plot};
use mixer_base::metrics::{Family, FamilySample, FamilySamples, HistogramSample, SampleValue};

/// Latency statistics in seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Durations {
    /// Metric labels.
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) count: u64,
    pub(super) mean: f64,
    /// Upper bounds of the buckets of the quantiles; `null` above the last bound.
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    /// Upper bound and count; `None` is +Inf.
    pub(super) buckets: Vec<(Option<f64>, u64)>,
}

/// Latencies of API calls and of handlers.
#[derive(Debug, Serialize)]
pub(super) struct Latencies {
    calls: Vec<Durations>,
    handlers: Vec<Durations>,
}

/// The current values.
pub(super) fn json(server: &Server) -> Latencies {
    let families = server.metrics.samples();
    let of = |family: Family, unit: f64| {
        let found = families.iter().find(|f| f.info.name == family.info().name);
        found.map(|f| f.samples.iter().filter_map(|s| durations(f, s, unit)).collect()).unwrap_or_default()
    };
    Latencies { calls: of(Family::RpcLatency, 1e-3), handlers: of(Family::RuntimeDispatchDuration, 1.0) }
}

fn durations(family: &FamilySamples, sample: &FamilySample, unit: f64) -> Option<Durations> {
    let SampleValue::Histogram(HistogramSample { counts, sum, .. }) = &sample.value else { return None };
    let bounds = family.info.bounds;
    let count: u64 = counts.iter().sum();
    let at = |q| quantile(bounds, counts, q) * unit;
    let bounds_and_end = bounds.iter().map(|b| Some(b * unit)).chain([None]);
    Some(Durations {
        labels: sample.labels.clone(),
        count,
        mean: if count == 0 { 0.0 } else { sum * unit / count as f64 },
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        buckets: bounds_and_end.zip(counts.iter().copied()).collect(),
    })
}

impl Durations {
    fn last_bound(&self) -> f64 {
        self.buckets.iter().rev().find_map(|(bound, _)| *bound).unwrap_or_default()
    }

    fn quantile(&self, bound: f64) -> String {
        format::at_most(bound, self.last_bound())
    }
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let (latencies, published) = (json(server), server.runtime.load_full());
    let links = HandlerLinks::of(published.routes.snapshot());
    let trend = server.trend.view(server);
    Page {
        path: "/latencyz/",
        title: "Latency",
        lead: html! { "From the complete request to the response, since the start. Of a quantile the upper bound of its bucket is known." },
        json: "/latencyj/",
        body: html! {
            section #latency data-live {
                div.plots {
                    (plot::lines("Checks, last minutes", &[("p50", &trend.check_p50), ("p99", &trend.check_p99)], plot::Unit::AtMost))
                    (calls::rates(&trend))
                }
                @let lost = trend.outcomes.failures() + trend.outcomes.unanswered;
                @if lost > 0 { p { a href="/callz/" { (format::counted(lost, "call")) } " that failed or had no answer are among them." } }
                @if latencies.calls.is_empty() { (format::nothing("No call yet.")) }
                div.columns { @for calls in &latencies.calls { (histogram(calls)) } }
                h2 { "Handlers" }
                @if latencies.handlers.is_empty() { (format::nothing("No handler call yet.")) } @else { (handlers(&latencies.handlers, &links)) }
            }
        },
    }
    .answer(server)
}

fn label<'d>(durations: &'d Durations, name: &str) -> &'d str {
    durations.labels.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

fn histogram(calls: &Durations) -> Markup {
    let name = label(calls, "grpc_server_method");
    let most = calls.buckets.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let first = calls.buckets.iter().position(|(_, count)| *count > 0).unwrap_or(0);
    let last = calls.buckets.iter().rposition(|(_, count)| *count > 0).unwrap_or(0);
    let rows = calls.buckets.iter().take(last + 1).skip(first);
    html! {
        article.card {
            h2 { (name.rsplit('/').next().unwrap_or(name)) small.dim { (name) } }
            dl.figures.small {
                (format::figure("Calls", format::count(calls.count), ""))
                (format::figure("p50", calls.quantile(calls.p50), ""))
                (format::figure("p90", calls.quantile(calls.p90), ""))
                (format::figure("p99", calls.quantile(calls.p99), ""))
                (format::figure("p99.9", calls.quantile(calls.p999), ""))
                (format::figure("Mean", format::seconds(calls.mean), ""))
            }
            table.histogram { tbody { @for (bound, count) in rows {
                tr {
                    th scope="row" { @match bound { Some(bound) => { "≤ " (format::seconds(*bound)) } None => "more" } }
                    td.wide { (plot::bar(*count as f64 / most as f64)) }
                    td.number { (format::count(*count)) }
                }
            } } }
        }
    }
}

fn handlers(list: &[Durations], links: &HandlerLinks<'_>) -> Markup {
    let slowest = list.iter().map(|d| d.p99.min(d.last_bound())).fold(0.0, f64::max).max(1e-9);
    html! {
        div.scroll { table.numbers.cards {
            thead { tr { th { "Handler" } th { "Template" } th { "Outcome" } th.number { "Calls" } th.number { "Mean" } th.number { "p50" } th.number { "p99" } th {} } }
            tbody { @for d in list {
                tr {
                    th scope="row" { (links.show(label(d, "handler"))) " " small.dim { (label(d, "adapter")) } }
                    td data-label="Template" { (label(d, "meshFunction")) }
                    td data-label="Outcome" { @if label(d, "error") == "true" { span.pill.bad { "error" } } @else { span.pill.good { "ok" } } }
                    td.number data-label="Calls" { (format::count(d.count)) }
                    td.number data-label="Mean" { (format::seconds(d.mean)) }
                    td.number data-label="p50" { (d.quantile(d.p50)) }
                    td.number data-label="p99" { (d.quantile(d.p99)) }
                    td.wide { (plot::bar(d.p99.min(d.last_bound()) / slowest)) }
                }
            } }
        } }
    }
}
