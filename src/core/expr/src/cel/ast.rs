//! The tree of a CEL expression, after macros.

use std::borrow::Cow;

use super::source::Problem;

/// How deep a tree may be, which is how deep evaluation recurses; keeps it within the stack of a worker thread.
pub(super) const MAX_DEPTH: u16 = 700;

/// How deep macros that loop may be nested.
const MAX_FOLDS: u16 = 30;

/// A node of an [`Ast`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(u32);

/// All nodes of an expression; children come before their parents. Macros make nodes with several parents.
#[derive(Debug, Default)]
pub(super) struct Ast {
    nodes: Vec<Node>,
    depths: Vec<Depth>,
}

/// How much lies below a node. Chains of operators count as deep as their deepest operand, because they are evaluated in
/// a loop; so do the last branches of `?:`.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    nodes: u16,
    folds: u16,
}

/// A node and the place that errors about it point to, in characters.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) at: u32,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum NodeKind {
    Literal(Literal),
    /// A name, with a leading dot if it was written so.
    Ident(Box<str>),
    /// `operand.field`, or its presence when `test`.
    Select {
        operand: NodeId,
        field: Box<str>,
        test: bool,
    },
    /// A function or operator.
    Call {
        function: Cow<'static, str>,
        target: Option<NodeId>,
        args: Vec<NodeId>,
    },
    List(Vec<NodeId>),
    Map(Vec<(NodeId, NodeId)>),
    /// `name{field: value}`.
    Message {
        name: Box<str>,
        fields: Vec<(Box<str>, NodeId)>,
    },
    /// A loop that a macro made.
    Fold(Fold),
}

/// `accumulator = init; for variable in range while condition { accumulator = step }; result`.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) variable: Box<str>,
    pub(super) range: NodeId,
    pub(super) init: NodeId,
    pub(super) condition: NodeId,
    pub(super) step: NodeId,
    pub(super) result: NodeId,
}

/// The name of every fold's accumulator.
pub(super) const ACCUMULATOR: &str = "__result__";

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<[u8]>),
    Bytes(Box<[u8]>),
}

impl Ast {
    /// Adds a node. Errors: the tree would be deeper than [`MAX_DEPTH`], or macros nested too deep.
    pub(super) fn push(&mut self, kind: NodeKind, at: u32) -> Result<NodeId, Box<Problem>> {
        let mut depth = 0;
        let mut folds = 0;
        for (child, below) in edges(&kind) {
            let child = self.depths.get(child.index()).copied().unwrap_or_default();
            depth = depth.max(child.nodes.saturating_add(below));
            folds = folds.max(child.folds);
        }
        if let NodeKind::Fold(fold) = &kind {
            let body = [fold.condition, fold.step, fold.result].map(|part| self.depths.get(part.index()));
            folds = folds.max(1 + body.into_iter().flatten().map(|part| part.folds).max().unwrap_or(0));
        }
        if depth > MAX_DEPTH {
            return Err(Box::new(Problem::new(
                at,
                format!("expression is nested deeper than {MAX_DEPTH} levels"),
            )));
        }
        if folds > MAX_FOLDS {
            return Err(Box::new(Problem::new(
                at,
                format!("macros are nested deeper than {MAX_FOLDS} levels"),
            )));
        }
        let id = u32::try_from(self.nodes.len())
            .map_err(|_| Box::new(Problem::new(at, "expression has too many parts")))?;
        self.nodes.push(Node { kind, at });
        self.depths.push(Depth { nodes: depth, folds });
        Ok(NodeId(id))
    }

    /// A node of this tree.
    pub(super) fn node(&self, id: NodeId) -> &Node {
        const NOTHING: &Node = &Node { kind: NodeKind::Literal(Literal::Null), at: 0 };
        self.nodes.get(id.index()).unwrap_or(NOTHING)
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Where errors about a node point to.
    pub(super) fn at(&self, id: NodeId) -> u32 {
        self.node(id).at
    }

    /// The dotted name that a chain of selections from an identifier spells.
    pub(super) fn qualified_name(&self, mut id: NodeId) -> Option<String> {
        let mut fields = Vec::new();
        while let NodeKind::Select { operand, field, .. } = &self.node(id).kind {
            fields.push(&**field);
            id = *operand;
        }
        let NodeKind::Ident(root) = &self.node(id).kind else { return None };
        fields.push(root);
        fields.reverse();
        Some(fields.join("."))
    }
}

impl NodeId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The children of a node in the order in which they are checked, but for those inside of a loop.
pub(super) fn children(kind: &NodeKind) -> Vec<NodeId> {
    match kind {
        NodeKind::Literal(_) | NodeKind::Ident(_) => Vec::new(),
        NodeKind::Select { operand, .. } => vec![*operand],
        NodeKind::Call { target, args, .. } => args.iter().chain(target).copied().collect(),
        NodeKind::List(items) => items.clone(),
        NodeKind::Map(entries) => entries.iter().flat_map(|(key, value)| [*key, *value]).collect(),
        NodeKind::Message { fields, .. } => fields.iter().map(|(_, value)| *value).collect(),
        NodeKind::Fold(fold) => vec![fold.range, fold.init],
    }
}

/// All children of a node, with how much deeper than it evaluation goes for them.
fn edges(kind: &NodeKind) -> Vec<(NodeId, u16)> {
    match kind {
        NodeKind::Call { function, target: None, args } => {
            let flat = match (&**function, args.len()) {
                ("_?_:_", _) => 2,
                ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", 2) => 0,
                _ => usize::MAX,
            };
            args.iter().enumerate().map(|(at, arg)| (*arg, u16::from(at != flat))).collect()
        }
        NodeKind::Fold(fold) => {
            [fold.range, fold.init, fold.condition, fold.step, fold.result].map(|child| (child, 1)).to_vec()
        }
        other => children(other).into_iter().map(|child| (child, 1)).collect(),
    }
}
