//! A set of attributes, and the flags that fill it.

use std::collections::BTreeSet;

use super::value::{AttributeType, AttributeValue};
use crate::cmd::exit::Failure;
use crate::cmd::output::escaped;

/// Why an attribute of a flag is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidAttribute {
    /// The text of Istio Mixer.
    pub(crate) text: String,
    /// The value with its attribute, where the text of Istio Mixer omits the name.
    pub(crate) named: Option<String>,
    /// How it is written, if that is known.
    pub(crate) hint: Option<String>,
}

impl InvalidAttribute {
    /// A failure of the command line.
    pub(crate) fn failure(self, value_type: AttributeType) -> Failure {
        let hint = "the format is name=value,name=value; a value cannot contain a comma";
        match (self.named, value_type.expected()) {
            (Some(named), Some(expected)) => {
                let failure = Failure::usage(named).cause(format!("expected {expected}")).legacy(self.text);
                match self.hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            }
            (Some(named), None) => Failure::usage(named).cause(&self.text).legacy(self.text).hint(hint),
            (None, _) => Failure::usage(self.text).hint(hint),
        }
    }
}

impl From<String> for InvalidAttribute {
    fn from(text: String) -> Self {
        Self { text, named: None, hint: None }
    }
}

/// An attribute of a set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attribute {
    /// The name.
    pub(super) name: String,
    /// The value.
    pub(super) value: AttributeValue,
    /// The text of the value, if a flag gave it.
    pub(super) text: Option<String>,
}

/// Attributes by name, in order of first occurrence.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct AttributeSet {
    entries: Vec<Attribute>,
    /// Names that one flag gives several times.
    repeated: Vec<String>,
}

impl AttributeSet {
    /// Whether it has no attributes.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.entries.iter().map(|attribute| (attribute.name.as_str(), &attribute.value))
    }

    /// The attributes, with the texts of flags.
    pub(super) fn attributes(&self) -> &[Attribute] {
        &self.entries
    }

    /// The names that one flag gives several times.
    pub(crate) fn repeated(&self) -> &[String] {
        &self.repeated
    }

    /// The names that one flag gives several times, of which the last value counts, one line each.
    pub(crate) fn repetitions(&self) -> impl Iterator<Item = String> {
        let line = |name: &String| {
            format!("the attribute `{}` is given several times: the last value counts", escaped(name))
        };
        self.repeated.iter().map(line)
    }

    /// Adds an attribute, or replaces the one of the same name. `text` is that of a flag.
    pub(super) fn set(&mut self, name: &str, value: AttributeValue, text: Option<&str>) {
        let added = Attribute { name: name.to_owned(), value, text: text.map(str::to_owned) };
        match self.entries.iter_mut().find(|known| known.name == name) {
            Some(old) => *old = added,
            None => self.entries.push(added),
        }
    }

    /// Adds the attributes of a flag: `name=value,name=value`; may be empty. Errors: the first invalid attribute.
    pub(crate) fn add_flag(&mut self, value_type: AttributeType, text: &str) -> Result<(), InvalidAttribute> {
        if text.is_empty() {
            return Ok(());
        }
        let mut seen = BTreeSet::new();
        for segment in text.split(',') {
            let (name, value) = segment
                .split_once('=')
                .ok_or_else(|| format!("attribute value {segment} does not include an = sign"))?;
            if name.is_empty() {
                return Err(format!("attribute value {segment} does not contain a valid name").into());
            }
            let parsed = value_type.parse(value).map_err(|text| InvalidAttribute {
                text,
                named: Some(format!("invalid value `{value}` of the attribute `{name}`")),
                hint: entry_of_map(name, value)
                    .or_else(|| with_colons(name, value))
                    .filter(|_| value_type == AttributeType::StringMap),
            })?;
            self.set(name, parsed, Some(value));
            if !seen.insert(name.trim()) {
                self.repeated.push(name.trim().to_owned());
            }
        }
        Ok(())
    }
}

/// How an entry of a map is given that is written as in explanations, `request.headers[x-user]=a`.
pub(crate) fn entry_of_map(name: &str, value: &str) -> Option<String> {
    let (map, key) = map_and_key(name)?;
    Some(format!("write {map}={key}:{value}"))
}

/// The map and the key of `request.headers[x-user]`.
pub(super) fn map_and_key(name: &str) -> Option<(&str, &str)> {
    let (map, key) = name.trim().strip_suffix(']')?.split_once('[')?;
    Some((map, key.trim_matches('"')))
}

/// How a map is given whose entries have `=` for `:`.
fn with_colons(name: &str, value: &str) -> Option<String> {
    let entry = |entry: &str| match entry.contains(':') {
        true => Some(entry.to_owned()),
        false => entry.split_once('=').map(|(key, value)| format!("{key}:{value}")),
    };
    let entries: Option<Vec<String>> = value.split(';').map(entry).collect();
    Some(format!("write {name}={}", entries?.join(";")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_split_at_every_comma_and_the_first_equal_sign() {
        let mut set = AttributeSet::default();
        set.add_flag(AttributeType::String, "a=b=c, d =e").unwrap();
        set.add_flag(AttributeType::Int64, "a=5").unwrap();
        let entries: Vec<_> = set.iter().collect();
        assert_eq!(entries[0], ("a", &AttributeValue::Int64(5)), "the later flag wins, type included");
        assert_eq!(entries[1], (" d ", &AttributeValue::String("e".to_owned())));
        assert_eq!(set.repetitions().count(), 0, "a flag may override another one");
        set.add_flag(AttributeType::String, "z=1,y=2,z=3").unwrap();
        let told: Vec<String> = set.repetitions().collect();
        assert_eq!(told, ["the attribute `z` is given several times: the last value counts"]);
        let refused = |sense, text: &str| AttributeSet::default().add_flag(sense, text).unwrap_err().text;
        assert_eq!(refused(AttributeType::String, "foo"), "attribute value foo does not include an = sign");
        assert_eq!(
            refused(AttributeType::String, "=foo"),
            "attribute value =foo does not contain a valid name"
        );
        assert_eq!(refused(AttributeType::String, "a=1,"), "attribute value  does not include an = sign");
        assert_eq!(
            refused(AttributeType::StringMap, "m=a:b;"),
            " is not a valid key/value pair in the form key:value"
        );
        let hint = |sense, text: &str| AttributeSet::default().add_flag(sense, text).unwrap_err().hint;
        assert_eq!(
            hint(AttributeType::StringMap, "request.headers[x-user]=mallory").as_deref(),
            Some("write request.headers=x-user:mallory")
        );
        assert_eq!(hint(AttributeType::StringMap, "m=a"), None);
        assert_eq!(
            hint(AttributeType::StringMap, "request.headers=x-user=mallory;a:b=c").as_deref(),
            Some("write request.headers=x-user:mallory;a:b=c")
        );
        assert_eq!(
            refused(AttributeType::Bytes, "b=1:100"),
            "strconv.ParseUint: parsing \"100\": value out of range"
        );
    }
}
