//! Worker pools: calls in flight, limits and queues.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::{Server, format, plot};
use mixer_base::metrics::{Family, SampleValue};

/// JSON of a pool.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pool {
    limit: u64,
    in_flight: u64,
    queued: u64,
    refused: u64,
}

/// The pools by name: `api`, and `adapter` for the sum over all handlers.
pub(super) fn json(server: &Server) -> BTreeMap<String, Pool> {
    type Field = fn(&mut Pool) -> &mut u64;
    let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
    let fields: [(Family, Field); 4] = [
        (Family::PoolLimit, |pool| &mut pool.limit),
        (Family::PoolInFlight, |pool| &mut pool.in_flight),
        (Family::PoolQueued, |pool| &mut pool.queued),
        (Family::PoolRefused, |pool| &mut pool.refused),
    ];
    for family in server.metrics.samples() {
        let Some((_, field)) = fields.iter().find(|(f, _)| f.info().name == family.info.name) else {
            continue;
        };
        for sample in family.samples {
            if let (SampleValue::Number(value), Some((_, name))) =
                (sample.value, sample.labels.into_iter().next())
            {
                *field(pools.entry(name).or_default()) = value as u64;
            }
        }
    }
    pools
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    Page {
        path: "/poolz/",
        title: "Pools",
        lead: html! { "Asynchronous calls. Synchronous calls bypass the pools." },
        json: "/poolj/",
        body: html! {
            section #pools data-live {
                div.columns { @for (name, pool) in &json(server) { (card(name, pool)) } }
            }
        },
    }
    .answer(server)
}

fn card(name: &str, pool: &Pool) -> Markup {
    let about = match name {
        "api" => "asynchronous API calls of all workers",
        _ => "asynchronous handler calls, summed over the pools of all handlers",
    };
    html! {
        article.card {
            h2 { (name) }
            p.dim { (about) }
            dl.figures.small {
                (format::figure("In flight", format::count(pool.in_flight), ""))
                (format::figure("Limit", format::count(pool.limit), ""))
                (format::figure("Queued", format::count(pool.queued), ""))
                (format::figure("Refused", html! { span.bad[pool.refused > 0] { (format::count(pool.refused)) } }, ""))
            }
            (plot::bar(pool.in_flight as f64 / pool.limit.max(1) as f64))
        }
    }
}
