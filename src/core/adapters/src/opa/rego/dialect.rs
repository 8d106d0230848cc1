//! Rego v0 or v1, module by module.

use regorus::unstable::{Lexer, Token, TokenKind};
use regorus::{Engine, Source};

use super::bounded::is_immense;
use super::text::one_line;

/// Longest statement, in tokens: the parser builds a tree that is as deep as a chain of operators is long.
const MAX_STATEMENT: usize = 256;
/// Deepest brackets: the parser tries what is in them as several things, so that its time doubles with each level.
const MAX_NESTING: usize = 12;

/// Most work of the parser, in tokens, each as often as it is tried.
const MAX_EFFORT: usize = 1 << 23;
/// Most statements of a block: the engine compares each with each, to order them.
const MAX_STATEMENTS: usize = 1000;

/// Adds a module in the dialect that it is written in.
///
/// Errors: one line, with the position in the module.
pub(super) fn add(engine: &mut Engine, name: &str, text: &str) -> Result<(), String> {
    let words = Words::of(name, text)?;
    engine.set_rego_v0(false);
    let Err(v1) = engine.add_policy(name.to_owned(), text.to_owned()) else { return Ok(()) };
    // In v0 the engine reads `allow if { … }` as a rule `allow` that always holds, and another with the name `if`.
    if words.needs_v1 {
        return Err(one_line(&v1));
    }
    engine.set_rego_v0(true);
    engine.add_policy(name.to_owned(), text.to_owned()).map(|_| ()).map_err(|error| one_line(&error))
}

/// What the tokens of a module say about it.
struct Words {
    /// Whether it has a keyword of v1 that is not one of v0, and does not import it.
    needs_v1: bool,
}

impl Words {
    /// Errors: the module has a token that is none, a number that is immense, or a statement that is too long.
    fn of(name: &str, text: &str) -> Result<Self, String> {
        let refuse = |error: &dyn std::fmt::Display| one_line(error);
        let source = Source::from_contents(name.to_owned(), text.to_owned()).map_err(|e| refuse(&e))?;
        let mut lexer = Lexer::new(&source);
        let mut keywords = Keywords::default();
        let (mut length, mut effort) = (0, 0_usize);
        // The statements of each block, and of what else is in brackets.
        let mut blocks: Vec<usize> = Vec::new();
        let mut before: Option<Token> = None;
        loop {
            // What the lexer alone cannot read, the parser reports.
            let Ok(token) = lexer.next_token() else { break };
            keywords.see(&token);
            if token.0 == TokenKind::Eof {
                break;
            }
            if token.0 == TokenKind::Number && is_immense(token.1.text()) {
                return Err(refuse(&token.1.error("the number is too large")));
            }
            let is_first = begins_statement(before.as_ref(), &token);
            length = if is_first { 1 } else { length + 1 };
            // The elements of a list are no statements.
            let is_element = before.as_ref().is_some_and(|Token(_, span)| span.text() == ",")
                || matches!(token.1.text(), "," | ")" | "]" | "}");
            if let Some(statements) = blocks.last_mut().filter(|_| is_first && !is_element) {
                *statements += 1;
            }
            match token.1.text() {
                "(" | "[" | "{" if token.0 == TokenKind::Symbol => blocks.push(0),
                ")" | "]" | "}" if token.0 == TokenKind::Symbol => drop(blocks.pop()),
                _ => {}
            }
            effort = effort.saturating_add(1 << blocks.len().min(MAX_NESTING));
            let excess = if length > MAX_STATEMENT {
                Some(format!("a statement has more than {MAX_STATEMENT} tokens"))
            } else if blocks.len() > MAX_NESTING {
                Some(format!("brackets are nested more than {MAX_NESTING} levels deep"))
            } else if blocks.last().is_some_and(|statements| *statements > MAX_STATEMENTS) {
                Some(format!("a block has more than {MAX_STATEMENTS} statements"))
            } else if effort > MAX_EFFORT {
                Some(
                    "too much is in brackets that are nested too deep: large values belong in dataFiles"
                        .to_owned(),
                )
            } else {
                None
            };
            if let Some(text) = excess {
                return Err(refuse(&token.1.error(&text)));
            }
            before = Some(token);
        }
        Ok(Self { needs_v1: keywords.used.iter().any(|word| !keywords.imported.contains(word)) })
    }
}

/// Keywords of v1 that v0 imports.
const KEYWORDS: [&str; 4] = ["if", "contains", "every", "in"];

/// The keywords of a module.
#[derive(Default)]
struct Keywords {
    /// The two tokens before.
    before: [Option<Token>; 2],
    /// The texts of an import so far, and the line where it ends.
    import: Option<(Vec<String>, u32)>,
    /// Whether something else than an import was seen after the package.
    has_begun: bool,
    used: Vec<&'static str>,
    imported: Vec<&'static str>,
}

impl Keywords {
    fn see(&mut self, token: &Token) {
        self.use_of_last(token);
        self.import(token);
        let [_, last] = std::mem::take(&mut self.before);
        self.before = [last, Some(token.clone())];
    }

    /// Notes if the token before this one is a keyword.
    fn use_of_last(&mut self, next: &Token) {
        let [before, Some(Token(TokenKind::Ident, span))] = &self.before else { return };
        let Some(keyword) = KEYWORDS.into_iter().find(|keyword| *keyword == span.text()) else { return };
        let follows = if next.0 == TokenKind::Symbol { next.1.text() } else { "" };
        // The name of a field, or one that the module defines.
        let is_field =
            before.as_ref().is_some_and(|Token(kind, span)| *kind == TokenKind::Symbol && span.text() == ".");
        // `contains` is a function of v0.
        let is_call = keyword == "contains" && follows == "(";
        let is_name = matches!(follows, "." | ":=");
        if !is_field && !is_call && !is_name && !self.used.contains(&keyword) {
            self.used.push(keyword);
        }
    }

    /// Notes what an import before all rules brings; one that is not written plainly brings nothing.
    fn import(&mut self, token: &Token) {
        let is_word = token.0 == TokenKind::Ident;
        let text = token.1.text();
        if let Some((parts, line)) = &mut self.import {
            let continues = token.1.line == *line && token.0 != TokenKind::Eof;
            if continues {
                parts.push(if is_word || token.0 == TokenKind::Symbol {
                    text.to_owned()
                } else {
                    String::new()
                });
                return;
            }
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            match parts.as_slice() {
                ["rego", ".", "v1"] | ["future", ".", "keywords"] => self.imported.extend(KEYWORDS),
                ["future", ".", "keywords", ".", keyword] => {
                    self.imported.extend(KEYWORDS.iter().filter(|known| **known == *keyword));
                    if *keyword == "every" {
                        self.imported.push("in");
                    }
                }
                _ => {}
            }
            self.import = None;
        }
        let begins_line = self
            .before
            .last()
            .is_none_or(|last| last.as_ref().is_none_or(|Token(_, span)| span.line != token.1.line));
        if !begins_line {
            return;
        }
        match text {
            "import" if is_word && !self.has_begun => self.import = Some((Vec::new(), token.1.line)),
            "package" if is_word => {}
            _ => self.has_begun = true,
        }
    }
}

/// Whether a token begins a statement, or a part of one that nests no deeper for being long.
fn begins_statement(before: Option<&Token>, token: &Token) -> bool {
    let Some(Token(kind, span)) = before else { return true };
    if *kind == TokenKind::Symbol && matches!(span.text(), "," | ";" | "{" | "}") {
        return true;
    }
    let continues = |token: &Token| token.0 == TokenKind::Symbol && !matches!(token.1.text(), ")" | "]");
    let ended = *kind != TokenKind::Symbol || matches!(span.text(), ")" | "]");
    span.line != token.1.line && ended && !continues(token)
}
