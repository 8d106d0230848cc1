//! Plans: checked trees compiled to operations over slots.

use rustc_hash::FxHashMap;

use super::ast::{ACCUMULATOR, Ast, Fold, Literal, NodeId, NodeKind, children};
use super::check::Attributes;
use super::types::Type;
use super::value::Val;
use crate::functions::{Pattern, PatternError, Regex};
use crate::{CompileError, Phase, Scope};
use mixer_attribute::{SlotId, ValueType};

/// An operation of a [`Plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OpId(u32);

impl OpId {
    /// Its position in [`Plan::ops`].
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A program: operations that refer to earlier ones only.
#[derive(Debug, Default)]
pub(super) struct Plan {
    ops: Vec<Op>,
    /// For each operation, its offset in the text, in characters.
    at: Vec<u32>,
    /// The constants of lists that a macro goes through, if one is a pattern there; each compiled, or its error.
    listed: FxHashMap<Box<[u8]>, Result<Regex, String>>,
}

impl Plan {
    /// The patterns that it has compiled.
    pub(super) fn patterns(&self) -> Vec<Pattern> {
        let regexes = self.ops.iter().filter_map(|op| match op {
            Op::MatchesConstant(_, regex) => regex.as_ref().ok(),
            _ => None,
        });
        let listed = self.listed.values().filter_map(|regex| regex.as_ref().ok());
        regexes.chain(listed).filter_map(Regex::pattern).collect()
    }

    /// A pattern that was compiled because a list has it: `["a.*", "b.*"].exists(p, text.matches(p))`.
    pub(super) fn listed(&self, pattern: &[u8]) -> Option<&Result<Regex, String>> {
        self.listed.get(pattern)
    }

    /// The constants of the lists that macros go through, if a macro's variable is a pattern.
    fn listed_patterns(&self) -> Vec<Box<[u8]>> {
        let is_variable = |id: &OpId| matches!(self.op(*id), Op::Local(_));
        let is_pattern =
            |op: &Op| matches!(op, Op::Binary(Binary::Matches, _, pattern) if is_variable(pattern));
        if !self.ops.iter().any(is_pattern) {
            return Vec::new();
        }
        let ranges = self.ops.iter().filter_map(|op| match op {
            Op::Fold(fold) => Some(self.op(fold.range)),
            _ => None,
        });
        let items = ranges.filter_map(|range| match range {
            Op::List(items) => Some(items),
            _ => None,
        });
        let texts = items.flatten().filter_map(|item| match self.op(*item) {
            Op::Constant(Constant::String(text)) => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }
}

/// One operation.
#[derive(Debug)]
pub(super) enum Op {
    Constant(Constant),
    /// Reads an attribute; absent ones have the default of their type.
    Attribute(SlotId, ValueType),
    /// Whether an attribute is present.
    Present(SlotId),
    /// An inner node of the attribute names, by path.
    Object(Box<str>),
    /// A variable of a macro, by its index on the stack.
    Local(usize),
    /// A name that cannot be resolved at run time.
    Unknown,
    Select(OpId, Box<str>),
    Has(OpId, Box<str>),
    And(OpId, OpId),
    Or(OpId, OpId),
    Conditional(OpId, OpId, OpId),
    Equal(OpId, OpId),
    NotEqual(OpId, OpId),
    Unary(Unary, OpId),
    Binary(Binary, OpId, OpId),
    /// `subject.matches(constant)`; the pattern or its error.
    MatchesConstant(OpId, Result<Regex, String>),
    EmptyStringMap,
    /// A call of a function without an implementation.
    Unbound(Box<str>, Box<[OpId]>),
    List(Box<[OpId]>),
    Map(Box<[(OpId, OpId)]>),
    Fold(Box<FoldOp>),
}

/// A loop; its accumulator and its variable are on the stack at `base` and `base + 1`.
#[derive(Debug)]
pub(super) struct FoldOp {
    pub(super) base: usize,
    pub(super) range: OpId,
    pub(super) init: OpId,
    pub(super) condition: OpId,
    pub(super) step: OpId,
    pub(super) result: OpId,
}

/// A constant; texts are owned by the program.
#[derive(Debug)]
pub(super) enum Constant {
    Plain(Val<'static>),
    String(Box<[u8]>),
    Bytes(Box<[u8]>),
}

/// Functions of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Negate,
    NotStrictlyFalse,
    Size,
    ToType,
    ToInt,
    ToUint,
    ToDouble,
    ToBool,
    ToString,
    ToBytes,
    ToTimestamp,
    ToDuration,
    Reverse,
    ToLower,
    Email,
    DnsName,
    Uri,
    Ip,
    Time(TimeField),
}

/// Functions of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Index,
    In,
    Match,
    Matches,
    Contains,
    StartsWith,
    EndsWith,
    Time(TimeField),
}

/// A part of a date, of a time of day or of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeField {
    FullYear,
    Month,
    DayOfYear,
    DayOfMonth,
    Date,
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

impl Plan {
    /// An operation of this program.
    pub(super) fn op(&self, id: OpId) -> &Op {
        self.ops.get(id.0 as usize).unwrap_or(&Op::Unknown)
    }

    /// All operations, each after those that it refers to.
    pub(super) fn ops(&self) -> impl Iterator<Item = &Op> {
        self.ops.iter()
    }

    /// Number of operations.
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    /// All operations, each with its offset in the text, in characters.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&Op, u32)> {
        self.ops.iter().zip(self.at.iter().copied())
    }

    fn push(&mut self, op: Op, at: u32) -> OpId {
        let id = OpId(u32::try_from(self.ops.len()).unwrap_or(u32::MAX));
        self.ops.push(op);
        self.at.push(at);
        id
    }
}

/// Compiles a checked tree. Errors: a constant pattern is too large.
pub(super) fn plan(ast: &Ast, root: NodeId, scope: &dyn Scope) -> Result<(Plan, OpId), CompileError> {
    let mut planner = Planner {
        ast,
        scope,
        attributes: Attributes::new(scope),
        plan: Plan::default(),
        locals: Vec::new(),
        block: 0,
        blocks: 0,
        done: FxHashMap::default(),
        too_large: None,
    };
    let root = planner.node(root);
    for pattern in planner.plan.listed_patterns() {
        if !planner.plan.listed.contains_key(&pattern) {
            let regex = planner.constant_pattern(&pattern);
            planner.plan.listed.insert(pattern, regex);
        }
    }
    match planner.too_large {
        None => Ok((planner.plan, root)),
        Some(error) => Err(error),
    }
}

struct Planner<'p> {
    ast: &'p Ast,
    scope: &'p dyn Scope,
    attributes: Attributes<'p>,
    plan: Plan,
    locals: Vec<Box<str>>,
    block: u32,
    blocks: u32,
    /// The operations of nodes by block, because macros use nodes several times.
    done: FxHashMap<(NodeId, u32), OpId>,
    /// The first pattern that is too large.
    too_large: Option<CompileError>,
}

impl Planner<'_> {
    /// Compiles a node after all nodes below it in the same block, in a loop.
    fn node(&mut self, id: NodeId) -> OpId {
        let mut pending = vec![(id, false)];
        while let Some((node, is_ready)) = pending.pop() {
            if self.done.contains_key(&(node, self.block)) {
                continue;
            }
            if is_ready {
                let op = self.operation(node);
                let op = self.plan.push(op, self.ast.at(node));
                self.done.insert((node, self.block), op);
            } else {
                pending.push((node, true));
                pending.extend(children(&self.ast.node(node).kind).into_iter().map(|child| (child, false)));
            }
        }
        self.planned(id)
    }

    /// The operation of a node in this block.
    fn planned(&self, id: NodeId) -> OpId {
        self.done.get(&(id, self.block)).copied().unwrap_or(OpId(u32::MAX))
    }

    fn nodes(&self, ids: &[NodeId]) -> Box<[OpId]> {
        ids.iter().map(|id| self.planned(*id)).collect()
    }

    fn operation(&mut self, id: NodeId) -> Op {
        let ast = self.ast;
        match &ast.node(id).kind {
            NodeKind::Literal(literal) => Op::Constant(constant(literal)),
            NodeKind::Ident(name) => self.ident(name),
            NodeKind::Select { operand, field, test } => self.select(*operand, field, *test),
            NodeKind::Call { function, target, args } => {
                let args: Vec<NodeId> = target.iter().chain(args).copied().collect();
                self.call(function, &args)
            }
            NodeKind::List(items) => Op::List(self.nodes(items)),
            NodeKind::Map(entries) => Op::Map(
                entries.iter().map(|(key, value)| (self.planned(*key), self.planned(*value))).collect(),
            ),
            NodeKind::Message { .. } => Op::Unknown,
            NodeKind::Fold(fold) => self.fold(fold),
        }
    }

    fn ident(&self, name: &str) -> Op {
        if let Some(index) = self.locals.iter().rposition(|local| **local == *name) {
            return Op::Local(index);
        }
        if let Some(op) = self.attribute(name) {
            return op;
        }
        let type_name = match name {
            "int" | "uint" | "bool" | "double" | "bytes" | "string" | "list" | "map" | "null_type"
            | "type" => TYPE_NAMES.into_iter().find(|known| *known == name),
            _ => None,
        };
        match type_name {
            Some(name) => Op::Constant(Constant::Plain(Val::Type(name))),
            None => Op::Unknown,
        }
    }

    /// The operation that reads the attribute or object at a path.
    fn attribute(&self, path: &str) -> Option<Op> {
        if let Some((slot, value_type)) = self.scope.attribute(path) {
            return Some(Op::Attribute(slot, value_type));
        }
        matches!(self.attributes.at(path), Some(Type::Object(_))).then(|| Op::Object(path.into()))
    }

    fn select(&self, operand: NodeId, field: &str, test: bool) -> Op {
        let operand = self.planned(operand);
        if let Op::Object(path) = self.plan.op(operand) {
            let found = self.attribute(&format!("{path}.{field}"));
            match (found, test) {
                (Some(Op::Attribute(slot, _)), true) => return Op::Present(slot),
                (Some(_), true) => return Op::Constant(Constant::Plain(Val::Bool(true))),
                (Some(op), false) => return op,
                (None, _) => {}
            }
        }
        if test { Op::Has(operand, field.into()) } else { Op::Select(operand, field.into()) }
    }

    fn call(&mut self, function: &str, args: &[NodeId]) -> Op {
        if let ("matches", [subject, pattern]) = (function, args)
            && let NodeKind::Literal(Literal::String(pattern)) = &self.ast.node(*pattern).kind
        {
            let regex = self.constant_pattern(pattern);
            return Op::MatchesConstant(self.planned(*subject), regex);
        }
        let args = self.nodes(args);
        match (function, &*args) {
            ("emptyStringMap", []) => Op::EmptyStringMap,
            ("_&&_", [left, right]) => Op::And(*left, *right),
            ("_||_", [left, right]) => Op::Or(*left, *right),
            ("_==_", [left, right]) => Op::Equal(*left, *right),
            ("_!=_", [left, right]) => Op::NotEqual(*left, *right),
            ("_?_:_", [condition, yes, no]) => Op::Conditional(*condition, *yes, *no),
            (_, [operand]) if let Some(unary) = unary(function) => Op::Unary(unary, *operand),
            (_, [left, right]) if let Some(binary) = binary(function) => Op::Binary(binary, *left, *right),
            _ => Op::Unbound(function.into(), args),
        }
    }

    /// Compiles a pattern, unless one was too large: the expression is refused then, and another one may take as long to refuse.
    fn constant_pattern(&mut self, pattern: &[u8]) -> Result<Regex, String> {
        if let Some(refused) = &self.too_large {
            return Err(refused.message.clone());
        }
        Regex::configured(pattern).map_err(|error| {
            let (text, over_budget) = match error {
                PatternError::Invalid(text) => return text,
                PatternError::TooLarge(text) => (text, false),
                PatternError::OverBudget(text) => (text, true),
            };
            let error = CompileError::new(Phase::Static, text.clone());
            self.too_large = Some(CompileError { over_budget, ..error });
            text
        })
    }

    fn fold(&mut self, fold: &Fold) -> Op {
        let range = self.planned(fold.range);
        let init = self.planned(fold.init);
        let base = self.locals.len();
        let outer = self.block;
        self.enter_block();
        self.locals.push(ACCUMULATOR.into());
        self.locals.push(fold.variable.clone());
        let condition = self.node(fold.condition);
        let step = self.node(fold.step);
        self.locals.pop();
        self.enter_block();
        let result = self.node(fold.result);
        self.locals.pop();
        self.block = outer;
        Op::Fold(Box::new(FoldOp { base, range, init, condition, step, result }))
    }

    fn enter_block(&mut self) {
        self.blocks += 1;
        self.block = self.blocks;
    }
}

const TYPE_NAMES: [&str; 10] =
    ["int", "uint", "bool", "double", "bytes", "string", "list", "map", "null_type", "type"];

fn constant(literal: &Literal) -> Constant {
    match literal {
        Literal::Null => Constant::Plain(Val::Null),
        Literal::Bool(value) => Constant::Plain(Val::Bool(*value)),
        Literal::Int(value) => Constant::Plain(Val::Int(*value)),
        Literal::Uint(value) => Constant::Plain(Val::Uint(*value)),
        Literal::Double(value) => Constant::Plain(Val::Double(*value)),
        Literal::String(text) => Constant::String(text.clone()),
        Literal::Bytes(bytes) => Constant::Bytes(bytes.clone()),
    }
}

fn unary(function: &str) -> Option<Unary> {
    Some(match function {
        "!_" | "-_" => Unary::Negate,
        "@not_strictly_false" => Unary::NotStrictlyFalse,
        "size" => Unary::Size,
        "type" => Unary::ToType,
        "int" => Unary::ToInt,
        "uint" => Unary::ToUint,
        "double" => Unary::ToDouble,
        "bool" => Unary::ToBool,
        "string" => Unary::ToString,
        "bytes" => Unary::ToBytes,
        "timestamp" => Unary::ToTimestamp,
        "duration" => Unary::ToDuration,
        "reverse" => Unary::Reverse,
        "toLower" => Unary::ToLower,
        "email" => Unary::Email,
        "dnsName" => Unary::DnsName,
        "uri" => Unary::Uri,
        "ip" => Unary::Ip,
        _ => Unary::Time(time_field(function)?),
    })
}

fn binary(function: &str) -> Option<Binary> {
    Some(match function {
        "_<_" => Binary::Less,
        "_<=_" => Binary::LessOrEqual,
        "_>_" => Binary::Greater,
        "_>=_" => Binary::GreaterOrEqual,
        "_+_" => Binary::Add,
        "_-_" => Binary::Subtract,
        "_*_" => Binary::Multiply,
        "_/_" => Binary::Divide,
        "_%_" => Binary::Modulo,
        "_[_]" => Binary::Index,
        "@in" => Binary::In,
        "match" => Binary::Match,
        "matches" => Binary::Matches,
        "contains" => Binary::Contains,
        "startsWith" => Binary::StartsWith,
        "endsWith" => Binary::EndsWith,
        _ => Binary::Time(time_field(function)?),
    })
}

fn time_field(function: &str) -> Option<TimeField> {
    Some(match function {
        "getFullYear" => TimeField::FullYear,
        "getMonth" => TimeField::Month,
        "getDayOfYear" => TimeField::DayOfYear,
        "getDayOfMonth" => TimeField::DayOfMonth,
        "getDate" => TimeField::Date,
        "getDayOfWeek" => TimeField::DayOfWeek,
        "getHours" => TimeField::Hours,
        "getMinutes" => TimeField::Minutes,
        "getSeconds" => TimeField::Seconds,
        "getMilliseconds" => TimeField::Milliseconds,
        _ => return None,
    })
}
