//! URI: validation and comparison of URI references, as by Go's net/url.

use std::borrow::Cow;

use bumpalo::Bump;
use mixer_base::quote::quoted;
use mixer_base::url::{UrlError, UrlRef, check_port, decode};

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
    if !one.url.scheme.eq_ignore_ascii_case(other.url.scheme) {
        return Ok(false);
    }
    if !one.url.scheme.eq_ignore_ascii_case(b"http") && !one.url.scheme.eq_ignore_ascii_case(b"https") {
        return Ok(one.written(&one.host) == other.written(&other.host));
    }
    let ((host, port), (other_host, other_port)) = (one.host_and_port(), other.host_and_port());
    let same = dns::same_name(host, other_host)
        .map_err(|problem| EvalError::failed(arena, format_args!("{problem}")))?;
    Ok(same && port == other_port && one.written(&other.host) == other.written(&other.host))
}

/// The scheme, in lower case, and the port of a URI reference; both may be empty.
///
/// Errors: the text of Go's `url.Parse`, for example `parse ":a": missing protocol scheme`.
pub fn scheme_and_port(text: &str) -> Result<(String, String), String> {
    let uri = Uri::parse(text.as_bytes()).map_err(|problem| unparsed(text.as_bytes(), problem))?;
    let scheme = uri.url.scheme.to_ascii_lowercase();
    let (_, port) = uri.host_and_port();
    Ok((String::from_utf8_lossy(&scheme).into_owned(), String::from_utf8_lossy(port).into_owned()))
}

fn unconvertible<'a>(bytes: &[u8], problem: UrlError<'_>, arena: &'a Bump) -> EvalError<'a> {
    let text = String::from_utf8_lossy(bytes);
    let problem = unparsed(bytes, problem);
    EvalError::failed(arena, format_args!("error converting string to uri '{text}': '{problem}'"))
}

fn unparsed(bytes: &[u8], problem: UrlError<'_>) -> String {
    // Go parses what precedes the fragment first.
    let before = bytes.split(|b| *b == b'#').next().filter(|before| Uri::parse(before).is_err());
    format!("parse {}: {problem}", quoted(before.unwrap_or(bytes)))
}

/// A valid URI reference.
struct Uri<'t> {
    /// As written.
    url: UrlRef<'t>,
    /// Decoded.
    user: Option<User<'t>>,
    /// Decoded.
    host: Cow<'t, [u8]>,
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

type Parsed<'t, T> = Result<T, UrlError<'t>>;

impl<'t> Uri<'t> {
    fn parse(text: &'t [u8]) -> Parsed<'t, Uri<'t>> {
        let url = UrlRef::split(text)?;
        let host = if url.host.is_empty() { Cow::Borrowed(url.host) } else { host(url.host)? };
        let user = url.user.map(User::parse).transpose()?;
        unescape(url.path, Part::Path)?;
        unescape(url.fragment.unwrap_or_default(), Part::Fragment)?;
        Ok(Uri { url, user, host })
    }

    /// The host without port and brackets, and the port.
    fn host_and_port(&self) -> (&[u8], &[u8]) {
        let (mut host, mut port) = (&*self.host, &b""[..]);
        if let Some(colon) = host.iter().rposition(|b| *b == b':')
            && check_port(host.get(colon..).unwrap_or_default()).is_ok()
        {
            port = host.get(colon + 1..).unwrap_or_default();
            host = host.get(..colon).unwrap_or_default();
        }
        (host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")).unwrap_or(host), port)
    }

    /// The normalized URI, with another host.
    fn written(&self, host: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let UrlRef { scheme, opaque, query, fragment, .. } = self.url;
        if !scheme.is_empty() {
            out.extend(scheme.to_ascii_lowercase());
            out.push(b':');
        }
        if opaque.is_empty() {
            self.write_hierarchy(host, &mut out);
        } else {
            out.extend_from_slice(opaque);
        }
        if let Some(query) = query {
            out.push(b'?');
            out.extend_from_slice(query);
        }
        if let Some(fragment) = fragment.filter(|f| !f.is_empty()) {
            out.push(b'#');
            escaped_as_written(fragment, Part::Fragment, &mut out);
        }
        out
    }

    fn write_hierarchy(&self, host: &[u8], out: &mut Vec<u8>) {
        let UrlRef { scheme, bare, path, .. } = self.url;
        let authority = !host.is_empty() || self.user.is_some();
        if authority || (!scheme.is_empty() && !bare && !path.is_empty()) {
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
        if !host.is_empty() && !path.is_empty() && !path.starts_with(b"/") {
            out.push(b'/');
        }
        escaped_as_written(path, Part::Path, out);
    }
}

impl<'t> User<'t> {
    fn parse(text: &'t [u8]) -> Parsed<'t, User<'t>> {
        let allowed = |b: &u8| {
            b.is_ascii_alphanumeric()
                || matches!(b, b'!' | b'$'..=b'.' | b':' | b';' | b'=' | b'@' | b'_' | b'~')
        };
        if !text.iter().all(allowed) {
            return Err(UrlError::InvalidUserinfo);
        }
        let mut parts = text.splitn(2, |b| *b == b':');
        let name = parts.next().unwrap_or_default();
        let password = parts.next().map(|p| unescape(p, Part::User)).transpose()?;
        Ok(User { name: unescape(name, Part::User)?, password })
    }
}

/// Decodes a host.
fn host(text: &[u8]) -> Parsed<'_, Cow<'_, [u8]>> {
    if !text.starts_with(b"[") {
        if let Some(colon) = text.iter().rposition(|b| *b == b':') {
            check_port(text.get(colon..).unwrap_or_default())?;
        }
        return unescape(text, Part::Host);
    }
    let close = text.iter().rposition(|b| *b == b']').ok_or(UrlError::MissingBracket)?;
    let (address, port) = text.split_at(close);
    check_port(port.get(1..).unwrap_or_default())?;
    let Some(zone) = address.windows(3).position(|w| w == b"%25") else {
        return unescape(text, Part::Host);
    };
    let (address, zone) = address.split_at(zone);
    let parts = [unescape(address, Part::Host)?, unescape(zone, Part::Zone)?, unescape(port, Part::Host)?];
    Ok(Cow::Owned(parts.concat()))
}

/// Decodes percent escapes. Errors: an invalid escape, or a character that is not allowed in this component.
fn unescape(text: &[u8], part: Part) -> Parsed<'_, Cow<'_, [u8]>> {
    if matches!(part, Part::Host | Part::Zone)
        && let Some(bad) = text.iter().find(|b| **b != b'%' && b.is_ascii() && must_escape(**b, part))
    {
        // Escapes are validated first, in order; which of two errors is reported does not matter.
        return Err(UrlError::InvalidHostCharacter(*bad));
    }
    decode(text, |value| match part {
        Part::Host => !value.is_ascii() || value == b'%',
        Part::Zone => b"% ".contains(&value) || !must_escape(value, Part::Host),
        Part::User | Part::Path | Part::Fragment => true,
    })
}

/// Patterns and not slices, because hosts are checked byte by byte.
fn must_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
        return false;
    }
    let kept = match part {
        Part::Host | Part::Zone => {
            matches!(byte, b'!' | b'$' | b'&'..=b',' | b';' | b'=' | b':' | b'[' | b']' | b'<' | b'>' | b'"')
        }
        Part::User => b"$&+,;=".contains(&byte),
        Part::Path => b"$&+,/:;=@".contains(&byte),
        Part::Fragment => b"$&+,/:;=?@!()*".contains(&byte),
    };
    !kept
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
    fn schemes_and_ports_are_found() {
        let parts = |scheme: &str, port: &str| Ok((scheme.to_owned(), port.to_owned()));
        assert_eq!(scheme_and_port("HTTP://[::1]:80/x"), parts("http", "80"));
        assert_eq!(scheme_and_port("a"), parts("", ""));
        assert_eq!(scheme_and_port(":a"), Err("parse \":a\": missing protocol scheme".to_owned()));
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
