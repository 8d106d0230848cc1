//! The checks of the policy engine: what `mixer validate` says about one more resource beside those that are published.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use mixer_base::shared_map::SharedMap;
use mixer_config::store::{StoreContents, read_document};
use mixer_config::{Diagnostic, FieldPath, Origin, RawResource, ResourceKey, Severity};
use mixer_engine::snapshot::{SnapshotBuilder, SnapshotOptions, check_params, pitfalls, structure};
use mixer_mcp::{Resource, Snapshot};

/// Problems of references: what they name may arrive later, if they name something.
const OF_REFERENCES: [&str; 2] = ["handler-unknown", "instance-unknown"];
/// What follows from them.
const CONSEQUENCES: [&str; 2] = ["rule-empty", "action-empty"];

/// The kind of rules, to which nothing refers.
const RULE: &str = "rule";
/// Most published resources with all of which a large one is compared.
const MAX_COMPARED: usize = 10_000;

/// Checks resources in the light of those that are published.
pub(super) struct Deep {
    options: SnapshotOptions,
    state: Mutex<State>,
}

/// What a check of a resource costs, which decides who waits for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Milliseconds: it is built beside what was built before, and others wait for that.
    Small,
    /// Perhaps seconds, and much memory: nobody waits for it, and nothing of it is kept. It costs a build of all that is published; beyond
    /// [`MAX_COMPARED`] resources, of those that are no rules, and then it has errors alone.
    Large,
}

/// The resources that were published, and a builder that has built them: one more costs one more.
struct State {
    builder: SnapshotBuilder,
    /// By collection: its version, and its resources by full name.
    collections: HashMap<Arc<str>, Known>,
    resources: SharedMap<Arc<RawResource>>,
}

#[derive(Default)]
struct Known {
    version: Arc<str>,
    resources: HashMap<Box<str>, (Arc<Resource>, Option<ResourceKey>)>,
}

impl Deep {
    pub(super) fn new(options: SnapshotOptions) -> Self {
        let builder = SnapshotBuilder::new(options.clone());
        let state = State { builder, collections: HashMap::new(), resources: SharedMap::default() };
        Self { options, state: Mutex::new(state) }
    }

    /// The problems of a resource, given as the text of its object. `namespace` is that of the request.
    pub(super) fn check(
        &self,
        effort: Effort,
        published: Option<Arc<Snapshot>>,
        text: String,
        namespace: Option<&str>,
    ) -> Vec<Diagnostic> {
        let Some(resource) = document(text, namespace) else {
            let text = "the object has no name, or a part of it is not what it has to be";
            return vec![Diagnostic::error("document-identity", FieldPath::root(), text)];
        };
        let mut state = self.state.lock();
        if let Some(snapshot) = published {
            state.follow(&snapshot, &self.options);
        }
        let resources = state.resources.clone();
        match effort {
            Effort::Small => problems(&mut state.builder, resources, resource),
            Effort::Large => {
                drop(state);
                let is_compared = resources.len() <= MAX_COMPARED;
                let others: SharedMap<Arc<RawResource>> = match is_compared {
                    true => resources,
                    false => resources.iter().filter(|other| &*other.key.kind != RULE).cloned().collect(),
                };
                // The builder of the others keeps what it built last, and is locked meanwhile.
                let mut builder = SnapshotBuilder::new(self.options.clone());
                let mut problems = problems(&mut builder, others, resource);
                // Without the rules a warning may say that none of them uses it.
                problems.retain(|problem| is_compared || problem.severity == Severity::Error);
                problems
            }
        }
    }
}

impl State {
    /// Takes over what was published since. Cost: a step for every resource of the collections that changed.
    fn follow(&mut self, snapshot: &Snapshot, options: &SnapshotOptions) {
        for collection in snapshot.collections() {
            let Some(kind) = mixer_schema::by_collection(collection.name()) else { continue };
            if structure(kind.kind, None, options).is_none() {
                continue;
            }
            let known = self.collections.entry(Arc::clone(collection.name())).or_default();
            if known.version == *collection.version() {
                continue;
            }
            known.version = Arc::clone(collection.version());
            let mut before = std::mem::take(&mut known.resources);
            for resource in collection.content().iter() {
                let old = before.remove(&resource.name);
                if let Some((same, key)) = old.filter(|(old, _)| Arc::ptr_eq(old, resource)) {
                    known.resources.insert(resource.name.clone(), (same, key));
                    continue;
                }
                let raw = raw(kind, resource);
                let key = raw.as_ref().map(|raw| raw.key.clone());
                if let Some(raw) = raw {
                    self.resources.put(raw);
                }
                known.resources.insert(resource.name.clone(), (Arc::clone(resource), key));
            }
            for (_, key) in before.into_values() {
                if let Some(key) = key {
                    self.resources.remove(&key);
                }
            }
        }
    }
}

/// The problems of a resource beside others.
fn problems(
    builder: &mut SnapshotBuilder,
    mut resources: SharedMap<Arc<RawResource>>,
    resource: Arc<RawResource>,
) -> Vec<Diagnostic> {
    let name = resource.key.to_string();
    resources.put(resource);
    let contents = StoreContents { resources, ..StoreContents::default() };
    let snapshot = builder.build(&contents);
    let mut problems = snapshot.diagnostics.clone();
    problems.extend(check_params(&snapshot));
    problems.extend(pitfalls(&snapshot));
    problems.retain(|problem| problem.resource == name);
    let lacks = problems.iter().any(is_of_reference);
    for problem in &mut problems {
        if is_of_reference(problem) || lacks && CONSEQUENCES.contains(&problem.code) {
            problem.severity = Severity::Warning;
        }
    }
    problems
}

/// Whether a problem is that something is not there yet which a name refers to.
fn is_of_reference(problem: &Diagnostic) -> bool {
    // The message ends with `handler='NAME'` or `instance='NAME'`.
    let name = problem.message.rsplit_once("='").map_or("", |(_, name)| name.trim_end_matches('\''));
    OF_REFERENCES.contains(&problem.code) && !name.trim().is_empty()
}

/// A published resource as a document.
fn raw(kind: &mixer_schema::Kind, resource: &Resource) -> Option<Arc<RawResource>> {
    let (namespace, name) = resource.namespace_and_name();
    let spec = mixer_schema::to_json(&resource.type_url, &resource.body).ok()?;
    let text = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": { "name": name, "namespace": namespace, "annotations": resource.annotations },
        "spec": spec,
    });
    document(text.to_string(), None)
}

/// The resource of an object.
fn document(text: String, namespace: Option<&str>) -> Option<Arc<RawResource>> {
    let mut object: serde_json::Value = serde_json::from_str(&text).ok()?;
    drop(text);
    if let (Some(namespace), Some(metadata)) =
        (namespace, object.get_mut("metadata").and_then(serde_json::Value::as_object_mut))
    {
        // The API server fills it in.
        metadata.entry("namespace").or_insert_with(|| json!(namespace));
    }
    if object.get("spec").is_some_and(serde_json::Value::is_null)
        && let Some(object) = object.as_object_mut()
    {
        object.remove("spec");
    }
    let text: Arc<str> = object.to_string().into();
    drop(object);
    read_document(Origin { file: "admission".into(), text, first_line: 1 })
}
