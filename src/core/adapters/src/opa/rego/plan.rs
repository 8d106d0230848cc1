//! Rules that only compare texts of the input, evaluated on an instance itself: the engine would need a document, and walks a tree of its
//! language for each of them. Most small policies are such rules.
//!
//! What a plan decides is what the engine does. Whatever else is in a rule, it has no plan; and a value that is no text, or none in UTF-8, is
//! left to the engine.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use regorus::Value as Rego;
use regorus::unstable::{AssignOp, BoolOp, Expr, Literal, LiteralStmt, Module, Rule, RuleAssign, RuleHead};

use super::evaluate::Outcome;
use crate::authorization::Layout;
use mixer_attribute::Value;
use mixer_engine::adapter::Instance;

/// Most statements, those of a rule as often as it is named. With the longest input they bound the time of an evaluation.
const MAX_STATEMENTS: usize = 64;
/// Most rules that name each other in turn.
const MAX_DEPTH: usize = 8;
/// Longest input, in bytes of text.
pub(super) const MAX_INPUT: usize = 16 << 10;
/// What a module may import: keywords.
const KEYWORDS: [[&str; 2]; 2] = [["rego", "v1"], ["future", "keywords"]];

/// What decides.
#[derive(Debug)]
pub(super) struct Plan {
    decision: Decision,
    /// The properties that it may read. The engine evaluates all rules of a name, so that a value of another type is an error to it also where
    /// another rule has decided.
    properties: Vec<Term>,
}

/// The value of a rule: that of its bodies if one of them holds.
#[derive(Debug)]
struct Decision {
    value: bool,
    /// The statements of each, all of which must hold.
    bodies: Vec<Vec<Statement>>,
    /// Undefined without a default.
    otherwise: Option<bool>,
}

#[derive(Debug)]
struct Statement {
    is_negated: bool,
    test: Test,
}

#[derive(Debug)]
enum Test {
    Constant(bool),
    /// Another rule.
    Rule(Box<Decision>),
    Defined(Term),
    Compare(Comparison, Term, Term),
    OneOf(Term, Vec<Box<str>>),
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal,
    Different,
    StartsWith,
    EndsWith,
    Contains,
}

/// A text.
#[derive(Debug, Clone)]
enum Term {
    Constant(Box<str>),
    User,
    Namespace,
    Service,
    Method,
    Path,
    SubjectProperty(Box<str>),
    ActionProperty(Box<str>),
}

/// A value that is left to the engine.
#[derive(Debug)]
struct ForEngine;

impl Plan {
    /// The plan of the rule that decides; `path`: its name, `data.PACKAGE.RULE`. `None`: the engine is needed.
    pub(super) fn of<'m>(mut modules: impl Iterator<Item = &'m Module>, path: &str) -> Option<Self> {
        let (module, None) = (modules.next()?, modules.next()) else { return None };
        if !module.imports.iter().all(|import| is_keyword(&import.refr)) {
            return None;
        }
        let mut rules: BTreeMap<&str, Vec<&Rule>> = BTreeMap::new();
        for rule in &module.policy {
            rules.entry(root(name_of(rule))?).or_default().push(rule);
        }
        // Names that mean something else to a reader.
        if ["input", "data"].iter().any(|name| rules.contains_key(name)) {
            return None;
        }
        let package = path_of(&module.package.refr)?.join(".");
        let name = path.strip_prefix("data.")?.strip_prefix(&package)?.strip_prefix('.')?;
        let mut planner = Planner { rules, properties: Vec::new(), statements: 0, depth: 0 };
        let decision = planner.decision(name)?;
        Some(Self { decision, properties: planner.properties })
    }

    /// What the policy says about an instance. `None`: the engine is needed.
    pub(super) fn decide(&self, layout: &Layout, instance: &Instance<'_>) -> Option<Outcome> {
        for property in &self.properties {
            property.text(layout, instance).ok()?;
        }
        match self.decision.value(layout, instance).ok()? {
            Some(true) => Some(Outcome::Allowed),
            Some(false) => Some(Outcome::Denied),
            None => Some(Outcome::Undecided(super::evaluate::UNDEFINED)),
        }
    }
}

impl Decision {
    fn value(&self, layout: &Layout, instance: &Instance<'_>) -> Result<Option<bool>, ForEngine> {
        for body in &self.bodies {
            let mut holds = true;
            for statement in body {
                let is_true = statement.test.value(layout, instance)? == Some(true);
                holds = is_true != statement.is_negated;
                if !holds {
                    break;
                }
            }
            if holds {
                return Ok(Some(self.value));
            }
        }
        Ok(self.otherwise)
    }
}

impl Test {
    /// Undefined if a name is.
    fn value<'t>(&'t self, layout: &Layout, instance: &Instance<'t>) -> Result<Option<bool>, ForEngine> {
        let text = |term: &'t Term| term.text(layout, instance);
        Ok(match self {
            Test::Constant(value) => Some(*value),
            Test::Rule(decision) => decision.value(layout, instance)?,
            Test::Defined(term) => text(term)?.map(|_| true),
            Test::OneOf(term, all) => text(term)?.map(|text| all.iter().any(|one| **one == *text)),
            Test::Compare(comparison, left, right) => match (text(left)?, text(right)?) {
                (Some(left), Some(right)) => Some(match comparison {
                    Comparison::Equal => left == right,
                    Comparison::Different => left != right,
                    Comparison::StartsWith => left.starts_with(right),
                    Comparison::EndsWith => left.ends_with(right),
                    Comparison::Contains => left.contains(right),
                }),
                _ => None,
            },
        })
    }
}

impl Term {
    /// The text; `None`: undefined.
    fn text<'t>(&'t self, layout: &Layout, instance: &Instance<'t>) -> Result<Option<&'t str>, ForEngine> {
        let part = match self {
            Term::Constant(text) => return Ok(Some(text)),
            Term::User => layout.user,
            Term::Namespace => layout.namespace,
            Term::Service => layout.service,
            Term::Method => layout.method,
            Term::Path => layout.path,
            Term::SubjectProperty(key) => return property(layout.subject_properties.value(instance, key)),
            Term::ActionProperty(key) => return property(layout.action_properties.value(instance, key)),
        };
        // Empty texts are left out of the input.
        match part.of(instance) {
            b"" => Ok(None),
            bytes => utf8(bytes),
        }
    }
}

fn property(value: Option<Value<'_>>) -> Result<Option<&str>, ForEngine> {
    match value {
        None => Ok(None),
        Some(Value::String(bytes)) => utf8(bytes),
        Some(_) => Err(ForEngine),
    }
}

fn utf8(bytes: &[u8]) -> Result<Option<&str>, ForEngine> {
    std::str::from_utf8(bytes).map(Some).map_err(|_| ForEngine)
}

/// Plans the rules of a module. Its methods return `None` for what needs the engine.
struct Planner<'m> {
    /// All rules, by the first part of their names.
    rules: BTreeMap<&'m str, Vec<&'m Rule>>,
    properties: Vec<Term>,
    statements: usize,
    depth: usize,
}

impl<'m> Planner<'m> {
    fn decision(&mut self, name: &str) -> Option<Decision> {
        let rules = self.rules.get(name)?.clone();
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let (mut value, mut otherwise, mut bodies) = (None, None, Vec::new());
        for rule in rules {
            if !matches!(name_of(rule), Expr::Var { .. }) {
                return None;
            }
            match rule {
                Rule::Default { value, args, .. } if args.is_empty() && otherwise.is_none() => {
                    otherwise = Some(boolean(value)?);
                }
                Rule::Spec { head: RuleHead::Compr { assign, .. }, bodies: of_rule, .. } => {
                    let of_rule_value = assigned(assign.as_ref())?;
                    // Rules with two values are an error if both hold.
                    if *value.get_or_insert(of_rule_value) != of_rule_value {
                        return None;
                    }
                    let statements = match of_rule.as_slice() {
                        [] => &[][..],
                        [body] if body.assign.is_none() => &body.query.stmts,
                        _ => return None,
                    };
                    bodies.push(statements.iter().map(|of| self.statement(of)).collect::<Option<_>>()?);
                }
                _ => return None,
            }
        }
        self.depth -= 1;
        Some(Decision { value: value.unwrap_or(true), bodies, otherwise })
    }

    fn statement(&mut self, statement: &'m LiteralStmt) -> Option<Statement> {
        self.statements += 1;
        if self.statements > MAX_STATEMENTS || !statement.with_mods.is_empty() {
            return None;
        }
        let (is_negated, expression) = match &statement.literal {
            Literal::Expr { expr, .. } => (false, expr),
            Literal::NotExpr { expr, .. } => (true, expr),
            _ => return None,
        };
        Some(Statement { is_negated, test: self.test(expression)? })
    }

    fn test(&mut self, expression: &'m Expr) -> Option<Test> {
        Some(match expression {
            Expr::Bool { .. } => Test::Constant(boolean(expression)?),
            Expr::Var { span, .. } => Test::Rule(Box::new(self.decision(span.text())?)),
            Expr::RefDot { .. } | Expr::RefBrack { .. } => Test::Defined(self.term(expression)?),
            Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. }
            | Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => {
                Test::Compare(Comparison::Equal, self.term(lhs)?, self.term(rhs)?)
            }
            Expr::BoolExpr { op: BoolOp::Ne, lhs, rhs, .. } => {
                Test::Compare(Comparison::Different, self.term(lhs)?, self.term(rhs)?)
            }
            Expr::Membership { key: None, value, collection, .. } => {
                let (Expr::Array { items, .. } | Expr::Set { items, .. }) = &**collection else {
                    return None;
                };
                let items = items.iter().map(|item| constant(item)).collect::<Option<_>>()?;
                Test::OneOf(self.term(value)?, items)
            }
            Expr::Call { fcn, params, .. } => {
                let ([text, part], Expr::Var { span, .. }) = (params.as_slice(), &**fcn) else { return None };
                let comparison = match span.text() {
                    // A function of the policy.
                    name if self.rules.contains_key(name) => return None,
                    "startswith" => Comparison::StartsWith,
                    "endswith" => Comparison::EndsWith,
                    "contains" => Comparison::Contains,
                    _ => return None,
                };
                Test::Compare(comparison, self.term(text)?, self.term(part)?)
            }
            _ => return None,
        })
    }

    fn term(&mut self, expression: &Expr) -> Option<Term> {
        let term = term(expression)?;
        if matches!(term, Term::SubjectProperty(_) | Term::ActionProperty(_)) {
            self.properties.push(term.clone());
        }
        Some(term)
    }
}

/// The value that a rule has; true if it does not say.
fn assigned(assign: Option<&RuleAssign>) -> Option<bool> {
    assign.map_or(Some(true), |assign| boolean(&assign.value))
}

fn boolean(expression: &Expr) -> Option<bool> {
    match expression {
        Expr::Bool { value: Rego::Bool(value), .. } => Some(*value),
        _ => None,
    }
}

fn constant(expression: &Expr) -> Option<Box<str>> {
    match expression {
        Expr::String { value: Rego::String(text), .. }
        | Expr::RawString { value: Rego::String(text), .. } => Some((**text).into()),
        _ => None,
    }
}

fn term(expression: &Expr) -> Option<Term> {
    if let Some(text) = constant(expression) {
        return Some(Term::Constant(text));
    }
    Some(match path_of(expression)?.as_slice() {
        ["input", "subject", "user"] => Term::User,
        ["input", "action", "namespace"] => Term::Namespace,
        ["input", "action", "service"] => Term::Service,
        ["input", "action", "method"] => Term::Method,
        ["input", "action", "path"] => Term::Path,
        ["input", "subject", "properties", key] => Term::SubjectProperty((*key).into()),
        ["input", "action", "properties", key] => Term::ActionProperty((*key).into()),
        _ => return None,
    })
}

/// The parts of a name that is written out, `a.b["c"]`.
fn path_of(expression: &Expr) -> Option<Vec<&str>> {
    match expression {
        Expr::Var { span, .. } => Some(vec![span.text()]),
        Expr::RefDot { refr, field, .. } => {
            let mut path = path_of(refr)?;
            path.push(field.0.text());
            Some(path)
        }
        Expr::RefBrack { refr, index, .. } => match &**index {
            // The engine looks for the text as it is written.
            Expr::String { span, value: Rego::String(text), .. } if **text == *span.text() => {
                let mut path = path_of(refr)?;
                path.push(span.text());
                Some(path)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The name of a rule.
fn name_of(rule: &Rule) -> &Expr {
    match rule {
        Rule::Spec {
            head: RuleHead::Compr { refr, .. } | RuleHead::Set { refr, .. } | RuleHead::Func { refr, .. },
            ..
        }
        | Rule::Default { refr, .. } => refr,
    }
}

/// The first part of a name.
fn root(name: &Expr) -> Option<&str> {
    match name {
        Expr::Var { span, .. } => Some(span.text()),
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => root(refr),
        _ => None,
    }
}

fn is_keyword(import: &Expr) -> bool {
    let path = path_of(import).unwrap_or_default();
    KEYWORDS.iter().any(|keywords| path.starts_with(keywords))
}
