//! How much text the patterns of one request search, and how much its expressions make.
//!
//! A caller chooses the length of a text, and the configuration how many patterns search it, or how many expressions make another one of it: the time
//! and the memory of a check grow with their product.

use std::cell::Cell;

use super::AttributeBag;

/// What is left of the bytes of longer texts that patterns may search, and that expressions may make.
#[derive(Debug)]
pub(super) struct TextBudget {
    limit: u32,
    searched: Cell<u32>,
    made: Cell<u32>,
}

impl TextBudget {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, searched: Cell::new(limit), made: Cell::new(limit) }
    }

    /// For another record, which has what was made for the others beside it.
    pub(super) fn renew(&mut self) {
        self.searched.set(self.limit);
    }
}

/// Takes the bytes of a long text from what is left. False if that is less, from then on.
fn take(left: &Cell<u32>, bytes: usize) -> bool {
    if bytes <= AttributeBag::SHORT_TEXT {
        return true;
    }
    let after = u32::try_from(bytes).ok().and_then(|count| left.get().checked_sub(count));
    left.set(after.unwrap_or(0));
    after.is_some()
}

impl AttributeBag<'_> {
    /// Length in bytes of a text that patterns search, and expressions make, without a limit.
    pub const SHORT_TEXT: usize = 4 << 10;
    /// Bytes of texts of more than 4 KiB that patterns may search for one request or record: a text counts for each pattern that searches it.
    /// As many may expressions make for one request.
    pub const SEARCH_LIMIT: u32 = 8 << 20;
    /// The same for a check as in Istio Mixer, which has no limit.
    pub const ISTIO_MIXER_SEARCH_LIMIT: u32 = 256 << 20;

    /// Replaces [`SEARCH_LIMIT`](Self::SEARCH_LIMIT), before anything is evaluated.
    pub fn set_search_limit(&mut self, limit: u32) {
        self.texts = TextBudget::new(limit);
    }

    /// Counts the bytes of a text that a pattern is about to search. Returns false beyond the limit, from then on for every text that is not short.
    ///
    /// Cost: one comparison for a short text.
    pub fn count_search(&self, bytes: usize) -> bool {
        take(&self.texts.searched, bytes)
    }

    /// Bytes that patterns may still search.
    pub fn searches_left(&self) -> usize {
        usize::try_from(self.texts.searched.get()).unwrap_or(usize::MAX)
    }

    /// Counts what a search took beside its text, in bytes of text that take as long, however few they are.
    pub fn count_effort(&self, bytes: usize) {
        let left = &self.texts.searched;
        left.set(left.get().saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX)));
    }

    /// Counts what an expression is about to make, in bytes: a text or a list, or what it reads as another type. Returns false beyond the limit, which is that of
    /// [`count_search`](Self::count_search) once more, from then on for everything that is not short. All records of a report have one.
    ///
    /// Cost: one comparison for what is short.
    pub fn count_made(&self, bytes: usize) -> bool {
        take(&self.texts.made, bytes)
    }

    /// Begins the limits anew, for an explanation, which evaluates what was evaluated before.
    pub fn renew_searches(&self) {
        self.texts.searched.set(self.texts.limit);
        self.texts.made.set(self.texts.limit);
    }

    /// The limit of [`count_search`](Self::count_search), in bytes.
    pub fn search_limit(&self) -> u32 {
        self.texts.limit
    }
}
