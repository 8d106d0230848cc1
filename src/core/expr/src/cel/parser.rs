//! CEL tokens to tree: precedence climbing, expanding macros.

use super::ast::{Ast, Literal, NodeId, NodeKind};
use super::lexer::{Token, TokenKind, has_impossible_escape, unquote};
use super::source::Problem;

/// Maximum nesting of brackets.
const MAX_NESTING: u16 = 600;

const START_OF_OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                                STRING, BYTES, IDENTIFIER}";

/// Errors are boxed to keep the frames of recursive functions small.
pub(super) type Parsed<T> = Result<T, Box<Problem>>;

/// Parses a whole expression and returns its tree and root.
pub(super) fn parse(tokens: &[Token<'_>]) -> Parsed<(Ast, NodeId)> {
    let mut parser = Parser { tokens, next: 0, nesting: 0, ast: Ast::default() };
    let root = parser.expression()?;
    match parser.peek() {
        TokenKind::End => Ok((parser.ast, root)),
        other => {
            let text = format!("Syntax error: extraneous input '{}' expecting <EOF>", other.text());
            Err(parser.problem(text))
        }
    }
}

pub(super) struct Parser<'p> {
    tokens: &'p [Token<'p>],
    next: usize,
    nesting: u16,
    pub(super) ast: Ast,
}

/// Binary operators by precedence, loosest first.
const LEVELS: [&[&str]; 5] =
    [&["||"], &["&&"], &["<", "<=", ">=", ">", "==", "!=", "in"], &["+", "-"], &["*", "/", "%"]];

/// The function name of an operator.
fn operator_function(operator: &str) -> &'static str {
    match operator {
        "||" => "_||_",
        "&&" => "_&&_",
        "<" => "_<_",
        "<=" => "_<=_",
        ">=" => "_>=_",
        ">" => "_>_",
        "==" => "_==_",
        "!=" => "_!=_",
        "in" => "@in",
        "+" => "_+_",
        "-" => "_-_",
        "*" => "_*_",
        "/" => "_/_",
        _ => "_%_",
    }
}

fn is_number(token: TokenKind<'_>) -> bool {
    matches!(token, TokenKind::Int(_) | TokenKind::Float(_))
}

impl<'p> Parser<'p> {
    fn token(&self) -> Token<'p> {
        let end = Token { kind: TokenKind::End, at: 0 };
        self.tokens.get(self.next).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn peek(&self) -> TokenKind<'p> {
        self.token().kind
    }

    fn is_at(&self, mark: &str) -> bool {
        matches!(self.peek(), TokenKind::Mark(found) if found == mark)
    }

    /// Consumes the next token if it is `mark`; returns its position.
    fn take(&mut self, mark: &str) -> Option<u32> {
        let at = self.token().at;
        self.is_at(mark).then(|| {
            self.next += 1;
            at
        })
    }

    fn expect(&mut self, mark: &str) -> Parsed<u32> {
        match self.take(mark) {
            Some(at) => Ok(at),
            None => {
                let text = format!("Syntax error: missing '{mark}' at '{}'", self.peek().text());
                Err(self.problem(text))
            }
        }
    }

    fn problem(&self, message: String) -> Box<Problem> {
        Box::new(Problem::new(self.token().at, message))
    }

    fn mismatch(&self, expected: &str) -> Box<Problem> {
        self.problem(format!("Syntax error: mismatched input '{}' expecting {expected}", self.peek().text()))
    }

    /// `or ? or : expression`, iterating over the part after the colon.
    fn expression(&mut self) -> Parsed<NodeId> {
        if self.nesting >= MAX_NESTING {
            return Err(self.problem(format!("expression is nested deeper than {MAX_NESTING} brackets")));
        }
        self.nesting += 1;
        let mut branches = Vec::new();
        let mut last = self.binary(0)?;
        while let Some(at) = self.take("?") {
            let chosen = self.binary(0)?;
            self.expect(":")?;
            branches.push((at, last, chosen));
            last = self.binary(0)?;
        }
        for (at, condition, chosen) in branches.into_iter().rev() {
            last = self.call(at, "_?_:_", vec![condition, chosen, last])?;
        }
        self.nesting -= 1;
        Ok(last)
    }

    /// The binary operator at the next token, with its precedence.
    fn operator_ahead(&self) -> Option<(usize, &'static str)> {
        let TokenKind::Mark(mark) = self.peek() else { return None };
        LEVELS.iter().position(|level| level.contains(&mark)).map(|level| (level, mark))
    }

    /// Operands joined by binary operators of at least the precedence `loosest`.
    fn binary(&mut self, loosest: usize) -> Parsed<NodeId> {
        let mut left = self.unary()?;
        while let Some((level, mark)) = self.operator_ahead()
            && level >= loosest
        {
            let function = operator_function(mark);
            let mut chain = Vec::new();
            while let Some((_, again)) = self.operator_ahead()
                && again == mark
            {
                let at = self.token().at;
                self.next += 1;
                chain.push((at, self.binary(level + 1)?));
            }
            left = if level < 2 {
                self.balanced(function, left, &chain)?
            } else {
                self.chained(function, left, chain)?
            };
        }
        Ok(left)
    }

    fn chained(
        &mut self,
        function: &'static str,
        first: NodeId,
        chain: Vec<(u32, NodeId)>,
    ) -> Parsed<NodeId> {
        chain.into_iter().try_fold(first, |left, (at, right)| self.call(at, function, vec![left, right]))
    }

    /// A chain of one logical operator as a balanced tree, which keeps long chains shallow.
    fn balanced(&mut self, function: &'static str, first: NodeId, chain: &[(u32, NodeId)]) -> Parsed<NodeId> {
        let middle = chain.len() / 2;
        let (Some((before, [(at, second), after @ ..])), false) =
            (chain.split_at_checked(middle), chain.is_empty())
        else {
            return Ok(first);
        };
        let left = self.balanced(function, first, before)?;
        let right = self.balanced(function, *second, after)?;
        self.call(*at, function, vec![left, right])
    }

    fn call(&mut self, at: u32, function: &'static str, args: Vec<NodeId>) -> Parsed<NodeId> {
        self.ast.push(NodeKind::Call { function: function.into(), target: None, args }, at)
    }

    /// `!`s or `-`s before a member; an even number of them is dropped.
    fn unary(&mut self) -> Parsed<NodeId> {
        let at = self.token().at;
        let (mark, function) = if self.is_at("!") { ("!", "!_") } else { ("-", "-_") };
        let mut count = 0usize;
        while self.take(mark).is_some() {
            count += 1;
        }
        // A minus before a number is part of the literal.
        let operand = if count == 1 && mark == "-" && is_number(self.peek()) {
            count = 0;
            self.number(Some(at))?
        } else {
            self.primary()?
        };
        let operand = self.members(operand)?;
        if count.is_multiple_of(2) { Ok(operand) } else { self.call(at, function, vec![operand]) }
    }

    /// Selections, calls, indices and message bodies after an operand.
    fn members(&mut self, mut operand: NodeId) -> Parsed<NodeId> {
        loop {
            if let Some(at) = self.take(".") {
                operand = self.select_or_call(operand, at)?;
            } else if let Some(at) = self.take("[") {
                let index = self.expression()?;
                self.expect("]")?;
                operand = self.call(at, "_[_]", vec![operand, index])?;
            } else if let Some(at) = self.take("{") {
                operand = self.message(operand, at)?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn select_or_call(&mut self, operand: NodeId, at: u32) -> Parsed<NodeId> {
        let name = self.identifier()?;
        match self.take("(") {
            Some(open) => {
                let args = self.list(")")?;
                self.call_or_macro(open, name, Some(operand), args)
            }
            None => self.ast.push(NodeKind::Select { operand, field: name.into(), test: false }, at),
        }
    }

    fn identifier(&mut self) -> Parsed<&'p str> {
        match self.peek() {
            TokenKind::Ident(name) => {
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.mismatch("IDENTIFIER")),
        }
    }

    /// Expressions separated by commas, up to and including the closing mark.
    fn list(&mut self, close: &str) -> Parsed<Vec<NodeId>> {
        let mut items = Vec::new();
        while !self.is_at(close) {
            items.push(self.expression()?);
            if self.take(",").is_none() {
                break;
            }
            if self.is_at(close) {
                return Err(self.mismatch(START_OF_OPERAND));
            }
        }
        self.expect(close)?;
        Ok(items)
    }

    fn primary(&mut self) -> Parsed<NodeId> {
        match self.token() {
            Token { kind: TokenKind::Int(_) | TokenKind::Float(_), .. } => self.number(None),
            Token { kind: TokenKind::Mark("-"), at }
                if self.tokens.get(self.next + 1).is_some_and(|t| is_number(t.kind)) =>
            {
                self.next += 1;
                self.number(Some(at))
            }
            Token { kind: TokenKind::Mark("("), .. } => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token { kind: TokenKind::Mark("["), .. } => self.list_literal(),
            Token { kind: TokenKind::Mark("{"), .. } => self.map_literal(),
            Token { kind: TokenKind::Mark(".") | TokenKind::Ident(_), .. } => self.name(),
            token => self.literal(token),
        }
    }

    /// An identifier or global call, with an optional leading dot.
    fn name(&mut self) -> Parsed<NodeId> {
        let at = self.token().at;
        let dot = if self.take(".").is_some() { "." } else { "" };
        let at = if dot.is_empty() { at } else { self.token().at };
        let name = format!("{dot}{}", self.identifier()?);
        match self.take("(") {
            Some(open) => {
                let args = self.list(")")?;
                self.call_or_macro(open, &name, None, args)
            }
            None => self.ast.push(NodeKind::Ident(name.into()), at),
        }
    }

    /// `[a, b]`; a trailing comma is allowed, even in an empty list.
    fn list_literal(&mut self) -> Parsed<NodeId> {
        let at = self.expect("[")?;
        let mut items = Vec::new();
        while !self.is_at("]") && !self.is_at(",") {
            items.push(self.expression()?);
            if self.take(",").is_none() {
                break;
            }
            if self.is_at(",") {
                return Err(self.mismatch(START_OF_OPERAND));
            }
        }
        if items.is_empty() {
            self.take(",");
        }
        self.expect("]")?;
        self.ast.push(NodeKind::List(items), at)
    }

    fn map_literal(&mut self) -> Parsed<NodeId> {
        let at = self.expect("{")?;
        let mut entries = Vec::new();
        while entries.is_empty() && !self.is_at("}") || self.take(",").is_some() {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
        }
        self.expect("}")?;
        self.ast.push(NodeKind::Map(entries), at)
    }

    fn message(&mut self, operand: NodeId, at: u32) -> Parsed<NodeId> {
        let mut fields: Vec<(Box<str>, NodeId)> = Vec::new();
        while fields.is_empty() && !self.is_at("}") || self.take(",").is_some() {
            let field = self.identifier()?;
            self.expect(":")?;
            fields.push((field.into(), self.expression()?));
        }
        self.expect("}")?;
        let Some(name) = self.ast.qualified_name(operand) else {
            return Err(Box::new(Problem::new(self.ast.at(operand), "expected a qualified name")));
        };
        self.ast.push(NodeKind::Message { name: name.into(), fields }, at)
    }

    /// An integer or floating point literal; `minus` is the position of its sign.
    fn number(&mut self, minus: Option<u32>) -> Parsed<NodeId> {
        let token = self.token();
        self.next += 1;
        let at = minus.unwrap_or(token.at);
        let sign = if minus.is_some() { "-" } else { "" };
        let text = format!("{sign}{}", token.kind.text());
        let literal = match token.kind {
            TokenKind::Int(_) => text.parse().map(Literal::Int).map_err(|_| "invalid int literal"),
            _ => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Literal::Double(value)),
                _ => Err("invalid double literal"),
            },
        };
        match literal {
            Ok(literal) => self.ast.push(NodeKind::Literal(literal), at),
            Err(text) => Err(Box::new(Problem::new(at, text))),
        }
    }

    fn literal(&mut self, token: Token<'p>) -> Parsed<NodeId> {
        let rejected = |text: &str| Err(Box::new(Problem::new(token.at, text)));
        let literal = match token.kind {
            TokenKind::Mark("true") => Literal::Bool(true),
            TokenKind::Mark("false") => Literal::Bool(false),
            TokenKind::Mark("null") => Literal::Null,
            TokenKind::Uint(text) => match text.trim_end_matches(['u', 'U']).parse() {
                Ok(value) => Literal::Uint(value),
                Err(_) => return rejected("invalid uint literal"),
            },
            TokenKind::String(text) | TokenKind::Bytes(text) if has_impossible_escape(text) => {
                return rejected("unable to unescape string");
            }
            TokenKind::String(text) => Literal::String(unquote(text).into()),
            TokenKind::Bytes(text) => Literal::Bytes(unquote(text.get(1..).unwrap_or("")).into()),
            _ => return Err(self.mismatch(START_OF_OPERAND)),
        };
        self.next += 1;
        self.ast.push(NodeKind::Literal(literal), token.at)
    }
}
