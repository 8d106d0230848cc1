//! Secrets that are known by their parts: a text is free of them although it has a secret only in part, in other letters, or cut.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};
use std::sync::LazyLock;

use super::known::{CUT, MIN_SECRET_LEN};

/// Bytes from which on a secret is known by its middle, and by its long parts.
const MIDDLE: usize = 8;
const LONG: usize = 16;

/// Secrets of which texts are to be free. They are not kept, only hashes of their parts: adding one costs what it is long, and searching a
/// text what the text is long, however many there are. Letter case makes no difference.
///
/// | bytes of a secret | masked |
/// | --- | --- |
/// | up to 3 | if it is the whole text, perhaps in quotes |
/// | 4 to 7 | four bytes of it or more |
/// | 8 to 15 | six bytes of it or more |
/// | more | eight bytes of it or more; behind the first secret of a text, six |
///
/// Of a text that was cut, and ends in `…`, four bytes before that which begin a secret are masked, too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownSecrets {
    whole: HashSet<Box<[u8]>>,
    short: Parts<4>,
    middle: Parts<6>,
    long: Parts<8>,
    /// Parts of the long ones that are masked behind a secret: errors of conversions repeat what they could not read, and then a part of it.
    rest: Parts<6>,
    /// The first bytes of those that have other parts.
    heads: Parts<4>,
}

impl KnownSecrets {
    /// Adds a secret in one of the ways in which texts have it.
    pub fn add(&mut self, form: &[u8]) {
        let form = form.to_ascii_lowercase();
        match form.len() {
            0 => {}
            1..MIN_SECRET_LEN => _ = self.whole.insert(form.into()),
            MIN_SECRET_LEN..MIDDLE => self.short.add(&form),
            MIDDLE..LONG => {
                self.heads.add(form.get(..MIN_SECRET_LEN).unwrap_or_default());
                self.middle.add(&form);
            }
            _ => {
                self.heads.add(form.get(..MIN_SECRET_LEN).unwrap_or_default());
                self.long.add(&form);
                self.rest.add(&form);
            }
        }
    }

    /// Adds those of another set.
    pub fn extend(&mut self, other: &Self) {
        self.whole.extend(other.whole.iter().cloned());
        self.short.0.extend(&other.short.0);
        self.middle.0.extend(&other.middle.0);
        self.long.0.extend(&other.long.0);
        self.rest.0.extend(&other.rest.0);
        self.heads.0.extend(&other.heads.0);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.short.0.is_empty() && self.heads.0.is_empty()
    }

    /// Bytes on the heap, about.
    pub fn heap_bytes(&self) -> usize {
        // A hash, a byte of its group, and what a table has free.
        const ENTRY: usize = 12;
        let parts = [self.short.0.capacity(), self.middle.0.capacity(), self.long.0.capacity()];
        let others = [self.rest.0.capacity(), self.heads.0.capacity()];
        parts.into_iter().chain(others).sum::<usize>() * ENTRY + self.whole.capacity() * 3 * ENTRY
    }

    /// Whether a text is a secret as a whole, perhaps in quotes.
    pub(super) fn is(&self, text: &str) -> bool {
        let unquoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let is_known = |text: &str| {
            text.len() < MIN_SECRET_LEN && self.whole.contains(&*text.to_ascii_lowercase().into_bytes())
        };
        is_known(text) || is_known(unquoted)
    }

    /// Where a text has parts of secrets. Every byte is looked at a constant number of times, and parts that overlap are one.
    pub(super) fn find(&self, text: &str) -> Vec<(usize, usize)> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        if self.short.0.is_empty() && self.heads.0.is_empty() {
            return spans;
        }
        let lower = text.to_ascii_lowercase();
        let bytes = lower.as_bytes();
        for at in 0..bytes.len() {
            let rest = bytes.get(at..).unwrap_or_default();
            let begun = || self.long.begins(rest).or_else(|| self.middle.begins(rest));
            let behind = || if spans.is_empty() { None } else { self.rest.begins(rest) };
            let Some(length) = begun().or_else(behind).or_else(|| self.short.begins(rest)) else { continue };
            join(&mut spans, text.floor_char_boundary(at), text.ceil_char_boundary(at + length));
        }
        if let Some(body) = text.strip_suffix(CUT) {
            let mut starts =
                (MIN_SECRET_LEN..MIDDLE).rev().filter_map(|length| body.len().checked_sub(length));
            let is_head =
                |at: &usize| self.heads.begins(bytes.get(*at..body.len()).unwrap_or_default()).is_some();
            if let Some(at) = starts.find(is_head) {
                spans.push((text.floor_char_boundary(at), body.len()));
            }
        }
        spans
    }
}

/// Adds a span to those before it.
fn join(spans: &mut Vec<(usize, usize)>, start: usize, end: usize) {
    match spans.last_mut() {
        Some((_, last)) if start <= *last => *last = end.max(*last),
        _ => spans.push((start, end)),
    }
}

/// The hashes of parts of so many bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Parts<const N: usize>(HashSet<u64, BuildHasherDefault<Hashed>>);

impl<const N: usize> Parts<N> {
    fn add(&mut self, secret: &[u8]) {
        self.0.extend(secret.windows(N).filter_map(<[u8]>::first_chunk).map(hash::<N>));
    }

    /// The length of the part with which a text begins.
    fn begins(&self, text: &[u8]) -> Option<usize> {
        let first = text.first_chunk::<N>()?;
        (!self.0.is_empty() && self.0.contains(&hash(first))).then_some(N)
    }
}

/// The hash of at most eight bytes. It is another one for other bytes, and nobody outside of the process knows it: no secret is found by chance.
fn hash<const N: usize>(part: &[u8; N]) -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    let mut word = [0; 8];
    word.iter_mut().zip(part).for_each(|(to, byte)| *to = *byte);
    // The end of SplitMix64.
    let mut hash = u64::from_le_bytes(word).wrapping_add(*SEED);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The hash of what is a hash.
#[derive(Debug, Clone, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::{MASKED, Window};

    fn known(secrets: &[&str]) -> KnownSecrets {
        let mut known = KnownSecrets::default();
        secrets.iter().for_each(|secret| known.add(secret.as_bytes()));
        known
    }

    fn masked(text: &str, secrets: &[&str]) -> String {
        Window::of(text.as_bytes(), text.len()).without(&known(secrets)).text
    }

    #[test]
    fn whole_secrets_are_masked_anywhere() {
        let secrets = ["Bearer abc.def-123", "hunter2", "abc", "hunter2-long"];
        for (text, shown) in [
            ("hunter2 is not whitelisted", "*** is not whitelisted"),
            ("HUNTER2 is not whitelisted", "*** is not whitelisted"),
            ("hunter2-long or hunter2hunter2, it is", "*** or ***, it is"),
            ("\"abc\"", "***"),
            ("abc", "***"),
            ("abcd is no secret", "abcd is no secret"),
            ("got Bearer abc.def-123 from http://u:p@h", "got *** from http://***@h"),
            ("", ""),
        ] {
            assert_eq!(masked(text, &secrets), shown);
        }
        assert!(known(&[""]).is_empty() && !known(&["a"]).is_empty() && !known(&["abcd"]).is_empty());
    }

    #[test]
    fn parts_of_secrets_are_masked() {
        for (secret, text, shown) in [
            (
                "a@b.c hunter2",
                "error converting 'a@b.c hunter2' to e-mail: 'mail: expected single address, got \"hunter2\"'",
                "error converting '***' to e-mail: 'mail: expected single address, got \"***\"'",
            ),
            (
                "http://an.example/hunter2#top of it",
                "error converting string to uri 'http://an.example/hunter2#top of it': 'parse \"http://an.example/hunter2\": bad'",
                "error converting string to uri '***': 'parse \"***\": bad'",
            ),
            ("aw[hunter2", "missing closing ]: `[hunter2`", "missing closing ]: `***`"),
            ("a long secret is here", "a part: secret is", "a part:***"),
            ("a long secret is here", "a part: secret", "a part: secret"),
            ("user=jason", "source.user is unknown", "source.user is unknown"),
            ("geheim-ä-wörter-geheim", "ein ä-wörter-: x", "ein ***: x"),
        ] {
            assert_eq!(masked(text, &[secret]), shown, "{secret}");
        }
    }

    #[test]
    fn a_secret_that_a_text_cuts_is_masked() {
        let secret = "hunter2-".repeat(700);
        let cut = |length: usize| secret.get(..length).unwrap();
        for (length, shown) in
            [(5600, "***"), (4096, "***…"), (20, "***…"), (7, "***…"), (4, "***…"), (3, "hun…")]
        {
            let more = if length < secret.len() { "…" } else { "" };
            let text = format!("could not convert {}{more}", cut(length));
            assert_eq!(masked(&text, &[&secret]), format!("could not convert {shown}"), "{length}");
        }
        let text = format!("{} to IP_ADDRESS, or {}!", cut(5600), cut(3000));
        assert_eq!(masked(&text, &[&secret]), "*** to IP_ADDRESS, or ***!");
        assert_eq!(masked("hunter2", &[&secret]), "hunter2", "not cut, and not the secret");
    }

    /// Equal secrets take no memory twice, and what they cover of a text is one span.
    #[test]
    fn many_secrets_and_many_places_are_few_spans() {
        let mut known = KnownSecrets::default();
        for length in 4..2000 {
            known.add("a".repeat(length).as_bytes());
        }
        assert_eq!([known.long.0.len(), known.middle.0.len(), known.short.0.len()], [1, 1, 1]);
        let text = "a".repeat(1 << 20);
        assert_eq!(known.find(&text), [(0, text.len())]);
        assert_eq!(Window::of(text.as_bytes(), text.len()).without(&known).text, MASKED);
        let apart = "aaaa-".repeat(1000);
        assert_eq!(known.find(&apart).len(), 1000);
        assert!(known.heap_bytes() < 1024, "{}", known.heap_bytes());
    }

    #[test]
    fn sets_are_joined() {
        let mut known = known(&["hunter2-hunter2-hunter2"]);
        known.extend(&self::known(&["abcd", "geheimnis", "x"]));
        for text in ["hunter2-h", "abcd", "geheim", "x"] {
            assert_eq!(Window::of(text.as_bytes(), 100).without(&known).text, MASKED, "{text}");
        }
    }
}
