//! Hints for misspelled names.

use mixer_base::suggestion::{Case, near};

pub use mixer_base::suggestion::is_within;

/// ``did you mean `…`?`` for the candidate that is [`suggested`].
pub fn suggestion<C: AsRef<str> + Ord>(
    name: &str,
    candidates: impl IntoIterator<Item = C>,
) -> Option<String> {
    suggested(name, candidates).map(|candidate| format!("did you mean `{}`?", candidate.as_ref()))
}

/// The candidate nearest to `name`, if its edit distance is at most a third of the length. None for names longer than 256 bytes, and
/// once the [budget](mixer_base::suggestion::SuggestionBudget) of what runs is used up: for hints only.
pub fn suggested<C: AsRef<str> + Ord>(name: &str, candidates: impl IntoIterator<Item = C>) -> Option<C> {
    let limit = most_edits(name);
    near(name, candidates, Case::Ignored, |_| limit).into_iter().min().map(|(_, candidate)| candidate)
}

/// Whether a name would be [`suggested`] for a misspelt one. For decisions: no budget bounds it, so that the number of names has to be
/// bounded otherwise.
pub fn resembles(name: &str, of: &str) -> bool {
    is_within(name, of, most_edits(name))
}

fn most_edits(name: &str) -> usize {
    (name.chars().count() / 3).max(1)
}

/// Names up to this length, in bytes, become another word by two edits.
const SHORT: usize = 5;

/// Whether a name is another one with a mistake, or with two if it is not short: for names that others like them surround, such as API
/// groups.
pub fn misspelling(name: &str, of: &str) -> bool {
    let edits = if of.len() <= SHORT { 1 } else { 2 };
    name != of && is_within(name, of, edits)
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
        assert!(super::resembles("sorce.name", "source.name") && !super::resembles("sorce", "source.name"));
    }
}
