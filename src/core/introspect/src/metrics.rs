//! The server's metrics as a page and as the JSON of Istio Mixer.

use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::page::Page;
use super::{Console, format, parameter};
use mixer_base::exposition::push_number;
use mixer_base::metrics::{FamilySample, FamilySamples, HistogramSample, SampleValue};

fn number(value: f64) -> String {
    let mut text = Vec::new();
    push_number(&mut text, value);
    String::from_utf8(text).unwrap_or_default()
}

/// Families in name order; numbers are strings.
pub(super) fn json(server: &Console) -> Vec<Value> {
    server
        .metrics
        .samples()
        .iter()
        .map(|family| {
            let samples: Vec<Value> =
                family.samples.iter().map(|sample| sample_json(family, sample)).collect();
            let kind = family.info.kind.name().to_ascii_uppercase();
            json!({ "name": family.info.name, "help": family.info.help, "type": kind, "metrics": samples })
        })
        .collect()
}

fn sample_json(family: &FamilySamples, sample: &FamilySample) -> Value {
    let mut members = Map::new();
    if !sample.labels.is_empty() {
        let labels = sample.labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        members.insert("labels".to_owned(), Value::Object(labels.collect()));
    }
    match &sample.value {
        SampleValue::Number(value) => drop(members.insert("value".to_owned(), json!(number(*value)))),
        SampleValue::Histogram(HistogramSample { counts, sum, .. }) => {
            let mut total = 0;
            let mut buckets = Map::new();
            for (bound, count) in family.info.bounds.iter().zip(counts) {
                total += count;
                buckets.insert(number(*bound), json!(number(total as f64)));
            }
            let all: u64 = counts.iter().sum();
            members.insert("buckets".to_owned(), Value::Object(buckets));
            members.insert("count".to_owned(), json!(all.to_string()));
            members.insert("sum".to_owned(), json!(number(*sum)));
        }
    }
    Value::Object(members)
}

/// The page.
pub(super) fn page(server: &Console, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let all = server.metrics.samples();
    let families: Vec<&FamilySamples> =
        all.iter().filter(|f| format::matches(q, &[f.info.name, f.info.help])).collect();
    Page {
        path: "/metricz/",
        title: "Metrics",
        lead: html! { "Metrics of the server, as on " code { "/metrics" } " on the monitoring port." },
        json: "/metricj/",
        body: html! {
            div.bar {
                (format::filter(q, "families"))
                button type="button" data-copy="#prometheus" hidden { "Copy as Prometheus text" }
            }
            section #families data-live {
                @for family in &families { (family_markup(family)) }
                @if families.is_empty() { (format::nothing("No family matches.")) }
                pre #prometheus hidden { (text(server)) }
            }
        },
    }
    .answer(server)
}

fn text(server: &Console) -> String {
    let mut text = Vec::new();
    server.metrics.write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn family_markup(family: &FamilySamples) -> Markup {
    let info = family.info;
    html! {
        article.family {
            h2 { code { (info.name) } " " span.pill { (info.kind.name()) } }
            p.dim { (info.help) }
            div.scroll { table.numbers.cards { tbody { @for sample in &family.samples {
                tr {
                    td.words { @if sample.labels.is_empty() { span.dim { "no labels" } }
                        @for (name, value) in &sample.labels { span.label { (name) "=" b { (value) } } " " } }
                    td.number { @match &sample.value {
                        SampleValue::Number(value) => (number(*value)),
                        SampleValue::Histogram(HistogramSample { counts, sum, .. }) => {
                            @let all: u64 = counts.iter().sum();
                            (format::count(all)) " values, mean " (number_short(*sum, all))
                        }
                    } }
                }
            } } } }
        }
    }
}

fn number_short(sum: f64, count: u64) -> String {
    if count == 0 { "–".to_owned() } else { format::short_or_exact(sum / count as f64) }
}
