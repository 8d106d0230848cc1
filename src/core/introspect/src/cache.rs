//! The caches of check results and their hit rates.

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::{Server, format, plot};
use mixer_engine::check_cache::{CheckCacheCounters, CheckCacheLimits};

/// The state of a cache of check results. Counts are since the start; entries are those of the published configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheStatus {
    enabled: bool,
    entries: usize,
    max_entries: usize,
    max_bytes: u64,
    hits: u64,
    misses: u64,
    writes: u64,
    evictions: u64,
    /// Answers that expired, were replaced, or ended with the configuration: what was written and is neither in the cache nor evicted.
    ended: u64,
}

impl CacheStatus {
    /// That of a cache with `entries` answers.
    pub fn new(entries: usize, limits: CheckCacheLimits, counters: &CheckCacheCounters) -> Self {
        let (writes, evictions) = (counters.writes(), counters.evictions());
        Self {
            enabled: true,
            entries,
            max_entries: limits.entries,
            max_bytes: limits.bytes,
            hits: counters.hits(),
            misses: counters.misses(),
            writes,
            evictions,
            ended: writes.saturating_sub(evictions).saturating_sub(entries as u64),
        }
    }

    const OFF: Self = Self {
        enabled: false,
        entries: 0,
        max_entries: 0,
        max_bytes: 0,
        hits: 0,
        misses: 0,
        writes: 0,
        evictions: 0,
        ended: 0,
    };
}

/// JSON of the caches: that of Mixer's API, and that of Envoy's checks if they are served.
#[derive(Debug, Serialize)]
pub(super) struct Caches {
    #[serde(flatten)]
    mixer: CacheStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    envoy: Option<CacheStatus>,
}

/// The current values.
pub(super) fn json(server: &Server) -> Caches {
    let published = server.runtime.load_full();
    let entries = published.cache.as_ref().map_or(0, |cache| cache.len());
    let of = |limits| CacheStatus::new(entries, limits, server.runtime.cache_counters());
    Caches {
        mixer: server.runtime.cache_limits().map_or(CacheStatus::OFF, of),
        envoy: server.envoy.as_ref().map(|envoy| envoy.cache().unwrap_or(CacheStatus::OFF)),
    }
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let caches = json(server);
    Page {
        path: "/cachez/",
        title: "Check Cache",
        lead: html! { "Check results by their referenced attributes. A configuration change that may affect results clears the caches." },
        json: "/cachej/",
        body: html! {
            section #cache data-live {
                h2 { "Checks of Mixer" }
                (card(&caches.mixer, html! { "There is no cache for them. " code { "--num-check-cache-entries" } " makes one." }))
                @if let Some(envoy) = &caches.envoy {
                    h2 { "Checks of Envoy" }
                    (card(envoy, html! { "There is no cache for them. " code { "check.cache.entries" } " of the " code { "envoybridge" } " makes one." }))
                }
            }
        },
    }
    .answer(server)
}

fn card(cache: &CacheStatus, off: Markup) -> Markup {
    let asked = cache.hits + cache.misses;
    let share = if asked == 0 { 0.0 } else { cache.hits as f64 / asked as f64 };
    html! {
        @if !cache.enabled {
            p.notice { (off) }
        } @else {
            dl.figures {
                (format::figure("Hits", if asked == 0 { "–".to_owned() } else { format!("{} %", format::short(share * 100.0)) }, html! { (format::count(cache.hits)) " of " (format::count(asked)) }))
                (format::figure("Written", format::count(cache.writes), "since the start"))
                (format::figure("Entries", format::count(cache.entries as u64), html! { "of these; at most " (format::count(cache.max_entries as u64)) }))
                (format::figure("Evicted", format::count(cache.evictions), html! { "to stay within " (format::bytes(cache.max_bytes as f64)) }))
                (format::figure("Ended", format::count(cache.ended), "expired, replaced, or cleared by a change"))
            }
            table.histogram { tbody {
                tr { th scope="row" { "Hits" } td.wide { (plot::bar(share)) } td.number { (format::count(cache.hits)) } }
                tr { th scope="row" { "Misses" } td.wide { (plot::bar(if asked == 0 { 0.0 } else { 1.0 - share })) } td.number { (format::count(cache.misses)) } }
            } }
        }
    }
}
