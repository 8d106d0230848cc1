//! Sets of patterns.

use std::sync::Arc;

use bumpalo::Bump;

use super::size::{self, CONFIGURED, Charge};
use super::{Regex, replaced, translated};

/// Patterns per automaton. Larger automata are faster until the lazy DFA exceeds its cache.
const PATTERNS_PER_AUTOMATON: usize = 64;

/// A set of patterns that matches if any of them does. Searching is unanchored.
#[derive(Debug, Clone, Default)]
pub struct RegexSet {
    automata: Vec<(regex::RegexSet, Arc<Charge>)>,
    /// Patterns whose group is too large for one automaton.
    single: Vec<Regex>,
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
        let mut set = RegexSet::default();
        for part in patterns.chunks(PATTERNS_PER_AUTOMATON) {
            match automaton(part, limit) {
                Some(compiled) => set.automata.push(compiled),
                // One is invalid, or they are too large for one automaton.
                None => {
                    for pattern in part {
                        set.single.push(Regex::compile(pattern)?);
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

    fn is_match_text(&self, text: &str) -> bool {
        self.automata.iter().any(|(set, _)| set.is_match(text))
            || self.single.iter().any(|regex| regex.inner.is_match(text))
    }
}

/// One automaton for all patterns; `None` if one is invalid or the automaton is too large.
fn automaton(patterns: &[&[u8]], limit: usize) -> Option<(regex::RegexSet, Arc<Charge>)> {
    let translated = patterns.iter().map(|p| translated(p).ok()).collect::<Option<Vec<_>>>()?;
    let build = |limit| regex::RegexSetBuilder::new(&translated).size_limit(limit).build();
    let (compiled, bytes) = size::smallest(limit, build).ok()?;
    Some((compiled, Arc::new(CONFIGURED.charge(bytes).ok()?)))
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
}
