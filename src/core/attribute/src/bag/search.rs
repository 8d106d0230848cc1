//! How much text the patterns of one request search.
//!
//! A caller chooses the length of a text, and the configuration how many patterns search it: the time of a check grows with their product.

use std::cell::Cell;

use super::AttributeBag;

/// Length in bytes of a text that patterns search without a limit.
const SHORT_TEXT: usize = 4 << 10;

/// What is left of the bytes of longer texts that patterns may search.
#[derive(Debug)]
pub(super) struct SearchBudget {
    limit: u32,
    left: Cell<u32>,
}

impl SearchBudget {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, left: Cell::new(limit) }
    }

    pub(super) fn renew(&mut self) {
        self.left.set(self.limit);
    }
}

impl AttributeBag<'_> {
    /// Bytes of texts of more than 4 KiB that patterns may search for one request or record: a text counts for each pattern that searches it.
    pub const SEARCH_LIMIT: u32 = 8 << 20;
    /// The same for a check as in Istio Mixer, which has no limit.
    pub const ISTIO_MIXER_SEARCH_LIMIT: u32 = 256 << 20;

    /// Replaces [`SEARCH_LIMIT`](Self::SEARCH_LIMIT), before anything is evaluated.
    pub fn set_search_limit(&mut self, limit: u32) {
        self.searches = SearchBudget::new(limit);
    }

    /// Counts a text that a pattern is about to search. Returns false beyond the limit, from then on for every text that is not short.
    ///
    /// Cost: one comparison for a short text.
    pub fn count_search(&self, text: &[u8]) -> bool {
        if text.len() <= SHORT_TEXT {
            return true;
        }
        let left =
            u32::try_from(text.len()).ok().and_then(|count| self.searches.left.get().checked_sub(count));
        self.searches.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Begins the limit anew, for an explanation, which evaluates what was evaluated before.
    pub fn renew_searches(&self) {
        self.searches.left.set(self.searches.limit);
    }

    /// The limit of [`count_search`](Self::count_search), in bytes.
    pub fn search_limit(&self) -> u32 {
        self.searches.limit
    }
}
