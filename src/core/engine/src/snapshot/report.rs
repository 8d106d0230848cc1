//! Problems of one resource on their way to diagnostics.

use std::cell::OnceCell;

use super::memo::{Refusal, refusal_code};
use mixer_config::message::{DecodeError, suggestion};
use mixer_config::{Diagnostic, ExpressionPlace, FieldPath, Node, RawResource};
use mixer_expr::{CompileError, Scope};

/// Collects the problems of a resource; spans count lines from the start of its document.
pub struct Report<'r> {
    resource: &'r RawResource,
    document: OnceCell<Node>,
    /// What was found so far.
    pub problems: Vec<Diagnostic>,
}

impl<'r> Report<'r> {
    /// Nothing found yet.
    pub fn new(resource: &'r RawResource) -> Self {
        Self { resource, document: OnceCell::new(), problems: Vec::new() }
    }

    /// The tree of the document.
    pub fn document(&self) -> &Node {
        self.document.get_or_init(|| self.resource.document())
    }

    /// The `spec` of the document.
    pub fn spec(&self) -> Option<&Node> {
        let root = self.document();
        root.get("spec")
            .or_else(|| root.entries().iter().find(|e| e.key.eq_ignore_ascii_case("spec")).map(|e| &e.value))
    }

    /// Adds a problem; its place comes from its field unless it has one.
    pub fn push(&mut self, mut problem: Diagnostic) {
        if problem.span.is_none() {
            problem.span = Some(self.document().at(&problem.field).span);
        }
        problem.resource = self.resource.key.to_string();
        self.problems.push(problem);
    }

    /// Adds what decoding found. Only the first is what the originals report: `legacy` makes their text of it.
    pub fn decode_errors(
        &mut self,
        code: &'static str,
        errors: Vec<DecodeError>,
        legacy: impl Fn(&str) -> String,
    ) {
        for (i, error) in errors.into_iter().enumerate() {
            let mut problem = Diagnostic::error(code, error.field, error.message);
            problem.span = Some(error.span);
            problem.hint = error.hint;
            if i == 0 {
                problem.legacy = Some(legacy(&problem.message));
            }
            self.push(problem);
        }
    }

    /// An expression that is refused: the problem without its legacy text.
    pub(super) fn expression(
        &self,
        field: FieldPath,
        text: &str,
        refusal: &Refusal,
        message: String,
        scope: &dyn Scope,
    ) -> Diagnostic {
        let error = refusal.error();
        let mut problem = Diagnostic::error(refusal_code(error), field, message);
        problem.expression =
            error.position.map(|(line, column)| ExpressionPlace { text: text.to_owned(), line, column });
        problem.hint = error.hint.clone().or_else(|| attribute_hint(error, scope));
        problem
    }
}

fn attribute_hint(error: &CompileError, scope: &dyn Scope) -> Option<String> {
    let name = error.unknown_attribute.as_deref()?;
    suggestion(name, scope.names())
        .or_else(|| Some("declare it in an attributemanifest, or use one that is declared".to_owned()))
}
