//! The values of a request that are secret, so that they are masked wherever an explanation or a denial repeats them.

use std::borrow::Cow;

use mixer_attribute::text::text as text_of_value;
use mixer_attribute::{AttributeBag, NamedValue, Value};
use mixer_base::secrets::{Beginning, MASKED, SecretNames, Window, forms, is_secret, mask_known};

/// Most secret values of a request, and most bytes of them. Nothing is shown of a request that has more.
const MAX_VALUES: usize = 1024;
const MAX_BYTES: usize = 1 << 20;

/// The secret values of a request, longest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretValues {
    values: Vec<String>,
    bytes: usize,
    /// Whether some had no room.
    is_cut: bool,
}

impl SecretValues {
    /// The values of the attributes that are secret, and of map entries with the names of secrets.
    pub(crate) fn of(bag: &AttributeBag<'_>, names: &SecretNames) -> Self {
        Self::among(bag.all(), names)
    }

    /// Those that generators made: what was received does not tell of them, neither where the request is recorded nor where its answer is
    /// found in a cache. `None` if there are none.
    pub(crate) fn made(bag: &AttributeBag<'_>, names: &SecretNames) -> Option<Self> {
        let found = Self::among(bag.made(), names);
        (found.is_cut || !found.values.is_empty()).then_some(found)
    }

    fn among<'a>(all: impl IntoIterator<Item = NamedValue<'a>>, names: &SecretNames) -> Self {
        let mut found = Self::default();
        for named in all {
            let is_named = names.is_secret(&String::from_utf8_lossy(named.name));
            match named.value {
                Some(Value::StringMap(map)) => {
                    let entries = map.entries.iter();
                    let secret =
                        entries.filter(|(key, _)| is_named || is_secret(&String::from_utf8_lossy(key)));
                    secret.for_each(|(_, value)| found.add(value));
                }
                Some(Value::String(value)) if is_named => found.add(value),
                Some(value) if is_named => found.add(text_of(value).as_bytes()),
                _ => {}
            }
        }
        found.values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        found.values.dedup();
        found
    }

    /// Adds a value in all of its forms.
    fn add(&mut self, value: &[u8]) {
        if value.is_empty() {
            return;
        }
        for value in forms(value) {
            let bytes = self.bytes.saturating_add(value.len());
            if self.is_cut || self.values.len() >= MAX_VALUES || bytes > MAX_BYTES {
                self.is_cut = true;
                return;
            }
            self.bytes = bytes;
            self.values.push(value.into_owned());
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes + self.values.capacity() * size_of::<String>()
    }

    /// A text without the values of `made`, if there are any.
    pub fn masked<'t>(made: Option<&Self>, text: &'t str) -> Cow<'t, str> {
        made.map_or(Cow::Borrowed(text), |made| made.mask(text).into())
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

/// Most bytes of an error of a request in the log.
const MAX_LOGGED: usize = 1 << 10;

/// An error of a request as the log may have it: its beginning, without the secret values of the request. Cost: a
/// look at the names of the request and a search for its secret values, of each its first bytes.
pub fn for_log(error: impl std::fmt::Display, bag: &AttributeBag<'_>, names: &SecretNames) -> String {
    let shown = mask_beginning(&error.to_string(), MAX_LOGGED, bag, names);
    if shown.goes_on { shown.text + "…" } else { shown.text }
}

/// Most secret values that the beginning of a text has.
const MAX_FOUND: usize = 64;
/// Most bytes of names that are judged for the beginning of a text.
const MAX_NAMES: usize = 32 << 10;
/// Most bytes of secret values that are looked for in it, of each its first ones.
const MAX_LOOKED_FOR: usize = 64 << 10;

/// The first `most` bytes of a text without the secret values of a request; [`MASKED`] if the request has more names or secret values than are
/// looked at. Cost: whatever the lengths of the text and of the values, a look at the names, [`MAX_NAMES`] in all, and of each secret value a
/// search for its first bytes among those of the text.
pub(crate) fn mask_beginning(
    text: &str,
    most: usize,
    bag: &AttributeBag<'_>,
    names: &SecretNames,
) -> Beginning {
    let mut sought = Sought {
        window: Window::of(text.as_bytes(), most),
        found: Vec::new(),
        names: MAX_NAMES,
        values: MAX_LOOKED_FOR,
    };
    match sought.look_at_all(bag, names) {
        None => Beginning { text: MASKED.to_owned(), goes_on: text.len() > most },
        Some(()) => sought.window.masked(&sought.found),
    }
}

/// What the beginning of a text is searched for.
struct Sought<'t> {
    window: Window<'t>,
    /// The secret values that it has.
    found: Vec<String>,
    /// Bytes of names that may be judged yet.
    names: usize,
    /// Bytes of values that may be looked for yet.
    values: usize,
}

impl Sought<'_> {
    /// `None`: there is more than is looked at.
    fn look_at_all(&mut self, bag: &AttributeBag<'_>, names: &SecretNames) -> Option<()> {
        for named in bag.all() {
            let Some(value) = named.value else { continue };
            let is_named = self.judge(named.name, |name| names.is_secret(name))?;
            match value {
                Value::StringMap(map) => {
                    for (key, value) in map.entries {
                        if is_named || self.judge(key, is_secret)? {
                            self.look_for(value)?;
                        }
                    }
                }
                _ if !is_named => {}
                Value::String(value) => self.look_for(value)?,
                // Addresses are short; the text of other bytes is no text that a message repeats.
                Value::Bytes(bytes) => {
                    let first = bytes.get(..Window::MAX_SECRET).unwrap_or(bytes);
                    self.look_for(text_of(Value::Bytes(first)).as_bytes())?;
                }
                value => self.look_for(text_of(value).as_bytes())?,
            }
        }
        Some(())
    }

    /// Whether a name is that of a secret.
    fn judge(&mut self, name: &[u8], is_secret: impl FnOnce(&str) -> bool) -> Option<bool> {
        self.names = self.names.checked_sub(name.len())?;
        Some(is_secret(&String::from_utf8_lossy(name)))
    }

    fn look_for(&mut self, value: &[u8]) -> Option<()> {
        // A cut character is no part of what is looked for.
        let value = value.get(..Window::MAX_SECRET + 4).unwrap_or(value);
        self.values = self.values.checked_sub(value.len())?;
        for form in forms(value) {
            if !form.is_empty() && self.window.has(&form) && !self.found.iter().any(|known| *known == form) {
                self.found.push(form.into_owned());
            }
        }
        (self.found.len() <= MAX_FOUND).then_some(())
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
