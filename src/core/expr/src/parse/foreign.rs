//! Go expressions that this language lacks, parsed only to name them in errors.

use super::{Parsed, Parser};
use crate::ast::{NodeId, SyntaxKind};
use crate::lexer::{Span, SyntaxError, TokenKind};

impl Parser<'_> {
    /// An operand that starts with a keyword or an operator: a type, or a function literal.
    pub(super) fn foreign_operand(&mut self) -> Parsed<NodeId> {
        let token = self.token;
        let what = match token.span.of(self.text) {
            "[" => "array type",
            "struct" => "struct type",
            "map" => "map type",
            "chan" => "channel type",
            "interface" => "interface type",
            "func" => "function",
            _ => {
                let mut error = self.expected("operand");
                error.hint = self.operand_hint().map(Into::into);
                return Err(error);
            }
        };
        let mut span = self.foreign_type()?;
        if what == "function" && self.at("{") {
            span = span.to(self.balanced()?);
        }
        Ok(self.tree.push(SyntaxKind::Foreign(what), span))
    }

    /// `T{...}` where T may be a type.
    pub(super) fn composite(&mut self, operand: NodeId) -> Parsed<NodeId> {
        let span = self.tree.node(operand).span.to(self.balanced()?);
        Ok(self.tree.push(SyntaxKind::Foreign("composite literal"), span))
    }

    /// Whether `{` after this operand starts a composite literal.
    pub(super) fn is_type_like(&self, operand: NodeId) -> bool {
        match &self.tree.node(operand).kind {
            SyntaxKind::Identifier | SyntaxKind::Index { .. } | SyntaxKind::Foreign(_) => true,
            SyntaxKind::Select { operand, .. } => {
                matches!(self.tree.node(*operand).kind, SyntaxKind::Identifier)
            }
            _ => false,
        }
    }

    /// `x.(T)`, at the open parenthesis.
    pub(super) fn type_assertion(&mut self, operand: NodeId) -> Parsed<NodeId> {
        self.advance()?;
        if self.token.span.of(self.text) == "type" && self.token.kind == TokenKind::Keyword {
            let error = SyntaxError::new(self.token.span.start, "use of .(type) outside type switch");
            return Err(error);
        }
        self.foreign_type()?;
        let close = self.expect("')'", ")")?;
        let span = self.tree.node(operand).span.to(close.span);
        Ok(self.tree.push(SyntaxKind::Foreign("type assertion"), span))
    }

    /// `x[a:b:c]`, at the first colon.
    pub(super) fn slice(&mut self, start: Span) -> Parsed<NodeId> {
        for _ in 0..2 {
            if self.at(":") {
                self.advance()?;
                if !self.at(":") && !self.at("]") {
                    self.expression(1)?;
                }
            }
        }
        let close = self.expect("']'", "]")?;
        Ok(self.tree.push(SyntaxKind::Foreign("slice"), start.to(close.span)))
    }

    /// `x[a, b]`, at the first comma.
    pub(super) fn index_list(&mut self, start: Span) -> Parsed<NodeId> {
        while self.at(",") {
            self.advance()?;
            if !self.at("]") {
                self.expression(1)?;
            }
        }
        let close = self.expect("']'", "]")?;
        Ok(self.tree.push(SyntaxKind::Foreign("index list"), start.to(close.span)))
    }

    /// Skips a type.
    fn foreign_type(&mut self) -> Parsed<Span> {
        self.enter()?;
        let token = self.token;
        let last = match (token.kind, token.span.of(self.text)) {
            (TokenKind::Identifier, _) => self.type_name()?,
            (TokenKind::Operator, "*" | "<-") | (TokenKind::Keyword, "chan") => {
                self.advance()?;
                if self.at("<-") {
                    self.advance()?;
                }
                self.foreign_type()?
            }
            (TokenKind::Operator, "(") => {
                self.advance()?;
                self.foreign_type()?;
                self.expect("')'", ")")?.span
            }
            (TokenKind::Operator, "[") => {
                self.advance()?;
                if self.at("...") {
                    self.advance()?;
                } else if !self.at("]") {
                    self.expression(1)?;
                }
                self.expect("']'", "]")?;
                self.foreign_type()?
            }
            (TokenKind::Keyword, "map") => {
                self.advance()?;
                self.expect("'['", "[")?;
                self.foreign_type()?;
                self.expect("']'", "]")?;
                self.foreign_type()?
            }
            (TokenKind::Keyword, "struct" | "interface") => {
                self.advance()?;
                self.body()?
            }
            (TokenKind::Keyword, "func") => self.function_type()?,
            _ => return Err(self.expected("type")),
        };
        self.depth -= 1;
        Ok(token.span.to(last))
    }

    fn function_type(&mut self) -> Parsed<Span> {
        self.advance()?;
        if !self.at("(") {
            return Err(self.expected("'('"));
        }
        let mut last = self.balanced()?;
        let keyword = self.token.span.of(self.text);
        if self.at("(") {
            last = self.balanced()?;
        } else if matches!(self.token.kind, TokenKind::Identifier)
            || self.at("*")
            || self.at("[")
            || self.at("<-")
            || (self.token.kind == TokenKind::Keyword
                && matches!(keyword, "map" | "struct" | "interface" | "func" | "chan"))
        {
            last = self.foreign_type()?;
        }
        Ok(last)
    }

    fn type_name(&mut self) -> Parsed<Span> {
        let mut last = self.token.span;
        self.advance()?;
        while self.at(".") {
            self.advance()?;
            if self.token.kind != TokenKind::Identifier {
                return Err(self.expected("'IDENT'"));
            }
            last = self.token.span;
            self.advance()?;
        }
        Ok(last)
    }

    fn body(&mut self) -> Parsed<Span> {
        if !self.at("{") {
            return Err(self.expected("'{'"));
        }
        self.balanced()
    }

    /// Skips from an open bracket to its closing bracket.
    fn balanced(&mut self) -> Parsed<Span> {
        let mut open: usize = 0;
        loop {
            match self.operator() {
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" => open -= 1,
                _ if self.token.kind == TokenKind::End => return Err(self.expected("'}'")),
                _ => {}
            }
            let span = self.token.span;
            self.advance()?;
            if open == 0 {
                return Ok(span);
            }
        }
    }
}
