//! Labels and monitored resources.

use std::collections::BTreeMap;

use mixer_attribute::text::push_text;
use mixer_attribute::{Timestamp, Value};
use mixer_engine::adapter::{BoundInstance, Instance};

use super::place::Place;
use super::wire::Resource;
use crate::cut::cut;

/// The resource of the instances of one name.
pub(super) struct ResourceTemplate {
    kind: Option<usize>,
    labels: Labels,
}

impl ResourceTemplate {
    pub(super) fn new(instance: &BoundInstance) -> Self {
        let labels = Labels::new(instance, "monitored_resource_dimensions");
        Self { kind: instance.position("monitored_resource_type"), labels }
    }

    /// The resource; `None` if its type is empty.
    pub(super) fn resource(&self, instance: &Instance<'_>, place: &Place) -> Option<Resource> {
        let kind = match self.kind.and_then(|at| instance.value(at)) {
            Some(Value::String(kind)) if !kind.is_empty() => String::from_utf8_lossy(kind).into_owned(),
            _ => return None,
        };
        let mut labels = self.labels.read(instance);
        place.fill(&mut labels);
        Some(Resource { kind, labels })
    }
}

/// The entries of a map of an instance.
pub(super) struct Labels(Vec<(String, usize)>);

impl Labels {
    pub(super) fn new(instance: &BoundInstance, field: &str) -> Self {
        Self(instance.entries(field).map(|(key, at)| (key.to_owned(), at)).collect())
    }

    /// The entries as texts, each of which is cut where it is too long.
    pub(super) fn read(&self, instance: &Instance<'_>) -> BTreeMap<String, String> {
        self.0.iter().map(|(key, at)| (key.clone(), label(instance.value(*at)))).collect()
    }
}

/// A value as a text; empty without a value.
pub(super) fn label(value: Option<Value<'_>>) -> String {
    let mut text = Vec::new();
    if let Some(value) = value {
        push_text(&mut text, value);
    }
    cut(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

pub(super) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.seconds, nanos: i32::try_from(time.nanos).unwrap_or(0) }
}
