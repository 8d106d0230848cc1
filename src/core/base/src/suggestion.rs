//! The search for the names that misspelt ones probably mean, with a bound of its work.
//!
//! A file may have thousands of unknown names beside thousands of known ones, and each pair costs the product of the lengths. Whatever
//! reads a file therefore runs with a [`SuggestionBudget`]: once it is used up, problems come without a suggestion.

use std::borrow::Cow;
use std::cell::Cell;

/// Maximum length of a name that is misspelt, and of candidates, in bytes.
const MAX_NAME: usize = 256;

/// The work of one budget, in pairs of characters that are compared: some 50 names in a thousand candidates of 15 characters.
const WORK: u64 = 1 << 24;

thread_local! {
    /// What is left of the budget of the function that runs; `None` outside of [`SuggestionBudget::run`].
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The work that searches may do together. The default is a full one. A search outside of any budget has one of its own.
#[derive(Debug)]
pub struct SuggestionBudget {
    left: u64,
}

impl Default for SuggestionBudget {
    fn default() -> Self {
        Self { left: WORK }
    }
}

impl SuggestionBudget {
    /// A budget without work, for problems whose hints nobody reads.
    pub fn none() -> Self {
        Self { left: 0 }
    }

    /// Calls `function`, whose searches on this thread use up this budget, and no other.
    pub fn run<T>(&mut self, function: impl FnOnce() -> T) -> T {
        /// Puts things back, also after a panic.
        struct Restore<'b> {
            before: Option<u64>,
            left: &'b mut u64,
        }
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                *self.left = LEFT.replace(self.before).unwrap_or(0);
            }
        }
        let before = LEFT.replace(Some(self.left));
        let _restore = Restore { before, left: &mut self.left };
        function()
    }

    /// Whether searches find nothing any more.
    pub fn is_used_up(&self) -> bool {
        self.left == 0
    }
}

/// Whether capitals differ from small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// `a` is `A`.
    Ignored,
    /// `a` is another letter than `A`.
    Distinguished,
}

/// The candidates near `name`, each with the number of mistakes (Damerau-Levenshtein distance, in characters) that make it `name`: those
/// with at most `limit` of them, which is asked with the number of characters of the candidate. None for names longer than 256 bytes, and
/// none at all if the budget does not suffice for every candidate. Candidates whose length alone differs by more are not compared.
pub fn near<C: AsRef<str>>(
    name: &str,
    candidates: impl IntoIterator<Item = C>,
    case: Case,
    limit: impl Fn(usize) -> usize,
) -> Vec<(usize, C)> {
    let mut work = LEFT.get().unwrap_or(WORK);
    if name.len() > MAX_NAME || work == 0 {
        return Vec::new();
    }
    let name = folded(name, case);
    let chars = name.chars().count();
    let mut found = Vec::new();
    for candidate in candidates {
        let text = candidate.as_ref();
        work = work.saturating_sub(1 + text.len().min(MAX_NAME) as u64);
        let distance = if text.len() > MAX_NAME {
            None
        } else {
            let text = folded(text, case);
            let others = text.chars().count();
            let limit = limit(others);
            if *text == *name {
                Some(0)
            } else if limit == 0 || chars.abs_diff(others) > limit {
                None
            } else {
                work = work.saturating_sub((chars * others) as u64);
                let distance = (work > 0).then(|| strsim::damerau_levenshtein(&name, &text));
                distance.filter(|distance| *distance <= limit)
            }
        };
        if work == 0 {
            found.clear();
            break;
        }
        found.extend(distance.map(|distance| (distance, candidate)));
    }
    if LEFT.get().is_some() {
        LEFT.set(Some(work));
    }
    found
}

/// Whether a name of at most 256 bytes is another one with at most so many mistakes, in capitals or not. For decisions: no budget bounds
/// it, so that the number of names has to be bounded otherwise.
pub fn is_within(name: &str, of: &str, edits: usize) -> bool {
    if name.len() > MAX_NAME || of.len() > MAX_NAME {
        return false;
    }
    let (name, of) = (folded(name, Case::Ignored), folded(of, Case::Ignored));
    name.chars().count().abs_diff(of.chars().count()) <= edits
        && strsim::damerau_levenshtein(&name, &of) <= edits
}

fn folded(text: &str, case: Case) -> Cow<'_, str> {
    let is_as_it_is = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    match case {
        Case::Ignored if !is_as_it_is => Cow::Owned(text.to_lowercase()),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("name-{i:06}")).collect()
    }

    fn thirds(chars: usize) -> usize {
        (chars / 3).max(1)
    }

    #[test]
    fn a_budget_bounds_the_candidates_that_are_visited() {
        let (candidates, visited) = (names(4_000), Cell::new(0_u64));
        let mut budget = SuggestionBudget::default();
        budget.run(|| {
            for name in names(4_000) {
                let seen = candidates.iter().inspect(|_| visited.set(visited.get() + 1));
                near(&name.replace("name", "mane"), seen, Case::Ignored, thirds);
            }
        });
        // A pair of names of eleven characters costs 121 and more; all pairs would be 16 000 000.
        assert!((10_000..=WORK / 121).contains(&visited.get()), "{}", visited.get());
        assert!(budget.is_used_up());
        assert!(budget.run(|| near("nam", ["name"], Case::Ignored, thirds)).is_empty());
        assert_eq!(near("nam", ["name"], Case::Ignored, thirds), [(1, "name")]);
    }

    #[test]
    fn lengths_are_compared_first() {
        let long: Vec<String> = (0..10_000).map(|i| format!("{i:0200}")).collect();
        let mut budget = SuggestionBudget::default();
        let found = budget.run(|| near(&"x".repeat(60), &long, Case::Ignored, |_| 20));
        assert!(found.is_empty());
        assert_eq!(WORK - budget.left, 10_000 * 201);
    }

    #[test]
    fn a_search_that_is_not_complete_finds_nothing() {
        let mut candidates = vec!["name-00000x".to_owned()];
        candidates.extend(names(200_000));
        let mut budget = SuggestionBudget::default();
        assert!(budget.run(|| near("name-00000y", &candidates, Case::Ignored, thirds)).is_empty());
    }

    #[test]
    fn a_budget_within_another_is_its_own() {
        let (mut outer, mut inner) = (SuggestionBudget::default(), SuggestionBudget::none());
        outer.run(|| {
            assert!(inner.run(|| near("nam", ["name"], Case::Ignored, thirds)).is_empty());
            assert_eq!(near("nam", ["name"], Case::Ignored, thirds).len(), 1);
        });
        assert!(!outer.is_used_up() && inner.is_used_up());
    }

    #[test]
    fn case_counts_if_asked_for() {
        assert_eq!(near("NAME", ["name"], Case::Ignored, |_| 0), [(0, "name")]);
        assert!(near("NAME", ["name"], Case::Distinguished, |_| 1).is_empty());
        assert!(is_within("Éa", "éa", 0) && !is_within("name", "nam", 0) && is_within("name", "nam", 1));
    }

    #[test]
    fn only_short_names_are_compared() {
        let long = "a".repeat(1 << 20);
        assert!(near(&long, [&*format!("{long}b")], Case::Ignored, |_| 9).is_empty());
        assert!(near("aaa", [&*long], Case::Ignored, |_| 1 << 20).is_empty());
        assert!(!is_within("a", &long, 1 << 20));
    }
}
