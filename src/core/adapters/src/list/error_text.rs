//! Error messages of HTTP servers and proxies in plain text, which come with status 200 from a service that is out of order.

/// Longest error message, in bytes.
const MAX_TEXT: usize = 512;

/// Reason phrases of statuses from 400, in lower case.
const REASONS: [&str; 25] = [
    "bad gateway",
    "bad request",
    "conflict",
    "expectation failed",
    "forbidden",
    "gateway timeout",
    "gateway time-out",
    "gone",
    "internal server error",
    "length required",
    "method not allowed",
    "misdirected request",
    "network authentication required",
    "not acceptable",
    "not found",
    "not implemented",
    "page not found",
    "payment required",
    "permission denied",
    "proxy authentication required",
    "request timeout",
    "service temporarily unavailable",
    "service unavailable",
    "too many requests",
    "unauthorized",
];

/// What proxies say instead of a service, in lower case.
const OF_PROXIES: [&str; 7] = [
    "access denied",
    "default backend - 404",
    "fault filter abort",
    "no healthy upstream",
    "rbac: access denied",
    "upstream connect error or disconnect/reset before headers",
    "upstream request timeout",
];

/// Whether a body is one line that is an error message: a status and its reason phrase, `404 page not found`, or a phrase of several
/// words, `Not Found`. One word, such as `Forbidden` or `404`, may be an entry.
pub(super) fn is_error_text(body: &[u8]) -> bool {
    let Some(text) = std::str::from_utf8(body).ok().map(str::trim) else { return false };
    if text.is_empty() || text.len() > MAX_TEXT || text.contains('\n') {
        return false;
    }
    let text = text.to_ascii_lowercase();
    if OF_PROXIES.iter().any(|known| text.strip_suffix('.').unwrap_or(&text) == *known)
        || text.starts_with("upstream connect error or disconnect/reset before headers. ")
    {
        return true;
    }
    let words = text.split_ascii_whitespace().map(|word| word.trim_end_matches([':', ',']));
    let mut words = words.filter(|word| !matches!(*word, "" | "-")).peekable();
    let is_named = words
        .next_if(|word| matches!(*word, "error" | "http" | "status") || word.starts_with("http/"))
        .is_some();
    let is_status =
        |word: &&str| word.len() == 3 && word.parse().is_ok_and(|code: u16| (400..600).contains(&code));
    let has_status = words.next_if(is_status).is_some();
    let rest = words.collect::<Vec<_>>().join(" ");
    let reason = rest.trim_end_matches(['.', '!']);
    let is_reason = || REASONS.contains(&reason);
    match (has_status, reason) {
        (true, "") => is_named,
        (true, _) => is_reason(),
        (false, _) => reason.contains(' ') && is_reason(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_are_told_from_entries() {
        for text in [
            "404 page not found\n",
            "404 Not Found",
            "404: Not Found",
            "Not Found\n",
            "Internal Server Error",
            "Internal Server Error.",
            "HTTP/1.1 502 Bad Gateway\r\n",
            "HTTP 503 Service Unavailable",
            "Error 403 - Forbidden",
            "error: 404",
            "403 Forbidden",
            "504 Gateway Time-out",
            "default backend - 404",
            "no healthy upstream",
            "upstream request timeout",
            "upstream connect error or disconnect/reset before headers. reset reason: connection failure",
            "RBAC: access denied",
            "Too Many Requests",
        ] {
            assert!(is_error_text(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "\n",
            "404",
            "404\n503\n",
            "forbidden",
            "Unauthorized",
            "gone",
            "not found\nforbidden page\n",
            "404 page not found\nmallory\n",
            "mallory",
            "two words",
            "404 not a user",
            "200 OK",
            "error",
            "http",
            "HTTP/1.1",
            "error page",
            "/not/found",
            "not-found",
        ] {
            assert!(!is_error_text(text.as_bytes()), "{text}");
        }
        assert!(!is_error_text(&[b'a'; 4096]));
        assert!(!is_error_text(b"\xff"));
    }
}
