//! Hints for misspelled names.

/// Maximum length of a name that is misspelled, and of candidates, in bytes: the search is quadratic.
const MAX_MISSPELLED: usize = 256;

/// ``did you mean `…`?`` for the candidate nearest to `name`, if its edit distance is at most a third of the length.
/// None for names longer than 256 bytes.
pub fn suggestion<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    if name.len() > MAX_MISSPELLED {
        return None;
    }
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|c| c.len() <= MAX_MISSPELLED)
        .map(|c| (strsim::damerau_levenshtein(&name.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, c)| format!("did you mean `{c}`?"))
}

/// Most edits of a [`misspelling`].
const MAX_EDITS: usize = 2;

/// Whether a name is another one with one or two mistakes: for names that others like them surround, such as API groups.
pub fn misspelling(name: &str, of: &str) -> bool {
    name.len() <= MAX_MISSPELLED
        && name != of
        && strsim::damerau_levenshtein(&name.to_lowercase(), &of.to_lowercase()) <= MAX_EDITS
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_short_names_are_compared() {
        let long = "a".repeat(1 << 20);
        assert_eq!(
            super::suggestion("sorce.name", ["source.name", &long]).as_deref(),
            Some("did you mean `source.name`?")
        );
        assert_eq!(super::suggestion(&long, [&*format!("{long}b")]), None);
    }
}
