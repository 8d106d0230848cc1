//! Rules in dry run that would take a handler from the rules that are enforced.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::lint::place::placed;
use super::model::{HandlerConfig, InstanceConfig, RuleConfig, Snapshot};
use crate::adapter::{BoundInstance, Commons, Verdict};
use mixer_base::suggestion::SuggestionBudget;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, ResourceKey, Severity};

/// The code of the warning about such a rule.
pub(crate) const TRIAL_REJECTED: &str = "dry-run-rejected";

/// The instances that a rule gives to a handler, by name.
#[derive(Debug)]
pub(super) struct Use<'s> {
    pub(super) rule: &'s Arc<RuleConfig>,
    pub(super) instances: BTreeMap<&'s str, &'s Arc<InstanceConfig>>,
}

/// A rule in dry run whose instances a handler does not take.
#[derive(Debug)]
pub(crate) struct Trial {
    /// The rule.
    pub(crate) rule: Arc<RuleConfig>,
    /// The warning that it counts nothing.
    pub(crate) problem: Diagnostic,
}

/// The uses of each handler by rules that give it instances. Cost: a pass over all rules.
pub(super) fn uses(snapshot: &Snapshot) -> BTreeMap<&ResourceKey, Vec<Use<'_>>> {
    let mut uses: BTreeMap<&ResourceKey, Vec<Use<'_>>> = BTreeMap::new();
    for rule in snapshot.rules.iter() {
        for action in &rule.actions {
            let of_handler = uses.entry(&action.handler.key).or_default();
            if of_handler.last().is_none_or(|last| !Arc::ptr_eq(last.rule, rule)) {
                of_handler.push(Use { rule, instances: BTreeMap::new() });
            }
            let Some(last) = of_handler.last_mut() else { continue };
            last.instances.extend(action.instances.iter().map(|instance| (&**instance.name(), instance)));
        }
    }
    uses
}

/// The instances of several uses, by name.
pub(super) fn instances<'u>(uses: impl Iterator<Item = &'u Use<'u>>) -> Vec<BoundInstance> {
    let instances: BTreeMap<_, _> = uses.flat_map(|used| &used.instances).collect();
    instances.into_values().map(|instance| instance.bound.clone()).collect()
}

/// The rules in dry run with which a handler rejects its instances, if it takes those of the enforced rules: each is tried with those before it that the
/// handler takes, because it may take either of two and not both.
///
/// Cost: a validation by the adapter for each rule in dry run among `uses`, and two more.
pub(super) fn rejected(handler: &HandlerConfig, uses: &[Use<'_>]) -> Vec<Trial> {
    let mut trying = Trying::begin(handler, uses);
    if trying.is_over() || rejection(handler, &trying.instances()).is_some() {
        return Vec::new();
    }
    while trying.advance() {
        let why = rejection(handler, &trying.instances());
        trying.end(why);
    }
    trying.rejected
}

/// The trials of one handler, one after another.
struct Trying<'u> {
    handler: &'u HandlerConfig,
    /// Uses that the handler takes, at first those by enforced rules, and the one that is tried.
    taken: Vec<&'u Use<'u>>,
    /// Uses to be tried, the next one last.
    left: Vec<&'u Use<'u>>,
    rejected: Vec<Trial>,
}

impl<'u> Trying<'u> {
    fn begin(handler: &'u HandlerConfig, uses: &'u [Use<'u>]) -> Self {
        let (left, taken) = uses.iter().rev().partition(|used| used.rule.dry_run);
        Self { handler, taken, left, rejected: Vec::new() }
    }

    /// Whether there is nothing to be tried.
    fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// Goes on to the next trial; [`end`](Self::end) follows. False if there is none.
    fn advance(&mut self) -> bool {
        let next = self.left.pop();
        self.taken.extend(next);
        next.is_some()
    }

    /// The instances of what the handler takes and of the trial.
    fn instances(&self) -> Vec<BoundInstance> {
        instances(self.taken.iter().copied())
    }

    /// Notes whether the handler rejects the trial, and why.
    fn end(&mut self, why: Option<String>) {
        let Some(why) = why else { return };
        let Some(trial) = self.taken.pop() else { return };
        let message = format!(
            "{} does not take what this rule in dry run gives it, and serves without it: {why}",
            self.handler.key
        );
        let field = FieldPath::root().field("spec").field("actions");
        let problem = Diagnostic::warning(TRIAL_REJECTED, field, message)
            .with_hint("the trial counts nothing until the handler takes its instances");
        let RuleConfig { key, origin, .. } = &**trial.rule;
        self.rejected.push(Trial { rule: Arc::clone(trial.rule), problem: placed(problem, key, origin) });
    }
}

/// As [`rejected_trials`], by the verdicts of the backend of the handler: none if it has no say, or does not answer. One that stops answering
/// has rejected those that it rejected.
///
/// Cost: a question to the backend for each rule in dry run that uses the handler, and one more; a pass over all rules.
pub(crate) async fn trials_rejected_by_backend(
    snapshot: &Snapshot,
    handler: &ResourceKey,
    commons: &Commons,
) -> Vec<Trial> {
    let uses = uses(snapshot);
    let (Some(config), Some(uses)) = (snapshot.handlers.get(handler), uses.get(handler)) else {
        return Vec::new();
    };
    let ask = async |instances| match config.adapter.ask_backend(&config.params, instances, commons) {
        Some(verdict) => verdict.await,
        None => Verdict::NoAnswer,
    };
    let mut trying = Trying::begin(config, uses);
    if trying.is_over() || ask(trying.instances()).await != Verdict::Takes {
        return Vec::new();
    }
    while trying.advance() {
        match ask(trying.instances()).await {
            Verdict::Takes => {}
            Verdict::Rejects(why) => trying.end(Some(why)),
            Verdict::NoAnswer => break,
        }
    }
    trying.rejected
}

/// [`rejected`], of the handler with this key. Cost: a pass over all rules more.
pub(crate) fn rejected_trials(snapshot: &Snapshot, handler: &ResourceKey) -> Vec<Trial> {
    let Some(config) = snapshot.handlers.get(handler) else { return Vec::new() };
    uses(snapshot).get(handler).map_or_else(Vec::new, |uses| rejected(config, uses))
}

/// Why a handler would not be built with these instances, as far as its adapter can tell without building it.
fn rejection(config: &HandlerConfig, instances: &[BoundInstance]) -> Option<String> {
    let mut problems = Diagnostics::new();
    // Only the message is told, no hint.
    let validate = || config.adapter.validate(&config.params, instances, &mut problems);
    let validated = catch_unwind(AssertUnwindSafe(|| SuggestionBudget::none().run(validate)));
    if validated.is_err() {
        return Some("its adapter panics".to_owned());
    }
    let error = problems.into_iter().find(|problem| problem.severity == Severity::Error)?;
    Some(
        error
            .message
            .strip_prefix("the handler will not be built: ")
            .map_or(error.message.clone(), str::to_owned),
    )
}
