//! What a call of Envoy gets that names no namespace. Calls that are explained are those of Mixer's API, which get the rules of the mesh only.

use std::fmt;

use crate::routing::RoutingTable;
use crate::snapshot::RequestNamespace;

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
