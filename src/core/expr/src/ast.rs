//! Syntax trees of classic expressions.

use super::lexer::{Span, TokenKind};

/// A node of a [`SyntaxTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(u32);

/// The kind of a node, with its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SyntaxKind {
    /// A literal; its text is the span.
    Literal(TokenKind),
    /// One identifier; its name is the span.
    Identifier,
    /// `( operand )`.
    Parenthesized(NodeId),
    /// `operator operand`; never `*`.
    Unary { operator: Span, operand: NodeId },
    /// `left operator right`.
    Binary { operator: Span, left: NodeId, right: NodeId },
    /// `operand . name`.
    Select { operand: NodeId, name: Span },
    /// `operand [ key ]`.
    Index { operand: NodeId, key: NodeId },
    /// `function ( arguments )`.
    Call { function: NodeId, arguments: Vec<NodeId> },
    /// A construct of Go that this language lacks, by name.
    Foreign(&'static str),
}

/// A node with its position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxNode {
    pub(super) kind: SyntaxKind,
    pub(super) span: Span,
    /// The nesting below this node. The left operand of a binary operator does not count: every pass iterates over the left
    /// side, so that a chain of any length is as deep as its deepest operand.
    pub(super) depth: u32,
}

/// A syntax tree. Children precede their parents; the last node is the root.
#[derive(Debug)]
pub(super) struct SyntaxTree<'t> {
    text: &'t str,
    nodes: Vec<SyntaxNode>,
}

static MISSING: SyntaxNode =
    SyntaxNode { kind: SyntaxKind::Foreign("nothing"), span: Span { start: 0, end: 0 }, depth: 0 };

impl<'t> SyntaxTree<'t> {
    /// A tree without nodes.
    pub(super) fn new(text: &'t str) -> Self {
        SyntaxTree { text, nodes: Vec::new() }
    }

    /// The parsed text.
    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// The outermost node.
    pub(super) fn root(&self) -> NodeId {
        NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX).saturating_sub(1))
    }

    /// A node of this tree.
    pub(super) fn node(&self, id: NodeId) -> &SyntaxNode {
        self.nodes.get(id.0 as usize).unwrap_or(&MISSING)
    }

    /// The source text of a node.
    pub(super) fn source(&self, id: NodeId) -> &'t str {
        self.node(id).span.of(self.text)
    }

    /// Adds a node after its children.
    pub(super) fn push(&mut self, kind: SyntaxKind, span: Span) -> NodeId {
        let below = |id: NodeId| self.node(id).depth + 1;
        let depth = match &kind {
            SyntaxKind::Literal(_) | SyntaxKind::Identifier | SyntaxKind::Foreign(_) => 0,
            SyntaxKind::Parenthesized(operand)
            | SyntaxKind::Unary { operand, .. }
            | SyntaxKind::Select { operand, .. } => below(*operand),
            SyntaxKind::Binary { left, right, .. } => self.node(*left).depth.max(below(*right)),
            SyntaxKind::Index { operand, key } => below(*operand).max(below(*key)),
            SyntaxKind::Call { function, arguments } => {
                arguments.iter().map(|a| below(*a)).fold(below(*function), u32::max)
            }
        };
        self.nodes.push(SyntaxNode { kind, span, depth });
        self.root()
    }
}
