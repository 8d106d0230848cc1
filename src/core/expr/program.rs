//! Compiled expressions.

use super::cel::CelProgram;
use super::{CompileError, EvalError, Language, Phase, Scope};
use crate::core::attribute::{AttributeBag, Value, ValueType};

/// A compiled expression. Immutable; shared by all requests of a snapshot.
#[derive(Debug)]
pub struct Program {
    language: Language,
    text: Box<str>,
    value_type: ValueType,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
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
            Language::Cexl => {
                return Err(CompileError::new(Phase::Parse, format!("unable to parse expression '{text}'")));
            }
            Language::Cel | Language::Compat => Engine::Cel(CelProgram::compile(text, scope, language)?),
        };
        let value_type = match &engine {
            Engine::Cel(program) => program.value_type(),
        };
        Ok(Program { language, text: text.into(), value_type, engine })
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
    pub fn eval<'a>(&'a self, bag: &AttributeBag<'a>) -> Result<Value<'a>, EvalError<'a>> {
        match &self.engine {
            Engine::Cel(program) => program.eval(bag),
        }
    }
}
