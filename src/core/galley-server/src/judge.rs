//! The policy engine as the judge of documents: what a server that reads them itself refuses, and one that gets them over MCP cannot see.

use std::sync::Arc;

use parking_lot::Mutex;

use mixer_config::message::Field as _;
use mixer_config::store::{SourceObject, StoreContents, read_object};
use mixer_config::{Diagnostic, Node, RawResource, Severity};
use mixer_engine::snapshot::{SnapshotBuilder, SnapshotOptions, check_params};
use mixer_galley::Judge;
use mixer_mcp::Resource;
use mixer_schema::Kind;

/// The collection of a legacy kind that no policy server asks for: sinks see nothing of it, and its body takes any spec.
const NOT_ASKED_FOR: &str = "istio/config/v1alpha2/legacy/rbacs";

/// Builds single resources, each as written and as a sink reads it.
#[derive(Debug)]
pub struct EngineJudge(Mutex<SnapshotBuilder>);

impl EngineJudge {
    /// With the adapters and kinds of these settings.
    pub fn new(policy: SnapshotOptions) -> Arc<Self> {
        Arc::new(Self(Mutex::new(SnapshotBuilder::new(policy))))
    }

    /// The errors of a resource that is alone. What it names is therefore missing, in both readings.
    fn errors(&self, resource: Arc<RawResource>) -> Vec<Diagnostic> {
        let name = resource.key.to_string();
        let mut contents = StoreContents::default();
        contents.resources.put(resource);
        let snapshot = self.0.lock().build(&contents);
        let mut problems = snapshot.diagnostics.clone();
        problems.extend(check_params(&snapshot));
        problems.retain(|problem| problem.severity == Severity::Error && problem.resource == name);
        problems
    }
}

impl Judge for EngineJudge {
    /// Cost: nothing but a comparison if the sink sees the `spec` as it is written, as of most; otherwise two builds of one resource.
    fn unseen(&self, kind: &'static Kind, resource: &Resource, spec: &Node) -> Vec<Diagnostic> {
        let Ok(seen) = mixer_schema::to_json(&resource.type_url, &resource.body) else { return Vec::new() };
        let written = spec.to_json();
        let is_seen = kind.collection != NOT_ASKED_FOR;
        if is_seen && seen == written {
            return Vec::new();
        }
        let (namespace, name) = resource.namespace_and_name();
        let read = |spec: serde_json::Value| {
            let object = SourceObject {
                api_version: kind.api_version(),
                kind: kind.kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                version: resource.version.to_string(),
                labels: resource.labels.clone(),
                annotations: resource.annotations.clone(),
                spec,
                ..SourceObject::default()
            };
            read_object(&"resource".into(), object).ok()
        };
        let (Some(seen), Some(written)) = (read(seen), read(written)) else { return Vec::new() };
        let seen = if is_seen { self.errors(seen) } else { Vec::new() };
        let mut unseen = self.errors(written);
        let is_same = |a: &Diagnostic, b: &Diagnostic| a.code == b.code && a.field == b.field;
        unseen.retain(|problem| !seen.iter().any(|seen| is_same(seen, problem)));
        unseen
    }
}
