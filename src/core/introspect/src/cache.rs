//! The check cache and its hit rate.

use axum::response::Response;
use maud::html;
use serde::Serialize;

use super::page::Page;
use super::{Server, format, plot};

/// JSON of the cache.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cache {
    enabled: bool,
    entries: usize,
    max_entries: usize,
    max_bytes: u64,
    hits: u64,
    misses: u64,
    writes: u64,
    evictions: u64,
}

/// The current values. Counts are since the start; entries are those of the published configuration.
pub(super) fn json(server: &Server) -> Cache {
    let published = server.runtime.load_full();
    let limits = server.runtime.cache_limits();
    let counters = server.runtime.cache_counters();
    Cache {
        enabled: limits.is_some(),
        entries: published.cache.as_ref().map_or(0, |cache| cache.len()),
        max_entries: limits.map_or(0, |l| l.entries),
        max_bytes: limits.map_or(0, |l| l.bytes),
        hits: counters.hits(),
        misses: counters.misses(),
        writes: counters.writes(),
        evictions: counters.evictions(),
    }
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let cache = json(server);
    let asked = cache.hits + cache.misses;
    let share = if asked == 0 { 0.0 } else { cache.hits as f64 / asked as f64 };
    Page {
        path: "/cachez/",
        title: "Check Cache",
        lead: html! { "Check results by their referenced attributes. A configuration change that may affect results clears the cache." },
        json: "/cachej/",
        body: html! {
            section #cache data-live {
                @if !cache.enabled {
                    p.notice { "The check cache is off. " code { "--numCheckCacheEntries" } " enables it." }
                } @else {
                    dl.figures {
                        (format::figure("Hits", format!("{} %", format::short(share * 100.0)), html! { (format::count(cache.hits)) " of " (format::count(asked)) }))
                        (format::figure("Entries", format::count(cache.entries as u64), html! { "of at most " (format::count(cache.max_entries as u64)) }))
                        (format::figure("Written", format::count(cache.writes), ""))
                        (format::figure("Evicted", format::count(cache.evictions), html! { "to stay within " (format::bytes(cache.max_bytes as f64)) }))
                    }
                    table.histogram { tbody {
                        tr { th scope="row" { "Hits" } td.wide { (plot::bar(share)) } td.number { (format::count(cache.hits)) } }
                        tr { th scope="row" { "Misses" } td.wide { (plot::bar(if asked == 0 { 0.0 } else { 1.0 - share })) } td.number { (format::count(cache.misses)) } }
                    } }
                }
            }
        },
    }
    .answer(server)
}
