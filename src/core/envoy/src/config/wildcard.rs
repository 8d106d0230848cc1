//! Patterns in which `*` stands for any text, and the work that a call may make of them.

use std::cell::Cell;

use memchr::memmem::Finder;

/// Texts of at most so many bytes are short.
const SHORT: usize = 4 << 10;
/// Bytes of short texts that the patterns of one call search at no charge, a text counting for each pattern: what ordinary values need.
const FREE: usize = 1 << 20;
/// Bytes of longer texts, and of short ones beyond that, that the patterns of one call search; a text counts for each pattern.
const MAX_SEARCHED: usize = 8 << 20;

/// A pattern of a descriptor's value.
#[derive(Debug, Clone)]
pub(crate) struct Wildcard {
    text: Box<str>,
    /// Before the first `*`.
    start: Box<[u8]>,
    /// Between two `*`, without those that are empty.
    middle: Vec<Finder<'static>>,
    /// Behind the last `*`; `None` without any.
    end: Option<Box<[u8]>>,
}

impl PartialEq for Wildcard {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Wildcard {}

/// The patterns of a call have searched more than they may. Callers choose the lengths of values, so that this says nothing about whether a
/// pattern fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl std::fmt::Display for Exhausted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "wildcards search more than {} MiB of values in this call", MAX_SEARCHED >> 20)
    }
}

/// What the patterns of one call may still search, in bytes.
#[derive(Debug)]
pub(crate) struct Search {
    /// Of short texts only.
    free: Cell<usize>,
    /// Of any.
    left: Cell<usize>,
}

impl Default for Search {
    fn default() -> Self {
        Self { free: Cell::new(FREE), left: Cell::new(MAX_SEARCHED) }
    }
}

impl Search {
    fn take(&self, length: usize) -> Result<(), Exhausted> {
        match self.free.get().checked_sub(length) {
            Some(rest) if length <= SHORT => self.free.set(rest),
            _ => self.left.set(self.left.get().checked_sub(length).ok_or(Exhausted)?),
        }
        Ok(())
    }
}

impl Wildcard {
    pub(crate) fn new(pattern: &str) -> Self {
        let mut parts = pattern.split('*').map(str::as_bytes);
        let start = parts.next().unwrap_or_default().into();
        let end = parts.next_back().map(Into::into);
        let middle = parts.filter(|part| !part.is_empty());
        let middle = middle.map(|part| Finder::new(part).into_owned()).collect();
        Self { text: pattern.into(), start, middle, end }
    }

    /// As written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it fits every text that another pattern fits.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        // `*` is in no part of it, so that its own `*` stand for those of the other.
        self.fits(other.text.as_bytes(), &Search::default()).unwrap_or(false)
    }

    /// Whether it fits a text. Cost: linear in the text.
    ///
    /// Errors: too much has been searched already.
    pub(crate) fn fits(&self, text: &[u8], search: &Search) -> Result<bool, Exhausted> {
        let Some(rest) = text.strip_prefix(&*self.start) else { return Ok(false) };
        let Some(end) = &self.end else { return Ok(rest.is_empty()) };
        let Some(mut rest) = rest.strip_suffix(&**end) else { return Ok(false) };
        if self.middle.is_empty() {
            return Ok(true);
        }
        search.take(rest.len())?;
        for part in &self.middle {
            let Some(at) = part.find(rest) else { return Ok(false) };
            rest = rest.get(at + part.needle().len()..).unwrap_or_default();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_any_text() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "a", false),
            ("a*a", "a", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxc", false),
            ("a*b*b", "ab", false),
            ("a**c", "abc", true),
            ("aa*aa", "aaa", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("", "a", false),
        ] {
            let found = Wildcard::new(pattern).fits(text.as_bytes(), &Search::default());
            assert_eq!(found, Ok(fits), "{pattern} {text}");
        }
    }

    #[test]
    fn long_texts_are_searched_within_a_bound() {
        let pattern = Wildcard::new("*bot*x");
        let search = Search::default();
        // The last byte is the end.
        let short = vec![b'x'; SHORT + 1];
        for _ in 0..FREE / SHORT {
            assert_eq!(pattern.fits(&short, &search), Ok(false));
        }
        let long = vec![b'x'; (1 << 20) + 1];
        for _ in 0..MAX_SEARCHED >> 20 {
            assert_eq!(pattern.fits(&long, &search), Ok(false));
        }
        assert_eq!(pattern.fits(&long, &search), Err(Exhausted));
        assert_eq!(pattern.fits(&short, &search), Err(Exhausted), "neither a short one");
        for free in ["xx*", "*xx", "x*x", "y*bot*x", "*bot*y"] {
            assert!(Wildcard::new(free).fits(&long, &search).is_ok(), "{free} is not searched");
        }
    }

    /// Values of a call are as many as its caller likes.
    #[test]
    fn short_texts_count_beyond_what_ordinary_calls_have() {
        let pattern = Wildcard::new("*bot*x");
        let search = Search::default();
        let short = vec![b'x'; SHORT + 1];
        for _ in 0..(FREE + MAX_SEARCHED) / SHORT {
            assert_eq!(pattern.fits(&short, &search), Ok(false));
        }
        assert_eq!(pattern.fits(&short, &search), Err(Exhausted));
    }

    #[test]
    fn a_pattern_covers_what_it_fits() {
        for (pattern, other, covers) in [
            ("*", "a*", true),
            ("a*", "ab", true),
            ("a*", "ab*c", true),
            ("ab*", "a*", false),
            ("a", "*", false),
            ("a*b*", "a*b", true),
        ] {
            assert_eq!(Wildcard::new(pattern).covers(&Wildcard::new(other)), covers, "{pattern} {other}");
        }
    }
}
