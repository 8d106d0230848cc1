//! Passes over a finished snapshot that look for what builds, but is wrong or hardly meant.
//!
//! [`check_params`] asks the adapters about their parameters; [`pitfalls`] finds mistakes that no adapter reports; [`lint`] finds
//! what is merely useless. Each is a pure function and leaves the snapshot alone. Spec: cli-operations.md 9.4,
//! adapters-inprocess.md section 13.

mod params;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::model::{Condition, HandlerConfig, InstanceConfig, RuleConfig, Snapshot};
use mixer_attribute::Vocabulary;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Origin, ResourceKey, Severity, yaml};

/// What the adapters find wrong with the parameters of every handler, given the instances that rules give it.
///
/// Code `adapter-config`; the field is that of the resource, the message the adapter's own text. A handler that no rule uses is
/// never built, so what is wrong with it is only worth a warning.
pub fn check_params(snapshot: &Snapshot) -> Diagnostics {
    let used = instances_by_handler(snapshot);
    let mut out = Diagnostics::new();
    for handler in &snapshot.handlers {
        let instances = used.get(&handler.key).into_iter().flat_map(BTreeMap::values);
        let idle = !used.contains_key(&handler.key);
        let bound = instances.map(|i| i.bound.clone()).collect::<Vec<_>>();
        let mut problems = Diagnostics::new();
        handler.adapter.validate(&handler.params, &bound, &mut problems);
        for problem in problems {
            let field = params_path(handler).join(&problem.field);
            let legacy = problem.message.clone();
            let severity = if idle { problem.severity.max(Severity::Warning) } else { problem.severity };
            let problem =
                Diagnostic { code: "adapter-config", severity, field, ..problem }.with_legacy(legacy);
            out.push(placed(problem, &handler.key, &handler.origin));
        }
    }
    out
}

/// Mistakes that every part accepts and that make a whole which cannot work: short instance names in parameters, labels without
/// dimensions, attributes that no expression can name.
pub fn pitfalls(snapshot: &Snapshot) -> Diagnostics {
    let mut out = Diagnostics::new();
    let instances = snapshot.instances.iter().map(|i| (&**i.name(), i)).collect::<BTreeMap<_, _>>();
    for handler in &snapshot.handlers {
        params::check(handler, &instances, &mut out);
    }
    for (name, _) in snapshot.vocabulary.declared() {
        if let Some(word) = name.split('.').find(|segment| mixer_expr::is_keyword(segment)) {
            let message =
                format!("attribute {name} cannot be used in expressions: `{word}` is a keyword there");
            out.push(Diagnostic::warning("attribute-keyword", FieldPath::root(), message));
        }
    }
    out
}

/// Everything that is useless: unused handlers and instances, rules that do nothing new, constant conditions.
pub fn lint(snapshot: &Snapshot) -> Diagnostics {
    let mut out = Diagnostics::new();
    unused(snapshot, &mut out);
    let nothing = Vocabulary::builder().build();
    for rule in &snapshot.rules {
        constant_match(rule, &nothing, &mut out);
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

/// Where the parameters of a handler stand.
fn params_path(handler: &HandlerConfig) -> FieldPath {
    let spec = FieldPath::root().field("spec");
    if &*handler.key.kind == "handler" { spec.field("params") } else { spec }
}

/// Gives a diagnostic its resource and its place.
fn placed(mut problem: Diagnostic, key: &ResourceKey, origin: &Origin) -> Diagnostic {
    let document = yaml::parse(&origin.text).map(|p| p.root).unwrap_or_default();
    problem.span = Some(origin.in_file(document.at(&problem.field).span));
    problem.file = Some(origin.file.clone());
    problem.resource = key.to_string();
    problem
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

/// Conditions that compile without any attribute.
fn constant_match(rule: &RuleConfig, nothing: &Vocabulary, out: &mut Diagnostics) {
    let text = rule.match_text.trim();
    let (severity, message) = match &rule.condition {
        Condition::Always if !text.is_empty() => {
            (Severity::Info, "the condition is always true: it can be left out".to_owned())
        }
        Condition::When(_) if mixer_expr::compile(rule.language, &rule.match_text, nothing).is_ok() => (
            Severity::Warning,
            format!("the condition `{text}` reads no attribute: it is the same for every request"),
        ),
        _ => return,
    };
    let field = FieldPath::root().field("spec").field("match");
    let problem = Diagnostic::new(severity, "match-constant", field, message);
    out.push(placed(problem, &rule.key, &rule.origin));
}

/// What a rule does: pairs of handler and instance.
type Work<'s> = BTreeSet<(&'s ResourceKey, &'s ResourceKey)>;

/// Rules that do only what another rule of the same namespace does on the same condition.
fn shadowed(snapshot: &Snapshot, out: &mut Diagnostics) {
    let mut seen: BTreeMap<_, Vec<(&ResourceKey, Work<'_>)>> = BTreeMap::new();
    for rule in
        snapshot.rules.iter().filter(|r| r.request_headers.is_empty() && r.response_headers.is_empty())
    {
        // To repeat a rule is what dry run is for.
        if rule.dry_run {
            continue;
        }
        let text = if matches!(rule.condition, Condition::Always) { "" } else { rule.match_text.trim() };
        let work = rule.actions.iter().flat_map(|a| a.instances.iter().map(|i| (&a.handler.key, &i.key)));
        let work = work.collect::<Work<'_>>();
        let like = seen.entry((&*rule.key.namespace, rule.language.name(), text)).or_default();
        if let Some((first, _)) = like.iter().find(|(_, earlier)| work.is_subset(earlier)) {
            let message = format!("the rule only repeats what {first} does on the same condition");
            let problem = Diagnostic::warning("rule-shadowed", name_field(), message)
                .with_hint("its instances are sent twice: remove one of the rules");
            out.push(placed(problem, &rule.key, &rule.origin));
        }
        like.push((&rule.key, work));
    }
}
