//! Names of the annotations `mixer.dev/…`, which settings without a field in the messages of Istio Mixer have, and what resembles them.

use crate::message::is_within;

/// The prefix, before the slash.
pub const PREFIX: &str = "mixer.dev";

/// Puts a rule in dry run: `true` or `false`.
pub const DRY_RUN: &str = "mixer.dev/dry-run";

/// The failure policy of a rule or handler: `deny`, `allow` or `lastKnown`.
pub const ON_ERROR: &str = "mixer.dev/on-error";

/// What happens to the requests that a rule selects if no rule allows them: `deny` or `allow`.
pub const DEFAULT: &str = "mixer.dev/default";

/// Where OK of a rule for the mesh allows what a default refuses: `everywhere`.
pub const ALLOWS: &str = "mixer.dev/allows";

/// What counts of the attributes that an instance of a generator binds: what was received (`keep`), or what is generated (`ignore`).
pub const RECEIVED_VALUES: &str = "mixer.dev/received-values";

/// Every annotation.
pub const ALL: &[&str] = &[ALLOWS, DEFAULT, DRY_RUN, ON_ERROR, RECEIVED_VALUES];

/// Those of rules.
pub const OF_RULES: &[&str] = &[ALLOWS, DEFAULT, DRY_RUN, ON_ERROR];

/// The annotation whose name behind the slash is nearly this one, given in [`letters`].
pub fn named_like(name: &str) -> Option<&'static str> {
    ALL.iter().copied().find(|annotation| is_near(name, &name_of(annotation)))
}

/// The letters of the name of an annotation, without its prefix.
pub fn name_of(annotation: &str) -> String {
    letters(annotation.rsplit_once('/').map_or(annotation, |(_, name)| name))
}

/// Letters and digits in lower case: `dry-run`, `dry_run`, `dryRun` and `DRY RUN` are the same.
pub fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a text is another one with at most one mistake in three letters.
pub fn is_near(text: &str, of: &str) -> bool {
    let limit = of.len() / 3;
    // An edit adds or removes at most four bytes.
    text.len().abs_diff(of.len()) <= 4 * limit && is_within(text, of, limit)
}
