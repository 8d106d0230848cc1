//! Changes to the headers of an allowed request.

use http::{HeaderName, HeaderValue};

use mixer_engine::dispatch::{HeaderChange, RouteDirective};
use mixer_engine::snapshot::HeaderOperationKind::{Append, Remove, Replace};

/// What becomes of a request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestChange<'d> {
    /// It is set, and what the caller sent is dropped.
    Set(&'d HeaderChange),
    /// The value is added. With the index of the operation.
    Append(usize, &'d HeaderChange),
    /// It is removed.
    Remove(&'d str),
    /// Nothing: name or value is invalid.
    Invalid,
}

/// The changes of a directive, in order, removals of headers without a value last.
///
/// A header that a REPLACE was to set and did not, because the value is absent, empty or invalid, is removed unless another operation sets
/// it: the upstream would take the caller's own header for the one that policy sets. Cost: quadratic in the operations, which are few.
pub(crate) fn request_changes(directive: &RouteDirective) -> impl Iterator<Item = RequestChange<'_>> {
    let changes = &directive.request_headers;
    let sets = |name: &str, kind| {
        changes.iter().position(|c| c.kind == kind && c.name.eq_ignore_ascii_case(name) && is_valid(c))
    };
    let invalid = || changes.iter().filter(|c| c.kind == Replace && !is_valid(c)).map(|c| &*c.name);
    let unset = move || directive.unset_request_headers.iter().map(|name| &**name).chain(invalid());
    let is_unset = move |name: &str| {
        unset().any(|unset| unset.eq_ignore_ascii_case(name)) && sets(name, Replace).is_none()
    };
    let operations = changes.iter().enumerate().map(move |(index, change)| match change.kind {
        Remove => RequestChange::Remove(&change.name),
        _ if !is_valid(change) => RequestChange::Invalid,
        Replace => RequestChange::Set(change),
        Append if is_unset(&change.name) && sets(&change.name, Append) == Some(index) => {
            RequestChange::Set(change)
        }
        Append => RequestChange::Append(index, change),
    });
    let removed = unset()
        .filter(move |name| sets(name, Replace).is_none() && sets(name, Append).is_none() && is_name(name));
    operations.chain(removed.map(RequestChange::Remove))
}

/// Whether Envoy accepts the header: an invalid one fails the whole request.
pub(crate) fn is_valid(change: &HeaderChange) -> bool {
    is_name(&change.name) && HeaderValue::from_str(&change.value).is_ok()
}

fn is_name(name: &str) -> bool {
    HeaderName::from_bytes(name.strip_prefix(':').unwrap_or(name).as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(
        changes: &[(&str, &str, mixer_engine::snapshot::HeaderOperationKind)],
        unset: &[&str],
    ) -> String {
        let directive = RouteDirective {
            request_headers: changes
                .iter()
                .map(|(name, value, kind)| HeaderChange {
                    name: (*name).to_owned(),
                    value: (*value).to_owned(),
                    kind: *kind,
                })
                .collect(),
            unset_request_headers: unset.iter().map(|name| (*name).to_owned()).collect(),
            ..RouteDirective::default()
        };
        let shown = request_changes(&directive).map(|change| match change {
            RequestChange::Set(change) => format!("{}={}", change.name, change.value),
            RequestChange::Append(_, change) => format!("{}+{}", change.name, change.value),
            RequestChange::Remove(name) => format!("-{name}"),
            RequestChange::Invalid => "?".to_owned(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_header_that_is_not_set_is_removed() {
        for (changes, unset, expected) in [
            (&[][..], &["x-user"][..], "-x-user"),
            (&[("x-user", "a\nb", Replace)], &[], "? -x-user"),
            (&[("bad name", "a", Replace)], &["bad name"], "?"),
            (&[("X-User", "ann", Replace)], &["x-user"], "X-User=ann"),
            (&[("x-user", "ann", Append), ("x-user", "eve", Append)], &["x-user"], "x-user=ann x-user+eve"),
            (&[("x-user", "ann", Append)], &[], "x-user+ann"),
            (&[("x-user", "a\nb", Append)], &[], "?"),
            (&[("x-user", "", Remove)], &["x-team"], "-x-user -x-team"),
        ] {
            assert_eq!(shown(changes, unset), expected, "{changes:?}, {unset:?}");
        }
    }
}
