//! EMAIL_ADDRESS: one RFC 5322 mailbox, as parsed by Go's net/mail.

mod encoded_word;

use std::borrow::Cow;

use bumpalo::Bump;

use super::super::EvalError;
use super::dns;
use encoded_word::{EncodedWord, decode};
use mixer_base::quote::quoted;

/// Validates a mailbox without display name; returns the input.
///
/// Errors: `error converting '<s>' to e-mail: display names are not allowed`, or with `'<detail>'`.
pub fn email<'a>(text: &'a [u8], arena: &'a Bump) -> Result<&'a [u8], EvalError<'a>> {
    let detail = match Mailbox::parse(text) {
        Err(problem) => problem.into_owned(),
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
    let parse =
        |text| Mailbox::parse(text).map_err(|problem| EvalError::failed(arena, format_args!("{problem}")));
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

/// Errors are the texts of net/mail.
type Parsed<T> = Result<T, Cow<'static, str>>;

const BAD_COMMENT: &str = "mail: misformatted parenthetical comment";

fn refuse<T>(problem: &'static str) -> Parsed<T> {
    Err(Cow::Borrowed(problem))
}

fn refuse_text<T>(problem: &str, text: &[u8]) -> Parsed<T> {
    Err(Cow::Owned(format!("{problem} {}", quoted(text))))
}

impl Mailbox<'_> {
    fn parse(text: &[u8]) -> Parsed<Mailbox<'_>> {
        let mut parser = Parser { rest: text };
        let mut found = parser.address(true)?;
        parser.skip_comments()?;
        if !parser.rest.is_empty() {
            return refuse_text("mail: expected single address, got", parser.rest);
        }
        match (found.pop(), found.is_empty()) {
            (Some(mailbox), true) => Ok(mailbox),
            (None, _) => refuse("mail: empty group"),
            (Some(_), false) => refuse("mail: group with multiple addresses"),
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
            return refuse("mail: no address");
        }
        let start = *self;
        if let Ok(address) = self.spec() {
            self.skip_blanks();
            let named = self.take(b'(') && names_someone(self.comment()?)?;
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
            return refuse(if plain { missing } else { "mail: no angle-addr" });
        }
        let address = self.spec()?;
        if !self.take(b'>') {
            return refuse("mail: unclosed angle-addr");
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
                return refuse("mail: expected comma");
            }
        }
    }

    /// `local@domain`.
    fn spec(&mut self) -> Parsed<Cow<'t, [u8]>> {
        self.skip_blanks();
        let start = self.rest;
        let (local, quoted) = match start.first() {
            None => return refuse("mail: no addr-spec"),
            Some(b'"') => match self.quoted_string()? {
                local if local.is_empty() => return refuse("mail: empty quoted string in addr-spec"),
                local => (Cow::Owned(local), true),
            },
            Some(_) => (Cow::Borrowed(self.dot_atom()?), false),
        };
        if !self.take(b'@') {
            return refuse("mail: missing @ in addr-spec");
        }
        let adjacent = !self.rest.starts_with(b" ") && !self.rest.starts_with(b"\t");
        self.skip_blanks();
        if self.rest.is_empty() {
            return refuse("mail: no domain in addr-spec");
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
            return refuse("mail: leading dot in atom");
        }
        if atom.windows(2).any(|pair| pair == b"..") {
            return refuse("mail: double dot in atom");
        }
        if atom.ends_with(b".") {
            return refuse("mail: trailing dot in atom");
        }
        Ok(atom)
    }

    /// Atom characters and dots; in display names also most specials.
    fn atom(&mut self, permissive: bool) -> Parsed<&'t [u8]> {
        let mut length = 0;
        while let Some((c, size)) =
            character(self.rest.get(length..).unwrap_or_default(), "address", self.rest)?
        {
            if !is_atom_character(c, permissive) {
                break;
            }
            length += size;
        }
        if length == 0 {
            return refuse("mail: invalid string");
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
            let Some((c, size)) = character(rest, "quoted-string", self.rest)? else {
                return refuse("mail: unclosed quoted-string");
            };
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
                _ => return refuse_text("mail: bad character in quoted-string:", bytes),
            }
        }
    }

    /// A display name: whether it is not empty, and whether it could be the local part of an address.
    fn phrase(&mut self) -> Parsed<(bool, bool)> {
        let mut words = 0;
        let mut named = false;
        let mut plain = true;
        let mut after_encoded = false;
        loop {
            if words > 0 {
                self.skip_comments()?;
            }
            self.skip_blanks();
            let start = *self;
            let (word, encoded) = match self.word() {
                Ok(word) => word,
                Err(problem) if words == 0 => {
                    return Err(Cow::Owned(format!("mail: missing word in phrase: {problem}")));
                }
                Err(_) => {
                    // Go has read an encoded word when it finds that it does not know the charset.
                    if self.rest.len() == start.rest.len() {
                        *self = start;
                    }
                    return Ok((named, plain));
                }
            };
            // Words are joined by spaces, which cannot be in a local part; encoded words are joined without.
            let joins = encoded && after_encoded;
            named |= !word.is_empty() || (words > 0 && !joins);
            plain &= (words == 0 || joins) && could_be_local_part(&word);
            words += 1;
            after_encoded = encoded;
        }
    }

    /// A word of a display name, decoded, and whether it was encoded.
    fn word(&mut self) -> Parsed<(Cow<'t, [u8]>, bool)> {
        if self.rest.starts_with(b"\"") {
            return Ok((Cow::Owned(self.quoted_string()?), false));
        }
        let atom = self.atom(true)?;
        Ok(match decode(atom) {
            EncodedWord::Text(text) => (Cow::Owned(text), true),
            EncodedWord::None => (Cow::Borrowed(atom), false),
            EncodedWord::UnknownCharset(charset) => return unknown_charset(&charset),
        })
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
        refuse(BAD_COMMENT)
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

fn unknown_charset<T>(charset: &[u8]) -> Parsed<T> {
    refuse_text("charset not supported:", charset)
}

/// Whether a comment after an address has a display name.
fn names_someone(comment: &[u8]) -> Parsed<bool> {
    let mut words = 0;
    let mut named = false;
    for word in comment.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty()) {
        words += 1;
        named |= match decode(word) {
            EncodedWord::Text(text) => !text.is_empty(),
            EncodedWord::None => true,
            EncodedWord::UnknownCharset(charset) => return unknown_charset(&charset),
        };
    }
    Ok(named || words > 1)
}

/// The first character of a text and its length in bytes; `None` at the end. Errors: `place` and `whole`, unless it is UTF-8.
fn character(text: &[u8], place: &str, whole: &[u8]) -> Parsed<Option<(char, usize)>> {
    let head = text.get(..text.len().min(4)).unwrap_or_default();
    match head.utf8_chunks().next() {
        None => Ok(None),
        Some(chunk) => match chunk.valid().chars().next() {
            Some(c) => Ok(Some((c, c.len_utf8()))),
            None => refuse_text(&format!("mail: invalid utf-8 in {place}:"), whole),
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
            ("=?utf-8?q?Ann?= <ann@example.com>", true, "ann@example.com"),
            ("=?utf-8?q??= <ann@example.com>", false, "ann@example.com"),
            ("=?utf-8?q??= =?UTF-8?B??= <ann@example.com>", false, "ann@example.com"),
            ("=?utf-8?q??= \"\" <ann@example.com>", true, "ann@example.com"),
            ("=?other?x?Ann?= <ann@example.com>", true, "ann@example.com"),
            ("\"=?other?q?Ann?=\" <ann@example.com>", true, "ann@example.com"),
            ("Ann =?other?q?Ann?=<ann@example.com>", true, "ann@example.com"),
            ("ann@example.com (=?utf-8?q??=)", false, "ann@example.com"),
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
            "=?other?q?Ann?= <ann@example.com>",
            "=?other?b?QW5u?=: ann@example.com;",
            "ann@example.com (by =?other?q?Ann?=)",
        ] {
            assert!(Mailbox::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Mailbox::parse(b"a\xff@b").is_err());
    }
}
