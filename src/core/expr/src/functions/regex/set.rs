//! Sets of patterns.

use std::sync::Arc;

use bumpalo::Bump;

use super::guard::{self, Guard, TooCostly, Work};
use super::size::{self, CONFIGURED, Charge};
use super::{CONFIGURED_LIMITS, MAX_COST, Regex, is_short, replaced, translated};

/// Patterns per automaton. Larger automata are faster until the lazy DFA exceeds its cache.
const PATTERNS_PER_AUTOMATON: usize = 64;

/// Longest subject whose bytes are not counted, whatever the number of automata is.
const SHORT: usize = 512;
/// Size of the states that the search of a subject may need, in bytes: of one automaton, and of each more, up to so many.
const MAX_STATES: (usize, usize, usize) = (512 << 10, 8 << 10, 4 << 20);
/// Most bytes that the automata read of such a subject, all together: 8 MiB, as the patterns of the conditions for one request.
const MAX_BYTES: usize = 8 << 20;

/// A set of patterns that matches if any of them does. Searching is unanchored.
#[derive(Debug, Clone, Default)]
pub struct RegexSet {
    parts: Vec<Part>,
}

/// Patterns of one automaton.
#[derive(Debug, Clone)]
struct Part {
    search: Search,
    /// The size of the automaton.
    bytes: usize,
    guard: Guard,
}

#[derive(Debug, Clone)]
enum Search {
    All {
        set: regex::RegexSet,
        _share: Arc<Charge>,
    },
    /// A pattern whose group is too large for one automaton.
    One(Regex),
}

impl Part {
    fn is_match(&self, text: &str) -> bool {
        match &self.search {
            Search::All { set, .. } => set.is_match(text),
            Search::One(regex) => regex.inner.is_match(text),
        }
    }
}

impl RegexSet {
    /// Compiles the patterns.
    ///
    /// Errors: that of [`Regex::compile`] for the first pattern that does not compile.
    pub fn compile(patterns: &[&[u8]]) -> Result<RegexSet, String> {
        Self::compile_within(patterns, size::MAX_COMPILED)
    }

    /// As [`compile`](Self::compile), with at most `limit` bytes per automaton.
    fn compile_within(patterns: &[&[u8]], limit: usize) -> Result<RegexSet, String> {
        let mut parts = Vec::new();
        for part in patterns.chunks(PATTERNS_PER_AUTOMATON) {
            if let Some(part) = together(part, limit) {
                parts.push(part);
                continue;
            }
            // One is invalid, or they are too large for one automaton.
            for pattern in part {
                let regex = Regex::compile(pattern)?;
                let (bytes, guard) = (regex.bytes, regex.guard().clone());
                parts.push(Part { search: Search::One(regex), bytes, guard });
            }
        }
        Ok(RegexSet { parts })
    }

    /// Whether any pattern matches somewhere in `subject`. Allocates only for a subject that is not UTF-8.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        match std::str::from_utf8(subject) {
            Ok(text) => self.is_match_text(text),
            Err(_) => self.is_match_text(&replaced(subject, &Bump::new())),
        }
    }

    /// As [`is_match`](Self::is_match) with bounded work: callers choose the subject. Allocates for one that is
    /// [long](Regex::search) for an automaton.
    ///
    /// Errors: the patterns need too many states to search the subject, or, of more than 512 bytes, too many automata.
    pub fn try_match(&self, subject: &[u8]) -> Result<bool, TooCostly> {
        let arena = Bump::new();
        let replaced = match std::str::from_utf8(subject) {
            Ok(text) => return self.try_match_text(text),
            Err(_) => replaced(subject, &arena),
        };
        self.try_match_text(&replaced)
    }

    fn try_match_text(&self, text: &str) -> Result<bool, TooCostly> {
        let (of_one, of_more, most) = MAX_STATES;
        let states = of_more.saturating_mul(self.parts.len()).saturating_add(of_one).min(most);
        let mut work = Work::new(states, MAX_BYTES);
        for part in &self.parts {
            if text.len() > SHORT {
                work.read(text.len())?;
            }
            let is_short = is_short(part.bytes, text.len());
            if if is_short { part.is_match(text) } else { part.guard.is_match(text, &mut work)? } {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_match_text(&self, text: &str) -> bool {
        self.parts.iter().any(|part| part.is_match(text))
    }
}

/// One automaton for all patterns; `None` if one is invalid, the automaton is too large, or their classes cost more than those of one may.
fn together(patterns: &[&[u8]], limit: usize) -> Option<Part> {
    let translated =
        patterns.iter().map(|p| translated(p, &CONFIGURED_LIMITS).ok()).collect::<Option<Vec<_>>>()?;
    let cost = translated.iter().map(|pattern| pattern.cost).sum::<usize>();
    if cost > MAX_COST {
        return None;
    }
    let translated: Vec<String> = translated.into_iter().map(|pattern| pattern.text).collect();
    let nfa = size::automaton(&translated, limit).ok()?;
    let set = regex::RegexSetBuilder::new(&translated).size_limit(limit).build().ok()?;
    let bytes = nfa.memory_usage();
    // The size is rounded up so far that it counts for both.
    let share = Arc::new(CONFIGURED.charge(size::step(bytes, limit)).ok()?);
    Some(Part { search: Search::All { set, _share: share }, bytes, guard: Guard::of(nfa, guard::STATES) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_pattern_may_match() {
        let many: Vec<String> = (0..200).map(|i| format!(r"^v{i}\d$")).collect();
        let many: Vec<&[u8]> = many.iter().map(String::as_bytes).collect();
        let set = RegexSet::compile(&many).unwrap();
        for (subject, expected) in [
            (&b"v07"[..], true),
            (b"v1999", true),
            (b"v2009", true),
            (b"v200", true),
            (b"v\xff", false),
            (b"", false),
        ] {
            let one = many.iter().any(|p| Regex::compile(p).unwrap().is_match(subject));
            assert_eq!(set.is_match(subject), one, "{subject:?}");
            if subject != b"v2009" {
                assert_eq!(one, expected, "{subject:?}");
            }
        }
        assert!(!RegexSet::compile(&[]).unwrap().is_match(b""));
        assert!(RegexSet::compile(&[b""]).unwrap().is_match(b"x"));
    }

    #[test]
    fn large_patterns_are_compiled_individually() {
        let large: Vec<String> = (0..PATTERNS_PER_AUTOMATON).map(|i| format!(r"{i}x{{30}}$")).collect();
        let large: Vec<&[u8]> = large.iter().map(String::as_bytes).collect();
        let set = RegexSet::compile_within(&large, 1024).unwrap();
        assert_eq!(set.parts.len(), PATTERNS_PER_AUTOMATON);
        assert!(set.is_match(format!("7{}", "x".repeat(30)).as_bytes()));
        assert!(!set.is_match(b"7x"));
    }

    #[test]
    fn the_error_names_the_first_invalid_pattern() {
        let error = RegexSet::compile(&[b"ok", b"(bad", b"[worse"]).unwrap_err();
        assert_eq!(error, Regex::compile(b"(bad").unwrap_err());
    }

    /// Patterns that need a state for almost every byte of some subjects.
    fn explosive() -> RegexSet {
        let patterns: Vec<String> = (0..100).map(|n| format!("a[ab]{{{}}}x", 10 + n % 20)).collect();
        let patterns: Vec<&[u8]> = patterns.iter().map(String::as_bytes).collect();
        RegexSet::compile(&patterns).unwrap()
    }

    /// Text without a period.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let letter = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"ab"[state as usize / 65_536 % 2]
        };
        (0..bytes).map(letter).collect()
    }

    #[test]
    fn a_search_of_a_long_subject_has_a_bound() {
        let set = explosive();
        assert_eq!(set.try_match(&noise(30_000)), Err(TooCostly));
        let text = String::from_utf8(noise(100)).unwrap();
        let part = set.parts.first().unwrap();
        assert_eq!(part.guard.is_match(&text, &mut Work::new(0, MAX_BYTES)), Err(TooCostly));
        // Searched as it is, and with states that are counted.
        let short = [30, 2000].map(|bytes| is_short(part.bytes, bytes));
        assert_eq!(short, [true, false], "{}", part.bytes);
        assert_eq!(set.try_match(&noise(60)), Ok(set.is_match(&noise(60))));
        assert_eq!(set.try_match(&noise(300)), Ok(set.is_match(&noise(300))));
    }

    /// A list of one pattern is none of little work.
    #[test]
    fn a_search_with_one_pattern_has_a_bound() {
        let set = RegexSet::compile(&[b".{0,1000}a.{0,1000}b.{0,1000}z"]).unwrap();
        assert_eq!(set.try_match(&noise(4000)), Err(TooCostly));
        assert_eq!(set.try_match(&noise(100)), Ok(false));
    }

    /// Patterns that need few states, and as many automata as a search of 1 MiB may pass through, or one more.
    #[test]
    fn the_bytes_that_all_automata_read_have_a_bound() {
        let subject = "-".repeat(1 << 20);
        for (automata, result) in [(8, Ok(false)), (9, Err(TooCostly))] {
            let patterns: Vec<String> =
                (0..automata * PATTERNS_PER_AUTOMATON).map(|i| format!("(?i)bot-{i}/v[0-9]+")).collect();
            let patterns: Vec<&[u8]> = patterns.iter().map(String::as_bytes).collect();
            let set = RegexSet::compile(&patterns).unwrap();
            assert_eq!((set.parts.len(), set.try_match(subject.as_bytes())), (automata, result));
            // What is found before is known.
            assert_eq!(set.try_match(format!("BOT-7/V1{subject}").as_bytes()), Ok(true), "{automata}");
            // Short values are searched whatever the number of patterns is.
            assert_eq!(set.try_match(&subject.as_bytes()[..512]), Ok(false));
        }
    }

    #[test]
    fn a_long_subject_is_searched_as_a_short_one() {
        let many: Vec<String> = (0..300).map(|i| format!(r"(^|/)(?i)v{i}\d(/|$)|é{i}\b")).collect();
        let many: Vec<&[u8]> = many.iter().map(String::as_bytes).collect();
        // One automaton each, which read 7 MiB.
        let large: Vec<String> = (0..50).map(|i| format!(r"{i}x{{30}}$")).collect();
        let large: Vec<&[u8]> = large.iter().map(String::as_bytes).collect();
        let sets = [
            RegexSet::compile(&many).unwrap(),
            RegexSet::compile_within(&large, 1024).unwrap(),
            RegexSet::compile(&[b"\xef\xbf\xbd$"]).unwrap(),
        ];
        let padding = "/a long path-".repeat(11_000);
        for end in [
            &b""[..],
            b"/v2999/",
            b"/V07",
            b"/v300",
            "é299".as_bytes(),
            b"\xff",
            b"7xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ] {
            let subject = [padding.as_bytes(), end].concat();
            for set in &sets {
                assert_eq!(set.try_match(&subject), Ok(set.is_match(&subject)), "{end:?}");
            }
        }
        assert_eq!(RegexSet::default().try_match(padding.as_bytes()), Ok(false));
    }
}
