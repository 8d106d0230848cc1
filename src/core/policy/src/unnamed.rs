//! What a call of Envoy gets that names no namespace. Calls that are evaluated here are those of Mixer's API, which get the rules of the
//! mesh only.

use std::fmt;

use mixer_engine::routing::RoutingTable;
use mixer_engine::snapshot::RequestNamespace;

/// What a check of Envoy without a namespace gets, where that differs from the answer to Mixer's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithoutNamespace {
    /// A refusal: rules of a namespace may refuse it.
    Refusal,
    /// The rules of this namespace, `defaultNamespace` of the envoybridge.
    RulesOf(String),
}

impl fmt::Display for WithoutNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refusal => f.write_str("is refused"),
            Self::RulesOf(namespace) => write!(f, "gets the rules of `{namespace}` (defaultNamespace)"),
        }
    }
}

impl WithoutNamespace {
    /// That of a configuration; `None` if it has nothing for Envoy, sets the namespace in another way, or has no rules of a namespace that
    /// decide.
    pub fn of(routes: &RoutingTable) -> Option<Self> {
        if !routes.decides_by_namespace() {
            return None;
        }
        let extensions = routes.snapshot().extensions.iter();
        extensions
            .map(|extension| match extension.request_namespace() {
                RequestNamespace::Named => None,
                RequestNamespace::Missing(_) => Some(Self::Refusal),
                RequestNamespace::Default(namespace) => Some(Self::RulesOf(namespace.to_owned())),
            })
            .find(Option::is_some)?
    }
}

/// Whether attributes name the namespace of the request. `text`: the value of a string attribute.
pub fn names_namespace(text: impl Fn(&str) -> Option<String>) -> bool {
    let attribute = match text("context.reporter.kind").as_deref() {
        Some("outbound") => "source.namespace",
        None | Some("inbound") => "destination.namespace",
        Some(_) => return false,
    };
    text(attribute).is_some_and(|namespace| !namespace.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reporter_decides_which_attribute_counts() {
        let named = |attributes: &[(&str, &str)]| {
            let of = |name: &str| attributes.iter().find(|(known, _)| *known == name);
            names_namespace(|name| of(name).map(|(_, value)| (*value).to_owned()))
        };
        let kind = "context.reporter.kind";
        for (attributes, expected) in [
            (&[][..], false),
            (&[("destination.namespace", "shop")], true),
            (&[("destination.namespace", "")], false),
            (&[("source.namespace", "shop")], false),
            (&[(kind, "outbound"), ("source.namespace", "shop")], true),
            (&[(kind, "outbound"), ("destination.namespace", "shop")], false),
            (&[(kind, "inbound"), ("destination.namespace", "shop")], true),
            (&[(kind, "x"), ("destination.namespace", "shop")], false),
        ] {
            assert_eq!(named(attributes), expected, "{attributes:?}");
        }
    }
}
