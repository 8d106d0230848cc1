//! Rules: conditions, actions and header operations, resolved and compiled. Spec: runtime.md 4.6 and 9.1.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::annotations;
use super::decode::{Action, HeaderOperation, HeaderOperationTemplate, Rule};
use super::handlers::HandlerState;
use super::instances::InstanceState;
use super::memo::{Built, Located, Programs};
use super::model::{
    ActionConfig, Condition, HandlerConfig, HeaderOperationConfig, HeaderOperationKind, InstanceConfig,
    RuleConfig,
};
use super::names;
use super::report::Report;
use mixer_attribute::ValueType;
use mixer_config::message::decode_over;
use mixer_config::{Diagnostic, FieldPath, Origin, RawResource};
use mixer_expr::Language;

/// Handlers and instances by full name.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) handlers: FxHashMap<Arc<str>, HandlerState>,
    pub(super) instances: FxHashMap<Arc<str>, InstanceState>,
}

/// Texts that many rules have, each kept once.
#[derive(Debug, Default)]
pub(super) struct Names(FxHashSet<Arc<str>>);

impl Names {
    fn shared(&mut self, name: &str) -> Arc<str> {
        match self.0.get(name) {
            Some(known) => known.clone(),
            None => {
                let name: Arc<str> = name.into();
                self.0.insert(name.clone());
                name
            }
        }
    }

    /// Forgets names that nobody has any more.
    pub(super) fn sweep(&mut self) {
        self.0.retain(|name| Arc::strong_count(name) > 1);
    }
}

/// What became of a rule.
#[derive(Debug)]
pub(super) struct RuleState {
    /// The rule, if something of it is left.
    pub(super) config: Option<Arc<RuleConfig>>,
    /// Full names on which it depends.
    pub(super) references: Box<[Arc<str>]>,
    /// Messages that count as errors of rules.
    pub(super) errors: u64,
    /// Whether its condition does not compile.
    pub(super) broken_match: bool,
    /// Whether a problem names what else is there, so that it depends on every name.
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
    known: &Known,
    names: &mut Names,
    programs: &mut Programs,
    failure: &dyn Fn(&str) -> String,
) -> Built<RuleState> {
    let mut report = Report::new(resource);
    let mut rule = Rule::default();
    let path = FieldPath::root().field("spec");
    let errors = report.spec().map_or_else(Vec::new, |spec| decode_over(&mut rule, spec, path));
    if !errors.is_empty() {
        report.decode_errors("spec-decode", errors, failure);
        return Built::Unconvertible(report.problems);
    }
    let mut builder = RuleBuilder {
        resource,
        name: resource.key.to_string(),
        language,
        known,
        names,
        programs,
        report,
        errors: 0,
        references: Vec::new(),
        advised: false,
        outside: false,
    };
    let condition = builder.condition(&rule.condition);
    let actions = rule
        .actions
        .iter()
        .enumerate()
        .filter_map(|(i, action)| builder.action(i, action))
        .collect::<Vec<_>>();
    let (request_headers, response_headers) = builder.headers(&rule);
    let operations = rule.request_header_operations.len() + rule.response_header_operations.len();
    let empty = actions.is_empty() && operations == 0;
    // What is left out only because it is out of process is said already.
    if empty && !builder.outside {
        builder.empty();
    }
    let on_error = annotations::on_error(resource, &mut builder.report);
    let dry_run = annotations::dry_run(resource, &mut builder.report);
    annotations::check(resource, annotations::OF_RULES, &mut builder.report);
    let broken_match = !empty && matches!(condition, Condition::Broken(_));
    let config = (!empty).then(|| {
        Arc::new(RuleConfig {
            key: resource.key.clone(),
            match_text: match &condition {
                Condition::When(program) => program.shared_text().clone(),
                _ => builder.names.shared(&rule.condition),
            },
            condition,
            language,
            actions,
            request_headers,
            response_headers,
            dry_run,
            on_error,
            origin: resource.origin.clone(),
        })
    });
    let RuleBuilder { report, errors, mut references, advised, .. } = builder;
    references.sort_unstable();
    references.dedup();
    let references = references.into();
    Built::Done(RuleState { config, references, errors, broken_match, advised }, report.problems)
}

struct RuleBuilder<'b> {
    resource: &'b RawResource,
    name: String,
    language: Language,
    known: &'b Known,
    names: &'b mut Names,
    programs: &'b mut Programs,
    report: Report<'b>,
    errors: u64,
    references: Vec<Arc<str>>,
    advised: bool,
    /// Whether an action was left out because its handler is out of process.
    outside: bool,
}

impl RuleBuilder<'_> {
    /// Reports a problem that the originals list as `FIELD: TEXT`.
    fn error(&mut self, field: &str, problem: Diagnostic) {
        self.errors += 1;
        let legacy = format!("{field}: {}", problem.message);
        self.report.push(problem.with_legacy(legacy));
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
                let message = refusal.error().to_string();
                let problem = self.report.expression(field, text, &refusal, message, &*vocabulary);
                if refusal.check.is_some() {
                    self.error(&legacy_field, problem);
                } else {
                    let legacy = format!(
                        "Unable to compile match condition expression: '{cause}', rule='{}', expression='{text}'",
                        self.name
                    );
                    self.report.push(problem.with_legacy(legacy));
                }
                Condition::Broken(cause.into())
            }
        }
    }

    /// Finds what a reference means; notes on what the answer depends.
    fn resolve<S: Copy>(
        &mut self,
        reference: &str,
        kind: &str,
        find: impl Fn(&Known, &str) -> Option<S>,
    ) -> Option<(S, String)> {
        let (first, second) = names::candidates(reference, kind, &self.resource.key.namespace);
        self.references.push(self.names.shared(&first));
        if let Some(found) = find(self.known, &first) {
            return Some((found, first));
        }
        let second = second?;
        self.references.push(self.names.shared(&second));
        find(self.known, &second).map(|found| (found, second))
    }

    fn action(&mut self, index: usize, action: &Action) -> Option<ActionConfig> {
        let field = FieldPath::root().field("spec").field("actions").index(index);
        let legacy = format!("action='{}[{index}]'", self.name);
        let (handler, handler_name) = self.handler(action, &field, &legacy)?;
        let mut instances: Vec<Arc<InstanceConfig>> = Vec::with_capacity(action.instances.len());
        let mut seen = Vec::<String>::new();
        let mut silent = 0;
        for (i, reference) in action.instances.iter().enumerate() {
            let field = field.field("instances").index(i);
            match self.instance(reference, &handler, &handler_name, &mut seen, &field, &legacy) {
                Found::Instance(instance) => instances.push(instance),
                Found::Silent => silent += 1,
                Found::Nothing => {}
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
        Some(ActionConfig { name: self.names.shared(&action.name), handler, instances, index })
    }

    fn handler(
        &mut self,
        action: &Action,
        field: &FieldPath,
        legacy: &str,
    ) -> Option<(Arc<HandlerConfig>, String)> {
        let reference = &action.handler;
        let field = field.field("handler");
        // Built-in handlers are looked for first, under every name.
        let built_in = self.resolve(reference, "handler", |known, name| match known.handlers.get(name) {
            Some(HandlerState::Static(_)) => known.handlers.get(name).map(|_| ()),
            _ => None,
        });
        if let Some(((), name)) = built_in
            && let Some(HandlerState::Static(config)) = self.known.handlers.get(name.as_str())
        {
            return Some((config.clone(), name));
        }
        let dynamic = self.resolve(reference, "handler", |known, name| match known.handlers.get(name) {
            Some(HandlerState::Dynamic(_)) => Some(()),
            _ => None,
        });
        if dynamic.is_some() {
            self.outside = true;
            self.report.push(
                Diagnostic::warning(
                    "out-of-process",
                    field,
                    format!("handler '{reference}' is out of process and is left out"),
                )
                .with_hint("this build runs built-in adapters only"),
            );
            return None;
        }
        let hint = self.handler_hint(reference);
        self.advised = true;
        let mut problem =
            Diagnostic::error("handler-unknown", field, format!("Handler not found: handler='{reference}'"));
        problem.hint = hint;
        self.error(legacy, problem);
        None
    }

    fn handler_hint(&self, reference: &str) -> Option<String> {
        let (first, second) = names::candidates(reference, "handler", &self.resource.key.namespace);
        let unknown = |name: &str| matches!(self.known.handlers.get(name), Some(HandlerState::Unknown));
        if unknown(&first) || second.is_some_and(|s| unknown(&s)) {
            return Some("the handler is there, but its adapter is not".to_owned());
        }
        let there = self.known.handlers.iter().filter(|(_, s)| matches!(s, HandlerState::Static(_)));
        names::advice(reference, "handler", &self.resource.key.namespace, there.map(|(name, _)| &**name))
    }

    fn instance(
        &mut self,
        reference: &str,
        handler: &HandlerConfig,
        handler_name: &str,
        seen: &mut Vec<String>,
        field: &FieldPath,
        legacy: &str,
    ) -> Found {
        let found = self.resolve(reference, "instance", |known, name| match known.instances.get(name) {
            Some(InstanceState::Static(_) | InstanceState::Uncompilable) => Some(()),
            _ => None,
        });
        let Some(((), name)) = found else {
            self.advised = true;
            let there = self.known.instances.iter().filter(|(_, s)| matches!(s, InstanceState::Static(_)));
            let namespace = self.resource.key.namespace.clone();
            let (first, _) = names::candidates(reference, "instance", &namespace);
            let hint = match self.known.instances.get(first.as_str()) {
                Some(InstanceState::Broken) => {
                    Some("the instance is there, but it is broken: its own diagnostic says why".to_owned())
                }
                _ => names::advice(reference, "instance", &namespace, there.map(|(name, _)| &**name)),
            };
            let message = format!("Instance not found: instance='{reference}'");
            let mut problem = Diagnostic::error("instance-unknown", field.clone(), message);
            problem.hint = hint;
            self.error(legacy, problem);
            return Found::Nothing;
        };
        if seen.contains(&name) {
            let message = format!("action specified the same instance multiple times: instance='{name}',");
            let problem = Diagnostic::error("instance-repeated", field.clone(), message);
            self.error(legacy, problem.with_hint("name it once"));
            return Found::Nothing;
        }
        let state = self.known.instances.get(name.as_str());
        seen.push(name.clone());
        let Some(InstanceState::Static(instance)) = state else { return Found::Silent };
        let template = instance.template().name;
        let supported = handler.adapter.info().templates;
        if !supported.contains(&template) {
            let message = format!(
                "instance '{name}' is of template '{template}' which is not supported by handler '{handler_name}'"
            );
            let hint = format!("adapter {} takes {}", handler.adapter.info().name, supported.join(", "));
            let problem = Diagnostic::error("template-unsupported", field.clone(), message).with_hint(hint);
            self.error(legacy, problem);
            return Found::Nothing;
        }
        Found::Instance(instance.clone())
    }

    fn empty(&mut self) {
        let problem = Diagnostic::error(
            "rule-empty",
            FieldPath::root().field("metadata").field("name"),
            "No valid actions found in rule",
        )
        .with_hint("the rule does nothing: give it an action that is sound, or header operations");
        self.error(&format!("rule={}", self.name), problem);
    }

    /// Header operations of the request and of the response: none if any does not compile.
    fn headers(&mut self, rule: &Rule) -> (Vec<HeaderOperationConfig>, Vec<HeaderOperationConfig>) {
        let request = self.operations("requestHeaderOperations", &rule.request_header_operations);
        let response = self.operations("responseHeaderOperations", &rule.response_header_operations);
        match (request, response) {
            (Some(request), Some(response)) => (request, response),
            _ => (Vec::new(), Vec::new()),
        }
    }

    fn operations(
        &mut self,
        list: &str,
        templates: &[HeaderOperationTemplate],
    ) -> Option<Vec<HeaderOperationConfig>> {
        let mut operations = Vec::new();
        let mut sound = true;
        for (i, template) in templates.iter().enumerate() {
            let name: Arc<str> = template.name.as_str().into();
            let kind = match template.operation {
                HeaderOperation::Replace => HeaderOperationKind::Replace,
                HeaderOperation::Append => HeaderOperationKind::Append,
                HeaderOperation::Remove => {
                    let (kind, text) = (HeaderOperationKind::Remove, Arc::from(""));
                    operations.push(HeaderOperationConfig { name, kind, text, value: None });
                    continue;
                }
            };
            for value in &template.values {
                let field = FieldPath::root().field("spec").field(list).index(i);
                let text: Arc<str> = value.as_str().into();
                match self.header_value(value, field) {
                    Some(value) => {
                        operations.push(HeaderOperationConfig {
                            name: name.clone(),
                            kind,
                            text,
                            value: Some(value),
                        });
                    }
                    None => sound = false,
                }
            }
        }
        sound.then_some(operations)
    }

    fn header_value(&mut self, text: &str, field: FieldPath) -> Option<Arc<mixer_expr::Program>> {
        let problem = match self.programs.compile(self.language, text) {
            Ok(program) if program.value_type() == ValueType::String => return Some(program),
            Ok(program) => Diagnostic::error(
                "header-operation",
                field,
                format!(
                    "header operation value expression is not of string type: expression={text:?} in {:?}",
                    self.name
                ),
            )
            .with_hint(format!(
                "the value of a header is a STRING, this is of type {}",
                program.value_type()
            )),
            Err(refusal) => {
                let message = format!(
                    "unable to compile header operation value expression: {:?} in {:?}, expression={text:?}",
                    refusal.compile.to_string(),
                    self.name
                );
                let vocabulary = self.programs.vocabulary.clone();
                let problem = self.report.expression(field, text, &refusal, message, &*vocabulary);
                Diagnostic { code: "header-operation", ..problem }
            }
        };
        let legacy = problem.message.clone();
        self.report.push(problem.with_legacy(legacy));
        None
    }
}

enum Found {
    Instance(Arc<InstanceConfig>),
    /// There, but without a way to run it; said elsewhere.
    Silent,
    Nothing,
}
