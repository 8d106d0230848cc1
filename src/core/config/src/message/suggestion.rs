//! Hints for misspelled names.

/// ``did you mean `…`?`` for the candidate nearest to `name`, if its edit distance is at most a third of the length.
pub fn suggestion<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&name.to_lowercase(), &c.to_lowercase()), c))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, c)| format!("did you mean `{c}`?"))
}
