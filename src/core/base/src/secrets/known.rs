//! Secrets that are known.

use std::borrow::Cow;

use super::{MASKED, by_form, masked};
use crate::quote::quoted;

/// Shortest secret that is replaced within a text; shorter ones match by chance.
pub(super) const MIN_SECRET_LEN: usize = 4;
/// Bytes by which a secret that is longer is recognized.
pub(super) const HEAD: usize = 252;
/// Ends a text that was cut.
const CUT: char = '…';
/// Most bytes that are compared for a text and a secret. Beyond it, all that follows is masked.
const MAX_COMPARED: usize = 4 << 20;

/// The ways in which texts have a value: as it is, in small letters, as conditions compare it, and as errors quote it, with the escapes of Go
/// and of Rust.
pub fn forms(value: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    let plain = String::from_utf8_lossy(value);
    let small = plain.chars().any(char::is_uppercase).then(|| Cow::Owned(plain.to_lowercase()));
    let is_escaped = |c: char| !matches!(c, ' '..='~') || matches!(c, '"' | '\'' | '\\');
    let escaped = match plain.chars().any(is_escaped) {
        true => [quoted(value).to_string(), format!("{plain:?}")],
        false => [String::new(), String::new()],
    };
    let [go, rust] =
        escaped.map(|text| text.get(1..text.len().saturating_sub(1)).unwrap_or_default().to_owned());
    let is_other = |text: &str, known: &[&str]| !text.is_empty() && !known.contains(&text);
    let rust = is_other(&rust, &[&plain, &go]).then_some(Cow::Owned(rust));
    let go = is_other(&go, &[&plain]).then_some(Cow::Owned(go));
    std::iter::once(plain).chain(small).chain(go).chain(rust)
}

/// [`mask_text`](super::mask_text), and masks each of `secrets` wherever it occurs in the text, and as much of it as a text has that was cut
/// within it. A secret of fewer than four bytes is masked only if it is the whole text, perhaps in quotes.
pub fn mask_known(text: &str, secrets: &[String]) -> String {
    let unquoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if secrets.iter().any(|secret| secret == text || secret == unquoted) {
        return MASKED.to_owned();
    }
    let mut spans = by_form(text, false);
    for secret in secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_LEN) {
        occurrences(text, secret, &mut spans);
    }
    masked(text, spans, text.len()).0
}

/// The first bytes of a secret, by which it is recognized.
pub(super) fn head(secret: &str) -> &str {
    secret.get(..secret.floor_char_boundary(HEAD)).unwrap_or_default()
}

/// Where a text has a secret, or the beginning of one that was cut.
fn occurrences(text: &str, secret: &str, spans: &mut Vec<(usize, usize)>) {
    let head = head(secret);
    if head.len() == secret.len() {
        spans.extend(text.match_indices(secret).map(|(at, _)| (at, at + secret.len())));
    } else {
        let (mut from, mut left) = (0, MAX_COMPARED);
        while let Some(at) = text.get(from..).and_then(|rest| rest.find(head)).map(|at| from + at) {
            let rest = text.get(at..).unwrap_or_default();
            let equal = rest.bytes().zip(secret.bytes()).take_while(|(a, b)| a == b).count();
            let equal = rest.floor_char_boundary(equal);
            match left.checked_sub(equal) {
                Some(less) => left = less,
                None => return spans.push((at, text.len())),
            }
            spans.push((at, at + equal));
            // Another one may begin within it.
            from = text.ceil_char_boundary(at + 1);
        }
    }
    let Some(body) = text.strip_suffix(CUT) else { return };
    let lengths = (MIN_SECRET_LEN..head.len().min(body.len() + 1)).rev();
    let begins = |length: &usize| body.get(body.len() - length..).is_some_and(|end| head.starts_with(end));
    if let Some(length) = lengths.into_iter().find(begins) {
        spans.push((body.len() - length, body.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_a_text_cuts_is_masked() {
        let secret = "hunter2-".repeat(700);
        let cut = |length: usize| secret.get(..length).unwrap();
        for (length, shown) in [
            (5600, "***"),
            (4096, "***…"),
            (1024, "***…"),
            (252, "***…"),
            (251, "***…"),
            (20, "***…"),
            (4, "***…"),
        ] {
            let more = if length < secret.len() { "…" } else { "" };
            let text = format!("could not convert {}{more}", cut(length));
            assert_eq!(
                mask_known(&text, std::slice::from_ref(&secret)),
                format!("could not convert {shown}"),
                "{length}"
            );
        }
        let text = format!("{} to IP_ADDRESS, or {}!", cut(5600), cut(3000));
        assert_eq!(mask_known(&text, std::slice::from_ref(&secret)), "*** to IP_ADDRESS, or ***!");
        assert_eq!(mask_known("hun…", std::slice::from_ref(&secret)), "hun…", "it may be anything");
        assert_eq!(mask_known("hunter2", &[secret]), "hunter2", "not cut, and not the secret");
    }

    #[test]
    fn a_text_that_repeats_the_beginning_of_a_secret_takes_no_long_time() {
        let (secret, text) = ("a".repeat(1 << 20), "a".repeat(3 << 20));
        assert_eq!(mask_known(&text, &[secret]), MASKED);
    }

    #[test]
    fn the_longest_secret_wins() {
        let secrets = ["hunter2", "hunter2-long"].map(str::to_owned);
        assert_eq!(mask_known("is hunter2-long or hunter2 known", &secrets), "is *** or *** known");
    }

    #[test]
    fn values_have_the_forms_of_texts() {
        let of = |value: &[u8]| forms(value).map(Cow::into_owned).collect::<Vec<_>>();
        assert_eq!(of(b"plain value"), ["plain value"]);
        assert_eq!(of(b"Hunter2-Abc"), ["Hunter2-Abc", "hunter2-abc"]);
        assert_eq!(of(b"a\"b"), ["a\"b", "a\\\"b"]);
        assert_eq!(of("é\u{1}".as_bytes()), ["é\u{1}", "é\\x01", "é\\u{1}"]);
        assert_eq!(of(b"\xff'"), ["\u{fffd}'", "\\xff'"]);
        assert_eq!(of(b""), [""]);
    }
}
