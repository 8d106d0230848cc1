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

/// Namespaces that have rules and are not written as those of Kubernetes, by their names in lower case. There is hardly ever one.
#[derive(Debug, Default)]
pub(super) struct FoldedNames(HashMap<Vec<u8>, Box<[u8]>>);

impl FoldedNames {
    /// Those of rules of several kinds. Cost: a look at each name, of which the usual ones are not copied.
    pub(super) fn of<'r>(kinds: impl Iterator<Item = &'r NamespaceRules>) -> Self {
        let names = kinds.flat_map(|rules| rules.own.keys()).filter(|name| !is_folded(name));
        Self(names.map(|name| (folded(name), name.clone())).collect())
    }

    /// The namespace that is probably meant by a name that has no rules of these kinds.
    pub(super) fn meant_by<'r>(
        &'r self,
        named: &[u8],
        mut kinds: impl Iterator<Item = &'r NamespaceRules>,
    ) -> Option<&'r [u8]> {
        let folded = folded(named);
        let usual = kinds.find_map(|rules| rules.own.get_key_value(&*folded)).map(|(name, _)| &**name);
        usual.or_else(|| self.0.get(&folded).map(|name| &**name))
    }
}

fn folded(name: &[u8]) -> Vec<u8> {
    name.trim_ascii().to_ascii_lowercase()
}

fn is_folded(name: &[u8]) -> bool {
    name.trim_ascii().len() == name.len() && !name.iter().any(u8::is_ascii_uppercase)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn names_are_meant_that_differ_in_letter_case_or_blanks() {
        let names = [&b"shop"[..], b"Cart", b" bank"];
        let own = names.into_iter().map(|name| (name.into(), Arc::default())).collect();
        let rules = NamespaceRules { own: Arc::new(own), ..NamespaceRules::default() };
        let kinds = || std::iter::once(&rules);
        let folded = FoldedNames::of(kinds());
        assert_eq!(folded.0.len(), 2, "the usual ones are not copied");
        for (named, meant) in [
            (&b"Shop"[..], Some(&b"shop"[..])),
            (b" shop", Some(b"shop")),
            (b"cart", Some(b"Cart")),
            (b"CART", Some(b"Cart")),
            (b"bank", Some(b" bank")),
            (b"other", None),
        ] {
            assert_eq!(folded.meant_by(named, kinds()), meant, "{}", String::from_utf8_lossy(named));
        }
    }
}
