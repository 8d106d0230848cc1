//! The engine of the classic language: a typed tree over attribute slots, with constants evaluated and patterns compiled.
//!
//! Common forms (`attribute == "text"`, `map["key"] | "default"`, ...) are nodes of their own. Chains of `&&`, `||`, `|`
//! and `+` are flat, so that only nesting uses stack.

mod analysis;
mod choices;
mod compile;
mod conjunct;
mod eval;
mod explain;

use super::analysis::{Conversion, Decided, Operand, Read, SuspiciousCall, TextTest};
use super::failure::Failure;
use super::functions::{Pattern, Regex};
use super::term::Terms;
use super::{CompileError, EvalError, Scope, check, parse};
use mixer_attribute::{AttributeBag, SignedDuration, SlotId, Timestamp, Value, ValueType};

pub use conjunct::Conjunct;
pub(super) use explain::outcome_of;
pub use explain::{Explanation, Outcome};

/// A compiled classic expression.
#[derive(Debug)]
pub(super) struct ClassicProgram {
    root: Expr,
    value_type: ValueType,
    failures: Box<[Failure]>,
    patterns: Box<[Pattern]>,
}

impl ClassicProgram {
    /// Parses, checks and compiles a text.
    pub(super) fn compile(text: &str, scope: &dyn Scope) -> Result<ClassicProgram, CompileError> {
        let tree = parse::parse(text)?;
        let terms = Terms::new(&tree)?;
        let types = check::check(&terms, scope)?;
        let value_type = types.of(terms.root()).value_type;
        let (root, failures, patterns) = compile::compile(&terms, &types)?;
        let (failures, patterns) = (failures.into_list(), patterns.into());
        Ok(ClassicProgram { root, value_type, failures, patterns })
    }

    /// The patterns that it has compiled.
    pub(super) fn patterns(&self) -> Vec<Pattern> {
        self.patterns.to_vec()
    }

    /// What fails for every request, or with one of its constants.
    pub(super) fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The static type of the result.
    pub(super) fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Evaluates over `bag`.
    pub(super) fn eval<'a>(&'a self, bag: &AttributeBag<'a>) -> Result<Value<'a>, EvalError<'a>> {
        self.root.value(bag)
    }

    /// The leading conjuncts, in evaluation order.
    pub(super) fn conjuncts(&self) -> Vec<Conjunct<'_>> {
        conjunct::conjuncts(&self.root)
    }

    /// Every attribute and map key that evaluation may read.
    pub(super) fn reads(&self) -> Vec<Read<'_>> {
        conjunct::reads(&self.root)
    }

    /// The source texts of the operands of the top-level `&&` chain.
    pub(super) fn conjunct_texts<'t>(&self, text: &'t str) -> Vec<&'t str> {
        match &self.root.kind {
            ExprKind::All(list) => list.iter().map(|operand| operand.source(text)).collect(),
            _ => vec![self.root.source(text)],
        }
    }

    /// The first attribute whose absence skips a condition.
    pub(super) fn skipped_without(&self, is_always_there: &dyn Fn(Read<'_>) -> bool) -> Option<Read<'_>> {
        analysis::skipped_without(&self.root, is_always_there)
    }

    /// The first conversion of a text whose failure skips a condition.
    pub(super) fn skipped_by_malformed(&self) -> Option<Conversion<'_>> {
        analysis::skipped_by_malformed(&self.root)
    }

    /// Whether the absence of each of its attributes and the failure of each of its conversions is examined.
    pub(super) fn is_examined(&self) -> bool {
        analysis::is_examined(&self.root)
    }

    /// The attribute or entry that decides the condition alone.
    pub(super) fn decided(&self) -> Option<(Read<'_>, Decided)> {
        analysis::decided(&self.root)
    }

    /// Suspicious calls, each with the offset of its expression.
    pub(super) fn suspicious_calls(&self, text: &str) -> Vec<(usize, SuspiciousCall)> {
        analysis::suspicious_calls(&self.root, text)
    }

    /// The tests of texts with constants.
    pub(super) fn text_tests<'p>(&'p self, text: &'p str) -> Vec<TextTest<'p>> {
        analysis::text_tests(&self.root, text)
    }

    /// What the value is the text of.
    pub(super) fn value_operands(&self) -> Vec<Operand<'_>> {
        analysis::operands(&self.root)
    }

    /// Evaluates and returns the outcome of every part.
    pub(super) fn explain<'a>(&'a self, text: &str, bag: &AttributeBag<'a>) -> Explanation {
        explain::explain(&self.root, text, bag)
    }

    /// Explains every operand of the top-level `&&` chain.
    pub(super) fn explain_operands<'a>(&'a self, text: &str, bag: &AttributeBag<'a>) -> Vec<Explanation> {
        explain::explain_operands(&self.root, text, bag)
    }
}

/// A node with its position in the text.
#[derive(Debug)]
struct Expr {
    kind: ExprKind,
    start: u32,
    end: u32,
}

/// An attribute with its declared type.
#[derive(Debug, Clone, Copy)]
struct Attribute {
    slot: SlotId,
    value_type: ValueType,
}

/// `map["key"]`.
#[derive(Debug)]
struct MapEntry {
    map: Attribute,
    key: Box<[u8]>,
}

/// A value known at compile time.
#[derive(Debug)]
enum Literal {
    Bytes(Box<[u8]>),
    Address([u8; 16]),
    Int64(i64),
    Double(f64),
    Bool(bool),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    EmptyMap,
    /// A call on a constant that fails; the error is returned when it is evaluated.
    Failed(Box<str>),
}

/// A constant pattern of `match`.
#[derive(Debug)]
enum Glob {
    Prefix(Box<[u8]>),
    Suffix(Box<[u8]>),
    Exact(Box<[u8]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How the operands of a comparison are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    Bytes,
    Int64,
    Double,
    Bool,
    Timestamp,
    /// This one and those below support equality only.
    Address,
    DnsName,
    EmailAddress,
    Uri,
}

/// Functions of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unary {
    Size,
    ToLower,
    Ip,
    Timestamp,
    DnsName,
    Email,
    Uri,
}

#[derive(Debug)]
enum ExprKind {
    Literal(Literal),
    Attribute(Attribute),
    AttributeOr {
        attribute: Attribute,
        default: Literal,
    },
    Entry(MapEntry),
    EntryOr {
        entry: MapEntry,
        default: Literal,
    },
    /// map, key
    Index(Box<[Expr; 2]>),
    /// `a | b | c`
    FirstOf(Box<[Expr]>),
    /// `test`, `then`, `otherwise`: one of the last two is evaluated.
    Conditional(Box<[Expr; 3]>),
    /// The same, but all three are evaluated.
    ConditionalString(Box<[Expr; 3]>),
    All(Box<[Expr]>),
    Any(Box<[Expr]>),
    /// `attribute == "text"`, or `!=` if not `expected`.
    AttributeIs {
        attribute: Attribute,
        constant: Box<[u8]>,
        expected: bool,
    },
    /// `map["key"] == "text"`, or `!=` if not `expected`.
    EntryIs {
        entry: MapEntry,
        constant: Box<[u8]>,
        expected: bool,
    },
    Compare {
        comparison: Comparison,
        operands: Operands,
        pair: Box<[Expr; 2]>,
    },
    /// Concatenation.
    Concat(Box<[Expr]>),
    AddInt64(Box<[Expr]>),
    AddDouble(Box<[Expr]>),
    /// `match` with a constant pattern.
    MatchesGlob {
        subject: Box<Expr>,
        glob: Glob,
    },
    /// `match`: subject, pattern.
    Match(Box<[Expr; 2]>),
    /// `matches` with a constant pattern; an invalid one fails when it is evaluated.
    MatchesRegex {
        regex: Box<Result<Regex, String>>,
        subject: Box<Expr>,
    },
    /// `matches`: pattern, subject.
    Matches(Box<[Expr; 2]>),
    StartsWith(Box<[Expr; 2]>),
    EndsWith(Box<[Expr; 2]>),
    Apply {
        function: Unary,
        argument: Box<Expr>,
    },
}

impl Glob {
    fn new(pattern: &[u8]) -> Glob {
        match pattern {
            [prefix @ .., b'*'] => Glob::Prefix(prefix.into()),
            [b'*', suffix @ ..] => Glob::Suffix(suffix.into()),
            _ => Glob::Exact(pattern.into()),
        }
    }

    fn matches(&self, subject: &[u8]) -> bool {
        match self {
            Glob::Prefix(prefix) => subject.starts_with(prefix),
            Glob::Suffix(suffix) => subject.ends_with(suffix),
            Glob::Exact(text) => subject == &**text,
        }
    }
}

impl Expr {
    /// The child nodes, in evaluation order.
    fn children(&self) -> &[Expr] {
        match &self.kind {
            ExprKind::Literal(_)
            | ExprKind::Attribute(_)
            | ExprKind::AttributeOr { .. }
            | ExprKind::Entry(_)
            | ExprKind::EntryOr { .. }
            | ExprKind::AttributeIs { .. }
            | ExprKind::EntryIs { .. } => &[],
            ExprKind::Index(pair)
            | ExprKind::Match(pair)
            | ExprKind::Matches(pair)
            | ExprKind::StartsWith(pair)
            | ExprKind::EndsWith(pair)
            | ExprKind::Compare { pair, .. } => pair.as_slice(),
            ExprKind::Conditional(triple) | ExprKind::ConditionalString(triple) => triple.as_slice(),
            ExprKind::FirstOf(list)
            | ExprKind::All(list)
            | ExprKind::Any(list)
            | ExprKind::Concat(list)
            | ExprKind::AddInt64(list)
            | ExprKind::AddDouble(list) => list,
            ExprKind::MatchesGlob { subject: child, .. }
            | ExprKind::MatchesRegex { subject: child, .. }
            | ExprKind::Apply { argument: child, .. } => std::slice::from_ref(child),
        }
    }

    /// The source text of this node.
    fn source<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }
}
