//! Compiled expressions of any language.

use std::sync::Arc;

use super::analysis::{Conversion, Decided, Operand, Read, SuspiciousCall, TextTest};
use super::cel::CelProgram;
use super::classic::{ClassicProgram, Conjunct, Explanation, outcome_of};
use super::failure::Failure;
use super::functions::{Pattern, TOO_LARGE_TOGETHER};
use super::parse::position;
use super::{CompileError, EvalError, Language, Phase, Scope};
use mixer_attribute::{AttributeBag, SlotId, Value, ValueType};

/// Most suspicious calls of one expression that are reported.
const MAX_CALLS: usize = 32;

/// A compiled expression. Immutable; shared by all requests of a snapshot.
#[derive(Debug)]
pub struct Program {
    language: Language,
    text: Arc<str>,
    value_type: ValueType,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Classic(ClassicProgram),
    Cel(CelProgram),
}

impl Program {
    /// Compiles `text`; see [`compile`](super::compile).
    pub(super) fn compile(
        language: Language,
        text: &str,
        scope: &dyn Scope,
    ) -> Result<Program, CompileError> {
        let engine = match language {
            Language::Cexl => Engine::Classic(ClassicProgram::compile(text, scope)?),
            Language::Cel | Language::Compat => Engine::Cel(CelProgram::compile(text, scope, language)?),
        };
        let value_type = match &engine {
            Engine::Classic(program) => program.value_type(),
            Engine::Cel(program) => program.value_type(),
        };
        Ok(Program { language, text: text.into(), value_type, engine })
    }

    /// The patterns of `matches` that it has compiled. Cost: proportional to its size for CEL.
    pub fn patterns(&self) -> Vec<Pattern> {
        match &self.engine {
            Engine::Classic(program) => program.patterns(),
            Engine::Cel(program) => program.patterns(),
        }
    }

    /// The error of an expression that is valid, and whose patterns do not fit beside the others of the configuration.
    pub fn over_budget(&self) -> CompileError {
        let phase = match &self.engine {
            Engine::Classic(_) => Phase::Compile,
            Engine::Cel(_) => Phase::Static,
        };
        CompileError { over_budget: true, ..CompileError::new(phase, TOO_LARGE_TOGETHER.to_owned()) }
    }

    /// The static type of the result.
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The source text, shared.
    pub fn shared_text(&self) -> &Arc<str> {
        &self.text
    }

    /// The language of the text.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Evaluates over `bag`, which records the references, also those before an error.
    ///
    /// The bag must use the vocabulary that the program was compiled against. Cost: a classic program allocates in the arena
    /// of the bag only, for computed texts and error texts.
    pub fn eval<'a>(&'a self, bag: &AttributeBag<'a>) -> Result<Value<'a>, EvalError<'a>> {
        match &self.engine {
            Engine::Classic(program) => program.eval(bag),
            Engine::Cel(program) => program.eval(bag),
        }
    }

    /// The operands of the top-level `&&` chain in evaluation order; at least one. A CEL program is one
    /// [`Conjunct::Other`].
    pub fn conjuncts(&self) -> Vec<Conjunct<'_>> {
        match &self.engine {
            Engine::Classic(program) => program.conjuncts(),
            Engine::Cel(_) => vec![Conjunct::Other],
        }
    }

    /// Every attribute, and every constant key of a map, whose value evaluation may read, sorted. A map that is also read as a whole, or by a
    /// key that is no constant, is there without a key as well.
    pub fn reads(&self) -> Vec<Read<'_>> {
        match &self.engine {
            Engine::Classic(program) => program.reads(),
            Engine::Cel(program) => program.reads(),
        }
    }

    /// The source texts of the operands of the top-level `&&` chain. A CEL program is one operand.
    pub fn conjunct_texts(&self) -> Vec<&str> {
        match &self.engine {
            Engine::Classic(program) => program.conjunct_texts(&self.text),
            Engine::Cel(_) => vec![self.text.trim()],
        }
    }

    /// Every attribute that evaluation may read, sorted.
    pub fn attributes(&self) -> Vec<SlotId> {
        let mut slots: Vec<SlotId> = match &self.engine {
            Engine::Classic(program) => program.reads().iter().map(|read| read.slot).collect(),
            Engine::Cel(program) => program.attributes(),
        };
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The entries of maps that the program reads by a constant key.
    pub fn entries(&self) -> Vec<Read<'_>> {
        match &self.engine {
            Engine::Classic(program) => {
                program.reads().into_iter().filter(|read| read.key.is_some()).collect()
            }
            Engine::Cel(program) => program.entries(),
        }
    }

    /// The first attribute, or entry of a map, whose absence makes this condition fail although it would be true if the attribute
    /// had the empty value of its type: a rule with this condition is then skipped. `is_always_there` names attributes that every
    /// request has.
    ///
    /// Bounds: conditions of at most 1024 nodes and 64 levels, and their first 16 attributes; nothing is reported beyond them.
    pub fn skipped_without(&self, is_always_there: &dyn Fn(Read<'_>) -> bool) -> Option<Read<'_>> {
        match &self.engine {
            Engine::Classic(program) => program.skipped_without(is_always_there),
            Engine::Cel(program) => program.skipped_without(is_always_there),
        }
    }

    /// The first conversion of a text of the request, such as `dnsName(request.host)`, whose failure makes this condition fail although
    /// it may be true for another text, with its line and column if they are known: a rule with this condition is skipped if the text
    /// is malformed. Bounds as for [`skipped_without`](Self::skipped_without).
    pub fn skipped_by_malformed(&self) -> Option<(Conversion<'_>, Option<(u32, u32)>)> {
        let found = match &self.engine {
            Engine::Classic(program) => program.skipped_by_malformed(),
            Engine::Cel(program) => program.skipped_by_malformed(),
        }?;
        Some((found, found.offset.and_then(|offset| position(&self.text, offset))))
    }

    /// Whether a request for which this condition is meant may make it fail, by what it leaves out or by a malformed text: as
    /// [`skipped_without`](Self::skipped_without) and [`skipped_by_malformed`](Self::skipped_by_malformed) tell, and if the condition
    /// is beyond their bounds or has a key that is not constant.
    pub fn may_be_skipped(&self, is_always_there: &dyn Fn(Read<'_>) -> bool) -> bool {
        let is_examined = match &self.engine {
            Engine::Classic(program) => program.is_examined(),
            Engine::Cel(program) => program.is_examined(),
        };
        !is_examined
            || self.skipped_without(is_always_there).is_some()
            || self.skipped_by_malformed().is_some()
    }

    /// Whether this condition is never, or always, true whatever one attribute holds that it tests more than once. Bounds as for
    /// [`skipped_without`](Self::skipped_without), and at most 32 values of 4 attributes.
    pub fn decided(&self) -> Option<(Read<'_>, Decided)> {
        match &self.engine {
            Engine::Classic(program) => program.decided(),
            Engine::Cel(program) => program.decided(),
        }
    }

    /// The parts that fail for every request, such as `ip("10.0.0.0/8")` or `"(".matches(request.path)`: a condition with one of
    /// them holds for no request that gets there. At most 8, in the order in which they are compiled, and at most 8 that fail for some
    /// requests: those that take one branch of a `conditional`, or a default.
    pub fn failures(&self) -> &[Failure] {
        match &self.engine {
            Engine::Classic(program) => program.failures(),
            Engine::Cel(program) => program.failures(),
        }
    }

    /// The first 32 suspicious calls, each with its line and column if they are known.
    pub fn suspicious_calls(&self) -> Vec<(Option<(u32, u32)>, SuspiciousCall)> {
        match &self.engine {
            Engine::Classic(program) => {
                let calls = program.suspicious_calls(&self.text).into_iter().take(MAX_CALLS);
                calls.map(|(offset, call)| (position(&self.text, offset), call)).collect()
            }
            Engine::Cel(program) => {
                program.suspicious_calls().into_iter().take(MAX_CALLS).map(|call| (None, call)).collect()
            }
        }
    }

    /// The tests of texts with constants; for a list of CEL, one with each of its constants.
    pub fn text_tests(&self) -> Vec<TextTest<'_>> {
        match &self.engine {
            Engine::Classic(program) => program.text_tests(&self.text),
            Engine::Cel(program) => program.text_tests(),
        }
    }

    /// The attributes and entries that the value of this expression, or its end, may be the text of.
    pub fn value_operands(&self) -> Vec<Operand<'_>> {
        match &self.engine {
            Engine::Classic(program) => program.value_operands(),
            Engine::Cel(program) => program.value_operands(),
        }
    }

    /// Line and column of an offset, both from 1. Cost: linear in the text.
    pub fn position(&self, offset: usize) -> Option<(u32, u32)> {
        position(&self.text, offset)
    }

    /// Evaluates and returns the outcome of every part. Slow; records the same references as [`eval`](Self::eval). A CEL
    /// program is one part.
    pub fn explain<'a>(&'a self, bag: &AttributeBag<'a>) -> Explanation {
        match &self.engine {
            Engine::Classic(program) => program.explain(&self.text, bag),
            Engine::Cel(program) => Explanation::leaf(&*self.text, outcome_of(program.eval(bag))),
        }
    }

    /// Explains every operand of the top-level `&&` chain, including those that evaluation would skip. A CEL program is one
    /// operand. Slow; records the references of all operands.
    pub fn explain_operands<'a>(&'a self, bag: &AttributeBag<'a>) -> Vec<Explanation> {
        match &self.engine {
            Engine::Classic(program) => program.explain_operands(&self.text, bag),
            Engine::Cel(_) => vec![self.explain(bag)],
        }
    }
}
