//! Scheme and host of a URL, with the verdicts and error texts of Go's `net/url`, which Istio Mixer's validation shows.
//!
//! The `url` crate follows WHATWG: it has other errors, and rewrites `http:opaque` to `http://opaque/`.

/// Scheme and host (port included) of `text`; either may be empty.
///
/// Errors: `parse "<text>": <why>`.
pub(super) fn scheme_and_host(text: &str) -> Result<(String, &str), String> {
    let error = |why: String| format!("parse \"{text}\": {why}");
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err(format!("parse {text:?}: net/url: invalid control character in URL"));
    }
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let (scheme, rest) = split_scheme(text).map_err(|e| error(e.to_owned()))?;
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    if scheme.is_empty() && !rest.starts_with('/') {
        let segment = rest.split_once('/').map_or(rest, |(first, _)| first);
        if segment.contains(':') {
            return Err(error("first path segment in URL cannot contain colon".to_owned()));
        }
    }
    let mut host = "";
    let mut path = rest;
    if let Some(authority) = rest.strip_prefix("//").filter(|_| !rest.starts_with("///")) {
        let (authority, after) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
        host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        path = after;
        check_host(host).map_err(error)?;
    }
    check_escapes(path).map_err(error)?;
    Ok((scheme.to_ascii_lowercase(), host))
}

fn split_scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (at, c) in text.bytes().enumerate() {
        match c {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme"),
            b':' => return Ok((text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default())),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((_, after)) => after,
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.rfind(':').and_then(|at| host.get(at..)).unwrap_or_default(),
    };
    let good_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !good_port {
        return Err(format!("invalid port \"{port}\" after host"));
    }
    if let Some(bad) =
        host.chars().find(|c| matches!(c, ' ' | '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        // compat(1.3): blanks and the like are refused in host names.
        if !matches!(bad, '<' | '>' | '"') {
            return Err(format!("invalid character {:?} in host name", bad.to_string()));
        }
    }
    check_escapes(host)
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let escape = text.as_bytes().get(at + 1..at + 3).unwrap_or_default();
        if escape.len() < 2 || !escape.iter().all(u8::is_ascii_hexdigit) {
            let shown: String = text.get(at..).unwrap_or_default().chars().take(3).collect();
            return Err(format!("invalid URL escape \"{shown}\""));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::scheme_and_host;

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
