//! Whether data has what a policy reads: data that lost it would be undefined, so that a rule that refuses does not.

use std::collections::BTreeMap;

use regorus::Value;

use super::names::Needed;

/// The kinds of the values that a policy reads, by their paths.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<String, &'static str>);

impl Kinds {
    /// Those of documents, which replace data of these kinds. Errors: what is missing, null, or of another kind, in one line.
    pub(super) fn of(&self, documents: &[Value], needed: &[Needed]) -> Result<Self, String> {
        let mut kinds = BTreeMap::new();
        for Needed { path, looks_into, place } in needed {
            let name = path.join(".");
            let cure = "set `allowMissingData` if that is meant";
            let Some(value) = documents.iter().find_map(|document| find(document, path)) else {
                return Err(format!("the data has no `{name}`, which the policy reads ({place}); {cure}"));
            };
            let kind = kind(value);
            let has_elements = matches!(value, Value::Array(_) | Value::Set(_) | Value::Object(_));
            match self.0.get(&name) {
                _ if *value == Value::Null => {
                    return Err(format!(
                        "`{name}` is null in the data, and the policy reads it ({place}); {cure}"
                    ));
                }
                Some(before) if *before != kind => {
                    return Err(format!("`{name}` is {kind} in the data and was {before} ({place}); {cure}"));
                }
                None if *looks_into && !has_elements => {
                    return Err(format!(
                        "`{name}` is {kind} in the data, and the policy looks into it ({place}); {cure}"
                    ));
                }
                _ => kinds.insert(name, kind),
            };
        }
        Ok(Self(kinds))
    }
}

/// The value at a path.
fn find<'v>(document: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(document, |at, name| match at {
        Value::Object(members) => members.get(&Value::from(name.as_str())),
        _ => None,
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Set(_) => "a set",
        Value::Object(_) => "an object",
        _ => "undefined",
    }
}
