//! Scalars: plain, quoted, and block scalars.

use super::{Scanned, Scanner, SyntaxError, TokenKind};

/// White space between two words of a scalar: blanks on one line, or line breaks, which are folded.
#[derive(Default)]
struct Space {
    /// On one line.
    blanks: String,
    /// The first line break.
    first: Option<char>,
    /// All others.
    more: String,
}

impl Space {
    /// A line break. Blanks before it do not count.
    fn line(&mut self, line_break: char) {
        match self.first {
            None => {
                self.blanks.clear();
                self.first = Some(line_break);
            }
            Some(_) => self.more.push(line_break),
        }
    }

    /// A blank. At the start of a line it does not count.
    fn blank(&mut self, blank: char) {
        if self.first.is_none() {
            self.blanks.push(blank);
        }
    }

    /// Appends what it stands for: one line feed is a space, of several all but the first count.
    fn fold_into(&mut self, text: &mut String) {
        match self.first.take() {
            None => text.push_str(&self.blanks),
            Some('\n') if self.more.is_empty() => text.push(' '),
            Some('\n') => text.push_str(&self.more),
            Some(other) => {
                text.push(other);
                text.push_str(&self.more);
            }
        }
        self.blanks.clear();
        self.more.clear();
    }
}

/// What happens to the line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    /// `-`: all are removed.
    Strip,
    /// The first one stays.
    Clip,
    /// `+`: all stay.
    Keep,
}

impl Scanner<'_> {
    /// A scalar without quotes.
    pub(super) fn plain_scalar(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        let mut end = start;
        let inner = self.inner_column();
        let mut text = String::new();
        let mut space = Space::default();
        loop {
            let indicator = [b'-', b'.'].into_iter().any(|of| self.cursor.is_document_indicator(of));
            if indicator || self.cursor.is(b'#') {
                break;
            }
            while !self.cursor.ends_word(0) && !self.ends_plain() {
                space.fold_into(&mut text);
                match self.cursor.next_letters() {
                    "" => text.extend(self.cursor.next()),
                    letters => text.push_str(letters),
                }
                end = self.cursor.mark();
            }
            if !self.cursor.is_blank(0) && !self.cursor.is_break(0) {
                break;
            }
            self.space_of_plain(&mut space, inner)?;
            if !self.in_flow() && self.cursor.column() < inner {
                break;
            }
        }
        // A line break was read: the next token is the first of its line.
        if space.first.is_some() {
            self.key_allowed = true;
        }
        let kind = TokenKind::Scalar { text, plain: true };
        self.tokens.push_back(super::Token { kind, start, end });
        Ok(())
    }

    /// Whether an indicator ends a plain scalar here.
    fn ends_plain(&self) -> bool {
        match self.cursor.byte(0) {
            Some(b':') => self.cursor.ends_word(1),
            Some(b',' | b'?' | b'[' | b']' | b'{' | b'}') => self.in_flow(),
            _ => false,
        }
    }

    fn space_of_plain(&mut self, space: &mut Space, inner: u32) -> Scanned<()> {
        loop {
            if self.cursor.is_blank(0) {
                let indents = space.first.is_some() && self.cursor.column() < inner && self.cursor.is(b'\t');
                if indents && !self.rest_is_comment() {
                    let problem = "found a tab character that violates indentation";
                    return Err(SyntaxError::scan(problem, self.cursor.mark()));
                }
                self.cursor.next().into_iter().for_each(|blank| space.blank(blank));
            } else if let Some(line_break) = self.cursor.next_line() {
                space.line(line_break);
            } else {
                return Ok(());
            }
        }
    }

    /// Whether the rest of the line has only blanks, or a comment.
    pub(super) fn rest_is_comment(&self) -> bool {
        let mut ahead = 0;
        while self.cursor.is_blank(ahead) {
            ahead += 1;
        }
        self.cursor.byte(ahead).is_none_or(|byte| byte == b'#') || self.cursor.is_break(ahead)
    }

    /// A scalar in single or double quotes.
    pub(super) fn quoted_scalar(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        let double = self.cursor.is(b'"');
        let quote = if double { b'"' } else { b'\'' };
        self.cursor.next();
        let mut text = String::new();
        let mut space = Space::default();
        loop {
            if [b'-', b'.'].into_iter().any(|of| self.cursor.is_document_indicator(of)) {
                return Err(SyntaxError::scan("found unexpected document indicator", self.cursor.mark()));
            }
            if self.cursor.is_end() {
                let error = SyntaxError::scan("found unexpected end of stream", self.cursor.mark());
                // What is to be mended is where the quote opens.
                return Err(SyntaxError { at: start, ..error });
            }
            // After an escaped line break, the blanks and line breaks that follow are folded without it.
            let mut escaped_break = false;
            while !self.cursor.ends_word(0) {
                if self.cursor.is(quote) && (double || self.cursor.byte(1) != Some(quote)) {
                    break;
                }
                if self.cursor.is(quote) {
                    self.cursor.next();
                } else if double && self.cursor.is(b'\\') {
                    self.cursor.next();
                    if self.cursor.next_line().is_some() {
                        escaped_break = true;
                        break;
                    }
                    text.push(self.escape()?);
                    continue;
                }
                text.extend(self.cursor.next());
            }
            if self.cursor.is(quote) {
                break;
            }
            loop {
                if self.cursor.is_blank(0) {
                    let blank = self.cursor.next().filter(|_| !escaped_break);
                    blank.into_iter().for_each(|blank| space.blank(blank));
                } else if let Some(line_break) = self.cursor.next_line() {
                    match escaped_break {
                        true => space.more.push(line_break),
                        false => space.line(line_break),
                    }
                } else {
                    break;
                }
            }
            match escaped_break {
                true => text.push_str(&std::mem::take(&mut space.more)),
                false => space.fold_into(&mut text),
            }
        }
        self.cursor.next();
        self.push(TokenKind::Scalar { text, plain: false }, start);
        Ok(())
    }

    /// The character that an escape stands for, after its backslash.
    fn escape(&mut self) -> Scanned<char> {
        let before = self.cursor.mark();
        let digits = match self.cursor.next() {
            Some('0') => return Ok('\0'),
            Some('a') => return Ok('\x07'),
            Some('b') => return Ok('\x08'),
            Some('t' | '\t') => return Ok('\t'),
            Some('n') => return Ok('\n'),
            Some('v') => return Ok('\x0b'),
            Some('f') => return Ok('\x0c'),
            Some('r') => return Ok('\r'),
            Some('e') => return Ok('\x1b'),
            Some('N') => return Ok('\u{85}'),
            Some('_') => return Ok('\u{a0}'),
            Some('L') => return Ok('\u{2028}'),
            Some('P') => return Ok('\u{2029}'),
            // JSON escapes the slash; yaml.v2 does not know that escape.
            Some(c @ (' ' | '"' | '\'' | '\\' | '/')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(SyntaxError::scan("found unknown escape character", before)),
        };
        let mut value: u32 = 0;
        for ahead in 0..digits {
            let digit = self.cursor.byte(ahead).and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                let problem = "did not find expected hexdecimal number";
                return Err(SyntaxError::scan(problem, self.cursor.mark()));
            };
            value = (value << 4) | digit;
        }
        let Some(c) = char::from_u32(value) else {
            return Err(SyntaxError::scan("found invalid Unicode character escape code", self.cursor.mark()));
        };
        self.cursor.skip(digits);
        Ok(c)
    }

    /// A literal (`|`) or folded (`>`) scalar.
    pub(super) fn block_scalar(&mut self) -> Scanned<()> {
        let start = self.cursor.mark();
        let literal = self.cursor.is(b'|');
        self.cursor.next();
        let (chomping, increment) = self.block_header()?;
        self.end_of_comment()?;
        let mut end = self.cursor.mark();
        // With a given indentation, relative to the block collection that contains the scalar.
        let mut indent = increment.map(|increment| self.indents.last().copied().unwrap_or(0) + increment);
        let mut text = String::new();
        let mut line_break: Option<char> = None;
        let mut more = String::new();
        let mut after_blank = false;
        self.block_breaks(&mut indent, &mut more, &mut end)?;
        while Some(self.cursor.column()) == indent && !self.cursor.is_end() {
            let starts_blank = self.cursor.is_blank(0);
            // Between two lines that start with text, a folded line break is a space.
            let folds = !literal && !after_blank && !starts_blank && line_break == Some('\n');
            match line_break.take() {
                Some(_) if folds && more.is_empty() => text.push(' '),
                Some(_) if folds => {}
                other => text.extend(other),
            }
            text.push_str(&std::mem::take(&mut more));
            after_blank = starts_blank;
            while !self.cursor.ends_line() {
                text.extend(self.cursor.next());
            }
            line_break = self.cursor.next_line();
            self.block_breaks(&mut indent, &mut more, &mut end)?;
        }
        if chomping != Chomping::Strip {
            text.extend(line_break);
        }
        if chomping == Chomping::Keep {
            text.push_str(&more);
        }
        self.tokens.push_back(super::Token { kind: TokenKind::Scalar { text, plain: false }, start, end });
        Ok(())
    }

    /// The indicators after `|` or `>`, in any order: chomping and indentation.
    fn block_header(&mut self) -> Scanned<(Chomping, Option<u32>)> {
        let mut chomping = None;
        let mut indent = None;
        loop {
            match self.cursor.byte(0) {
                Some(sign @ (b'+' | b'-')) if chomping.is_none() => {
                    chomping = Some(if sign == b'+' { Chomping::Keep } else { Chomping::Strip });
                }
                Some(b'0') if indent.is_none() => {
                    let problem = "found an indentation indicator equal to 0";
                    return Err(SyntaxError::scan(problem, self.cursor.mark()));
                }
                Some(digit @ b'1'..=b'9') if indent.is_none() => indent = Some(u32::from(digit - b'0')),
                _ => return Ok((chomping.unwrap_or(Chomping::Clip), indent)),
            }
            self.cursor.next();
        }
    }

    /// Skips indentation and empty lines, whose line breaks are appended to `breaks`. Unless it is known, the indentation becomes
    /// that of the first line with text, at least that of the containing block collection.
    fn block_breaks(
        &mut self,
        indent: &mut Option<u32>,
        breaks: &mut String,
        end: &mut super::Mark,
    ) -> Scanned<()> {
        *end = self.cursor.mark();
        let mut deepest = 0;
        loop {
            let is_indentation = |column: u32| indent.is_none_or(|indent| column < indent);
            while is_indentation(self.cursor.column()) && self.cursor.is(b' ') {
                self.cursor.next();
            }
            deepest = deepest.max(self.cursor.column());
            if is_indentation(self.cursor.column()) && self.cursor.is(b'\t') {
                let problem = "found a tab character where an indentation space is expected";
                return Err(SyntaxError::scan(problem, self.cursor.mark()));
            }
            let Some(line_break) = self.cursor.next_line() else { break };
            breaks.push(line_break);
            *end = self.cursor.mark();
        }
        indent.get_or_insert(deepest.max(self.inner_column()).max(1));
        Ok(())
    }
}
