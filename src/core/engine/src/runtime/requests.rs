//! Sets of requests, by the namespace whose rules decide about them.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Most namespaces of a set; one that needs more counts as all requests.
const MAX_NAMESPACES: usize = 64;

/// A set of requests that has at least those that it stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Requests {
    is_any: bool,
    namespaces: BTreeSet<Arc<str>>,
}

impl Requests {
    /// All requests.
    pub(super) fn any() -> Self {
        Self { is_any: true, namespaces: BTreeSet::new() }
    }

    /// Requests to a namespace; without one, all.
    pub(super) fn of(namespace: Option<&Arc<str>>) -> Self {
        namespace.map_or_else(Self::any, |namespace| Self {
            is_any: false,
            namespaces: BTreeSet::from([Arc::clone(namespace)]),
        })
    }

    /// Requests that name no namespace.
    pub(super) fn naming_none() -> Self {
        // No namespace has such a name.
        Self::of(Some(&Arc::from("")))
    }

    /// Requests that name a namespace in other letters, with which they name no other one.
    pub(super) fn misnaming(namespace: &str) -> Self {
        Self::of(Some(&format!(" {namespace}").into()))
    }

    /// Whether it has none.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_any && self.namespaces.is_empty()
    }

    /// Whether it is known to have all.
    pub(super) fn is_any(&self) -> bool {
        self.is_any
    }

    /// Adds others.
    pub(super) fn add(&mut self, mut others: Self) {
        self.namespaces.append(&mut others.namespaces);
        if self.is_any || others.is_any || self.namespaces.len() > MAX_NAMESPACES {
            *self = Self::any();
        }
    }

    /// Whether both may have a request together.
    pub(super) fn meets(&self, other: &Self) -> bool {
        match (self.is_any, other.is_any) {
            (true, _) => !other.is_empty(),
            (_, true) => !self.is_empty(),
            (false, false) => !self.namespaces.is_disjoint(&other.namespaces),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_meet_in_a_namespace() {
        let of = |namespace: &str| Requests::of(Some(&namespace.into()));
        let mut two = of("a");
        two.add(of("b"));
        assert!(two.meets(&of("b")) && !two.meets(&of("c")) && two.meets(&Requests::any()));
        assert!(!Requests::any().meets(&Requests::default()) && Requests::any().meets(&Requests::of(None)));
        assert!(!Requests::naming_none().meets(&of("a")) && !Requests::misnaming("a").meets(&of("a")));
        (0..=MAX_NAMESPACES).for_each(|number| two.add(of(&number.to_string())));
        assert_eq!(two, Requests::any());
    }
}
