//! Text to tokens, by the grammar of yaml.v2: YAML 1.1, as libyaml reads it.
//!
//! What decides is the position of a token: a key of a block mapping is known as such only at its colon, so that its tokens are
//! inserted before those that were read meanwhile. On purpose laxer than yaml.v2: `\/` in strings, tabs between an indicator and
//! its value or alone on a line, and directives other than `%YAML 1.1` and `%TAG`.

mod directive;
mod scalar;
mod tag;

use std::collections::VecDeque;

use super::cursor::{Cursor, Mark};

/// Characters that a key in front of a colon may have.
const MAX_KEY: usize = 1024;

/// Why a text is not YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// yaml.v2's text.
    pub(super) problem: &'static str,
    pub(super) at: Mark,
    /// The line in yaml.v2's text; it counts those of the scanner from 1 and those of the parser from 0, and names no line 0.
    pub(super) line: u32,
}

impl SyntaxError {
    /// An error of the scanner.
    pub(super) fn scan(problem: &'static str, at: Mark) -> Self {
        Self { problem, at, line: if at.line == 0 { 0 } else { at.line + 1 } }
    }

    /// An error of the parser.
    pub(super) fn parse(problem: &'static str, at: Mark) -> Self {
        Self { problem, at, line: at.line }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    StreamEnd,
    /// `%YAML`, or a directive that is ignored.
    Directive,
    TagDirective {
        handle: String,
        prefix: String,
    },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag {
        handle: String,
        suffix: String,
    },
    Scalar {
        text: String,
        plain: bool,
    },
}

/// A token that is a key if a colon follows.
#[derive(Debug, Clone, Copy)]
struct PossibleKey {
    /// The number of its first token.
    token: usize,
    mark: Mark,
    /// Whether nothing but a key may be here: at the indentation of a block mapping.
    required: bool,
}

pub(super) struct Scanner<'t> {
    cursor: Cursor<'t>,
    /// Tokens that were scanned and not taken.
    tokens: VecDeque<Token>,
    /// Number of tokens that were taken.
    taken: usize,
    ended: bool,
    /// Columns of the open block collections.
    indents: Vec<u32>,
    /// One for the block context and one for each open flow collection.
    keys: Vec<Option<PossibleKey>>,
    /// No level below this one has a possible key. Keys of outer levels are older, so they expire first.
    oldest_key: usize,
    /// Whether a key may start here.
    key_allowed: bool,
}

type Scanned<T> = Result<T, SyntaxError>;

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            cursor: Cursor::new(text),
            tokens: VecDeque::new(),
            taken: 0,
            ended: false,
            indents: Vec::new(),
            keys: vec![None],
            oldest_key: 0,
            key_allowed: true,
        }
    }

    /// The next token.
    pub(super) fn peek(&mut self) -> Scanned<&Token> {
        while !self.ended && self.needs_more()? {
            self.scan_token()?;
        }
        match self.tokens.front() {
            Some(token) => Ok(token),
            None => Err(SyntaxError::scan("found unexpected end of stream", self.cursor.mark())),
        }
    }

    /// Takes the token that [`Scanner::peek`] returned.
    pub(super) fn take(&mut self) -> Scanned<Token> {
        self.peek()?;
        self.taken += 1;
        match self.tokens.pop_front() {
            Some(token) => Ok(token),
            None => Err(SyntaxError::scan("found unexpected end of stream", self.cursor.mark())),
        }
    }

    /// Whether the first token is unknown, or may yet get another one before it.
    fn needs_more(&mut self) -> Scanned<bool> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        self.expire_keys()?;
        let oldest = self.keys.get(self.oldest_key).copied().flatten();
        Ok(oldest.is_some_and(|key| key.token == self.taken))
    }

    fn in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    /// Whether a column belongs to a block collection outside of the innermost one.
    fn is_outside(&self, column: u32) -> bool {
        self.indents.last().is_some_and(|indent| *indent > column)
    }

    /// The first column of what the innermost block collection contains.
    fn inner_column(&self) -> u32 {
        self.indents.last().map_or(0, |indent| indent + 1)
    }

    fn push(&mut self, kind: TokenKind, start: Mark) {
        let end = self.cursor.mark();
        self.tokens.push_back(Token { kind, start, end });
    }

    /// Skips an indicator of `length` characters.
    fn indicator(&mut self, kind: TokenKind, length: usize) {
        let start = self.cursor.mark();
        self.cursor.skip(length);
        self.push(kind, start);
    }

    /// Forgets possible keys that did not get their colon on their line and within [`MAX_KEY`] characters.
    fn expire_keys(&mut self) -> Scanned<()> {
        let now = self.cursor.mark();
        while let Some(slot) = self.keys.get_mut(self.oldest_key) {
            if let Some(key) = slot {
                if key.mark.line == now.line && key.mark.characters + MAX_KEY >= now.characters {
                    return Ok(());
                }
                if key.required {
                    return Err(SyntaxError::scan("could not find expected ':'", now));
                }
                *slot = None;
            }
            self.oldest_key += 1;
        }
        Ok(())
    }

    /// Notes that the next token may be a key.
    fn save_key(&mut self) -> Scanned<()> {
        if !self.key_allowed {
            return Ok(());
        }
        self.remove_key()?;
        let mark = self.cursor.mark();
        let required = !self.in_flow() && self.indents.last() == Some(&mark.column);
        let key = PossibleKey { token: self.taken + self.tokens.len(), mark, required };
        let level = self.keys.len() - 1;
        if let Some(slot) = self.keys.last_mut() {
            *slot = Some(key);
        }
        self.oldest_key = self.oldest_key.min(level);
        Ok(())
    }

    /// Forgets the possible key of the innermost level.
    fn remove_key(&mut self) -> Scanned<()> {
        match self.keys.last_mut().and_then(Option::take) {
            Some(key) if key.required => {
                Err(SyntaxError::scan("could not find expected ':'", self.cursor.mark()))
            }
            _ => Ok(()),
        }
    }

    /// Opens a block collection at a column, unless it is open; its token goes before the token with this number.
    fn open_block(&mut self, column: u32, kind: TokenKind, start: Mark, before: Option<usize>) {
        if self.in_flow() || self.indents.last().is_some_and(|indent| *indent >= column) {
            return;
        }
        self.indents.push(column);
        let at = before.map_or(self.tokens.len(), |token| token - self.taken);
        self.tokens.insert(at.min(self.tokens.len()), Token { kind, start, end: start });
    }

    /// Closes the block collections that a column is outside of.
    fn close_blocks(&mut self, column: Option<u32>) {
        if self.in_flow() {
            return;
        }
        while !self.indents.is_empty() && column.is_none_or(|column| self.is_outside(column)) {
            self.indents.pop();
            self.push(TokenKind::BlockEnd, self.cursor.mark());
        }
    }

    fn scan_token(&mut self) -> Scanned<()> {
        self.skip_to_token();
        self.expire_keys()?;
        self.close_blocks(Some(self.cursor.column()));
        let Some(first) = self.cursor.byte(0) else { return self.end_of_stream() };
        if self.cursor.column() == 0 && first == b'%' {
            self.close_blocks(None);
            self.remove_key()?;
            self.key_allowed = false;
            return self.directive();
        }
        for (of, kind) in [(b'-', TokenKind::DocumentStart), (b'.', TokenKind::DocumentEnd)] {
            if self.cursor.is_document_indicator(of) {
                self.close_blocks(None);
                self.remove_key()?;
                self.key_allowed = false;
                self.indicator(kind, 3);
                return Ok(());
            }
        }
        let before_blank = self.cursor.ends_word(1);
        match first {
            b'[' => self.open_flow(TokenKind::FlowSequenceStart),
            b'{' => self.open_flow(TokenKind::FlowMappingStart),
            b']' => self.close_flow(TokenKind::FlowSequenceEnd),
            b'}' => self.close_flow(TokenKind::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.indicator(TokenKind::FlowEntry, 1);
                Ok(())
            }
            b'-' if before_blank => self.block_entry(),
            b'?' if before_blank || self.in_flow() => self.key(),
            b':' if before_blank || self.in_flow() => self.value(),
            b'*' | b'&' => {
                self.save_key()?;
                self.key_allowed = false;
                self.anchor()
            }
            b'!' => {
                self.save_key()?;
                self.key_allowed = false;
                self.tag()
            }
            b'|' | b'>' if !self.in_flow() => {
                self.remove_key()?;
                self.key_allowed = true;
                self.block_scalar()
            }
            b'\'' | b'"' => {
                self.save_key()?;
                self.key_allowed = false;
                self.quoted_scalar()
            }
            b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => self.no_token(),
            _ => {
                self.save_key()?;
                self.key_allowed = false;
                self.plain_scalar()
            }
        }
    }

    fn no_token(&self) -> Scanned<()> {
        Err(SyntaxError::scan("found character that cannot start any token", self.cursor.mark()))
    }

    /// Skips blanks, comments and line breaks.
    fn skip_to_token(&mut self) {
        let mut line_start = self.cursor.column() == 0;
        loop {
            while self.cursor.is(b' ') || (self.cursor.is(b'\t') && self.may_skip_tab(line_start)) {
                // What a tab separates from its indicator is no key: tabs do not indent.
                if self.cursor.next() == Some('\t') && !self.in_flow() {
                    self.key_allowed = false;
                }
            }
            if self.cursor.is(b'#') {
                self.cursor.skip_line_rest();
            }
            if self.cursor.next_line().is_none() {
                return;
            }
            line_start = true;
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    /// Tabs do not indent: at the start of a line of a block collection they are skipped only if nothing follows on the line.
    fn may_skip_tab(&self, line_start: bool) -> bool {
        self.in_flow() || !self.key_allowed || !line_start || self.rest_is_comment()
    }

    fn end_of_stream(&mut self) -> Scanned<()> {
        self.cursor.end_line();
        self.close_blocks(None);
        self.remove_key()?;
        self.key_allowed = false;
        self.push(TokenKind::StreamEnd, self.cursor.mark());
        self.ended = true;
        Ok(())
    }

    fn open_flow(&mut self, kind: TokenKind) -> Scanned<()> {
        self.save_key()?;
        self.keys.push(None);
        self.key_allowed = true;
        self.indicator(kind, 1);
        Ok(())
    }

    fn close_flow(&mut self, kind: TokenKind) -> Scanned<()> {
        self.remove_key()?;
        if self.in_flow() {
            self.keys.pop();
            self.oldest_key = self.oldest_key.min(self.keys.len() - 1);
        }
        self.key_allowed = false;
        self.indicator(kind, 1);
        Ok(())
    }

    fn block_entry(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        if !self.in_flow() {
            if !self.key_allowed {
                let problem = "block sequence entries are not allowed in this context";
                return Err(SyntaxError::scan(problem, start));
            }
            self.open_block(start.column, TokenKind::BlockSequenceStart, start, None);
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.indicator(TokenKind::BlockEntry, 1);
        Ok(())
    }

    /// `?`
    fn key(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        if !self.in_flow() {
            if !self.key_allowed {
                return Err(SyntaxError::scan("mapping keys are not allowed in this context", start));
            }
            self.open_block(start.column, TokenKind::BlockMappingStart, start, None);
        }
        self.remove_key()?;
        self.key_allowed = !self.in_flow();
        self.indicator(TokenKind::Key, 1);
        Ok(())
    }

    /// `:`
    fn value(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        match self.keys.last_mut().and_then(Option::take) {
            Some(key) => {
                let at = (key.token - self.taken).min(self.tokens.len());
                self.tokens.insert(at, Token { kind: TokenKind::Key, start: key.mark, end: key.mark });
                self.open_block(key.mark.column, TokenKind::BlockMappingStart, key.mark, Some(key.token));
                self.key_allowed = false;
            }
            None => {
                if !self.in_flow() {
                    if !self.key_allowed {
                        let problem = "mapping values are not allowed in this context";
                        return Err(SyntaxError::scan(problem, start));
                    }
                    self.open_block(start.column, TokenKind::BlockMappingStart, start, None);
                }
                self.key_allowed = !self.in_flow();
            }
        }
        self.indicator(TokenKind::Value, 1);
        Ok(())
    }

    /// `*name` or `&name`
    fn anchor(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        let is_alias = self.cursor.is(b'*');
        self.cursor.next();
        let name = self.word();
        let ends = self.cursor.ends_word(0)
            || matches!(self.cursor.byte(0), Some(b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'));
        if name.is_empty() || !ends {
            let problem = "did not find expected alphabetic or numeric character";
            return Err(SyntaxError::scan(problem, self.cursor.mark()));
        }
        self.push(if is_alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, start);
        Ok(())
    }

    /// Letters and digits of ASCII, `_` and `-`.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(byte) = self.cursor.byte(0)
            && (byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        {
            word.push(char::from(byte));
            self.cursor.next();
        }
        word
    }
}
