//! The paths of the HTTP endpoint.

/// Rate limits as JSON.
pub(crate) const JSON: &str = "/json";
/// The active limits.
pub(crate) const ACTIVE_LIMITS: &str = "/rlconfig";
/// The health of the endpoint.
pub(crate) const HEALTH: &str = "/healthcheck";

/// The path without a prefix that ends at a segment boundary; `None` for other paths.
pub(crate) fn strip_prefix<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
    (rest.starts_with(['/', '?']) || rest.is_empty()).then_some(if rest.is_empty() { "/" } else { rest })
}

/// A path of the endpoint itself that lies below the prefix of checks: a caller of the proxy could ask for it instead of being checked.
pub(super) fn covered_path(prefix: &str) -> Option<&'static str> {
    [JSON, ACTIVE_LIMITS, HEALTH].into_iter().find(|path| strip_prefix(path, prefix).is_some())
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

    #[test]
    fn own_paths_are_covered_by_their_prefixes_only() {
        let covered =
            ["/", "", "/healthcheck/", "/rlconfig", "/check", "/health", "/json/x"].map(covered_path);
        assert_eq!(covered, [Some(JSON), Some(JSON), Some(HEALTH), Some(ACTIVE_LIMITS), None, None, None]);
    }
}
