//! Recently denied checks, with a link to the explanation.

use std::time::UNIX_EPOCH;

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::{Server, format, parameter, plot};
use mixer_engine::denials::{Denial, KEPT, KEPT_A_SECOND, status_name};

/// JSON of a denied check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refused {
    id: u64,
    /// Unix time in milliseconds.
    time: u64,
    code: i32,
    status: &'static str,
    message: String,
    snapshot: u64,
    cached: bool,
    attributes: Option<Vec<(String, String)>>,
}

fn all(server: &Server) -> Vec<Denial> {
    let published = server.runtime.load_full();
    server.runtime.denials().list(&published.routes.snapshot().vocabulary)
}

/// The recorded denials, newest first.
pub(super) fn json(server: &Server) -> Vec<Refused> {
    let refused = |d: &Denial| Refused {
        id: d.id,
        time: d
            .time
            .duration_since(UNIX_EPOCH)
            .map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        code: d.code,
        status: status_name(d.code),
        message: d.message.clone(),
        snapshot: d.snapshot,
        cached: d.cached,
        attributes: d.attributes.clone(),
    };
    all(server).iter().map(refused).collect()
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let denials = server.runtime.denials();
    let all = all(server);
    let found: Vec<&Denial> = all.iter().filter(|d| is_wanted(d, q)).collect();
    let trend = server.trend.view();
    Page {
        path: "/denialz/",
        title: "Recent Denials",
        lead: html! { "Recently denied checks: at most " (KEPT_A_SECOND) " per second and worker are recorded, " (KEPT) " in total. Secret values are masked." },
        json: "/denialj/",
        body: html! {
            div.bar { (format::filter(q, "by status, message or attribute")) }
            section #denials data-live {
                dl.figures {
                    (format::figure("Refused", format::count(denials.total()), "since the start"))
                    @for (code, count) in denials.by_code() { (format::figure(code, format::count(count), "")) }
                }
                div.plots { (plot::lines("Denials per second", &[("denials", &trend.denials)], plot::Unit::Count)) }
                @if found.is_empty() { (format::nothing("No denied check matches.")) }
                ol.denials reversed { @for denial in &found { (item(denial)) } }
            }
        },
    }
    .answer(server)
}

fn is_wanted(denial: &Denial, q: &str) -> bool {
    let mut texts = vec![status_name(denial.code), &denial.message];
    texts
        .extend(denial.attributes.iter().flatten().flat_map(|(name, value)| [name.as_str(), value.as_str()]));
    format::matches(q, &texts)
}

fn item(denial: &Denial) -> Markup {
    html! {
        li #{ "denial-" (denial.id) } {
            details data-keep={ "denial-" (denial.id) } {
                summary {
                    span.pill.bad { (status_name(denial.code)) } " "
                    span.message { (denial.message) @if denial.message.is_empty() { span.dim { "no message" } } } " "
                    @if denial.cached { span.pill { "from the cache" } " " }
                    span.dim { (format::ago(denial.time)) }
                }
                p { a.button href={ "/explainz/?denial=" (denial.id) } { "Explain" } " " span.dim { "snapshot " (denial.snapshot) ", " (format::instant(denial.time)) } }
                @if denial.attributes.is_none() { p.dim { "The request was too large to be recorded." } }
                dl.attributes { @for (name, value) in denial.attributes.iter().flatten() { dt { code { (name) } } dd { (value) } } }
            }
        }
    }
}
