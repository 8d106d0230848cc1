//! Header operations of rules, compiled.

use std::sync::Arc;

use super::decode::{HeaderOperation, HeaderOperationTemplate, Rule};
use super::extension::ExtensionConfig;
use super::external::OutputScope;
use super::model::{HeaderOperationConfig, HeaderOperationKind, RuleConfig, Rules};
use super::openings::placed;
use super::problems::ResourceProblems;
use super::programs::Programs;
use super::suspicions;
use mixer_attribute::ValueType;
use mixer_base::quote::quoted;
use mixer_base::shared_map::SharedMap;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, RawResource};
use mixer_expr::{Language, Program};

/// The field of the operations on requests.
const OF_REQUESTS: &str = "requestHeaderOperations";
/// The field of the operations on responses.
const OF_RESPONSES: &str = "responseHeaderOperations";

/// The pseudo-headers of a request that may be set.
const REQUEST_PSEUDO_HEADERS: [&str; 4] = [":authority", ":method", ":path", ":scheme"];
/// The pseudo-header of a response.
const RESPONSE_PSEUDO_HEADERS: [&str; 1] = [":status"];

/// Compiles the header operations of one rule.
pub(super) struct HeaderOperations<'b, 'r> {
    /// Full name of the rule.
    pub(super) rule: &'b str,
    pub(super) language: Language,
    pub(super) programs: &'b mut Programs,
    pub(super) problems: &'b mut ResourceProblems<'r>,
    /// The attributes, and the outputs of checks of the rule.
    pub(super) scope: OutputScope<'b>,
}

/// Operations on the request and on the response.
pub(super) type CompiledOperations = (Vec<HeaderOperationConfig>, Vec<HeaderOperationConfig>);

impl HeaderOperations<'_, '_> {
    /// Operations on the request and on the response; `None` if any does not compile.
    pub(super) fn compile(mut self, rule: &Rule) -> Option<CompiledOperations> {
        let request = self.list(OF_REQUESTS, &rule.request_header_operations);
        let response = self.list(OF_RESPONSES, &rule.response_header_operations);
        request.zip(response)
    }

    fn list(
        &mut self,
        list: &str,
        templates: &[HeaderOperationTemplate],
    ) -> Option<Vec<HeaderOperationConfig>> {
        let mut operations = Vec::new();
        let mut all_compile = true;
        for (index, template) in templates.iter().enumerate() {
            let name: Arc<str> = template.name.as_str().into();
            if let Some(problem) = without_effect(list, index, template) {
                self.problems.push(problem.accepted_by_istio());
            }
            let kind = match template.operation {
                HeaderOperation::Replace => HeaderOperationKind::Replace,
                HeaderOperation::Append => HeaderOperationKind::Append,
                HeaderOperation::Remove => {
                    let (kind, text) = (HeaderOperationKind::Remove, Arc::from(""));
                    operations.push(HeaderOperationConfig { index, name, kind, text, value: None });
                    continue;
                }
            };
            for value in &template.values {
                let field = FieldPath::root().field("spec").field(list).index(index);
                let text: Arc<str> = value.as_str().into();
                match self.value(value, field) {
                    Some(value) => {
                        let (name, value) = (name.clone(), Some(value));
                        operations.push(HeaderOperationConfig { index, name, kind, text, value });
                    }
                    None => all_compile = false,
                }
            }
        }
        all_compile.then_some(operations)
    }

    fn value(&mut self, text: &str, field: FieldPath) -> Option<Arc<Program>> {
        // `told`: the message in the words of Istio Mixer.
        let (problem, told) = match self.programs.compile_with(self.language, text, &self.scope) {
            Ok(program) if program.value_type() == ValueType::String => {
                let vocabulary = &self.programs.vocabulary;
                suspicions::expression(&program, || field.clone(), None, vocabulary, self.problems);
                return Some(program);
            }
            Ok(program) => {
                let message = format!(
                    "header operation value expression is not of string type: expression={} in {}",
                    quoted(text),
                    quoted(self.rule)
                );
                let problem = Diagnostic::error("header-operation", field, message.as_str()).with_hint(
                    format!("the value of a header is a STRING, this is of type {}", program.value_type()),
                );
                (problem, message)
            }
            Err(refusal) => {
                let told = |cause: &str| {
                    format!(
                        "unable to compile header operation value expression: {} in {}, expression={}",
                        quoted(cause),
                        quoted(self.rule),
                        quoted(text)
                    )
                };
                let message = told(&refusal.compile.plain());
                let mut problem = self.problems.expression(field, text, &refusal, message, &self.scope);
                problem.code = "header-operation";
                (problem, told(&refusal.compile.message))
            }
        };
        let legacy =
            format!("Unable to compile rule operations: {}, rule={}", quoted(&told), quoted(self.rule));
        self.problems.push(problem.with_legacy(legacy));
        None
    }
}

/// Warns about operations that the API of Envoy cannot express, where requests of Envoy are expected: where an extension has resources.
pub(super) fn unsupported(
    extensions: &[Arc<dyn ExtensionConfig>],
    rules: &Rules,
    resources: &SharedMap<Arc<RawResource>>,
) -> Diagnostics {
    if !extensions.iter().any(|extension| extension.is_configured()) {
        return Diagnostics::new();
    }
    let is_removal = |operation: &&HeaderOperationConfig| operation.kind == HeaderOperationKind::Remove;
    let of_rule = |rule: &Arc<RuleConfig>| {
        let warning = |operation: &HeaderOperationConfig| {
            let name = &operation.name;
            let field = FieldPath::root().field("spec").field(OF_RESPONSES).index(operation.index);
            let text = format!(
                "the answer to Envoy cannot remove a header of a response: `{name}` stays in those to requests of Envoy"
            );
            let hint = format!(
                "write `response_headers_to_remove: [\"{name}\"]` in the routes of Envoy; or give the header another value with REPLACE"
            );
            placed(rule, resources, Diagnostic::warning("header-unsupported", field, text).with_hint(hint))
        };
        rule.response_headers.iter().filter(is_removal).map(warning).collect::<Vec<_>>()
    };
    rules.iter().flat_map(of_rule).collect()
}

/// The problem of an operation that changes no header, so that what the caller sent stays: it has no values, or no header has its name.
fn without_effect(list: &str, index: usize, template: &HeaderOperationTemplate) -> Option<Diagnostic> {
    let field = FieldPath::root().field("spec").field(list).index(index);
    let name = template.name.as_str();
    let consequence = if list == OF_REQUESTS { ": the header stays as the caller sent it" } else { "" };
    let pseudo: &[&str] =
        if list == OF_REQUESTS { &REQUEST_PSEUDO_HEADERS } else { &RESPONSE_PSEUDO_HEADERS };
    let is_removal = template.operation == HeaderOperation::Remove;
    let problem = |field, message: String, hint: String| {
        Some(Diagnostic::error("header-operation", field, message + consequence).with_hint(hint))
    };
    if name.starts_with(':') {
        if is_removal {
            let message = format!("the pseudo-header `{name}` cannot be removed");
            return problem(field.field("name"), message, "remove the operation".to_owned());
        }
        if !pseudo.contains(&name) {
            let message = format!("no pseudo-header is named `{name}`");
            return problem(field.field("name"), message, format!("one of {}", pseudo.join(", ")));
        }
    } else if !is_header_name(name) {
        let meant = name.trim_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '"' | '\''));
        let hint = match name {
            "" => "name the header".to_owned(),
            _ if name.contains('*') => "name one header: there are no patterns".to_owned(),
            _ if name.contains(',') => "write an operation for each header".to_owned(),
            _ if is_header_name(meant) => format!("write `{meant}`"),
            _ => "names have letters, digits and `-`, but no blanks, colons or quotes".to_owned(),
        };
        return problem(field.field("name"), format!("no header is named `{name}`"), hint);
    }
    if !is_removal && template.values.is_empty() {
        let hint = "list expressions under `values`, or write `operation: REMOVE`".to_owned();
        return problem(field, format!("the operation on `{name}` has no values"), hint);
    }
    None
}

/// Whether a header may have this name: a token of RFC 9110, and no pattern.
fn is_header_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}
