//! Numbers of attributes.

/// The dense number of an attribute in its [`Vocabulary`](crate::Vocabulary). Slots are in byte order of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

impl SlotId {
    /// The slot as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
