//! Text -> syntax tree: a Pratt parser for Go's expressions.
//!
//! Go expressions that this language rejects (slices, type assertions, composite literals, types) are parsed as
//! [`SyntaxKind::Foreign`], so that errors name the construct.

mod foreign;

use super::ast::{NodeId, SyntaxKind, SyntaxTree};
use super::lexer::{Lexer, Span, SyntaxError, Token, TokenKind};
use super::others::NETWORKS;
use super::{CompileError, Phase};

/// Maximum nesting of parentheses, calls, indexes and right operands. It bounds the recursion of all passes, which therefore
/// fit into a 2 MB stack.
const MAX_DEPTH: u32 = 1_050;

/// Parses one expression.
///
/// Errors: phase parse, `unable to parse expression '<text>': <line>:<column>: <what>`.
pub(super) fn parse(text: &str) -> Result<SyntaxTree<'_>, CompileError> {
    if text.len() > u32::MAX as usize {
        return Err(CompileError::new(
            Phase::Parse,
            "unable to parse expression: the text is too long".into(),
        ));
    }
    let start = Token { kind: TokenKind::End, span: Span { start: 0, end: 0 } };
    let mut parser =
        Parser { text, lexer: Lexer::new(text), token: start, tree: SyntaxTree::new(text), depth: 0 };
    match parser.whole() {
        Ok(()) => Ok(parser.tree),
        Err(error) => Err(located(text, *error)),
    }
}

fn located(text: &str, error: SyntaxError) -> CompileError {
    let before = text.get(..error.offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let last_line = before.rsplit('\n').next().unwrap_or("");
    // compat(1.3): the column in the text counts bytes; the position counts characters.
    let message =
        format!("unable to parse expression '{text}': {line}:{}: {}", last_line.len() + 1, error.message);
    CompileError {
        position: position(text, error.offset),
        hint: error.hint,
        ..CompileError::new(Phase::Parse, message)
    }
}

/// Line and column of a byte offset, from 1, columns in characters.
pub(super) fn position(text: &str, offset: usize) -> Option<(u32, u32)> {
    let before = text.get(..offset)?;
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    Some((u32::try_from(line).ok()?, u32::try_from(column).ok()?))
}

/// The precedence of a binary operator, 0 for other tokens.
fn precedence(operator: &str) -> u8 {
    match operator {
        "||" => 1,
        "&&" => 2,
        // A single `=` is parsed as `==` to report it.
        "==" | "!=" | "<" | "<=" | ">" | ">=" | "=" => 3,
        "+" | "-" | "|" | "^" => 4,
        "*" | "/" | "%" | "<<" | ">>" | "&" | "&^" => 5,
        _ => 0,
    }
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    /// The current token.
    token: Token,
    tree: SyntaxTree<'t>,
    depth: u32,
}

type Parsed<T> = Result<T, Box<SyntaxError>>;

impl<'t> Parser<'t> {
    fn whole(&mut self) -> Parsed<()> {
        self.advance()?;
        self.expression(1)?;
        if self.token.kind == TokenKind::Terminator {
            self.advance()?;
        }
        if self.token.kind == TokenKind::End {
            return Ok(());
        }
        let mut error = self.expected("'EOF'");
        error.hint = self.trailing_hint();
        Err(error)
    }

    /// `Unary { operator Unary }` for operators that bind at least as tightly as `min_precedence`.
    fn expression(&mut self, min_precedence: u8) -> Parsed<NodeId> {
        self.enter()?;
        let mut left = self.unary()?;
        loop {
            let operator = self.token;
            let binding = precedence(self.operator());
            if binding < min_precedence || binding == 0 {
                self.depth -= 1;
                return Ok(left);
            }
            if self.at("=") {
                let mut error = self.expected("'=='");
                let rest = self.text.get(self.token.span.start..).unwrap_or_default();
                let is_match = rest.strip_prefix('=').is_some_and(|rest| rest.trim_start().starts_with('~'));
                let before = self.text.get(..self.token.span.start).unwrap_or_default();
                let hint = match is_match {
                    true if before.trim_end().ends_with(".ip") => NETWORKS,
                    true => "write \"pattern\".matches(value)",
                    false => "compare with ==",
                };
                error.hint = Some(hint.into());
                return Err(error);
            }
            self.advance()?;
            let right = self.expression(binding + 1)?;
            let kind = SyntaxKind::Binary { operator: operator.span, left, right };
            let span = self.tree.node(left).span.to(self.tree.node(right).span);
            left = self.add(kind, span)?;
        }
    }

    fn unary(&mut self) -> Parsed<NodeId> {
        let operator = self.token;
        match self.operator() {
            "+" | "-" | "!" | "^" | "&" | "<-" | "~" => {
                self.advance()?;
                self.enter()?;
                let operand = self.unary()?;
                self.depth -= 1;
                let span = operator.span.to(self.tree.node(operand).span);
                let foreign = matches!(self.tree.node(operand).kind, SyntaxKind::Foreign(_));
                match operator.span.of(self.text) {
                    "~" => Err(SyntaxError::new(operator.span.start, "unexpected operator '~'")),
                    "<-" if foreign => Ok(self.tree.push(SyntaxKind::Foreign("channel type"), span)),
                    _ => self.add(SyntaxKind::Unary { operator: operator.span, operand }, span),
                }
            }
            "*" => {
                self.advance()?;
                self.enter()?;
                let operand = self.unary()?;
                self.depth -= 1;
                let span = operator.span.to(self.tree.node(operand).span);
                Ok(self.tree.push(SyntaxKind::Foreign("pointer indirection"), span))
            }
            _ => self.primary(),
        }
    }

    fn primary(&mut self) -> Parsed<NodeId> {
        let mut operand = self.operand()?;
        loop {
            operand = match self.operator() {
                "." => self.selector(operand)?,
                "[" => self.index(operand)?,
                "(" => self.call(operand)?,
                "{" if self.is_type_like(operand) => self.composite(operand)?,
                _ => return Ok(operand),
            };
        }
    }

    fn operand(&mut self) -> Parsed<NodeId> {
        let token = self.token;
        match token.kind {
            TokenKind::Identifier => {
                self.advance()?;
                Ok(self.tree.push(SyntaxKind::Identifier, token.span))
            }
            TokenKind::Integer
            | TokenKind::Float
            | TokenKind::Imaginary
            | TokenKind::Character
            | TokenKind::String => {
                self.advance()?;
                Ok(self.tree.push(SyntaxKind::Literal(token.kind), token.span))
            }
            TokenKind::Operator if self.at("(") => {
                self.advance()?;
                let operand = self.expression(1)?;
                let close = self.expect("')'", ")")?;
                self.add(SyntaxKind::Parenthesized(operand), token.span.to(close.span))
            }
            TokenKind::Operator | TokenKind::Keyword => self.foreign_operand(),
            TokenKind::End | TokenKind::Terminator => {
                let mut error = self.expected("operand");
                error.hint = self.operand_hint().map(Into::into);
                Err(error)
            }
        }
    }

    fn selector(&mut self, operand: NodeId) -> Parsed<NodeId> {
        self.advance()?;
        let name = self.token;
        if self.at("(") {
            return self.type_assertion(operand);
        }
        if name.kind != TokenKind::Identifier {
            let mut error = self.expected("selector or type assertion");
            if name.kind == TokenKind::Keyword {
                error.hint = Some(format!(
                    "`{}` is a keyword and cannot be part of a name; the CEL mode can name this attribute",
                    name.span.of(self.text)
                ));
            }
            return Err(error);
        }
        self.advance()?;
        let span = self.tree.node(operand).span.to(name.span);
        self.add(SyntaxKind::Select { operand, name: name.span }, span)
    }

    fn call(&mut self, function: NodeId) -> Parsed<NodeId> {
        self.advance()?;
        let mut arguments = Vec::new();
        while !self.at(")") && self.token.kind != TokenKind::End {
            arguments.push(self.expression(1)?);
            let spread = self.at("...");
            if spread {
                self.advance()?;
            }
            if self.at(",") {
                self.advance()?;
            } else if !self.at(")") {
                return Err(self.missing_comma("argument list"));
            }
            if spread {
                break;
            }
        }
        let close = self.expect("')'", ")")?;
        let span = self.tree.node(function).span.to(close.span);
        self.add(SyntaxKind::Call { function, arguments }, span)
    }

    fn index(&mut self, operand: NodeId) -> Parsed<NodeId> {
        self.advance()?;
        let start = self.tree.node(operand).span;
        if self.at("]") {
            return Err(self.expected("operand"));
        }
        if self.at(":") {
            return self.slice(start);
        }
        let key = self.expression(1)?;
        if self.at(":") {
            return self.slice(start);
        }
        if self.at(",") {
            return self.index_list(start);
        }
        let close = self.expect("']'", "]")?;
        self.add(SyntaxKind::Index { operand, key }, start.to(close.span))
    }

    fn add(&mut self, kind: SyntaxKind, span: Span) -> Parsed<NodeId> {
        let id = self.tree.push(kind, span);
        if self.tree.node(id).depth > MAX_DEPTH {
            return Err(too_deep(span.start));
        }
        Ok(id)
    }

    /// Enters one level of nesting. Callers leave it only on success, because an error ends parsing.
    fn enter(&mut self) -> Parsed<()> {
        if self.depth >= MAX_DEPTH {
            return Err(too_deep(self.token.span.start));
        }
        self.depth += 1;
        Ok(())
    }

    fn advance(&mut self) -> Parsed<()> {
        self.token = self.lexer.next()?;
        Ok(())
    }

    /// The text of the token if it is an operator or punctuation, else empty.
    fn operator(&self) -> &'t str {
        match self.token.kind {
            TokenKind::Operator => self.token.span.of(self.text),
            _ => "",
        }
    }

    fn at(&self, operator: &str) -> bool {
        self.operator() == operator
    }

    fn expect(&mut self, name: &str, operator: &str) -> Parsed<Token> {
        let token = self.token;
        if !self.at(operator) {
            return Err(self.expected(name));
        }
        self.advance()?;
        Ok(token)
    }

    fn expected(&self, what: &str) -> Box<SyntaxError> {
        let found = self.token.span.of(self.text);
        let found = match self.token.kind {
            TokenKind::End => "'EOF'".into(),
            TokenKind::Terminator => "newline".into(),
            TokenKind::Operator | TokenKind::Keyword => format!("'{found}'"),
            _ => found.into(),
        };
        SyntaxError::new(self.token.span.start, format!("expected {what}, found {found}"))
    }

    fn missing_comma(&self, place: &str) -> Box<SyntaxError> {
        let newline = if self.token.kind == TokenKind::Terminator { " before newline" } else { "" };
        let mut error = SyntaxError::new(self.token.span.start, format!("missing ','{newline} in {place}"));
        let ends = self.text.get(self.token.span.start..).is_some_and(|rest| rest.trim().is_empty());
        if self.token.kind == TokenKind::Terminator && ends {
            error.hint = Some("close the parenthesis".into());
        }
        error
    }

    /// Whether the token follows a digit at once, as in `1k`.
    fn is_unit(&self) -> bool {
        let before = self.text.get(..self.token.span.start).unwrap_or_default();
        before.ends_with(|c: char| c.is_ascii_digit())
    }

    /// The text from the token on.
    fn rest(&self) -> &'t str {
        self.text.get(self.token.span.start..).unwrap_or_default()
    }

    /// The address that the token belongs to, `10.0.0.1` of which `10.0` is a number.
    fn address(&self) -> Option<&'t str> {
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let before = self.text.get(..self.token.span.start)?;
        let start = before.len() - before.chars().rev().take_while(|c| is_part(*c)).count();
        let after = self.rest().chars().take_while(|c| is_part(*c)).count();
        let address = self.text.get(start..self.token.span.start + after)?;
        address.parse::<std::net::Ipv4Addr>().is_ok().then_some(address)
    }

    /// The hint for a token where an operand is expected.
    fn operand_hint(&self) -> Option<&'static str> {
        let before = self.text.get(..self.token.span.start).unwrap_or_default();
        Some(match self.token.span.of(self.text) {
            ">" if before.ends_with('<') => "write != instead of <>",
            "=" if before.ends_with("!=") => "write != instead of !==",
            "=" if before.ends_with("==") => "write == instead of ===",
            "{" if self.rest().starts_with("{{") => {
                "a template was not filled in: write what stands for {{ }}"
            }
            "if" => "write conditional(test, a, b), or the condition alone",
            "" if self.text.trim() == "*" => {
                "an expression has no `*`: a rule without `match` applies to every request, match(value, \"prefix*\") takes a pattern"
            }
            _ => return None,
        })
    }

    /// The hint for `"item" in m["key"]`, which follows the `in`: an entry of a map is a text. One that was a list, as a claim of a token, has the
    /// items between commas.
    fn in_entry(&self, of: &str) -> Option<String> {
        let entry = of.trim_start();
        let (map, key) = entry.split_once("[\"")?;
        let (key, _) = key.split_once("\"]")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
        if map.is_empty() || !map.chars().all(is_name) || key.contains('"') {
            return None;
        }
        let before = self.text.get(..self.token.span.start)?.trim_end();
        let quoted = before.strip_suffix('"').and_then(|text| text.rsplit_once('"')).map(|(_, item)| item);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | ':' | '@' | ' ');
        let item = quoted.filter(|item| !item.is_empty() && item.chars().all(is_plain)).unwrap_or("item");
        Some(format!(
            "an entry of a map is one text, of a list the items between commas (a comma in an item is %2C): \
             write \"(^|,){item}(,|$)\".matches({map}[\"{key}\"] | \"\")"
        ))
    }

    /// The hint for a token after a complete expression.
    fn trailing_hint(&self) -> Option<String> {
        let hint = match (self.token.kind, self.token.span.of(self.text)) {
            (TokenKind::Identifier, "and" | "AND") => "write && for `and`",
            (TokenKind::Identifier, "contains" | "CONTAINS") => "write \"text\".matches(value)",
            (TokenKind::Identifier, "like" | "LIKE") => {
                "write match(value, \"prefix*\"), or \"pattern\".matches(value)"
            }
            (TokenKind::Identifier, "exists" | "EXISTS") => "write (attribute | \"\") != \"\"",
            (TokenKind::Identifier, "is" | "IS") => {
                "compare with ==, and what may be absent as (attribute | \"\") == \"\""
            }
            (TokenKind::Identifier, "matches" | "startsWith" | "endsWith") => {
                "call it with a dot and parentheses: value.startsWith(\"text\"), \"pattern\".matches(value)"
            }
            (TokenKind::Operator, "~") => "write \"pattern\".matches(value)",
            (TokenKind::Operator, "!") if self.rest().starts_with("!~") => {
                "write \"pattern\".matches(value) == false"
            }
            (TokenKind::Float, _) if let Some(address) = self.address() => {
                return Some(format!("write ip(\"{address}\")"));
            }
            (TokenKind::Identifier, unit) if self.is_unit() => match unit {
                "ms" | "s" | "m" | "h" | "us" | "ns" => "a duration is a text in quotes, such as \"10s\"",
                "xx" | "XX" => "write a range of codes as a >= 200 && a < 300",
                _ => "a number has no unit: write all of its digits",
            },
            _ if self.text.get(..self.token.span.start).is_some_and(ends_in_not) => {
                "write (condition) == false for `not`"
            }
            (TokenKind::Identifier, "not" | "NOT") => {
                "write (condition) == false for `not`, and a != \"x\" && a != \"y\" for `not in` a list of values"
            }
            (TokenKind::Identifier, "or" | "OR") => "write || for `or`, and a | b for a default",
            (TokenKind::Identifier, "in")
                if self.text.get(self.token.span.start..).is_some_and(is_in_list) =>
            {
                "write a == \"x\" || a == \"y\" for a list of values; only CEL has lists"
            }
            (TokenKind::Identifier, "in")
                if self.text.get(self.token.span.start..).is_some_and(is_in_network) =>
            {
                NETWORKS
            }
            (TokenKind::Identifier, "in")
                if let Some(hint) = self.rest().strip_prefix("in").and_then(|of| self.in_entry(of)) =>
            {
                return Some(hint);
            }
            (TokenKind::Identifier, "in") => {
                "write (m[\"key\"] | \"\") != \"\" to test for a key, \"part\".matches(text) for a part of a text"
            }
            (TokenKind::Operator, ")" | "]" | "}") => "there is no open bracket to close",
            (TokenKind::Operator, ";") => "an expression has no `;`",
            _ if self.text.get(..self.token.span.start).is_some_and(|before| before.contains('\n')) => {
                "a line that is to be continued must end with an operator, a comma or an open bracket"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

fn too_deep(offset: usize) -> Box<SyntaxError> {
    SyntaxError::new(offset, format!("expression is nested more than {MAX_DEPTH} levels deep"))
}

/// Whether a text ends in the word `not`.
fn ends_in_not(text: &str) -> bool {
    let text = text.trim_end();
    let before = text.strip_suffix("not").or_else(|| text.strip_suffix("NOT"));
    before.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.')))
}

/// Whether a text is `in` with a network, such as `"10.0.0.0/8"`, with quotes or without.
fn is_in_network(text: &str) -> bool {
    let rest = text.strip_prefix("in").unwrap_or_default().trim_start();
    let rest = rest.strip_prefix('"').unwrap_or(rest);
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '/');
    let network = rest.split(|c| !is_part(c)).next().unwrap_or_default();
    let (ip, bits) = network.split_once('/').unwrap_or((network, "32"));
    ip.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}

/// Whether a text is `in` with a list: `["a", "b"]`, or `("a", "b")` as in SQL.
fn is_in_list(text: &str) -> bool {
    let list = text.strip_prefix("in").map(str::trim_start).unwrap_or_default();
    list.starts_with('[') || list.strip_prefix('(').is_some_and(|rest| rest.trim_start().starts_with('"'))
}
