//! Resolution of references.

use mixer_base::suggestion::{Case, near};
use mixer_config::message::suggestion;

/// The fully qualified names that a reference may resolve to, in lookup order.
pub(crate) fn candidates(reference: &str, kind: &str, namespace: &str) -> (String, Option<String>) {
    let mut parts = reference.split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => (format!("{name}.{kind}.{namespace}"), None),
        (Some(name), Some(second), None) => {
            (format!("{name}.{second}.{namespace}"), Some(format!("{name}.{kind}.{second}")))
        }
        _ => (reference.to_owned(), None),
    }
}

/// The part of a three-part name before its first dot.
pub(super) fn short_name(full: &str) -> &str {
    let mut dots = full.match_indices('.');
    match (dots.next(), dots.next(), dots.next()) {
        (Some((at, _)), Some(_), None) => full.get(..at).unwrap_or(full),
        _ => full,
    }
}

/// A hint for an unresolved reference, given the existing full names; none once the budget of suggestions is used up.
pub(super) fn reference_hint<'n>(
    reference: &str,
    kind: &str,
    namespace: &str,
    existing: impl Iterator<Item = &'n str> + Clone,
) -> Option<String> {
    /// A full name, compared by its short one.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct ByShortName<'n>(&'n str);
    impl AsRef<str> for ByShortName<'_> {
        fn as_ref(&self) -> &str {
            short_name(self.0)
        }
    }
    // The shortest form that resolves in this namespace.
    let spelled = |full: &str| -> String {
        let parts = full.split('.').collect::<Vec<_>>();
        match parts.as_slice() {
            [name, k, ns] if *k == kind && *ns == namespace => (*name).to_owned(),
            [name, k, ns] if *k == kind => format!("{name}.{ns}"),
            [name, k, ns] if *ns == namespace => format!("{name}.{k}"),
            _ => full.to_owned(),
        }
    };
    let short = reference.split('.').next().unwrap_or(reference);
    let elsewhere = near(short, existing.clone().map(ByShortName), Case::Distinguished, |_| 0);
    if let Some((_, ByShortName(full))) = elsewhere.into_iter().min() {
        let reach = if reference.contains('.') {
            ""
        } else {
            ": a short name is resolved in the namespace of the rule"
        };
        return Some(format!("did you mean `{}`?{reach}", spelled(full)));
    }
    suggestion(reference, existing.clone().map(spelled)).or_else(|| {
        // A name with its namespace is that of the resource alone, and compared with names alone.
        let limit = (short.chars().count() / 3).max(1);
        let similar = near(short, existing.map(ByShortName), Case::Ignored, |_| limit);
        let (_, ByShortName(full)) = similar.into_iter().min()?;
        Some(format!("did you mean `{}`?", spelled(full)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_found_with_and_without_their_namespace() {
        let existing = ["turn-away.handler.ops", "visitors.handler.shop"];
        for (reference, hint) in [
            ("turn-awya", Some("did you mean `turn-away`?")),
            ("turn-awya.ops", Some("did you mean `turn-away`?")),
            ("turn-awya.denier.ops", Some("did you mean `turn-away`?")),
            ("turn-awya.handler.ops", Some("did you mean `turn-away`?")),
            ("visitor.shop", Some("did you mean `visitors.shop`?")),
            (
                "visitors",
                Some("did you mean `visitors.shop`?: a short name is resolved in the namespace of the rule"),
            ),
            ("others.ops", None),
        ] {
            let found = reference_hint(reference, "handler", "ops", existing.into_iter());
            assert_eq!(found.as_deref(), hint, "{reference}");
        }
    }

    #[test]
    fn references_resolve_in_order() {
        let cases = [
            ("a", ("a.handler.ns", None)),
            ("a.b", ("a.b.ns", Some("a.handler.b"))),
            ("a.b.c", ("a.b.c", None)),
            ("a.b.c.d", ("a.b.c.d", None)),
            ("", (".handler.ns", None)),
        ];
        for (reference, (first, second)) in cases {
            let got = candidates(reference, "handler", "ns");
            assert_eq!((got.0.as_str(), got.1.as_deref()), (first, second));
        }
    }

    #[test]
    fn hints_use_the_shortest_form() {
        let existing = ["deny.handler.istio-system", "gate.denier.shop", "other.handler.shop"];
        let hint = |reference| reference_hint(reference, "handler", "shop", existing.iter().copied());
        let lookup = ": a short name is resolved in the namespace of the rule";
        assert_eq!(hint("deny"), Some(format!("did you mean `deny.istio-system`?{lookup}")));
        assert_eq!(hint("gate"), Some(format!("did you mean `gate.denier`?{lookup}")));
        assert_eq!(hint("othr"), Some("did you mean `other`?".to_owned()));
        assert_eq!(hint("zzz"), None);
    }
}
