//! The CEL and COMPAT engines. Spec: expressions.md, section 15.

use super::{CompileError, EvalError, Language, Phase, Scope};
use crate::core::attribute::{AttributeBag, Value, ValueType};

/// A compiled CEL expression.
#[derive(Debug)]
pub(super) struct CelProgram {
    value_type: ValueType,
}

impl CelProgram {
    /// Compiles a CEL text, or a COMPAT text after rewriting it to CEL.
    pub(super) fn compile(
        text: &str,
        _scope: &dyn Scope,
        language: Language,
    ) -> Result<CelProgram, CompileError> {
        Err(CompileError::new(
            Phase::Static,
            format!("ERROR: <input>:1:1: {} refused: {text}", language.name()),
        ))
    }

    /// The static type of the result.
    pub(super) fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Evaluates over `bag`.
    pub(super) fn eval<'a>(&'a self, _bag: &AttributeBag<'a>) -> Result<Value<'a>, EvalError<'a>> {
        Err(EvalError::Failed("not evaluated"))
    }
}
