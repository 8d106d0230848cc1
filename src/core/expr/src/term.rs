//! Syntax tree -> terms: constants, variables and function applications.

use std::fmt::Write;

use super::ast::{NodeId, SyntaxKind, SyntaxTree};
use super::lexer::{Span, TokenKind};
use super::literal::{self, Constant};
use super::others::{is_contains, other_function};
use super::parse::position;
use super::{CompileError, Phase};

/// A term of a [`Terms`] list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TermId(u32);

impl TermId {
    /// The index of the term, also in lists with an element per term.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The operator or function of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callee<'t> {
    /// An operator, by its name in error texts; some have an empty name.
    Operator(&'static str),
    /// A function, by its name in the text.
    Named(&'t str),
}

impl<'t> Callee<'t> {
    /// The name in error texts.
    pub(super) fn name(self) -> &'t str {
        match self {
            Callee::Operator(name) | Callee::Named(name) => name,
        }
    }
}

/// The kind of a term, with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TermKind<'t> {
    Constant(Constant),
    /// The attribute of this name.
    Variable(Box<str>),
    Function {
        callee: Callee<'t>,
        target: Option<TermId>,
        arguments: Vec<TermId>,
    },
}

/// A term with its position in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Term<'t> {
    pub(super) kind: TermKind<'t>,
    pub(super) span: Span,
}

/// The terms of an expression. Arguments precede their function; the last term is the root.
#[derive(Debug)]
pub(super) struct Terms<'t> {
    text: &'t str,
    terms: Vec<Term<'t>>,
}

static MISSING: Term<'static> =
    Term { kind: TermKind::Constant(Constant::Bool(false)), span: Span { start: 0, end: 0 } };

impl<'t> Terms<'t> {
    /// Converts a syntax tree.
    ///
    /// Errors: phase parse; the first rejected construct, left to right and outside in.
    pub(super) fn new(tree: &SyntaxTree<'t>) -> Result<Terms<'t>, CompileError> {
        let mut terms = Terms { text: tree.text(), terms: Vec::new() };
        Converter { tree, terms: &mut terms }.convert(tree.root()).map_err(|error| *error)?;
        Ok(terms)
    }

    /// The outermost term.
    pub(super) fn root(&self) -> TermId {
        TermId(u32::try_from(self.terms.len()).unwrap_or(u32::MAX).saturating_sub(1))
    }

    /// Number of terms.
    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    /// A term of this list.
    pub(super) fn term(&self, id: TermId) -> &Term<'t> {
        self.terms.get(id.index()).unwrap_or(&MISSING)
    }

    /// The text that was parsed.
    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// The left side of a chain of binary operators: the operator terms from the outermost to the innermost, and the
    /// term at the far left.
    pub(super) fn spine(&self, root: TermId) -> (Vec<TermId>, TermId) {
        let mut spine = Vec::new();
        let mut leftmost = root;
        while let TermKind::Function { callee: Callee::Operator(name), arguments, .. } =
            &self.term(leftmost).kind
            && *name != "INDEX"
            && let [left, _] = arguments.as_slice()
        {
            spine.push(leftmost);
            leftmost = *left;
        }
        (spine, leftmost)
    }

    /// The form of a term in error texts: `NAME(arg, arg)`, `target:NAME(arg)`, `$variable`, or the literal.
    pub(super) fn render(&self, id: TermId) -> String {
        let mut out = String::new();
        self.render_into(id, &mut out);
        out
    }

    fn render_into(&self, id: TermId, out: &mut String) {
        let (spine, leftmost) = self.spine(id);
        for term in &spine {
            if let TermKind::Function { callee, .. } = &self.term(*term).kind {
                let _ = write!(out, "{}(", callee.name());
            }
        }
        self.render_leaf(leftmost, out);
        for term in spine.iter().rev() {
            if let TermKind::Function { arguments, .. } = &self.term(*term).kind {
                for right in arguments.iter().skip(1) {
                    out.push_str(", ");
                    self.render_into(*right, out);
                }
                out.push(')');
            }
        }
    }

    fn render_leaf(&self, id: TermId, out: &mut String) {
        let term = self.term(id);
        match &term.kind {
            TermKind::Constant(Constant::Bool(value)) => {
                let _ = write!(out, "{value}");
            }
            TermKind::Constant(_) => out.push_str(term.span.of(self.text)),
            TermKind::Variable(name) => {
                let _ = write!(out, "${name}");
            }
            TermKind::Function { callee, target, arguments } => {
                if let Some(target) = target {
                    self.render_into(*target, out);
                    out.push(':');
                }
                let _ = write!(out, "{}(", callee.name());
                for (i, argument) in arguments.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    self.render_into(*argument, out);
                }
                out.push(')');
            }
        }
    }

    fn push(&mut self, kind: TermKind<'t>, span: Span) -> TermId {
        self.terms.push(Term { kind, span });
        self.root()
    }
}

/// The operators with a name in error texts.
const OPERATORS: [(&str, &str); 17] = [
    ("==", "EQ"),
    ("!=", "NEQ"),
    ("<", "LT"),
    ("<=", "LEQ"),
    (">", "GT"),
    (">=", "GEQ"),
    ("||", "LOR"),
    ("&&", "LAND"),
    ("|", "OR"),
    ("+", "ADD"),
    ("-", "SUB"),
    ("*", "MUL"),
    ("/", "QUO"),
    ("%", "REM"),
    ("&", "AND"),
    ("^", "XOR"),
    ("!", "NOT"),
];

/// The name of an operator in error texts; empty for those without a name.
fn binary_name(operator: &str) -> &'static str {
    OPERATORS.iter().find(|(text, _)| *text == operator).map_or("", |(_, name)| name)
}

/// The operator with this name in error texts, as written; empty for those without a name.
pub(super) fn operator_text(name: &str) -> &'static str {
    OPERATORS.iter().find(|(_, known)| *known == name).map_or("", |(text, _)| text)
}

struct Converter<'c, 't> {
    tree: &'c SyntaxTree<'t>,
    terms: &'c mut Terms<'t>,
}

/// Boxed to keep the frames of recursive functions small.
type Converted<T> = Result<T, Box<CompileError>>;

impl<'t> Converter<'_, 't> {
    fn convert(&mut self, id: NodeId) -> Converted<TermId> {
        let mut chain = Vec::new();
        let mut leftmost = id;
        loop {
            match self.tree.node(leftmost).kind {
                SyntaxKind::Parenthesized(operand) => leftmost = operand,
                SyntaxKind::Binary { left, .. } => {
                    chain.push(leftmost);
                    leftmost = left;
                }
                _ => break,
            }
        }
        let mut left = self.convert_operand(leftmost)?;
        while let Some(id) = chain.pop() {
            left = self.convert_binary(id, left)?;
        }
        Ok(left)
    }

    fn convert_binary(&mut self, id: NodeId, left: TermId) -> Converted<TermId> {
        let node = self.tree.node(id);
        let SyntaxKind::Binary { operator, right, .. } = node.kind else { return self.convert(id) };
        let arguments = vec![left, self.convert(right)?];
        let callee = Callee::Operator(binary_name(operator.of(self.tree.text())));
        Ok(self.terms.push(TermKind::Function { callee, target: None, arguments }, node.span))
    }

    /// Converts a node that is neither parenthesized nor a binary operation.
    fn convert_operand(&mut self, id: NodeId) -> Converted<TermId> {
        let tree = self.tree;
        match &tree.node(id).kind {
            SyntaxKind::Unary { operator, operand } => {
                let name = binary_name(operator.of(tree.text()));
                self.apply(id, Callee::Operator(name), &[*operand])
            }
            SyntaxKind::Index { operand, key } => {
                self.apply(id, Callee::Operator("INDEX"), &[*operand, *key])
            }
            SyntaxKind::Call { function, arguments } => self.call(id, *function, arguments),
            _ => self.convert_leaf(id),
        }
    }

    fn convert_leaf(&mut self, id: NodeId) -> Converted<TermId> {
        let node = self.tree.node(id);
        let kind = match &node.kind {
            SyntaxKind::Literal(kind) => TermKind::Constant(self.literal(*kind, node.span)?),
            SyntaxKind::Identifier => self.identifier(node.span),
            SyntaxKind::Foreign(what) => return Err(self.rejected(id, what)),
            _ => match self.dotted_name(id) {
                Some(name) => TermKind::Variable(name.into()),
                None => return Err(self.selection_rejected(id)),
            },
        };
        Ok(self.terms.push(kind, node.span))
    }

    fn apply(&mut self, id: NodeId, callee: Callee<'t>, operands: &[NodeId]) -> Converted<TermId> {
        let mut arguments = Vec::with_capacity(operands.len());
        for operand in operands {
            arguments.push(self.convert(*operand)?);
        }
        let kind = TermKind::Function { callee, target: None, arguments };
        Ok(self.terms.push(kind, self.tree.node(id).span))
    }

    fn literal(&self, kind: TokenKind, span: Span) -> Converted<Constant> {
        literal::constant(kind, span.of(self.tree.text())).map_err(|message| {
            Box::new(CompileError {
                position: position(self.tree.text(), span.start),
                hint: (kind == TokenKind::Integer).then(|| "write a decimal number below 2^63".into()),
                ..CompileError::new(Phase::Parse, message)
            })
        })
    }

    fn identifier(&self, span: Span) -> TermKind<'t> {
        let name = span.of(self.tree.text());
        if name.eq_ignore_ascii_case("true") {
            TermKind::Constant(Constant::Bool(true))
        } else if name.eq_ignore_ascii_case("false") {
            TermKind::Constant(Constant::Bool(false))
        } else {
            TermKind::Variable(name.into())
        }
    }

    fn call(&mut self, id: NodeId, function: NodeId, operands: &[NodeId]) -> Converted<TermId> {
        let (name, target) = match self.tree.node(function).kind {
            SyntaxKind::Identifier => (self.tree.source(function), None),
            SyntaxKind::Select { operand, name } => {
                let name = name.of(self.tree.text());
                let target =
                    self.target(operand).map_err(|error| self.in_place_of(error, name, operand, operands))?;
                (name, Some(target))
            }
            SyntaxKind::Foreign(what) => return Err(self.rejected(function, what)),
            _ => return Err(self.rejected(id, "call of something that is not a function name")),
        };
        let mut arguments = Vec::with_capacity(operands.len());
        for operand in operands {
            arguments.push(self.convert(*operand)?);
        }
        let kind = TermKind::Function { callee: Callee::Named(name), target, arguments };
        Ok(self.terms.push(kind, self.tree.node(id).span))
    }

    /// The receiver of a method call.
    fn target(&mut self, id: NodeId) -> Converted<TermId> {
        match &self.tree.node(id).kind {
            SyntaxKind::Call { .. } | SyntaxKind::Literal(_) | SyntaxKind::Parenthesized(_) => {
                self.convert(id)
            }
            SyntaxKind::Identifier | SyntaxKind::Select { .. } => self.named_target(id),
            SyntaxKind::Foreign(what) => Err(self.rejected(id, what)),
            _ => Err(self.method_rejected(id)),
        }
    }

    /// A chain of identifiers is an attribute, even if it is `true`.
    fn named_target(&mut self, id: NodeId) -> Converted<TermId> {
        match self.dotted_name(id) {
            Some(name) => Ok(self.terms.push(TermKind::Variable(name.into()), self.tree.node(id).span)),
            None => Err(self.selection_rejected(id)),
        }
    }

    /// The dotted name of a chain of selections from an identifier.
    fn dotted_name(&self, id: NodeId) -> Option<String> {
        let mut segments = Vec::new();
        let mut node = self.tree.node(id);
        while let SyntaxKind::Select { operand, name } = node.kind {
            segments.push(name.of(self.tree.text()));
            node = self.tree.node(operand);
        }
        if node.kind != SyntaxKind::Identifier {
            return None;
        }
        segments.push(node.span.of(self.tree.text()));
        segments.reverse();
        Some(segments.join("."))
    }

    fn selection_rejected(&self, id: NodeId) -> Box<CompileError> {
        let mut base = id;
        while let SyntaxKind::Select { operand, .. } = self.tree.node(base).kind {
            base = operand;
        }
        match self.tree.node(base).kind {
            SyntaxKind::Foreign(what) => self.rejected(base, what),
            SyntaxKind::Index { .. } => {
                let mut error = self.method_rejected(base);
                if let SyntaxKind::Select { name, .. } = self.tree.node(id).kind {
                    error.hint = match name.of(self.tree.text()) {
                        "length" | "size" | "len" => Some(format!("write size({})", self.tree.source(base))),
                        _ => Some("an entry of a map is a text, which has no parts".to_owned()),
                    };
                }
                error
            }
            _ => self.rejected(id, "selection on something that is not a name"),
        }
    }

    /// The error of what a method is called on, with what to write instead of a method that other languages have.
    fn in_place_of(
        &self,
        mut error: Box<CompileError>,
        method: &str,
        operand: NodeId,
        arguments: &[NodeId],
    ) -> Box<CompileError> {
        if !matches!(self.tree.node(operand).kind, SyntaxKind::Index { .. }) {
            return error;
        }
        if let ([argument], true) = (arguments, is_contains(method)) {
            let (text, value) = (self.tree.source(*argument), self.tree.source(operand));
            error.hint = Some(format!("write {text}.matches({value})"));
        } else if let Some(hint) = other_function(method) {
            error.hint = Some(hint.to_owned());
        }
        error
    }

    /// A method on an index expression, which needs parentheses.
    fn method_rejected(&self, id: NodeId) -> Box<CompileError> {
        let mut error = self.rejected(id, "selection on an index or operator expression");
        error.hint = Some(format!("write ({}) in parentheses before the dot", self.tree.source(id)));
        error
    }

    fn rejected(&self, id: NodeId, what: &str) -> Box<CompileError> {
        let node = self.tree.node(id);
        Box::new(CompileError {
            position: position(self.tree.text(), node.span.start),
            ..CompileError::new(
                Phase::Parse,
                format!("unexpected expression: {what} `{}`", node.span.of(self.tree.text())),
            )
        })
    }
}
