//! Secrets that are known.

use super::{MASKED, mask_text};

/// Shortest secret that is replaced within a text; shorter ones match by chance.
pub(super) const MIN_SECRET_LEN: usize = 4;

/// [`mask_text`], and masks each of `secrets` wherever it occurs in the text. A secret of fewer than four bytes is masked only if it is
/// the whole text, perhaps in quotes.
pub fn mask_known(text: &str, secrets: &[String]) -> String {
    let unquoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if secrets.iter().any(|secret| secret == text || secret == unquoted) {
        return MASKED.to_owned();
    }
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_LEN) {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), MASKED);
        }
    }
    mask_text(&text).into_owned()
}
