//! URL references, divided as Go's `net/url` divides them: Istio Mixer's verdicts and error texts are those of that package.
//!
//! [`UrlRef::split`] finds the components and validates no more than that takes. Users differ in what they validate beyond it:
//! the expression language follows `net/url` in full, the list adapter checks the host and the path, a configuration store is
//! named by any path. The `url` crate follows WHATWG: it has other errors, and rewrites `http:opaque` to `http://opaque/`.

use std::borrow::Cow;

use crate::quote::quoted;

/// Why a URL reference is invalid, with the offending text. `Display` quotes it as Go does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError<'t> {
    /// A byte below 0x20, or 0x7f.
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    /// The text starts with a colon.
    #[error("missing protocol scheme")]
    MissingScheme,
    /// A colon that ends no scheme.
    #[error("first path segment in URL cannot contain colon")]
    ColonInFirstSegment,
    /// The user information holds a character that is not allowed.
    #[error("net/url: invalid userinfo")]
    InvalidUserinfo,
    /// A bracketed host is not closed.
    #[error("missing ']' in host")]
    MissingBracket,
    /// What follows the host, from the colon or the closing bracket on.
    #[error("invalid port {} after host", quoted(.0))]
    InvalidPort(&'t [u8]),
    /// An ASCII character that is not allowed in a host.
    #[error("invalid character {} in host name", quoted(&[*.0]))]
    InvalidHostCharacter(u8),
    /// The component from the percent sign on; the first three bytes are shown.
    #[error("invalid URL escape {}", quoted(.0.get(..3).unwrap_or(.0)))]
    InvalidEscape(&'t [u8]),
}

/// The components of a URL reference as written: not decoded, not validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UrlRef<'t> {
    /// Empty if there is none.
    pub scheme: &'t [u8],
    /// What follows the scheme if that does not start with `/`; then there is neither host nor path.
    pub opaque: &'t [u8],
    /// What precedes the last `@` of the authority.
    pub user: Option<&'t [u8]>,
    /// With port and brackets; empty if there is none.
    pub host: &'t [u8],
    /// Whether the path follows the scheme without `//`.
    pub bare: bool,
    /// Empty if there is none.
    pub path: &'t [u8],
    /// What follows the first `?`.
    pub query: Option<&'t [u8]>,
    /// What follows the first `#`.
    pub fragment: Option<&'t [u8]>,
}

impl<'t> UrlRef<'t> {
    /// Divides a URL reference. Allocates nothing.
    ///
    /// Errors: [`UrlError::ControlCharacter`] before the fragment, [`UrlError::MissingScheme`], [`UrlError::ColonInFirstSegment`].
    #[inline]
    pub fn split(text: &'t [u8]) -> Result<UrlRef<'t>, UrlError<'t>> {
        let (text, fragment) = cut(text, b'#');
        check_control(text)?;
        let (scheme, rest) = match scheme_end(text)? {
            Some(end) => (text.get(..end).unwrap_or_default(), text.get(end + 1..).unwrap_or_default()),
            None => (&b""[..], text),
        };
        let (rest, query) = cut(rest, b'?');
        let mut url = UrlRef { scheme, query, fragment, ..UrlRef::default() };
        if !rest.starts_with(b"/") {
            if scheme.is_empty() {
                check_first_segment(rest)?;
                url.path = rest;
            } else {
                url.opaque = rest;
            }
            return Ok(url);
        }
        if let Some(after) = rest.strip_prefix(b"//")
            && (!scheme.is_empty() || !after.starts_with(b"/"))
        {
            let (authority, path) =
                after.split_at(after.iter().position(|b| *b == b'/').unwrap_or(after.len()));
            (url.user, url.host) = match authority.iter().rposition(|b| *b == b'@') {
                Some(at) => (authority.get(..at), authority.get(at + 1..).unwrap_or_default()),
                None => (None, authority),
            };
            url.path = path;
        } else {
            url.bare = !scheme.is_empty();
            url.path = rest;
        }
        Ok(url)
    }
}

/// Refuses control characters.
///
/// Errors: [`UrlError::ControlCharacter`].
pub fn check_control(text: &[u8]) -> Result<(), UrlError<'static>> {
    if text.iter().any(u8::is_ascii_control) { Err(UrlError::ControlCharacter) } else { Ok(()) }
}

/// Where the colon is that ends the scheme; `None` without a scheme.
///
/// Errors: [`UrlError::MissingScheme`].
pub fn scheme_end(text: &[u8]) -> Result<Option<usize>, UrlError<'static>> {
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err(UrlError::MissingScheme),
            b':' => return Ok(Some(at)),
            _ => break,
        }
    }
    Ok(None)
}

/// Refuses a colon before the first `/` of a reference without scheme.
///
/// Errors: [`UrlError::ColonInFirstSegment`].
pub fn check_first_segment(text: &[u8]) -> Result<(), UrlError<'static>> {
    if cut(text, b'/').0.contains(&b':') { Err(UrlError::ColonInFirstSegment) } else { Ok(()) }
}

/// Refuses what follows a host unless it is empty, or a colon and digits.
///
/// Errors: [`UrlError::InvalidPort`].
pub fn check_port(text: &[u8]) -> Result<(), UrlError<'_>> {
    match text.split_first() {
        None => Ok(()),
        Some((b':', digits)) if digits.iter().all(u8::is_ascii_digit) => Ok(()),
        Some(_) => Err(UrlError::InvalidPort(text)),
    }
}

/// Decodes `%XX`; borrows if there is none. `allowed` says which bytes may be written as an escape.
///
/// Errors: [`UrlError::InvalidEscape`].
#[inline]
pub fn decode(text: &[u8], allowed: impl Fn(u8) -> bool) -> Result<Cow<'_, [u8]>, UrlError<'_>> {
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
        let value =
            escaped_byte(after).filter(|value| allowed(*value)).ok_or(UrlError::InvalidEscape(rest))?;
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

/// Splits at the first `byte`; `None` if there is none.
fn cut(text: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|b| *b == byte) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_divided() {
        let none = UrlRef::default();
        for (text, expected) in [
            ("", none),
            ("*", UrlRef { path: b"*", ..none }),
            ("a/b:c", UrlRef { path: b"a/b:c", ..none }),
            ("?q:#", UrlRef { query: Some(b"q:"), fragment: Some(b""), ..none }),
            ("x:y/z?q", UrlRef { scheme: b"x", opaque: b"y/z", query: Some(b"q"), ..none }),
            ("x:/y", UrlRef { scheme: b"x", bare: true, path: b"/y", ..none }),
            ("x:///y", UrlRef { scheme: b"x", path: b"/y", ..none }),
            ("///x:y", UrlRef { path: b"///x:y", ..none }),
            (
                "X+1://a@b:c@[::1]:80/p?q#f\n",
                UrlRef {
                    scheme: b"X+1",
                    user: Some(b"a@b:c"),
                    host: b"[::1]:80",
                    path: b"/p",
                    query: Some(b"q"),
                    fragment: Some(b"f\n"),
                    ..none
                },
            ),
        ] {
            assert_eq!(UrlRef::split(text.as_bytes()), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("a\nb", UrlError::ControlCharacter),
            ("\u{7f}", UrlError::ControlCharacter),
            (":x", UrlError::MissingScheme),
            ("1:x", UrlError::ColonInFirstSegment),
            ("a b:c", UrlError::ColonInFirstSegment),
        ] {
            assert_eq!(UrlRef::split(text.as_bytes()), Err(expected), "{text}");
        }
    }

    #[test]
    fn errors_quote_the_offending_text() {
        for (error, text) in [
            (decode(b"a%41%zzz", |_| true).unwrap_err(), "invalid URL escape \"%zz\""),
            (decode(b"a%4", |_| true).unwrap_err(), "invalid URL escape \"%4\""),
            (decode(b"%41", |b| b != b'A').unwrap_err(), "invalid URL escape \"%41\""),
            (check_port(b":-1").unwrap_err(), "invalid port \":-1\" after host"),
            (check_port(b"x").unwrap_err(), "invalid port \"x\" after host"),
            (UrlError::InvalidHostCharacter(b'\\'), "invalid character \"\\\\\" in host name"),
        ] {
            assert_eq!(error.to_string(), text);
        }
        assert_eq!(check_port(b":"), Ok(()));
    }

    #[test]
    fn only_escapes_make_a_copy() {
        assert!(matches!(decode(b"a b", |_| true), Ok(Cow::Borrowed(b"a b"))));
        assert_eq!(decode(b"%41%c3%A9+", |_| true).unwrap(), "A\u{e9}+".as_bytes());
    }
}
