//! Bounds on compiled patterns: their size, and the size of all patterns of the configuration.
//!
//! The size of a compiled pattern is that of its automaton, which is compiled for it once more. The budget counts the smallest of a few steps that
//! has room for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};

use super::Translated;

/// Maximum length of a pattern, in bytes.
pub(super) const MAX_TEXT: usize = 64 << 10;
/// Maximum size of a configured pattern, or of a set of some, compiled, in bytes.
pub(super) const MAX_COMPILED: usize = 4 << 20;
/// Maximum size of the patterns of the expressions of one configuration, compiled, in bytes.
pub const MAX_OF_CONFIGURATION: usize = 256 << 20;
/// Maximum size of all configured patterns, compiled, in bytes: of a configuration that serves, and of that which is to replace it.
const MAX_CONFIGURED: usize = 2 * MAX_OF_CONFIGURATION;

/// The first step of the budget.
const FIRST: usize = 8 << 10;
/// Each step is so many times the one before.
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

/// The automaton of patterns in the syntax of the crate, which tells their size.
pub(super) fn automaton<P: AsRef<str>>(translated: &[P], max: usize) -> Result<NFA, Refused> {
    let config = thompson::Config::new().nfa_size_limit(Some(max)).which_captures(WhichCaptures::None);
    let built = thompson::Compiler::new().configure(config).build_many(translated);
    built.map_err(|error| if error.size_limit().is_some() { Refused::TooLarge } else { Refused::Syntax })
}

/// What the budget counts for an automaton of so many bytes that compiles within `max`.
pub(super) fn step(bytes: usize, max: usize) -> usize {
    let steps = std::iter::successors(Some(FIRST), |step| step.checked_mul(FACTOR));
    steps.take_while(|step| *step < max).find(|step| *step >= bytes).unwrap_or(max)
}

/// Compiles a pattern of at most `max` bytes; also returns its automaton.
pub(super) fn compile(
    translated: &Translated,
    max: usize,
    states: Option<usize>,
) -> Result<(regex::Regex, NFA), Refused> {
    let nfa = automaton(&[&translated.text], max)?;
    let mut builder = regex::RegexBuilder::new(&translated.text);
    if let Some(states) = states {
        builder.dfa_size_limit(states);
    }
    Ok((builder.size_limit(max).build().map_err(refused)?, nfa))
}

/// Why the crate does not compile a pattern.
pub(super) fn refused(error: regex::Error) -> Refused {
    match error {
        regex::Error::CompiledTooBig(_) => Refused::TooLarge,
        _ => Refused::Syntax,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_shared_and_given_back() {
        static BUDGET: Budget = Budget::new(20 << 10);
        let first = BUDGET.charge(8 << 10).unwrap();
        let second = BUDGET.charge(8 << 10).unwrap();
        assert_eq!(BUDGET.charge(8 << 10).map(|_| ()), Err(Refused::Budget));
        drop(first);
        assert!(BUDGET.charge(8 << 10).is_ok());
        drop(second);
        assert_eq!(BUDGET.left.load(Ordering::Relaxed), 20 << 10);
    }

    #[test]
    fn the_budget_counts_what_an_automaton_has_room_in() {
        let max = MAX_COMPILED;
        assert_eq!(
            [0, 8192, 8193, 65_537, 524_289].map(|bytes| step(bytes, max)),
            [8 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20]
        );
        assert_eq!([1, 10_000].map(|bytes| step(bytes, 1024)), [1024, 1024]);
        let compiled = |text: &str, max| {
            let translated = Translated { text: text.to_owned(), cost: 0 };
            compile(&translated, max, None).map(|(_, nfa)| nfa.memory_usage())
        };
        assert!(compiled("^a$", max).is_ok_and(|bytes| bytes < 1024));
        assert!(compiled(".{0,1000}", max).is_ok_and(|bytes| (64 << 10..1 << 20).contains(&bytes)));
        assert_eq!(compiled(".{0,1000}", 8 << 10), Err(Refused::TooLarge));
        assert_eq!(compiled("[", max), Err(Refused::Syntax));
    }
}
