//! The location of a redirect.

use crate::bootstrap::{MatchConfig, Redirect};
use crate::head::Head;

/// The address of the request, which Envoy says in `location` with a direct response 201 or 3xx.
pub(super) fn of_request(head: &Head, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(head.pseudo_or_field(":scheme").unwrap_or(b"http"));
    out.extend_from_slice(b"://");
    out.extend_from_slice(head.authority());
    if !head.path().starts_with(b"/") {
        out.push(b'/');
    }
    out.extend_from_slice(head.path());
}

/// The header `location`: absolute, with the query unless it is dropped.
pub(super) fn location(redirect: &Redirect, matching: &MatchConfig, head: &Head, out: &mut Vec<u8>) {
    out.clear();
    let scheme = head.pseudo_or_field(":scheme").unwrap_or(b"http");
    let scheme = redirect.scheme.as_deref().map_or(scheme, str::as_bytes);
    out.extend_from_slice(scheme);
    out.extend_from_slice(b"://");
    let authority = head.authority();
    match (&redirect.host, redirect.port) {
        (Some(host), None) => out.extend_from_slice(host.as_bytes()),
        (None, None) => {
            // The port that was the default of the scheme before says nothing of the new one.
            let default: &[u8] = if redirect.scheme.as_deref() == Some("https") { b":80" } else { b":443" };
            let changes = redirect.scheme.is_some();
            let kept = authority.strip_suffix(default).filter(|_| changes).unwrap_or(authority);
            out.extend_from_slice(kept);
        }
        (host, Some(port)) => {
            let host = host.as_deref().map_or_else(|| without_port(authority), str::as_bytes);
            out.extend_from_slice(host);
            let is_default = (scheme == b"http" && port == 80) || (scheme == b"https" && port == 443);
            if !is_default {
                out.push(b':');
                out.extend_from_slice(port.to_string().as_bytes());
            }
        }
    }
    let path = head.path();
    let plain = head.path_without_query();
    let query = path.get(plain.len()..).unwrap_or_default();
    let query = if redirect.strip_query { &b""[..] } else { query };
    let begins = |path: &[u8], out: &mut Vec<u8>| {
        // Otherwise it would go on with the host: the client says a part of it.
        if !path.starts_with(b"/") {
            out.push(b'/');
        }
    };
    match (&redirect.path, &redirect.prefix_rewrite) {
        (Some(whole), _) => {
            begins(whole.as_bytes(), out);
            out.extend_from_slice(whole.as_bytes());
            // A path with a query of its own replaces that of the request.
            if whole.contains('?') {
                return;
            }
        }
        (None, Some(prefix)) => {
            begins(prefix.as_bytes(), out);
            out.extend_from_slice(prefix.as_bytes());
            out.extend_from_slice(plain.get(matching.matched_length(plain)..).unwrap_or_default());
        }
        (None, None) => {
            begins(plain, out);
            out.extend_from_slice(plain);
        }
    }
    out.extend_from_slice(query);
}

fn without_port(authority: &[u8]) -> &[u8] {
    let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = authority.get(..authority.len() - digits).unwrap_or_default();
    if digits > 0 { rest.strip_suffix(b":").unwrap_or(authority) } else { authority }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::PathMatch;

    #[test]
    fn the_path_never_goes_on_with_the_host() {
        let mut head = Head::default();
        head.read_request(b"GET /a/@evil.test/x?q HTTP/1.1\r\nhost: h\r\n\r\n", 10).unwrap();
        head.set_authority(b"h");
        let matching = MatchConfig {
            path: PathMatch::Prefix("/a/".to_owned()),
            case_sensitive: true,
            headers: Vec::new(),
        };
        let base = Redirect {
            status: 301,
            scheme: None,
            host: None,
            port: None,
            path: None,
            prefix_rewrite: None,
            strip_query: false,
        };
        let text = |text: &str| Some(text.to_owned());
        for (redirect, expected) in [
            (Redirect { prefix_rewrite: text("nn"), ..base.clone() }, "http://h/nn@evil.test/x?q"),
            (Redirect { prefix_rewrite: text("/b/"), ..base.clone() }, "http://h/b/@evil.test/x?q"),
            (
                Redirect { host: text("new.test"), prefix_rewrite: text("."), ..base.clone() },
                "http://new.test/.@evil.test/x?q",
            ),
            (Redirect { path: text("@evil.test"), ..base.clone() }, "http://h/@evil.test?q"),
            (Redirect { path: text("?x"), ..base.clone() }, "http://h/?x"),
            (Redirect { port: Some(8080), ..base.clone() }, "http://h:8080/a/@evil.test/x?q"),
        ] {
            let mut out = Vec::new();
            location(&redirect, &matching, &head, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
