//! The paths of the HTTP endpoints.

/// Rate limits as JSON.
pub(crate) const JSON: &str = "/json";
/// The active limits.
pub(crate) const ACTIVE_LIMITS: &str = "/rlconfig";
/// The health of the endpoint of rate limits.
pub(crate) const HEALTH: &str = "/healthcheck";

/// The path without a prefix that ends at a segment boundary; `None` for other paths.
pub(crate) fn strip_prefix<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
    (rest.starts_with(['/', '?']) || rest.is_empty()).then_some(if rest.is_empty() { "/" } else { rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_a_segment_boundary() {
        for (path, prefix, rest) in [
            ("/check/a?b=c", "/check", Some("/a?b=c")),
            ("/check", "/check", Some("/")),
            ("/check/", "/check/", Some("/")),
            ("/check?x", "/check", Some("?x")),
            ("/checkout", "/check", None),
            ("/a", "", Some("/a")),
            ("/a", "/", Some("/a")),
        ] {
            assert_eq!(strip_prefix(path, prefix), rest, "{path} under {prefix}");
        }
    }
}
