//! The routing table.

use std::collections::BTreeSet;

use axum::response::Response;
use maud::{Markup, html};

use super::configuration::HandlerLinks;
use super::page::Page;
use super::{Server, configuration, explain, form, format, parameter, withheld};
use mixer_engine::routing::{DestinationOutline, GroupOutline, RoutingOutline, outline};
use mixer_engine::runtime::Published;
use mixer_engine::snapshot::MappingOutline;
use mixer_engine::template::Variety;

/// Maximum number of routes on the page.
const LISTED: usize = 300;

/// The routing table in the form of `routes show`.
pub(super) fn json(published: &Published) -> RoutingOutline {
    let handlers = published.routes.handlers();
    let mut found = outline(published.routes.snapshot(), &|handler| handlers.get(&handler.key).is_some());
    found.withheld = published.withheld.as_deref().map(str::to_owned);
    let kept: BTreeSet<String> = published.kept.iter().map(|kept| kept.key.to_string()).collect();
    if !kept.is_empty() {
        for group in found.groups_mut() {
            group.previous_version =
                group.rules.iter().filter(|rule| kept.contains(*rule)).cloned().collect();
        }
    }
    found
}

/// A row of the table.
struct Row<'o> {
    variety: &'o str,
    namespace: &'o str,
    destination: &'o DestinationOutline,
    group: &'o GroupOutline,
}

fn short(variety: &str) -> String {
    variety.trim_start_matches("TEMPLATE_VARIETY_").to_ascii_lowercase().replace('_', " ")
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let (q, variety) = (parameter(parameters, "q"), parameter(parameters, "variety"));
    let published = server.runtime.load_full();
    let (outline, handlers) = (json(&published), HandlerLinks::of(published.routes.snapshot()));
    let rows = rows(&outline, q, variety);
    Page {
        path: "/routesz/",
        title: "Routes",
        lead: html! { "Routes from requests to handlers. Every namespace inherits those of " code { (outline.default_namespace) } "." },
        json: "/routesj/",
        body: html! {
            details.try open[q.is_empty() && variety.is_empty()] {
                summary { "Try a request" }
                (explain::form("", server, None))
            }
            div.bar {
                (format::filter(q, "routes"))
                nav.tabs aria-label="Varieties" {
                    a href={ "/routesz/?q=" (form::encoded(q)) } aria-current=[variety.is_empty().then_some("true")] { "all" }
                    @for known in &outline.varieties {
                        a href={ "/routesz/?variety=" (form::encoded(&known.variety)) "&q=" (form::encoded(q)) } aria-current=[(known.variety == variety).then_some("true")] { (short(&known.variety)) }
                    }
                }
            }
            div #routes data-filtered {
                (withheld::notice(&published))
                div.scroll { table.cards {
                    thead { tr { th { "Requests" } th { "Namespace" } th { "Condition" } th { "Handler" } th { "Instances" } th { "Rules" } } }
                    tbody { @for row in rows.iter().take(LISTED) { (row_markup(row, &handlers, outline.shadows_checks())) } }
                } }
                @if rows.is_empty() { (format::nothing(if q.is_empty() && variety.is_empty() { "There are none." } else { "No route matches." })) }
                (format::shown(rows.len().min(LISTED), rows.len()))
                @if variety.is_empty() { (of_envoy(&outline, q)) }
            }
        },
    }
    .answer(server)
}

/// Mappings of attributes, limits of descriptors, and quotas for Envoy.
fn of_envoy(outline: &RoutingOutline, q: &str) -> Markup {
    let is_wanted = |m: &&MappingOutline| format::matches(q, &[&m.what, &m.from, &m.to, &m.place]);
    let found: Vec<&MappingOutline> = outline.envoy.iter().filter(is_wanted).collect();
    html! {
        @if !found.is_empty() {
            h2 #envoy { "Envoy" }
            div.scroll { table.cards {
                thead { tr { th { "Kind" } th { "From" } th { "To" } th { "Source" } } }
                tbody { @for mapping in found.iter().take(LISTED) {
                    tr {
                        th scope="row" { (mapping.what) }
                        td data-label="From" { code { (mapping.from) } }
                        td data-label="To" { code { (mapping.to) } }
                        td.dim data-label="Source" { (configuration::link_as(&mapping.resource, &mapping.place)) }
                    }
                } }
            } }
            (format::shown(found.len().min(LISTED), found.len()))
        }
    }
}

fn rows<'o>(outline: &'o RoutingOutline, q: &str, variety: &str) -> Vec<Row<'o>> {
    let mut rows = Vec::new();
    for v in outline.varieties.iter().filter(|v| variety.is_empty() || v.variety == variety) {
        for namespace in &v.namespaces {
            for destination in &namespace.destinations {
                for group in &destination.groups {
                    let mut texts = vec![
                        v.variety.as_str(),
                        &namespace.namespace,
                        &destination.handler,
                        &destination.adapter,
                        group.condition.as_deref().unwrap_or("always"),
                    ];
                    texts.extend(group.rules.iter().chain(&group.instances).map(String::as_str));
                    if format::matches(q, &texts) {
                        rows.push(Row {
                            variety: &v.variety,
                            namespace: &namespace.namespace,
                            destination,
                            group,
                        });
                    }
                }
            }
        }
    }
    rows
}

/// `shadows_checks`: whether checks of Envoy are answered OK whatever the rules say.
fn row_markup(row: &Row<'_>, handlers: &HandlerLinks<'_>, shadows_checks: bool) -> Markup {
    let is_shadow = shadows_checks && row.variety == Variety::Check.name();
    let is_kept = |name: &String| row.group.previous_version.contains(name);
    let names = |list: &[String]| {
        html! { @for (i, name) in list.iter().enumerate() {
            @if i > 0 { br; }
            (configuration::link(name)) @if is_kept(name) { " " span.pill.warn { "previous version" } }
        } }
    };
    html! {
        tr {
            td data-label="Requests" { (short(row.variety)) }
            td data-label="Namespace" { (row.namespace) @if row.destination.inherited { " " span.pill { "inherited" } } }
            td data-label="Condition" { @match &row.group.condition { Some(text) => code.expression { (text) }, None => span.dim { "always" } } }
            th scope="row" data-label="Handler" { (handlers.show(&row.destination.handler)) " " small.dim { (row.destination.adapter) } }
            td data-label="Instances" { (names(&row.group.instances)) }
            td data-label="Rules" {
                (names(&row.group.rules))
                @if row.group.dry_run { " " span.pill { "dry run" } }
                @else if is_shadow { " " span.pill { "shadow" } }
            }
        }
    }
}
