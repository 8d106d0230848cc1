//! The pages.

use axum::response::Response;
use maud::{Markup, html};

use mixer_introspect::form::encoded;
use mixer_introspect::{Page, format, not_found, parameter};

use super::{Pages, compat, status};

/// Most rows of a list on a page.
const MAX_ROWS: usize = 500;

/// `/`
pub(super) fn overview(pages: &Pages) -> Response {
    let status = status::status(&pages.plane);
    let resources: usize = status.collections.iter().map(|collection| collection.resources).sum();
    let behind = status.sinks.iter().filter(|sink| sink.state != "in sync").count();
    let unsynced = status.sources.iter().filter(|source| !source.is_synced).count();
    let pending: u64 = status.groups.iter().map(|group| group.pending_events).sum();
    Page {
        path: "/",
        title: "Overview",
        lead: html! { "What sources deliver, and what sinks have of it." },
        json: "/statusj/",
        body: html! {
            section #overview data-live {
                (pages.console.conditions_markup())
                dl.figures.four {
                    (format::figure("Publication", html! { a href="/configz/" { (status.publication) } }, html! { (pending) " changes pending" }))
                    (format::figure("Resources", html! { a href="/configz/" { (format::count(resources as u64)) } }, html! { "in " (status.collections.len()) " collections" }))
                    (format::figure("Sinks", html! { a href="/sinkz/" { (status.sinks.len()) } }, html! { (behind) " not in sync" }))
                    (format::figure("Sources", html! { a href="/sourcez/" { (status.sources.len()) } }, html! { (unsynced) " not synced" }))
                }
                (group_table(&status.groups))
                @if !status.sinks.is_empty() {
                    h2 { "Sinks" }
                    (sink_table(&status.sinks))
                }
                h2 { "Admission" }
                @if status.admission.is_enabled {
                    dl.figures {
                        (format::figure("Passed", format::count(status.admission.passed), "reviews"))
                        (format::figure("Refused", html! { a href="/admissionz/" { (format::count(status.admission.failed)) } }, "reviews"))
                    }
                } @else { p.dim { "The webhook is off: " code { "--enable-validation" } " turns it on." } }
            }
            (pages.console.stop_form("Streams end with UNAVAILABLE; sinks keep what they have and reconnect."))
        },
    }
    .answer(&pages.console)
}

fn group_table(groups: &[status::Group]) -> Markup {
    html! {
        h2 { "Groups" }
        div.scroll { table.cards {
            thead { tr { th { "Group" } th { "Publication" } th { "Published" } th { "Pending" } th { "State" } } }
            tbody { @for group in groups { tr {
                th scope="row" { (group.name) }
                td.number { (group.publication) }
                td { @match &group.published_at { Some(at) => (at), None => span.dim { "never" } } }
                td.number { (group.pending_events) }
                td {
                    @if group.is_published { span.pill.good { "published" } }
                    @else {
                        span.pill.warn { "waits" } " "
                        span.dim title=(group.waits_for.join(", ")) { "for " (group.waits_for.len()) " collections" }
                    }
                }
            } } }
        } }
    }
}

fn kind_of(state: &str) -> &'static str {
    match state {
        "in sync" | "acknowledged" => "good",
        "behind" | "outstanding" => "warn",
        "refuses" | "refused" => "bad",
        _ => "",
    }
}

fn sink_table(sinks: &[status::SinkSummary]) -> Markup {
    html! {
        div.scroll { table.cards {
            thead { tr { th { "Sink" } th { "Node" } th { "State" } th { "Acknowledged" } th { "Outstanding" } th { "Refused" } } }
            tbody { @for sink in sinks.iter().take(MAX_ROWS) { tr {
                th scope="row" { a href={ "/sinkz/#sink-" (sink.id) } { (sink.peer) } }
                td { (sink.node) }
                td { span.pill.(kind_of(sink.state)) { (sink.state) } }
                td.number { (sink.acknowledged) }
                td.number { (sink.outstanding) }
                td.number { (sink.refused) }
            } } }
        } }
        (format::shown(sinks.len().min(MAX_ROWS), sinks.len()))
    }
}

/// `/configz/`
pub(super) fn snapshots(pages: &Pages, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let opened = parameter(parameters, "collection");
    let collections = status::collections(&pages.plane);
    let is_found = |c: &&status::CollectionStatus| format::matches(q, &[c.name, c.group]);
    let found: Vec<_> = collections.iter().filter(is_found).collect();
    Page {
        path: "/configz/",
        title: "Snapshots",
        lead: html! { "What is published, by group and collection. Sinks compare versions, not content." },
        json: "/configj/",
        body: html! {
            div.bar { (format::filter(q, "collections")) }
            section #snapshots data-live {
                (group_table(&status::groups(&pages.plane)))
                @if let Some(collection) = collections.iter().find(|known| known.name == opened) {
                    (resources(pages, collection))
                }
                h2 { "Collections" }
                @if found.is_empty() { (format::nothing("No collection matches.")) }
                @else { div.scroll { table.cards {
                    thead { tr { th { "Collection" } th { "Group" } th { "Version" } th { "Resources" } } }
                    tbody { @for collection in &found { tr {
                        th scope="row" {
                            @if collection.resources > 0 { a href={ "/configz/?collection=" (encoded(collection.name)) } { (collection.name) } }
                            @else { (collection.name) }
                        }
                        td { (collection.group) }
                        td { code { (collection.version) } }
                        td.number { (collection.resources) }
                    } } }
                } } }
            }
        },
    }
    .answer(&pages.console)
}

fn resources(pages: &Pages, collection: &status::CollectionStatus) -> Markup {
    let snapshot = pages.plane.publications.cache().snapshot(collection.group);
    let content = snapshot.as_ref().and_then(|snapshot| snapshot.get(collection.name)).map(|c| c.content());
    let count = content.map_or(0, |content| content.len());
    html! {
        h2 #resources { (collection.name) }
        div.scroll { table.cards {
            thead { tr { th { "Resource" } th { "Version" } th { "Bytes" } } }
            tbody { @for resource in content.iter().flat_map(|content| content.iter()).take(MAX_ROWS) { tr {
                th scope="row" {
                    a href={ "/configz/resource?group=" (encoded(collection.group)) "&collection=" (encoded(collection.name)) "&name=" (encoded(&resource.name)) } { (resource.name) }
                }
                td { code { (resource.version) } }
                td.number { (resource.body.len()) }
            } } }
        } }
        (format::shown(count.min(MAX_ROWS), count))
    }
}

/// `/configz/resource`
pub(super) fn resource(pages: &Pages, parameters: &[(String, String)]) -> Response {
    let [group, collection, name] = ["group", "collection", "name"].map(|part| parameter(parameters, part));
    let Some(resource) = compat::find(&pages.plane, group, collection, name) else {
        return not_found(&pages.console);
    };
    let body = serde_json::to_string_pretty(&compat::body(&resource)).unwrap_or_default();
    let message = resource.type_url.rsplit('/').next().unwrap_or_default();
    Page {
        path: "/configz/",
        title: "Resource",
        lead: html! { code { (name) } " of " code { (collection) } },
        json: "",
        body: html! {
            dl.figures {
                (format::figure("Version", html! { code { (resource.version) } }, ""))
                (format::figure("Bytes", format::count(resource.body.len() as u64), html! { "of " code { (message) } }))
            }
            @for (title, pairs) in [("Labels", &resource.labels), ("Annotations", &resource.annotations)] {
                @if !pairs.is_empty() {
                    h2 { (title) }
                    dl.attributes { @for (key, value) in pairs { dt { code { (key) } } dd { (value) } } }
                }
            }
            h2 { "Body" }
            pre { (body) }
        },
    }
    .answer(&pages.console)
}

/// `/sinkz/`
pub(super) fn sinks(pages: &Pages) -> Response {
    let sinks = status::sinks(&pages.plane);
    Page {
        path: "/sinkz/",
        title: "Sinks",
        lead: html! { "Streams of sinks: what each has of every collection, and what it refused." },
        json: "/sinkj/",
        body: html! {
            section #sinks data-live {
                @if sinks.is_empty() { (format::nothing("No sink has connected yet.")) }
                @for sink in sinks.iter().take(MAX_ROWS) { (one_sink(sink)) }
                (format::shown(sinks.len().min(MAX_ROWS), sinks.len()))
            }
        },
    }
    .answer(&pages.console)
}

fn one_sink(sink: &status::Sink) -> Markup {
    let lagging = sink.collections.iter().filter(|c| !matches!(c.state, "acknowledged" | "waiting"));
    let lagging: Vec<_> = lagging.collect();
    html! {
        details #{ "sink-" (sink.id) } data-keep={ "sink-" (sink.id) } open[sink.refused > 0] {
            summary {
                span.pill.(kind_of(sink.state)) { (sink.state) } " "
                strong { (sink.peer) } " " span.dim { (sink.node) " since " (sink.since) }
            }
            @if let Some(ended) = &sink.ended { p.dim { "Ended " (ended) } }
            p { (sink.acknowledged) " of " (sink.collections.len()) " collections are up to date." }
            @if !lagging.is_empty() {
                div.scroll { table.cards {
                    thead { tr { th { "Collection" } th { "State" } th { "Published" } th { "Sent" } th { "Acknowledged" } th { "Refusal" } } }
                    tbody { @for collection in lagging.iter().take(MAX_ROWS) { tr {
                        th scope="row" { (collection.collection) }
                        td { span.pill.(kind_of(collection.state)) { (collection.state) } }
                        td { code { (collection.current) } }
                        td { code { (collection.sent.as_deref().unwrap_or("–")) } }
                        td { code { (collection.acknowledged.as_deref().unwrap_or("–")) } }
                        td { @if let Some(refused) = &collection.refused { (refused.message) " " span.dim { "code " (refused.code) ", " (refused.at) } } }
                    } } }
                } }
            }
        }
    }
}

/// `/sourcez/`
pub(super) fn sources(pages: &Pages) -> Response {
    let sources = status::sources(&pages.plane);
    Page {
        path: "/sourcez/",
        title: "Sources",
        lead: html! { "Where resources come from. Of a resource that several sources have, that of the first one counts." },
        json: "/sourcej/",
        body: html! {
            section #sources data-live {
                @if sources.is_empty() { (format::nothing("No configuration is served.")) }
                @for source in &sources {
                    h2 { (source.name) }
                    p {
                        @if source.is_synced { span.pill.good { "synced" } } @else { span.pill.warn { "not synced" } } " "
                        @if source.is_connected { span.pill.good { "connected" } } @else { span.pill.bad { "not connected" } } " "
                        span.dim { "starts: " (source.starts) ", outages: " (source.outages) }
                    }
                    @if !source.missing.is_empty() {
                        p.notice.warn { "Not complete yet: " (source.missing.join(", ")) }
                    }
                    @if let (Some(error), Some(at)) = (&source.last_error, &source.last_error_at) {
                        p.notice.bad { (error) " " span.dim { (at) } }
                    }
                    @if !source.problems.is_empty() {
                        p { "Skipped resources: " (source.skipped) ". The first problems:" }
                        ul { @for problem in source.problems.iter().take(MAX_ROWS) { li { (problem) } } }
                        (format::shown(source.problems.len().min(MAX_ROWS), source.problems.len()))
                    }
                }
            }
        },
    }
    .answer(&pages.console)
}

/// `/eventz/`
pub(super) fn events(pages: &Pages) -> Response {
    let events = status::events(&pages.plane);
    Page {
        path: "/eventz/",
        title: "Events",
        lead: html! { "The last events of sources, newest first." },
        json: "/eventj/",
        body: html! {
            section #events data-live {
                @if events.is_empty() { (format::nothing("Nothing has happened yet.")) }
                @else { div.scroll { table.cards {
                    thead { tr { th { "Time" } th { "Event" } th { "Resource" } th { "Version" } th { "Source" } } }
                    tbody { @for event in &events { tr {
                        td { (event.at) }
                        td { (event.kind) }
                        th scope="row" { (event.collection) " " code { (event.name) } }
                        td { code { (event.version) } }
                        td.dim { (event.source) }
                    } } }
                } } }
            }
        },
    }
    .answer(&pages.console)
}

/// `/admissionz/`
pub(super) fn admission(pages: &Pages) -> Response {
    let admission = status::admission(&pages.plane);
    Page {
        path: "/admissionz/",
        title: "Admission",
        lead: html! { "Reviews of resources for API servers. Refused resources are not stored." },
        json: "/admissionj/",
        body: html! {
            section #admission data-live {
                @if !admission.is_enabled { p.notice { "The webhook is off: " code { "--enable-validation" } " turns it on." } }
                dl.figures {
                    (format::figure("Passed", format::count(admission.passed), "since the start"))
                    (format::figure("Refused", format::count(admission.failed), "since the start"))
                }
                @if admission.refusals.is_empty() { (format::nothing("Nothing was refused.")) }
                @else { div.scroll { table.cards {
                    thead { tr { th { "Time" } th { "Resource" } th { "Why" } } }
                    tbody { @for refused in &admission.refusals { tr {
                        td { (refused.at) }
                        th scope="row" { code { (refused.resource) } }
                        td { (refused.message) }
                    } } }
                } } }
            }
        },
    }
    .answer(&pages.console)
}
