//! COMPAT: the classic syntax, rewritten to CEL tokens.
//!
//! `a | b` becomes `pick(a, b)`, merged with calls of `pick` on either side unless they are parenthesized; a string that is a
//! valid duration becomes `duration("…")`. All other tokens and positions are unchanged, so that errors refer to the original
//! text.

use super::lexer::{self, Token, TokenKind};
use super::source::{Problem, Source};
use crate::ast::{NodeId, SyntaxKind, SyntaxTree};
use crate::lexer::{Span, TokenKind as ClassicKind};
use crate::literal::{self, Constant};
use crate::{CompileError, Phase, parse};

/// The CEL tokens of a COMPAT text.
///
/// Errors: the text is not classic, or has literals that CEL lacks; phase `Static`.
pub(super) fn tokens<'t>(text: &'t str, source: &Source<'_>) -> Result<Vec<Token<'t>>, CompileError> {
    let tree = parse::parse(text).map_err(|error| CompileError { phase: Phase::Static, ..error })?;
    let mut rewriter = Rewriter { tree: &tree, text, characters: characters(text), tokens: Vec::new() };
    rewriter.expression(tree.root()).map_err(|problem| source.reject(vec![*problem]))?;
    let end = rewriter.character(text.len());
    rewriter.tokens.push(Token { kind: TokenKind::End, at: end });
    Ok(rewriter.tokens)
}

struct Rewriter<'r, 't> {
    tree: &'r SyntaxTree<'t>,
    text: &'t str,
    /// The number of characters before each byte; empty for ASCII, where both are equal.
    characters: Vec<u32>,
    tokens: Vec<Token<'t>>,
}

/// Errors are boxed to keep the frames of recursive functions small.
type Rewritten = Result<(), Box<Problem>>;

impl<'t> Rewriter<'_, 't> {
    fn expression(&mut self, id: NodeId) -> Rewritten {
        let tree = self.tree;
        match &tree.node(id).kind {
            SyntaxKind::Literal(kind) => self.literal(id, *kind),
            SyntaxKind::Identifier => self.verbatim(tree.node(id).span),
            SyntaxKind::Parenthesized(operand) => self.parenthesized(id, *operand),
            SyntaxKind::Unary { operator, operand } => {
                self.verbatim(*operator)?;
                self.expression(*operand)
            }
            SyntaxKind::Binary { .. } => self.chain(id),
            SyntaxKind::Select { operand, name } => {
                self.expression(*operand)?;
                self.mark_behind(".", *operand);
                self.verbatim(*name)
            }
            SyntaxKind::Index { operand, key } => self.index(id, *operand, *key),
            SyntaxKind::Call { function, arguments } => {
                self.expression(*function)?;
                self.mark_behind("(", *function);
                self.arguments(id, arguments)?;
                self.closing(")", id);
                Ok(())
            }
            SyntaxKind::Foreign(what) => self.foreign(id, what),
        }
    }

    fn parenthesized(&mut self, id: NodeId, operand: NodeId) -> Rewritten {
        self.mark("(", self.tree.node(id).span.start);
        self.expression(operand)?;
        self.closing(")", id);
        Ok(())
    }

    fn index(&mut self, id: NodeId, operand: NodeId, key: NodeId) -> Rewritten {
        self.expression(operand)?;
        self.mark_behind("[", operand);
        self.expression(key)?;
        self.closing("]", id);
        Ok(())
    }

    fn foreign(&self, id: NodeId, what: &str) -> Rewritten {
        let at = self.character(self.tree.node(id).span.start);
        Err(Box::new(Problem::new(at, format!("Syntax error: unexpected {what}"))))
    }

    /// A left-associative chain of binary operators, in a loop, because chains may be long.
    fn chain(&mut self, id: NodeId) -> Rewritten {
        let mut links = Vec::new();
        let mut leftmost = id;
        while let SyntaxKind::Binary { operator, left, right } = self.tree.node(leftmost).kind {
            links.push((operator, right));
            leftmost = left;
        }
        let is_pick = |link: Option<&(Span, NodeId)>| link.is_some_and(|(operator, _)| self.is_or(*operator));
        let merged = self.pick_arguments(leftmost).filter(|_| is_pick(links.last()));
        // Outside in: every `|` starts a call of pick, unless its left side is one.
        let opened = (0..links.len())
            .filter(|at| is_pick(links.get(*at)) && !is_pick(links.get(at + 1)))
            .filter(|at| at + 1 < links.len() || merged.is_none());
        for _ in 0..opened.count() {
            self.ident("pick", self.tree.node(leftmost).span.start);
            self.mark("(", self.tree.node(leftmost).span.start);
        }
        let mut has_arguments = true;
        match merged {
            Some(arguments) => {
                self.ident("pick", self.tree.node(leftmost).span.start);
                self.mark("(", self.tree.node(leftmost).span.start);
                self.arguments(leftmost, &arguments)?;
                has_arguments = !arguments.is_empty();
            }
            None => self.expression(leftmost)?,
        }
        while let Some((operator, right)) = links.pop() {
            if !self.is_or(operator) {
                self.verbatim(operator)?;
                self.expression(right)?;
                continue;
            }
            if has_arguments {
                self.mark(",", operator.start);
            }
            match self.pick_arguments(right) {
                Some(arguments) => self.arguments(right, &arguments)?,
                None => self.expression(right)?,
            }
            has_arguments = true;
            if !links.last().is_some_and(|(operator, _)| self.is_or(*operator)) {
                self.closing(")", right);
            }
        }
        Ok(())
    }

    fn is_or(&self, operator: Span) -> bool {
        operator.of(self.text) == "|"
    }

    /// The arguments, if the node is a call of `pick`.
    fn pick_arguments(&self, id: NodeId) -> Option<Vec<NodeId>> {
        match &self.tree.node(id).kind {
            SyntaxKind::Call { function, arguments } if self.tree.source(*function) == "pick" => {
                Some(arguments.clone())
            }
            _ => None,
        }
    }

    fn arguments(&mut self, call: NodeId, arguments: &[NodeId]) -> Rewritten {
        let mut end = 0;
        for (at, argument) in arguments.iter().enumerate() {
            if at > 0 {
                self.mark(",", end);
            }
            self.expression(*argument)?;
            end = self.tree.node(*argument).span.end;
        }
        let behind = Span { start: end, end: self.tree.node(call).span.end };
        if end > 0 && behind.of(self.text).trim_start().starts_with("...") {
            let at = self.character(end);
            return Err(Box::new(Problem::new(at, "Syntax error: unexpected '...'")));
        }
        Ok(())
    }

    /// A literal; a string that is a valid duration becomes a call of `duration`.
    fn literal(&mut self, id: NodeId, kind: ClassicKind) -> Rewritten {
        let span = self.tree.node(id).span;
        let is_duration = kind == ClassicKind::String
            && matches!(literal::constant(kind, self.tree.source(id)), Ok(Constant::Duration(_)));
        if !is_duration {
            return self.verbatim(span);
        }
        self.ident("duration", span.start);
        self.mark("(", span.start);
        self.verbatim(span)?;
        self.closing(")", id);
        Ok(())
    }

    /// The CEL tokens of a part of the text.
    fn verbatim(&mut self, span: Span) -> Rewritten {
        let found = lexer::tokens(span.of(self.text), self.character(span.start))?;
        self.tokens.extend(found.into_iter().filter(|token| token.kind != TokenKind::End));
        Ok(())
    }

    fn ident(&mut self, name: &'static str, at: usize) {
        let at = self.character(at);
        self.tokens.push(Token { kind: TokenKind::Ident(name), at });
    }

    fn mark(&mut self, mark: &'static str, at: usize) {
        let at = self.character(at);
        self.tokens.push(Token { kind: TokenKind::Mark(mark), at });
    }

    /// A mark at the end of a node.
    fn closing(&mut self, mark: &'static str, id: NodeId) {
        self.mark(mark, self.tree.node(id).span.end.saturating_sub(1));
    }

    /// A mark after a node.
    fn mark_behind(&mut self, mark: &'static str, id: NodeId) {
        let end = self.tree.node(id).span.end;
        let blanks = self.text.get(end..).and_then(|rest| rest.find(mark)).unwrap_or(0);
        self.mark(mark, end + blanks);
    }

    /// The character offset of a byte offset.
    fn character(&self, byte: usize) -> u32 {
        match self.characters.get(byte).or(self.characters.last()) {
            Some(character) => *character,
            None => u32::try_from(byte).unwrap_or(u32::MAX),
        }
    }
}

/// For each byte offset, including the end, the number of characters before it; empty for ASCII.
fn characters(text: &str) -> Vec<u32> {
    if text.is_ascii() {
        return Vec::new();
    }
    let mut count = 0u32;
    let mut before = Vec::with_capacity(text.len() + 1);
    for character in text.chars() {
        before.extend(std::iter::repeat_n(count, character.len_utf8()));
        count = count.saturating_add(1);
    }
    before.push(count);
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        let source = Source::new(text);
        match tokens(text, &source) {
            Ok(tokens) => tokens.iter().map(|token| token.kind.text()).collect::<Vec<_>>().join(" "),
            Err(error) => error.message,
        }
    }

    #[test]
    fn a_bar_becomes_pick() {
        for (text, expected) in [
            ("a | b | c", "pick ( a , b , c ) <EOF>"),
            ("(a | b) | c", "pick ( ( pick ( a , b ) ) , c ) <EOF>"),
            ("a | (b | c)", "pick ( a , ( pick ( b , c ) ) ) <EOF>"),
            ("a + b | c | d + e | f", "pick ( pick ( a + b , c , d ) + e , f ) <EOF>"),
            ("a == b | c", "a == pick ( b , c ) <EOF>"),
            ("pick(a, b) | c", "pick ( a , b , c ) <EOF>"),
            ("pick(a) + pick(b) | pick(c, d)", "pick ( pick ( a ) + pick ( b ) , c , d ) <EOF>"),
            ("pick() | c", "pick ( c ) <EOF>"),
            ("m[x | y] | \"10s\"", "pick ( m [ pick ( x , y ) ] , duration ( \"10s\" ) ) <EOF>"),
        ] {
            assert_eq!(rewritten(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_calls_but_characters_are_not() {
        assert_eq!(rewritten("\"0\""), "duration ( \"0\" ) <EOF>");
        assert_eq!(rewritten("'0'"), "'0' <EOF>");
        assert_eq!(rewritten("\"1d\""), "\"1d\" <EOF>");
    }

    #[test]
    fn literals_that_cel_lacks_are_rejected_with_their_position() {
        assert!(rewritten("é + `raw`").starts_with("ERROR: <input>:1:1: Syntax error"));
        assert!(rewritten("\"é\" + `raw`").starts_with("ERROR: <input>:1:7: Syntax error"));
        assert!(rewritten("f(a...)").contains("unexpected '...'"));
        assert!(rewritten("a[1:2]").contains("unexpected slice"));
        assert!(rewritten("a in b").starts_with("unable to parse expression 'a in b': 1:3: "));
    }
}
