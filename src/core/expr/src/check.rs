//! Type check of terms.

mod hint;

use super::literal::Constant;
use super::parse::{parse, position};
use super::term::{Callee, TermId, TermKind, Terms, operator_text};
use super::{CompileError, Phase, Scope};
use mixer_attribute::{SlotId, ValueType};

/// Longest part of an expression in an error that users are told, in bytes.
const MAX_SHOWN: usize = 80;

/// The operators and functions of the classic language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Or,
    And,
    /// `a | b`
    Default,
    Add,
    Index,
    Conditional,
    ConditionalString,
    Size,
    Match,
    Matches,
    StartsWith,
    EndsWith,
    Ip,
    Timestamp,
    DnsName,
    Email,
    Uri,
    ToLower,
    EmptyStringMap,
}

/// The type of a parameter or result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameter {
    /// Any type, the same for all occurrences in a signature.
    Any,
    Is(ValueType),
}

#[derive(Debug)]
struct Signature {
    name: &'static str,
    operator: bool,
    function: Function,
    target: Option<ValueType>,
    parameters: &'static [Parameter],
    result: Parameter,
}

const ANY: Parameter = Parameter::Any;
const BOOL: Parameter = Parameter::Is(ValueType::Bool);
const STRING: Parameter = Parameter::Is(ValueType::String);

const fn operator(
    name: &'static str,
    function: Function,
    parameters: &'static [Parameter],
    result: Parameter,
) -> Signature {
    Signature { name, operator: true, function, target: None, parameters, result }
}

const fn function(
    name: &'static str,
    function: Function,
    parameters: &'static [Parameter],
    result: ValueType,
) -> Signature {
    Signature { name, operator: false, function, target: None, parameters, result: Parameter::Is(result) }
}

const fn method(name: &'static str, function: Function) -> Signature {
    Signature {
        name,
        operator: false,
        function,
        target: Some(ValueType::String),
        parameters: &[STRING],
        result: BOOL,
    }
}

static SIGNATURES: [Signature; 25] = [
    operator("EQ", Function::Equal, &[ANY, ANY], BOOL),
    operator("NEQ", Function::NotEqual, &[ANY, ANY], BOOL),
    operator("LT", Function::Less, &[ANY, ANY], BOOL),
    operator("LEQ", Function::LessOrEqual, &[ANY, ANY], BOOL),
    operator("GT", Function::Greater, &[ANY, ANY], BOOL),
    operator("GEQ", Function::GreaterOrEqual, &[ANY, ANY], BOOL),
    operator("LOR", Function::Or, &[BOOL, BOOL], BOOL),
    operator("LAND", Function::And, &[BOOL, BOOL], BOOL),
    operator("OR", Function::Default, &[ANY, ANY], ANY),
    operator("ADD", Function::Add, &[ANY, ANY], ANY),
    operator("INDEX", Function::Index, &[Parameter::Is(ValueType::StringMap), STRING], STRING),
    Signature {
        name: "conditional",
        operator: false,
        function: Function::Conditional,
        target: None,
        parameters: &[BOOL, ANY, ANY],
        result: ANY,
    },
    function("conditionalString", Function::ConditionalString, &[BOOL, STRING, STRING], ValueType::String),
    function("size", Function::Size, &[STRING], ValueType::Int64),
    function("match", Function::Match, &[STRING, STRING], ValueType::Bool),
    method("matches", Function::Matches),
    method("startsWith", Function::StartsWith),
    method("endsWith", Function::EndsWith),
    function("ip", Function::Ip, &[STRING], ValueType::IpAddress),
    function("timestamp", Function::Timestamp, &[STRING], ValueType::Timestamp),
    function("dnsName", Function::DnsName, &[STRING], ValueType::DnsName),
    function("email", Function::Email, &[STRING], ValueType::EmailAddress),
    function("uri", Function::Uri, &[STRING], ValueType::Uri),
    function("toLower", Function::ToLower, &[STRING], ValueType::String),
    function("emptyStringMap", Function::EmptyStringMap, &[], ValueType::StringMap),
];

fn signature(callee: Callee<'_>) -> Option<&'static Signature> {
    let operator = matches!(callee, Callee::Operator(_));
    SIGNATURES.iter().find(|s| s.operator == operator && s.name == callee.name())
}

/// The type of a term, and what it refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) value_type: ValueType,
    pub(super) meaning: Meaning,
}

/// What a term refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Constant,
    Attribute(SlotId),
    Function(Function),
}

const UNCHECKED: Typed = Typed { value_type: ValueType::Unspecified, meaning: Meaning::Constant };

/// The types of all terms of an expression.
#[derive(Debug)]
pub(super) struct Types(Vec<Typed>);

impl Types {
    /// The type of a term.
    pub(super) fn of(&self, id: TermId) -> Typed {
        self.0.get(id.index()).copied().unwrap_or(UNCHECKED)
    }
}

/// Infers the types of all terms.
///
/// Errors: phase type; the first problem in the order of the specification.
pub(super) fn check(terms: &Terms<'_>, scope: &dyn Scope) -> Result<Types, CompileError> {
    let mut checker = Checker { terms, scope, types: vec![UNCHECKED; terms.len()] };
    checker.check(terms.root()).map_err(|error| *error)?;
    Ok(Types(checker.types))
}

/// The type of a classic expression. Accepts expressions that type-check but are not implemented, as the validation of Istio
/// Mixer does.
pub(super) fn type_of(text: &str, scope: &dyn Scope) -> Result<ValueType, CompileError> {
    let wrap = |error: CompileError| CompileError {
        message: format!("failed to parse expression '{text}': {}", error.message),
        ..error
    };
    let tree = parse(text).map_err(wrap)?;
    let terms = Terms::new(&tree).map_err(wrap)?;
    let types = check(&terms, scope)?;
    Ok(types.of(terms.root()).value_type)
}

struct Checker<'c, 't> {
    terms: &'c Terms<'t>,
    scope: &'c dyn Scope,
    types: Vec<Typed>,
}

impl Checker<'_, '_> {
    fn check(&mut self, id: TermId) -> Result<ValueType, Box<CompileError>> {
        let (spine, leftmost) = self.terms.spine(id);
        for term in &spine {
            self.signature(*term)?;
        }
        let mut left = self.check_leaf(leftmost)?;
        for term in spine.into_iter().rev() {
            left = self.apply(term, Some(left))?;
        }
        Ok(left)
    }

    fn check_leaf(&mut self, id: TermId) -> Result<ValueType, Box<CompileError>> {
        let term = self.terms.term(id);
        let typed = match &term.kind {
            TermKind::Constant(constant) => {
                Typed { value_type: constant.value_type(), meaning: Meaning::Constant }
            }
            TermKind::Variable(name) => match self.scope.attribute(name) {
                Some((slot, value_type)) => Typed { value_type, meaning: Meaning::Attribute(slot) },
                None => return Err(self.unknown_attribute(id, name)),
            },
            TermKind::Function { .. } => {
                self.signature(id)?;
                return self.apply(id, None);
            }
        };
        self.set(id, typed);
        Ok(typed.value_type)
    }

    /// The signature of a function term. Errors: an unknown function, or a method called as a function or vice versa.
    fn signature(&self, id: TermId) -> Result<&'static Signature, Box<CompileError>> {
        let TermKind::Function { callee, target, .. } = &self.terms.term(id).kind else {
            return Err(self.error(id, "not a function".into()));
        };
        let Some(signature) = signature(*callee) else {
            let hint = hint::unknown_function(self.terms, id, self.scope);
            let error = self.error(id, format!("unknown function: {}", callee.name()));
            let words = match callee {
                Callee::Operator(name) => match operator_text(name) {
                    "" => "there is no such operator".to_owned(),
                    operator => format!("there is no operator `{operator}`"),
                },
                Callee::Named(name) => format!("unknown function: {name}"),
            };
            return Err(self.hinted(hint, in_words(error, words)));
        };
        match (target, signature.target) {
            (Some(_), None) => {
                let hint = format!("write {}(...) with the value as argument", callee.name());
                let message = format!("invoking regular function on instance method: {}", callee.name());
                let words = format!("`{}` is no method", callee.name());
                Err(self.hinted(Some(hint), in_words(self.error(id, message), words)))
            }
            (None, Some(_)) => {
                let hint = format!("write value.{}(...)", callee.name());
                let message = format!("invoking instance method without an instance: {}", callee.name());
                let words = format!("`{}` is a method, and has no value before it", callee.name());
                Err(self.hinted(Some(hint), in_words(self.error(id, message), words)))
            }
            _ => Ok(signature),
        }
    }

    /// Checks a function term; `first` is the type of its first argument, if known.
    fn apply(&mut self, id: TermId, first: Option<ValueType>) -> Result<ValueType, Box<CompileError>> {
        let signature = self.signature(id)?;
        let terms = self.terms;
        let TermKind::Function { target, arguments, .. } = &terms.term(id).kind else {
            return Ok(ValueType::Unspecified);
        };
        if let (Some(target), Some(expected)) = (target, signature.target) {
            let got = self.check(*target)?;
            if got != expected {
                return Err(self.mismatch(id, *target, "target", got, expected));
            }
        }
        if arguments.len() != signature.parameters.len() {
            return Err(self.wrong_arity(id, arguments.len(), signature.parameters.len()));
        }
        let mut common = None;
        for (i, (argument, parameter)) in arguments.iter().zip(signature.parameters).enumerate() {
            let got = match first {
                Some(known) if i == 0 => known,
                _ => self.check(*argument)?,
            };
            let expected = match parameter {
                Parameter::Is(expected) => *expected,
                Parameter::Any => *common.get_or_insert(got),
            };
            if got != expected {
                return Err(self.wrong_argument(id, *argument, i, got, expected));
            }
        }
        let value_type = match signature.result {
            Parameter::Is(result) => result,
            Parameter::Any => common.unwrap_or_default(),
        };
        self.set(id, Typed { value_type, meaning: Meaning::Function(signature.function) });
        Ok(value_type)
    }

    fn set(&mut self, id: TermId, typed: Typed) {
        if let Some(entry) = self.types.get_mut(id.index()) {
            *entry = typed;
        }
    }

    fn error(&self, id: TermId, message: String) -> Box<CompileError> {
        Box::new(CompileError {
            position: position(self.terms.text(), self.terms.term(id).span.start),
            ..CompileError::new(Phase::Type, message)
        })
    }

    fn hinted(&self, hint: Option<String>, mut error: Box<CompileError>) -> Box<CompileError> {
        error.hint = hint;
        error
    }

    fn wrong_arity(&self, id: TermId, got: usize, expected: usize) -> Box<CompileError> {
        let call = self.terms.render(id);
        let error =
            self.error(id, format!("{call} arity mismatch. Got {got} arg(s), expected {expected} arg(s)"));
        let noun = if expected == 1 { "argument" } else { "arguments" };
        in_words(error, format!("`{}` takes {expected} {noun}, not {got}", self.shown(id)))
    }

    /// A term as written, on one line, shortened.
    fn shown(&self, id: TermId) -> String {
        let text = self.terms.term(id).span.of(self.terms.text());
        let mut shown = String::new();
        for word in text.split_whitespace() {
            if !shown.is_empty() {
                shown.push(' ');
            }
            shown.push_str(word);
            if shown.len() > MAX_SHOWN {
                shown.truncate(shown.floor_char_boundary(MAX_SHOWN));
                shown.push('…');
                break;
            }
        }
        shown
    }

    fn wrong_argument(
        &self,
        id: TermId,
        argument: TermId,
        index: usize,
        got: ValueType,
        expected: ValueType,
    ) -> Box<CompileError> {
        let place = format!("arg {} ({})", index + 1, self.terms.render(argument));
        self.mismatch(id, argument, &place, got, expected)
    }

    fn mismatch(
        &self,
        id: TermId,
        culprit: TermId,
        place: &str,
        got: ValueType,
        expected: ValueType,
    ) -> Box<CompileError> {
        let message = format!("{} {place} typeError got {got}, expected {expected}", self.terms.render(id));
        let operator = match &self.terms.term(id).kind {
            TermKind::Function { callee: Callee::Operator(name), .. } => Some(*name),
            _ => None,
        };
        let hint = match &self.terms.term(culprit).kind {
            TermKind::Constant(Constant::Duration(_)) => Some(format!(
                "{} reads as a duration, and every text that does is one",
                self.terms.render(culprit)
            )),
            TermKind::Constant(Constant::String(text)) if expected == ValueType::Bool => {
                let value = hint::converted(text, expected, "");
                let is_operand = matches!(operator, Some("LOR" | "LAND"));
                value.or_else(|| {
                    is_operand.then(|| "each side is a whole comparison: a == \"x\" || a == \"y\"".into())
                })
            }
            _ if expected == ValueType::Bool && got == ValueType::String && operator == Some("LOR") => Some(
                "a default follows `|`, as in (a | \"x\") == \"y\"; each side of `||` is a whole comparison"
                    .into(),
            ),
            _ if expected == ValueType::Bool && got == ValueType::String && operator == Some("LAND") => {
                Some("each side is a whole comparison: a == \"x\" && b == \"y\"".into())
            }
            TermKind::Constant(Constant::String(text)) if expected == ValueType::Int64 => {
                let number = std::str::from_utf8(text).ok().filter(|text| text.parse::<i64>().is_ok());
                Some(match number {
                    Some(number) => format!("write {number}, without quotes"),
                    None => "write a whole number, without quotes and without a unit".to_owned(),
                })
            }
            TermKind::Constant(Constant::String(text)) => {
                hint::converted(text, expected, &self.terms.render(culprit))
            }
            TermKind::Constant(constant) if expected == ValueType::String => {
                hint::no_text(Some(constant), got, matches!(operator, Some("EQ" | "NEQ")))
            }
            _ if expected == ValueType::String && operator.is_none() => hint::no_text(None, got, false),
            _ => None,
        };
        let words = format!("`{}` is {got}, expected {expected}", self.shown(culprit));
        self.hinted(hint, in_words(self.error(culprit, message), words))
    }

    fn unknown_attribute(&self, id: TermId, name: &str) -> Box<CompileError> {
        Box::new(CompileError {
            unknown_attribute: Some(name.into()),
            hint: hint::nearest_attribute(name, self.scope),
            ..*self.error(id, format!("unknown attribute {name}"))
        })
    }
}

/// The same error, with what users are told.
fn in_words(mut error: Box<CompileError>, words: String) -> Box<CompileError> {
    error.in_words = Some(words);
    error
}

/// The names of all functions.
fn function_names() -> impl Iterator<Item = &'static str> {
    SIGNATURES.iter().filter(|s| !s.operator).map(|s| s.name)
}
