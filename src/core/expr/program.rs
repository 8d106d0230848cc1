//! Compiled expressions.

use super::{CompileError, EvalError, Language, Phase, Scope};
use crate::core::attribute::{AttributeBag, Value, ValueType};

/// A compiled expression. Immutable; shared by all requests of a snapshot.
#[derive(Debug)]
pub struct Program {
    language: Language,
    text: Box<str>,
    value_type: ValueType,
}

impl Program {
    /// Compiles `text`; see [`compile`](super::compile).
    pub(super) fn compile(
        language: Language,
        text: &str,
        _scope: &dyn Scope,
    ) -> Result<Program, CompileError> {
        Err(CompileError {
            phase: Phase::Parse,
            message: format!("unable to parse expression '{text}' ({})", language.name()),
            position: None,
            unknown_attribute: None,
            hint: None,
        })
    }

    /// The static type of the result.
    pub fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// The text that was compiled.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The dialect of the text.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Evaluates over `bag`, recording there what was read. What was read before an error stays recorded.
    pub fn eval<'a>(&'a self, _bag: &AttributeBag<'a>) -> Result<Value<'a>, EvalError<'a>> {
        Err(EvalError::Failed("no evaluator"))
    }
}
