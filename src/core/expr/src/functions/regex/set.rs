//! Sets of patterns.

use std::sync::Arc;

use bumpalo::Bump;

use super::guard::{Guard, TooCostly, Work};
use super::size::{self, CONFIGURED, Charge, MAX_COMPILED};
use super::{MAX_COST, Regex, replaced, translated};

/// Patterns per automaton. Larger automata are faster until the lazy DFA exceeds its cache.
const PATTERNS_PER_AUTOMATON: usize = 64;

/// Longest subject that is searched without counting the work, in bytes.
const SHORT: usize = 512;
/// The same as the product of its bytes and the number of patterns, if that is more.
const LITTLE_WORK: usize = 128 << 10;
/// Size of the states that the search of a longer subject may need, in bytes.
const MAX_STATES: usize = 4 << 20;
/// Most bytes that the automata read of such a subject, all together: 8 MiB, as the patterns of the conditions for one request.
const MAX_BYTES: usize = 8 << 20;

/// A set of patterns that matches if any of them does. Searching is unanchored.
#[derive(Debug, Clone, Default)]
pub struct RegexSet {
    automata: Vec<(regex::RegexSet, Arc<Charge>)>,
    /// Patterns whose group is too large for one automaton.
    single: Vec<Regex>,
    /// Of all patterns, for long subjects.
    guards: Vec<Guard>,
    /// The number of patterns.
    len: usize,
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
        let mut set = RegexSet { len: patterns.len(), ..RegexSet::default() };
        for part in patterns.chunks(PATTERNS_PER_AUTOMATON) {
            match automaton(part, limit) {
                Some((compiled, guard)) => {
                    set.automata.push(compiled);
                    set.guards.push(guard);
                }
                // One is invalid, or they are too large for one automaton.
                None => {
                    for pattern in part {
                        let regex = Regex::compile(pattern)?;
                        set.guards.push(Guard::compile(&[regex.inner.as_str()], MAX_COMPILED));
                        set.single.push(regex);
                    }
                }
            }
        }
        Ok(set)
    }

    /// Whether any pattern matches somewhere in `subject`. Allocates only for a subject that is not UTF-8.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        match std::str::from_utf8(subject) {
            Ok(text) => self.is_match_text(text),
            Err(_) => self.is_match_text(&replaced(subject, &Bump::new())),
        }
    }

    /// As [`is_match`](Self::is_match) with bounded work: callers choose the subject. Allocates for a long one.
    ///
    /// Errors: the subject has more than 512 bytes, its bytes times the patterns are more than 131 072, and the patterns need too many
    /// states to search it, or too many automata.
    pub fn try_match(&self, subject: &[u8]) -> Result<bool, TooCostly> {
        if self.is_short(subject.len()) {
            return Ok(self.is_match(subject));
        }
        let arena = Bump::new();
        let replaced = match std::str::from_utf8(subject) {
            Ok(text) => return self.try_match_text(text),
            Err(_) => replaced(subject, &arena),
        };
        self.try_match_text(&replaced)
    }

    /// Whether a subject of so many bytes is searched without counting the work.
    fn is_short(&self, bytes: usize) -> bool {
        bytes <= SHORT.max(LITTLE_WORK / self.len.max(1))
    }

    fn try_match_text(&self, text: &str) -> Result<bool, TooCostly> {
        let mut work = Work::new(MAX_STATES, MAX_BYTES);
        for guard in &self.guards {
            if guard.is_match(text, &mut work)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_match_text(&self, text: &str) -> bool {
        self.automata.iter().any(|(set, _)| set.is_match(text))
            || self.single.iter().any(|regex| regex.inner.is_match(text))
    }
}

/// One automaton for all patterns; `None` if one is invalid, the automaton is too large, or their classes cost more than those of one may.
fn automaton(patterns: &[&[u8]], limit: usize) -> Option<((regex::RegexSet, Arc<Charge>), Guard)> {
    let translated = patterns.iter().map(|p| translated(p, MAX_COST).ok()).collect::<Option<Vec<_>>>()?;
    let cost = translated.iter().map(|pattern| pattern.cost).sum();
    if cost > MAX_COST {
        return None;
    }
    let translated: Vec<String> = translated.into_iter().map(|pattern| pattern.text).collect();
    let build = |limit| regex::RegexSetBuilder::new(&translated).size_limit(limit).build();
    let (compiled, bytes) = size::smallest(cost, limit, build).ok()?;
    // The size is rounded up so far that it counts for both.
    let charge = Arc::new(CONFIGURED.charge(bytes).ok()?);
    Some(((compiled, charge), Guard::compile(&translated, bytes)))
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
        assert_eq!(set.single.len(), PATTERNS_PER_AUTOMATON);
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
        // 131 072 / 100 = 1310.
        assert_eq!([512, 1310, 1311].map(|bytes| set.is_short(bytes)), [true, true, false]);
        let many = RegexSet { len: 50_000, ..RegexSet::default() };
        assert_eq!([512, 513].map(|bytes| many.is_short(bytes)), [true, false]);
        let text = String::from_utf8(noise(100)).unwrap();
        assert_eq!(set.guards.first().unwrap().is_match(&text, &mut Work::new(0, MAX_BYTES)), Err(TooCostly));
        assert_eq!(set.try_match(&noise(1310)), Ok(set.is_match(&noise(1310))));
        assert_eq!(set.try_match(&noise(512)), Ok(set.is_match(&noise(512))));
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
            assert_eq!((set.guards.len(), set.try_match(subject.as_bytes())), (automata, result));
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
