//! What a policy reads of `input` and `data`, and what follows where it is undefined.

/// What becomes of the result if a part of a rule does not hold: the same as with the rule, or the opposite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sense {
    Same,
    Opposite,
    Both,
}

impl Sense {
    /// The sense of what has the sense `inner` within this.
    pub(super) fn then(self, inner: Self) -> Self {
        match (self, inner) {
            (Sense::Same, other) | (other, Sense::Same) => other,
            (Sense::Opposite, Sense::Opposite) => Sense::Same,
            _ => Sense::Both,
        }
    }
}

/// What a rule that holds does to the result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effect {
    /// It allows.
    pub(super) allows: bool,
    /// It refuses.
    pub(super) refuses: bool,
}

impl Effect {
    pub(super) const ANY: Self = Self { allows: true, refuses: true };

    /// The effect of a part of the rule.
    pub(super) fn of_part(self, sense: Sense) -> Self {
        let Self { allows, refuses } = self;
        match sense {
            Sense::Same => self,
            Sense::Opposite => Self { allows: refuses, refuses: allows },
            Sense::Both => Self { allows: allows || refuses, refuses: allows || refuses },
        }
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { allows: self.allows || other.allows, refuses: self.refuses || other.refuses }
    }

    /// Whether the result depends on it.
    pub(super) fn is_any(self) -> bool {
        self.allows || self.refuses
    }
}

/// A place where a rule reads a name of `input` or `data`.
#[derive(Debug)]
pub(super) struct Read {
    /// The name as far as it is written out, from `input` or `data` on.
    pub(super) path: Vec<String>,
    /// Whether the rule looks into its value: at a member that is not written out, or for an element.
    pub(super) looks_into: bool,
    /// Whether it is compared, so that an empty text would do what an absent one does not.
    pub(super) is_compared: bool,
    /// Whether it is a statement of its own, `not input.subject.user`.
    pub(super) is_tested: bool,
    pub(super) module: usize,
    /// `FILE:LINE:COLUMN`.
    pub(super) place: String,
    /// Whether it is in a statement with `with`.
    pub(super) is_within_with: bool,
    /// What its rule does if the name has the value that the rule expects. None where `with` replaces the name.
    pub(super) effect: Effect,
}
