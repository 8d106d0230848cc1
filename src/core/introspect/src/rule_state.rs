//! Whether rules are in effect, and what they have done, as several pages say it.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::format;
use mixer_base::metrics::{MAX_RULES, RuleCounts};
use mixer_config::ResourceKey;
use mixer_engine::handler::HandlerTable;
use mixer_engine::runtime::{KeptResource, Published};
use mixer_engine::snapshot::{Condition, RuleConfig};

/// How many rules are in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effect {
    /// Also in their previous version.
    pub(super) in_effect: usize,
    /// Those of them whose version in the store has an error.
    previous: usize,
    /// Checks of Envoy are answered OK whatever they say.
    shadow: usize,
    /// Their condition does not compile.
    broken: usize,
    dry_run: usize,
    /// None of their handlers was built.
    without_handler: usize,
}

impl Effect {
    pub(super) fn of(published: &Published) -> Self {
        let mut effect =
            Self { in_effect: 0, previous: 0, shadow: 0, broken: 0, dry_run: 0, without_handler: 0 };
        let states = States::of(published);
        for rule in &published.routes.snapshot().rules {
            match states.state(rule) {
                State::InEffect => {
                    effect.in_effect += 1;
                    effect.previous += usize::from(is_kept(&published.kept, &rule.key));
                }
                State::Shadow => effect.shadow += 1,
                State::Broken => effect.broken += 1,
                State::DryRun => effect.dry_run += 1,
                State::WithoutHandler => effect.without_handler += 1,
            }
        }
        effect
    }

    /// What else there is.
    pub(super) fn note(self) -> Markup {
        html! {
            "in effect"
            @if self.previous > 0 { ", " span.bad { (self.previous) " of them in the previous version" } }
            @if self.shadow > 0 { ", " span.bad { (self.shadow) " in shadow mode" } }
            @if self.dry_run > 0 { ", " (self.dry_run) " in dry run" }
            @if self.without_handler > 0 { ", " span.bad { (self.without_handler) " without handler" } }
            @if self.broken > 0 { ", " span.bad { (self.broken) " not compiled" } }
        }
    }
}

/// Whether a rule is in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    InEffect,
    /// Checks of Envoy are answered OK whatever it says; it counts what it would have refused.
    Shadow,
    DryRun,
    /// It does nothing: no action has a handler that was built.
    WithoutHandler,
    Broken,
}

/// Whether a resource serves in its previous version.
pub(super) fn is_kept(kept: &[KeptResource], key: &ResourceKey) -> bool {
    kept.binary_search_by(|kept| kept.key.cmp(key)).is_ok()
}

/// Tells the states of rules.
pub(super) struct States<'p> {
    handlers: &'p HandlerTable,
    /// Whether checks of Envoy are answered OK whatever the rules say.
    shadows_checks: bool,
}

impl<'p> States<'p> {
    pub(super) fn of(published: &'p Published) -> Self {
        let routes = &published.routes;
        Self { handlers: routes.handlers(), shadows_checks: routes.snapshot().shadows_checks() }
    }

    /// A default whose condition does not compile is in effect: it closes its namespace.
    pub(super) fn state(&self, rule: &RuleConfig) -> State {
        let does_more = rule.denies_by_default || rule.has_header_operations;
        let has_handler =
            || rule.actions.iter().any(|action| self.handlers.get(&action.handler.key).is_some());
        match &rule.condition {
            Condition::Broken(_) if !rule.denies_by_default => State::Broken,
            _ if !does_more && !has_handler() => State::WithoutHandler,
            _ if rule.dry_run => State::DryRun,
            _ if self.shadows_checks && rule.decides_checks() => State::Shadow,
            _ => State::InEffect,
        }
    }
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::InEffect => "in effect",
            State::Shadow => "shadow",
            State::DryRun => "dry run",
            State::WithoutHandler => "without handler",
            State::Broken => "not compiled",
        }
    }
}

/// What a rule would have refused in shadow mode, as an outcome.
pub(super) fn in_shadow(counts: RuleCounts) -> BTreeMap<String, u64> {
    BTreeMap::from([("denied".to_owned(), counts.shadow_denials)])
}

/// What a rule in dry run, or in shadow mode, would have done, in a line.
pub(super) fn would_have(outcomes: &BTreeMap<String, u64>) -> Markup {
    let counted: Vec<_> = outcomes.iter().filter(|(_, count)| **count > 0).collect();
    html! {
        @if counted.is_empty() { span.dim { "would have done nothing so far" } } @else { "would have " }
        @for (index, (outcome, count)) in counted.iter().enumerate() {
            @if index > 0 { ", " }
            (outcome) " " (format::count(**count))
        }
    }
}

/// The counts of a rule in a line.
pub(super) fn counted(counts: RuleCounts) -> Markup {
    html! {
        (format::count(counts.hits)) " hits, " (format::count(counts.denials)) " denials, "
        span.bad[counts.errors > 0] { (format::count(counts.errors)) " errors" }
    }
}

/// The counts of all rules without counters of their own, of which this is one, in a line.
pub(super) fn counted_with_others(counts: RuleCounts) -> Markup {
    html! {
        "Counted together with other rules, as " (MAX_RULES) " others did something before it: " (counted(counts)) " of them all. "
        a href="/denialz/" { "Recent Denials" } " names each rule that refuses."
    }
}
