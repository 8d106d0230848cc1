//! EMAIL_ADDRESS: one RFC 5322 mailbox, as parsed by Go's net/mail.

use std::borrow::Cow;

use bumpalo::Bump;

use super::super::EvalError;
use super::dns;

/// Validates a mailbox without display name; returns the input.
///
/// Errors: `error converting '<s>' to e-mail: display names are not allowed`, or with `'<detail>'`.
pub fn email<'a>(text: &'a [u8], arena: &'a Bump) -> Result<&'a [u8], EvalError<'a>> {
    let detail = match Mailbox::parse(text) {
        Err(problem) => problem.to_owned(),
        Ok(mailbox) if mailbox.named => {
            return Err(EvalError::failed(
                arena,
                format_args!(
                    "error converting '{}' to e-mail: display names are not allowed",
                    String::from_utf8_lossy(text)
                ),
            ));
        }
        Ok(mailbox) => {
            let domain = mailbox.parts().1;
            match dns::checked(domain) {
                Ok(_) => return Ok(text),
                Err(problem) => {
                    let domain = String::from_utf8_lossy(domain);
                    format!("error converting '{domain}' to dns name: '{problem}'")
                }
            }
        }
    };
    Err(EvalError::failed(
        arena,
        format_args!("error converting '{}' to e-mail: '{detail}'", String::from_utf8_lossy(text)),
    ))
}

/// Whether two mailboxes are equal: local parts byte for byte, domains as DNS names. Display names are ignored.
///
/// Errors: an invalid mailbox, `mail: ...`; an invalid domain, `error comparing e-mails '<a>' and '<b>': ...`.
pub fn email_equal<'a>(a: &[u8], b: &[u8], arena: &'a Bump) -> Result<bool, EvalError<'a>> {
    let parse = |text| Mailbox::parse(text).map_err(EvalError::Failed);
    let (one, other) = (parse(a)?, parse(b)?);
    let ((local, domain), (other_local, other_domain)) = (one.parts(), other.parts());
    match dns::same_name(domain, other_domain) {
        Ok(same) => Ok(same && local == other_local),
        Err(problem) => Err(EvalError::failed(
            arena,
            format_args!(
                "error comparing e-mails '{}' and '{}': {problem}",
                String::from_utf8_lossy(a),
                String::from_utf8_lossy(b)
            ),
        )),
    }
}

struct Mailbox<'t> {
    /// Whether it has a display name.
    named: bool,
    /// `local@domain`, the local part without quotes.
    address: Cow<'t, [u8]>,
}

type Parsed<T> = Result<T, &'static str>;

const BAD_COMMENT: &str = "mail: misformatted parenthetical comment";

impl Mailbox<'_> {
    fn parse(text: &[u8]) -> Parsed<Mailbox<'_>> {
        let mut parser = Parser { rest: text };
        let mut found = parser.address(true)?;
        parser.skip_comments()?;
        if !parser.rest.is_empty() {
            return Err("mail: expected single address");
        }
        match (found.pop(), found.is_empty()) {
            (Some(mailbox), true) => Ok(mailbox),
            (None, _) => Err("mail: empty group"),
            (Some(_), false) => Err("mail: group with multiple addresses"),
        }
    }

    /// The parts before and after the first `@`.
    fn parts(&self) -> (&[u8], &[u8]) {
        let at = self.address.iter().position(|b| *b == b'@').unwrap_or(self.address.len());
        let (local, domain) = self.address.split_at(at);
        (local, domain.get(1..).unwrap_or_default())
    }
}

#[derive(Clone, Copy)]
struct Parser<'t> {
    rest: &'t [u8],
}

impl<'t> Parser<'t> {
    /// A mailbox; outside a group, also a group of mailboxes.
    fn address(&mut self, outside: bool) -> Parsed<Vec<Mailbox<'t>>> {
        self.skip_blanks();
        if self.rest.is_empty() {
            return Err("mail: no address");
        }
        let start = *self;
        if let Ok(address) = self.spec() {
            self.skip_blanks();
            let named = self.take(b'(') && !self.comment()?.iter().all(|b| matches!(b, b' ' | b'\t'));
            return Ok(vec![Mailbox { named, address }]);
        }
        *self = start;
        let (named, plain) = if self.rest.starts_with(b"<") { (false, false) } else { self.phrase()? };
        self.skip_blanks();
        if outside && self.take(b':') {
            return self.group();
        }
        if !self.take(b'<') {
            let missing = "mail: missing '@' or angle-addr";
            return Err(if plain { missing } else { "mail: no angle-addr" });
        }
        let address = self.spec()?;
        if !self.take(b'>') {
            return Err("mail: unclosed angle-addr");
        }
        Ok(vec![Mailbox { named, address }])
    }

    /// The members of a group, up to and including the semicolon.
    fn group(&mut self) -> Parsed<Vec<Mailbox<'t>>> {
        let mut members = Vec::new();
        self.skip_blanks();
        if self.take(b';') {
            self.skip_comments()?;
            return Ok(members);
        }
        loop {
            self.skip_blanks();
            members.extend(self.address(false)?);
            self.skip_comments()?;
            if self.take(b';') {
                self.skip_comments()?;
                return Ok(members);
            }
            if !self.take(b',') {
                return Err("mail: expected comma");
            }
        }
    }

    /// `local@domain`.
    fn spec(&mut self) -> Parsed<Cow<'t, [u8]>> {
        self.skip_blanks();
        let start = self.rest;
        let (local, quoted) = match start.first() {
            None => return Err("mail: no addr-spec"),
            Some(b'"') => match self.quoted_string()? {
                local if local.is_empty() => return Err("mail: empty quoted string in addr-spec"),
                local => (Cow::Owned(local), true),
            },
            Some(_) => (Cow::Borrowed(self.dot_atom()?), false),
        };
        if !self.take(b'@') {
            return Err("mail: missing @ in addr-spec");
        }
        let adjacent = !self.rest.starts_with(b" ") && !self.rest.starts_with(b"\t");
        self.skip_blanks();
        if self.rest.is_empty() {
            return Err("mail: no domain in addr-spec");
        }
        let domain = self.dot_atom()?;
        if !quoted && adjacent {
            return Ok(Cow::Borrowed(start.get(..local.len() + 1 + domain.len()).unwrap_or(start)));
        }
        Ok(Cow::Owned([&*local, b"@", domain].concat()))
    }

    fn dot_atom(&mut self) -> Parsed<&'t [u8]> {
        let atom = self.atom(false)?;
        if atom.starts_with(b".") {
            return Err("mail: leading dot in atom");
        }
        if atom.ends_with(b".") {
            return Err("mail: trailing dot in atom");
        }
        if atom.windows(2).any(|pair| pair == b"..") {
            return Err("mail: double dot in atom");
        }
        Ok(atom)
    }

    /// Atom characters and dots; in display names also most specials.
    fn atom(&mut self, permissive: bool) -> Parsed<&'t [u8]> {
        let mut length = 0;
        while let Some((c, size)) = character(self.rest.get(length..).unwrap_or_default())? {
            if !is_atom_character(c, permissive) {
                break;
            }
            length += size;
        }
        if length == 0 {
            return Err("mail: invalid string");
        }
        let (atom, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(atom)
    }

    /// A quoted string, at its opening quote; returns the unescaped content.
    fn quoted_string(&mut self) -> Parsed<Vec<u8>> {
        let mut text = Vec::new();
        let mut rest = self.rest.get(1..).unwrap_or_default();
        let mut escaped = false;
        loop {
            let Some((c, size)) = character(rest)? else { return Err("mail: unclosed quoted-string") };
            let (bytes, after) = rest.split_at(size);
            rest = after;
            match c {
                '"' if !escaped => {
                    self.rest = rest;
                    return Ok(text);
                }
                '\\' if !escaped => escaped = true,
                ' ' | '\t' | '!'..='~' | '\u{80}'.. => {
                    text.extend_from_slice(bytes);
                    escaped = false;
                }
                _ => return Err("mail: bad character in quoted-string"),
            }
        }
    }

    /// A display name: whether it is not empty, and whether it could be the local part of an address.
    fn phrase(&mut self) -> Parsed<(bool, bool)> {
        let mut words = 0;
        let mut named = false;
        let mut plain = true;
        loop {
            if words > 0 {
                self.skip_comments()?;
            }
            self.skip_blanks();
            let start = *self;
            let word = match self.rest.first() {
                Some(b'"') => self.quoted_string().map(Cow::Owned),
                _ => self.atom(true).map(Cow::Borrowed),
            };
            match word {
                Ok(word) => {
                    // Words are joined by spaces, which cannot be in a local part.
                    named |= words > 0 || !word.is_empty();
                    plain &= words == 0 && could_be_local_part(&word);
                    words += 1;
                }
                Err(problem) if words == 0 => return Err(problem),
                Err(_) => {
                    *self = start;
                    return Ok((named, plain));
                }
            }
        }
    }

    fn skip_blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn skip_comments(&mut self) -> Parsed<()> {
        self.skip_blanks();
        while self.take(b'(') {
            self.comment()?;
            self.skip_blanks();
        }
        Ok(())
    }

    /// The text of a comment, after its opening parenthesis. Comments nest.
    fn comment(&mut self) -> Parsed<&'t [u8]> {
        let start = self.rest;
        let mut depth = 1;
        let mut at = 0;
        while let Some(byte) = start.get(at) {
            match byte {
                b'\\' if at + 1 < start.len() => at += 1,
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                self.rest = start.get(at..).unwrap_or_default();
                return Ok(start.get(..at - 1).unwrap_or_default());
            }
        }
        Err(BAD_COMMENT)
    }

    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }
}

/// The first character of a text and its length in bytes; `None` at the end.
fn character(text: &[u8]) -> Parsed<Option<(char, usize)>> {
    let head = text.get(..text.len().min(4)).unwrap_or_default();
    match head.utf8_chunks().next() {
        None => Ok(None),
        Some(chunk) => match chunk.valid().chars().next() {
            Some(c) => Ok(Some((c, c.len_utf8()))),
            None => Err("mail: invalid utf-8 in address"),
        },
    }
}

fn is_atom_character(c: char, permissive: bool) -> bool {
    match c {
        '.' => true,
        '(' | ')' | '[' | ']' | ';' | '@' | '\\' | ',' => permissive,
        '<' | '>' | '"' | ':' => false,
        '!'..='~' | '\u{80}'.. => true,
        _ => false,
    }
}

fn could_be_local_part(word: &[u8]) -> bool {
    String::from_utf8_lossy(word).chars().all(|c| is_atom_character(c, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailboxes() {
        for (text, named, address) in [
            ("ann@example.com", false, "ann@example.com"),
            (" \tann@example.com ", false, "ann@example.com"),
            ("<ann@example.com>", false, "ann@example.com"),
            ("\"\" <ann@example.com>", false, "ann@example.com"),
            ("Ann <ann@example.com>", true, "ann@example.com"),
            ("Ann B (c) <ann@example.com>", true, "ann@example.com"),
            ("ann@example.com (Ann)", true, "ann@example.com"),
            ("ann@example.com ()", false, "ann@example.com"),
            ("\"ann b\"@example.com", false, "ann b@example.com"),
            ("\"a\\\"b\"@example.com", false, "a\"b@example.com"),
            ("ann@ example.com", false, "ann@example.com"),
            ("ünn@bücher.example", false, "ünn@bücher.example"),
            ("friends: ann@example.com;", false, "ann@example.com"),
        ] {
            let mailbox = Mailbox::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((mailbox.named, &*mailbox.address), (named, address.as_bytes()), "{text}");
        }
        for text in [
            "",
            "@example.com",
            "ann",
            "ann@",
            ".ann@example.com",
            "ann.@example.com",
            "a..b@example.com",
            "ann@example.com.",
            "ann@[1.2.3.4]",
            "ann @example.com",
            "ann@exa mple.com",
            "ann@example.com, bob@example.com",
            "ann,b@example.com",
            "ann:b@example.com",
            "<ann@example.com",
            "ann@example.com>",
            "\"\"@example.com",
            "ann@example.com (open",
            "friends: a@b, c@d;",
            "friends:;",
        ] {
            assert!(Mailbox::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Mailbox::parse(b"a\xff@b").is_err());
    }
}
