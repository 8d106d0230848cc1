//! Secrets that are known.

use super::{MASKED, by_form, masked};

/// Shortest secret that is replaced within a text; shorter ones match by chance.
pub(super) const MIN_SECRET_LEN: usize = 4;
/// Bytes by which a secret that is longer is recognized.
const HEAD: usize = 252;
/// Ends a text that was cut.
pub(super) const CUT: char = '…';
/// Most bytes that are compared for a text and all secrets. Beyond it, what follows an occurrence is masked.
const MAX_COMPARED: usize = 4 << 20;
/// Most spans before those that overlap are joined.
const MAX_SPANS: usize = 1024;

/// [`mask_text`](super::mask_text), and masks each of `secrets` wherever it occurs in the text, and as much of it as a text has that was cut
/// within it. A secret of fewer than four bytes is masked only if it is the whole text, perhaps in quotes.
pub fn mask_known(text: &str, secrets: &[String]) -> String {
    let unquoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if secrets.iter().any(|secret| secret == text || secret == unquoted) {
        return MASKED.to_owned();
    }
    let mut spans = by_form(text, false);
    let (mut left, mut most) = (MAX_COMPARED, MAX_SPANS);
    for secret in secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_LEN) {
        occurrences(text, secret, &mut spans, &mut left);
        if spans.len() > most {
            join(&mut spans);
            most = MAX_SPANS.max(2 * spans.len());
        }
    }
    masked(text, spans, text.len()).0
}

/// Joins spans that overlap.
fn join(spans: &mut Vec<(usize, usize)>) {
    spans.sort_unstable();
    spans.dedup_by(|next, before| {
        let overlaps = next.0 < before.1;
        if overlaps {
            before.1 = before.1.max(next.1);
        }
        overlaps
    });
}

/// The first bytes of a secret, by which it is recognized.
fn head(secret: &str) -> &str {
    secret.get(..secret.floor_char_boundary(HEAD)).unwrap_or_default()
}

/// Where a text has a secret, or the beginning of one that was cut.
fn occurrences(text: &str, secret: &str, spans: &mut Vec<(usize, usize)>, left: &mut usize) {
    let head = head(secret);
    if head.len() == secret.len() {
        spans.extend(text.match_indices(secret).map(|(at, _)| (at, at + secret.len())));
    } else {
        let (mut from, before) = (0, spans.len());
        while let Some(at) = text.get(from..).and_then(|rest| rest.find(head)).map(|at| from + at) {
            let rest = text.get(at..).unwrap_or_default();
            let equal = rest.bytes().zip(secret.bytes()).take_while(|(a, b)| a == b).count();
            let equal = rest.floor_char_boundary(equal);
            match left.checked_sub(equal) {
                Some(less) => *left = less,
                None => return spans.push((at, text.len())),
            }
            let own = spans.get_mut(before..).and_then(<[(usize, usize)]>::last_mut);
            match own {
                Some((_, end)) if at < *end => *end = (at + equal).max(*end),
                _ => spans.push((at, at + equal)),
            }
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

    /// The spans of a secret that a text repeats are one, and comparisons are counted for all secrets.
    #[test]
    fn secrets_that_are_alike_take_no_more_memory_than_the_text() {
        let text = "a".repeat(4000);
        let (mut spans, mut left) = (Vec::new(), MAX_COMPARED);
        for _ in 0..3 {
            occurrences(&text, &"a".repeat(900), &mut spans, &mut left);
        }
        assert!(spans.len() <= 4 && left < MAX_COMPARED - 900, "{spans:?} {left}");
        let secrets: Vec<String> = (900..3700).map(|length| "a".repeat(length)).collect();
        assert_eq!(mask_known(&text, &secrets), MASKED);
        let mut many = vec![(5, 9), (0, 3), (8, 12), (2, 4)];
        join(&mut many);
        assert_eq!(many, [(0, 4), (5, 12)]);
    }
}
