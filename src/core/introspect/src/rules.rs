//! The rules: what each has done, what it uses, and where it is written.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use serde::Serialize;

use super::page::Page;
use super::rule_state::{Effect, State, States, in_shadow, is_kept, would_have};
use super::{Server, configuration, format, parameter, plot, unenforced, withheld};
use mixer_base::metrics::{MAX_RULES, Metrics, OTHER_RULES, RuleCounts};
use mixer_base::secrets::mask_text;
use mixer_config::store::StoreContents;
use mixer_engine::runtime::Published;

/// Maximum number of rules on the page.
const LISTED: usize = 300;

/// Most rules of a page that refreshes itself.
const LIVE: usize = 5000;

/// The kind of rules.
const KIND: &str = "rule";
/// The state of a rule whose version in the store has an error, while the one before it is in effect.
const PREVIOUS: &str = "previous version";
/// The state of a rule of the store that is no part of the configuration that serves.
const NOT_SERVED: &str = "not served";
/// The state of what stands for the rules without counters of their own.
const TOGETHER: &str = "counted together";

/// JSON of a rule.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    name: String,
    /// `in effect`, `previous version`, `shadow`, `dry run`, `without handler`, `not compiled` or `not served`; `counted together` for the rules
    /// without counters of their own, the last element if there is any.
    state: &'static str,
    /// The previous version serves, not the one of the store, also where it is not in effect.
    previous_version: bool,
    condition: String,
    handlers: Vec<String>,
    instances: Vec<String>,
    /// `file:line`.
    place: String,
    /// `null` for a rule that is counted with others, and for one in dry run.
    counts: Option<Counts>,
    /// What a rule in dry run would have done, by outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<Outcomes>,
    /// What a rule would have refused, as checks are in shadow mode, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<Outcomes>,
}

/// How often a rule in dry run or in shadow mode would have denied, allowed, and so on.
type Outcomes = BTreeMap<String, u64>;

#[derive(Debug, Serialize)]
struct Counts {
    hits: u64,
    denials: u64,
    errors: u64,
}

impl From<RuleCounts> for Counts {
    fn from(RuleCounts { hits, denials, errors, .. }: RuleCounts) -> Self {
        Self { hits, denials, errors }
    }
}

impl Rule {
    /// Whether it has no counters of its own.
    fn is_among_others(&self) -> bool {
        self.counts.is_none() && self.dry_run.is_none() && self.state != NOT_SERVED
    }
}

/// All rules, in their order, then those of the store that do not serve, and what those have done that are counted together.
pub(super) fn json(published: &Published, store: &StoreContents, metrics: &Metrics) -> Vec<Rule> {
    let mut tried = metrics.dry_run_outcomes();
    let (rules, states) = (&published.routes.snapshot().rules, States::of(published));
    let served = rules.iter().map(|rule| {
        let name = rule.key.to_string();
        let (state, kept) = (states.state(rule), is_kept(&published.kept, &rule.key));
        let counts = metrics.counts_of_rule(&name);
        let instances = rule.actions.iter().flat_map(|action| &action.instances);
        Rule {
            state: if kept && state == State::InEffect { PREVIOUS } else { state.name() },
            previous_version: kept,
            condition: mask_text(&rule.match_text).into_owned(),
            handlers: rule.actions.iter().map(|action| action.handler.key.to_string()).collect(),
            instances: instances.map(|instance| instance.key.to_string()).collect(),
            place: rule.origin.place(),
            counts: counts.filter(|_| !rule.dry_run).map(Counts::from),
            dry_run: rule.dry_run.then(|| tried.remove(&name).unwrap_or_default()),
            shadow: counts.filter(|_| state == State::Shadow).map(in_shadow),
            name,
        }
    });
    let others = store.resources.iter().filter(|resource| *resource.key.kind == *KIND);
    let others = others.filter(|resource| rules.get(&resource.key).is_none());
    let others = others.map(|resource| Rule {
        name: resource.key.to_string(),
        state: NOT_SERVED,
        previous_version: false,
        condition: String::new(),
        handlers: Vec::new(),
        instances: Vec::new(),
        place: resource.origin.place(),
        counts: None,
        dry_run: None,
        shadow: None,
    });
    let counts = metrics.counts_of_other_rules();
    let together = (counts != RuleCounts::default()).then(|| Rule {
        name: OTHER_RULES.to_owned(),
        state: TOGETHER,
        previous_version: false,
        condition: String::new(),
        handlers: Vec::new(),
        instances: Vec::new(),
        place: String::new(),
        counts: Some(counts.into()),
        dry_run: None,
        shadow: None,
    });
    served.chain(others).chain(together).collect()
}

/// The page.
pub(super) fn page(server: &Server, parameters: &[(String, String)]) -> Response {
    let q = parameter(parameters, "q");
    let published = server.runtime.load_full();
    let effect = Effect::of(&published);
    let contents = server.store.contents();
    let mut all = json(&published, &contents, &server.metrics);
    let together = all.pop_if(|rule| rule.state == TOGETHER);
    let by_themselves = all.iter().filter(|rule| rule.counts.is_some()).count();
    let among_others = all.iter().filter(|rule| rule.is_among_others()).count();
    let mut found: Vec<&Rule> = all.iter().filter(|rule| is_wanted(rule, q)).collect();
    let work = |rule: &Rule| {
        let in_shadow: u64 = rule.shadow.iter().flat_map(Outcomes::values).sum();
        rule.counts.as_ref().map_or((0, 0), |c| (c.denials + in_shadow, c.hits))
    };
    found.sort_by_key(|rule| std::cmp::Reverse(work(rule)));
    let together = together.filter(|rule| is_wanted(rule, q));
    let most = found.iter().copied().chain(&together).map(|rule| work(rule).1).max().unwrap_or(0).max(1);
    Page {
        path: "/rulez/",
        title: "Rules",
        lead: html! { "What each rule has done since the start: those that refuse first. A hit is an evaluation in which its condition held; answers of caches are none, but their denials count. Of a rule in dry run or in shadow mode it is said what it would have done." },
        json: "/rulej/",
        body: html! {
            div.bar { (format::filter(q, "rules, handlers and files")) }
            // Very many are shown again on request only.
            section #rules data-live[all.len() <= LIVE] data-filtered[all.len() > LIVE] {
                (withheld::notice(&published)) (unenforced::services(&published))
                dl.figures { (format::figure("Rules", effect.in_effect, effect.note())) }
                @if among_others > 0 { p.dim { (among(by_themselves, among_others)) } }
                div.scroll { table.numbers.cards {
                    thead { tr { th { "Rule" } th.number { "Hits" } th {} th.number { "Denials" } th.number { "Errors" } th { "Handlers and instances" } th { "Source" } } }
                    tbody {
                        @if let Some(together) = &together { (row_of_others(together, most)) }
                        @for rule in found.iter().take(LISTED) { (row(rule, most)) }
                    }
                } }
                @if found.is_empty() && together.is_none() { (format::nothing("No rule matches.")) }
                (format::shown(found.len().min(LISTED), found.len()))
            }
        },
    }
    .answer(server)
}

fn is_wanted(rule: &Rule, q: &str) -> bool {
    let mut texts = vec![rule.name.as_str(), &rule.condition, &rule.place, rule.state];
    texts.extend(rule.handlers.iter().chain(&rule.instances).map(String::as_str));
    format::matches(q, &texts)
}

/// That some rules are counted together.
fn among(by_themselves: usize, others: usize) -> Markup {
    let counted = |number: usize| format::count(number as u64);
    html! {
        (counted(by_themselves)) " of " (counted(by_themselves + others)) " rules are counted by themselves, and the others together: "
        (MAX_RULES) " rules get counters of their own, when they first do something. "
        a href="/denialz/" { "Recent Denials" } " names each rule that refuses."
    }
}

/// Those that are counted together.
fn row_of_others(together: &Rule, most: u64) -> Markup {
    let number = |of: fn(&Counts) -> u64| together.counts.as_ref().map_or(0, of);
    let (hits, errors) = (number(|counts| counts.hits), number(|counts| counts.errors));
    html! {
        tr {
            th scope="row" { "other rules together" }
            td.number data-label="Hits" { (format::count(hits)) }
            td.wide { (plot::bar(hits as f64 / most as f64)) }
            td.number data-label="Denials" { (format::count(number(|counts| counts.denials))) }
            td.number data-label="Errors" { span.bad[errors > 0] { (format::count(errors)) } }
            td data-label="Handlers and instances" {}
            td.dim data-label="Source" {}
        }
    }
}

fn row(rule: &Rule, most: u64) -> Markup {
    let number = |of: fn(&Counts) -> u64| {
        html! {
            @match &rule.counts {
                Some(counts) => (format::count(of(counts))),
                None if rule.state == NOT_SERVED => span.dim { "–" },
                None if rule.dry_run.is_some() => span.dim title="in dry run" { "–" },
                None => span.dim title="counted with other rules" { "–" },
            }
        }
    };
    let hits = rule.counts.as_ref().map_or(0, |counts| counts.hits);
    let errors = rule.counts.as_ref().map_or(0, |counts| counts.errors);
    html! {
        tr {
            th scope="row" {
                (configuration::link(&rule.name))
                @if rule.state != State::InEffect.name() { " " span.pill.warn { (rule.state) } }
                @if rule.previous_version && rule.state != PREVIOUS { " " span.pill.warn { (PREVIOUS) } }
                br; small { @if rule.state == NOT_SERVED { span.dim { "see its problems" } } @else if rule.condition.is_empty() { span.dim { "always" } } @else { code.expression { (rule.condition) } } }
                @for outcomes in rule.dry_run.iter().chain(&rule.shadow) { br; small { (would_have(outcomes)) } }
            }
            td.number data-label="Hits" { (number(|counts| counts.hits)) }
            td.wide { (plot::bar(hits as f64 / most as f64)) }
            td.number data-label="Denials" { (number(|counts| counts.denials)) }
            td.number data-label="Errors" { span.bad[errors > 0] { (number(|counts| counts.errors)) } }
            td data-label="Handlers and instances" {
                @for (index, name) in rule.handlers.iter().chain(&rule.instances).enumerate() {
                    @if index > 0 { br; }
                    (configuration::link(name))
                }
            }
            td.dim data-label="Source" { (rule.place) }
        }
    }
}
