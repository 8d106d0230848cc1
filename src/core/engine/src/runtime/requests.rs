//! Sets of requests, by namespace and by what their attributes must be.

use std::sync::Arc;

use mixer_expr::Selection;

/// Most selections of a set; one that needs more counts as all requests.
const MAX_PARTS: usize = 64;

/// A set of requests that has at least those that it stands for.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests {
    is_any: bool,
    parts: Vec<Part>,
}

/// Requests to a namespace; to any without one.
#[derive(Debug, Clone)]
struct Part {
    namespace: Option<Arc<str>>,
    selection: Selection,
}

impl Requests {
    /// All requests.
    pub(super) fn any() -> Self {
        Self { is_any: true, parts: Vec::new() }
    }

    /// Requests to a namespace, or to any.
    pub(super) fn of(namespace: Option<&Arc<str>>, selection: Selection) -> Self {
        if selection.is_never() {
            return Self::default();
        }
        Self { is_any: false, parts: vec![Part { namespace: namespace.cloned(), selection }] }
    }

    /// Requests of a selection that name no namespace.
    pub(super) fn naming_none(selection: Selection) -> Self {
        // No namespace has such a name.
        Self::of(Some(&Arc::from("")), selection)
    }

    /// Requests that name a namespace in other letters, with which they name no other one.
    pub(super) fn misnaming(namespace: &str) -> Self {
        Self::of(Some(&format!(" {namespace}").into()), Selection::all())
    }

    /// Whether it has none.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_any && self.parts.is_empty()
    }

    /// Whether it is known to have all.
    pub(super) fn is_any(&self) -> bool {
        self.is_any
    }

    /// Adds others.
    pub(super) fn add(&mut self, mut others: Self) {
        self.parts.append(&mut others.parts);
        if self.is_any || others.is_any || self.parts.len() > MAX_PARTS {
            *self = Self::any();
        }
    }

    /// Whether both may have a request together; if so, with a text that both ask for, if there is one.
    pub(super) fn meet<'r>(&'r self, other: &'r Self) -> Option<Option<&'r str>> {
        if self.is_empty() || other.is_empty() {
            return None;
        }
        if self.is_any || other.is_any {
            return Some(None);
        }
        let pairs = self.parts.iter().flat_map(|a| other.parts.iter().map(move |b| (a, b)));
        let mut meeting = pairs.filter(|(a, b)| a.meets(b)).peekable();
        meeting.peek()?;
        Some(meeting.find_map(|(a, b)| a.selection.common_text(&b.selection)))
    }
}

impl Part {
    fn meets(&self, other: &Self) -> bool {
        let (one, two) = (self.namespace.as_ref(), other.namespace.as_ref());
        let is_apart = one.zip(two).is_some_and(|(one, two)| one != two);
        !is_apart && self.selection.meets(&other.selection)
    }
}
