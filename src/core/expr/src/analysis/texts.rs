//! Tests of texts with constants, as both engines report them.

use std::borrow::Cow;

use super::Read;
use crate::functions::RegexFacts;

/// A test of a text with a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextTest<'p> {
    /// The attributes and entries that the text, or its end, may be of; empty if it is computed otherwise.
    pub operands: Vec<Operand<'p>>,
    /// Whether the text is the result of `toLower`.
    pub is_lower: bool,
    /// The source of the text, if that is known.
    pub subject: Option<&'p str>,
    /// How it is compared.
    pub kind: TextTestKind,
    /// The constant. Of a regular expression what every match begins with, at the start of the text; empty if that is unknown.
    pub text: Cow<'p, [u8]>,
    /// What is known of a regular expression.
    pub pattern: Option<RegexFacts>,
    /// Whether the condition may ask for the opposite.
    pub is_negated: bool,
    /// Where it is in the expression, in bytes, if that is known; see [`Program::position`](crate::Program::position).
    pub offset: Option<usize>,
}

/// An attribute or entry in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand<'p> {
    /// The attribute or entry.
    pub read: Read<'p>,
    /// What the text has of it.
    pub form: Form,
    /// The constant text that stands for it while it is absent.
    pub default: Option<&'p [u8]>,
    /// The constant address that does, as 16 bytes.
    pub default_address: Option<[u8; 16]>,
}

/// What a text has of an attribute or entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All of it, as it is.
    Whole,
    /// All of it, in lower case.
    Lower,
    /// It ends with it, or is one of several alternatives.
    Part,
}

impl Form {
    /// The form of the operand of `toLower`.
    pub(crate) fn lower(self) -> Self {
        match self {
            Form::Whole | Form::Lower => Form::Lower,
            Form::Part => Form::Part,
        }
    }
}

/// How a text is compared with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextTestKind {
    /// It is equal.
    Equal,
    /// It is different.
    NotEqual,
    /// It begins with it.
    Start,
    /// It ends with it.
    End,
    /// It contains it.
    Contains,
    /// `match`: `*` as the last or first character stands for any text.
    Glob,
    /// `matches`.
    Regex {
        /// Whether a match reaches up to the end of the text only where the pattern names neither any text nor a question mark.
        fixes_the_end: bool,
    },
}
