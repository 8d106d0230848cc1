//! Text -> tokens, by Go's lexical rules, including automatic semicolons.

use std::sync::LazyLock;

/// A range of the text: byte offsets, end exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// The text between the two offsets.
    pub(super) fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or("")
    }

    /// From the start of this to the end of `last`.
    pub(super) fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end }
    }
}

/// The kind of a token. Its text is that of its span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    End,
    /// A newline or end of text that ends the expression; not an explicit `;`.
    Terminator,
    Identifier,
    Keyword,
    Integer,
    Float,
    Imaginary,
    Character,
    String,
    /// Operators and punctuation, including `;`.
    Operator,
}

/// One token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

/// A problem with the text, at a byte offset.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) offset: usize,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl SyntaxError {
    /// Boxed to keep the frames of recursive functions small.
    pub(super) fn new(offset: usize, message: impl Into<String>) -> Box<SyntaxError> {
        Box::new(SyntaxError { offset, message: message.into(), hint: None })
    }
}

/// Words that are never identifiers.
const KEYWORDS: [&str; 25] = [
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "type",
    "var",
];

/// Whether `name` is a keyword of the classic language, which cannot be a segment of an attribute name.
pub fn is_keyword(name: &str) -> bool {
    KEYWORDS.binary_search(&name).is_ok()
}

/// Longest first: the first match is the longest.
const OPERATORS: [&str; 48] = [
    "<<=", ">>=", "&^=", "...", "&&", "||", "<-", "++", "--", "==", "!=", "<=", ">=", ":=", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "<<", ">>", "&^", "+", "-", "*", "/", "%", "&", "|", "^", "<", ">", "=",
    "!", "(", ")", "[", "]", "{", "}", ",", ";", ".", ":", "~",
];

const BYTE_ORDER_MARK: char = '\u{feff}';

static LETTER: LazyLock<Option<regex::Regex>> = LazyLock::new(|| regex::Regex::new(r"\A\p{L}").ok());
static IDENTIFIER_REST: LazyLock<Option<regex::Regex>> =
    LazyLock::new(|| regex::Regex::new(r"\A[\p{L}_\p{Nd}]*").ok());

/// Iterates over the tokens of a text.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    offset: usize,
    /// Whether a newline here would end the expression.
    may_end: bool,
}

impl<'t> Lexer<'t> {
    /// Starts at the beginning of `text`.
    pub(super) fn new(text: &'t str) -> Self {
        let offset = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        Lexer { text, offset, may_end: false }
    }

    /// The next token; [`TokenKind::End`] after the last.
    pub(super) fn next(&mut self) -> Result<Token, Box<SyntaxError>> {
        if let Some(terminator) = self.skip_blanks()? {
            return Ok(terminator);
        }
        let start = self.offset;
        let Some(first) = self.rest().chars().next() else {
            return Ok(self.token(TokenKind::End, start));
        };
        let kind = match first {
            '0'..='9' => self.number()?,
            '.' if self.rest().as_bytes().get(1).is_some_and(u8::is_ascii_digit) => self.number()?,
            '"' => self.quoted('"', start)?,
            '\'' => self.character(start)?,
            '`' => self.raw_string(start)?,
            _ if is_letter(first, self.rest()) => self.identifier(),
            _ => self.operator(first, start)?,
        };
        let token = self.token(kind, start);
        self.may_end = match kind {
            TokenKind::Operator => matches!(token.span.of(self.text), "++" | "--" | ")" | "]" | "}"),
            TokenKind::Keyword => {
                matches!(token.span.of(self.text), "break" | "continue" | "fallthrough" | "return")
            }
            _ => true,
        };
        Ok(token)
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.offset..).unwrap_or("")
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token { kind, span: Span { start, end: self.offset } }
    }

    /// Skips white space and comments; returns a terminator if they end the expression.
    fn skip_blanks(&mut self) -> Result<Option<Token>, Box<SyntaxError>> {
        let mut start = self.offset;
        loop {
            let rest = self.rest();
            if rest.starts_with('\n') || rest.is_empty() {
                if self.may_end {
                    self.may_end = false;
                    return Ok(Some(Token {
                        kind: TokenKind::Terminator,
                        span: Span { start: self.offset, end: self.offset },
                    }));
                }
                if rest.is_empty() {
                    return Ok(None);
                }
                self.offset += 1;
            } else if rest.starts_with([' ', '\t', '\r']) {
                self.offset += 1;
            } else if rest.starts_with("//") {
                self.offset += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(length) = comment.find("*/") else {
                    return Err(SyntaxError::new(self.offset, "comment not terminated"));
                };
                let newline = comment.get(..length).is_some_and(|c| c.contains('\n'));
                start = self.offset;
                self.offset += length + 4;
                if newline && self.may_end {
                    self.may_end = false;
                    return Ok(Some(Token { kind: TokenKind::Terminator, span: Span { start, end: start } }));
                }
            } else {
                debug_assert!(start <= self.offset);
                return Ok(None);
            }
        }
    }

    fn identifier(&mut self) -> TokenKind {
        let rest = self.rest();
        let ascii = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let length = if rest.as_bytes().get(ascii).is_some_and(|b| !b.is_ascii()) {
            IDENTIFIER_REST.as_ref().and_then(|r| r.find(rest)).map_or(ascii, |m| m.end())
        } else {
            ascii
        };
        self.offset += length;
        match rest.get(..length) {
            Some(name) if is_keyword(name) => TokenKind::Keyword,
            _ => TokenKind::Identifier,
        }
    }

    fn operator(&mut self, first: char, start: usize) -> Result<TokenKind, Box<SyntaxError>> {
        if let Some(operator) = OPERATORS.iter().find(|o| self.rest().starts_with(**o)) {
            self.offset += operator.len();
            return Ok(TokenKind::Operator);
        }
        let mut error = match first {
            '\0' => SyntaxError::new(start, "illegal character NUL"),
            BYTE_ORDER_MARK => SyntaxError::new(start, "illegal byte order mark"),
            _ => SyntaxError::new(
                start,
                format!("illegal character U+{:04X} {}", u32::from(first), quoted_character(first)),
            ),
        };
        error.hint = match first {
            '“' | '”' | '„' | '«' | '»' => {
                Some("write strings between plain quotation marks: \"text\"".into())
            }
            '‘' | '’' => Some("write strings between plain quotation marks: \"text\"".into()),
            '\u{a0}' => Some("replace the no-break space by a plain space".into()),
            '$' if self.rest().starts_with("${") || self.rest().starts_with("$(") => {
                Some("a variable was not filled in: write what it stands for".into())
            }
            '$' => Some("write the name of an attribute without `$`".into()),
            '?' => {
                Some("write conditional(test, a, b) instead of test ? a : b, and a | b for a default".into())
            }
            _ => None,
        };
        Err(error)
    }

    fn raw_string(&mut self, start: usize) -> Result<TokenKind, Box<SyntaxError>> {
        let body = self.rest().get(1..).unwrap_or("");
        let Some(length) = body.find('`') else {
            return Err(SyntaxError::new(start, "raw string literal not terminated"));
        };
        self.offset += length + 2;
        Ok(TokenKind::String)
    }

    fn quoted(&mut self, quote: char, start: usize) -> Result<TokenKind, Box<SyntaxError>> {
        self.offset += 1;
        loop {
            match self.rest().chars().next() {
                None | Some('\n') => return Err(SyntaxError::new(start, "string literal not terminated")),
                Some('\\') => self.escape(quote)?,
                Some(c) => {
                    self.offset += c.len_utf8();
                    if c == quote {
                        return Ok(TokenKind::String);
                    }
                }
            }
        }
    }

    fn character(&mut self, start: usize) -> Result<TokenKind, Box<SyntaxError>> {
        self.offset += 1;
        let mut characters = 0;
        loop {
            match self.rest().chars().next() {
                None | Some('\n') => {
                    return Err(SyntaxError::new(start, "rune literal not terminated"));
                }
                Some('\'') => {
                    self.offset += 1;
                    if characters == 1 {
                        return Ok(TokenKind::Character);
                    }
                    let mut error = SyntaxError::new(start, "illegal rune literal");
                    error.hint = Some("write strings between double quotes: \"text\"".into());
                    return Err(error);
                }
                Some('\\') => self.escape('\'')?,
                Some(c) => self.offset += c.len_utf8(),
            }
            characters += 1;
        }
    }

    /// Skips a valid escape sequence.
    fn escape(&mut self, quote: char) -> Result<(), Box<SyntaxError>> {
        let start = self.offset;
        self.offset += 1;
        let Some(c) = self.rest().chars().next() else {
            return Err(SyntaxError::new(start, "escape sequence not terminated"));
        };
        let (digits, base, maximum) = match c {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => {
                self.offset += 1;
                return Ok(());
            }
            _ if c == quote => {
                self.offset += 1;
                return Ok(());
            }
            '0'..='7' => (3, 8, 255),
            'x' => (2, 16, 255),
            'u' => (4, 16, u32::from(char::MAX)),
            'U' => (8, 16, u32::from(char::MAX)),
            _ => return Err(SyntaxError::new(start, "unknown escape sequence")),
        };
        if base == 16 {
            self.offset += 1;
        }
        let mut value: u32 = 0;
        for _ in 0..digits {
            let Some(c) = self.rest().chars().next() else {
                return Err(SyntaxError::new(self.offset, "escape sequence not terminated"));
            };
            let Some(digit) = c.to_digit(base) else {
                let message = format!(
                    "illegal character U+{:04X} {} in escape sequence",
                    u32::from(c),
                    quoted_character(c)
                );
                return Err(SyntaxError::new(self.offset, message));
            };
            value = value.saturating_mul(base).saturating_add(digit);
            self.offset += 1;
        }
        if value > maximum || (0xd800..0xe000).contains(&value) {
            return Err(SyntaxError::new(start, "escape sequence is invalid Unicode code point"));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<TokenKind, Box<SyntaxError>> {
        let start = self.offset;
        let bytes = self.rest().as_bytes();
        let (base, name, prefix) = match bytes {
            [b'0', b'x' | b'X', ..] => (16, "hexadecimal", 2),
            [b'0', b'o' | b'O', ..] => (8, "octal", 2),
            [b'0', b'b' | b'B', ..] => (2, "binary", 2),
            [b'0', ..] => (8, "octal", 0),
            _ => (10, "decimal", 0),
        };
        self.offset += prefix;
        let mut invalid = None;
        let mut digits = self.digits(if prefix == 0 { 10 } else { base }, base, &mut invalid);
        let mut kind = TokenKind::Integer;
        if self.rest().starts_with('.') {
            kind = TokenKind::Float;
            if matches!(name, "octal" | "binary") && prefix == 2 {
                return Err(SyntaxError::new(self.offset, format!("invalid radix point in {name} literal")));
            }
            self.offset += 1;
            digits += self.digits(if base == 16 { 16 } else { 10 }, 16, &mut None);
        }
        if digits == 0 {
            return Err(SyntaxError::new(start, format!("{name} literal has no digits")));
        }
        if self.exponent(base, prefix, name)? {
            kind = TokenKind::Float;
        } else if kind == TokenKind::Float && base == 16 {
            return Err(SyntaxError::new(start, "hexadecimal mantissa requires a 'p' exponent"));
        }
        if self.rest().starts_with('i') {
            self.offset += 1;
            kind = TokenKind::Imaginary;
        }
        if kind == TokenKind::Integer
            && let Some((offset, digit)) = invalid
        {
            let message = format!("invalid digit '{}' in {name} literal", char::from(digit));
            return Err(SyntaxError::new(offset, message));
        }
        let literal = self.text.get(start..self.offset).unwrap_or("");
        if let Some(at) = misplaced_separator(literal) {
            return Err(SyntaxError::new(start + at, "'_' must separate successive digits"));
        }
        Ok(kind)
    }

    /// Skips digits of base `accepted` and separators; records the first digit that is invalid in base `base`.
    fn digits(&mut self, accepted: u32, base: u32, invalid: &mut Option<(usize, u8)>) -> usize {
        let mut count = 0;
        // Decimal digits are accepted in every base, to report invalid ones as such.
        let accepted = accepted.max(10);
        while let Some(byte) = self.rest().bytes().next() {
            if byte != b'_' {
                if !char::from(byte).is_digit(accepted) {
                    break;
                }
                if !char::from(byte).is_digit(base) && invalid.is_none() {
                    *invalid = Some((self.offset, byte));
                }
                count += 1;
            }
            self.offset += 1;
        }
        count
    }

    fn exponent(&mut self, base: u32, prefix: usize, name: &str) -> Result<bool, Box<SyntaxError>> {
        let Some(mark @ (b'e' | b'E' | b'p' | b'P')) = self.rest().bytes().next() else {
            return Ok(false);
        };
        let binary = mark.eq_ignore_ascii_case(&b'p');
        let needed = if binary { "hexadecimal" } else { "decimal" };
        if binary != (base == 16) || (!binary && prefix == 2) {
            let message = format!("'{}' exponent requires {needed} mantissa", char::from(mark));
            debug_assert!(!name.is_empty());
            return Err(SyntaxError::new(self.offset, message));
        }
        let start = self.offset;
        self.offset += 1;
        if self.rest().starts_with(['+', '-']) {
            self.offset += 1;
        }
        if self.digits(10, 10, &mut None) == 0 {
            return Err(SyntaxError::new(start, "exponent has no digits"));
        }
        Ok(true)
    }
}

fn is_letter(c: char, rest: &str) -> bool {
    c == '_'
        || c.is_ascii_alphabetic()
        || (!c.is_ascii() && LETTER.as_ref().is_some_and(|r| r.is_match(rest)))
}

/// The position of a `_` that is neither between two digits nor between a base prefix and a digit.
fn misplaced_separator(literal: &str) -> Option<usize> {
    let bytes = literal.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let prefix = |at: usize| at == 1 && matches!(bytes, [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..]);
    bytes.iter().enumerate().find_map(|(at, byte)| {
        let good = *byte != b'_' || (at > 0 && (digit(at - 1) || prefix(at - 1)) && digit(at + 1));
        (!good).then_some(at)
    })
}

fn quoted_character(c: char) -> String {
    match c {
        '\'' => "'\\''".into(),
        '\\' => "'\\\\'".into(),
        c if c.is_control() || matches!(c, '\u{a0}' | '\u{2028}' | '\u{2029}' | BYTE_ORDER_MARK) => {
            format!("'\\u{:04x}'", u32::from(c))
        }
        c => format!("'{c}'"),
    }
}
