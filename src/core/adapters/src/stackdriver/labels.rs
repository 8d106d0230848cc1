//! Where a server runs, labels, and monitored resources.

use std::collections::BTreeMap;
use std::time::Duration;

use mixer_attribute::text::push_text;
use mixer_attribute::{Timestamp, Value};
use mixer_engine::adapter::{BoundInstance, Instance};
use mixer_remote::{GoogleMetadata, MetadataFact};

use super::wire::Resource;
use crate::cut::cut;

/// How long a build waits for the metadata server, which is near, or not there at all.
const LIMIT: Duration = Duration::from_secs(1);

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
    /// Asks the metadata server, in one second at most: a build waits for it. One that does not answer the first question knows nothing.
    pub(super) async fn find(metadata: &GoogleMetadata) -> Self {
        let fact = async |fact| {
            let known = tokio::time::timeout(LIMIT, metadata.fact(fact)).await;
            known.map_err(|_| "no answer in time".to_owned()).flatten()
        };
        let (project, location, cluster, machine) = tokio::join!(
            fact(MetadataFact::Project),
            fact(MetadataFact::Location),
            fact(MetadataFact::Cluster),
            fact(MetadataFact::Instance)
        );
        let Ok(project) = project else { return Self::default() };
        let or_none = |fact: Result<String, String>| fact.unwrap_or_default();
        Self { project, location: or_none(location), cluster: or_none(cluster), machine: or_none(machine) }
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
