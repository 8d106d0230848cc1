//! Hints for misspelled names.

/// Maximum length of a name that is misspelled, and of candidates, in bytes: the search is quadratic.
const MAX_MISSPELLED: usize = 256;

/// ``did you mean `…`?`` for the candidate that is [`suggested`].
pub fn suggestion<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    suggested(name, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// The candidate nearest to `name`, if its edit distance is at most a third of the length. None for names longer than 256 bytes.
pub fn suggested<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
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
        .map(|(_, candidate)| candidate)
}

/// Names up to this length, in bytes, become another word by two edits.
const SHORT: usize = 5;

/// Whether a name is another one with a mistake, or with two if it is not short: for names that others like them surround, such as API
/// groups.
pub fn misspelling(name: &str, of: &str) -> bool {
    let edits = if of.len() <= SHORT { 1 } else { 2 };
    name != of && is_within(name, of, edits)
}

/// Whether a name of at most 256 bytes is another one with at most so many mistakes, in capitals or not.
pub fn is_within(name: &str, of: &str, edits: usize) -> bool {
    name.len() <= MAX_MISSPELLED
        && strsim::damerau_levenshtein(&name.to_lowercase(), &of.to_lowercase()) <= edits
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
