//! The configuration: resources of the store, diagnostics, and each resource with its source.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use serde::Serialize;

pub(super) use super::links::{link, link_as};
use super::page::{Page, in_turns};
use super::rule_state::{self, Effect, State, States};
use super::{Server, excerpt, form, format, page, parameter, unenforced, withheld};
use mixer_base::secrets::mask_text;
use mixer_config::store::{SourceStatus, StoreContents};
use mixer_config::yaml::mask_secrets;
use mixer_config::{Diagnostic, RawResource, ResourceKey, Severity, Span};
use mixer_engine::runtime::{Published, is_about_serving};
use mixer_engine::snapshot::{Snapshot, SnapshotDump, dump};

/// Maximum number of resources on the page.
const LISTED: usize = 200;
/// Maximum number of diagnostics on the page.
const SHOWN: usize = 50;

/// The snapshot in the form of `snapshot dump`, with diagnostics of handlers and routes. Secret values are masked unless they are
/// revealed.
pub(super) fn json(published: &Published, reveals: bool) -> SnapshotDump {
    let mut found = dump(published.routes.snapshot());
    found.errors = published.diagnostics.iter().map(Into::into).collect();
    found.kept = published.kept.iter().map(|kept| kept.key.to_string()).collect();
    if !reveals {
        found.mask_secrets();
    }
    found
}

/// JSON of a diagnostic.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Problem {
    severity: &'static str,
    code: &'static str,
    resource: String,
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    field: String,
    message: String,
    hint: Option<String>,
}

/// All diagnostics.
pub(super) fn diagnostics(published: &Published) -> Vec<Problem> {
    let problem = |d: &Diagnostic| Problem {
        severity: d.severity.name(),
        code: d.code,
        resource: d.resource.clone(),
        file: d.file.as_deref().map(str::to_owned),
        line: known_position(d).map(|span| span.start.line),
        column: known_position(d).map(|span| span.start.column),
        field: d.field.to_string(),
        message: mask_text(&d.message).into_owned(),
        hint: d.hint.as_deref().map(|hint| mask_text(hint).into_owned()),
    };
    published.all_diagnostics().map(problem).collect()
}

/// The highest severity by resource.
fn worst(published: &Published) -> BTreeMap<&str, Severity> {
    let mut worst: BTreeMap<&str, Severity> = BTreeMap::new();
    for diagnostic in published.all_diagnostics() {
        let known = worst.entry(&diagnostic.resource).or_insert(diagnostic.severity);
        *known = (*known).min(diagnostic.severity);
    }
    worst
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let (q, kind) = (parameter(parameters, "q"), parameter(parameters, "kind"));
    let published = server.runtime.load_full();
    let contents = server.store.contents();
    Page {
        path: "/configz/",
        title: "Configuration",
        lead: html! { "Resources of the store." @if published.withheld.is_none() { " Snapshot " a href="/historyz/" { (published.id()) } " is published." } },
        json: "/snapshotj/",
        body: html! {
            section #store { (store(server, &contents, &published)) }
            @if let Some(status) = server.store.source() { section #source { (source(&status)) } }
            (problems(&published, &contents, q))
            (resources(&published, &contents, q, kind))
        },
    }
    .answer(server)
}

fn store(server: &Server, contents: &StoreContents, published: &Published) -> Markup {
    let of = |severity| published.problems(severity);
    let effect = Effect::of(published);
    html! {
        (withheld::notice(published))
        @if !published.kept.is_empty() {
            div.notice.warn role="alert" #kept {
                strong { (format::counted(published.kept.len() as u64, "resource")) @if published.kept.len() == 1 { " serves in its previous version" } @else { " serve in their previous version" } }
                ul { @for kept in published.kept.iter().take(SHOWN) {
                    li { (link(&kept.key.to_string())) " since " (kept.since.rfc3339_micros()) ": " (format::message(&kept.why)) }
                } }
            }
        }
        @if let Some(why) = &contents.unavailable {
            p.notice.bad role="alert" { strong { "The store cannot be read: " } (format::message(why)) ". The last configuration stays published." }
        } @else if let Err(outage) = server.store.availability() {
            p.notice.warn role="alert" #outage { strong { "The store cannot be followed: " } (format::message(&mask_text(&outage.why))) ". What it had stays in effect." }
        }
        dl.figures {
            (format::figure("Store", html! { code { (server.store.url()) } }, ""))
            @if server.store.source().is_none() { (format::figure("Files", contents.files, "")) }
            (format::figure("Resources", contents.resources.len(), ""))
            (format::figure("Rules", html! { a href="/rulez/" { (effect.in_effect) } }, effect.note()))
            (format::figure("Errors", html! { span.bad[of(Severity::Error) > 0] { (of(Severity::Error)) } }, ""))
            (format::figure("Warnings", of(Severity::Warning), ""))
            (format::figure("On errors", html! { code { (server.runtime.on_config_error().name()) } }, "--config-on-error"))
        }
    }
}

/// The server that feeds the store: since when it is followed, and what has arrived.
fn source(status: &SourceStatus) -> Markup {
    let age =
        |at: Option<Instant>| at.map_or_else(|| "–".to_owned(), |at| format!("{} s", at.elapsed().as_secs()));
    html! {
        dl.figures {
            (format::figure("Source", html! { @if status.peer.is_empty() { "not connected" } @else { code { (status.peer) } } }, ""))
            (format::figure("Followed for", age(status.connected_since), ""))
            (format::figure("Last message", age(status.last_message), "ago"))
            (format::figure("Connections", status.connections, "since the start"))
        }
        @if let Some(refusal) = &status.last_refusal {
            p.notice.warn role="alert" #refusal { strong { "A change was refused: " } (format::message(&mask_text(refusal))) }
        }
        div.scroll { table.cards {
            thead { tr { th { "Collection" } th { "Version" } th { "Objects" } th { "Cannot be read" } th { "Last message" } } }
            tbody { @for known in &status.collections {
                tr {
                    th scope="row" { code { (known.name) } }
                    td data-label="Version" { @if known.is_synced { (known.version) } @else { span.pill.warn { "not received yet" } }
                        @if let Some(trouble) = &known.trouble { " " span.pill.warn { (format::message(&mask_text(trouble))) } } }
                    td data-label="Objects" { (known.objects) }
                    td data-label="Cannot be read" { span.bad[known.broken > 0] { (known.broken) } }
                    td data-label="Last message" { (age(known.last_message)) }
                }
            } }
        } }
    }
}

/// Whether the notices of [`store`] say it. The figures do not count it.
fn is_told_above(diagnostic: &Diagnostic, published: &Published) -> bool {
    is_about_serving(diagnostic.code)
        && match diagnostic.code {
            "config-kept" => !published.kept.is_empty(),
            "config-withheld" => published.withheld.is_some(),
            _ => false,
        }
}

fn problems(published: &Published, contents: &StoreContents, q: &str) -> Markup {
    let found: Vec<&Diagnostic> = published
        .all_diagnostics()
        .filter(|d| !is_told_above(d, published))
        .filter(|d| format::matches(q, &[&d.resource, &d.message, d.code, d.file.as_deref().unwrap_or("")]))
        .collect();
    html! {
        @if !found.is_empty() {
            h2 #problems { "Problems" }
            @for diagnostic in in_turns(&found).take(SHOWN) { (problem(diagnostic, contents)) }
            (format::shown(found.len().min(SHOWN), found.len()))
        }
    }
}

/// The position of a problem in its file. An object of a server has none: its field says where the problem is.
fn known_position(diagnostic: &Diagnostic) -> Option<Span> {
    diagnostic.span.filter(|span| span.start.line > 0)
}

/// A diagnostic with its source.
fn problem(diagnostic: &Diagnostic, contents: &StoreContents) -> Markup {
    let class = match diagnostic.severity {
        Severity::Error => "bad",
        Severity::Warning => "warn",
        Severity::Info => "info",
    };
    html! {
        article.problem.(class) {
            header {
                span.pill.(class) { (diagnostic.severity.name()) }
                code.dim { (diagnostic.code) }
                @if !diagnostic.resource.is_empty() { (link(&diagnostic.resource)) }
                @if let Some(file) = &diagnostic.file {
                    span.dim.place { (file) @match known_position(diagnostic) {
                        Some(span) => { ":" (span.start.line) ":" (span.start.column) }
                        None => { @if !diagnostic.field.is_root() { " " code { (diagnostic.field) } } }
                    } }
                }
            }
            p { (format::message(&mask_text(&diagnostic.message))) }
            (excerpt::excerpt(diagnostic, contents))
            @if let Some(hint) = &diagnostic.hint { p.hint { (format::message(&mask_text(hint))) } }
        }
    }
}

/// The first errors, for the overview.
pub(super) fn first_errors(server: &Server) -> Markup {
    let published = server.runtime.load_full();
    let contents = server.store.contents();
    let errors = published.all_diagnostics().filter(|d| d.severity == Severity::Error);
    html! {
        @for diagnostic in errors.take(3) { (problem(diagnostic, &contents)) }
        p { a href="/configz/#problems" { "All problems" } }
    }
}

/// Whether a resource has a namespace. A file of rate limits has a domain only; its key has that of its kind.
fn has_namespace(resource: &RawResource) -> bool {
    resource.key.kind != resource.key.namespace || resource.document().get("metadata").is_some()
}

/// The resources of the handlers of a snapshot, by the names of these.
pub(super) struct HandlerLinks<'s>(HashMap<&'s str, &'s ResourceKey>);

impl<'s> HandlerLinks<'s> {
    pub(super) fn of(snapshot: &'s Snapshot) -> Self {
        Self(snapshot.handlers.iter().map(|handler| (&*handler.name, &handler.key)).collect())
    }

    /// The name of a handler, as a link if it is configured.
    pub(super) fn show(&self, name: &str) -> Markup {
        link_as(&self.0.get(name).map(|key| key.to_string()).unwrap_or_default(), name)
    }
}

fn resources(published: &Published, contents: &StoreContents, q: &str, kind: &str) -> Markup {
    let worst = worst(published);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for resource in contents.resources.iter() {
        *kinds.entry(&resource.key.kind).or_default() += 1;
    }
    let found: Vec<(String, &Arc<RawResource>)> = contents
        .resources
        .iter()
        .filter(|resource| kind.is_empty() || *resource.key.kind == *kind)
        .map(|resource| (resource.key.to_string(), resource))
        .filter(|(name, resource)| format::matches(q, &[name, &resource.origin.file]))
        .collect();
    html! {
        h2 { "Resources" }
        div.bar {
            (format::filter(q, "resources and problems"))
            nav.tabs aria-label="Kinds" {
                a href={ "/configz/?q=" (form::encoded(q)) } aria-current=[kind.is_empty().then_some("true")] { "all" }
                @for (name, count) in &kinds {
                    a href={ "/configz/?kind=" (form::encoded(name)) "&q=" (form::encoded(q)) } aria-current=[(*name == kind).then_some("true")] {
                        (name) " " small { (count) }
                    }
                }
            }
        }
        div #resources data-filtered {
            div.scroll { table.cards {
                thead { tr { th { "Name" } th { "Kind" } th { "Namespace" } th { "Source" } th { "State" } } }
                tbody { @for (name, resource) in in_turns(&found).take(LISTED) {
                    tr {
                        th scope="row" { a href={ "/configz/resource?name=" (form::encoded(name)) } { (resource.key.name) } }
                        td data-label="Kind" { (resource.key.kind) }
                        td data-label="Namespace" { @if has_namespace(resource) { (resource.key.namespace) } @else { span.dim title="a file of rate limits has none" { "–" } } }
                        td.dim data-label="Source" { (resource.origin.place()) }
                        td data-label="State" { @match worst.get(name.as_str()) {
                            Some(Severity::Error) => span.pill.bad { "error" },
                            Some(Severity::Warning) => span.pill.warn { "warning" },
                            Some(Severity::Info) => span.pill.info { "note" },
                            None => span.pill.good { "ok" },
                        } }
                    }
                } }
            } }
            @if found.is_empty() { (format::nothing("No resource matches.")) }
            (format::shown(found.len().min(LISTED), found.len()))
        }
    }
}

/// What uses a resource: rules a handler or an instance; handlers an adapter; adapters and instances a template.
fn users(snapshot: &Snapshot, key: &ResourceKey) -> Vec<ResourceKey> {
    let rules = snapshot.rules.iter().filter(|rule| {
        rule.actions.iter().any(|a| a.handler.key == *key || a.instances.iter().any(|i| i.key == *key))
    });
    let handlers = snapshot.handlers.iter();
    let handlers = handlers.filter(|h| h.external.as_ref().is_some_and(|external| external.key == *key));
    let template = snapshot.external.templates.iter().find(|template| template.key == *key);
    let adapters = snapshot.external.adapters.iter().filter(|adapter| {
        template.is_some_and(|t| adapter.templates.iter().any(|taken| taken.name == t.template.name))
    });
    let instances = snapshot.instances.iter().filter(|instance| instance.external.as_ref() == Some(key));
    let names = rules.map(|rule| &rule.key).chain(handlers.map(|handler| &handler.key));
    let names = names.chain(adapters.map(|a| &a.key)).chain(instances.map(|instance| &instance.key));
    names.take(LISTED).cloned().collect()
}

/// What a rule uses: its handlers and instances.
fn used(snapshot: &Snapshot, key: &ResourceKey) -> Vec<ResourceKey> {
    let mut all: Vec<ResourceKey> = Vec::new();
    let rules = snapshot.rules.iter().filter(|rule| rule.key == *key);
    for action in rules.flat_map(|rule| &rule.actions) {
        all.push(action.handler.key.clone());
        all.extend(action.instances.iter().map(|instance| instance.key.clone()));
    }
    let mut known = std::collections::HashSet::new();
    all.retain(|key| known.insert(key.clone()));
    all.truncate(LISTED);
    all
}

/// Names with their places, `file:line`.
fn placed(keys: Vec<ResourceKey>, contents: &StoreContents) -> Vec<(String, String)> {
    let place = |name: &str| excerpt::find(contents, name).map(|found| found.origin.place());
    keys.into_iter()
        .map(|key| key.to_string())
        .map(|name| (place(&name).unwrap_or_default(), name))
        .map(|(place, name)| (name, place))
        .collect()
}

/// The page of a resource: diagnostics, source, effective parameters and references.
pub(super) fn resource(server: &Server, parameters: &[(String, String)]) -> Response {
    let name = parameter(parameters, "name");
    let published = server.runtime.load_full();
    let contents = server.store.contents();
    let Some(found) = excerpt::find(&contents, name) else {
        return Page {
            path: "/configz/",
            title: "Configuration",
            lead: html! { "There is no resource " code { (name) } "." },
            json: "",
            body: html! { p { a href="/configz/" { "All resources" } } },
        }
        .answer_with(StatusCode::NOT_FOUND, server);
    };
    let snapshot = published.routes.snapshot();
    let full_name = found.key.to_string();
    let users = placed(users(snapshot, &found.key), &contents);
    let used = placed(used(snapshot, &found.key), &contents);
    let rule = snapshot.rules.get(&found.key);
    let is_tried = rule.is_some_and(|rule| rule.dry_run);
    let tried = is_tried.then(|| server.metrics.dry_run_outcomes().remove(&full_name).unwrap_or_default());
    let counts = rule.filter(|rule| !rule.dry_run).map(|_| server.metrics.counts_of_rule(&full_name));
    let others = server.metrics.counts_of_other_rules();
    let is_shadow = rule.is_some_and(|rule| States::of(&published).state(rule) == State::Shadow);
    let effective = snapshot
        .handlers
        .iter()
        .find(|h| h.key == found.key)
        .map(|h| serde_json::to_string_pretty(&h.params.to_json()).unwrap_or_default());
    page::Page {
        path: "/configz/",
        title: "Configuration",
        lead: html! { a href="/configz/" { "All resources" } " / " code { (full_name) } },
        json: "",
        body: html! {
            p.dim { (found.origin.place()) }
            @if is_shadow { (unenforced::checks(&published)) }
            @if let Some(tried) = &tried { p #counts { "In dry run: " (rule_state::would_have(tried)) } }
            @match counts {
                Some(Some(counts)) => p #counts {
                    (rule_state::counted(counts))
                    @if is_shadow { "; in shadow mode: " (rule_state::would_have(&rule_state::in_shadow(counts))) }
                },
                Some(None) => p #counts { (rule_state::counted_with_others(others)) },
                None => {},
            }
            @if let Some(kept) = published.kept.iter().find(|kept| kept.key == found.key) {
                p.notice.warn role="alert" { "The previous version serves, not this one, since " (kept.since.rfc3339_micros()) ": " (format::message(&kept.why)) }
            }
            @for diagnostic in published.all_diagnostics().filter(|d| d.resource == full_name) { (problem(diagnostic, &contents)) }
            h2 { "Source" }
            (excerpt::numbered(&found.origin.text, found.origin.first_line.max(1)))
            @if let Some(effective) = effective {
                h2 { "Effective parameters" }
                pre.source { (mask_secrets(&effective)) }
            }
            @if !used.is_empty() {
                h2 { "Uses" }
                ul.plain { @for (name, place) in used { li { (link(&name)) " " span.dim { (place) } } } }
            }
            @if !users.is_empty() {
                h2 { "Used by" }
                ul.plain { @for (user, place) in users { li { (link(&user)) " " span.dim { (place) } } } }
            }
        },
    }
    .answer(server)
}
