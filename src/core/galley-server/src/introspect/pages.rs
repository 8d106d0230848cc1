//! The pages.

use axum::response::Response;
use maud::{Markup, html};

use mixer_introspect::form::encoded;
use mixer_introspect::{Page, format, not_found, parameter, reveals};

use super::status::When;
use super::{Pages, compat, status};

/// Most rows of a list on a page.
const MAX_ROWS: usize = 500;

/// `/`
pub(super) fn overview(pages: &Pages) -> Response {
    let status = status::status(&pages.plane);
    let resources: usize = status.collections.iter().map(|collection| collection.resources).sum();
    let behind =
        status.sinks.iter().filter(|sink| !["in sync", status::READS_ONCE].contains(&sink.state)).count();
    let (bad, skipped) = status.sources.iter().fold((0, 0), |(bad, skipped), source| {
        let is_bad = !source.is_synced || !source.is_connected || source.is_withheld;
        (bad + usize::from(is_bad), skipped + source.skipped)
    });
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
                    (format::figure("Sources", html! { a href="/sourcez/" { (status.sources.len()) } }, html! {
                        @if bad > 0 { (bad) " not in order" } @else { "all in order" }
                        @if skipped > 0 { ", " (skipped) @if skipped == 1 { " resource" } @else { " resources" } " skipped" }
                    }))
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

/// How long ago, with the time itself as a tooltip.
fn at(when: &When) -> Markup {
    format::ago(when.0)
}

fn group_table(groups: &[status::Group]) -> Markup {
    html! {
        h2 { "Groups" }
        div.scroll { table.cards {
            thead { tr { th { "Group" } th.number { "Publication" } th { "Published" } th.number { "Pending" } th { "State" } } }
            tbody { @for group in groups { tr {
                th scope="row" { (group.name) }
                td.number data-label="Publication" { (group.publication) }
                td data-label="Published" { @match &group.published_at { Some(time) => (at(time)), None => span.dim { "never" } } }
                td.number data-label="Pending" { (group.pending()) }
                td data-label="State" {
                    @if group.is_published { span.pill.good { "published" } }
                    @else {
                        span.pill.warn { "waits" } " "
                        span.dim title=(group.waits_for.join(", ")) { "for " (group.waits_for.len()) " collections" }
                    }
                }
            } } }
        } }
        @for waiting in groups.iter().flat_map(|group| &group.waiting) {
            p.notice.warn { "Not published: " (waiting.source) ": " @if let Some(changes) = waiting.changes { (changes) " pending: " } (format::message(&waiting.why)) }
        }
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
            thead { tr { th { "Sink" } th { "Node" } th { "State" } th.number { "Acknowledged" } th.number { "Outstanding" } th.number { "Refused" } } }
            tbody { @for sink in sinks.iter().take(MAX_ROWS) { tr {
                th scope="row" { a href={ "/sinkz/#sink-" (sink.id) } { (sink.peer) } }
                td data-label="Node" { (sink.node) }
                td data-label="State" { span.pill.(kind_of(sink.state)) { (sink.state) } }
                td.number data-label="Acknowledged" { (sink.acknowledged) }
                td.number data-label="Outstanding" { (sink.outstanding) }
                td.number data-label="Refused" { (sink.refused) }
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
    let (found, empty): (Vec<_>, Vec<_>) =
        collections.iter().filter(is_found).partition(|collection| collection.resources > 0);
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
                @if found.is_empty() && empty.is_empty() { (format::nothing("No collection matches.")) }
                @if !found.is_empty() { (collection_table(&found)) }
                @if !empty.is_empty() {
                    details data-keep="empty" open[found.is_empty()] {
                        summary { (empty.len()) " without resources" }
                        (collection_table(&empty))
                    }
                }
            }
        },
    }
    .answer(&pages.console)
}

fn collection_table(collections: &[&status::CollectionStatus]) -> Markup {
    html! {
        div.scroll { table.cards {
            thead { tr { th { "Collection" } th { "Group" } th.number { "Version" } th.number { "Resources" } } }
            tbody { @for collection in collections { tr {
                th scope="row" {
                    @if collection.resources > 0 { a href={ "/configz/?collection=" (encoded(collection.name)) } { (collection.name) } }
                    @else { (collection.name) }
                }
                td data-label="Group" { (collection.group) }
                td.number data-label="Version" { (collection.version) }
                td.number data-label="Resources" { (format::count(collection.resources as u64)) }
            } } }
        } }
    }
}

fn resources(pages: &Pages, collection: &status::CollectionStatus) -> Markup {
    let snapshot = pages.plane.publications.cache().snapshot(collection.group);
    let content = snapshot.as_ref().and_then(|snapshot| snapshot.get(collection.name)).map(|c| c.content());
    let count = content.map_or(0, |content| content.len());
    html! {
        h2 #resources { (collection.name) }
        div.scroll { table.cards {
            thead { tr { th { "Resource" } th { "Version" } th.number { "Bytes" } } }
            tbody { @for resource in content.iter().flat_map(|content| content.iter()).take(MAX_ROWS) { tr {
                th scope="row" {
                    a href={ "/configz/resource?group=" (encoded(collection.group)) "&collection=" (encoded(collection.name)) "&name=" (encoded(&resource.name)) } { (resource.name) }
                }
                td data-label="Version" { code { (resource.version) } }
                td.number data-label="Bytes" { (format::count(resource.body.len() as u64)) }
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
    let reveals = reveals(&pages.console, parameters);
    let body = serde_json::to_string_pretty(&compat::body(&resource, reveals)).unwrap_or_default();
    let (labels, annotations) = (serde_json::json!(resource.labels), compat::annotations(&resource, reveals));
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
            @for (title, pairs) in [("Labels", &labels), ("Annotations", &annotations)] {
                @if let Some(pairs) = pairs.as_object().filter(|pairs| !pairs.is_empty()) {
                    h2 { (title) }
                    dl.attributes { @for (key, value) in pairs { dt { code { (key) } } dd { (value.as_str().unwrap_or_default()) } } }
                }
            }
            h2 { "Body" }
            pre.source { (body) }
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
    let is_done = |c: &&status::SinkCollection| matches!(c.state, "acknowledged" | "waiting");
    let (done, lagging): (Vec<_>, Vec<_>) = sink.collections.iter().partition(is_done);
    let kind = kind_of(sink.state);
    html! {
        details.verdict.(kind) #{ "sink-" (sink.id) } data-keep={ "sink-" (sink.id) } open[sink.ended.is_none() && !lagging.is_empty()] {
            summary {
                span.pill.(kind) { (sink.state) } " "
                strong { (sink.peer) } " "
                span.dim {
                    (sink.node) ", connected " (at(&sink.since))
                    @if let Some(ended) = &sink.ended_at { ", ended " (at(ended)) }
                }
            }
            @if let Some(ended) = &sink.ended { p.dim { "Ended " (ended) } }
            @if !lagging.is_empty() {
                div.scroll { table.cards {
                    thead { tr { th { "Collection" } th { "State" } th.number { "Published" } th.number { "Sent" } th.number { "Acknowledged" } th { "Since" } th { "Refusal" } } }
                    tbody { @for collection in lagging.iter().take(MAX_ROWS) { tr {
                        th scope="row" { (collection.collection) }
                        td data-label="State" { span.pill.(kind_of(collection.state)) { (collection.state) } }
                        (version_cells(collection))
                        td data-label="Since" { @if let Some(time) = &collection.sent_at { (at(time)) } }
                        td.lines data-label=[collection.refused.as_ref().map(|_| "Refusal")] {
                            @if let Some(refused) = &collection.refused {
                                div { (format::message(&refused.message)) " " span.dim { "(code " (refused.code) ", " (at(&refused.at)) ")" } }
                            }
                        }
                    } } }
                } }
            }
            details data-keep={ "sink-" (sink.id) "-done" } {
                summary { (sink.acknowledged) " of " (sink.collections.len()) " collections are up to date" }
                div.scroll { table.cards {
                    thead { tr { th { "Collection" } th { "State" } th.number { "Published" } th.number { "Sent" } th.number { "Acknowledged" } th { "At" } } }
                    tbody { @for collection in done.iter().take(MAX_ROWS) { tr {
                        th scope="row" { (collection.collection) }
                        td data-label="State" { span.pill.(kind_of(collection.state)) { (collection.state) } }
                        (version_cells(collection))
                        td data-label="At" { @if let Some(time) = &collection.acknowledged_at { (at(time)) } }
                    } } }
                } }
            }
        }
    }
}

/// Published, sent and acknowledged version.
fn version_cells(collection: &status::SinkCollection) -> Markup {
    let or_none = |version: &Option<String>| version.as_deref().unwrap_or("–").to_owned();
    html! {
        td.number data-label="Published" { (collection.current) }
        td.number data-label="Sent" { (or_none(&collection.sent)) }
        td.number data-label="Acknowledged" { (or_none(&collection.acknowledged)) }
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
                        @if source.is_withheld { span.pill.bad { "not published" } " " }
                        @if source.is_synced { span.pill.good { "synced" } } @else { span.pill.warn { "not synced" } } " "
                        @if source.is_connected { span.pill.good { "connected" } } @else { span.pill.bad { "not connected" } } " "
                        span.dim { "starts: " (source.starts) ", outages: " (source.outages) }
                    }
                    @if !source.missing.is_empty() {
                        p.notice.warn { "Not complete yet: " (source.missing.join(", ")) }
                    }
                    @if let (Some(error), Some(time)) = (&source.last_error, &source.last_error_at) {
                        @if source.is_withheld || !source.is_connected { p.notice.bad { (format::message(error)) " " span.dim { (at(time)) } } }
                        @else { p.dim { "Last error, " (at(time)) ": " (format::message(error)) } }
                    }
                    @if !source.problems.is_empty() {
                        p { "Skipped resources: " (source.skipped) ". The first problems:" }
                        ul { @for problem in source.problems.iter().take(MAX_ROWS) { li { (format::message(problem)) } } }
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
                        td data-label="Time" { (at(&event.at)) }
                        td data-label="Event" { (event.kind) }
                        th scope="row" {
                            @if event.name.is_empty() { (event.collection) }
                            @else { (event.name) " " small.dim { (event.collection) } }
                        }
                        td data-label="Version" { code { (event.version) } }
                        td.dim data-label="Source" { (event.source) }
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
                        td data-label="Time" { (at(&refused.at)) }
                        th scope="row" { code { (refused.resource) } }
                        td.lines { (refused.message.trim_end()) }
                    } } }
                } } }
            }
        },
    }
    .answer(&pages.console)
}
