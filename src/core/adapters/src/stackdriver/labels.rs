//! Where a server runs, labels, and monitored resources.

use std::collections::BTreeMap;

use mixer_attribute::text::push_text;
use mixer_attribute::{Timestamp, Value};
use mixer_engine::adapter::{BoundInstance, Instance};
use mixer_remote::{GoogleMetadata, MetadataFact};

use super::wire::Resource;
use crate::cut::cut;

/// What the metadata server knows; empty without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) project: String,
    pub(super) location: String,
    pub(super) cluster: String,
    /// The machine; empty for one that is none of Google's.
    pub(super) machine: String,
}

impl Place {
    /// Asks the metadata server. One that does not answer the first question is not asked any other.
    pub(super) async fn find(metadata: &GoogleMetadata) -> Self {
        let Ok(project) = metadata.fact(MetadataFact::Project).await else { return Self::default() };
        let fact = |fact| async move { metadata.fact(fact).await.unwrap_or_default() };
        Self {
            project,
            location: fact(MetadataFact::Location).await,
            cluster: fact(MetadataFact::Cluster).await,
            machine: fact(MetadataFact::Instance).await,
        }
    }

    /// Fills empty labels with what is known.
    fn fill(&self, labels: &mut BTreeMap<String, String>) {
        for (name, value) in labels.iter_mut().filter(|(_, value)| value.is_empty()) {
            let known = match name.as_str() {
                "project_id" => &self.project,
                "location" | "zone" => &self.location,
                "cluster_name" => &self.cluster,
                _ => continue,
            };
            value.clone_from(known);
        }
    }

    /// The resource of log entries without one.
    pub(super) fn of_logs(&self, project: &str) -> Resource {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        if self.machine.is_empty() {
            return Resource { kind: "project".to_owned(), labels: [label("project_id", project)].into() };
        }
        let labels = [
            label("instance_id", &self.machine),
            label("project_id", &self.project),
            label("zone", &self.location),
        ];
        Resource { kind: "gce_instance".to_owned(), labels: labels.into() }
    }
}

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
