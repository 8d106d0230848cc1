//! The check cache: whether there is one, and whether it is of use.

use axum::response::Response;
use maud::html;
use serde::Serialize;

use super::page::Page;
use super::{Server, format, plot};

/// The cache as a program reads it.
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

/// The present numbers. Counts are those since the start, entries those of the configuration in effect.
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
        lead: html! { "Answers kept by the attributes that decided them. A change of configuration that may decide otherwise empties it." },
        json: "/cachej/",
        body: html! {
            section #cache data-live {
                @if !cache.enabled {
                    p.notice { "There is no check cache. " code { "--numCheckCacheEntries" } " turns it on." }
                } @else {
                    dl.figures {
                        (format::figure("Hits", format!("{} %", format::short(share * 100.0)), html! { (format::count(cache.hits)) " of " (format::count(asked)) }))
                        (format::figure("Answers kept", format::count(cache.entries as u64), html! { "of at most " (format::count(cache.max_entries as u64)) }))
                        (format::figure("Written", format::count(cache.writes), ""))
                        (format::figure("Pushed out", format::count(cache.evictions), html! { "to stay within " (format::bytes(cache.max_bytes as f64)) }))
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
