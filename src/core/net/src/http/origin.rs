//! Requests that a browser may have been made to send: by a name that another site gave this host, or by a page of another site.

use http::{HeaderMap, HeaderValue, header};

/// Whether `Host` is an IP address, `localhost` or one of `names`, which are in lower case. Otherwise a page of another site may have been
/// given this address by its own name (DNS rebinding), and read the answer. Several `Host` are none.
pub fn has_known_host(headers: &HeaderMap, names: &[String]) -> bool {
    if headers.get_all(header::HOST).iter().count() > 1 {
        return false;
    }
    let Some(name) = host_name(host(headers)).map(str::to_ascii_lowercase) else { return false };
    let literal = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(&name);
    literal.parse::<std::net::IpAddr>().is_ok() || name == "localhost" || names.contains(&name)
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default()
}

/// `Host` without the port; `None` if what follows the colon is no port.
fn host_name(host: &str) -> Option<&str> {
    let is_port = |text: &str| text.parse::<u16>().is_ok() && text.bytes().all(|b| b.is_ascii_digit());
    match host.rsplit_once(':') {
        // IPv6 addresses are in brackets.
        Some((_, tail)) if tail.contains(']') => Some(host),
        Some((name, port)) => is_port(port).then_some(name),
        None => Some(host),
    }
}

/// Whether a page of another site sent a request that may change state. Browsers send `Sec-Fetch-Site`, `Origin` or `Referer` with those;
/// other clients send none of them.
pub fn is_cross_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    // A browser sends one of each; of two, a proxy may have looked at the other one.
    let is_repeated = |name: &&str| headers.get_all(*name).iter().count() > 1;
    if ["sec-fetch-site", "origin", "referer"].iter().any(is_repeated) {
        return true;
    }
    if text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return true;
    }
    text("origin").or_else(|| text("referer")).is_some_and(|page| {
        let rest = page.split_once("://").map_or(page, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !authority.eq_ignore_ascii_case(host(headers))
    })
}
