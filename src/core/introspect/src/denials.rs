//! Recently denied checks, with a link to the explanation.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::{Server, configuration, excerpt, explain, format, parameter, plot, unenforced};
use mixer_base::log::escaped;
use mixer_config::store::StoreContents;
use mixer_engine::denials::{
    Denial, DenialGroup, DenialGroups, DenialKind, KEPT, KEPT_A_SECOND, MAX_GROUPS, status_name,
};
use mixer_engine::snapshot::{InstanceConfig, Snapshot};
use mixer_engine::template::Variety;

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
    /// What refused it: `rule`, `quota`, `limit` or `server`.
    kind: &'static str,
    /// Its name; empty for the server.
    by: String,
    snapshot: u64,
    cached: bool,
    attributes: Option<Vec<(String, String)>>,
    /// Names of those whose values are cut.
    cut: Vec<String>,
    /// Names of those whose values are masked.
    masked: Vec<String>,
    /// How many are not recorded.
    left_out: usize,
}

fn all(server: &Server) -> Vec<Denial> {
    let published = server.runtime.load_full();
    server.runtime.denials().list(&published.routes.snapshot().vocabulary)
}

/// The recorded denials, newest first.
pub(super) fn json(server: &Server) -> Vec<Refused> {
    let refused = |d: &Denial| Refused {
        id: d.id,
        time: milliseconds(d.time.time()),
        code: d.code,
        status: status_name(d.code),
        message: d.message.clone(),
        kind: d.kind.name(),
        by: d.by.clone(),
        snapshot: d.snapshot,
        cached: d.cached,
        attributes: d.attributes.clone(),
        cut: d.cut.clone(),
        masked: d.masked.clone(),
        left_out: d.left_out,
    };
    all(server).iter().map(refused).collect()
}

/// JSON of the groups.
#[derive(Debug, Serialize)]
pub(super) struct Grouped {
    groups: Vec<Group>,
    /// Denials of groups that are not listed because there were too many.
    others: u64,
}

/// JSON of a group.
#[derive(Debug, Serialize)]
struct Group {
    kind: &'static str,
    by: String,
    service: String,
    caller: String,
    count: u64,
    /// Unix time in milliseconds.
    last: u64,
    /// The id of the last recorded denial.
    sample: Option<u64>,
}

fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX))
}

/// Denials by what refused them, by service and by caller.
pub(super) fn groups_json(server: &Server) -> Grouped {
    let DenialGroups { list, others } = server.runtime.denials().groups();
    let groups = list.into_iter().map(|group| Group {
        kind: group.kind.name(),
        by: group.by,
        service: group.service,
        caller: group.caller,
        count: group.count,
        last: milliseconds(group.last.time()),
        sample: group.sample,
    });
    Grouped { groups: groups.collect(), others }
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let denials = server.runtime.denials();
    let all = all(server);
    let found: Vec<&Denial> = all.iter().filter(|d| is_wanted(d, q)).collect();
    let (trend, contents) = (server.trend.view(server), server.store.contents());
    Page {
        path: "/denialz/",
        title: "Recent Denials",
        lead: html! { "Denied requests: every one is counted by what refused it, by service and by caller, the most frequent and the latest of them by themselves (" (MAX_GROUPS) " a worker) and the others together; at most " (KEPT_A_SECOND) " per second and worker are recorded, and as many of groups that have no record of the last second, " (KEPT) " in total. Secret values are masked." },
        json: "/denialj/",
        body: html! {
            div.bar { (format::filter(q, "by rule, service, caller, message or attribute")) }
            section #denials data-live {
                (in_shadow(server))
                dl.figures {
                    (format::figure("Refused", format::count(denials.total()), "since the start"))
                    @for (code, count) in denials.by_code() { (format::figure(code, format::count(count), "")) }
                }
                div.plots { (plot::lines("Denials per second", &[("denials", &trend.denials)], plot::Unit::Count)) }
                (groups(server, q, &all))
                @if !all.is_empty() { h2 { "Samples" } }
                @if all.is_empty() && denials.total() == 0 { (format::nothing("No request was denied since the start.")) }
                @else if found.is_empty() { (format::nothing(if q.is_empty() { "No denied request is recorded." } else { "No denied request matches." })) }
                ol.denials reversed { @for denial in &found { (item(denial, &contents)) } }
            }
        },
    }
    .answer(server)
}

/// Tells of settings by which services refuse nothing: what they would have refused is not among the denials.
fn in_shadow(server: &Server) -> Markup {
    let published = server.runtime.load_full();
    html! {
        (unenforced::services(&published))
        @if published.withheld.is_none() && published.routes.snapshot().shadows_checks() {
            p { "Checks of Envoy that rules would have refused are no denials: " a href="/rulez/" { "Rules" } " counts them." }
        }
    }
}

/// Maximum number of groups on the page.
const LISTED: usize = 50;

/// Maximum number of instances of a group.
const NAMED: usize = 3;

/// A rule, with a link unless it is gone.
fn rule(known: &StoreContents, name: &str) -> Markup {
    html! { @if excerpt::find(known, name).is_some() { (configuration::link(name)) } @else { span.resource { (name) } } }
}

/// What refused a request, with links to what there is of it.
fn refuser(snapshot: &Snapshot, known: &StoreContents, kind: DenialKind, by: &str) -> Markup {
    html! {
        @match kind {
            DenialKind::Rule => (rule(known, by)),
            DenialKind::Quota => { a href="/quotaz/" { "quota" } " " b { (by) } (instances(snapshot, by)) }
            DenialKind::Limit => { a href="/quotaz/#limits" { "limit" } " " b { (by) } }
            DenialKind::Server => span.dim { "no rule" },
        }
    }
}

/// Links to the instances of quotas with these names, which lead to their rules.
fn instances(snapshot: &Snapshot, by: &str) -> Markup {
    let is_named = |instance: &&Arc<InstanceConfig>| {
        instance.template().variety == Variety::Quota
            && by.split(',').any(|name| name.eq_ignore_ascii_case(&instance.key.name))
    };
    let found = snapshot.instances.iter().filter(is_named).take(NAMED);
    html! { @for instance in found { br; small { (configuration::link(instance.name())) } } }
}

/// The table of groups. `recorded` are the denials of which there are samples.
fn groups(server: &Server, q: &str, recorded: &[Denial]) -> Markup {
    let published = server.runtime.load_full();
    let (snapshot, contents) = (published.routes.snapshot(), server.store.contents());
    let DenialGroups { list, others } = server.runtime.denials().groups();
    let texts = |g: &DenialGroup| [g.by.clone(), g.service.clone(), g.caller.clone()];
    let is_wanted = |g: &&DenialGroup| {
        let [by, service, caller] = texts(g);
        format::matches(q, &[&by, &service, &caller])
    };
    let found: Vec<&DenialGroup> = list.iter().filter(is_wanted).collect();
    let most = found.first().map_or(1, |group| group.count.max(1));
    let or_unknown = |text: &str| html! { @if text.is_empty() { span.dim { "not told" } } @else { (text) } };
    html! {
        @if !found.is_empty() {
            h2 { "By rule, service and caller" }
            div.scroll { table.numbers.cards #groups {
                thead { tr { th { "Refused by" } th { "Service" } th { "Caller" } th.number { "Denials" } th {} th { "Last" } } }
                tbody { @for group in found.iter().take(LISTED) {
                    tr {
                        th scope="row" { (refuser(snapshot, &contents, group.kind, &group.by)) }
                        td data-label="Service" { (or_unknown(&group.service)) }
                        td data-label="Caller" { (or_unknown(&group.caller)) }
                        td.number data-label="Denials" { (format::count(group.count)) }
                        td.wide { (plot::bar(group.count as f64 / most as f64)) }
                        td data-label="Last" {
                            (format::ago(group.last))
                            @if let Some(id) = group.sample.filter(|id| recorded.iter().any(|d| d.id == *id)) {
                                " " a href={ "#denial-" (id) } { "sample" }
                            }
                        }
                    }
                } }
            } }
            (format::shown(found.len().min(LISTED), found.len()))
            @if others > 0 { p.dim { (format::count(others)) " denials of groups that are no longer kept." } }
        }
    }
}

fn is_wanted(denial: &Denial, q: &str) -> bool {
    let mut texts = vec![status_name(denial.code), &denial.message, &denial.by];
    texts
        .extend(denial.attributes.iter().flatten().flat_map(|(name, value)| [name.as_str(), value.as_str()]));
    format::matches(q, &texts)
}

fn name(denial: &Denial) -> String {
    match denial.kind {
        DenialKind::Rule => denial.by.clone(),
        DenialKind::Server => "no rule".to_owned(),
        kind => format!("{} {}", kind.name(), denial.by),
    }
}

fn item(denial: &Denial, known: &StoreContents) -> Markup {
    html! {
        li #{ "denial-" (denial.id) } {
            details data-keep={ "denial-" (denial.id) } {
                summary {
                    span.pill.bad { (status_name(denial.code)) } " "
                    span.message { (escaped(&denial.message)) @if denial.message.is_empty() { span.dim { "no message" } } } " "
                    @if denial.cached { span.pill { "from the cache" } " " }
                    span.dim.by { "by " (name(denial)) } " "
                    span.dim { (format::ago(denial.time)) }
                }
                p {
                    // A request for a limit is no check.
                    @if denial.kind != DenialKind::Limit && denial.attributes.as_ref().is_none_or(|known| !known.is_empty()) { a.button href={ "/explainz/?denial=" (denial.id) } { "Explain" } " " }
                    @if denial.kind == DenialKind::Rule { (rule(known, &denial.by)) " " }
                    span.dim { "snapshot " (denial.snapshot) ", " (format::instant(denial.time.time())) } }
                @match &denial.attributes {
                    None => p.dim { "The request was too large to be recorded." },
                    Some(known) if known.is_empty() => p.dim { "Nothing of the request was read." },
                    Some(_) => {
                        @let lacks = explain::lacks(denial);
                        @if !lacks.is_empty() { p.dim { (format::message(&escaped(lacks.trim_start()))) } }
                    }
                }
                dl.attributes { @for (name, value) in denial.attributes.iter().flatten() { dt { code { (name) } } dd { (escaped(value)) } } }
            }
        }
    }
}
