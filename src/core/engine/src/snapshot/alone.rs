//! An expression without a resource, as tools evaluate it: with the problems that a build finds in it.

use std::sync::Arc;

use super::problems::ResourceProblems;
use super::programs::Programs;
use super::suspicions;
use mixer_attribute::{ValueType, Vocabulary};
use mixer_config::store::read_document;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Origin};
use mixer_expr::{CompileError, Language, Program};

/// The resource that has the expression in its problems.
const DOCUMENT: &str = "kind: rule\nmetadata: {name: expression, namespace: none}";

/// Why an expression does not compile.
#[derive(Debug, Clone)]
pub struct RefusedExpression {
    /// The error of the compiler.
    pub error: CompileError,
    /// The same as a problem of a configuration, with its hint.
    pub problem: Diagnostic,
}

/// Compiles an expression, and finds what is wrong or suspicious about it as in the `match` of a rule, except for what depends on the
/// other fields of the rule.
///
/// Errors: it does not compile. That it is no condition is none.
pub fn examine_expression(
    language: Language,
    text: &str,
    vocabulary: &Arc<Vocabulary>,
) -> Result<(Arc<Program>, Diagnostics), Box<RefusedExpression>> {
    let compiled = Programs::new(Arc::clone(vocabulary)).compile(language, text);
    let origin = Origin { file: Arc::from("-"), text: Arc::from(DOCUMENT), first_line: 1 };
    let resource = read_document(origin);
    let mut problems = resource.as_deref().map(ResourceProblems::more);
    let field = || FieldPath::root().field("spec").field("match");
    match compiled {
        Ok(program) => {
            if let Some(problems) = &mut problems {
                suspicions::expression(&program, field, None, vocabulary, problems);
                if program.value_type() == ValueType::Bool {
                    suspicions::decided(&program, field(), vocabulary, problems);
                }
            }
            Ok((program, problems.map_or_else(Diagnostics::new, |problems| problems.list)))
        }
        Err(refusal) => {
            let error = refusal.compile.clone();
            let message = error.plain().into_owned();
            let problem = match &problems {
                Some(problems) => problems.expression(field(), text, &refusal, message, &**vocabulary),
                None => Diagnostic::error("expression-type", field(), message),
            };
            Err(Box::new(RefusedExpression { error, problem }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_config::Severity;

    fn vocabulary() -> Arc<Vocabulary> {
        let mut builder = Vocabulary::builder();
        for (name, value_type) in [
            ("request.headers", ValueType::StringMap),
            ("request.method", ValueType::String),
            ("request.path", ValueType::String),
            ("source.ip", ValueType::IpAddress),
        ] {
            builder.declare(name, value_type);
        }
        Arc::new(builder.build())
    }

    #[test]
    fn an_expression_has_the_problems_of_a_condition() {
        for (text, found) in [
            ("request.path.matches(\"^/admin\")", Some(("matches-reversed", Severity::Warning))),
            ("request.headers[\"X-User\"] == \"a\"", Some(("header-key-case", Severity::Warning))),
            ("source.ip == ip(\"10.0.0.0/8\")", Some(("expression-fails", Severity::Error))),
            (
                "request.method == \"GET\" && request.method == \"PUT\"",
                Some(("match-never", Severity::Warning)),
            ),
            ("request.method", None),
            ("request.method == \"GET\"", None),
        ] {
            let (_, problems) = examine_expression(Language::Cexl, text, &vocabulary()).unwrap();
            let listed: Vec<_> = problems.iter().map(|problem| (problem.code, problem.severity)).collect();
            assert_eq!(listed, found.into_iter().collect::<Vec<_>>(), "{text}: {problems:?}");
            assert!(problems.iter().all(|problem| problem.hint.is_some()), "{problems:?}");
        }
        let refused = examine_expression(Language::Cexl, "request.method == GET", &vocabulary()).unwrap_err();
        assert_eq!(
            (refused.problem.code, &*refused.problem.message),
            ("attribute-unknown", "unknown attribute GET")
        );
        assert!(refused.problem.hint.as_deref().unwrap().starts_with("in quotes it is a text"));
    }
}
