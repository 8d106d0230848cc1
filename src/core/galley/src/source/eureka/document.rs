//! Answers of a Eureka server, in JSON. It writes a list with one element as the element, numbers as texts, and the reverse.
//!
//! An answer is read instance by instance, each of which is at once reduced to what is used of it: an answer of a few bytes for each
//! would take many times as much.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Most labels of an instance.
pub(super) const MAX_LABELS: usize = 1_000;
/// Bytes of an instance, and of a label, beside their texts: the node of the map with its share of what is free, and allocations. Measured.
const INSTANCE_BYTES: usize = 288;
const LABEL_BYTES: usize = 80;

/// What is used of an instance of an application.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Instance {
    pub(super) status: Box<str>,
    /// Its address, or its host name if it has none.
    pub(super) address: Box<str>,
    /// The number of the port that is enabled, as it was told; `None`: neither is.
    pub(super) port: Option<Box<str>>,
    /// Metadata that are labels, in order.
    pub(super) labels: Box<[(Box<str>, Box<str>)]>,
    /// Labels beyond the first [`MAX_LABELS`], which are left out.
    pub(super) more_labels: usize,
}

/// An instance as it was told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) id: Box<str>,
    /// Of a change: `ADDED`, `MODIFIED` or `DELETED`.
    pub(super) action: Box<str>,
    pub(super) instance: Instance,
}

impl Instance {
    /// What it takes in memory with its id, in bytes.
    pub(super) fn size(&self, id: &str) -> usize {
        let labels: usize =
            self.labels.iter().map(|(key, value)| key.len() + value.len() + LABEL_BYTES).sum();
        let texts = [id, &self.status, &self.address, self.port.as_deref().unwrap_or_default()];
        INSTANCE_BYTES + labels + texts.into_iter().map(str::len).sum::<usize>()
    }
}

/// Why what a server tells is not taken over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mismatch {
    /// Changes are missing: all applications are to be read again.
    #[error("changes are missing: after them there are `{here}`, and the server has `{there}`")]
    Hash {
        /// The instances by status here.
        here: String,
        /// Those of the server.
        there: String,
    },
    /// A change is none of those that are known.
    #[error("the change `{0}` of an instance is unknown")]
    Change(String),
    /// There are more instances than fit.
    #[error("the instances take more than {0} bytes: register fewer of them, or less metadata")]
    TooLarge(usize),
}

/// Why an answer is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// It is none.
    #[error("the answer is no list of applications in JSON: {0}")]
    Form(#[from] serde_json::Error),
    /// It is not taken over.
    #[error(transparent)]
    Refused(#[from] Mismatch),
}

/// What takes the instances of an application.
type Take<'t> = &'t mut dyn FnMut(&Arc<str>, Vec<Told>) -> Result<(), Mismatch>;

/// Reads an answer: `take` gets the name of each application and its instances, which take at most `max_bytes` each time. Returns the number of
/// instances by status, after the changes, as the server tells it.
///
/// Errors: it is no answer; `take` refuses. What was taken before is to be dropped.
pub(super) fn read(text: &[u8], max_bytes: usize, take: Take<'_>) -> Result<String, Unread> {
    let mut reading = Reading { take, max_bytes, refused: None };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let hash = OfAnswer(&mut reading).deserialize(&mut deserializer);
    let hash = hash.and_then(|hash| deserializer.end().map(|()| hash));
    match reading.refused {
        Some(refused) => Err(refused.into()),
        None => Ok(hash?),
    }
}

struct Reading<'t> {
    take: Take<'t>,
    max_bytes: usize,
    /// Why reading ended, if it was not the text.
    refused: Option<Mismatch>,
}

impl Reading<'_> {
    fn refuse<E: de::Error>(&mut self, why: Mismatch) -> E {
        self.refused = Some(why);
        E::custom("it is refused")
    }
}

/// `{"applications": …}`
struct OfAnswer<'r, 't>(&'r mut Reading<'t>);

impl<'de> DeserializeSeed<'de> for OfAnswer<'_, '_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OfAnswer<'_, '_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `applications`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let (reading, mut hash) = (self.0, None);
        while let Some(key) = map.next_key::<Text>()? {
            match &*key.0 {
                "applications" => hash = Some(map.next_value_seed(OfApplications(&mut *reading))?),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        hash.ok_or_else(|| de::Error::missing_field("applications"))
    }
}

/// `{"apps__hashcode": …, "application": …}`
struct OfApplications<'r, 't>(&'r mut Reading<'t>);

impl<'de> DeserializeSeed<'de> for OfApplications<'_, '_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OfApplications<'_, '_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with applications")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let (reading, mut hash) = (self.0, String::new());
        while let Some(key) = map.next_key::<Text>()? {
            match &*key.0 {
                "application" => map.next_value_seed(Each(OneApplication(&mut *reading)))?,
                // Servers write the first one.
                "apps__hashcode" | "apps_hashcode" | "appsHashCode" => hash = map.next_value::<Text>()?.0,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(hash)
    }
}

/// Reads an element of a list, and takes it.
trait Element {
    fn read<'de, D: Deserializer<'de>>(&mut self, deserializer: D) -> Result<(), D::Error>;
}

/// A list, or its only element: each element is read and taken, and none is kept.
struct Each<E>(E);

/// The next element.
struct Next<'e, E>(&'e mut E);

impl<'de, E: Element> DeserializeSeed<'de> for Next<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.read(deserializer)
    }
}

impl<'de, E: Element> DeserializeSeed<'de> for Each<E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, E: Element> Visitor<'de> for Each<E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list, or its only element")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Next(&mut self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, element: A) -> Result<(), A::Error> {
        self.0.read(MapAccessDeserializer::new(element))
    }

    fn visit_unit<X: de::Error>(self) -> Result<(), X> {
        Ok(())
    }
}

/// `{"name": …, "instance": …}`
struct OneApplication<'r, 't>(&'r mut Reading<'t>);

impl Element for OneApplication<'_, '_> {
    fn read<'de, D: Deserializer<'de>>(&mut self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(OfApplication(&mut *self.0))
    }
}

struct OfApplication<'r, 't>(&'r mut Reading<'t>);

impl<'de> Visitor<'de> for OfApplication<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an application")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reading = self.0;
        let (mut name, mut told, mut bytes) = (None, Vec::new(), 0);
        while let Some(key) = map.next_key::<Text>()? {
            match &*key.0 {
                "name" => name = Some(map.next_value::<Text>()?),
                "instance" => {
                    let (reading, told, bytes) = (&mut *reading, &mut told, &mut bytes);
                    map.next_value_seed(Each(OneInstance { reading, told, bytes }))?;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        let name = name.ok_or_else(|| de::Error::missing_field("name"))?;
        let taken = if told.is_empty() { Ok(()) } else { (reading.take)(&name.0.into(), told) };
        taken.map_err(|why| reading.refuse(why))
    }
}

/// An instance.
struct OneInstance<'r, 't> {
    reading: &'r mut Reading<'t>,
    told: &'r mut Vec<Told>,
    bytes: &'r mut usize,
}

impl Element for OneInstance<'_, '_> {
    fn read<'de, D: Deserializer<'de>>(&mut self, deserializer: D) -> Result<(), D::Error> {
        let told = WrittenInstance::deserialize(deserializer)?.reduced();
        *self.bytes += told.instance.size(&told.id);
        if *self.bytes > self.reading.max_bytes {
            return Err(self.reading.refuse(Mismatch::TooLarge(self.reading.max_bytes)));
        }
        self.told.push(told);
        Ok(())
    }
}

/// An instance as it is written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenInstance {
    instance_id: Text,
    host_name: Text,
    ip_addr: Text,
    status: Text,
    port: Port,
    secure_port: Port,
    metadata: Labels,
    action_type: Text,
}

/// A port of an instance.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Port {
    #[serde(rename = "$")]
    number: Text,
    #[serde(rename = "@enabled")]
    is_enabled: Text,
}

impl WrittenInstance {
    fn reduced(self) -> Told {
        let first = |texts: [Text; 2]| -> Box<str> {
            texts.into_iter().map(|text| text.0).find(|text| !text.is_empty()).unwrap_or_default().into()
        };
        let mut ports = [self.port, self.secure_port].into_iter();
        let port = ports.find(|port| port.is_enabled.0 == "true").map(|port| port.number.0.into());
        // Older servers have no ids.
        let id = first([self.instance_id, Text(self.host_name.0.clone())]);
        let instance = Instance {
            status: self.status.0.into(),
            address: first([self.ip_addr, self.host_name]),
            port,
            labels: self.metadata.labels.into(),
            more_labels: self.metadata.more,
        };
        Told { id, action: self.action_type.0.into(), instance }
    }
}

/// A text, a number or a Boolean, as text; null is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text(pub(super) String);

/// Of metadata, texts, numbers and Booleans that are labels.
#[derive(Default)]
struct Labels {
    /// In order.
    labels: Vec<(Box<str>, Box<str>)>,
    more: usize,
}

/// A value whose form depends on the server.
enum Value {
    /// A text, a number or a Boolean.
    Scalar(String),
    Null,
    /// A list or an object, which is not kept.
    Other,
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfValue;
        impl<'de> Visitor<'de> for OfValue {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
                Ok(Value::Scalar(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
                Ok(Value::Scalar(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
                Ok(Value::Scalar(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
                Ok(Value::Scalar(number.to_string()))
            }

            fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Value, E> {
                Ok(Value::Scalar(truth.to_string()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Value::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Value::Other)
            }
        }
        deserializer.deserialize_any(OfValue)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Scalar(text) => Ok(Text(text)),
            Value::Null => Ok(Text::default()),
            Value::Other => {
                Err(de::Error::custom("a list or an object instead of a text, a number or a Boolean"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfLabels;
        impl<'de> Visitor<'de> for OfLabels {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut of = Labels::default();
                while let Some((Text(key), value)) = map.next_entry::<Text, Value>()? {
                    let Value::Scalar(value) = value else { continue };
                    if !mixer_schema::is_workload_label(&key, &value) {
                        continue;
                    }
                    match of.labels.len() < MAX_LABELS {
                        true => of.labels.push((key.into(), value.into())),
                        false => of.more += 1,
                    }
                }
                // Of one key the last value counts.
                of.labels.reverse();
                of.labels.sort_by(|(a, _), (b, _)| a.cmp(b));
                of.labels.dedup_by(|(later, _), (first, _)| later == first);
                Ok(of)
            }

            fn visit_unit<E: de::Error>(self) -> Result<Labels, E> {
                Ok(Labels::default())
            }
        }
        deserializer.deserialize_any(OfLabels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, max_bytes: usize) -> Result<(String, Vec<(String, Told)>), Unread> {
        let mut all = Vec::new();
        let hash = read(text.as_bytes(), max_bytes, &mut |name, told| {
            all.extend(told.into_iter().map(|told| (name.to_string(), told)));
            Ok(())
        })?;
        Ok((hash, all))
    }

    #[test]
    fn lists_with_one_element_and_texts_of_any_form_are_read() {
        let text = r#"{"applications": {"versions__delta": "1", "apps__hashcode": "UP_1_", "application": {
            "instance": {"instanceId": 7, "hostName": "h", "app": "SHOP", "ipAddr": "10.0.0.1", "status": "UP",
            "port": {"$": 8080, "@enabled": "true"}, "securePort": {"$": "443", "@enabled": false},
            "metadata": {"@class": "java.util.Map", "weight": 3, "zone": "b", "more": {"x": [1]}, "zone": "a", "none": null},
            "leaseInfo": {}, "actionType": null}, "name": "SHOP"}}}"#;
        let (hash, read) = all(text, 10_000).unwrap();
        let [(name, told)] = &read[..] else { panic!("{read:?}") };
        assert_eq!((&*hash, &**name, &*told.id, &*told.action), ("UP_1_", "SHOP", "7", ""));
        let Instance { status, address, port, labels, more_labels } = &told.instance;
        assert_eq!(
            (&**status, &**address, port.as_deref(), *more_labels),
            ("UP", "10.0.0.1", Some("8080"), 0)
        );
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(labels, ["weight=3", "zone=a"], "what is no label is not kept");
        for empty in [
            r#"{"applications": {}}"#,
            r#"{"applications": {"application": []}}"#,
            r#"{"applications": {"application": null}}"#,
        ] {
            let (hash, read) = all(empty, 0).unwrap();
            assert!(hash.is_empty() && read.is_empty(), "{empty}");
        }
        for bad in [
            "{}",
            "[]",
            r#"{"applications": {"application": "x"}}"#,
            r#"{"applications": {"application": [{}]}}"#,
            r#"{"applications": {}} x"#,
        ] {
            assert!(matches!(all(bad, 10_000), Err(Unread::Form(_))), "{bad}");
        }
        let deep = format!(r#"{{"applications": {{"application": {}"#, "[".repeat(100_000));
        assert!(matches!(all(&deep, 10_000), Err(Unread::Form(_))));
    }

    #[test]
    fn what_an_instance_may_have_is_bounded() {
        let of = |instances: String| {
            format!(r#"{{"applications": {{"application": {{"name": "A", "instance": [{instances}]}}}}}}"#)
        };
        let many = of(vec!["{}"; 100].join(","));
        assert!(matches!(all(&many, 99 * INSTANCE_BYTES), Err(Unread::Refused(Mismatch::TooLarge(28512)))));
        assert_eq!(all(&many, 100 * INSTANCE_BYTES).unwrap().1.len(), 100);
        let labels: Vec<_> = (0..MAX_LABELS + 7).map(|number| format!(r#""k{number}": "v""#)).collect();
        let (_, read) = all(&of(format!(r#"{{"metadata": {{{}}}}}"#, labels.join(","))), 1 << 20).unwrap();
        let instance = &read[0].1.instance;
        assert_eq!((instance.labels.len(), instance.more_labels), (MAX_LABELS, 7));
    }
}
