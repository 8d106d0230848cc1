//! The expression language: text -> tree -> type check -> program -> value.
//!
//! [`compile`] turns a text into a [`Program`] against a [`Scope`] of typed attributes; [`Program::eval`] runs it over an
//! [`AttributeBag`](mixer_attribute::AttributeBag). Three modes: classic, CEL, and classic syntax with CEL semantics.
//! Evaluating a classic program allocates in the arena of the bag only.
//! Syntax, types and error texts are those of Istio Mixer 1.3.

mod analysis;
mod ast;
mod cel;
mod check;
mod classic;
mod error;
mod failure;
pub mod functions;
mod lexer;
mod literal;
mod others;
mod parse;
mod program;
mod term;

pub use analysis::{Conversion, Decided, Form, Operand, Read, SuspiciousCall, TextTest, TextTestKind};
pub use classic::{Conjunct, Explanation, Outcome};
pub use error::{Bound, CompileError, EvalError, Phase};
pub use failure::Failure;
pub use lexer::is_keyword;
pub use program::Program;

use mixer_attribute::{SlotId, ValueType, Vocabulary};

/// Maximum length of an expression, in bytes.
const MAX_EXPRESSION: usize = 512 << 10;

/// The expression language. Selected per resource by the annotation `policy.istio.io/lang`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Language {
    /// The classic language.
    #[default]
    Cexl,
    /// Common Expression Language.
    Cel,
    /// Classic syntax, CEL semantics.
    Compat,
}

impl Language {
    /// All languages.
    pub const ALL: [Language; 3] = [Language::Cel, Language::Compat, Language::Cexl];

    /// The language named by an annotation or by `ISTIO_LANG`; everything but `CEL` and `COMPAT` is classic, as in Istio Mixer.
    pub fn from_name(name: &str) -> Language {
        Self::known(name).unwrap_or_default()
    }

    /// The language with exactly this name, as [`name`](Self::name) returns it.
    pub fn known(name: &str) -> Option<Language> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }

    /// `CEXL`, `CEL` or `COMPAT`.
    pub fn name(self) -> &'static str {
        match self {
            Language::Cexl => "CEXL",
            Language::Cel => "CEL",
            Language::Compat => "COMPAT",
        }
    }
}

/// The attributes that an expression may reference.
pub trait Scope {
    /// Slot and type of an attribute, if it is declared.
    fn attribute(&self, name: &str) -> Option<(SlotId, ValueType)>;
    /// Whether there are attributes below a name, of which CEL makes an object.
    fn has_below(&self, name: &str) -> bool;
    /// The declared names, for suggestions.
    fn names(&self) -> Vec<&str>;
}

impl Scope for Vocabulary {
    fn attribute(&self, name: &str) -> Option<(SlotId, ValueType)> {
        let slot = self.slot(name.as_bytes())?;
        Some((slot, self.value_type(slot)?))
    }

    fn has_below(&self, name: &str) -> bool {
        Vocabulary::has_below(self, name)
    }

    fn names(&self) -> Vec<&str> {
        self.typed().map(|(name, _)| name).collect()
    }
}

/// Compiles `text`.
///
/// Errors: the first problem found, with its position; [`Phase`] says in which step.
pub fn compile(language: Language, text: &str, scope: &dyn Scope) -> Result<Program, CompileError> {
    check_length(text)?;
    Program::compile(language, text, scope)
}

/// The type of `text`, for the validation of configuration.
///
/// Classic expressions that type-check but that the compiler does not implement are accepted, as by Istio Mixer. Errors:
/// those of phase parse are wrapped as `failed to parse expression '<text>': ...`; others are those of
/// [`compile`].
pub fn type_check(language: Language, text: &str, scope: &dyn Scope) -> Result<ValueType, CompileError> {
    check_length(text)?;
    match language {
        Language::Cexl => check::type_of(text, scope),
        Language::Cel | Language::Compat => {
            compile(language, text, scope).map(|program| program.value_type())
        }
    }
}

fn check_length(text: &str) -> Result<(), CompileError> {
    if text.len() <= MAX_EXPRESSION {
        return Ok(());
    }
    let message = format!("expression has {} bytes, more than {MAX_EXPRESSION}", text.len());
    Err(CompileError::new(Phase::Parse, message))
}

#[cfg(test)]
mod tests;
