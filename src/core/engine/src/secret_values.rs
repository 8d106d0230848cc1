//! The values of a request that are secret, so that they are masked wherever an explanation or a denial repeats them.

use mixer_attribute::text::text as text_of_value;
use mixer_attribute::{AttributeBag, Value};
use mixer_base::secrets::{Beginning, MASKED, SecretNames, Window, is_secret, mask_known};

/// Most secret values of a request, and most bytes of them. Nothing is shown of a request that has more.
const MAX_VALUES: usize = 1024;
const MAX_BYTES: usize = 1 << 20;

/// The secret values of a request, longest first.
#[derive(Debug, Default)]
pub(crate) struct SecretValues {
    values: Vec<String>,
    bytes: usize,
    /// Whether some had no room.
    is_cut: bool,
}

impl SecretValues {
    /// The values of the attributes that are secret, and of map entries with the names of secrets.
    pub(crate) fn of(bag: &AttributeBag<'_>, names: &SecretNames) -> Self {
        let mut found = Self::default();
        for named in bag.all() {
            let is_named = names.is_secret(&String::from_utf8_lossy(named.name));
            match named.value {
                Some(Value::StringMap(map)) => {
                    let entries = map.entries.iter();
                    let secret =
                        entries.filter(|(key, _)| is_named || is_secret(&String::from_utf8_lossy(key)));
                    secret.for_each(|(_, value)| found.add(&String::from_utf8_lossy(value)));
                }
                Some(value) if is_named => found.add(&text_of(value)),
                _ => {}
            }
        }
        found.values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        found.values.dedup();
        found
    }

    /// Adds a value, and as it is written within quotes.
    fn add(&mut self, value: &str) {
        if value.is_empty() {
            return;
        }
        let quoted = format!("{value:?}");
        let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        for value in std::iter::once(value).chain((escaped != value).then_some(escaped)) {
            let bytes = self.bytes.saturating_add(value.len());
            if self.is_cut || self.values.len() >= MAX_VALUES || bytes > MAX_BYTES {
                self.is_cut = true;
                return;
            }
            self.bytes = bytes;
            self.values.push(value.to_owned());
        }
    }

    /// A text without these values, and without what is secret by its form.
    pub(crate) fn mask(&self, text: &str) -> String {
        match self.is_cut {
            true => MASKED.to_owned(),
            false => mask_known(text, &self.values),
        }
    }
}

fn text_of(value: Value<'_>) -> String {
    text_of_value(value).to_string()
}

/// Most secret values that the beginning of a text has. Of one with more nothing is shown.
const MAX_FOUND: usize = 64;
/// Most bytes of names that are judged for the beginning of a text. Beyond it, what the text has counts as secret.
const MAX_NAMES: usize = 32 << 10;

/// The first `most` bytes of a text without the secret values of a request. Cost: of each value, whatever its length, a search for its first
/// bytes among those of the text; and of those that it has, a look at the names, [`MAX_NAMES`] in all.
pub(crate) fn mask_beginning(
    text: &str,
    most: usize,
    bag: &AttributeBag<'_>,
    names: &SecretNames,
) -> Beginning {
    let window = Window::of(text.as_bytes(), most);
    let mut found: Vec<String> = Vec::new();
    let mut room = MAX_NAMES;
    for named in bag.all() {
        // Judged once, if a value of it is in the text.
        let mut is_named: Option<bool> = None;
        let mut look = |key: Option<&[u8]>, value: &[u8]| {
            // A cut character is no part of what is looked for.
            let value = String::from_utf8_lossy(value.get(..Window::MAX_SECRET + 4).unwrap_or(value));
            let has_escapes =
                value.chars().any(|c| !matches!(c, ' '..='~') || matches!(c, '"' | '\'' | '\\'));
            let quoted = if has_escapes { format!("{value:?}") } else { String::new() };
            let escaped = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
            for value in [&*value, escaped] {
                let is_new =
                    !value.is_empty() && window.has(value) && !found.iter().any(|known| known == value);
                if !is_new || found.len() > MAX_FOUND {
                    continue;
                }
                let mut judge = |name: &[u8], is_secret: &dyn Fn(&str) -> bool| {
                    room = room.saturating_sub(name.len());
                    room == 0 || is_secret(&String::from_utf8_lossy(name))
                };
                let is_secret = *is_named
                    .get_or_insert_with(|| judge(named.name, &|name| names.is_secret(name)))
                    || key.is_some_and(|key| judge(key, &is_secret));
                if is_secret {
                    found.push(value.to_owned());
                }
            }
        };
        match named.value {
            Some(Value::StringMap(map)) => {
                map.entries.iter().for_each(|(key, value)| look(Some(key), value));
            }
            Some(Value::String(value)) => look(None, value),
            // Addresses are short; the text of other bytes is no text that a message repeats.
            Some(Value::Bytes(bytes)) => {
                let first = bytes.get(..Window::MAX_SECRET).unwrap_or(bytes);
                look(None, text_of(Value::Bytes(first)).as_bytes());
            }
            Some(value) => look(None, text_of(value).as_bytes()),
            None => {}
        }
    }
    match found.len() > MAX_FOUND {
        true => Beginning { text: MASKED.to_owned(), goes_on: false },
        false => window.masked(&found),
    }
}

#[cfg(test)]
mod tests {
    use mixer_attribute::{AttributeBag, StringMap, Vocabulary};

    use super::*;

    #[test]
    fn of_a_request_with_too_many_secrets_nothing_is_shown() {
        let vocabulary = {
            let mut builder = Vocabulary::builder();
            builder.declare("request.headers", mixer_attribute::ValueType::StringMap);
            builder.build()
        };
        let shown = |count: usize, length: usize| {
            let names: Vec<String> = (0..count).map(|n| format!("x-{n}-token")).collect();
            let values: Vec<String> =
                (0..count).map(|n| format!("hunter{n:05}{}", "x".repeat(length))).collect();
            let entries: Vec<(&[u8], &[u8])> =
                names.iter().zip(&values).map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let map = StringMap { entries: &entries, source: None };
            let arena = bumpalo::Bump::new();
            let mut bag = AttributeBag::empty(&vocabulary, &arena);
            bag.set(vocabulary.slot(b"request.headers").unwrap(), Value::StringMap(&map));
            let secrets = SecretValues::of(&bag, &SecretNames::new());
            assert!(secrets.values.len() <= MAX_VALUES && secrets.bytes <= MAX_BYTES);
            let last = values.last().unwrap();
            secrets.mask(&format!("user {last} is unknown"))
        };
        assert_eq!(shown(100, 5), "user *** is unknown");
        assert_eq!(shown(MAX_VALUES, 5), "user *** is unknown");
        assert_eq!(shown(MAX_VALUES + 1, 5), MASKED);
        assert_eq!(shown(10, MAX_BYTES / 10), MASKED);
    }
}
