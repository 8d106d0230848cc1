//! Splits an input into values. Every read succeeds: after the end numbers are 0 and strings are empty.

pub(crate) struct Input<'d> {
    rest: &'d [u8],
}

impl<'d> Input<'d> {
    pub(crate) fn new(data: &'d [u8]) -> Self {
        Self { rest: data }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.take(4).iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }

    pub(crate) fn take(&mut self, count: usize) -> &'d [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Length-prefixed bytes.
    pub(crate) fn short(&mut self) -> &'d [u8] {
        let length = usize::from(self.byte());
        self.take(length)
    }

    pub(crate) fn rest(&mut self) -> &'d [u8] {
        std::mem::take(&mut self.rest)
    }
}
