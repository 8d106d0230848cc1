//! Where in a resource a decoder is.

use mixer_config::message::lower_camel;
use mixer_config::{FieldPath, Node};

/// A position, as a list of steps from the body of the resource; it becomes a [`FieldPath`] for problems only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'p> {
    outer: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'p> {
    Base(&'p FieldPath),
    Field(&'p str),
    Index(usize),
    Key(&'p str),
}

impl<'p> Place<'p> {
    /// The position of the body in its resource.
    pub(crate) fn base(path: &'p FieldPath) -> Self {
        Self { outer: None, step: Step::Base(path) }
    }

    /// A field below.
    pub(crate) fn field<'q>(&'q self, name: &'q str) -> Place<'q> {
        Place { outer: Some(self), step: Step::Field(name) }
    }

    /// An item of the list at this position.
    pub(crate) fn index(&self, index: usize) -> Place<'_> {
        Place { outer: Some(self), step: Step::Index(index) }
    }

    /// An entry of the map at this position.
    pub(crate) fn key<'q>(&'q self, key: &'q str) -> Place<'q> {
        Place { outer: Some(self), step: Step::Key(key) }
    }

    /// The path from the root of the resource.
    pub(crate) fn path(&self) -> FieldPath {
        let outer = self.outer.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Base(path) => path.clone(),
            Step::Field(name) => outer.field(name),
            Step::Index(index) => outer.index(index),
            Step::Key(key) => outer.key(key),
        }
    }

    /// The value there in the body, or the innermost one around it that exists.
    pub(crate) fn node<'n>(&self, body: &'n Node) -> &'n Node {
        let outer = self.outer.map_or(body, |outer| outer.node(body));
        self.step_from(outer).unwrap_or(outer)
    }

    /// Whether the body has a value there.
    pub(crate) fn is_in(&self, body: &Node) -> bool {
        match self.outer {
            None => true,
            Some(outer) => outer.is_in(body) && self.step_from(outer.node(body)).is_some(),
        }
    }

    fn step_from<'n>(&self, outer: &'n Node) -> Option<&'n Node> {
        match self.step {
            Step::Base(_) => None,
            Step::Field(name) => outer
                .get(name)
                .or_else(|| outer.entries().iter().find(|e| lower_camel(&e.key) == name).map(|e| &e.value)),
            Step::Index(index) => outer.items().get(index),
            Step::Key(key) => outer.get(key),
        }
    }
}
