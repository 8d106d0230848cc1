//! What requests of Envoy name instead of a namespace that has rules.

use foldhash::HashMap;

use super::namespaces::NamespaceRules;

/// Why the rules of the mesh alone must not decide about a request, although no other rules are found for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceFault {
    /// It names no namespace, and rules of any may be meant.
    Missing,
    /// It names one that has no rules, and that differs in letter case, or in blanks around it, from one that has.
    Misspelt {
        /// As the request has it.
        named: String,
        /// The namespace that has rules.
        meant: String,
    },
}

/// Namespaces that have rules, by their names in lower case.
#[derive(Debug, Default)]
pub(super) struct FoldedNames(HashMap<Vec<u8>, Box<[u8]>>);

impl FoldedNames {
    /// Those of rules of several kinds. Cost: proportional to the number of namespaces.
    pub(super) fn of<'r>(kinds: impl Iterator<Item = &'r NamespaceRules>) -> Self {
        let names = kinds.flat_map(|rules| rules.own.keys());
        Self(names.map(|name| (folded(name), name.clone())).collect())
    }

    /// The namespace that is probably meant by a name that has no rules.
    pub(super) fn meant_by(&self, named: &[u8]) -> Option<&[u8]> {
        self.0.get(&folded(named)).map(|name| &**name)
    }
}

fn folded(name: &[u8]) -> Vec<u8> {
    name.trim_ascii().to_ascii_lowercase()
}
