//! The fast path for plain documents.
//!
//! Most configuration is block mappings and lists of one-line values. [`read`] parses that subset in one pass and returns `None`
//! for everything else: anchors, tags, multi-line values, escapes, tabs, unusual keys, warnings and errors. Its results equal
//! those of the full parser, including positions; property tests compare the two.

use super::scalar;
use crate::{Location, MappingEntry, Node, NodeKind, Span};

/// Maximum size of a text, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Maximum nesting.
const MAX_DEPTH: usize = 32;
/// Maximum length of a key.
const MAX_KEY: usize = 128;
/// Maximum number of entries of a mapping: duplicates are searched linearly.
const MAX_ENTRIES: usize = 256;

/// Parses `text`, if all of it is plain.
pub(super) fn read(text: &str) -> Option<Node> {
    let bytes = text.as_bytes();
    if bytes.len() > MAX_TEXT || !bytes.iter().all(|b| matches!(b, b'\n' | b' '..=b'~')) {
        return None;
    }
    let mut reader = PlainReader { text, at: 0, line: 1, line_start: 0, column: None };
    reader.seek_content();
    if reader.rest().starts_with(b"---\n") && reader.column == Some(0) {
        reader.at += "---".len();
        reader.next_content();
    }
    let column = reader.column?;
    let node = reader.block(column, 0)?;
    // The rest is not part of the document.
    if reader.column.is_some() {
        return None;
    }
    matches!(node.kind, NodeKind::Mapping(_)).then_some(node)
}

struct PlainReader<'t> {
    text: &'t str,
    at: usize,
    /// From 1.
    line: u32,
    line_start: usize,
    /// The column of the content of the current line, from 0; `None` at the end of the text. Only valid at the start of a line,
    /// or after the dash of a list.
    column: Option<usize>,
}

impl<'t> PlainReader<'t> {
    fn rest(&self) -> &'t [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn byte(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn here(&self) -> Location {
        Location { line: self.line, column: u32::try_from(self.at - self.line_start).unwrap_or(0) + 1 }
    }

    /// Skips blank lines and comments, from the start of a line to the next content.
    fn seek_content(&mut self) {
        loop {
            let blanks = self.rest().iter().take_while(|b| **b == b' ').count();
            self.at += blanks;
            match self.byte() {
                None => {
                    self.column = None;
                    return;
                }
                Some(b'\n') => {}
                Some(b'#') => self.at += self.rest().iter().take_while(|b| **b != b'\n').count(),
                Some(_) => {
                    self.column = Some(self.at - self.line_start);
                    return;
                }
            }
            if self.byte().is_some() {
                self.at += 1;
                self.line += 1;
                self.line_start = self.at;
            }
        }
    }

    /// After a value: skips to the next content; `None` if the line has more than a comment.
    fn end_of_line(&mut self) -> Option<()> {
        let blanks = self.rest().iter().take_while(|b| **b == b' ').count();
        match self.rest().get(blanks) {
            None | Some(b'\n') => {}
            Some(b'#') if blanks > 0 => {}
            Some(_) => return None,
        }
        self.next_content();
        Some(())
    }

    fn next_content(&mut self) {
        self.at += self.rest().iter().take_while(|b| **b != b'\n').count();
        self.seek_content();
    }

    fn is_dash(&self) -> bool {
        matches!(self.rest(), [b'-', b' ' | b'\n', ..] | [b'-'])
    }

    /// The value that starts here, at `column` of a new line.
    fn block(&mut self, column: usize, depth: usize) -> Option<Node> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.is_dash() { self.sequence(column, depth) } else { self.mapping(column, depth) }
    }

    /// The value on the lines below a key or dash at `column`; `None` if there is none, which would be null.
    fn below(&mut self, column: usize, depth: usize) -> Option<Node> {
        match self.column? {
            deeper if deeper > column => self.block(deeper, depth + 1),
            _ => None,
        }
    }

    fn mapping(&mut self, column: usize, depth: usize) -> Option<Node> {
        let start = self.here();
        let mut end = start;
        let mut entries: Vec<MappingEntry> = Vec::with_capacity(4);
        loop {
            let (key, key_span) = self.key()?;
            if entries.len() >= MAX_ENTRIES || entries.iter().any(|e| e.key == key) {
                return None;
            }
            let value = if self.rest_is_blank() {
                self.end_of_line()?;
                // A list may have the indentation of its key.
                if self.column == Some(column) && self.is_dash() {
                    self.sequence(column, depth + 1)?
                } else {
                    self.below(column, depth)?
                }
            } else {
                self.value_on_line(column)?
            };
            end = end.max(value.span.end);
            entries.push(MappingEntry { key, key_span, value });
            match self.column {
                Some(here) if here == column && !self.is_dash() => {}
                Some(here) if here > column => return None,
                _ => break,
            }
        }
        // Most have fewer entries than there is room for.
        entries.shrink_to_fit();
        Some(Node { kind: NodeKind::Mapping(entries), span: Span { start, end } })
    }

    fn sequence(&mut self, column: usize, depth: usize) -> Option<Node> {
        if depth > MAX_DEPTH {
            return None;
        }
        let start = self.here();
        let mut items: Vec<Node> = Vec::new();
        loop {
            self.at += 1;
            let item = if self.rest_is_blank() {
                self.end_of_line()?;
                self.below(column, depth)?
            } else {
                self.at += self.rest().iter().take_while(|b| **b == b' ').count();
                if self.is_dash() {
                    return None;
                }
                let inside = self.at - self.line_start;
                if self.is_key() {
                    self.column = Some(inside);
                    self.mapping(inside, depth + 1)?
                } else {
                    self.value_on_line(column)?
                }
            };
            let end = item.span.end;
            items.push(item);
            match self.column {
                Some(here) if here == column && self.is_dash() => {}
                Some(here) if here > column => return None,
                _ => return Some(Node { kind: NodeKind::Sequence(items), span: Span { start, end } }),
            }
        }
    }

    /// Whether the rest of the line is blank, or a comment after a space.
    fn rest_is_blank(&self) -> bool {
        let blanks = self.rest().iter().take_while(|b| **b == b' ').count();
        match self.rest().get(blanks) {
            None | Some(b'\n') => true,
            Some(b'#') => blanks > 0,
            Some(_) => false,
        }
    }

    /// The length of the plain key here, which a colon and white space follow.
    fn key_length(&self) -> Option<usize> {
        let rest = self.rest();
        let plain = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/');
        let length = rest.iter().take(MAX_KEY + 1).take_while(plain).count();
        let has_start = rest.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
        let has_colon = matches!(rest.get(length..)?, [b':'] | [b':', b' ' | b'\n', ..]);
        (has_start && has_colon && length <= MAX_KEY).then_some(length)
    }

    fn is_key(&self) -> bool {
        self.key_length().is_some()
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Option<(Box<str>, Span)> {
        let length = self.key_length()?;
        let start = self.here();
        let text = self.text.get(self.at..self.at + length)?;
        self.at += length;
        let span = Span { start, end: self.here() };
        self.at += 1;
        // Keys that resolve to Booleans or numbers are left to the parser.
        match scalar::resolve("", text) {
            Ok(NodeKind::String(key)) => Some((key, span)),
            _ => None,
        }
    }

    /// A value on the line of its key or dash at `column`; skips to the next content.
    fn value_on_line(&mut self, column: usize) -> Option<Node> {
        self.at += self.rest().iter().take_while(|b| **b == b' ').count();
        let node = match self.byte()? {
            b'{' | b'[' => self.flow(0)?,
            quote @ (b'"' | b'\'') => self.quoted(quote)?,
            _ => self.plain()?,
        };
        self.end_of_line()?;
        // A line with more indentation continues the value or is an error.
        match self.column {
            Some(here) if here > column => None,
            _ => Some(node),
        }
    }

    /// A quoted scalar without escapes.
    fn quoted(&mut self, quote: u8) -> Option<Node> {
        let start = self.here();
        let rest = self.rest();
        let length = rest.iter().skip(1).take_while(|b| **b != quote && !matches!(b, b'\\' | b'\n')).count();
        // The parser includes spaces after the scalar in its span.
        if rest.get(length + 1) != Some(&quote)
            || matches!(rest.get(length + 2), Some(b) if *b == quote || *b == b' ')
        {
            return None;
        }
        let text = self.text.get(self.at + 1..self.at + 1 + length)?;
        self.at += length + 2;
        Some(Node { kind: NodeKind::String(text.into()), span: Span { start, end: self.here() } })
    }

    /// A plain scalar up to the end of the line or a comment.
    fn plain(&mut self) -> Option<Node> {
        let rest = self.rest();
        if !starts_plain(rest) {
            return None;
        }
        let mut length = 0;
        for (at, byte) in rest.iter().enumerate() {
            let next = rest.get(at + 1).copied().unwrap_or(b'\n');
            match byte {
                b'\n' => break,
                b' ' if next == b'#' => break,
                b':' if matches!(next, b' ' | b'\n') => return None,
                b' ' => {}
                _ => length = at + 1,
            }
        }
        self.scalar(length)
    }

    fn scalar(&mut self, length: usize) -> Option<Node> {
        let start = self.here();
        let text = self.text.get(self.at..self.at + length)?;
        let kind = scalar::resolve("", text).ok()?;
        if matches!(kind, NodeKind::Float(value) if !value.is_finite()) {
            return None;
        }
        self.at += length;
        Some(Node { kind, span: Span { start, end: self.here() } })
    }

    /// A flow mapping or sequence on one line.
    fn flow(&mut self, depth: usize) -> Option<Node> {
        if depth > MAX_DEPTH {
            return None;
        }
        let start = self.here();
        let is_mapping = self.byte() == Some(b'{');
        let close = if is_mapping { b'}' } else { b']' };
        let mut entries: Vec<MappingEntry> = Vec::new();
        let mut items: Vec<Node> = Vec::new();
        self.at += 1;
        self.skip_blanks();
        while self.byte()? != close {
            if is_mapping {
                let (key, key_span) = self.key()?;
                if entries.len() >= MAX_ENTRIES || entries.iter().any(|e| e.key == key) {
                    return None;
                }
                self.skip_blanks();
                let value = self.flow_value(depth)?;
                entries.push(MappingEntry { key, key_span, value });
            } else {
                items.push(self.flow_value(depth)?);
            }
            self.skip_blanks();
            match self.byte()? {
                b',' => {
                    self.at += 1;
                    self.skip_blanks();
                    // A trailing comma is left to the parser.
                    if self.byte()? == close {
                        return None;
                    }
                }
                byte if byte == close => {}
                _ => return None,
            }
        }
        self.at += 1;
        // The parser includes spaces and a comment after the bracket in its span.
        if self.byte() == Some(b' ') {
            return None;
        }
        // Most have fewer entries than a vector that grows has places.
        entries.shrink_to_fit();
        items.shrink_to_fit();
        let kind = if is_mapping { NodeKind::Mapping(entries) } else { NodeKind::Sequence(items) };
        Some(Node { kind, span: Span { start, end: self.here() } })
    }

    fn flow_value(&mut self, depth: usize) -> Option<Node> {
        match self.byte()? {
            b'{' | b'[' => self.flow(depth + 1),
            quote @ (b'"' | b'\'') => self.quoted(quote),
            _ => {
                let rest = self.rest();
                if !starts_plain(rest) {
                    return None;
                }
                let mut length = 0;
                for (at, byte) in rest.iter().enumerate() {
                    match byte {
                        b',' | b']' | b'}' => break,
                        b'\n' | b'[' | b'{' | b':' | b'#' | b'"' | b'\'' | b'&' | b'*' | b'?' => return None,
                        b' ' => {}
                        _ => length = at + 1,
                    }
                }
                self.scalar(length)
            }
        }
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().iter().take_while(|b| **b == b' ').count();
    }
}

/// Whether a plain scalar may start like this.
fn starts_plain(rest: &[u8]) -> bool {
    match rest {
        [b'-' | b'.', next, ..] => next.is_ascii_alphanumeric(),
        [first, ..] => {
            first.is_ascii_alphanumeric() || matches!(first, b'_' | b'/' | b'$' | b'(' | b'+' | b'~')
        }
        [] => false,
    }
}
