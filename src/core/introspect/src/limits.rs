//! Limits of descriptors of Envoy, with the hits that were counted.

use std::collections::HashMap;

use maud::{Markup, html};

use super::{Server, format, plot};
use mixer_base::metrics::{Family, FamilySample, FamilySamples, SampleValue};

/// Maximum number of limits on the page.
const LISTED: usize = 200;

/// A limit of a file and its hits since the start.
#[derive(Debug)]
struct Limited {
    /// Domain and entries.
    name: String,
    limit: String,
    place: String,
    hits: u64,
    over: u64,
}

/// The hits of a family by the name of the limit.
fn counted(families: &[FamilySamples], family: Family) -> HashMap<String, u64> {
    let found = families.iter().find(|f| f.info.name == family.info().name);
    let of = |sample: &FamilySample| {
        let SampleValue::Number(value) = sample.value else { return None };
        let parts = sample.labels.iter().map(|(_, text)| &**text).filter(|text| !text.is_empty());
        Some((parts.collect::<Vec<_>>().join("."), value as u64))
    };
    found.into_iter().flat_map(|family| &family.samples).filter_map(of).collect()
}

fn list(server: &Server) -> Vec<Limited> {
    let mappings = server.runtime.load_full().routes.snapshot().mappings();
    let mut limits = mappings.into_iter().filter(|mapping| mapping.what == "limit").peekable();
    if limits.peek().is_none() {
        return Vec::new();
    }
    let families = server.metrics.samples();
    let [hits, over] =
        [Family::RatelimitTotalHits, Family::RatelimitOverLimit].map(|family| counted(&families, family));
    let of = |counts: &HashMap<String, u64>, name: &str| counts.get(name).copied().unwrap_or(0);
    let mut all: Vec<Limited> = limits
        .map(|limit| Limited {
            hits: of(&hits, &limit.from),
            over: of(&over, &limit.from),
            name: limit.from,
            limit: limit.to,
            place: limit.place,
        })
        .collect();
    all.sort_by_key(|limit| std::cmp::Reverse((limit.over, limit.hits)));
    all
}

/// The table of limits; `None` if there are none.
pub(super) fn table(server: &Server) -> Option<Markup> {
    let all = list(server);
    let row = |limit: &Limited| {
        html! {
            tr {
                th scope="row" { code { (limit.name) } }
                td data-label="Limit" { (limit.limit) }
                td.number data-label="Hits" { (format::count(limit.hits)) }
                td.wide { (plot::bar(limit.over as f64 / limit.hits.max(1) as f64)) }
                td.number data-label="Over the limit" { span.bad[limit.over > 0] { (format::count(limit.over)) } }
                td.dim data-label="Source" { (limit.place) }
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
