//! Passes over a built snapshot that find suspicious configuration.
//!
//! [`check_params`] validates parameters with their adapters; [`pitfalls`] finds mistakes that no adapter reports; [`lint`] finds
//! useless configuration. Each is a pure function of the snapshot. See docs/diagnostics.md.

mod params;
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::place::{params_path, placed};
use super::model::{Condition, InstanceConfig, RuleConfig, Snapshot};
use mixer_attribute::Vocabulary;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, ResourceKey, Severity};

/// Validates the parameters of every handler with its adapter and bound instances.
///
/// Code `adapter-config`; the field is relative to the resource, the message is that of the adapter. An unused handler is never
/// built, so its problems are warnings.
pub fn check_params(snapshot: &Snapshot) -> Diagnostics {
    let used = instances_by_handler(snapshot);
    let mut out = Diagnostics::new();
    for handler in &snapshot.handlers {
        let instances = used.get(&handler.key).into_iter().flat_map(BTreeMap::values);
        let is_unused = !used.contains_key(&handler.key);
        let bound = instances.map(|i| i.bound.clone()).collect::<Vec<_>>();
        let mut problems = Diagnostics::new();
        handler.adapter.validate(&handler.params, &bound, &mut problems);
        for problem in problems {
            let field = params_path(handler).join(&problem.field);
            let legacy = problem.message.clone();
            let severity = if is_unused { problem.severity.max(Severity::Warning) } else { problem.severity };
            let problem =
                Diagnostic { code: "adapter-config", severity, field, ..problem }.with_legacy(legacy);
            out.push(placed(problem, &handler.key, &handler.origin));
        }
    }
    out
}

/// Mistakes between resources that are valid on their own: short instance names in parameters, labels without dimensions,
/// attributes that no expression can name.
pub fn pitfalls(snapshot: &Snapshot) -> Diagnostics {
    let mut out = Diagnostics::new();
    let instances = snapshot.instances.iter().map(|i| (&**i.name(), i)).collect::<BTreeMap<_, _>>();
    for handler in &snapshot.handlers {
        params::check(handler, &instances, &mut out);
    }
    for (name, _) in snapshot.vocabulary.declared() {
        if let Some(keyword) = name.split('.').find(|segment| mixer_expr::is_keyword(segment)) {
            let message =
                format!("attribute {name} cannot be used in expressions: `{keyword}` is a keyword there");
            out.push(Diagnostic::warning("attribute-keyword", FieldPath::root(), message));
        }
    }
    out
}

/// Useless configuration: unused handlers and instances, shadowed rules, constant conditions.
pub fn lint(snapshot: &Snapshot) -> Diagnostics {
    let mut out = Diagnostics::new();
    unused(snapshot, &mut out);
    let no_attributes = Vocabulary::builder().build();
    for rule in &snapshot.rules {
        constant_match(rule, &no_attributes, &mut out);
    }
    shadowed(snapshot, &mut out);
    out
}

fn instances_by_handler(snapshot: &Snapshot) -> BTreeMap<&ResourceKey, BTreeMap<&str, &Arc<InstanceConfig>>> {
    let mut used: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for action in snapshot.rules.iter().flat_map(|r| &r.actions) {
        let of_handler = used.entry(&action.handler.key).or_default();
        of_handler.extend(action.instances.iter().map(|i| (&**i.name(), i)));
    }
    used
}

fn name_field() -> FieldPath {
    FieldPath::root().field("metadata").field("name")
}

fn unused(snapshot: &Snapshot, out: &mut Diagnostics) {
    let actions = || snapshot.rules.iter().flat_map(|r| &r.actions);
    let handlers = actions().map(|a| &a.handler.key).collect::<BTreeSet<_>>();
    let instances = actions().flat_map(|a| &a.instances).map(|i| &i.key).collect::<BTreeSet<_>>();
    for handler in snapshot.handlers.iter().filter(|h| !handlers.contains(&h.key)) {
        let message = format!("handler {} is used by no rule and will not be built", handler.name);
        let problem = Diagnostic::warning("handler-unused", name_field(), message);
        out.push(placed(problem, &handler.key, &handler.origin));
    }
    for instance in snapshot.instances.iter().filter(|i| !instances.contains(&i.key)) {
        let message = format!("instance {} is used by no rule", instance.name());
        let problem = Diagnostic::warning("instance-unused", name_field(), message);
        out.push(placed(problem, &instance.key, &instance.origin));
    }
}

/// Reports conditions that compile without any attribute.
fn constant_match(rule: &RuleConfig, no_attributes: &Vocabulary, out: &mut Diagnostics) {
    let text = rule.match_text.trim();
    let (severity, message) = match &rule.condition {
        Condition::Always if !text.is_empty() => {
            (Severity::Info, "the condition is always true: it can be left out".to_owned())
        }
        Condition::When(_) if mixer_expr::compile(rule.language, &rule.match_text, no_attributes).is_ok() => {
            (
                Severity::Warning,
                format!("the condition `{text}` reads no attribute: it is the same for every request"),
            )
        }
        _ => return,
    };
    let field = FieldPath::root().field("spec").field("match");
    let problem = Diagnostic::new(severity, "match-constant", field, message);
    out.push(placed(problem, &rule.key, &rule.origin));
}

/// The effects of a rule: pairs of handler and instance.
type RuleEffects<'s> = BTreeSet<(&'s ResourceKey, &'s ResourceKey)>;

/// Reports rules whose effects are a subset of an earlier rule with the same namespace and condition.
fn shadowed(snapshot: &Snapshot, out: &mut Diagnostics) {
    let mut seen: BTreeMap<_, Vec<(&ResourceKey, RuleEffects<'_>)>> = BTreeMap::new();
    for rule in
        snapshot.rules.iter().filter(|r| r.request_headers.is_empty() && r.response_headers.is_empty())
    {
        // A rule in dry run may repeat another one intentionally.
        if rule.dry_run {
            continue;
        }
        let text = if matches!(rule.condition, Condition::Always) { "" } else { rule.match_text.trim() };
        let effects = rule.actions.iter().flat_map(|a| a.instances.iter().map(|i| (&a.handler.key, &i.key)));
        let effects = effects.collect::<RuleEffects<'_>>();
        let like = seen.entry((&*rule.key.namespace, rule.language.name(), text)).or_default();
        if let Some((first, _)) = like.iter().find(|(_, earlier)| effects.is_subset(earlier)) {
            let message = format!("the rule only repeats what {first} does on the same condition");
            let problem = Diagnostic::warning("rule-shadowed", name_field(), message)
                .with_hint("its instances are sent twice: remove one of the rules");
            out.push(placed(problem, &rule.key, &rule.origin));
        }
        like.push((&rule.key, effects));
    }
}
