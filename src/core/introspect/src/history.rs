//! Published snapshots and the difference between any two.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::page::Page;
use super::{Server, configuration, format, parameter};
use mixer_config::yaml::mask_secrets;
use mixer_engine::runtime::{HistoryEntry, ResourceChange};
use mixer_engine::snapshot::SnapshotId;

/// Maximum number of resources in a diff.
const SHOWN: usize = 100;
/// Maximum number of resource names per entry.
const NAMED: usize = 4;

/// JSON of an entry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    id: u64,
    /// Unix time in milliseconds.
    published: u64,
    took_seconds: f64,
    applied: bool,
    changed: usize,
    rules: usize,
    new_handlers: u64,
    reused_handlers: u64,
    failed_handlers: u64,
    errors: usize,
    warnings: usize,
    changes: Vec<(String, &'static str)>,
}

fn word(change: &ResourceChange) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    }
}

/// The history, newest first.
pub(super) fn json(server: &Server) -> Vec<Entry> {
    let entry = |e: &Arc<HistoryEntry>| Entry {
        id: e.id.0,
        published: e
            .published
            .time()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        took_seconds: e.took.as_secs_f64(),
        applied: e.is_applied,
        changed: e.changed,
        rules: e.tally.rules,
        new_handlers: e.tally.new_handlers,
        reused_handlers: e.tally.reused_handlers,
        failed_handlers: e.tally.failed_handlers,
        errors: e.tally.errors,
        warnings: e.tally.warnings,
        changes: e.changes.iter().map(|c| (c.key.to_string(), word(c))).collect(),
    };
    server.runtime.history().list().iter().map(entry).collect()
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let entries = server.runtime.history().list();
    let now = server.runtime.load().id();
    let found: Vec<&Arc<HistoryEntry>> = entries
        .iter()
        .filter(|e| q.is_empty() || e.changes.iter().any(|c| format::matches(q, &[&c.key.to_string()])))
        .collect();
    let newest = entries.first().map(|e| e.id);
    let second = entries.get(1).map(|e| e.id);
    Page {
        path: "/historyz/",
        title: "Snapshot History",
        lead: html! { "Every configuration change publishes a snapshot. The last " (mixer_engine::runtime::MAX_HISTORY) " are kept as diffs." },
        json: "/historyj/",
        body: html! {
            div.bar { (format::filter(q, "by changed resource")) }
            form #compare method="get" action="/historyz/diff" {
                @if entries.len() > 1 { p.bar { button.primary { "Compare selected" } } }
                div.scroll { table.numbers.cards {
                    thead { tr { th { "From" } th { "To" } th { "Snapshot" } th { "Published" } th.number { "Took" } th { "Changes" } th { "Handlers" } th { "Problems" } } }
                    tbody { @for entry in &found {
                        tr.here[entry.id == now] {
                            td data-label="From" { input type="radio" name="from" value=(entry.id) checked[Some(entry.id) == second] aria-label={ "from " (entry.id) }; }
                            td data-label="To" { input type="radio" name="to" value=(entry.id) checked[Some(entry.id) == newest] aria-label={ "to " (entry.id) }; }
                            th scope="row" { (entry.id) @if entry.id == now { " " span.pill.good { "published" } } @if !entry.is_applied { " " span.pill.bad { "not applied" } } }
                            td data-label="Published" { (format::ago(entry.published)) }
                            td.number data-label="Took" { (format::seconds(entry.took.as_secs_f64())) }
                            td data-label="Changes" { (changes(entry)) }
                            td data-label="Handlers" { (entry.tally.new_handlers) " new, " (entry.tally.reused_handlers) " kept"
                                @if entry.tally.failed_handlers > 0 { ", " span.bad { (entry.tally.failed_handlers) " failed" } } }
                            td data-label="Problems" { span.bad[entry.tally.errors > 0] { (entry.tally.errors) " errors" } ", " (entry.tally.warnings) " warnings" }
                        }
                    } }
                } }
            }
            @if found.is_empty() { (format::nothing("No snapshot matches.")) }
        },
    }
    .answer(server)
}

fn changes(entry: &HistoryEntry) -> Markup {
    html! {
        @if entry.changes.is_empty() && entry.changed > 0 { (entry.changed) " resources read" }
        @else if entry.changes.is_empty() { span.dim { "diagnostics only" } }
        @else {
            a href={ "/historyz/diff?from=" (entry.id.0.saturating_sub(1)) "&to=" (entry.id) } { (entry.changed) @if entry.changed == 1 { " resource" } @else { " resources" } }
            @for change in entry.changes.iter().take(NAMED) { br; small.change.(word(change)) { (change.key) } }
            @if entry.changes.len() > NAMED { br; small.dim { "and others" } }
        }
    }
}

/// The page that compares two snapshots.
pub(super) fn diff_page(server: &Server, parameters: &[(String, String)]) -> Response {
    let number = |name| parameter(parameters, name).parse::<u64>().ok().map(SnapshotId);
    let (Some(a), Some(b)) = (number("from"), number("to")) else {
        return problem(server, "Select two snapshots.");
    };
    let (from, to) = (a.min(b), a.max(b));
    let history = server.runtime.history();
    let Some(found) = history.between(from, to) else {
        return problem(server, "One of the snapshots is no longer available.");
    };
    let cut = history.list().iter().any(|e| e.id > from && e.id <= to && e.is_cut());
    Page {
        path: "/historyz/",
        title: "Snapshot History",
        lead: html! { a href="/historyz/" { "All snapshots" } " / from " b { (from) } " to " b { (to) } ": " (found.len()) " resources differ" },
        json: "",
        body: html! {
            @if cut { p.notice.warn { "The change was too large to be kept completely." } }
            @if found.is_empty() { (format::nothing("The snapshots are equal.")) }
            @for change in found.iter().take(SHOWN) { (difference(change)) }
            (format::shown(found.len().min(SHOWN), found.len()))
        },
    }
    .answer(server)
}

fn problem(server: &Server, text: &str) -> Response {
    Page {
        path: "/historyz/",
        title: "Snapshot History",
        lead: html! { a href="/historyz/" { "All snapshots" } },
        json: "",
        body: html! { p.notice.warn { (text) } },
    }
    .answer_with(StatusCode::NOT_FOUND, server)
}

fn difference(change: &ResourceChange) -> Markup {
    let text = |side: &Option<Arc<mixer_config::RawResource>>| {
        side.as_ref()
            .map(|r| mask_secrets(r.origin.text.trim_start_matches("---").trim()).into_owned())
            .unwrap_or_default()
    };
    let (before, after) = (text(&change.before), text(&change.after));
    let diff = TextDiff::from_lines(&before, &after);
    let place = change.after.as_ref().or(change.before.as_ref());
    html! {
        article.problem {
            header {
                span.pill.(word(change)) { (word(change)) }
                @if change.after.is_some() { (configuration::link(&change.key.to_string())) } @else { code { (change.key) } }
                @if let Some(resource) = place { span.dim.place { (resource.origin.place()) } }
            }
            @if before == after { p.dim { "Only masked values differ." } }
            pre.source.diff { @for group in diff.grouped_ops(3) { @for op in group { @for line in diff.iter_changes(&op) {
                @let (class, sign) = match line.tag() { ChangeTag::Delete => ("del", "-"), ChangeTag::Insert => ("ins", "+"), ChangeTag::Equal => ("same", " ") };
                span.line.(class) { span.number { (sign) } (line.value().trim_end_matches('\n')) "\n" }
            } } } }
        }
    }
}
