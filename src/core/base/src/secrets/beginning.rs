//! The beginning of a text that may be long, masked without a look at the rest.

use std::borrow::Cow;

use super::{KnownSecrets, MASKED, by_form, masked};

/// Bytes after those that are shown which are looked at: a secret that starts among those that are shown is recognized by its first bytes.
const AHEAD: usize = 256;

/// The beginning of a text, and what follows as far as it tells whether the beginning has a secret.
#[derive(Debug)]
pub struct Window<'t> {
    text: Cow<'t, str>,
    /// Length of the whole text.
    whole: usize,
    /// Bytes that are shown at most.
    most: usize,
}

/// The beginning of a text as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// The text; a byte that is no UTF-8 is `\u{fffd}`.
    pub text: String,
    /// Whether the text goes on after it.
    pub goes_on: bool,
}

impl<'t> Window<'t> {
    /// A window on the first `most` bytes of a text. Cost: independent of the length of the text.
    pub fn of(text: &'t [u8], most: usize) -> Self {
        let seen = text.get(..floor(text, most.saturating_add(AHEAD))).unwrap_or_default();
        let beyond = text.len() - seen.len();
        let seen = String::from_utf8_lossy(seen);
        Self { whole: seen.len() + beyond, text: seen, most }
    }

    fn is_whole(&self) -> bool {
        self.text.len() == self.whole
    }

    /// What may be shown of it: without what is secret by its form, as [`mask_text`](super::mask_text) masks the whole text.
    pub fn masked(&self) -> Beginning {
        self.beginning(Vec::new())
    }

    /// As [`masked`](Self::masked), and without parts of these secrets.
    pub fn without(&self, secrets: &KnownSecrets) -> Beginning {
        match self.is_whole() && secrets.is(&self.text) {
            true => Beginning { text: MASKED.to_owned(), goes_on: false },
            false => self.beginning(secrets.find(&self.text)),
        }
    }

    fn beginning(&self, mut spans: Vec<(usize, usize)>) -> Beginning {
        let text = &*self.text;
        spans.extend(by_form(text, !self.is_whole()));
        let (shown, end) = masked(text, spans, text.floor_char_boundary(self.most));
        Beginning { text: shown, goes_on: end < self.whole }
    }
}

/// The last boundary of a character at or before `at`, if the bytes are UTF-8.
fn floor(text: &[u8], at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    let is_start = |at: &usize| text.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    (at.saturating_sub(3)..=at).rev().find(is_start).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::mask_text;

    fn beginning(text: &str, secrets: &[&str], most: usize) -> Beginning {
        let mut known = KnownSecrets::default();
        secrets.iter().for_each(|secret| known.add(secret.as_bytes()));
        Window::of(text.as_bytes(), most).without(&known)
    }

    #[test]
    fn a_whole_text_is_masked_as_by_the_others() {
        for text in ["", "x", "\"x\"", "hunter2 and hunter2", "/?a=1&token=abc&b", "a b://c:d@e", "ä"] {
            for shown in [Window::of(text.as_bytes(), 200).masked(), beginning(text, &[], 200)] {
                assert_eq!(shown.text, mask_text(text));
                assert!(!shown.goes_on, "{text}");
            }
        }
    }

    #[test]
    fn what_is_cut_shows_no_part_of_a_secret() {
        for length in [2, 7, 30, 300, 5000] {
            let value = "s3cr3t".repeat(length);
            for before in 0..40 {
                let filler = "-".repeat(before);
                for (text, secret) in [
                    (format!("{filler} {value} is not on the list"), Some(&*value)),
                    (format!("{filler} a://b:{value}@host/"), None),
                    (format!("{filler} bearer {value}"), None),
                    (format!("{filler}?a=b&token={value}&c"), None),
                ] {
                    let secrets: Vec<&str> = secret.into_iter().collect();
                    for most in [20, 24, 36] {
                        let shown = beginning(&text, &secrets, most);
                        assert!(!shown.text.contains("s3"), "{text} {most}: {shown:?}");
                        assert!(shown.text.len() <= most + 2 * MASKED.len());
                    }
                }
            }
        }
    }

    #[test]
    fn a_text_is_cut_where_a_character_begins() {
        let text = "ä".repeat(5000);
        for most in 0..9 {
            let shown = beginning(&text, &[], most);
            assert_eq!((shown.text.chars().count(), shown.goes_on), (most / 2, true), "{most}");
        }
        assert_eq!(beginning("ää", &[], 4), Beginning { text: "ää".to_owned(), goes_on: false });
        let none = [0xff; 3000];
        assert_eq!(Window::of(&none, 9).masked().text, "\u{fffd}".repeat(3));
        assert!(!Window::of(&none, 9).is_whole());
    }

    #[test]
    fn ports_and_paths_of_long_texts_are_shown() {
        let text = format!("http://host:80/{}", "a".repeat(1 << 20));
        assert_eq!(beginning(&text, &[], 16).text, "http://host:80/a");
    }
}
