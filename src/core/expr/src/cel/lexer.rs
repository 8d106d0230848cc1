//! CEL tokens.

use super::source::Problem;

/// A token and its position, in characters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind<'t>,
    pub(super) at: u32,
}

/// The kind of a token. Texts include quotes and prefixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TokenKind<'t> {
    Ident(&'t str),
    Int(&'t str),
    Uint(&'t str),
    Float(&'t str),
    String(&'t str),
    Bytes(&'t str),
    /// Operators, brackets, and the keywords `in`, `true`, `false`, `null`.
    Mark(&'static str),
    End,
}

impl TokenKind<'_> {
    /// The token in error texts.
    pub(super) fn text(&self) -> &str {
        match self {
            TokenKind::Ident(text)
            | TokenKind::Int(text)
            | TokenKind::Uint(text)
            | TokenKind::Float(text)
            | TokenKind::String(text)
            | TokenKind::Bytes(text) => text,
            TokenKind::Mark(text) => text,
            TokenKind::End => "<EOF>",
        }
    }
}

/// Longest first.
const MARKS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

const WORDS: [&str; 4] = ["in", "true", "false", "null"];

/// Tokenizes `text`; the last token is [`TokenKind::End`]. Offsets start at `at`.
pub(super) fn tokens(text: &str, at: u32) -> Result<Vec<Token<'_>>, Problem> {
    let mut lexer = Lexer { rest: text, at };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let kind = lexer.token()?;
        tokens.push(Token { kind, at });
        if kind == TokenKind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    rest: &'t str,
    at: u32,
}

impl<'t> Lexer<'t> {
    fn skip_blanks(&mut self) {
        loop {
            let blanks =
                self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r', '\n', '\x0c']).len();
            self.take(blanks);
            if !self.rest.starts_with("//") {
                return;
            }
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    /// Consumes `bytes` bytes, up to a character boundary.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        self.at = self.at.saturating_add(u32::try_from(taken.chars().count()).unwrap_or(u32::MAX));
        taken
    }

    fn token(&mut self) -> Result<TokenKind<'t>, Problem> {
        let Some(first) = self.rest.bytes().next() else { return Ok(TokenKind::End) };
        let second = self.rest.as_bytes().get(1).copied().unwrap_or(0);
        if first.is_ascii_digit() || (first == b'.' && second.is_ascii_digit()) {
            return Ok(self.number());
        }
        if let Some(length) = string_prefix(self.rest) {
            return self.string(length);
        }
        if first.is_ascii_alphabetic() || first == b'_' {
            let length = span(self.rest, |b| b.is_ascii_alphanumeric() || b == b'_');
            let word = self.take(length);
            return Ok(match WORDS.into_iter().find(|w| *w == word) {
                Some(word) => TokenKind::Mark(word),
                None => TokenKind::Ident(word),
            });
        }
        match MARKS.into_iter().find(|mark| self.rest.starts_with(mark)) {
            Some(mark) => {
                self.take(mark.len());
                Ok(TokenKind::Mark(mark))
            }
            None => Err(self.unknown()),
        }
    }

    fn number(&mut self) -> TokenKind<'t> {
        let hex = self.rest.strip_prefix("0x").map_or(0, |rest| span(rest, |b| b.is_ascii_hexdigit()));
        let (length, is_float) = match hex {
            0 => decimal(self.rest),
            digits => (digits + 2, false),
        };
        if is_float {
            return TokenKind::Float(self.take(length));
        }
        match self.rest.as_bytes().get(length) {
            Some(b'u' | b'U') => TokenKind::Uint(self.take(length + 1)),
            _ => TokenKind::Int(self.take(length)),
        }
    }

    /// A string or bytes literal with a prefix of `prefix` letters.
    fn string(&mut self, prefix: usize) -> Result<TokenKind<'t>, Problem> {
        let (letters, quoted) = self.rest.split_at_checked(prefix).unwrap_or((self.rest, ""));
        let is_raw = letters.ends_with(['r', 'R']);
        let Some(length) = quoted_length(quoted, is_raw) else { return Err(self.unterminated(prefix)) };
        let is_bytes = letters.starts_with(['b', 'B']);
        let text = self.take(prefix + length);
        Ok(if is_bytes { TokenKind::Bytes(text) } else { TokenKind::String(text) })
    }

    fn unterminated(&self, prefix: usize) -> Problem {
        let at = self.at.saturating_add(u32::try_from(prefix).unwrap_or(0));
        let rest = self.rest.get(prefix..).unwrap_or("");
        Problem::new(at, format!("Syntax error: token recognition error at: '{rest}'")).with_hint(
            "close the string with the quote that opens it, on the same line, and use only known escapes",
        )
    }

    fn unknown(&self) -> Problem {
        let mut characters = self.rest.chars();
        let first = characters.next().unwrap_or(' ');
        // A single `|`, `&` or `=` is an incomplete operator.
        let shown: String = match first {
            '|' | '&' | '=' => self.rest.chars().take(2).collect(),
            _ => first.to_string(),
        };
        let problem = Problem::new(self.at, format!("Syntax error: token recognition error at: '{shown}'"));
        match first {
            '|' => {
                problem.with_hint("CEL has no `|`; write pick(a, b) for the first present value, `||` for or")
            }
            '&' => problem.with_hint("write `&&` for and"),
            '=' => problem.with_hint("write `==` to compare"),
            '`' => problem.with_hint("write strings as \"…\" or r\"…\""),
            _ => problem,
        }
    }
}

/// The number of leading bytes of `text` that satisfy `accepts`.
fn span(text: &str, accepts: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|b| accepts(*b)).count()
}

/// The length of a decimal number and whether it is floating point.
fn decimal(text: &str) -> (usize, bool) {
    let digits = |from: usize| span(text.get(from..).unwrap_or(""), |b| b.is_ascii_digit());
    let mut length = digits(0);
    let mut is_float = false;
    if text.get(length..).is_some_and(|rest| rest.starts_with('.')) && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
        is_float = true;
    }
    if text.get(length..).is_some_and(|rest| rest.starts_with(['e', 'E'])) {
        let sign = usize::from(text.get(length + 1..).is_some_and(|rest| rest.starts_with(['+', '-'])));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
            is_float = true;
        }
    }
    (length, is_float)
}

/// The length of the prefix, if the text starts with a string or bytes literal.
fn string_prefix(text: &str) -> Option<usize> {
    let is_quote = |b: Option<&u8>| matches!(b, Some(b'"' | b'\''));
    match text.as_bytes() {
        bytes if is_quote(bytes.first()) => Some(0),
        [b'r' | b'R' | b'b' | b'B', rest @ ..] if is_quote(rest.first()) => Some(1),
        [b'b' | b'B', b'r' | b'R', rest @ ..] if is_quote(rest.first()) => Some(2),
        _ => None,
    }
}

/// The length of a quoted text with its quotes; `None` if it is not terminated or has an unknown escape.
fn quoted_length(text: &str, is_raw: bool) -> Option<usize> {
    let quote = text.get(..1)?;
    let triple = text.get(..3).filter(|three| *three == quote.repeat(3));
    let delimiter = triple.unwrap_or(quote);
    let mut length = delimiter.len();
    loop {
        let rest = text.get(length..)?;
        if rest.starts_with(delimiter) {
            return Some(length + delimiter.len());
        }
        length += match rest.bytes().next()? {
            b'\\' if !is_raw => escape_length(rest)?,
            b'\n' | b'\r' if triple.is_none() => return None,
            _ => rest.chars().next()?.len_utf8(),
        };
    }
}

/// The length of the escape sequence at the start of `text`.
fn escape_length(text: &str) -> Option<usize> {
    let digits = |from: usize, count: usize| {
        let part = text.as_bytes().get(from..from + count)?;
        part.iter().all(u8::is_ascii_hexdigit).then_some(from + count)
    };
    match text.as_bytes() {
        [_, b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`', ..] => {
            Some(2)
        }
        [_, b'x' | b'X', ..] => digits(2, 2),
        [_, b'u', ..] => digits(2, 4),
        [_, b'U', ..] => digits(2, 8),
        [_, b'0'..=b'3', b'0'..=b'7', b'0'..=b'7', ..] => Some(4),
        _ => None,
    }
}

/// The value of a string literal, or of a bytes literal without its `b`.
///
/// Escapes are code points, not bytes: `"\xff"` is U+00FF. Line ends become `\n`.
pub(super) fn unquote(literal: &str) -> Vec<u8> {
    let (is_raw, quoted) = match literal.strip_prefix(['r', 'R']) {
        Some(quoted) => (true, quoted),
        None => (false, literal),
    };
    let triple = quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\""));
    let margin = if triple { 3 } else { 1 };
    let inner = quoted.get(margin..quoted.len().saturating_sub(margin)).unwrap_or("");
    let inner = inner.replace("\r\n", "\n").replace('\r', "\n");
    if is_raw { inner.into_bytes() } else { unescape(&inner) }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        value.extend_from_slice(plain.as_bytes());
        let length = escape_length(escape).unwrap_or(escape.len()).max(1);
        let (escape, behind) = escape.split_at_checked(length).unwrap_or((escape, ""));
        push_escape(escape, &mut value);
        rest = behind;
    }
    value.extend_from_slice(rest.as_bytes());
    value
}

fn push_escape(escape: &str, value: &mut Vec<u8>) {
    let code = match escape.as_bytes() {
        [_, letter] => u32::from(match letter {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            other => *other,
        }),
        [_, b'x' | b'X' | b'u' | b'U', ..] => {
            u32::from_str_radix(escape.get(2..).unwrap_or(""), 16).unwrap_or(0)
        }
        _ => u32::from_str_radix(escape.get(1..).unwrap_or(""), 8).unwrap_or(0),
    };
    // compat(1.3): code points with the highest bit set become their lowest byte.
    if code > i32::MAX as u32 {
        value.push((code & 0xff) as u8);
        return;
    }
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Whether a literal has an escape above U+10FFFF.
pub(super) fn has_impossible_escape(literal: &str) -> bool {
    !literal.starts_with(['r', 'R'])
        && literal.match_indices("\\U").any(|(at, _)| {
            // After an even number of backslashes it is plain text.
            let before = literal.get(..at).map_or(0, |head| head.len() - head.trim_end_matches('\\').len());
            let digits = literal.get(at + 2..at + 10).unwrap_or("");
            before.is_multiple_of(2)
                && u32::from_str_radix(digits, 16)
                    .is_ok_and(|code| (0x11_0000..=i32::MAX as u32).contains(&code))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind<'_>> {
        tokens(text, 0).unwrap().into_iter().map(|t| t.kind).collect()
    }

    #[test]
    fn numbers_take_as_much_as_they_can() {
        use TokenKind::{End, Float, Ident, Int, Mark, Uint};
        for (text, expected) in [
            ("1.5e3", vec![Float("1.5e3"), End]),
            ("1.", vec![Int("1"), Mark("."), End]),
            ("1.e3", vec![Int("1"), Mark("."), Ident("e3"), End]),
            ("1e", vec![Int("1"), Ident("e"), End]),
            (".5.5", vec![Float(".5"), Float(".5"), End]),
            ("0x1fu", vec![Uint("0x1fu"), End]),
            ("0xg", vec![Int("0"), Ident("xg"), End]),
            ("12U", vec![Uint("12U"), End]),
        ] {
            assert_eq!(kinds(text), expected, "{text}");
        }
    }

    #[test]
    fn strings_have_many_forms() {
        for (text, value) in [
            (r#""a\x41""#, "aA"),
            (r#"'\101\u00e9'"#, "Aé"),
            (r#"r"raw\n""#, "raw\\n"),
            ("'''it's\r\n'''", "it's\n"),
            ("\"\"\"\"\"\"", ""),
            (r#""\xff""#, "ÿ"),
            (r#""\ud800""#, "\u{fffd}"),
        ] {
            assert_eq!(kinds(text).first().map(|k| k.text()), Some(text));
            assert_eq!(String::from_utf8(unquote(text)).unwrap(), value, "{text}");
        }
        assert_eq!(unquote("\"\\UFFFFFFFF\""), [0xff]);
        for text in ["\"a", "'a\nb'", r#""\d""#, r#""\400""#, "'''a''", r#""\u12""#] {
            assert!(tokens(text, 0).is_err(), "{text}");
        }
    }

    #[test]
    fn comments_and_blanks_vanish() {
        assert_eq!(kinds("// c\n a\x0c// d"), vec![TokenKind::Ident("a"), TokenKind::End]);
        assert!(tokens("a\u{a0}b", 0).is_err());
    }

    #[test]
    fn only_escapes_beyond_unicode_are_impossible() {
        assert!(has_impossible_escape(r#""\U00110000""#));
        assert!(!has_impossible_escape(r#""\U0010ffff""#));
        assert!(!has_impossible_escape(r#""\\U00110000""#));
        assert!(!has_impossible_escape(r#"r"\U00110000""#));
    }
}
