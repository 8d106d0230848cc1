//! URLs of backends in parameters.

/// Whether a URL has a scheme of HTTP and a host.
pub(crate) fn has_host(url: &str) -> bool {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        url.split_at_checked(scheme.len())
            .filter(|(head, _)| head.eq_ignore_ascii_case(scheme))
            .map(|(_, rest)| rest)
    });
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']))
}
