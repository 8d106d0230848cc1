//! Bounds on compiled patterns: their size, and the size of all patterns of the configuration.
//!
//! The size of a compiled pattern is not known exactly. It is the smallest of a few limits within which the pattern compiles; a
//! limit that does not suffice is noticed early.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Translated;

/// Maximum length of a pattern, in bytes.
pub(super) const MAX_TEXT: usize = 64 << 10;
/// Maximum size of a configured pattern, or of a set of some, compiled, in bytes.
pub(super) const MAX_COMPILED: usize = 4 << 20;
/// Maximum size of the patterns of the expressions of one configuration, compiled, in bytes.
pub const MAX_OF_CONFIGURATION: usize = 256 << 20;
/// Maximum size of all configured patterns, compiled, in bytes: of a configuration that serves, and of that which is to replace it.
const MAX_CONFIGURED: usize = 2 * MAX_OF_CONFIGURATION;

/// The first limit that is tried.
const FIRST: usize = 8 << 10;
/// What the classes of a pattern may cost for which several limits are tried.
const MAX_REPEATED: usize = 50;
/// Each limit is so many times the one before.
const FACTOR: usize = 8;

/// The budget of all configured patterns.
pub(super) static CONFIGURED: Budget = Budget::new(MAX_CONFIGURED);

/// Why a pattern is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The crate `regex` rejects the syntax.
    Syntax,
    /// It is too large by itself.
    TooLarge,
    /// All patterns together are too large.
    Budget,
}

/// A number of bytes that compiled patterns share.
pub(super) struct Budget {
    left: AtomicUsize,
}

impl Budget {
    pub(super) const fn new(bytes: usize) -> Self {
        Self { left: AtomicUsize::new(bytes) }
    }

    /// Takes a share; `None` if less is left.
    pub(super) fn charge(&'static self, bytes: usize) -> Result<Charge, Refused> {
        let take = |left: usize| left.checked_sub(bytes);
        match self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(Charge { budget: self, bytes }),
            Err(_) => Err(Refused::Budget),
        }
    }
}

impl Charge {
    /// Its size.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A share of a budget, until it is dropped.
pub(super) struct Charge {
    budget: &'static Budget,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Charge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

/// Compiles a pattern in the syntax of the crate, within the budget.
pub(super) fn compile(
    translated: &Translated,
    budget: &'static Budget,
) -> Result<(regex::Regex, Charge), Refused> {
    let (compiled, bytes) = compile_within(translated, MAX_COMPILED, None)?;
    Ok((compiled, budget.charge(bytes)?))
}

/// Compiles a pattern of at most `max` bytes; also returns its size.
pub(super) fn compile_within(
    translated: &Translated,
    max: usize,
    automaton: Option<usize>,
) -> Result<(regex::Regex, usize), Refused> {
    smallest(translated.cost, max, |limit| {
        let mut builder = regex::RegexBuilder::new(&translated.text);
        if let Some(automaton) = automaton {
            builder.dfa_size_limit(automaton);
        }
        builder.size_limit(limit).build()
    })
}

/// Builds within the smallest limit that suffices; within the largest, if each attempt would read classes of Unicode characters that cost much.
pub(super) fn smallest<T>(
    cost: usize,
    max: usize,
    build: impl Fn(usize) -> Result<T, regex::Error>,
) -> Result<(T, usize), Refused> {
    let mut limit = if cost > MAX_REPEATED { max } else { FIRST.min(max) };
    loop {
        match build(limit) {
            Ok(built) => return Ok((built, limit)),
            Err(regex::Error::CompiledTooBig(_)) if limit < max => {
                limit = limit.saturating_mul(FACTOR).min(max)
            }
            Err(regex::Error::CompiledTooBig(_)) => return Err(Refused::TooLarge),
            Err(_) => return Err(Refused::Syntax),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_shared_and_given_back() {
        static BUDGET: Budget = Budget::new(20 << 10);
        let compile = |text: &str| compile(&Translated { text: text.to_owned(), cost: 0 }, &BUDGET);
        let first = compile("^a$").unwrap();
        let second = compile("^b$").unwrap();
        assert_eq!(compile("^c$").map(|_| ()), Err(Refused::Budget));
        drop(first);
        assert!(compile("^c$").is_ok());
        drop(second);
        assert_eq!(BUDGET.left.load(Ordering::Relaxed), 20 << 10);
        assert_eq!(compile("[").map(|_| ()), Err(Refused::Syntax));
    }
}
