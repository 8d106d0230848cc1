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

/// Most validations by an adapter to find the rules in dry run at fault. Beyond it, those that were not tried are left out together.
const MAX_TRIES: usize = 128;
/// Why a rule in dry run that was not tried is left out.
const TOO_MANY: &str = "too many rules in dry run are rejected to try each";

/// The rules in dry run with which a handler rejects its instances, if it takes those of the enforced rules: each is tried with those before it that the
/// handler takes, because it may take either of two and not both. Those whose instances the adapter names are tried last.
///
/// Cost: at most [`MAX_TRIES`] validations by the adapter, and three more.
pub(super) fn rejected(handler: &HandlerConfig, uses: &[Use<'_>]) -> Vec<Trial> {
    let enforced = || uses.iter().filter(|used| !used.rule.dry_run);
    let tried: Vec<_> = uses.iter().filter(|used| used.rule.dry_run).collect();
    if tried.is_empty() || !rejections(handler, &instances(enforced())).is_empty() {
        return Vec::new();
    }
    let mut search = Search { handler, taken: enforced().collect(), at_fault: Vec::new(), left: MAX_TRIES };
    search.find(&tried);
    search.at_fault.sort_by_key(|(trial, _)| &trial.rule.key);
    search.at_fault.into_iter().map(|(trial, why)| rejected_trial(handler, trial, &why)).collect()
}

/// A rule in dry run that a handler does not take, and why.
fn rejected_trial(handler: &HandlerConfig, trial: &Use<'_>, why: &str) -> Trial {
    let message = format!(
        "{} does not take what this rule in dry run gives it, and serves without it: {why}",
        handler.key
    );
    let field = FieldPath::root().field("spec").field("actions");
    let problem = Diagnostic::warning(TRIAL_REJECTED, field, message)
        .with_hint("the trial counts nothing until the handler takes its instances");
    let RuleConfig { key, origin, .. } = &**trial.rule;
    Trial { rule: Arc::clone(trial.rule), problem: placed(problem, key, origin) }
}

/// As [`rejected_trials`], by the verdicts of the backend of the handler: none if it has no say, or does not answer. One that stops answering
/// has rejected those that it rejected.
///
/// Cost: at most [`MAX_TRIES`] questions to the backend, and one more; a pass over all rules.
pub(crate) async fn trials_rejected_by_backend(
    snapshot: &Snapshot,
    handler: &ResourceKey,
    commons: &Commons,
) -> Vec<Trial> {
    let uses = uses(snapshot);
    let (Some(config), Some(uses)) = (snapshot.handlers.get(handler), uses.get(handler)) else {
        return Vec::new();
    };
    let ask = async |uses: &[&Use<'_>]| {
        let instances = instances(uses.iter().copied());
        match config.adapter.ask_backend(&config.params, instances, commons) {
            Some(verdict) => verdict.await,
            None => Verdict::NoAnswer,
        }
    };
    let (tried, mut taken): (Vec<&Use<'_>>, Vec<_>) = uses.iter().partition(|used| used.rule.dry_run);
    let mut rejected = Vec::new();
    if tried.is_empty() || ask(&taken).await != Verdict::Takes {
        return rejected;
    }
    for (count, trial) in tried.into_iter().enumerate() {
        if count >= MAX_TRIES {
            rejected.push(rejected_trial(config, trial, TOO_MANY));
            continue;
        }
        taken.push(trial);
        match ask(&taken).await {
            Verdict::Takes => {}
            Verdict::Rejects(why) => {
                taken.pop();
                rejected.push(rejected_trial(config, trial, &why));
            }
            Verdict::NoAnswer => break,
        }
    }
    rejected
}

/// The search for the rules at fault.
struct Search<'u> {
    handler: &'u HandlerConfig,
    /// Those that the handler takes together.
    taken: Vec<&'u Use<'u>>,
    /// With the reason.
    at_fault: Vec<(&'u Use<'u>, String)>,
    /// How many validations are left.
    left: usize,
}

impl<'u> Search<'u> {
    /// Why the handler rejects rules together with those that it takes.
    fn rejections(&self, tried: &[&'u Use<'u>]) -> Vec<String> {
        rejections(self.handler, &instances(self.taken.iter().chain(tried).copied()))
    }

    /// Divides rules among those that the handler takes and those at fault. Adapters name the instances that they do not take.
    fn find(&mut self, tried: &[&'u Use<'u>]) {
        let why = self.rejections(tried);
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        let named: BTreeMap<&str, &String> =
            why.iter().flat_map(|text| text.split(|c| !is_word(c)).map(move |word| (word, text))).collect();
        let reason = |trial: &Use<'_>| trial.instances.keys().find_map(|name| named.get(name).copied());
        let (suspects, others): (Vec<&Use<'_>>, Vec<_>) =
            tried.iter().partition(|trial| reason(trial).is_some());
        if suspects.is_empty() || !self.rejections(&others).is_empty() {
            return self.among(tried, &|_| None);
        }
        self.taken.extend(others);
        self.among(&suspects, &|trial| reason(trial).cloned());
    }

    /// Likewise, by halves. `reason`: why a rule that is not tried any more is at fault.
    fn among(&mut self, tried: &[&'u Use<'u>], reason: &dyn Fn(&Use<'_>) -> Option<String>) {
        let Some(left) = self.left.checked_sub(1) else {
            let unknown = || TOO_MANY.to_owned();
            let told = tried.iter().map(|trial| (*trial, reason(trial).unwrap_or_else(unknown)));
            self.at_fault.extend(told);
            return;
        };
        self.left = left;
        match (self.rejections(tried).into_iter().next(), tried) {
            (None, _) => self.taken.extend(tried),
            (Some(why), [trial]) => self.at_fault.push((*trial, why)),
            (Some(_), _) => {
                let (first, rest) = tried.split_at(tried.len() / 2);
                self.among(first, reason);
                self.among(rest, reason);
            }
        }
    }
}

/// [`rejected`], of the handler with this key. Cost: a pass over all rules more.
pub(crate) fn rejected_trials(snapshot: &Snapshot, handler: &ResourceKey) -> Vec<Trial> {
    let Some(config) = snapshot.handlers.get(handler) else { return Vec::new() };
    let gives = |rule: &RuleConfig| rule.actions.iter().any(|action| action.handler.key == *handler);
    // Asked for every handler that fails.
    if !snapshot.rules.iter().any(|rule| rule.dry_run && gives(rule)) {
        return Vec::new();
    }
    uses(snapshot).get(handler).map_or_else(Vec::new, |uses| rejected(config, uses))
}

/// Why a handler would not be built with these instances, as far as its adapter can tell without building it; nothing if it would.
fn rejections(config: &HandlerConfig, instances: &[BoundInstance]) -> Vec<String> {
    let mut problems = Diagnostics::new();
    // Only the message is told, no hint.
    let validate = || config.adapter.validate(&config.params, instances, &mut problems);
    let validated = catch_unwind(AssertUnwindSafe(|| SuggestionBudget::none().run(validate)));
    if validated.is_err() {
        return vec!["its adapter panics".to_owned()];
    }
    let errors = problems.into_iter().filter(|problem| problem.severity == Severity::Error);
    let text = |error: Diagnostic| match error.message.strip_prefix("the handler will not be built: ") {
        Some(text) => text.to_owned(),
        None => error.message.clone(),
    };
    errors.map(text).collect()
}
