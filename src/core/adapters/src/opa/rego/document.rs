//! A data file as a document.

use std::collections::HashSet;
use std::fmt;

use regorus::Value;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use mixer_config::message::Field as _;
use mixer_config::yaml::{self, Note};

/// The document in a file: YAML, of which JSON is a part. Errors: one line.
pub(super) fn document(name: &str, text: &[u8]) -> Result<Value, String> {
    let failed = |why: String| format!("could not read data from {name}: {why}");
    let text = std::str::from_utf8(text).map_err(|error| failed(error.to_string()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(failed("the file is empty".to_owned()));
    }
    let is_yaml = [".yaml", ".yml"].iter().any(|end| name.ends_with(end));
    let value = match is_yaml {
        true => from_yaml(text),
        false => from_json(text),
    };
    match value.map_err(failed)? {
        value @ Value::Object(_) => Ok(value),
        _ => Err(failed("the document is no object".to_owned())),
    }
}

fn from_yaml(text: &str) -> Result<Value, String> {
    let parsed = yaml::parse(text).map_err(|error| error.to_string())?;
    if let Some(why) = parsed.notes.iter().find_map(loss) {
        return Err(why);
    }
    Ok(Value::from(parsed.root.to_json()))
}

/// What a document with this note would lose.
fn loss(note: &Note) -> Option<String> {
    match note {
        Note::DuplicateKey { key, span, .. } => {
            Some(format!("the key `{key}` is there twice, the second time in line {}", span.start.line))
        }
        Note::OverriddenKey { key, span, .. } => Some(format!(
            "the key `{key}` in line {} has another value in the merge key `<<` after it",
            span.start.line
        )),
        Note::SeveralDocuments { at } => {
            Some(format!("it has several documents: that in line {} would be ignored", at.line))
        }
        Note::BooleanKey { .. } => None,
    }
}

fn from_json(text: &str) -> Result<Value, String> {
    let value = Value::from_json_str(text).map_err(|error| error.to_string())?;
    // The parser of the engine takes the last of several values.
    serde_json::from_str::<UniqueKeys>(text).map_err(|error| error.to_string())?;
    Ok(value)
}

/// JSON of which no object has a key twice.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            entries.next_value::<Self>()?;
            if keys.contains(&key) {
                return Err(A::Error::custom(format!("the key `{key}` is there twice")));
            }
            keys.insert(key);
        }
        Ok(self)
    }
}
