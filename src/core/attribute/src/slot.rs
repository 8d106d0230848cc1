//! Numbers of attributes.

/// The dense number of an attribute in its [`Vocabulary`](crate::Vocabulary). Slots are in byte order of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

impl SlotId {
    /// The first slot of outputs: no vocabulary is as large.
    const OUTPUTS: u32 = 1 << 31;

    /// The slot of an output of an adapter, by its position among those that an expression may read. It is in no vocabulary. `None` if the
    /// position is too large.
    pub fn of_output(position: usize) -> Option<SlotId> {
        let position = u32::try_from(position).ok()?;
        (position < Self::OUTPUTS).then_some(SlotId(Self::OUTPUTS | position))
    }

    /// The position of an output; `None` for an attribute of a vocabulary.
    pub fn output_position(self) -> Option<usize> {
        (self.0 & Self::OUTPUTS != 0).then_some((self.0 & !Self::OUTPUTS) as usize)
    }

    /// The slot as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
