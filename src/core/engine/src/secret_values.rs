//! The values of a request that are secret, so that they are masked wherever a text of it repeats them: the log, decisions, denials, spans,
//! explanations.
//!
//! They are collected once, from the attributes as they were received, and every text is masked with all of them at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;

use crate::adapter::Instance;
use bumpalo::Bump;
use mixer_attribute::text::{go_text, text as text_of_value};
use mixer_attribute::{AttributeBag, NamedValue, Value};
use mixer_base::quote::quoted;
use mixer_base::secrets::{Beginning, KnownSecrets, MASKED, SecretNames, Window, is_secret};
use mixer_expr::functions::to_lower;

/// What the secret values of a request may cost: bytes of names that are judged and of values. Nothing is shown of a request that has more.
const MAX_COST: usize = 256 << 10;
/// The same where a worker collects them.
const MAX_WORKER_COST: usize = 16 << 10;
/// What a name or value costs besides its bytes.
const EACH: usize = 16;
/// What a byte costs of a value that texts escape.
const ESCAPED: usize = 8;
/// Bytes that cost one where only their hash is made.
const HASHED: usize = 16;
/// Bytes of a value that is no text that are looked at: it is shown as numbers, and no more of them.
const MAX_BINARY: usize = 1 << 10;

/// The secret values of a request or of the records of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretValues {
    known: KnownSecrets,
    /// What more of them may cost.
    left: usize,
    /// Whether some had no room.
    is_cut: bool,
}

impl Default for SecretValues {
    fn default() -> Self {
        Self::within(MAX_COST)
    }
}

impl SecretValues {
    /// None, which may cost what those of a call may that a worker collects.
    pub(crate) fn of_worker() -> Self {
        Self::within(MAX_WORKER_COST)
    }

    /// Those of a request that cannot be read: nothing is shown of its texts.
    pub(crate) fn unknown() -> Self {
        Self { is_cut: true, ..Self::within(0) }
    }

    fn within(cost: usize) -> Self {
        Self { known: KnownSecrets::default(), left: cost, is_cut: false }
    }

    /// The values of the attributes that are secret, and of map entries with the names of secrets.
    pub(crate) fn of(bag: &AttributeBag<'_>, names: &SecretNames) -> Self {
        let mut reader = SecretReader::new(Self::default(), by_name(names));
        reader.read_bag(bag);
        reader.finish()
    }

    /// As [`of`](Self::of), where a worker needs them to show one text.
    pub(crate) fn of_call(bag: &AttributeBag<'_>, names: &SecretNames) -> Self {
        let mut reader = SecretReader::new(Self::of_worker(), by_name(names));
        reader.read_bag(bag);
        reader.finish()
    }

    /// Those that generators made: what was received does not tell of them, neither where the request is recorded nor where its answer is
    /// found in a cache. `None` if there are none.
    pub(crate) fn made(bag: &AttributeBag<'_>, names: &SecretNames) -> Option<Self> {
        let mut reader = SecretReader::new(Self::of_worker(), by_name(names));
        reader.read(bag.made());
        Some(reader.finish()).filter(|made| !made.is_empty())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_cut && self.known.is_empty()
    }

    /// Counts a cost; returns whether it is within the bound.
    fn pay(&mut self, cost: usize) -> bool {
        match self.left.checked_sub(cost) {
            Some(left) if !self.is_cut => self.left = left,
            _ => {
                self.is_cut = true;
                self.known = KnownSecrets::default();
            }
        }
        !self.is_cut
    }

    /// Adds a value in all the ways in which texts have it.
    pub(crate) fn add(&mut self, value: &[u8]) {
        let is_plain = value.iter().all(|byte| matches!(byte, b' '..=b'~') && !b"\"'\\".contains(byte));
        let cost = if is_plain { value.len() } else { value.len().saturating_mul(ESCAPED) };
        if !value.is_empty() && self.pay(cost.saturating_add(EACH)) {
            self.known.add(value);
            if !is_plain {
                forms(value, &mut |form| self.known.add(form));
            }
        }
    }

    /// Adds a value that is secret, whatever it is.
    pub(crate) fn add_value(&mut self, value: Value<'_>) {
        match value {
            Value::String(text) => self.add(text),
            Value::StringMap(map) => map.entries.iter().for_each(|(_, value)| self.add(value)),
            value => {
                let value = match value {
                    Value::Bytes(bytes) => Value::Bytes(bytes.get(..MAX_BINARY).unwrap_or(bytes)),
                    other => other,
                };
                self.add(text_of_value(value).to_string().as_bytes());
                self.add(go_text(value).to_string().as_bytes());
            }
        }
    }

    /// Adds those of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.is_cut |= other.is_cut;
        self.known.extend(&other.known);
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.known.heap_bytes()
    }

    /// A text without the values of `made`, if there are any.
    pub fn masked<'t>(made: Option<&Self>, text: &'t str) -> Cow<'t, str> {
        made.map_or(Cow::Borrowed(text), |made| made.mask(text).into())
    }

    /// A text without these values, and without what is secret by its form.
    pub(crate) fn mask(&self, text: &str) -> String {
        self.beginning(text, text.len()).text
    }

    /// The first `most` bytes of a text without these values; [`MASKED`] if there are more of them than are looked at. Cost: that of so many bytes.
    pub(crate) fn beginning(&self, text: &str, most: usize) -> Beginning {
        match self.is_cut {
            true => Beginning { text: MASKED.to_owned(), goes_on: text.len() > most },
            false => Window::of(text.as_bytes(), most).without(&self.known),
        }
    }

    /// An error as the log and spans may have it: its first kilobyte, without these values.
    pub fn shown(&self, error: &str) -> String {
        let shown = self.beginning(error, MAX_LOGGED);
        if shown.goes_on { shown.text + "…" } else { shown.text }
    }
}

/// The ways in which texts have a value besides its bytes: with U+FFFD for what is no UTF-8, in small letters, as conditions compare it, and as
/// errors quote both, with the escapes of Go and of Rust.
fn forms(value: &[u8], add: &mut impl FnMut(&[u8])) {
    let mut written = |value: &[u8]| {
        let plain = String::from_utf8_lossy(value);
        add(plain.as_bytes());
        for quoted in [quoted(value).to_string(), format!("{plain:?}")] {
            add(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().as_bytes());
        }
    };
    written(value);
    if !value.is_ascii() {
        let arena = Bump::new();
        written(to_lower(value, &arena));
    }
}

/// Whether the attribute with a name is secret, or the entry of it with a key.
pub(crate) trait Judge: FnMut(&str, Option<&str>) -> bool {}
impl<J: FnMut(&str, Option<&str>) -> bool> Judge for J {}

/// What is secret by its name alone.
pub(crate) fn by_name(names: &SecretNames) -> impl Judge {
    move |name: &str, key: Option<&str>| key.map_or_else(|| names.is_secret(name), is_secret)
}

/// Collects the secret values of attributes.
pub(crate) struct SecretReader<J> {
    values: SecretValues,
    judge: J,
    /// What is known of names and values of the records before, by their hashes: `true` of a name that is secret.
    seen: Option<HashMap<u64, bool>>,
}

impl<J: Judge> SecretReader<J> {
    /// For one bag.
    pub(crate) fn new(values: SecretValues, judge: J) -> Self {
        Self { values, judge, seen: None }
    }

    /// For many bags, which repeat names and values.
    pub(crate) fn of_records(values: SecretValues, judge: J) -> Self {
        Self { values, judge, seen: Some(HashMap::new()) }
    }

    /// Adds the secret values of a bag.
    pub(crate) fn read_bag(&mut self, bag: &AttributeBag<'_>) {
        if !self.values.is_cut {
            self.read(bag.all());
        }
    }

    /// Adds the secret values among these.
    pub(crate) fn read<'a>(&mut self, all: impl IntoIterator<Item = NamedValue<'a>>) {
        for named in all {
            if self.values.is_cut {
                return;
            }
            let Some(value) = named.value else { continue };
            let is_named = self.is_secret(named.name, None);
            self.read_value(named.name, value, is_named);
        }
    }

    /// Adds a value if it `is_named` as a secret, and otherwise the entries of a map that are.
    fn read_value(&mut self, name: &[u8], value: Value<'_>, is_named: bool) {
        match value {
            Value::StringMap(map) => {
                for (key, value) in map.entries {
                    if self.values.is_cut {
                        return;
                    }
                    if is_named || self.is_secret(name, Some(key)) {
                        self.add(Value::String(value));
                    }
                }
            }
            value if is_named => self.add(value),
            _ => {}
        }
    }

    /// Adds the secret values of an instance: of leaves that have a secret, and entries of maps with the names of secrets. Returns whether all had
    /// room.
    pub(crate) fn read_instance(&mut self, instance: &Instance<'_>, secret_leaves: &[bool]) -> bool {
        for (value, is_of_secret) in instance.values.iter().zip(secret_leaves) {
            if let Some(value) = value {
                self.read_value(b"", *value, *is_of_secret);
            }
        }
        !self.values.is_cut
    }

    /// Notes that a request cannot be read.
    pub(crate) fn miss(&mut self) {
        self.values = SecretValues::unknown();
    }

    /// Those that were found.
    pub(crate) fn finish(self) -> SecretValues {
        self.values
    }

    fn add(&mut self, value: Value<'_>) {
        if let (Value::String(text), Some(seen)) = (value, &mut self.seen)
            && (!self.values.pay(text.len() / HASHED + 1)
                || seen.insert(hash_of(("value", text)), true).is_some())
        {
            return;
        }
        self.values.add_value(value);
    }

    fn is_secret(&mut self, name: &[u8], key: Option<&[u8]>) -> bool {
        let judged = key.unwrap_or(name);
        let Some(seen) = &mut self.seen else {
            return self.values.pay(judged.len().saturating_add(EACH)) && judge(&mut self.judge, name, key);
        };
        if !self.values.pay(judged.len() / HASHED + 1) {
            return false;
        }
        let hash = hash_of((name, key));
        if let Some(known) = seen.get(&hash) {
            return *known;
        }
        let known = self.values.pay(judged.len().saturating_add(EACH)) && judge(&mut self.judge, name, key);
        seen.insert(hash, known);
        known
    }
}

fn judge(judge: &mut impl Judge, name: &[u8], key: Option<&[u8]>) -> bool {
    let key = key.map(String::from_utf8_lossy);
    judge(&String::from_utf8_lossy(name), key.as_deref())
}

/// A hash that callers do not know.
fn hash_of(value: impl std::hash::Hash) -> u64 {
    static HASHER: LazyLock<foldhash::quality::RandomState> =
        LazyLock::new(foldhash::quality::RandomState::default);
    HASHER.hash_one(value)
}

/// Most bytes of an error of a request in the log, and in a span.
const MAX_LOGGED: usize = 1 << 10;

/// An error of a request as the log may have it: its beginning, without the secret values of the request. Cost: a
/// look at the names of the request and at its secret values, within a bound.
pub fn for_log(error: impl std::fmt::Display, bag: &AttributeBag<'_>, names: &SecretNames) -> String {
    SecretValues::of_call(bag, names).shown(&error.to_string())
}

/// The first `most` bytes of a text without the secret values of a request; [`MASKED`] if the request has more names or secret values than are
/// looked at. Cost: within a bound, whatever the lengths of the text and of the values.
pub(crate) fn mask_beginning(
    text: &str,
    most: usize,
    bag: &AttributeBag<'_>,
    names: &SecretNames,
) -> Beginning {
    match text.is_empty() {
        true => Beginning { text: String::new(), goes_on: false },
        false => SecretValues::of_call(bag, names).beginning(text, most),
    }
}

#[cfg(test)]
mod tests {
    use mixer_attribute::{AttributeBag, StringMap, Vocabulary};

    use super::*;

    /// The secrets of requests with these headers.
    fn of(headers: &[(&[u8], &[u8])]) -> SecretValues {
        let vocabulary = {
            let mut builder = Vocabulary::builder();
            builder.declare("request.headers", mixer_attribute::ValueType::StringMap);
            builder.build()
        };
        let map = StringMap { entries: headers, source: None };
        let arena = Bump::new();
        let mut bag = AttributeBag::empty(&vocabulary, &arena);
        bag.set(vocabulary.slot(b"request.headers").unwrap(), Value::StringMap(&map));
        SecretValues::of(&bag, &SecretNames::new())
    }

    #[test]
    fn of_a_request_with_too_many_secrets_nothing_is_shown() {
        let shown = |count: usize, length: usize| {
            let names: Vec<String> = (0..count).map(|n| format!("x-{n}-token")).collect();
            let values: Vec<String> =
                (0..count).map(|n| format!("hunter{n:05}{}", "x".repeat(length))).collect();
            let entries: Vec<(&[u8], &[u8])> =
                names.iter().zip(&values).map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let last = values.last().unwrap();
            of(&entries).mask(&format!("user {last} is unknown"))
        };
        assert_eq!(shown(100, 5), "user *** is unknown");
        assert_eq!(shown(2000, 5), "user *** is unknown");
        assert_eq!(shown(20_000, 5), MASKED);
        assert_eq!(shown(10, MAX_COST / 11), "user *** is unknown");
        assert_eq!(shown(10, MAX_COST / 10), MASKED);
        let escaped = |length: usize| of(&[(b"x-token", &vec![0xff; length])]).mask("is unknown");
        assert_eq!((escaped(30_000), escaped(40_000)), ("is unknown".to_owned(), MASKED.to_owned()));
    }

    #[test]
    fn values_are_found_however_texts_write_them() {
        for (value, text) in [
            (&b"plain value"[..], "got plain value there"),
            (b"Hunter2-Abc", "got hunter2-abc there"),
            (b"a\"bcd", "got a\\\"bcd there"),
            ("é\u{1}abc".as_bytes(), "got é\\x01abc there"),
            ("é\u{1}abc".as_bytes(), "got é\\u{1}abc there"),
            (b"abc\xff'", "got abc\\xff' there"),
            (b"abc\xff'", "got abc\u{fffd}' there"),
            // As `toLower` writes it, which is not how Rust does.
            ("İİİİ".as_bytes(), "got iiii there"),
            ("ΣΣ".as_bytes(), "got σσ there"),
            ("É\"\u{1}".as_bytes(), "got é\\\"\\x01 there"),
        ] {
            assert_eq!(of(&[(b"x-token", value)]).mask(text), "got *** there", "{text}");
        }
    }

    #[test]
    fn values_that_records_repeat_cost_no_more() {
        let (token, names) = ("s3cret".repeat(500), SecretNames::new());
        let mut reader = SecretReader::of_records(SecretValues::default(), by_name(&names));
        let one = NamedValue { name: b"session.token", value: Some(Value::String(token.as_bytes())) };
        for _ in 0..200 {
            reader.read([one]);
        }
        let secrets = reader.finish();
        assert_eq!(secrets.mask(&token), MASKED);
        assert!(!secrets.is_cut && secrets.left > MAX_COST / 2, "{}", secrets.left);
    }

    #[test]
    fn numbers_and_addresses_are_found() {
        let mut secrets = SecretValues::default();
        secrets.add_value(Value::Int64(123_456));
        secrets.add_value(Value::Bytes(&[10, 20, 30, 40]));
        assert_eq!(secrets.mask("of 123456, 10.20.30.40 [10 20 30 40]"), "of ***, *** ***");
    }
}
