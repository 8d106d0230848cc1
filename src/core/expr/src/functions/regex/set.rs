//! Many patterns at once.

use bumpalo::Bump;

use super::{MAX_COMPILED, Regex, replaced, translate};

/// Patterns that are searched together. More in one automaton are searched faster until it no longer fits its cache.
const TOGETHER: usize = 64;

/// Patterns of which any may match. Searching is unanchored.
#[derive(Debug, Clone, Default)]
pub struct RegexSet {
    together: Vec<regex::RegexSet>,
    /// Those that are too large to stand together with others.
    alone: Vec<Regex>,
}

impl RegexSet {
    /// Compiles the patterns.
    ///
    /// Errors: that of [`Regex::compile`] for the first pattern that does not compile.
    pub fn compile(patterns: &[&[u8]]) -> Result<RegexSet, String> {
        Self::compile_within(patterns, MAX_COMPILED)
    }

    /// As [`compile`](Self::compile); what stands together may take `limit` bytes.
    fn compile_within(patterns: &[&[u8]], limit: usize) -> Result<RegexSet, String> {
        let mut set = RegexSet::default();
        for part in patterns.chunks(TOGETHER) {
            match together(part, limit) {
                Some(compiled) => set.together.push(compiled),
                None => {
                    for pattern in part {
                        set.alone.push(Regex::compile(pattern)?);
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
        self.together.iter().any(|set| set.is_match(text))
            || self.alone.iter().any(|regex| regex.inner.is_match(text))
    }
}

/// One automaton for all; `None` when one of them is wrong or they are too large.
fn together(patterns: &[&[u8]], limit: usize) -> Option<regex::RegexSet> {
    let translated = patterns
        .iter()
        .map(|p| translate::translate(std::str::from_utf8(p).ok()?).ok())
        .collect::<Option<Vec<_>>>()?;
    regex::RegexSetBuilder::new(translated).size_limit(limit).build().ok()
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
    fn large_patterns_stand_alone() {
        let large: Vec<String> = (0..TOGETHER).map(|i| format!(r"{i}x{{30}}$")).collect();
        let large: Vec<&[u8]> = large.iter().map(String::as_bytes).collect();
        let set = RegexSet::compile_within(&large, 1024).unwrap();
        assert_eq!(set.alone.len(), TOGETHER);
        assert!(set.is_match(format!("7{}", "x".repeat(30)).as_bytes()));
        assert!(!set.is_match(b"7x"));
    }

    #[test]
    fn the_first_bad_pattern_is_named() {
        let error = RegexSet::compile(&[b"ok", b"(bad", b"[worse"]).unwrap_err();
        assert_eq!(error, Regex::compile(b"(bad").unwrap_err());
    }
}
