//! Attributes whose values are not of the type that the vocabulary gives them, and how to write them.

use super::set::{Attribute, AttributeSet, map_and_key};
use super::value::{AttributeType, AttributeValue};
use crate::cmd::output::escaped;
use mixer_attribute::{ValueType, Vocabulary};

impl AttributeSet {
    /// The attributes whose values are of another type than the vocabulary says, one line each, with the flag that sends the type.
    pub(crate) fn mistyped(&self, vocabulary: &Vocabulary) -> Vec<String> {
        let wanted = |attribute: &Attribute| {
            let slot = vocabulary.slot(attribute.name.as_bytes())?;
            vocabulary.value_type(slot).filter(|wanted| !wanted.holds(attribute.value.value_type()))
        };
        let line = |attribute: &Attribute| Some(remark(attribute, wanted(attribute)?));
        self.attributes().iter().filter_map(line).collect()
    }

    /// How to write an attribute that is named like an entry of a map, as explanations name them: `request.headers[x-user]`.
    pub(crate) fn as_entry(&self, name: &str, vocabulary: &Vocabulary) -> Option<String> {
        let (map, key) = map_and_key(name)?;
        let slot = vocabulary.slot(map.as_bytes())?;
        vocabulary.value_type(slot).filter(|value_type| *value_type == ValueType::StringMap)?;
        let attribute = self.attributes().iter().find(|attribute| attribute.name == name)?;
        let text = text(attribute).filter(|text| !text.contains([',', ';']));
        let pair = format!("{map}={key}:{}", text.as_deref().unwrap_or("…"));
        Some(format!("write {}", flag(AttributeType::StringMap, &pair)))
    }
}

fn remark(attribute: &Attribute, wanted: ValueType) -> String {
    let (name, sent) = (escaped(&attribute.name), attribute.value.value_type());
    let told = format!("the attribute `{name}` is {wanted} and sent as {sent}: no rule can use it");
    match AttributeType::of(wanted) {
        Some(value_type) => format!("{told}; write {}", cure(attribute, value_type)),
        None => told,
    }
}

/// The attribute as it is to be written, with its value if that is one of the type.
fn cure(attribute: &Attribute, value_type: AttributeType) -> String {
    let text = text(attribute).filter(|text| !text.contains(',') && value_type.parse(text).is_ok());
    let written = flag(value_type, &format!("{}={}", attribute.name, text.as_deref().unwrap_or("…")));
    match value_type.expected() {
        Some(expected) if text.is_none() => format!("{written} with {expected}"),
        _ => written,
    }
}

/// The flag that gives a pair, which is one word of a shell, whatever it has.
fn flag(value_type: AttributeType, pair: &str) -> String {
    let pair = escaped(pair);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-…".contains(c);
    let quoted = if pair.chars().all(is_plain) {
        pair.into_owned()
    } else {
        format!("'{}'", pair.replace('\'', r"'\''"))
    };
    format!("`{} {quoted}`", value_type.flag())
}

/// The text of a value, if it has one without saying its type.
fn text(attribute: &Attribute) -> Option<String> {
    attribute.text.clone().or_else(|| plain_text(&attribute.value))
}

/// The text of a value that a file of attributes gives without saying its type.
fn plain_text(value: &AttributeValue) -> Option<String> {
    match value {
        AttributeValue::String(text) => Some(text.clone()),
        AttributeValue::Int64(number) => Some(number.to_string()),
        AttributeValue::Double(number) => Some(number.to_string()),
        AttributeValue::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let mut vocabulary = Vocabulary::builder();
        for (name, value_type) in [
            ("source.ip", ValueType::IpAddress),
            ("request.headers", ValueType::StringMap),
            ("request.size", ValueType::Int64),
            ("request.time", ValueType::Timestamp),
            ("response.duration", ValueType::Duration),
            ("source.user", ValueType::String),
            ("source.uri", ValueType::Uri),
            ("ratio", ValueType::Double),
            ("connection.mtls", ValueType::Bool),
        ] {
            vocabulary.declare(name, value_type);
        }
        vocabulary.build()
    }

    fn set(value_type: AttributeType, text: &str) -> AttributeSet {
        let mut set = AttributeSet::default();
        set.add_flag(value_type, text).unwrap();
        set
    }

    fn remarks(value_type: AttributeType, text: &str) -> Vec<String> {
        set(value_type, text).mistyped(&vocabulary())
    }

    #[test]
    fn an_entry_of_a_map_is_told_as_its_flag() {
        use AttributeType::{Auto, String};
        for (value_type, name, value, written) in [
            (String, "request.headers[x-user]", "mallory", Some("request.headers=x-user:mallory")),
            (Auto, "request.headers[\"x-user\"]", "5", Some("request.headers=x-user:5")),
            (String, "request.headers[x-user]", "a b", Some("'request.headers=x-user:a b'")),
            (String, "request.headers[x-user]", "a;b", Some("request.headers=x-user:…")),
            (String, "source.user[x]", "a", None),
            (String, "nosuch[x]", "a", None),
            (String, "request.headers", "a", None),
        ] {
            let set = set(value_type, &format!("{name}={value}"));
            let wanted = written.map(|pair| format!("write `--stringmap-attributes {pair}`"));
            assert_eq!(set.as_entry(name, &vocabulary()), wanted, "{name}={value}");
        }
    }

    #[test]
    fn the_flag_of_the_right_type_is_named_with_the_value() {
        use AttributeType::{Auto, Int64, String};
        for (value_type, text, cure) in [
            (String, "source.ip=10.1.2.3", "`--ip-attributes source.ip=10.1.2.3`"),
            (String, "request.headers=a:b;c:d e", "`--stringmap-attributes 'request.headers=a:b;c:d e'`"),
            (String, "request.headers=a:it's", r"`--stringmap-attributes 'request.headers=a:it'\''s'`"),
            (String, "request.size=12", "`-i request.size=12`"),
            (String, "ratio=0.5", "`-d ratio=0.5`"),
            (String, "connection.mtls=true", "`-b connection.mtls=true`"),
            (String, "request.time=2017-07-04T00:01:10Z", "`-t request.time=2017-07-04T00:01:10Z`"),
            (String, "response.duration=5s", "`--duration-attributes response.duration=5s`"),
            (Int64, "source.user=5", "`-s source.user=5`"),
            // A map, as it is detected.
            (Auto, "source.uri=spiffe://a/b", "`-s source.uri=spiffe://a/b`"),
            (
                Int64,
                "response.duration=5",
                "`--duration-attributes response.duration=…` with a duration with a unit, for example 1m30s",
            ),
            (
                String,
                "request.headers=beta",
                "`--stringmap-attributes request.headers=…` with entries key:value, separated by semicolons",
            ),
        ] {
            let told = remarks(value_type, text);
            assert!(
                told.len() == 1 && told.iter().all(|line| line.ends_with(&format!("; write {cure}"))),
                "{told:?}"
            );
        }
    }

    #[test]
    fn values_of_the_type_and_unknown_names_are_not_told() {
        use AttributeType::{Auto, Bytes, Ip, StringMap};
        assert_eq!(remarks(AttributeType::String, "source.user=5,source.uri=x,nosuch=1"), [""; 0]);
        assert_eq!(remarks(Ip, "source.ip=10.1.2.3"), [""; 0]);
        assert_eq!(remarks(Bytes, "source.ip=0a:01:02:03"), [""; 0]);
        assert_eq!(remarks(StringMap, "request.headers=a:b"), [""; 0]);
        assert_eq!(remarks(Auto, "request.size=12,ratio=0.5,connection.mtls=true"), [""; 0]);
    }
}
