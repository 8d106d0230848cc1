//! The patterns of configurations, compiled: each once, in however many expressions and configurations it is.
//!
//! A configuration that replaces another shares its patterns. The budget has room for both.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use foldhash::HashMap;

use super::guard::Guard;
use super::size::{self, Budget, Charge, Refused};
use super::{Regex, Translated};

/// The patterns of all configurations.
pub(super) static CONFIGURED: LazyLock<Patterns> = LazyLock::new(|| Patterns::new(&size::CONFIGURED));

/// Fewest patterns worth a search for those that nothing uses.
const MIN_SWEEP: usize = 256;

/// Size of the automaton of a pattern whose guard is made when it is compiled, in bytes: of others it takes some tenths of a millisecond.
const LARGE: usize = 16 << 10;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) regex: regex::Regex,
    /// The size of its automaton.
    pub(super) bytes: usize,
    /// [`Regex`] has it.
    pub(super) guard: Arc<OnceLock<Guard>>,
    /// Its share of the budget.
    charge: Charge,
}

/// A compiled pattern of the configuration. It equals itself only, so that the patterns of a configuration can be counted once each.
#[derive(Debug, Clone)]
pub struct Pattern(pub(super) Arc<Compiled>);

impl Pattern {
    /// Its size, compiled.
    pub fn bytes(&self) -> usize {
        self.0.charge.bytes()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// Patterns with a common budget. Those that nothing uses are freed.
pub(super) struct Patterns {
    budget: &'static Budget,
    by_text: Mutex<Table>,
}

struct Table {
    /// By the text in the syntax of the crate. Seeded: files choose the patterns.
    known: HashMap<Box<str>, Weak<Compiled>>,
    /// The number of patterns in use at the last search.
    used: usize,
}

impl Patterns {
    pub(super) fn new(budget: &'static Budget) -> Self {
        Self { budget, by_text: Mutex::new(Table { known: HashMap::default(), used: 0 }) }
    }

    /// Compiles a pattern in the syntax of the crate, unless it is in use. No lock is held meanwhile.
    pub(super) fn compile(&self, translated: &Translated) -> Result<Arc<Compiled>, Refused> {
        let text = &*translated.text;
        let table = || self.by_text.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |table: &Table| table.known.get(text).and_then(Weak::upgrade);
        if let Some(known) = known(&table()) {
            return Ok(known);
        }
        let (regex, nfa) = size::compile(translated, size::MAX_COMPILED, None)?;
        let bytes = nfa.memory_usage();
        let charge = self.budget.charge(size::step(bytes, size::MAX_COMPILED))?;
        // A call does not wait for a large one.
        let guard =
            if bytes > LARGE { OnceLock::from(Guard::of(nfa, Regex::MAX_STATES)) } else { OnceLock::new() };
        let mut table = table();
        if let Some(known) = known(&table) {
            return Ok(known);
        }
        if table.known.len() > 2 * table.used.max(MIN_SWEEP) {
            table.known.retain(|_, compiled| compiled.strong_count() > 0);
            table.used = table.known.len();
        }
        let compiled = Arc::new(Compiled { regex, bytes, charge, guard: Arc::new(guard) });
        table.known.insert(text.into(), Arc::downgrade(&compiled));
        Ok(compiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Translated {
        Translated { text: text.to_owned(), cost: 0 }
    }

    #[test]
    fn a_pattern_counts_once_while_it_is_used() {
        // Two patterns fit.
        static BUDGET: Budget = Budget::new(20 << 10);
        let patterns = Patterns::new(&BUDGET);
        let old = [patterns.compile(&pattern("^a$")).unwrap(), patterns.compile(&pattern("^b$")).unwrap()];
        // The next configuration has them as well.
        let new = [patterns.compile(&pattern("^a$")).unwrap(), patterns.compile(&pattern("^b$")).unwrap()];
        assert!(old.iter().zip(&new).all(|(old, new)| Arc::ptr_eq(old, new)));
        assert_eq!(patterns.compile(&pattern("^c$")).map(|_| ()), Err(Refused::Budget));
        drop(old);
        assert_eq!(patterns.compile(&pattern("^c$")).map(|_| ()), Err(Refused::Budget), "still used");
        drop(new);
        assert!(patterns.compile(&pattern("^c$")).unwrap().regex.is_match("c"));
    }

    #[test]
    fn the_table_of_patterns_is_bounded() {
        static BUDGET: Budget = Budget::new(1 << 20);
        let patterns = Patterns::new(&BUDGET);
        for number in 0..5 * MIN_SWEEP {
            patterns.compile(&pattern(&format!("^{number}$"))).unwrap();
        }
        assert!(patterns.by_text.lock().unwrap().known.len() <= 2 * MIN_SWEEP + 1);
    }
}
