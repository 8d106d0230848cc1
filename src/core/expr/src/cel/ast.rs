//! Syntax trees of CEL expressions, with macros expanded.

use std::borrow::Cow;

use super::source::Problem;

/// Maximum depth of a tree. It bounds the recursion of evaluation, which must fit into the stack of a worker.
pub(super) const MAX_DEPTH: u16 = 700;

/// Maximum nesting of macros that loop.
const MAX_FOLDS: u16 = 30;

/// A node of an [`Ast`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(u32);

/// The nodes of an expression; children precede their parents. Macros create nodes with several parents.
#[derive(Debug, Default)]
pub(super) struct Ast {
    nodes: Vec<Node>,
    depths: Vec<Depth>,
    /// Whether a `pick` has arguments behind one that is always present.
    pub(super) has_unused_default: bool,
}

/// The nesting below a node. Chains of operators are as deep as their deepest operand, because they are evaluated in a loop;
/// so are the last branches of `?:`.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    nodes: u16,
    folds: u16,
}

/// A node and its position for errors, in characters.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) at: u32,
}

/// The kind of a node, with its children.
#[derive(Debug)]
pub(super) enum NodeKind {
    Literal(Literal),
    /// A name, with its leading dot, if any.
    Ident(Box<str>),
    /// `operand.field`, or `has(operand.field)` if `test`.
    Select {
        operand: NodeId,
        field: Box<str>,
        test: bool,
    },
    /// A call of a function or operator.
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
    /// A loop of an expanded macro.
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

/// The name of the accumulator of all folds.
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

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The position of a node for errors.
    pub(super) fn at(&self, id: NodeId) -> u32 {
        self.node(id).at
    }

    /// The dotted name of a chain of selections from an identifier.
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

/// The children of a node in the order in which they are checked, except those inside a loop.
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

/// All children of a node, with the recursion depth of evaluating them relative to the node.
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
