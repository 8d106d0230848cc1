//! Rules: conditions and actions, resolved and compiled.

use std::sync::Arc;

use foldhash::HashSet;

use super::annotations;
use super::decode::{Action, Rule};
use super::external::{MAX_OUTPUTS, OutputScope};
use super::forgotten::{empty_parameter, find_null};
use super::handlers::HandlerState;
use super::header_operations::{CompiledOperations, HeaderOperations};
use super::instances::InstanceState;
use super::known::{KnownResources, NamePool};
use super::model::{
    ActionConfig, Condition, Evasion, HandlerConfig, HeaderOperationConfig, HeaderOperationKind,
    InstanceConfig, OnError, OutputSource, RuleConfig, denies_failed_condition,
};
use super::names;
use super::problems::ResourceProblems;
use super::programs::Programs;
use super::suspicions::{self, WithoutRule};
use super::unit::{Built, Located};
use crate::template::Variety;
use mixer_attribute::ValueType;
use mixer_config::message::decode_over;
use mixer_config::{Diagnostic, FieldPath, Node, NodeKind, Origin, RawResource};
use mixer_expr::Language;

/// The build result of a rule.
#[derive(Debug)]
pub(super) struct RuleState {
    /// The rule, if any action or header operation remains.
    pub(super) config: Option<Arc<RuleConfig>>,
    /// Full names on which it depends.
    pub(super) references: Box<[Arc<str>]>,
    /// Number of errors, for the metric of rule errors.
    pub(super) errors: u64,
    /// Whether its condition does not compile.
    pub(super) broken_match: bool,
    /// Whether a hint depends on every known name.
    pub(super) advised: bool,
}

impl Located for RuleState {
    fn relocate(&mut self, origin: &Origin) {
        if let Some(config) = &mut self.config {
            *config = Arc::new(RuleConfig { origin: origin.clone(), ..RuleConfig::clone(config) });
        }
    }
}

/// A resource of kind `rule`.
pub(super) fn build_rule(
    resource: &RawResource,
    language: Language,
    known: &KnownResources,
    names: &mut NamePool,
    programs: &mut Programs,
    default_namespace: &str,
    failure: &dyn Fn(&str) -> String,
) -> Built<RuleState> {
    let mut problems = ResourceProblems::new(resource);
    let mut rule = Rule::default();
    let path = FieldPath::root().field("spec");
    let errors = problems.spec().map_or_else(Vec::new, |spec| decode_over(&mut rule, spec, path));
    if !errors.is_empty() {
        problems.decode_errors("spec-decode", errors, failure);
        if !annotations::denies_by_default(resource, &mut problems) {
            return Built::Unconvertible(problems.list);
        }
        let of_mesh = *resource.key.namespace == *default_namespace;
        let closed = closed(resource, language, of_mesh, names, &mut problems);
        return Built::Substituted(closed, problems.list);
    }
    let mut builder = RuleBuilder {
        resource,
        name: resource.key.to_string(),
        language,
        known,
        names,
        programs,
        problems,
        errors: 0,
        references: Vec::new(),
        advised: false,
    };
    builder.check_for_null();
    let condition = builder.condition(&rule.condition);
    let actions = rule
        .actions
        .iter()
        .enumerate()
        .filter_map(|(i, action)| builder.action(i, action))
        .collect::<Vec<_>>();
    let (headers, outputs) = builder.headers(&rule, &actions);
    let operations = rule.request_header_operations.len() + rule.response_header_operations.len();
    let denies_by_default = annotations::denies_by_default(resource, &mut builder.problems);
    let empty = actions.is_empty() && operations == 0 && !denies_by_default;
    if empty {
        builder.empty();
    }
    let allows_everywhere = annotations::allows_everywhere(resource, &mut builder.problems);
    let on_error = annotations::on_error(resource, &mut builder.problems);
    let dry_run = annotations::dry_run(resource, &mut builder.problems);
    annotations::check(resource, annotations::OF_RULES, &mut builder.problems);
    annotations::language(resource, &mut builder.problems);
    let has_header_operations = operations > 0 && headers.is_some();
    let (request_headers, response_headers) = headers.unwrap_or_default();
    let broken_match = !empty && matches!(condition, Condition::Broken(_));
    let match_text = match &condition {
        Condition::When(program) => program.shared_text().clone(),
        _ => builder.names.intern(&rule.condition),
    };
    let evasion = suspicions::evasion(&condition, &actions, &builder.programs.vocabulary);
    let config = (!empty).then(|| {
        Arc::new(RuleConfig {
            key: resource.key.clone(),
            match_text,
            condition,
            language,
            actions,
            has_header_operations,
            request_headers,
            response_headers,
            outputs,
            dry_run,
            denies_by_default,
            of_mesh: *resource.key.namespace == *default_namespace,
            allows_everywhere,
            on_error,
            evasion,
            origin: resource.origin.clone(),
        })
    });
    if let Some(rule) = &config {
        let vocabulary = &builder.programs.vocabulary;
        suspicions::rule(rule, WithoutRule::of(rule), vocabulary, &mut builder.problems);
    }
    let RuleBuilder { problems, errors, mut references, advised, .. } = builder;
    references.sort_unstable();
    references.dedup();
    let references = references.into();
    Built::Done(RuleState { config, references, errors, broken_match, advised }, problems.list)
}

/// A default that does not convert, and of which no version is in force: it refuses all that it might select.
fn closed(
    resource: &RawResource,
    language: Language,
    of_mesh: bool,
    names: &mut NamePool,
    problems: &mut ResourceProblems<'_>,
) -> RuleState {
    let config = RuleConfig {
        key: resource.key.clone(),
        condition: Condition::Broken("the rule does not convert".into()),
        match_text: names.intern(""),
        language,
        actions: Vec::new(),
        has_header_operations: false,
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        outputs: Box::default(),
        dry_run: annotations::dry_run(resource, problems),
        denies_by_default: true,
        of_mesh,
        allows_everywhere: annotations::allows_everywhere(resource, problems),
        on_error: annotations::on_error(resource, problems),
        evasion: Evasion::Nobody,
        origin: resource.origin.clone(),
    };
    RuleState {
        config: Some(Arc::new(config)),
        references: Box::default(),
        errors: 0,
        broken_match: false,
        advised: false,
    }
}

fn is_check(variety: Variety) -> bool {
    matches!(variety, Variety::Check | Variety::CheckWithOutput)
}

impl WithoutRule {
    /// What a rule prevents unless its condition fails; `None` if nothing, or if it refuses then.
    fn of(rule: &RuleConfig) -> Option<Self> {
        match rule.on_error {
            None => Self::without_policy(&rule.actions, &rule.request_headers),
            // Without it, a default selects the requests for which its condition fails.
            Some(OnError::Allow) => rule.denies_by_default.then_some(Self::Passes),
            Some(OnError::Deny | OnError::LastKnown) => None,
        }
    }

    fn without_policy(actions: &[ActionConfig], request_headers: &[HeaderOperationConfig]) -> Option<Self> {
        if denies_failed_condition(None, actions, is_check) {
            return None;
        }
        let prevented = Self::of_actions(actions, request_headers);
        let is_charged = denies_failed_condition(None, actions, |variety| variety == Variety::Quota);
        prevented.filter(|prevented| *prevented != Self::IsNotCharged || !is_charged)
    }

    /// What a rule prevents for the requests that its condition selects.
    pub(super) fn prevented(rule: &RuleConfig) -> Option<Self> {
        match rule.denies_by_default {
            true => Some(Self::Passes),
            false => Self::of_actions(&rule.actions, &rule.request_headers),
        }
    }

    fn of_actions(actions: &[ActionConfig], request_headers: &[HeaderOperationConfig]) -> Option<Self> {
        let is_quota = |instance: &Arc<InstanceConfig>| instance.template().variety == Variety::Quota;
        // An appended value leaves what the caller sent.
        let protects = |operation: &HeaderOperationConfig| operation.kind != HeaderOperationKind::Append;
        if actions.iter().any(ActionConfig::can_refuse) {
            Some(Self::Passes)
        } else if actions.iter().flat_map(|action| &action.instances).any(is_quota) {
            Some(Self::IsNotCharged)
        } else {
            request_headers.iter().any(protects).then_some(Self::KeepsHeaders)
        }
    }
}

/// Whether a rule might decide about requests if it were valid: false only if it is in dry run, or certainly only reports.
pub(super) fn may_enforce(resource: &RawResource, known: &KnownResources) -> bool {
    if annotations::is_dry_run(resource) {
        return false;
    }
    let problems = ResourceProblems::new(resource);
    let mut rule = Rule::default();
    let path = FieldPath::root().field("spec");
    let errors = problems.spec().map_or_else(Vec::new, |spec| decode_over(&mut rule, spec, path));
    let defaults = resource.annotations.contains_key(annotations::DEFAULT);
    if !errors.is_empty() || defaults || !rule.request_header_operations.is_empty() {
        return true;
    }
    let namespace = &resource.key.namespace;
    // A wrong name alone must not turn a rule that refuses into one that reports: handler and instances have to agree.
    let only_reports = |action: &Action| {
        let handler = find(&action.handler, "handler", namespace, |name| match known.handlers.get(name)? {
            HandlerState::Static(config) | HandlerState::External { config: Some(config), .. } => {
                Some(config)
            }
            HandlerState::External { config: None, .. } | HandlerState::Unknown => None,
        });
        let may_take = |reports: bool| {
            handler.is_none_or(|handler| {
                let mut varieties = handler.templates().map(|template| template.variety);
                varieties.any(|variety| (variety == Variety::Report) == reports)
            })
        };
        let may_refuse = may_take(false);
        let reports = |reference: &String| {
            let found = find(reference, "instance", namespace, |name| {
                Some(known.instances.get(name)?.config()?.template().variety)
            });
            found.map_or(!may_refuse, |variety| variety == Variety::Report)
        };
        may_take(true) && !(may_refuse && action.instances.is_empty()) && action.instances.iter().all(reports)
    };
    rule.actions.is_empty()
        || !rule.response_header_operations.is_empty()
        || !rule.actions.iter().all(only_reports)
}

/// The first hit among the names that a reference may resolve to.
fn find<T>(reference: &str, kind: &str, namespace: &str, get: impl Fn(&str) -> Option<T>) -> Option<T> {
    let (first, second) = names::candidates(reference, kind, namespace);
    get(&first).or_else(|| get(&second?))
}

struct RuleBuilder<'b> {
    resource: &'b RawResource,
    name: String,
    language: Language,
    known: &'b KnownResources,
    names: &'b mut NamePool,
    programs: &'b mut Programs,
    problems: ResourceProblems<'b>,
    errors: u64,
    references: Vec<Arc<str>>,
    advised: bool,
}

impl<'b> RuleBuilder<'b> {
    /// Reports a problem that Istio Mixer lists as `FIELD: TEXT`.
    fn error(&mut self, field: &str, problem: Diagnostic) {
        self.errors += 1;
        let legacy = format!("{field}: {}", problem.message);
        self.problems.push(problem.with_legacy(legacy));
    }

    /// A `match` whose value was forgotten applies to every request, as without `match`.
    fn check_for_null(&mut self) {
        let value = self.problems.spec().and_then(|spec| spec.get("match"));
        if value.is_some_and(|value| value.kind == NodeKind::Null) {
            let field = FieldPath::root().field("spec").field("match");
            let message = "`match` has no value: the rule applies to every request";
            let problem = Diagnostic::error("match-empty", field, message).with_hint(suspicions::MATCH_ALL);
            self.problems.push(problem.accepted_by_istio());
        }
        // Without header operations, what the caller sent goes on.
        let mut found = Vec::new();
        let spec = self.problems.spec().map(Node::entries).unwrap_or_default();
        for entry in spec.iter().filter(|entry| &*entry.key != "match") {
            let field = || FieldPath::root().field("spec").field(&entry.key);
            match entry.value.kind {
                NodeKind::Null => found.push((field(), entry.key.clone())),
                _ => find_null(&entry.value, &field, &mut found),
            }
        }
        // That an operation has no values is told of the operation.
        let found = found.into_iter().filter(|(_, name)| **name != *"values");
        found.for_each(|found| self.problems.push(empty_parameter(found)));
    }

    fn condition(&mut self, text: &str) -> Condition {
        if matches!(text.trim(), "" | "true") {
            return Condition::Always;
        }
        let field = FieldPath::root().field("spec").field("match");
        let legacy_field = format!("rule='{}'.Match", self.name);
        match self.programs.compile(self.language, text) {
            Ok(program) if program.value_type() == ValueType::Bool => Condition::When(program),
            Ok(program) => {
                let found = program.value_type();
                let message = format!("expression '{text}' evaluated to type {found}, expected type BOOL");
                let problem = Diagnostic::error("expression-type", field, message)
                    .with_hint("a condition is true or false: compare the value with something");
                self.error(&legacy_field, problem);
                Condition::Broken(format!("expression does not return a boolean: '{text}'").into())
            }
            Err(refusal) => {
                let vocabulary = self.programs.vocabulary.clone();
                let cause = refusal.compile.to_string();
                let message = refusal.error().plain().into_owned();
                let problem = self.problems.expression(field, text, &refusal, message, &*vocabulary);
                let legacy = match &refusal.check {
                    Some(error) => {
                        self.errors += 1;
                        format!("{legacy_field}: {error}")
                    }
                    None => format!(
                        "Unable to compile match condition expression: '{cause}', rule='{}', expression='{text}'",
                        self.name
                    ),
                };
                self.problems.push(problem.with_legacy(legacy));
                Condition::Broken(cause.into())
            }
        }
    }

    /// Resolves a reference and records the names that the result depends on.
    fn resolve<S: Copy>(
        &mut self,
        reference: &str,
        kind: &str,
        find: impl Fn(&KnownResources, &str) -> Option<S>,
    ) -> Option<(S, String)> {
        let (first, second) = names::candidates(reference, kind, &self.resource.key.namespace);
        self.references.push(self.names.intern(&first));
        if let Some(found) = find(self.known, &first) {
            return Some((found, first));
        }
        let second = second?;
        self.references.push(self.names.intern(&second));
        find(self.known, &second).map(|found| (found, second))
    }

    fn action(&mut self, index: usize, action: &Action) -> Option<ActionConfig> {
        let field = FieldPath::root().field("spec").field("actions").index(index);
        let legacy = format!("action='{}[{index}]'", self.name);
        let (handler, handler_name) = self.handler(action, &field, &legacy)?;
        let mut instances: Vec<Arc<InstanceConfig>> = Vec::with_capacity(action.instances.len());
        let mut seen = HashSet::<String>::default();
        let mut silent = 0;
        for (i, reference) in action.instances.iter().enumerate() {
            let field = field.field("instances").index(i);
            match self.instance(reference, &handler, &handler_name, &mut seen, &field, &legacy) {
                ResolvedInstance::Instance(instance) => instances.push(instance),
                ResolvedInstance::Silent => silent += 1,
                ResolvedInstance::Missing => {}
            }
        }
        if instances.is_empty() {
            if silent == 0 {
                let problem = Diagnostic::error("action-empty", field, "No valid instances found");
                self.error(
                    &legacy,
                    problem.with_hint("an action needs at least one instance that its handler can take"),
                );
            }
            return None;
        }
        Some(ActionConfig { name: self.names.intern(&action.name), handler, instances, index })
    }

    fn handler(
        &mut self,
        action: &Action,
        field: &FieldPath,
        legacy: &str,
    ) -> Option<(Arc<HandlerConfig>, String)> {
        let reference = &action.handler;
        let field = field.field("handler");
        // Built-in handlers take precedence under every candidate name.
        let built_in = self.resolve(reference, "handler", |known, name| match known.handlers.get(name) {
            Some(HandlerState::Static(_)) => known.handlers.get(name).map(|_| ()),
            _ => None,
        });
        if let Some(((), name)) = built_in
            && let Some(HandlerState::Static(config)) = self.known.handlers.get(name.as_str())
        {
            return Some((config.clone(), name));
        }
        let external = self.resolve(reference, "handler", |known, name| match known.handlers.get(name) {
            Some(HandlerState::External { config: Some(_), .. }) => Some(()),
            _ => None,
        });
        if let Some(((), name)) = external
            && let Some(HandlerState::External { config: Some(config), .. }) =
                self.known.handlers.get(name.as_str())
        {
            return Some((config.clone(), name));
        }
        let (hint, cause) = self.handler_hint(reference);
        self.advised = true;
        let mut problem =
            Diagnostic::error("handler-unknown", field, format!("Handler not found: handler='{reference}'"));
        (problem.hint, problem.cause) = (hint, cause);
        self.error(legacy, problem);
        None
    }

    /// How to mend a reference to no handler, and the resource whose error is to be mended for that.
    fn handler_hint(&self, reference: &str) -> (Option<String>, Option<Box<str>>) {
        let (first, second) = names::candidates(reference, "handler", &self.resource.key.namespace);
        let candidates = std::iter::once(first.clone()).chain(second);
        let mut states = candidates.filter_map(|name| Some((self.known.handlers.get(name.as_str())?, name)));
        let (hint, name) = match states.next() {
            Some((HandlerState::Unknown, name)) => ("the handler exists, but its adapter does not", name),
            Some((HandlerState::External { config: None, .. }, name)) => {
                ("the handler exists, but is invalid: see its own diagnostic", name)
            }
            _ => {
                let there = self.known.handlers.iter().filter(|(_, state)| state.config().is_some());
                let there = there.map(|(name, _)| &**name);
                let namespace = &self.resource.key.namespace;
                return (names::reference_hint(reference, "handler", namespace, there), Some(first.into()));
            }
        };
        (Some(hint.to_owned()), Some(name.as_str().into()))
    }

    fn instance(
        &mut self,
        reference: &str,
        handler: &HandlerConfig,
        handler_name: &str,
        seen: &mut HashSet<String>,
        field: &FieldPath,
        legacy: &str,
    ) -> ResolvedInstance {
        let is_external = handler.external.is_some();
        let found = self.resolve(reference, "instance", |known, name| match known.instances.get(name)? {
            InstanceState::Static(_) | InstanceState::Uncompilable if !is_external => Some(()),
            InstanceState::External { config: Some(_), .. } if is_external => Some(()),
            _ => None,
        });
        let Some(((), name)) = found else {
            self.advised = true;
            let there = self.known.instances.iter().filter(|(_, state)| {
                state.config().is_some_and(|config| config.external.is_some() == is_external)
            });
            let namespace = self.resource.key.namespace.clone();
            let (first, _) = names::candidates(reference, "instance", &namespace);
            let hint = match self.known.instances.get(first.as_str()) {
                Some(InstanceState::Broken | InstanceState::External { config: None, .. }) => {
                    Some("the instance exists, but is invalid: see its own diagnostic".to_owned())
                }
                Some(InstanceState::External { .. }) => Some(format!(
                    "its template is out of process, and adapter {} is not",
                    handler.adapter_name()
                )),
                Some(InstanceState::Static(_)) => Some(format!(
                    "its template is built in, and adapter {} is out of process: write `template` with that of a resource",
                    handler.adapter_name()
                )),
                _ => names::reference_hint(reference, "instance", &namespace, there.map(|(name, _)| &**name)),
            };
            let message = format!("Instance not found: instance='{reference}'");
            let mut problem = Diagnostic::error("instance-unknown", field.clone(), message);
            (problem.hint, problem.cause) = (hint, Some(first.into()));
            self.error(legacy, problem);
            return ResolvedInstance::Missing;
        };
        if !seen.insert(name.clone()) {
            let message = format!("action specified the same instance multiple times: instance='{name}',");
            let problem = Diagnostic::error("instance-repeated", field.clone(), message);
            self.error(legacy, problem.with_hint("name it once"));
            return ResolvedInstance::Missing;
        }
        let state = self.known.instances.get(name.as_str());
        let Some(instance) = state.and_then(InstanceState::config) else { return ResolvedInstance::Silent };
        let template = &instance.template().name;
        if !handler.templates().any(|supported| supported.name == *template) {
            let supported: Vec<&str> = handler.templates().map(|template| &*template.name).collect();
            let message = format!(
                "instance '{name}' is of template '{template}' which is not supported by handler '{handler_name}'"
            );
            let hint = format!("adapter {} takes {}", handler.adapter_name(), supported.join(", "));
            let problem = Diagnostic::error("template-unsupported", field.clone(), message).with_hint(hint);
            self.error(legacy, problem);
            return ResolvedInstance::Missing;
        }
        ResolvedInstance::Instance(instance.clone())
    }

    /// The header operations, `None` if one of them does not compile; and the outputs that their values may read.
    fn headers(
        &mut self,
        rule: &Rule,
        actions: &[ActionConfig],
    ) -> (Option<CompiledOperations>, Box<[OutputSource]>) {
        let vocabulary = Arc::clone(&self.programs.vocabulary);
        let mut scope = OutputScope::new(&vocabulary);
        let outputs = self.outputs(rule, actions, &mut scope);
        let Self { name, language, programs, problems, .. } = self;
        let operations = HeaderOperations { rule: name, language: *language, programs, problems, scope };
        (operations.compile(rule), outputs)
    }

    /// The outputs of the checks of a rule that its header operations name, as `ACTION.output.FIELD`.
    fn outputs(
        &mut self,
        rule: &Rule,
        actions: &[ActionConfig],
        scope: &mut OutputScope<'_>,
    ) -> Box<[OutputSource]> {
        let mut sources = Vec::new();
        let operations = || rule.request_header_operations.iter().chain(&rule.response_header_operations);
        for action in actions {
            for (at, instance) in action.instances.iter().enumerate() {
                let template = instance.template();
                if template.variety != Variety::CheckWithOutput {
                    continue;
                }
                for (position, output) in template.output.iter().enumerate() {
                    let name = format!("{}.output.{}", action.name, output.name);
                    if !operations().flat_map(|operation| &operation.values).any(|text| text.contains(&name))
                    {
                        continue;
                    }
                    if sources.len() == MAX_OUTPUTS {
                        let field = FieldPath::root().field("spec").field("requestHeaderOperations");
                        let text = format!("header operations read more than {MAX_OUTPUTS} outputs");
                        self.problems.push(Diagnostic::error("header-operation", field, text));
                        return sources.into();
                    }
                    scope.add(name, output.value_type);
                    sources.push(OutputSource { action: action.index, instance: at, output: position });
                }
            }
        }
        sources.into()
    }

    fn empty(&mut self) {
        let problem = Diagnostic::error(
            "rule-empty",
            FieldPath::root().field("metadata").field("name"),
            "No valid actions found in rule",
        )
        .with_hint("a rule needs a valid action or a header operation");
        self.error(&format!("rule={}", self.name), problem);
    }
}

enum ResolvedInstance {
    Instance(Arc<InstanceConfig>),
    /// It exists and cannot run; it has its own diagnostic.
    Silent,
    Missing,
}
