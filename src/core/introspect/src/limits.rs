//! Limits of descriptors of Envoy, with the hits that were counted.

use std::collections::HashMap;

use maud::{Markup, html};
use serde::Serialize;

use super::{Server, configuration, format, plot};
use mixer_base::metrics::{Family, FamilySample, FamilySamples, SampleValue};
use mixer_engine::snapshot::MappingOutline;

/// Maximum number of limits on the page.
const LISTED: usize = 200;

/// JSON of a limit of a file, and its hits since the start.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DescriptorLimit {
    /// Domain and entries.
    name: String,
    /// For example `3 per HOUR`.
    rate: String,
    hits: u64,
    over_limit: u64,
    /// The full name of the resource.
    resource: String,
    /// `file:line`.
    place: String,
}

/// The hits of a family by the labels of the limit: names of different limits may be written alike.
fn counted(families: &[FamilySamples], family: Family) -> HashMap<[String; 3], u64> {
    let found = families.iter().find(|f| f.info.name == family.info().name);
    let of = |sample: &FamilySample| {
        let SampleValue::Number(value) = sample.value else { return None };
        let labels: Vec<String> = sample.labels.iter().map(|(_, text)| text.clone()).collect();
        Some((labels.try_into().ok()?, value as u64))
    };
    found.into_iter().flat_map(|family| &family.samples).filter_map(of).collect()
}

/// All limits: those that refuse first.
pub(super) fn json(server: &Server) -> Vec<DescriptorLimit> {
    let mappings = server.runtime.load_full().routes.snapshot().mappings();
    let mut limits = mappings.into_iter().filter(|mapping| mapping.what == "limit").peekable();
    if limits.peek().is_none() {
        return Vec::new();
    }
    let families = server.metrics.samples();
    let [hits, over] =
        [Family::RatelimitTotalHits, Family::RatelimitOverLimit].map(|family| counted(&families, family));
    let of = |counts: &HashMap<[String; 3], u64>, limit: &MappingOutline| {
        limit.labels.as_ref().and_then(|labels| counts.get(labels)).copied().unwrap_or(0)
    };
    let mut all: Vec<DescriptorLimit> = limits
        .map(|limit| DescriptorLimit {
            hits: of(&hits, &limit),
            over_limit: of(&over, &limit),
            name: limit.from,
            rate: limit.to,
            resource: limit.resource,
            place: limit.place,
        })
        .collect();
    all.sort_by_key(|limit| std::cmp::Reverse((limit.over_limit, limit.hits)));
    all
}

/// The table of limits; `None` if there are none.
pub(super) fn table(server: &Server) -> Option<Markup> {
    let all = json(server);
    let row = |limit: &DescriptorLimit| {
        html! {
            tr {
                th scope="row" { code { (limit.name) } }
                td data-label="Limit" { (limit.rate) }
                td.number data-label="Hits" { (format::count(limit.hits)) }
                td.wide { (plot::bar(limit.over_limit as f64 / limit.hits.max(1) as f64)) }
                td.number data-label="Over the limit" { span.bad[limit.over_limit > 0] { (format::count(limit.over_limit)) } }
                td.dim data-label="Source" { (configuration::link_as(&limit.resource, &limit.place)) }
            }
        }
    };
    (!all.is_empty()).then(|| {
        html! {
            h2 #limits { "Limits of descriptors" }
            p.dim { "Hits since the start, of all values together; the bars show the share over the limit." }
            div.scroll { table.numbers.cards {
                thead { tr { th { "Domain and entries" } th { "Limit" } th.number { "Hits" } th {} th.number { "Over the limit" } th { "Source" } } }
                tbody { @for limit in all.iter().take(LISTED) { (row(limit)) } }
            } }
            @if all.len() > LISTED { p.dim { "The first " (LISTED) " of " (all.len()) "; " a href="/routesz/" { "Routes" } " has all of them." } }
        }
    })
}
