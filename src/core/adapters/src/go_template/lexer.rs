//! Texts and the words of actions.

/// A token, and the line on which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) line: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// Outside of actions.
    Text(String),
    /// `{{`
    Open,
    /// `}}`
    Close,
    /// `.` alone, or `.name` without its dot. `true`: it directly follows what is before it.
    Field(String, bool),
    /// `$`
    Root,
    Word(String),
    String(String),
    Number(String),
    Char(char),
    Pipe,
    Left,
    /// `)`
    Right,
}

/// An error, and its line.
pub(super) type Failure = (usize, String);

/// All tokens of a template.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Failure> {
    let mut lexer = Lexer { rest: text, line: 1, tokens: Vec::new() };
    lexer.run()?;
    Ok(lexer.tokens)
}

struct Lexer<'t> {
    rest: &'t str,
    line: usize,
    tokens: Vec<Token>,
}

impl<'t> Lexer<'t> {
    fn run(&mut self) -> Result<(), Failure> {
        let mut trims = false;
        loop {
            let (text, action) = match self.rest.split_once("{{") {
                Some((text, action)) => (text, Some(action)),
                None => (self.rest, None),
            };
            let mut shown = if trims { text.trim_start_matches(is_space) } else { text };
            // `{{- ` trims what is before it.
            let trims_before = action.is_some_and(|action| is_trim_marker(action.strip_prefix('-')));
            if trims_before {
                shown = shown.trim_end_matches(is_space);
            }
            if !shown.is_empty() {
                self.push(Kind::Text(shown.to_owned()));
            }
            self.count(text);
            let Some(action) = action else { return Ok(()) };
            self.rest = if trims_before { action.get(1..).unwrap_or("") } else { action };
            trims = self.action(trims_before)?;
        }
    }

    /// Returns whether the text after the action is trimmed.
    fn action(&mut self, trims_before: bool) -> Result<bool, Failure> {
        // Only a trim marker may come before a comment, with one space.
        let start = if trims_before { self.rest.get(1..).unwrap_or("") } else { self.rest };
        let comment = start.strip_prefix("/*");
        if let Some(comment) = comment {
            let (text, after) = comment.split_once("*/").ok_or((self.line, "unclosed comment".to_owned()))?;
            self.count(text);
            let trimmed = after
                .trim_start_matches(is_space)
                .strip_prefix("-}}")
                .filter(|_| after.starts_with(is_space));
            self.rest = trimmed
                .or_else(|| after.strip_prefix("}}"))
                .ok_or((self.line, "comment ends before closing delimiter".to_owned()))?;
            return Ok(trimmed.is_some());
        }
        self.push(Kind::Open);
        let mut follows = false;
        loop {
            let spaces = self.rest.len() - self.rest.trim_start_matches(is_space).len();
            if spaces > 0 {
                let (skipped, rest) = self.rest.split_at(spaces);
                self.count(skipped);
                self.rest = rest;
                follows = false;
                if let Some(after) = self.rest.strip_prefix("-}}") {
                    self.push(Kind::Close);
                    self.rest = after;
                    return Ok(true);
                }
            }
            if let Some(after) = self.rest.strip_prefix("}}") {
                self.push(Kind::Close);
                self.rest = after;
                return Ok(false);
            }
            self.token(follows)?;
            follows = true;
        }
    }

    fn token(&mut self, follows: bool) -> Result<(), Failure> {
        let line = self.line;
        let Some(first) = self.rest.chars().next() else { return Err((line, "unclosed action".to_owned())) };
        let after = self.rest.get(first.len_utf8()..).unwrap_or("");
        let kind = match first {
            '|' => self.single(Kind::Pipe, after),
            '(' => self.single(Kind::Left, after),
            ')' => self.single(Kind::Right, after),
            '"' => return self.quoted(after),
            '`' => {
                let (text, after) =
                    after.split_once('`').ok_or((line, "unterminated raw quoted string".to_owned()))?;
                self.rest = after;
                self.push(Kind::String(text.to_owned()));
                self.count(text);
                return Ok(());
            }
            '\'' => {
                let (text, after) =
                    after.split_once('\'').ok_or((line, "unterminated character constant".to_owned()))?;
                let mut characters = text.chars();
                let one = characters.next().filter(|_| characters.next().is_none());
                self.rest = after;
                Kind::Char(one.ok_or((line, format!("malformed character constant: '{text}'")))?)
            }
            '.' if !after.starts_with(|c: char| c.is_ascii_digit()) => {
                let name = self.take_word(after);
                Kind::Field(name, follows)
            }
            '+' | '-' | '.' | '0'..='9' => {
                let end = after
                    .find(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'))
                    .unwrap_or(after.len());
                let (number, after) =
                    (self.rest.get(..first.len_utf8() + end).unwrap_or(""), after.get(end..).unwrap_or(""));
                let number = number.to_owned();
                self.rest = after;
                Kind::Number(number)
            }
            c if c.is_alphabetic() || c == '_' => {
                let rest = self.rest;
                Kind::Word(self.take_word(rest))
            }
            '$' if !after.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                self.single(Kind::Root, after)
            }
            '$' => return Err((line, "variables are not supported".to_owned())),
            c => return Err((line, format!("unexpected {c:?} in command"))),
        };
        self.tokens.push(Token { kind, line });
        Ok(())
    }

    fn single(&mut self, kind: Kind, after: &'t str) -> Kind {
        self.rest = after;
        kind
    }

    /// The letters and digits at the beginning.
    fn take_word(&mut self, text: &'t str) -> String {
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
        let (word, after) = text.split_at(end);
        self.rest = after;
        word.to_owned()
    }

    /// A string in double quotes, with Go's escapes.
    fn quoted(&mut self, text: &'t str) -> Result<(), Failure> {
        let unterminated = || (self.line, "unterminated quoted string".to_owned());
        let mut value = String::new();
        let mut characters = text.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = text.get(at + 1..).unwrap_or("");
                    self.push(Kind::String(value));
                    return Ok(());
                }
                '\n' => return Err(unterminated()),
                '\\' => {
                    let (_, escape) = characters.next().ok_or_else(unterminated)?;
                    let digits = match escape {
                        'n' => Err('\n'),
                        't' => Err('\t'),
                        'r' => Err('\r'),
                        '\\' | '"' => Err(escape),
                        'x' => Ok(2),
                        'u' => Ok(4),
                        'U' => Ok(8),
                        _ => return Err((self.line, "invalid syntax".to_owned())),
                    };
                    value.push(match digits {
                        Err(character) => character,
                        Ok(count) => {
                            let hex: String =
                                characters.by_ref().take(count).map(|(_, digit)| digit).collect();
                            let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                            code.ok_or((self.line, "invalid syntax".to_owned()))?
                        }
                    });
                }
                other => value.push(other),
            }
        }
        Err(unterminated())
    }

    fn push(&mut self, kind: Kind) {
        self.tokens.push(Token { kind, line: self.line });
    }

    fn count(&mut self, text: &str) {
        self.line += text.matches('\n').count();
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Whether white space follows a hyphen.
fn is_trim_marker(after_hyphen: Option<&str>) -> bool {
    after_hyphen.is_some_and(|after| after.starts_with(is_space))
}
