//! Evaluation step by step, for people.

use super::{Attribute, Entry, Expr, Kind, Literal};
use crate::EvalError;
use mixer_attribute::text::{go_text, ip_text};
use mixer_attribute::{AttributeBag, Value};

/// What became of one part of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has this value; strings in quotation marks.
    Value(String),
    /// The attribute or map entry is not there.
    Absent,
    /// It failed with this text.
    Failed(String),
    /// The outcome was decided before it was its turn.
    NotEvaluated,
}

impl Outcome {
    /// Whether this is a value, and not `false`.
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
            Outcome::NotEvaluated => f.write_str("not evaluated"),
        }
    }
}

/// One part of an expression, what became of it, and of which parts that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The part as it is written.
    pub text: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Its parts in evaluation order, without constants.
    pub children: Vec<Explanation>,
}

impl Explanation {
    /// A part without parts.
    pub(crate) fn leaf(text: impl Into<String>, outcome: Outcome) -> Explanation {
        Explanation { text: text.into(), outcome, children: Vec::new() }
    }
}

/// Explains a program whose text is `text`. Records the references that evaluation records.
pub(super) fn explain<'a>(root: &'a Expr, text: &str, bag: &AttributeBag<'a>) -> Explanation {
    Explainer { text, bag }.part(root, false)
}

/// Explains each operand of the top-level `&&` chain by itself, also those that evaluation does not come to.
pub(super) fn explain_operands<'a>(root: &'a Expr, text: &str, bag: &AttributeBag<'a>) -> Vec<Explanation> {
    let explainer = Explainer { text, bag };
    match &root.kind {
        Kind::All(list) => list.iter().map(|operand| explainer.part(operand, false)).collect(),
        _ => vec![explainer.part(root, false)],
    }
}

/// The outcome of an evaluation.
pub(crate) fn outcome_of(result: Result<Value<'_>, EvalError<'_>>) -> Outcome {
    match result {
        Ok(value) => Outcome::Value(quoted(value)),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// A value for people: strings in quotation marks, addresses as addresses, the rest as in error texts.
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
    /// Explains one node; `attempted` on the left of `|`.
    fn part(&self, expr: &'a Expr, attempted: bool) -> Explanation {
        let source = expr.source(self.text);
        let outcome = match &expr.kind {
            Kind::Attribute(attribute) => self.attribute(*attribute).outcome,
            Kind::Entry(entry) if attempted => self.entry(entry, true).outcome,
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
            Kind::All(list) => self.sequence(list, |outcome| *outcome == Outcome::Value("true".into())),
            Kind::Any(list) => self.sequence(list, |outcome| *outcome == Outcome::Value("false".into())),
            Kind::FirstOf(list) => self.options(list),
            Kind::Conditional(triple) => self.conditional(triple),
            Kind::AttributeIs { attribute, .. } => vec![self.attribute(*attribute)],
            Kind::EntryIs { entry, .. } => vec![self.entry(entry, false)],
            Kind::AttributeOr { attribute, default } => {
                self.with_default(self.attribute(*attribute), default)
            }
            Kind::EntryOr { entry, default } => self.with_default(self.entry(entry, true), default),
            Kind::Entry(entry) => match self.attribute(entry.map) {
                Explanation { outcome: Outcome::Value(_), .. } => Vec::new(),
                map => vec![map],
            },
            _ => self.sequence(expr.children(), |outcome| matches!(outcome, Outcome::Value(_))),
        }
    }

    /// Explains nodes in order for as long as their outcome lets evaluation go on.
    fn sequence(&self, list: &'a [Expr], goes_on: impl Fn(&Outcome) -> bool) -> Vec<Explanation> {
        let mut decided = false;
        let mut parts = Vec::new();
        for expr in list {
            if matches!(expr.kind, Kind::Literal(_)) && !matches!(expr.kind, Kind::Literal(Literal::Bool(_)))
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
        let (then, otherwise) = match test.truth(self.bag) {
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

    /// An entry; `attempted` where a missing one counts as absent and not as empty.
    fn entry(&self, entry: &'a Entry, attempted: bool) -> Explanation {
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
