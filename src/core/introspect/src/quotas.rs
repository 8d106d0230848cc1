//! Quotas and their usage.

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::{Server, configuration, format, plot};
use mixer_engine::adapter::{QuotaStatus, QuotaUse};

/// JSON of a quota.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Quota {
    handler: String,
    name: String,
    limit: i64,
    /// Go text; `0s` when clients release amounts.
    window: String,
    keys: usize,
    top: Vec<(String, i64)>,
    /// Those of `top` with an override, with their limits.
    overrides: Vec<(String, i64)>,
}

fn of_handlers(server: &Server) -> Vec<(String, QuotaStatus)> {
    let published = server.runtime.load_full();
    let of = |handler: &mixer_engine::handler::LiveHandler| {
        let name = handler.name().to_owned();
        handler.status().quotas.into_iter().map(move |quota| (name.clone(), quota)).collect::<Vec<_>>()
    };
    published.routes.handlers().iter().flat_map(|handler| of(handler)).collect()
}

/// All quotas.
pub(super) fn json(server: &Server) -> Vec<Quota> {
    of_handlers(server)
        .into_iter()
        .map(|(handler, quota)| Quota {
            overrides: overridden(&quota).map(|used| (used.key.clone(), used.limit)).collect(),
            handler,
            name: quota.name,
            limit: quota.limit,
            window: quota.window.to_string(),
            keys: quota.keys,
            top: quota.top.into_iter().map(|used| (used.key, used.used)).collect(),
        })
        .collect()
}

/// The listed keys with another limit than that of the quota.
fn overridden(quota: &QuotaStatus) -> impl Iterator<Item = &QuotaUse> {
    quota.top.iter().filter(|used| used.limit != quota.limit)
}

/// The page.
pub(super) fn page(server: &Server) -> Response {
    let quotas = of_handlers(server);
    Page {
        path: "/quotaz/",
        title: "Quotas",
        lead: html! { "Current usage by key, those closest to their limit first." },
        json: "/quotaj/",
        body: html! {
            section #quotas data-live {
                @if quotas.is_empty() { (format::nothing("No rule allocates a quota.")) }
                div.columns { @for (handler, quota) in &quotas { (card(handler, quota)) } }
            }
        },
    }
    .answer(server)
}

fn card(handler: &str, quota: &QuotaStatus) -> Markup {
    let window = if quota.window.nanos == 0 {
        html! { "until released" }
    } else {
        html! { "per " (quota.window) }
    };
    html! {
        article.card {
            h2 { (configuration::link(&quota.name)) small.dim { (handler) } }
            p { b { (quota.limit) } " per key, " (window) "; " (quota.keys) " keys in use" }
            table.histogram { tbody { @for used in &quota.top {
                @let share = used.used as f64 / used.limit.max(1) as f64;
                tr.exhausted[used.used >= used.limit] {
                    th scope="row" { @if used.key.is_empty() { span.dim { "all clients" } } @else { (used.key) } }
                    td.wide { (plot::bar(share)) }
                    td.number { span.bad[used.used >= used.limit] { (used.used) " of " (used.limit) } @if used.limit != quota.limit { " " span.pill { "override" } } }
                }
            } } }
        }
    }
}
