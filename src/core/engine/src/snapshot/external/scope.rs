//! The outputs of templates as attributes of expressions.

use mixer_attribute::{SlotId, ValueType, Vocabulary};
use mixer_expr::Scope;

/// Most outputs that the expressions of a rule, or of an instance, may read.
pub(in crate::snapshot) const MAX_OUTPUTS: usize = 256;

/// The attributes of a vocabulary, and outputs. Every output has a slot of its own, beyond those of the vocabulary.
#[derive(Debug)]
pub(in crate::snapshot) struct OutputScope<'v> {
    vocabulary: &'v Vocabulary,
    /// By name; the position is that of its slot.
    outputs: Vec<(String, ValueType)>,
}

impl<'v> OutputScope<'v> {
    pub(in crate::snapshot) fn new(vocabulary: &'v Vocabulary) -> Self {
        Self { vocabulary, outputs: Vec::new() }
    }

    /// Adds an output. A later one hides an earlier one of the same name.
    pub(in crate::snapshot) fn add(&mut self, name: String, value_type: ValueType) {
        self.outputs.push((name, value_type));
    }

    pub(in crate::snapshot) fn len(&self) -> usize {
        self.outputs.len()
    }

    /// Whether a text may read an output.
    pub(in crate::snapshot) fn is_named_in(&self, text: &str) -> bool {
        !self.outputs.is_empty() && text.contains("output.")
    }
}

impl Scope for OutputScope<'_> {
    fn attribute(&self, name: &str) -> Option<(SlotId, ValueType)> {
        let output = self.outputs.iter().rposition(|(known, _)| known == name);
        match output {
            Some(at) => {
                let slot = SlotId::of_output(at)?;
                Some((slot, self.outputs.get(at)?.1))
            }
            None => self.vocabulary.attribute(name),
        }
    }

    fn has_below(&self, name: &str) -> bool {
        let is_below = |output: &str| output.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        self.outputs.iter().any(|(output, _)| is_below(output)) || self.vocabulary.has_below(name)
    }

    fn names(&self) -> Vec<&str> {
        let outputs = self.outputs.iter().map(|(name, _)| name.as_str());
        outputs.chain(self.vocabulary.names()).collect()
    }
}
