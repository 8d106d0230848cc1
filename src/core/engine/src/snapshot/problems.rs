//! The problems of one resource.

use std::cell::OnceCell;

use super::programs::{Refusal, refusal_code};
use super::text_budget::{abridged, rank};
use mixer_attribute::GLOBAL_WORDS;
use mixer_config::message::{DecodeError, plain_words, resembles, suggestion};
use mixer_config::{
    Diagnostic, ExpressionPlace, FieldPath, FieldPlace, Node, RawResource, Severity, Span, UnknownField,
    without_secrets,
};
use mixer_expr::{CompileError, Scope};

/// Errors that have another error as their cause.
const CONSEQUENCES: &[&str] = &["rule-empty", "action-empty"];

/// Whether errors with this code only tell what another error of their resource causes.
pub fn is_consequence(code: &str) -> bool {
    CONSEQUENCES.contains(&code)
}

/// Errors of what a document has, whatever it refers to.
pub(crate) const OF_DOCUMENTS: &[&str] = &["annotation-unknown", "document-field", "spec-decode"];

/// Errors of a resource that names no adapter or template.
pub(crate) const OF_REFERENCES: &[&str] = &["adapter-unknown", "template-unknown"];

/// Maximum number of problems of a severity that a resource keeps with their texts while it is built: a document has a problem in three bytes,
/// and a problem takes hundreds.
const TEXTS: usize = 1_000;

/// Collects the problems of a resource. Spans count lines from the start of its document; the snapshot moves them into the file.
pub struct ResourceProblems<'r> {
    resource: &'r RawResource,
    document: OnceCell<Node>,
    /// The problems so far, in the order of discovery. Those of a severity beyond the first 1 000 are one, with their number.
    pub list: Vec<Diagnostic>,
    /// The numbers of problems with texts, by severity.
    kept: [usize; SEVERITIES.len()],
    /// Where the problems without texts are in the list.
    further: [Option<usize>; SEVERITIES.len()],
}

/// In the order of the numbers.
const SEVERITIES: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Info];

impl<'r> ResourceProblems<'r> {
    /// The problems of the document of `resource`: fields that belong elsewhere, which has other reasons than a misspelt field of
    /// the `spec` and the same consequences.
    pub fn new(resource: &'r RawResource) -> Self {
        let mut problems = Self::more(resource);
        let unknown = &resource.envelope.unknown;
        unknown.iter().for_each(|field| problems.push(unknown_field(field, resource)));
        problems
    }

    /// An empty list, for problems of `resource` that are found later.
    pub fn more(resource: &'r RawResource) -> Self {
        Self {
            resource,
            document: OnceCell::new(),
            list: Vec::new(),
            kept: Default::default(),
            further: Default::default(),
        }
    }

    /// The parsed document.
    pub fn document(&self) -> &Node {
        self.document.get_or_init(|| self.resource.document())
    }

    /// The `spec` of the document, spelled in any case.
    pub fn spec(&self) -> Option<&Node> {
        let root = self.document();
        root.get("spec")
            .or_else(|| root.entries().iter().find(|e| e.key.eq_ignore_ascii_case("spec")).map(|e| &e.value))
    }

    /// Adds a problem. A problem without a span gets that of its field.
    pub fn push(&mut self, problem: Diagnostic) {
        // A document may have hundreds of thousands.
        mixer_base::scheduling::let_others_run();
        let number = SEVERITIES.iter().position(|severity| *severity == problem.severity);
        let number = number.unwrap_or_default();
        let (Some(kept), Some(further)) = (self.kept.get_mut(number), self.further.get_mut(number)) else {
            return;
        };
        if *kept < TEXTS {
            *kept += 1;
            let problem = self.complete(problem);
            return self.list.push(problem);
        }
        if let Some(first) = further.and_then(|at| self.list.get_mut(at)) {
            first.more = first.more.saturating_add(problem.count());
            if rank(problem.code) < rank(first.code) {
                first.code = problem.code;
            }
            return;
        }
        *further = Some(self.list.len());
        let problem = self.complete(problem);
        self.list.push(abridged(&problem, problem.count()));
    }

    /// A problem with the resource and, unless it has one, the span of its field. What it repeats of secrets is masked.
    pub fn complete(&self, problem: Diagnostic) -> Diagnostic {
        let mut problem = without_secrets(problem, self.document());
        if problem.span.is_none() {
            problem.span = Some(self.document().at(&problem.field).span);
        }
        problem.resource = self.resource.key.to_string();
        problem
    }

    /// Adds decoding errors. Istio Mixer reports only the first: `legacy` turns its message into the text that Istio Mixer logs.
    pub fn decode_errors(
        &mut self,
        code: &'static str,
        errors: Vec<DecodeError>,
        legacy: impl Fn(&str) -> String,
    ) {
        for (i, error) in errors.into_iter().enumerate() {
            let mut problem = Diagnostic::error(code, error.field, plain_words(&error.message));
            problem.span = Some(error.span);
            problem.hint = error.hint;
            if i == 0 {
                problem.legacy = Some(legacy(&error.message));
            }
            self.push(problem);
        }
    }

    /// The problem of an expression that does not compile, without its legacy text. `message` is for users, as
    /// [`CompileError::plain`] has it.
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

/// The problem of a field that has no effect where it is.
fn unknown_field(field: &UnknownField, resource: &RawResource) -> Diagnostic {
    let UnknownField { name, place, span } = field;
    let root = FieldPath::root();
    let (path, message, hint) = match place {
        FieldPlace::Metadata | FieldPlace::Labels => (
            root.field("metadata").field(name),
            format!("unknown field \"{name}\" in metadata"),
            match name.contains(['/', '.']) {
                true => "an annotation belongs below metadata.annotations".to_owned(),
                false if resembles(name, "annotations") => "did you mean `annotations`?".to_owned(),
                false if &**name == "spec" => "it belongs beside metadata: indent it less".to_owned(),
                false => "it has no effect there: it is a field of spec".to_owned(),
            },
        ),
        FieldPlace::Annotations => (
            root.field("metadata").field("annotations").field(name),
            format!("field \"{name}\" among the annotations"),
            "it has no effect there: it is a field of spec".to_owned(),
        ),
        FieldPlace::NoText => {
            let written = text_at(&resource.origin.text, *span);
            let read = if &**name == "name" { &resource.key.name } else { &resource.key.namespace };
            (
                root.field("metadata").field(name),
                format!("metadata.{name} is no text: `{written}` reads as `{read}`"),
                format!("quote it: `{name}: \"{written}\"`"),
            )
        }
        FieldPlace::Document => {
            let hint = suggestion(name, ["apiVersion", "kind", "metadata", "spec", "status"]);
            let indent = || "it has no effect there: indent it, so that it is a field of spec".to_owned();
            (root.field(name), format!("unknown field \"{name}\" beside spec"), hint.unwrap_or_else(indent))
        }
    };
    let mut problem = Diagnostic::error("document-field", path, message).with_hint(hint);
    problem.span = Some(*span);
    problem.accepted_by_istio =
        matches!(place, FieldPlace::Labels | FieldPlace::Annotations | FieldPlace::NoText);
    problem
}

/// A scalar as it is written, if it is on one line.
fn text_at(document: &str, span: Span) -> &str {
    let line = document.lines().nth(span.start.line.saturating_sub(1) as usize).unwrap_or_default();
    let at = |column: u32| {
        let before = column.saturating_sub(1) as usize;
        line.char_indices().nth(before).map_or(line.len(), |(at, _)| at)
    };
    let end = if span.end.line == span.start.line { at(span.end.column) } else { line.len() };
    line.get(at(span.start.column)..end).unwrap_or_default()
}

/// How a condition reads a cookie.
const COOKIES: &str = "an attribute of a cookie is declared in an attributemanifest and set by an attributemapping: \
                       `{attribute: request.session, from: {cookie: NAME}, default: \"\"}`";

/// How to mend a reference to an attribute that is not declared.
fn attribute_hint(error: &CompileError, scope: &dyn Scope) -> Option<String> {
    let name = error.unknown_attribute.as_deref()?;
    if matches!(name, "request.cookies" | "request.cookie" | "cookies" | "cookie") {
        return Some(COOKIES.to_owned());
    }
    // Words without a dot are values, such as methods, or headers.
    if name.contains('.') && GLOBAL_WORDS.contains(&name) {
        return Some(format!(
            "`{name}` is an attribute of proxies: declare it in an attributemanifest, with its type (docs/attributes.md)"
        ));
    }
    suggestion(name, std::iter::once_with(|| scope.names()).flatten()).or_else(|| {
        // Attributes of proxies have a dot; a word without one is rather a text.
        Some(match name.contains('.') {
            true => "declare it in an attributemanifest, or use one that is declared; of Envoy's requests an attributemapping sets it".to_owned(),
            false => format!("in quotes it is a text, in YAML '\"{name}\"'; or declare it in an attributemanifest, or use one that is declared"),
        })
    })
}
