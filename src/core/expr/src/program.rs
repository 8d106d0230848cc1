//! Compiled expressions of any language.

use std::sync::Arc;

use super::cel::CelProgram;
use super::classic::{ClassicProgram, Conjunct, Explanation, Read, outcome_of};
use super::{CompileError, EvalError, Language, Scope};
use mixer_attribute::{AttributeBag, Value, ValueType};

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

    /// Every attribute, and every constant key of a map, that evaluation may read, sorted; `None` for CEL programs.
    pub fn slots(&self) -> Option<Vec<Read<'_>>> {
        match &self.engine {
            Engine::Classic(program) => Some(program.reads()),
            Engine::Cel(_) => None,
        }
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
