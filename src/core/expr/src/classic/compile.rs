//! Checked terms -> typed tree.

use std::cell::RefCell;

use bumpalo::Bump;

use super::choices::Choices;
use super::{Attribute, Comparison, Expr, ExprKind, Glob, Literal, MapEntry, Operands, Unary};
use crate::check::{Function, Meaning, Types};
use crate::error::{INTERNAL, NOT_IMPLEMENTED};
use crate::failure::{
    DNS_NAME_CURE, EMAIL_CURE, Failures, PatternTrials, TIME_CURE, URI_CURE, address_cure, pattern_cure,
};
use crate::functions::{self, Pattern, PatternError, Regex};
use crate::lexer::Span;
use crate::literal::Constant;
use crate::parse::position;
use crate::term::{TermId, TermKind, Terms};
use crate::{CompileError, EvalError, Phase};
use mixer_attribute::{Value, ValueType};

/// Maximum nesting of nodes, where flat chains count once. It bounds the recursion of evaluation and explanation.
const MAX_DEPTH: u32 = 700;

/// Compiles checked terms; also returns what fails for every request, and its patterns.
///
/// Errors: phase compile, when an operator has no implementation for its type.
pub(super) fn compile(
    terms: &Terms<'_>,
    types: &Types,
) -> Result<(Expr, Failures, Vec<Pattern>), CompileError> {
    let (failures, patterns) = (RefCell::default(), RefCell::default());
    let trials = PatternTrials::default();
    let compiler = Compiler { terms, types, arena: Bump::new(), failures, patterns, trials };
    let root = compiler.term(terms.root()).map_err(|error| *error)?.expr;
    Ok((root, compiler.failures.into_inner(), compiler.patterns.into_inner()))
}

struct Compiler<'c, 't> {
    terms: &'c Terms<'t>,
    types: &'c Types,
    /// For calls on constants, which are evaluated at compile time.
    arena: Bump,
    /// Constants that cannot be evaluated.
    failures: RefCell<Failures>,
    patterns: RefCell<Vec<Pattern>>,
    /// Patterns that are not compiled.
    trials: PatternTrials,
}

/// An expression and its nesting.
struct Built {
    expr: Expr,
    depth: u32,
}

impl Compiler<'_, '_> {
    fn term(&self, id: TermId) -> Result<Built, Box<CompileError>> {
        let (mut spine, leftmost) = self.terms.spine(id);
        let mut left = self.leaf(leftmost)?;
        while let Some(mut term) = spine.pop() {
            let meaning = self.types.of(term).meaning;
            let mut operands = vec![left, self.right(term)?];
            if let Meaning::Function(Function::And | Function::Or | Function::Default | Function::Add) =
                meaning
            {
                while let Some(next) = spine.pop_if(|next| self.types.of(*next).meaning == meaning) {
                    operands.push(self.right(next)?);
                    term = next;
                }
            }
            left = self.call(term, operands)?;
        }
        Ok(left)
    }

    fn right(&self, id: TermId) -> Result<Built, Box<CompileError>> {
        match &self.terms.term(id).kind {
            TermKind::Function { arguments, .. } if let [_, right] = arguments.as_slice() => {
                self.term(*right)
            }
            _ => Err(self.unhandled(id)),
        }
    }

    /// A term that is not a binary operation.
    fn leaf(&self, id: TermId) -> Result<Built, Box<CompileError>> {
        let TermKind::Function { target, arguments, .. } = &self.terms.term(id).kind else {
            return self.constant_or_attribute(id);
        };
        let mut operands = Vec::with_capacity(arguments.len() + 1);
        for operand in target.iter().chain(arguments) {
            operands.push(self.term(*operand)?);
        }
        self.call(id, operands)
    }

    fn constant_or_attribute(&self, id: TermId) -> Result<Built, Box<CompileError>> {
        let typed = self.types.of(id);
        match (&self.terms.term(id).kind, typed.meaning) {
            (TermKind::Constant(constant), _) => {
                let literal = match constant {
                    Constant::Bool(value) => Literal::Bool(*value),
                    Constant::Int64(value) => Literal::Int64(*value),
                    Constant::Double(value) => Literal::Double(*value),
                    Constant::String(value) => Literal::Bytes(value.clone()),
                    Constant::Duration(duration) => Literal::Duration(*duration),
                };
                Ok(self.leaf_of(id, ExprKind::Literal(literal)))
            }
            (TermKind::Variable(_), Meaning::Attribute(slot))
                if typed.value_type != ValueType::Unspecified =>
            {
                Ok(self.leaf_of(id, ExprKind::Attribute(Attribute { slot, value_type: typed.value_type })))
            }
            _ => Err(self.unhandled(id)),
        }
    }

    fn leaf_of(&self, id: TermId, kind: ExprKind) -> Built {
        Built { expr: self.expr(id, kind), depth: 0 }
    }

    fn expr(&self, id: TermId, kind: ExprKind) -> Expr {
        let Span { start, end } = self.terms.term(id).span;
        Expr {
            kind,
            start: u32::try_from(start).unwrap_or(u32::MAX),
            end: u32::try_from(end).unwrap_or(u32::MAX),
        }
    }

    /// Builds a function term over its compiled operands, the target first.
    fn call(&self, id: TermId, operands: Vec<Built>) -> Result<Built, Box<CompileError>> {
        let Meaning::Function(function) = self.types.of(id).meaning else {
            return Err(self.unhandled(id));
        };
        let depth = operands.iter().map(|o| o.depth).max().unwrap_or(0);
        if depth >= MAX_DEPTH {
            return Err(self.error(id, format!("expression is nested more than {MAX_DEPTH} levels deep")));
        }
        let operands: Vec<Expr> = operands.into_iter().map(|o| o.expr).collect();
        let kind = self.kind(id, function, operands)?;
        Ok(Built { expr: self.expr(id, kind), depth: depth + 1 })
    }

    /// A search with a pattern, compiled if it is constant.
    fn regex(&self, id: TermId, [pattern, subject]: [Expr; 2]) -> Result<ExprKind, Box<CompileError>> {
        let ExprKind::Literal(Literal::Bytes(text)) = pattern.kind else {
            self.choices(&pattern, |pattern| {
                let error = self.trials.error(pattern)?;
                let cure = pattern_cure(&error);
                Some((error, cure))
            });
            return Ok(ExprKind::Matches(Box::new([pattern, subject])));
        };
        let regex = match Regex::configured(&text) {
            Ok(regex) => {
                self.patterns.borrow_mut().extend(regex.pattern());
                Ok(regex)
            }
            // An invalid pattern fails the evaluation, as in Istio Mixer.
            Err(PatternError::Invalid(text)) => {
                self.fails(pattern.start as usize, text.clone(), pattern_cure(&text));
                Err(text)
            }
            Err(PatternError::TooLarge(text)) => return Err(self.error(id, text)),
            Err(PatternError::OverBudget(text)) => {
                return Err(Box::new(CompileError { over_budget: true, ..*self.error(id, text) }));
            }
        };
        Ok(ExprKind::MatchesRegex { regex: Box::new(regex), subject: Box::new(subject) })
    }

    fn kind(
        &self,
        id: TermId,
        function: Function,
        operands: Vec<Expr>,
    ) -> Result<ExprKind, Box<CompileError>> {
        let value_type = self.types.of(id).value_type;
        Ok(match function {
            Function::Equal => self.comparison(id, Comparison::Equal, operands)?,
            Function::NotEqual => self.comparison(id, Comparison::NotEqual, operands)?,
            Function::Less => self.comparison(id, Comparison::Less, operands)?,
            Function::LessOrEqual => self.comparison(id, Comparison::LessOrEqual, operands)?,
            Function::Greater => self.comparison(id, Comparison::Greater, operands)?,
            Function::GreaterOrEqual => self.comparison(id, Comparison::GreaterOrEqual, operands)?,
            Function::And => ExprKind::All(flatten(operands, |k| match k {
                ExprKind::All(list) => Ok(list),
                other => Err(other),
            })),
            Function::Or => ExprKind::Any(flatten(operands, |k| match k {
                ExprKind::Any(list) => Ok(list),
                other => Err(other),
            })),
            Function::Default => first_of(flatten(operands, |k| match k {
                ExprKind::FirstOf(list) => Ok(list),
                other => Err(other),
            })),
            Function::Add => self.sum(id, value_type, operands)?,
            Function::Index => index(self.exactly(id, operands)?),
            Function::Conditional => ExprKind::Conditional(self.exactly(id, operands)?),
            Function::ConditionalString => ExprKind::ConditionalString(self.exactly(id, operands)?),
            Function::Match => glob(*self.exactly(id, operands)?),
            Function::Matches => self.regex(id, *self.exactly(id, operands)?)?,
            Function::StartsWith => ExprKind::StartsWith(self.exactly(id, operands)?),
            Function::EndsWith => ExprKind::EndsWith(self.exactly(id, operands)?),
            Function::Size => self.unary(id, Unary::Size, operands)?,
            Function::ToLower => self.unary(id, Unary::ToLower, operands)?,
            Function::Ip => self.unary(id, Unary::Ip, operands)?,
            Function::Timestamp => self.unary(id, Unary::Timestamp, operands)?,
            Function::DnsName => self.unary(id, Unary::DnsName, operands)?,
            Function::Email => self.unary(id, Unary::Email, operands)?,
            Function::Uri => self.unary(id, Unary::Uri, operands)?,
            Function::EmptyStringMap => ExprKind::Literal(Literal::EmptyMap),
        })
    }

    fn exactly<const N: usize>(
        &self,
        id: TermId,
        operands: Vec<Expr>,
    ) -> Result<Box<[Expr; N]>, Box<CompileError>> {
        operands.into_boxed_slice().try_into().map_err(|_| self.unhandled(id))
    }

    fn comparison(
        &self,
        id: TermId,
        comparison: Comparison,
        operands: Vec<Expr>,
    ) -> Result<ExprKind, Box<CompileError>> {
        let value_type = match &self.terms.term(id).kind {
            TermKind::Function { arguments, .. } => {
                arguments.first().map_or(ValueType::Unspecified, |first| self.types.of(*first).value_type)
            }
            _ => ValueType::Unspecified,
        };
        let equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let compared_as = match value_type {
            ValueType::String => Operands::Bytes,
            ValueType::Int64 => Operands::Int64,
            ValueType::Double => Operands::Double,
            ValueType::Timestamp => Operands::Timestamp,
            ValueType::Bool if equality => Operands::Bool,
            ValueType::IpAddress if equality => Operands::Address,
            ValueType::DnsName if equality => Operands::DnsName,
            ValueType::EmailAddress if equality => Operands::EmailAddress,
            ValueType::Uri if equality => Operands::Uri,
            ValueType::DnsName | ValueType::EmailAddress | ValueType::Uri => Operands::Bytes,
            _ => return Err(self.not_implemented(id, comparison_name(comparison), value_type)),
        };
        operands.iter().for_each(|operand| self.constant_operand(compared_as, operand));
        Ok(compare(comparison, compared_as, self.exactly(id, operands)?))
    }

    /// Records a constant name that converts, and is equal to none.
    fn constant_operand(&self, compared_as: Operands, operand: &Expr) {
        let equal = match compared_as {
            Operands::DnsName => functions::dns_name_equal,
            Operands::EmailAddress => functions::email_equal,
            Operands::Uri => functions::uri_equal,
            _ => return,
        };
        let cure = match compared_as {
            Operands::DnsName => DNS_NAME_CURE,
            Operands::EmailAddress => EMAIL_CURE,
            _ => URI_CURE,
        };
        self.choices(operand, |name| Some((equal(name, name, &self.arena).err()?.to_string(), cure)));
    }

    /// Records the constants that an operand may be with which its operation fails. `failure`: the error of one, and its cure.
    fn choices(&self, operand: &Expr, failure: impl Fn(&[u8]) -> Option<(String, &'static str)>) {
        let Choices { texts, has_others } = Choices::of(operand, &self.arena);
        let failing: Vec<_> =
            texts.iter().filter_map(|(text, at)| Some((text, *at, failure(text)?))).collect();
        let is_certain = !has_others && failing.len() == texts.len();
        for (text, at, (message, cure)) in failing {
            // As one of several, the empty text says that there is none: `ip(request.headers["x-ip"] | "")`.
            if !is_certain && text.is_empty() {
                continue;
            }
            let position = || position(self.terms.text(), at as usize);
            self.failures.borrow_mut().add(is_certain, position, message, cure);
        }
    }

    fn sum(
        &self,
        id: TermId,
        value_type: ValueType,
        operands: Vec<Expr>,
    ) -> Result<ExprKind, Box<CompileError>> {
        Ok(match value_type {
            ValueType::String | ValueType::DnsName | ValueType::EmailAddress | ValueType::Uri
                if let Some(text) = constant_text(&operands) =>
            {
                ExprKind::Literal(Literal::Bytes(text))
            }
            ValueType::String | ValueType::DnsName | ValueType::EmailAddress | ValueType::Uri => {
                ExprKind::Concat(flatten(operands, |k| match k {
                    ExprKind::Concat(list) => Ok(list),
                    other => Err(other),
                }))
            }
            ValueType::Int64 => ExprKind::AddInt64(operands.into()),
            ValueType::Double => ExprKind::AddDouble(operands.into()),
            _ => return Err(self.not_implemented(id, "Add", value_type)),
        })
    }

    fn unary(&self, id: TermId, function: Unary, operands: Vec<Expr>) -> Result<ExprKind, Box<CompileError>> {
        let [argument] = *self.exactly::<1>(id, operands)?;
        if let ExprKind::Literal(Literal::Bytes(text)) = &argument.kind {
            let literal = self.evaluated(function, text);
            if let Literal::Failed(error) = &literal {
                let start = self.terms.term(id).span.start;
                self.fails(start, error.to_string(), conversion_cure(function, text));
            }
            return Ok(ExprKind::Literal(literal));
        }
        self.choices(&argument, |text| match self.evaluated(function, text) {
            Literal::Failed(error) => Some((error.into(), conversion_cure(function, text))),
            _ => None,
        });
        Ok(ExprKind::Apply { function, argument: Box::new(argument) })
    }

    /// Records what fails for every request, by its offset.
    fn fails(&self, offset: usize, message: String, hint: &str) {
        self.failures.borrow_mut().push(|| position(self.terms.text(), offset), message, hint);
    }

    /// The result of a call on a constant.
    fn evaluated(&self, function: Unary, text: &[u8]) -> Literal {
        match function.apply(self.arena.alloc_slice_copy(text), &self.arena) {
            Ok(Value::String(bytes)) => Literal::Bytes(bytes.into()),
            Ok(Value::Bytes(bytes)) if let Ok(address) = bytes.try_into() => Literal::Address(address),
            Ok(Value::Timestamp(instant)) => Literal::Timestamp(instant),
            Ok(Value::Int64(number)) => Literal::Int64(number),
            Ok(other) => {
                debug_assert!(false, "no function of one text returns {other:?}");
                Literal::Failed("no value".into())
            }
            Err(error) => Literal::Failed(error.to_string().into()),
        }
    }

    fn not_implemented(&self, id: TermId, what: &str, value_type: ValueType) -> Box<CompileError> {
        let stored_as = match value_type {
            ValueType::Bool => "bool",
            ValueType::Duration => "duration",
            _ => "interface",
        };
        let message = format!("{INTERNAL}{what}{NOT_IMPLEMENTED}{stored_as}");
        let hint = match value_type {
            ValueType::Duration => Some(
                "the classic language passes durations on only; `policy.istio.io/lang: CEL` on the rule compares them: `response.duration > duration(\"5s\")`".into(),
            ),
            ValueType::StringMap => Some("compare single entries: map[\"key\"]".into()),
            _ => None,
        };
        Box::new(CompileError { hint, ..*self.error(id, message) })
    }

    fn unhandled(&self, id: TermId) -> Box<CompileError> {
        let value_type = self.types.of(id).value_type;
        self.error(id, format!("{INTERNAL}unhandled expression type: '{value_type}'"))
    }

    fn error(&self, id: TermId, message: String) -> Box<CompileError> {
        Box::new(CompileError {
            position: position(self.terms.text(), self.terms.term(id).span.start),
            ..CompileError::new(Phase::Compile, message)
        })
    }
}

/// The concatenation of constant texts; `None` if any is not constant.
fn constant_text(operands: &[Expr]) -> Option<Box<[u8]>> {
    let mut text = Vec::new();
    for operand in operands {
        match &operand.kind {
            ExprKind::Literal(Literal::Bytes(part)) => text.extend_from_slice(part),
            _ => return None,
        }
    }
    Some(text.into())
}

/// The cure of a conversion of a constant.
fn conversion_cure(function: Unary, text: &[u8]) -> &'static str {
    match function {
        Unary::Ip => address_cure(text),
        Unary::Timestamp => TIME_CURE,
        Unary::DnsName => DNS_NAME_CURE,
        Unary::Email => EMAIL_CURE,
        Unary::Uri | Unary::Size | Unary::ToLower => URI_CURE,
    }
}

/// Inlines operands that are chains of the same operator.
fn flatten(operands: Vec<Expr>, links: fn(ExprKind) -> Result<Box<[Expr]>, ExprKind>) -> Box<[Expr]> {
    let mut list = Vec::with_capacity(operands.len());
    for Expr { kind, start, end } in operands {
        match links(kind) {
            Ok(inner) => list.extend(inner),
            Err(kind) => list.push(Expr { kind, start, end }),
        }
    }
    list.into()
}

fn first_of(list: Box<[Expr]>) -> ExprKind {
    let pair: Box<[Expr; 2]> = match list.try_into() {
        Ok(pair) => pair,
        Err(list) => return ExprKind::FirstOf(list),
    };
    let [first, second] = *pair;
    match (first.kind, second.kind) {
        (ExprKind::Attribute(attribute), ExprKind::Literal(default)) => {
            ExprKind::AttributeOr { attribute, default }
        }
        (ExprKind::Entry(entry), ExprKind::Literal(default)) => ExprKind::EntryOr { entry, default },
        (one, other) => {
            ExprKind::FirstOf(Box::new([Expr { kind: one, ..first }, Expr { kind: other, ..second }]))
        }
    }
}

fn index(pair: Box<[Expr; 2]>) -> ExprKind {
    match &*pair {
        [
            Expr { kind: ExprKind::Attribute(map), .. },
            Expr { kind: ExprKind::Literal(Literal::Bytes(key)), .. },
        ] => ExprKind::Entry(MapEntry { map: *map, key: key.clone() }),
        _ => ExprKind::Index(pair),
    }
}

fn compare(comparison: Comparison, operands: Operands, pair: Box<[Expr; 2]>) -> ExprKind {
    let expected = match comparison {
        Comparison::Equal => true,
        Comparison::NotEqual => false,
        _ => return ExprKind::Compare { comparison, operands, pair },
    };
    let [left, right] = *pair;
    match (left.kind, right.kind) {
        (ExprKind::Attribute(attribute), ExprKind::Literal(Literal::Bytes(constant)))
            if operands == Operands::Bytes =>
        {
            ExprKind::AttributeIs { attribute, constant, expected }
        }
        (ExprKind::Entry(entry), ExprKind::Literal(Literal::Bytes(constant)))
            if operands == Operands::Bytes =>
        {
            ExprKind::EntryIs { entry, constant, expected }
        }
        (one, other) => {
            let pair = Box::new([Expr { kind: one, ..left }, Expr { kind: other, ..right }]);
            ExprKind::Compare { comparison, operands, pair }
        }
    }
}

fn glob([subject, pattern]: [Expr; 2]) -> ExprKind {
    match pattern.kind {
        ExprKind::Literal(Literal::Bytes(text)) => {
            ExprKind::MatchesGlob { subject: Box::new(subject), glob: Glob::new(&text) }
        }
        kind => ExprKind::Match(Box::new([subject, Expr { kind, ..pattern }])),
    }
}

fn comparison_name(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal | Comparison::NotEqual => "equality",
        Comparison::Less => "less than",
        Comparison::LessOrEqual => "less or equal",
        Comparison::Greater => "greater than",
        Comparison::GreaterOrEqual => "greater or equal",
    }
}

impl Unary {
    /// Calls the function.
    pub(super) fn apply<'a>(self, text: &'a [u8], arena: &'a Bump) -> Result<Value<'a>, EvalError<'a>> {
        match self {
            Unary::Size => Ok(Value::Int64(i64::try_from(text.len()).unwrap_or(i64::MAX))),
            Unary::ToLower => Ok(Value::String(functions::to_lower(text, arena))),
            Unary::Ip => functions::ip(text, arena).map(Value::Bytes),
            Unary::Timestamp => functions::timestamp(text, arena).map(Value::Timestamp),
            Unary::DnsName => functions::dns_name(text, arena).map(Value::String),
            Unary::Email => functions::email(text, arena).map(Value::String),
            Unary::Uri => functions::uri(text, arena).map(Value::String),
        }
    }
}
