//! Searches of long subjects with bounded work.
//!
//! The automaton of a set computes its states while it reads. For most patterns there are few, and a byte costs a step. With some
//! subjects others need a state for almost every byte, each of which takes as long as all patterns together. Here states are counted, and a
//! search that needs too many ends without a result. Which one does depends on patterns and subject alone: no state is kept.

use regex_automata::nfa::thompson::NFA;
use regex_automata::{Input, MatchKind, hybrid::dfa::DFA};

/// Size of the states of one automaton before they are computed anew, in bytes.
pub(super) const STATES: usize = 256 << 10;
/// Fewest bytes that one state has to be worth after that.
const BYTES_PER_STATE: usize = 32;

/// A search would take too much work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooCostly;

/// What searches of one subject may still take.
pub(super) struct Work {
    /// Bytes of states.
    states: usize,
    /// Bytes of the subject, once for each automaton that searches it.
    bytes: usize,
}

impl Work {
    pub(super) fn new(states: usize, bytes: usize) -> Self {
        Self { states, bytes }
    }

    /// Counts bytes that an automaton reads. Errors: they are too many.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), TooCostly> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(TooCostly)?;
        Ok(())
    }

    /// Bytes of states that are left.
    pub(super) fn states(&self) -> usize {
        self.states
    }
}

/// The automaton of a group of patterns.
#[derive(Debug, Clone)]
pub(super) struct Guard(Option<DFA>);

impl Guard {
    /// Of patterns that are compiled to this automaton. `states`: bytes that it computes before they have to be worth it.
    pub(super) fn of(nfa: NFA, states: usize) -> Self {
        let dfa = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(STATES)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(states / STATES))
            .minimum_bytes_per_state(Some(BYTES_PER_STATE));
        Self(DFA::builder().configure(dfa).build_from_nfa(nfa).ok())
    }

    /// Every search is too costly.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Whether a pattern matches somewhere in a text. Allocates its states.
    ///
    /// Errors: the search takes more than `work`, from which it is taken, or its patterns have no such automaton.
    pub(super) fn is_match(&self, text: &str, work: &mut Work) -> Result<bool, TooCostly> {
        let dfa = self.0.as_ref().ok_or(TooCostly)?;
        let mut cache = dfa.create_cache();
        let empty = cache.memory_usage();
        let found =
            dfa.try_search_fwd(&mut cache, &Input::new(text).earliest(true)).map_err(|_| TooCostly)?;
        let states = cache.clear_count() * STATES + cache.memory_usage().saturating_sub(empty);
        work.states = work.states.checked_sub(states).ok_or(TooCostly)?;
        Ok(found.is_some())
    }
}
