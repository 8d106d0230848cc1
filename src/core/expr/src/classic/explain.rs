//! Explanation: evaluation with the outcome of every part, for display.

use super::{Attribute, Expr, ExprKind, Literal, MapEntry};
use crate::{Bound, EvalError};
use mixer_attribute::text::{go_text, ip_text};
use mixer_attribute::{AttributeBag, Value};

/// The outcome of a part of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has this value; strings are quoted.
    Value(String),
    /// The attribute or map entry is absent.
    Absent,
    /// It failed with this error.
    Failed(String),
    /// The evaluation took more than it may, as [`EvalError::Exhausted`].
    Exhausted(Bound),
    /// It was skipped, because another part decided the outcome.
    NotEvaluated,
}

impl Outcome {
    /// Whether this is a value other than `false`.
    pub fn is_true_value(&self) -> bool {
        matches!(self, Outcome::Value(text) if text != "false")
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Value(text) => f.write_str(text),
            Outcome::Absent => f.write_str("absent"),
            Outcome::Failed(text) => write!(f, "error: {text}"),
            Outcome::Exhausted(bound) => write!(f, "error: {}", EvalError::Exhausted(*bound)),
            Outcome::NotEvaluated => f.write_str("not evaluated"),
        }
    }
}

/// A part of an expression with its outcome and its own parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The source text.
    pub text: String,
    /// The outcome.
    pub outcome: Outcome,
    /// Its parts in evaluation order, without constants.
    pub children: Vec<Explanation>,
}

impl Explanation {
    /// A part without children.
    pub(crate) fn leaf(text: impl Into<String>, outcome: Outcome) -> Explanation {
        Explanation { text: text.into(), outcome, children: Vec::new() }
    }
}

/// Explains a program with source text `text`. Records the same references as evaluation.
pub(super) fn explain<'a>(root: &'a Expr, text: &str, bag: &AttributeBag<'a>) -> Explanation {
    Explainer { text, bag }.part(root, false)
}

/// Explains each operand of the top-level `&&` chain, including those that evaluation would skip.
pub(super) fn explain_operands<'a>(root: &'a Expr, text: &str, bag: &AttributeBag<'a>) -> Vec<Explanation> {
    let explainer = Explainer { text, bag };
    match &root.kind {
        ExprKind::All(list) => list.iter().map(|operand| explainer.part(operand, false)).collect(),
        _ => vec![explainer.part(root, false)],
    }
}

/// The outcome of an evaluation.
pub(crate) fn outcome_of(result: Result<Value<'_>, EvalError<'_>>) -> Outcome {
    match result {
        Ok(value) => Outcome::Value(quoted(value)),
        Err(EvalError::Exhausted(bound)) => Outcome::Exhausted(bound),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// A value for display: strings quoted, addresses as text, others as in error texts.
fn quoted(value: Value<'_>) -> String {
    match value {
        Value::String(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Value::Bytes(bytes) => ip_text(bytes).to_string(),
        other => go_text(other).to_string(),
    }
}

struct Explainer<'e, 'a> {
    text: &'e str,
    bag: &'e AttributeBag<'a>,
}

impl<'a> Explainer<'_, 'a> {
    /// Explains a node; `attempted` on the left of `|`.
    fn part(&self, expr: &'a Expr, attempted: bool) -> Explanation {
        let source = expr.source(self.text);
        let outcome = match &expr.kind {
            ExprKind::Attribute(attribute) => self.attribute(*attribute).outcome,
            ExprKind::Entry(entry) if attempted => self.entry(entry, true).outcome,
            _ if attempted => match expr.attempt(self.bag) {
                Ok(Some(value)) => Outcome::Value(quoted(value)),
                Ok(None) => Outcome::Absent,
                Err(error) => outcome_of(Err(error)),
            },
            _ => outcome_of(expr.value(self.bag)),
        };
        Explanation { text: source.into(), outcome, children: self.parts(expr) }
    }

    fn parts(&self, expr: &'a Expr) -> Vec<Explanation> {
        match &expr.kind {
            ExprKind::All(list) => self.sequence(list, |outcome| *outcome == Outcome::Value("true".into())),
            ExprKind::Any(list) => self.sequence(list, |outcome| *outcome == Outcome::Value("false".into())),
            ExprKind::FirstOf(list) => self.options(list),
            ExprKind::Conditional(triple) => self.conditional(triple),
            ExprKind::AttributeIs { attribute, .. } => vec![self.attribute(*attribute)],
            ExprKind::EntryIs { entry, .. } => vec![self.entry(entry, false)],
            ExprKind::AttributeOr { attribute, default } => {
                self.with_default(self.attribute(*attribute), default)
            }
            ExprKind::EntryOr { entry, default } => self.with_default(self.entry(entry, true), default),
            ExprKind::Entry(entry) => match self.attribute(entry.map) {
                Explanation { outcome: Outcome::Value(_), .. } => Vec::new(),
                map => vec![map],
            },
            _ => {
                let operands =
                    expr.children().iter().filter(|child| !matches!(child.kind, ExprKind::Literal(_)));
                self.sequence(operands, |outcome| matches!(outcome, Outcome::Value(_)))
            }
        }
    }

    /// Explains nodes in order while `goes_on` holds for their outcome; the rest is skipped. Of constants, those that may decide.
    fn sequence(
        &self,
        list: impl IntoIterator<Item = &'a Expr>,
        goes_on: impl Fn(&Outcome) -> bool,
    ) -> Vec<Explanation> {
        let mut decided = false;
        let mut parts = Vec::new();
        for expr in list {
            if matches!(expr.kind, ExprKind::Literal(_))
                && !matches!(expr.kind, ExprKind::Literal(Literal::Bool(_)))
            {
                continue;
            }
            if decided {
                parts.push(self.skipped(expr));
            } else {
                let part = self.part(expr, false);
                decided = !goes_on(&part.outcome);
                parts.push(part);
            }
        }
        parts
    }

    fn options(&self, list: &'a [Expr]) -> Vec<Explanation> {
        let mut decided = false;
        let mut parts = Vec::new();
        for (i, expr) in list.iter().enumerate() {
            if decided {
                parts.push(self.skipped(expr));
            } else {
                let part = self.part(expr, i + 1 < list.len());
                decided = part.outcome != Outcome::Absent;
                parts.push(part);
            }
        }
        parts
    }

    fn conditional(&self, triple: &'a [Expr; 3]) -> Vec<Explanation> {
        let [test, then, otherwise] = triple;
        let tested = self.part(test, false);
        let (then, otherwise) = match test.is_true(self.bag) {
            Ok(true) => (self.part(then, false), self.skipped(otherwise)),
            Ok(false) => (self.skipped(then), self.part(otherwise, false)),
            Err(_) => (self.skipped(then), self.skipped(otherwise)),
        };
        vec![tested, then, otherwise]
    }

    fn with_default(&self, first: Explanation, default: &'a Literal) -> Vec<Explanation> {
        if first.outcome != Outcome::Absent {
            return vec![first];
        }
        let outcome = outcome_of(default.value());
        vec![first, Explanation::leaf("default", outcome)]
    }

    fn attribute(&self, attribute: Attribute) -> Explanation {
        let outcome = match attribute.attempt(self.bag) {
            Ok(Some(value)) => Outcome::Value(quoted(value)),
            Ok(None) => Outcome::Absent,
            Err(error) => outcome_of(Err(error)),
        };
        Explanation::leaf(self.bag.vocabulary().name(attribute.slot), outcome)
    }

    /// A map entry; if `attempted`, a missing one is absent, else empty.
    fn entry(&self, entry: &'a MapEntry, attempted: bool) -> Explanation {
        let key = quoted(Value::String(&entry.key));
        let name = format!("{}[{key}]", self.bag.vocabulary().name(entry.map.slot));
        let outcome = match entry.attempt(self.bag) {
            Ok(Some(value)) => Outcome::Value(quoted(Value::String(value))),
            Ok(None) if attempted => Outcome::Absent,
            Ok(None) => match entry.value(self.bag) {
                Ok(value) => Outcome::Value(quoted(Value::String(value))),
                Err(_) => Outcome::Absent,
            },
            Err(error) => outcome_of(Err(error)),
        };
        Explanation::leaf(name, outcome)
    }

    fn skipped(&self, expr: &'a Expr) -> Explanation {
        Explanation::leaf(expr.source(self.text), Outcome::NotEvaluated)
    }
}
