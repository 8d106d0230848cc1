//! Bounds of the texts in a decision: a caller who repeats words cannot make its line many times as long as its message.

use serde_json::Value;

use super::attributes::AttributeMap;
use super::mask::MASKED;
use crate::secret_values::SecretValues;

/// Most bytes of one text.
const MAX_VALUE: usize = 1 << 10;
/// Most bytes of the attributes of a check.
pub(super) const MAX_CHECK: usize = 64 << 10;
/// Most bytes of the attributes of all records of a report.
pub(super) const MAX_REPORT: usize = 8 << 20;

/// Most names of what was cut, and most bytes of one.
const MAX_NAMES: usize = 100;
const MAX_NAME: usize = 128;

/// What the attributes of one decision may still take.
#[derive(Debug)]
pub(super) struct Cutter {
    left: usize,
    /// Names of what was cut: attributes, and keys of maps as `name[key]`.
    pub(super) cut: Vec<String>,
}

impl Cutter {
    /// For attributes of `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { left: most, cut: Vec::new() }
    }

    /// Whether nothing is left.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Cuts values, and leaves out the attributes and entries for which nothing is left.
    pub(super) fn apply(&mut self, attributes: &mut AttributeMap) {
        attributes.retain(|name, value| {
            let is_kept = self.take(name.len());
            match value {
                _ if !is_kept => self.note(name.clone()),
                Value::String(text) => self.value(text, || name.clone()),
                Value::Object(members) => self.members(name, members),
                _ => {}
            }
            is_kept
        });
    }

    fn members(&mut self, name: &str, members: &mut AttributeMap) {
        members.retain(|key, value| {
            let is_kept = self.take(key.len());
            match value {
                _ if !is_kept => self.note(name.to_owned()),
                Value::String(text) => self.value(text, || format!("{name}[{key}]")),
                // A map under the name of its type.
                Value::Object(inner) => self.members(name, inner),
                _ => {}
            }
            is_kept
        });
    }

    /// Cuts a value, and notes its name if it was too long.
    fn value(&mut self, text: &mut String, name: impl FnOnce() -> String) {
        let is_cut = cut_to(text, MAX_VALUE.min(self.left));
        self.left = self.left.saturating_sub(text.len());
        if is_cut {
            self.note(name());
        }
    }

    fn take(&mut self, count: usize) -> bool {
        match self.left.checked_sub(count) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                self.left = 0;
                false
            }
        }
    }

    fn note(&mut self, mut name: String) {
        if self.cut.len() < MAX_NAMES && self.cut.last() != Some(&name) {
            cut_to(&mut name, MAX_NAME);
            self.cut.push(name);
        }
    }
}

/// Cuts a text that is no attribute, such as a message.
pub(super) fn cut_text(text: &mut String) {
    cut_to(text, MAX_VALUE);
}

/// As [`cut_text`], of a text without secrets. Of no more than `left` bytes they are looked for; the others are [`MASKED`].
pub(super) fn cut_without(text: &mut String, secrets: &SecretValues, left: &mut usize) {
    let Some(less) = left.checked_sub(text.len().min(MAX_VALUE)) else {
        MASKED.clone_into(text);
        return;
    };
    *left = less;
    let rest = text.len() - text.floor_char_boundary(MAX_VALUE);
    let shown = secrets.beginning(text, MAX_VALUE);
    *text = shown.text;
    if shown.goes_on {
        text.push_str(&format!("… ({rest} more bytes)"));
    }
}

fn cut_to(text: &mut String, most: usize) -> bool {
    if text.len() <= most {
        return false;
    }
    let kept = text.floor_char_boundary(most);
    let rest = text.len() - kept;
    text.truncate(kept);
    text.push_str(&format!("… ({rest} more bytes)"));
    text.shrink_to_fit();
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cut(most: usize, attributes: Value) -> (Value, Vec<String>, bool) {
        let mut cutter = Cutter::new(most);
        let mut map: AttributeMap = serde_json::from_value(attributes).unwrap();
        cutter.apply(&mut map);
        let is_exhausted = cutter.is_exhausted();
        (Value::Object(map), cutter.cut, is_exhausted)
    }

    #[test]
    fn long_values_are_cut_and_named() {
        let (long, kept) = ("v".repeat(MAX_VALUE + 5), "v".repeat(MAX_VALUE));
        let given =
            json!({"a": long, "b": kept, "m": {"k": long, "n": 1}, "t": {"stringmap": {"ip": long}}, "x": 7});
        let cut_text = format!("{kept}… (5 more bytes)");
        let expected = json!({"a": cut_text, "b": kept, "m": {"k": cut_text, "n": 1}, "t": {"stringmap": {"ip": cut_text}}, "x": 7});
        let names = ["a", "m[k]", "t[ip]"].map(str::to_owned).to_vec();
        assert_eq!(cut(MAX_CHECK, given), (expected, names, false));
    }

    #[test]
    fn what_exceeds_the_whole_is_left_out_and_named() {
        let entries: AttributeMap =
            (0..5000).map(|n| (format!("k{n:04}"), Value::from("v".repeat(100)))).collect();
        let (value, names, is_exhausted) = cut(MAX_CHECK, json!({"m": entries, "z": "last"}));
        let text = value.to_string();
        assert!((MAX_CHECK / 2..MAX_CHECK * 2).contains(&text.len()), "{}", text.len());
        assert!(is_exhausted && names.len() <= MAX_NAMES, "{names:?}");
        assert_eq!(names.last().map(String::as_str), Some("z"));
        assert!(value.get("z").is_none());
    }

    #[test]
    fn noted_names_are_short() {
        let (_, names, _) = cut(MAX_CHECK, json!({"n".repeat(2000): "v".repeat(2000)}));
        assert!(names.iter().all(|name| name.len() < 2 * MAX_NAME), "{names:?}");
    }
}
