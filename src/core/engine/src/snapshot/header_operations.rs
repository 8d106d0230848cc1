//! Header operations of rules, compiled.

use std::sync::Arc;

use super::decode::{HeaderOperation, HeaderOperationTemplate, Rule};
use super::model::{HeaderOperationConfig, HeaderOperationKind};
use super::problems::ResourceProblems;
use super::programs::Programs;
use super::suspicions;
use mixer_attribute::ValueType;
use mixer_base::quote::quoted;
use mixer_config::{Diagnostic, FieldPath};
use mixer_expr::{Language, Program};

/// Compiles the header operations of one rule.
pub(super) struct HeaderOperations<'b, 'r> {
    /// Full name of the rule.
    pub(super) rule: &'b str,
    pub(super) language: Language,
    pub(super) programs: &'b mut Programs,
    pub(super) problems: &'b mut ResourceProblems<'r>,
}

impl HeaderOperations<'_, '_> {
    /// Operations on the request and on the response; `None` if any does not compile.
    pub(super) fn compile(
        mut self,
        rule: &Rule,
    ) -> Option<(Vec<HeaderOperationConfig>, Vec<HeaderOperationConfig>)> {
        let request = self.list("requestHeaderOperations", &rule.request_header_operations);
        let response = self.list("responseHeaderOperations", &rule.response_header_operations);
        request.zip(response)
    }

    fn list(
        &mut self,
        list: &str,
        templates: &[HeaderOperationTemplate],
    ) -> Option<Vec<HeaderOperationConfig>> {
        let mut operations = Vec::new();
        let mut all_compile = true;
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
                match self.value(value, field) {
                    Some(value) => {
                        let (name, value) = (name.clone(), Some(value));
                        operations.push(HeaderOperationConfig { name, kind, text, value });
                    }
                    None => all_compile = false,
                }
            }
        }
        all_compile.then_some(operations)
    }

    fn value(&mut self, text: &str, field: FieldPath) -> Option<Arc<Program>> {
        let problem = match self.programs.compile(self.language, text) {
            Ok(program) if program.value_type() == ValueType::String => {
                let vocabulary = &self.programs.vocabulary;
                suspicions::expression(&program, || field.clone(), vocabulary, self.problems);
                return Some(program);
            }
            Ok(program) => Diagnostic::error(
                "header-operation",
                field,
                format!(
                    "header operation value expression is not of string type: expression={} in {}",
                    quoted(text),
                    quoted(self.rule)
                ),
            )
            .with_hint(format!(
                "the value of a header is a STRING, this is of type {}",
                program.value_type()
            )),
            Err(refusal) => {
                let message = format!(
                    "unable to compile header operation value expression: {} in {}, expression={}",
                    quoted(&refusal.compile.to_string()),
                    quoted(self.rule),
                    quoted(text)
                );
                let vocabulary = self.programs.vocabulary.clone();
                let problem = self.problems.expression(field, text, &refusal, message, &*vocabulary);
                Diagnostic { code: "header-operation", ..problem }
            }
        };
        let legacy = problem.message.clone();
        self.problems.push(problem.with_legacy(legacy));
        None
    }
}
