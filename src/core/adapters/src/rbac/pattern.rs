//! Patterns of names: `text`, `prefix*`, `*suffix`, `*`.

use foldhash::HashMap;

/// One pattern. `*` is special only as the last or the first character.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern<'t> {
    Exact(&'t str),
    Prefix(&'t str),
    Suffix(&'t str),
}

impl<'t> Pattern<'t> {
    /// The patterns that an entry of a list means; two if a `*` stands at both ends.
    fn of(entry: &'t str) -> impl Iterator<Item = Self> {
        let prefix = entry.strip_suffix('*').map(Pattern::Prefix);
        let suffix = entry.strip_prefix('*').filter(|_| entry != "*").map(Pattern::Suffix);
        let exact = (prefix.is_none() && suffix.is_none()).then_some(Pattern::Exact(entry));
        [prefix, suffix, exact].into_iter().flatten()
    }
}

/// Whether an entry has a `*` that is not special.
pub(super) fn has_literal_star(entry: &str) -> bool {
    match entry.strip_suffix('*').or_else(|| entry.strip_prefix('*')) {
        Some(rest) => rest.contains('*'),
        None => entry.contains('*'),
    }
}

/// A list of patterns, any of which may match.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternList(Vec<OwnedPattern>);

#[derive(Debug, Clone)]
enum OwnedPattern {
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Suffix(Box<[u8]>),
}

impl PatternList {
    pub(super) fn new(entries: &[String]) -> Self {
        let patterns = entries.iter().flat_map(|entry| Pattern::of(entry)).map(|pattern| match pattern {
            Pattern::Exact(text) => OwnedPattern::Exact(text.as_bytes().into()),
            Pattern::Prefix(text) => OwnedPattern::Prefix(text.as_bytes().into()),
            Pattern::Suffix(text) => OwnedPattern::Suffix(text.as_bytes().into()),
        });
        Self(patterns.collect())
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        self.0.iter().any(|pattern| match pattern {
            OwnedPattern::Exact(exact) => **exact == *text,
            OwnedPattern::Prefix(prefix) => text.starts_with(prefix),
            OwnedPattern::Suffix(suffix) => text.ends_with(suffix),
        })
    }
}

/// Finds the values whose patterns match a text. Cost: a hash of the text, and one for each length that prefixes or suffixes have,
/// whatever the number of patterns.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternIndex {
    exact: Table,
    prefixes: Affixes,
    suffixes: Affixes,
}

/// Values by the text of their patterns.
type Table = HashMap<Box<[u8]>, Vec<u32>>;

#[derive(Debug, Clone, Default)]
struct Affixes {
    table: Table,
    /// The lengths of the keys, ascending.
    lengths: Vec<usize>,
}

impl Affixes {
    fn insert(&mut self, text: &str, value: u32) {
        if let Err(at) = self.lengths.binary_search(&text.len()) {
            self.lengths.insert(at, text.len());
        }
        insert(&mut self.table, text, value);
    }
}

fn insert(table: &mut Table, text: &str, value: u32) {
    let values = table.entry(text.as_bytes().into()).or_default();
    if values.last() != Some(&value) {
        values.push(value);
    }
}

impl PatternIndex {
    /// Adds the patterns of a value.
    pub(super) fn add(&mut self, entries: &[String], value: u32) {
        for pattern in entries.iter().flat_map(|entry| Pattern::of(entry)) {
            match pattern {
                Pattern::Exact(text) => insert(&mut self.exact, text, value),
                Pattern::Prefix(text) => self.prefixes.insert(text, value),
                Pattern::Suffix(text) => self.suffixes.insert(text, value),
            }
        }
    }

    /// Whether `test` holds for a value with a pattern that matches `text`; it may be called several times for one.
    pub(super) fn any(&self, text: &[u8], mut test: impl FnMut(u32) -> bool) -> bool {
        let exact = self.exact.get(text);
        let fits = |length: &&usize| **length <= text.len();
        let prefixes = self.prefixes.lengths.iter().take_while(fits);
        let prefixes = prefixes.filter_map(|length| self.prefixes.table.get(text.get(..*length)?));
        let suffixes = self.suffixes.lengths.iter().take_while(fits);
        let suffixes =
            suffixes.filter_map(|length| self.suffixes.table.get(text.get(text.len() - length..)?));
        exact.into_iter().chain(prefixes).chain(suffixes).flatten().any(|value| test(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[(&str, &str, bool)] = &[
        ("a", "a", true),
        ("a", "A", false),
        ("a", "ab", false),
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
        ("*", "anything", true),
        ("a*", "a", true),
        ("a*", "abc", true),
        ("a*", "ba", false),
        ("*a", "a", true),
        ("*a", "cba", true),
        ("*a", "ab", false),
        ("*mid*", "xmidx", false),
        ("*mid*", "*midx", true),
        ("*mid*", "xmid*", true),
        ("a*c", "abc", false),
        ("a*c", "a*c", true),
        ("**", "x", false),
        ("**", "*x", true),
    ];

    #[test]
    fn a_list_and_an_index_agree() {
        for (pattern, text, wanted) in ROWS {
            let entries = [(*pattern).to_owned()];
            assert_eq!(PatternList::new(&entries).matches(text.as_bytes()), *wanted, "{pattern} {text}");
            let mut index = PatternIndex::default();
            index.add(&entries, 7);
            let found = index.any(text.as_bytes(), |value| value == 7);
            assert_eq!(found, *wanted, "index: {pattern} {text}");
        }
    }

    #[test]
    fn an_index_finds_every_value() {
        let mut index = PatternIndex::default();
        let patterns = ["abc", "a*", "ab*", "*c", "*bc", "*", "x*", "*x", "xyz"];
        for (value, pattern) in patterns.iter().enumerate() {
            index.add(&[(*pattern).to_owned()], value as u32);
        }
        let mut found = Vec::new();
        assert!(!index.any(b"abc", |value| {
            found.push(value);
            false
        }));
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn stars_inside_are_literal() {
        for (entry, wanted) in [("a", false), ("a*", false), ("*a", false), ("*", false)] {
            assert_eq!(has_literal_star(entry), wanted, "{entry}");
        }
        for entry in ["a*b", "*a*", "**", "a**"] {
            assert!(has_literal_star(entry), "{entry}");
        }
    }
}
