//! The values of a request that are secret, so that they are masked wherever an explanation or a denial repeats them.

use mixer_attribute::text::text;
use mixer_attribute::{AttributeBag, Value};
use mixer_base::secrets::{SecretNames, is_secret, mask_known};

/// The secret values of a request, longest first.
#[derive(Debug, Default)]
pub(crate) struct SecretValues(Vec<String>);

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
                Some(value) if is_named => found.add(&text(value).to_string()),
                _ => {}
            }
        }
        found.0.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        found.0.dedup();
        found
    }

    /// Adds a value, and as it is written within quotes.
    fn add(&mut self, value: &str) {
        if value.is_empty() {
            return;
        }
        let quoted = format!("{value:?}");
        let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        if escaped != value {
            self.0.push(escaped.to_owned());
        }
        self.0.push(value.to_owned());
    }

    /// A text without these values, and without what is secret by its form.
    pub(crate) fn mask(&self, text: &str) -> String {
        mask_known(text, &self.0)
    }
}
