//! The CEL and COMPAT engines: text -> tokens -> tree -> static check -> plan -> value.
//!
//! Attribute names become nested objects (`request.host` selects `host` from `request`); an absent attribute has the default
//! of its type. COMPAT parses the classic syntax and rewrites it to CEL tokens. The main type is [`CelProgram`].
//! Trees are at most 700 levels deep and an evaluation takes at most 200000 steps, so no input overflows the stack.
//! Dependencies: `value` <- `plan` <- `time`, `context` <- `convert` <- `ops` <- `eval`; `plan` <- `analysis`;
//! `eval` <- `failures`.
//! Both are engines of Istio Mixer 1.3.

mod analysis;
mod ast;
mod check;
mod choices;
mod compat;
mod context;
mod convert;
mod eval;
mod failures;
mod lexer;
mod macros;
mod ops;
mod overloads;
mod parser;
mod plan;
mod ranges;
mod source;
#[cfg(test)]
mod tests;
mod time;
mod types;
mod value;

use self::eval::Evaluator;
use self::plan::{OpId, Plan};
use self::source::{Problem, Source};
use super::analysis::{Conversion, Decided, Operand, Read, SuspiciousCall, TextTest};
use super::failure::Failure;
use super::functions::Pattern;
use super::{CompileError, EvalError, Language, Scope};
use mixer_attribute::{AttributeBag, SlotId, Value, ValueType};

/// A compiled CEL expression.
#[derive(Debug)]
pub(super) struct CelProgram {
    plan: Plan,
    root: OpId,
    value_type: ValueType,
    failures: Box<[Failure]>,
    has_unused_default: bool,
}

impl CelProgram {
    /// Compiles a CEL text, or a COMPAT text rewritten to CEL.
    ///
    /// Errors: phase `Static`; the text contains the line with a pointer to the column, as in CEL.
    pub(super) fn compile(
        text: &str,
        scope: &dyn Scope,
        language: Language,
    ) -> Result<CelProgram, CompileError> {
        let source = Source::new(text);
        let reject = |problem: Problem| source.reject(vec![problem]);
        let tokens = match language {
            Language::Compat => compat::tokens(text, &source)?,
            _ => lexer::tokens(text, 0).map_err(reject)?,
        };
        let (ast, root) = parser::parse(&tokens).map_err(|problem| reject(*problem))?;
        let found = check::check(&ast, root, scope).map_err(|problems| source.reject(problems))?;
        let (plan, root) = plan::plan(&ast, root, scope)?;
        let failures = failures::failures(&plan, root, &source).into_list();
        let has_unused_default = ast.has_unused_default;
        Ok(CelProgram { plan, root, value_type: found.to_value_type(), failures, has_unused_default })
    }

    /// What fails for every request, or with one of its constants.
    pub(super) fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The patterns that it has compiled.
    pub(super) fn patterns(&self) -> Vec<Pattern> {
        self.plan.patterns()
    }

    /// The static type of the result; unspecified for types that attributes do not have.
    pub(super) fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Evaluates over `bag`.
    ///
    /// Errors: evaluation failed, or the result has a type that attributes do not have.
    pub(super) fn eval<'a>(&'a self, bag: &AttributeBag<'a>) -> Result<Value<'a>, EvalError<'a>> {
        let result = Evaluator::new(&self.plan, bag).run(self.root);
        match result {
            Ok(value) => convert::into_value(value, bag.arena()),
            Err(fault) => Err(fault.into_error()),
        }
    }

    /// The first entry of a map whose absence skips a condition.
    pub(super) fn skipped_without(&self, is_always_there: &dyn Fn(Read<'_>) -> bool) -> Option<Read<'_>> {
        analysis::skipped_without(&self.plan, self.root, is_always_there)
    }

    /// The first conversion of a text whose failure skips a condition.
    pub(super) fn skipped_by_malformed(&self) -> Option<Conversion<'_>> {
        analysis::skipped_by_malformed(&self.plan, self.root)
    }

    /// Whether the absence of each entry that it requires and the failure of each of its conversions is examined.
    pub(super) fn is_examined(&self) -> bool {
        analysis::is_examined(&self.plan)
    }

    /// The attribute or entry that decides the condition alone.
    pub(super) fn decided(&self) -> Option<(Read<'_>, Decided)> {
        analysis::decided(&self.plan, self.root)
    }

    /// Suspicious calls.
    pub(super) fn suspicious_calls(&self) -> Vec<SuspiciousCall> {
        let mut calls = analysis::suspicious_calls(&self.plan);
        calls.extend(ranges::decided(&self.plan));
        calls.extend(self.has_unused_default.then_some(SuspiciousCall::UnusedDefault));
        calls
    }

    /// The tests of texts with constants.
    pub(super) fn text_tests(&self) -> Vec<TextTest<'_>> {
        analysis::text_tests(&self.plan)
    }

    /// What the value is the text of.
    pub(super) fn value_operands(&self) -> Vec<Operand<'_>> {
        analysis::operands(&self.plan, self.root)
    }

    /// The attributes that the expression may read.
    pub(super) fn attributes(&self) -> Vec<SlotId> {
        analysis::attributes(&self.plan).collect()
    }

    /// The attributes and entries of maps whose values the expression may read.
    pub(super) fn reads(&self) -> Vec<Read<'_>> {
        analysis::reads(&self.plan)
    }

    /// The entries of maps that the expression reads by a constant key.
    pub(super) fn entries(&self) -> Vec<Read<'_>> {
        analysis::entries(&self.plan).collect()
    }
}
