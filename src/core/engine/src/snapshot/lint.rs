//! Passes over a built snapshot that find suspicious configuration.
//!
//! [`check_params`] validates parameters with their adapters; [`pitfalls`] finds mistakes that no adapter reports; [`lint`] finds
//! useless configuration. Each is a pure function of the snapshot. A server has the first two once a configuration is published; see
//! docs/diagnostics.md.

mod enforcement;
mod params;
pub(super) mod place;
mod shadow;
mod undecoded;
mod unmapped;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::place::{instance_params_path, name_field, params_path, placed};
use super::extension::IncompleteAttribute;
use super::model::{Condition, HeaderOperationKind, InstanceConfig, RuleConfig, Snapshot};
use super::spills;
use super::suspicions;
use super::trials::{self, Use};
use crate::template::Variety;
use mixer_attribute::{AttributeBag, Value, Vocabulary};
use mixer_base::suggestion::SuggestionBudget;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Positions, Severity};

/// Validates the parameters of every handler with its adapter and bound instances.
///
/// Code `adapter-config`, but a warning keeps the code of the adapter; the field is relative to the resource, the message is that of
/// the adapter. An unused handler is never built, so its problems are warnings. So is that of a rule in dry run with which alone a handler
/// rejects its instances (`dry-run-rejected`): the handler is built without it. The hints of all have one budget of suggestions.
pub fn check_params(snapshot: &Snapshot) -> Diagnostics {
    params_problems(snapshot, &|| false)
}

/// What [`check_params`] and [`pitfalls`] find. `None` if `is_useless` by then, which is asked between two handlers or rules: there is a newer
/// configuration. Others may run on the core in between.
pub(crate) fn examine(snapshot: &Snapshot, is_useless: &dyn Fn() -> bool) -> Option<Diagnostics> {
    let ends = || {
        mixer_base::scheduling::let_others_run();
        is_useless()
    };
    let mut found = params_problems(snapshot, &ends);
    found.extend(mistakes(snapshot, &ends));
    (!is_useless()).then_some(found)
}

/// Up to the handler before which it `ends`.
fn params_problems(snapshot: &Snapshot, ends: &dyn Fn() -> bool) -> Diagnostics {
    let problems = || undecoded::without_consequences(snapshot, params_problems_of(snapshot, ends));
    SuggestionBudget::default().run(problems)
}

fn params_problems_of(snapshot: &Snapshot, ends: &dyn Fn() -> bool) -> Diagnostics {
    let (used, positions) = (trials::uses(snapshot), Positions::default());
    let mut out = Diagnostics::new();
    for handler in snapshot.handlers.iter().take_while(|_| !ends()) {
        let uses = used.get(&handler.key).map_or(&[][..], Vec::as_slice);
        let is_unused = uses.is_empty();
        let rejected = trials::rejected(handler, uses);
        let is_taken = |used: &&Use<'_>| !rejected.iter().any(|trial| Arc::ptr_eq(&trial.rule, used.rule));
        let bound = trials::instances(uses.iter().filter(is_taken));
        let mut problems = Diagnostics::new();
        handler.adapter.validate(&handler.params, &bound, &mut problems);
        out.extend(rejected.into_iter().map(|trial| trial.problem));
        for mut problem in problems {
            let field = params_path(handler).join(&problem.field);
            let legacy = problem.message.clone();
            let severity = if is_unused { problem.severity.max(Severity::Warning) } else { problem.severity };
            let code = if problem.severity == Severity::Error { "adapter-config" } else { problem.code };
            (problem.code, problem.severity, problem.field) = (code, severity, field);
            out.push(positions.place(problem.with_legacy(legacy), &handler.key, &handler.origin));
        }
    }
    out
}

/// Mistakes between resources that are valid on their own: short instance names in parameters, labels without dimensions, a directory or a
/// window of several handlers, attributes that no expression can name.
pub fn pitfalls(snapshot: &Snapshot) -> Diagnostics {
    mistakes(snapshot, &|| false)
}

/// Up to the handler or rule before which it `ends`.
fn mistakes(snapshot: &Snapshot, ends: &dyn Fn() -> bool) -> Diagnostics {
    let problems = || undecoded::without_consequences(snapshot, mistakes_of(snapshot, ends));
    SuggestionBudget::default().run(problems)
}

fn mistakes_of(snapshot: &Snapshot, ends: &dyn Fn() -> bool) -> Diagnostics {
    let (mut out, positions) = (Diagnostics::new(), Positions::default());
    let instances = params::Instances::of(snapshot);
    for handler in snapshot.handlers.iter().take_while(|_| !ends()) {
        params::check(handler, &instances, &positions, &mut out);
    }
    params::shared_windows(snapshot, &positions, &mut out);
    let conflicts = spills::conflicts(snapshot.handlers.iter(), |_| false, &positions);
    out.extend(conflicts.into_iter().map(|(_, problem)| problem));
    for (name, _) in snapshot.vocabulary.declared() {
        if let Some(keyword) = name.split('.').find(|segment| mixer_expr::is_keyword(segment)) {
            let message =
                format!("attribute {name} cannot be used in expressions: `{keyword}` is a keyword there");
            out.push(Diagnostic::warning("attribute-keyword", FieldPath::root(), message));
        }
    }
    constant_dimensions(snapshot, &positions, &mut out);
    unset_names(snapshot, &mut out);
    let rules = snapshot.rules.iter().take_while(|_| !ends());
    rules.for_each(|rule| incomplete_attributes(rule, snapshot, &mut out));
    unmapped::unmapped(snapshot, ends, &mut out);
    out
}

/// The attributes of responses, which only reports have.
const RESPONSE: &str = "response.";

/// Reports rules that decide by an attribute of the response, which comes after the check, or by one of which the requests of an extension have
/// nothing, or less than expected.
fn incomplete_attributes(rule: &RuleConfig, snapshot: &Snapshot, out: &mut Diagnostics) {
    if !rule.decides() {
        return;
    }
    let condition = match &rule.condition {
        Condition::When(program) => Some(program),
        _ => None,
    };
    let reports = |instance: &&Arc<InstanceConfig>| instance.template().variety == Variety::Report;
    let instances = rule.actions.iter().flat_map(|action| &action.instances).filter(|i| !reports(i));
    let values = instances.flat_map(|instance| instance.programs.iter().flatten());
    let headers = rule.request_headers.iter().filter_map(|operation| operation.value.as_ref());
    let programs = condition.into_iter().chain(values).chain(headers);
    let read: BTreeSet<&str> = programs
        .flat_map(|program| program.attributes())
        .map(|slot| snapshot.vocabulary.name(slot))
        .collect();
    let reports_too = rule.actions.iter().flat_map(|action| &action.instances).any(|i| reports(&i));
    if let Some(name) = read.iter().find(|name| name.starts_with(RESPONSE) && !reports_too) {
        let message = format!(
            "the rule decides about requests and reads `{name}`: there is no response yet, so that it is absent"
        );
        let field = FieldPath::root().field("spec").field("match");
        let problem = Diagnostic::warning("response-before-check", field, message)
            .with_hint("decide by an attribute of the request; what a response was is for rules that report");
        out.push(placed(problem, &rule.key, &rule.origin));
    }
    let found = read.into_iter().find_map(|name| {
        Some((name, snapshot.extensions.iter().find_map(|extension| extension.incomplete(name))?))
    });
    if let Some((name, IncompleteAttribute { code, why, hint })) = found {
        let message = format!("the rule reads `{name}`: {why}");
        let field = FieldPath::root().field("spec").field("match");
        let problem = Diagnostic::warning(code, field, message).with_hint(hint);
        out.push(placed(problem, &rule.key, &rule.origin));
    }
}

/// Reports what resources of an extension name and no instance of its adapter sets.
fn unset_names(snapshot: &Snapshot, out: &mut Diagnostics) {
    for extension in snapshot.extensions.iter() {
        let Some(adapter) = extension.deciding_adapter() else { continue };
        let actions = snapshot.rules.iter().flat_map(|rule| &rule.actions);
        let actions = actions.filter(|action| action.handler.adapter.info().name == adapter);
        let bound: Vec<_> =
            actions.flat_map(|action| &action.instances).map(|instance| &instance.bound).collect();
        if !bound.is_empty() {
            out.extend(extension.unset(&bound));
        }
    }
}

/// Reports dimensions of quotas that are the same for every request of an extension.
fn constant_dimensions(snapshot: &Snapshot, positions: &Positions, out: &mut Diagnostics) {
    let generated: BTreeSet<_> =
        snapshot.instances.iter().flat_map(|i| &i.bindings).map(|binding| binding.target).collect();
    for instance in snapshot.instances.iter().filter(|i| i.template().variety == Variety::Quota) {
        for (leaf, program) in instance.bound.leaves.iter().zip(&instance.programs) {
            let (Some(key), Some(program)) = (leaf.key.as_deref(), program) else { continue };
            let slots = program.attributes();
            // A dimension without any attribute is constant on purpose.
            if slots.is_empty() || slots.iter().any(|slot| generated.contains(slot)) {
                continue;
            }
            let names: Vec<&str> = slots.iter().map(|slot| snapshot.vocabulary.name(*slot)).collect();
            let name = &*instance.key.name;
            let Some(why) = snapshot.extensions.iter().find_map(|e| e.constant_dimension(name, &names))
            else {
                continue;
            };
            let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!(
                "all {} share one amount: they do not set {names}, which `{key}` reads",
                why.requests
            );
            let field = instance_params_path(instance).field("dimensions").key(key);
            let problem = Diagnostic::warning("quota-dimension-constant", field, message).with_hint(why.hint);
            out.push(positions.place(problem, &instance.key, &instance.origin));
        }
    }
}

/// Useless configuration: unused handlers, instances, adapters and templates, shadowed rules, constant conditions, and what is not enforced.
pub fn lint(snapshot: &Snapshot) -> Diagnostics {
    let mut out = Diagnostics::new();
    unused(snapshot, &mut out);
    let no_attributes = Vocabulary::builder().build();
    for rule in &snapshot.rules {
        constant_match(rule, &no_attributes, &mut out);
        headers_without_value(rule, &snapshot.vocabulary, &mut out);
        truncated_bodies(rule, &snapshot.vocabulary, &mut out);
        chosen_protocol(rule, &snapshot.vocabulary, &mut out);
    }
    malformed_instances(snapshot, &mut out);
    shadow::shadowed(snapshot, &mut out);
    enforcement::unenforced(snapshot, &mut out);
    out
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
        let mut problem = Diagnostic::warning("instance-unused", name_field(), message);
        if instance.template().variety == Variety::Quota {
            problem =
                problem.with_hint("a call of the Mixer API that asks for this quota is granted all of it");
        }
        out.push(placed(problem, &instance.key, &instance.origin));
    }
    unused_external(snapshot, out);
}

/// Reports adapters out of process without handlers, and templates without adapters and instances.
fn unused_external(snapshot: &Snapshot, out: &mut Diagnostics) {
    let external = || snapshot.handlers.iter().filter_map(|handler| handler.external.as_ref());
    let adapters = external().map(|handler| &handler.key).collect::<BTreeSet<_>>();
    let taken = snapshot.external.adapters.iter().flat_map(|adapter| &adapter.templates);
    let taken = taken.map(|template| &template.name).collect::<BTreeSet<_>>();
    let bound = snapshot.instances.iter().filter_map(|i| i.external.as_ref()).collect::<BTreeSet<_>>();
    for adapter in snapshot.external.adapters.iter().filter(|adapter| !adapters.contains(&adapter.key)) {
        let message = format!("adapter {} is used by no handler", adapter.key);
        let problem = Diagnostic::warning("adapter-unused", name_field(), message);
        out.push(placed(problem, &adapter.key, &adapter.origin));
    }
    let templates = snapshot.external.templates.iter();
    for template in templates.filter(|t| !taken.contains(&t.template.name) && !bound.contains(&t.key)) {
        let message = format!("template {} is used by no adapter and no instance", template.key);
        let problem = Diagnostic::warning("template-unused", name_field(), message);
        out.push(placed(problem, &template.key, &template.origin));
    }
}

/// Reports request headers that a rule replaces with a value that may be absent or empty.
fn headers_without_value(rule: &RuleConfig, vocabulary: &Vocabulary, out: &mut Diagnostics) {
    let arena = bumpalo::Bump::new();
    let bag = AttributeBag::empty(vocabulary, &arena);
    let replaced = rule.request_headers.iter().filter(|o| o.kind == HeaderOperationKind::Replace);
    for operation in replaced {
        let Some(program) = &operation.value else { continue };
        let has_value = matches!(program.eval(&bag), Ok(Value::String(text)) if !text.is_empty());
        let reads_more =
            program.attributes().iter().any(|slot| !suspicions::is_always_there(vocabulary.name(*slot)));
        if has_value || !reads_more {
            continue;
        }
        let (name, text) = (&operation.name, &operation.text);
        let message = format!(
            "the value `{text}` of the header {name} may be absent or empty: the Mixer API leaves the header of the caller as it is then, \
             Envoy removes it"
        );
        let field = FieldPath::root().field("spec").field("requestHeaderOperations");
        let problem = Diagnostic::warning("header-value-absent", field, message).with_hint(format!(
            "give it a fallback that is not empty, for example `{}`",
            with_fallback(text)
        ));
        out.push(placed(problem, &rule.key, &rule.origin));
    }
}

/// The expression with a fallback that is not empty, in the place of one that is.
fn with_fallback(text: &str) -> String {
    let before = text.trim_end().strip_suffix("\"\"").map(str::trim_end);
    match before.filter(|before| before.ends_with('|')) {
        Some(before) => format!("{before} \"none\""),
        None => format!("{text} | \"none\""),
    }
}

/// Attributes of request bodies, and the one that says whether a body is truncated.
const BODIES: [&str; 2] = ["request.body.raw", "request.body.text"];
const PARTIAL_BODY: &str = "request.body.partial";

/// Reports rules that decide about requests by their bodies and do not notice that a body is truncated.
fn truncated_bodies(rule: &RuleConfig, vocabulary: &Vocabulary, out: &mut Diagnostics) {
    let condition = match &rule.condition {
        Condition::When(program) => program.attributes(),
        _ => Vec::new(),
    };
    let decides = |instance: &&Arc<InstanceConfig>| instance.template().variety != Variety::Quota;
    let actions = rule.actions.iter().flat_map(|action| &action.instances).filter(decides);
    let values = actions.flat_map(|instance| instance.programs.iter().flatten()).flat_map(|p| p.attributes());
    let read: BTreeSet<&str> =
        condition.into_iter().chain(values).map(|slot| vocabulary.name(slot)).collect();
    let body = BODIES.iter().find(|body| read.contains(**body));
    if let Some(body) = body.filter(|_| !read.contains(PARTIAL_BODY)) {
        let message = format!("the rule reads `{body}`, which Envoy truncates to `max_request_bytes`");
        let field = FieldPath::root().field("spec").field("match");
        let problem = Diagnostic::warning("body-truncated", field, message).with_hint(format!(
            "do not set `allow_partial_message` in Envoy; or test `{PARTIAL_BODY} | false` too, and refuse what is as long as `max_request_bytes`, of which Envoy does not tell whether more follows"
        ));
        out.push(placed(problem, &rule.key, &rule.origin));
    }
}

/// Reports rules that may refuse, charge or change request headers, and whose condition callers of Envoy decide by their content type.
fn chosen_protocol(rule: &RuleConfig, vocabulary: &Vocabulary, out: &mut Diagnostics) {
    let Condition::When(program) = &rule.condition else { return };
    let instances = rule.actions.iter().flat_map(|action| &action.instances);
    let decides = !rule.request_headers.is_empty()
        || instances.map(|instance| instance.template().variety).any(|variety| variety != Variety::Report);
    let is_tested =
        ["\"http\"", "\"grpc\"", "`http`", "`grpc`"].iter().any(|name| rule.match_text.contains(name));
    let mut read = program.attributes().into_iter().map(|slot| vocabulary.name(slot));
    if decides && is_tested && read.any(|name| name == "context.protocol") {
        let message = "the condition tests `context.protocol`: a caller of Envoy chooses between http and grpc by its content-type";
        let field = FieldPath::root().field("spec").field("match");
        let problem = Diagnostic::warning("protocol-chosen", field, message)
            .with_hint("leave the test out, or write `context.protocol != \"tcp\"`");
        out.push(placed(problem, &rule.key, &rule.origin));
    }
}

/// Reports conversions by which a caller makes its checks fail, in instances whose failure no annotation decides.
fn malformed_instances(snapshot: &Snapshot, out: &mut Diagnostics) {
    let is_asked = |instance: &&Arc<InstanceConfig>| {
        matches!(instance.template().variety, Variety::Check | Variety::CheckWithOutput | Variety::Quota)
    };
    let rules = snapshot.rules.iter().filter(|rule| !rule.dry_run && rule.on_error.is_none());
    let actions = rules.flat_map(|rule| &rule.actions).filter(|action| action.handler.on_error.is_none());
    let instances = actions.flat_map(|action| &action.instances).filter(is_asked);
    let instances: BTreeMap<_, _> = instances.map(|instance| (&instance.key, instance)).collect();
    for instance in instances.into_values() {
        for (leaf, program) in instance.bound.leaves.iter().zip(&instance.programs) {
            let Some(program) = program else { continue };
            let Some((conversion, position)) = program.skipped_by_malformed() else { continue };
            let name = suspicions::shown(conversion.read, &snapshot.vocabulary);
            let message = format!(
                "a call whose `{name}` is absent or no valid {} fails: the instance cannot be evaluated (INTERNAL; to Envoy a check is INVALID_ARGUMENT, and a \
                 descriptor over its limit)",
                conversion.expected
            );
            let mut field = instance_params_path(instance).join(&FieldPath::parse(&leaf.field));
            if let Some(key) = leaf.key.as_deref() {
                field = field.key(key);
            }
            let mut problem = Diagnostic::warning("instance-malformed", field, message).with_hint(
                "leave the conversion out if the handler takes texts, or decide by `mixer.dev/on-error` on the rule",
            );
            problem.expression = suspicions::placed(program, position);
            out.push(placed(problem, &instance.key, &instance.origin));
        }
    }
}

/// Reports conditions that compile without any attribute.
fn constant_match(rule: &RuleConfig, no_attributes: &Vocabulary, out: &mut Diagnostics) {
    let text = rule.match_text.trim();
    let (severity, message) = match &rule.condition {
        Condition::Always if !text.is_empty() => {
            (Severity::Info, "the condition is always true: it can be left out".to_owned())
        }
        // The others are reported without `--lint`.
        Condition::When(_) if rule.decides() && text != suspicions::NEVER => return,
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
