//! Answers of a Eureka server, in JSON. It writes a list with one element as the element, numbers as texts, and the reverse.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// An answer: all applications, or what changed.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) applications: Applications,
}

#[derive(Debug, Deserialize)]
pub(super) struct Applications {
    /// The number of instances by status, after the changes. Servers write `apps__hashcode`.
    #[serde(default, rename = "apps__hashcode", alias = "apps_hashcode", alias = "appsHashCode")]
    pub(super) hash: Option<Text>,
    #[serde(default)]
    pub(super) application: Many<Application>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Application {
    pub(super) name: Text,
    #[serde(default)]
    pub(super) instance: Many<Instance>,
}

/// An instance of an application.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Instance {
    pub(super) instance_id: Text,
    pub(super) host_name: Text,
    pub(super) ip_addr: Text,
    pub(super) status: Text,
    pub(super) port: Port,
    pub(super) secure_port: Port,
    pub(super) metadata: Metadata,
    /// Of a change: `ADDED`, `MODIFIED` or `DELETED`.
    pub(super) action_type: Text,
}

/// A port of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Port {
    #[serde(rename = "$")]
    pub(super) number: Text,
    #[serde(rename = "@enabled")]
    pub(super) is_enabled: Text,
}

/// A text, a number or a Boolean, as text; null is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Text(pub(super) String);

/// Metadata whose values are texts, numbers or Booleans. Others are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Metadata(pub(super) BTreeMap<String, String>);

/// A list, or its only element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Many<T>(pub(super) Vec<T>);

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfText;
        impl Visitor<'_> for OfText {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or a Boolean")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Text, E> {
                Ok(Text(truth.to_string()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Text, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(OfText)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all: Option<BTreeMap<String, serde_json::Value>> = Option::deserialize(deserializer)?;
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => Some(text),
            serde_json::Value::Number(number) => Some(number.to_string()),
            serde_json::Value::Bool(truth) => Some(truth.to_string()),
            _ => None,
        };
        let all = all.unwrap_or_default().into_iter();
        Ok(Self(all.filter_map(|(name, value)| Some((name, text(value)?))).collect()))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMany<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMany<T> {
            type Value = Many<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list, or its only element")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Many<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(element) = list.next_element()? {
                    all.push(element);
                }
                Ok(Many(all))
            }

            fn visit_map<A: MapAccess<'de>>(self, element: A) -> Result<Many<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(element)).map(|element| Many(vec![element]))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Many<T>, E> {
                Ok(Many::default())
            }
        }
        deserializer.deserialize_any(OfMany(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_with_one_element_and_texts_of_any_form_are_read() {
        let text = r#"{"applications": {"versions__delta": "1", "apps__hashcode": "UP_1_", "application": {
            "name": "SHOP", "instance": {"instanceId": 7, "hostName": "h", "app": "SHOP", "ipAddr": "10.0.0.1", "status": "UP",
            "port": {"$": 8080, "@enabled": "true"}, "securePort": {"$": "443", "@enabled": false},
            "metadata": {"@class": "java.util.Map", "weight": 3, "zone": "a", "more": {"x": [1]}}, "leaseInfo": {}, "actionType": null}}}}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        let [shop] = &answer.applications.application.0[..] else { panic!("{answer:?}") };
        let [instance] = &shop.instance.0[..] else { panic!("{shop:?}") };
        assert_eq!((&*answer.applications.hash.unwrap().0, &*shop.name.0), ("UP_1_", "SHOP"));
        assert_eq!((&*instance.instance_id.0, &*instance.port.number.0), ("7", "8080"));
        assert_eq!((&*instance.secure_port.is_enabled.0, &*instance.action_type.0), ("false", ""));
        let metadata: Vec<_> =
            instance.metadata.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(metadata, ["@class=java.util.Map", "weight=3", "zone=a"]);
        for empty in [
            r#"{"applications": {}}"#,
            r#"{"applications": {"application": []}}"#,
            r#"{"applications": {"application": null}}"#,
        ] {
            let answer: Answer = serde_json::from_str(empty).unwrap();
            assert!(answer.applications.application.0.is_empty(), "{empty}");
        }
        for bad in [
            "{}",
            "[]",
            r#"{"applications": {"application": "x"}}"#,
            r#"{"applications": {"application": [{}]}}"#,
        ] {
            assert!(serde_json::from_str::<Answer>(bad).is_err(), "{bad}");
        }
    }
}
