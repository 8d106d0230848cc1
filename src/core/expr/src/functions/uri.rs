//! URI: validation and comparison of URI references, as by Go's net/url. Spec: expressions.md, sections 10 and 11.

use std::borrow::Cow;

use bumpalo::Bump;

use super::super::EvalError;
use super::dns;

/// Validates a URI reference; returns the input.
///
/// Errors: `error converting string to uri: empty string`, `error converting string to uri '<s>': '<detail>'`.
pub fn uri<'a>(text: &'a [u8], arena: &'a Bump) -> Result<&'a [u8], EvalError<'a>> {
    if text.is_empty() {
        return Err(EvalError::Failed("error converting string to uri: empty string"));
    }
    Uri::parse(text).map_err(|problem| unconvertible(text, problem, arena))?;
    Ok(text)
}

/// Whether two URIs are equal: schemes ignoring case; for `http` and `https` hosts as DNS names; the rest after
/// normalization.
///
/// Errors: an invalid URI, see [`uri`]; an invalid host name, `idna: ...`.
pub fn uri_equal<'a>(a: &[u8], b: &[u8], arena: &'a Bump) -> Result<bool, EvalError<'a>> {
    let parse = |text| Uri::parse(text).map_err(|problem| unconvertible(text, problem, arena));
    let (one, other) = (parse(a)?, parse(b)?);
    if !one.scheme.eq_ignore_ascii_case(other.scheme) {
        return Ok(false);
    }
    if !one.scheme.eq_ignore_ascii_case(b"http") && !one.scheme.eq_ignore_ascii_case(b"https") {
        return Ok(one.written(&one.host) == other.written(&other.host));
    }
    let ((host, port), (other_host, other_port)) = (one.host_and_port(), other.host_and_port());
    let same = dns::same_name(host, other_host)
        .map_err(|problem| EvalError::failed(arena, format_args!("{problem}")))?;
    Ok(same && port == other_port && one.written(&other.host) == other.written(&other.host))
}

fn unconvertible<'a>(text: &[u8], problem: &str, arena: &'a Bump) -> EvalError<'a> {
    let text = String::from_utf8_lossy(text);
    EvalError::failed(
        arena,
        format_args!("error converting string to uri '{text}': 'parse {:?}: {problem}'", &*text),
    )
}

/// The parts of a URI, decoded.
struct Uri<'t> {
    scheme: &'t [u8],
    /// The part after the scheme if it is not a path.
    opaque: &'t [u8],
    user: Option<User<'t>>,
    host: Cow<'t, [u8]>,
    /// Whether the path follows the scheme without `//`.
    bare: bool,
    /// Not decoded.
    path: &'t [u8],
    query: Option<&'t [u8]>,
    /// Not decoded.
    fragment: &'t [u8],
}

struct User<'t> {
    name: Cow<'t, [u8]>,
    password: Option<Cow<'t, [u8]>>,
}

/// The component of a URI, which determines the characters that must be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    User,
    Host,
    Zone,
    Path,
    Fragment,
}

type Parsed<T> = Result<T, &'static str>;

const BAD_ESCAPE: &str = "invalid URL escape";
const BAD_HOST: &str = "invalid character in host name";
const BAD_PORT: &str = "invalid port after host";

impl<'t> Uri<'t> {
    fn parse(text: &'t [u8]) -> Parsed<Uri<'t>> {
        let (text, fragment) = cut(text, b'#');
        if text.iter().any(u8::is_ascii_control) {
            return Err("net/url: invalid control character in URL");
        }
        let fragment = fragment.unwrap_or_default();
        let (scheme, rest) = split_scheme(text)?;
        let mut uri = Uri {
            scheme,
            opaque: b"",
            user: None,
            host: Cow::Borrowed(b""),
            bare: false,
            path: b"",
            query: None,
            fragment,
        };
        if text == b"*" {
            uri.path = text;
        } else {
            uri.after_scheme(rest)?;
        }
        unescape(fragment, Part::Fragment)?;
        Ok(uri)
    }

    fn after_scheme(&mut self, text: &'t [u8]) -> Parsed<()> {
        let (mut rest, query) = cut(text, b'?');
        self.query = query;
        if !rest.starts_with(b"/") {
            if !self.scheme.is_empty() {
                self.opaque = rest;
                return Ok(());
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon");
            }
        }
        if let Some(authority) = rest.strip_prefix(b"//")
            && (!self.scheme.is_empty() || !authority.starts_with(b"/"))
        {
            let end = authority.iter().position(|b| *b == b'/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            self.authority(authority)?;
            rest = path;
        } else {
            self.bare = !self.scheme.is_empty() && rest.starts_with(b"/");
        }
        unescape(rest, Part::Path)?;
        self.path = rest;
        Ok(())
    }

    fn authority(&mut self, text: &'t [u8]) -> Parsed<()> {
        let Some(at) = text.iter().rposition(|b| *b == b'@') else {
            self.host = host(text)?;
            return Ok(());
        };
        self.host = host(text.get(at + 1..).unwrap_or_default())?;
        let user = text.get(..at).unwrap_or_default();
        if !user.iter().all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(b)) {
            return Err("net/url: invalid userinfo");
        }
        let (name, password) = cut(user, b':');
        let password = password.map(|p| unescape(p, Part::User)).transpose()?;
        self.user = Some(User { name: unescape(name, Part::User)?, password });
        Ok(())
    }

    /// The host without port and brackets, and the port.
    fn host_and_port(&self) -> (&[u8], &[u8]) {
        let (mut host, mut port) = (&*self.host, &b""[..]);
        if let Some(colon) = host.iter().rposition(|b| *b == b':')
            && is_optional_port(host.get(colon..).unwrap_or_default())
        {
            port = host.get(colon + 1..).unwrap_or_default();
            host = host.get(..colon).unwrap_or_default();
        }
        (host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")).unwrap_or(host), port)
    }

    /// The normalized URI, with another host.
    fn written(&self, host: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend(self.scheme.to_ascii_lowercase());
            out.push(b':');
        }
        if self.opaque.is_empty() {
            self.write_hierarchy(host, &mut out);
        } else {
            out.extend_from_slice(self.opaque);
        }
        if let Some(query) = self.query {
            out.push(b'?');
            out.extend_from_slice(query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            escaped_as_written(self.fragment, Part::Fragment, &mut out);
        }
        out
    }

    fn write_hierarchy(&self, host: &[u8], out: &mut Vec<u8>) {
        let authority = !host.is_empty() || self.user.is_some();
        if authority || (!self.scheme.is_empty() && !self.bare && !self.path.is_empty()) {
            out.extend_from_slice(b"//");
        }
        if let Some(User { name, password }) = &self.user {
            escape(name, Part::User, out);
            if let Some(password) = password {
                out.push(b':');
                escape(password, Part::User, out);
            }
            out.push(b'@');
        }
        escape(host, Part::Host, out);
        if !host.is_empty() && !self.path.is_empty() && !self.path.starts_with(b"/") {
            out.push(b'/');
        }
        escaped_as_written(self.path, Part::Path, out);
    }
}

/// Splits at the first `byte`; the second part is empty if there is none.
fn cut(text: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|b| *b == byte) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

fn split_scheme(text: &[u8]) -> Parsed<(&[u8], &[u8])> {
    let none = (&b""[..], text);
    for (i, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme"),
            b':' => {
                return Ok((text.get(..i).unwrap_or_default(), text.get(i + 1..).unwrap_or_default()));
            }
            _ => return Ok(none),
        }
    }
    Ok(none)
}

fn host(text: &[u8]) -> Parsed<Cow<'_, [u8]>> {
    if !text.starts_with(b"[") {
        if let Some(colon) = text.iter().rposition(|b| *b == b':')
            && !is_optional_port(text.get(colon..).unwrap_or_default())
        {
            return Err(BAD_PORT);
        }
        return unescape(text, Part::Host);
    }
    let Some(close) = text.iter().rposition(|b| *b == b']') else { return Err("missing ']' in host") };
    let (address, port) = text.split_at(close);
    if !is_optional_port(port.get(1..).unwrap_or_default()) {
        return Err(BAD_PORT);
    }
    let Some(zone) = address.windows(3).position(|w| w == b"%25") else {
        return unescape(text, Part::Host);
    };
    let (address, zone) = address.split_at(zone);
    let parts = [unescape(address, Part::Host)?, unescape(zone, Part::Zone)?, unescape(port, Part::Host)?];
    Ok(Cow::Owned(parts.concat()))
}

/// Whether a port is empty, or a colon and digits.
fn is_optional_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((colon, digits)) => *colon == b':' && digits.iter().all(u8::is_ascii_digit),
    }
}

/// Decodes percent escapes. Errors: an invalid escape, or a character that is not allowed in this component.
fn unescape(text: &[u8], part: Part) -> Parsed<Cow<'_, [u8]>> {
    let host = matches!(part, Part::Host | Part::Zone);
    if host && text.iter().any(|b| *b != b'%' && b.is_ascii() && must_escape(*b, part)) {
        // Escapes are validated first, in order; which of two errors is reported does not matter.
        return Err(BAD_HOST);
    }
    if !text.contains(&b'%') {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            out.push(*byte);
            rest = after;
            continue;
        }
        let value = escaped_byte(after).ok_or(BAD_ESCAPE)?;
        let percent = value == b'%';
        if part == Part::Host && value.is_ascii() && !percent {
            return Err(BAD_ESCAPE);
        }
        if part == Part::Zone && !percent && value != b' ' && must_escape(value, Part::Host) {
            return Err(BAD_ESCAPE);
        }
        out.push(value);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(Cow::Owned(out))
}

/// The byte of two hexadecimal digits.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let digit = |b: &u8| char::from(*b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    match text {
        [high, low, ..] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    }
}

fn must_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    match part {
        Part::Host | Part::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::User => !b"$&+,;=".contains(&byte),
        Part::Path => !b"$&+,/:;=@".contains(&byte),
        Part::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
    }
}

fn escape(text: &[u8], part: Part, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or_default();
    for byte in text {
        if must_escape(*byte, part) {
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.push(*byte);
        }
    }
}

/// Appends a path or fragment in its original form if its escapes are valid, else escaped again.
fn escaped_as_written(text: &[u8], part: Part, out: &mut Vec<u8>) {
    let good = text.iter().all(|b| b"!$&'()*+,;=:@[]%".contains(b) || !must_escape(*b, part));
    match unescape(text, part) {
        Ok(decoded) if !good => escape(&decoded, part, out),
        _ => out.extend_from_slice(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(a: &str, b: &str) -> Option<bool> {
        uri_equal(a.as_bytes(), b.as_bytes(), &Bump::new()).ok()
    }

    #[test]
    fn references_are_validated() {
        for text in [
            "http://example.com/",
            "//host/path",
            "/a/b c",
            "a",
            "?q",
            "#f",
            "mailto:a@b",
            "http:%zz",
            "http://u:p@h:80/",
            "http://a@b@c/",
            "http://[::1]:80/",
            "http://[fe80::1%25en0]/",
            "http://h:/",
            "http://h?%zz",
            "http://bücher/",
            "http://h%E4/",
            "*",
            "///x:y",
        ] {
            assert!(Uri::parse(text.as_bytes()).is_ok(), "{text}");
        }
        for text in [
            "%zz",
            ":foo",
            "://a",
            "1http://x",
            "1.2.3.4:80",
            "http://[::1",
            "http://[::1]x/",
            "http://a:-1/",
            "http://a:port/",
            "http://us er@h/",
            "http://u%zz@a/",
            "http://h h/",
            "http://h%41/",
            "http://[fe80::1%en0]/",
            "http://h/%",
            "http://h/#%zz",
            "http://h/\n",
            "\u{7f}",
        ] {
            assert!(Uri::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn references_are_compared_after_normalization() {
        for (a, b, expected) in [
            ("http://a.com", "HTTP://A.COM", Some(true)),
            ("http://a.com", "http://a.com/", Some(false)),
            ("http://a.com:80", "http://a.com", Some(false)),
            ("http://a.com:", "http://a.com", Some(true)),
            ("http://a.com/%41", "http://a.com/A", Some(false)),
            ("http://a.com/a b", "http://a.com/a%20b", Some(true)),
            ("http://a.com/#", "http://a.com/", Some(true)),
            ("http://a.com/?", "http://a.com/", Some(false)),
            ("http://u@a.com", "http://a.com", Some(false)),
            ("http://u@a.com", "http://u@A.com", Some(true)),
            ("ftp://a.com", "ftp://A.com", Some(false)),
            ("urn:a:b", "URN:a:b", Some(true)),
            ("urn:a:b", "urn:a:B", Some(false)),
            ("http://a_b/", "http://a_b/", None),
            ("http://[::1]/", "http://[::1]/", None),
            ("%zz", "http://a", None),
            ("", "", Some(true)),
        ] {
            assert_eq!(equal(a, b), expected, "{a} {b}");
        }
    }
}
