//! URLs in parameters, with the error texts of Go's `net/url`, which Istio Mixer's validation shows.
//!
//! Laxer than `net/url`: user information, escapes in the fragment, the bytes that escapes in the host stand for, and what follows
//! one of `<>"` in the host are not checked. Stricter: escapes in `scheme:opaque` and control characters in the fragment are
//! checked, and a bracketed host ends at the first `]`.

use std::str;

use mixer_base::quote::quoted;
use mixer_base::url::{UrlError, UrlRef, check_control, check_port, decode, scheme_end};

/// Scheme and host (port included) of `text`; either may be empty.
///
/// Errors: `parse "<text>": <why>`.
pub(crate) fn scheme_and_host(text: &str) -> Result<(String, &str), String> {
    parts(text).map_err(|error| format!("parse {}: {error}", quoted(text)))
}

/// Whether `text` is the URI of a request: an absolute URL or a path.
///
/// Errors: `parse "<text>": <why>`.
pub(crate) fn check_request_uri(text: &str) -> Result<(), String> {
    let failed = |why: &dyn std::fmt::Display| Err(format!("parse {}: {why}", quoted(text)));
    if let Err(error) = check_control(text.as_bytes()) {
        return failed(&error);
    }
    match scheme_end(text.as_bytes()) {
        Err(error) => failed(&error),
        Ok(_) if text.is_empty() => failed(&"empty url"),
        Ok(None) if text == "*" => Ok(()),
        Ok(None) if !text.starts_with('/') => failed(&"invalid URI for request"),
        Ok(_) => scheme_and_host(text).map(drop),
    }
}

fn parts(text: &str) -> Result<(String, &str), UrlError<'_>> {
    check_control(text.as_bytes())?;
    let url = UrlRef::split(text.as_bytes())?;
    check_host(url.host)?;
    check_escapes(url.opaque)?;
    check_escapes(url.path)?;
    let scheme = String::from_utf8_lossy(url.scheme).to_ascii_lowercase();
    // The components of a text are cut at ASCII characters, so they are texts.
    Ok((scheme, str::from_utf8(url.host).unwrap_or_default()))
}

fn check_host(host: &[u8]) -> Result<(), UrlError<'_>> {
    let port = if host.starts_with(b"[") {
        host.iter().position(|b| *b == b']').ok_or(UrlError::MissingBracket)? + 1
    } else {
        host.iter().rposition(|b| *b == b':').unwrap_or(host.len())
    };
    check_port(host.get(port..).unwrap_or_default())?;
    if let Some(bad) = host.iter().find(|b| b" <>\"\\^`{|}".contains(b)) {
        // compat(1.3): blanks and the like are refused in host names.
        if !b"<>\"".contains(bad) {
            return Err(UrlError::InvalidHostCharacter(*bad));
        }
    }
    check_escapes(host)
}

fn check_escapes(text: &[u8]) -> Result<(), UrlError<'_>> {
    decode(text, |_| true).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::{check_request_uri, scheme_and_host};

    #[test]
    fn uris_of_requests_have_a_scheme_or_a_root() {
        for valid in ["http://h/p", "/p", "*", "http+unix:///run/a.sock/write/x", "mailto:x"] {
            assert_eq!(check_request_uri(valid), Ok(()), "{valid}");
        }
        for (invalid, why) in [
            ("", "empty url"),
            ("nota url", "invalid URI for request"),
            ("a b:c", "invalid URI for request"),
            (":x", "missing protocol scheme"),
            ("http://h:x/", "invalid port \":x\" after host"),
            ("http://h/\n", "net/url: invalid control character in URL"),
        ] {
            let expected = format!("parse {invalid:?}: {why}");
            assert_eq!(check_request_uri(invalid), Err(expected));
        }
    }

    #[test]
    fn scheme_and_host_are_found() {
        let rows = [
            ("http://lists.example/l", Ok(("http", "lists.example"))),
            ("HTTPS://u:p@h:8443", Ok(("https", "h:8443"))),
            ("lists.example", Ok(("", ""))),
            ("file:///etc/list", Ok(("file", ""))),
            ("file://localhost/etc/list", Ok(("file", "localhost"))),
            ("//h/p", Ok(("", "h"))),
            ("http://[::1]:80/", Ok(("http", "[::1]:80"))),
            ("http:opaque", Ok(("http", ""))),
            ("http://h?x=/%", Ok(("http", "h"))),
            (":x", Err("parse \":x\": missing protocol scheme")),
            ("a b:c", Err("parse \"a b:c\": first path segment in URL cannot contain colon")),
            ("http://h:x/", Err("parse \"http://h:x/\": invalid port \":x\" after host")),
            ("http://h/%zz", Err("parse \"http://h/%zz\": invalid URL escape \"%zz\"")),
            ("http://a b/", Err("parse \"http://a b/\": invalid character \" \" in host name")),
            ("http://[::1/", Err("parse \"http://[::1/\": missing ']' in host")),
            ("http://a\n", Err("parse \"http://a\\n\": net/url: invalid control character in URL")),
        ];
        for (text, wanted) in rows {
            let got = scheme_and_host(text);
            match wanted {
                Ok((scheme, host)) => assert_eq!(got, Ok((scheme.to_owned(), host)), "{text}"),
                Err(error) => assert_eq!(got, Err(error.to_owned()), "{text}"),
            }
        }
    }
}
