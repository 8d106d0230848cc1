//! The location of a redirect.

use crate::bootstrap::{MatchConfig, Redirect};
use crate::head::Head;

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
    match (&redirect.path, &redirect.prefix_rewrite) {
        (Some(whole), _) => {
            out.extend_from_slice(whole.as_bytes());
            // A path with a query of its own replaces that of the request.
            if whole.contains('?') {
                return;
            }
        }
        (None, Some(prefix)) => {
            out.extend_from_slice(prefix.as_bytes());
            out.extend_from_slice(plain.get(matching.matched_length(plain)..).unwrap_or_default());
        }
        (None, None) => out.extend_from_slice(plain),
    }
    out.extend_from_slice(query);
}

fn without_port(authority: &[u8]) -> &[u8] {
    let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = authority.get(..authority.len() - digits).unwrap_or_default();
    if digits > 0 { rest.strip_suffix(b":").unwrap_or(authority) } else { authority }
}
