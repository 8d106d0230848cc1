//! Snapshots as JSON: in the form of Galley 1.3, and whole. Secrets of bodies and annotations are masked unless they are revealed.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use mixer_base::secrets::{mask_annotations, mask_document};
use mixer_introspect::parameter;
use mixer_mcp::{Collection, Resource, Snapshot};

use super::Plane;

/// The group that is asked for, by default the first one by name.
fn group_of(plane: &Plane, asked: &str) -> String {
    match asked {
        "" => plane.publications.cache().groups().first().map(|group| group.to_string()).unwrap_or_default(),
        asked => asked.to_owned(),
    }
}

/// `/configj/`. Spec: galley.md, 23. Before the first snapshot the lists are empty.
pub(super) fn snapshots(plane: &Plane, group: &str) -> Value {
    let cache = plane.publications.cache();
    let group = group_of(plane, group);
    let synced = cache.status(&group).map(|status| status.synced).unwrap_or_default();
    let of_collection = |collection: &Arc<Collection>| {
        let names: Vec<&str> = collection.content().iter().map(|resource| &*resource.name).collect();
        json!({
            "Collection": **collection.name(),
            "Version": **collection.version(),
            "Names": names,
            "Synced": synced.get(collection.name()),
        })
    };
    let snapshot = cache.snapshot(&group);
    let snapshots: Vec<Value> =
        snapshot.iter().flat_map(|snapshot| snapshot.collections().map(of_collection)).collect();
    let groups: Vec<String> = cache.groups().iter().map(ToString::to_string).collect();
    json!({ "Snapshots": snapshots, "Groups": groups })
}

/// `/configj/resource`. compat(1.3): `null` if a parameter is missing, as is one of a single character.
pub(super) fn resource(plane: &Plane, parameters: &[(String, String)], reveals: bool) -> Value {
    let [group, collection, name] = ["group", "collection", "name"].map(|part| parameter(parameters, part));
    if [group, collection, name].iter().any(|part| part.len() < 2) {
        return Value::Null;
    }
    let Some(resource) = find(plane, group, collection, name) else { return Value::Null };
    let mut metadata = metadata(&resource, reveals);
    metadata.insert("name".to_owned(), json!(resource.name));
    metadata.insert("version".to_owned(), json!(resource.version));
    json!({ "TypeURL": *resource.type_url, "Metadata": metadata, "Body": body(&resource, reveals) })
}

/// A published resource.
pub(super) fn find(plane: &Plane, group: &str, collection: &str, name: &str) -> Option<Arc<Resource>> {
    let snapshot = plane.publications.cache().snapshot(group)?;
    snapshot.get(collection)?.content().get(name).cloned()
}

/// Creation time, labels and annotations, if there are any.
fn metadata(resource: &Resource, reveals: bool) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(time) = resource.create_time {
        metadata.insert("createTime".to_owned(), json!(time.rfc3339_micros().to_string()));
    }
    if !resource.labels.is_empty() {
        metadata.insert("labels".to_owned(), json!(resource.labels));
    }
    if !resource.annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations(resource, reveals));
    }
    metadata
}

/// The annotations, of which one may be the whole object as it was applied.
pub(super) fn annotations(resource: &Resource, reveals: bool) -> Value {
    let mut annotations = json!(resource.annotations);
    if !reveals {
        mask_annotations(&mut annotations);
    }
    annotations
}

/// The body as JSON; its size if it is none that is known.
pub(super) fn body(resource: &Resource, reveals: bool) -> Value {
    let mut body = mixer_schema::to_json(&resource.type_url, &resource.body)
        .unwrap_or_else(|error| json!({ "undecodable": error.to_string(), "bytes": resource.body.len() }));
    if !reveals {
        mask_document(&mut body);
    }
    body
}

/// `/snapshotj/`: everything that is published of a group, or of one collection.
pub(super) fn dump(plane: &Plane, group: &str, collection: &str, reveals: bool) -> Value {
    let group = group_of(plane, group);
    let snapshot = plane.publications.cache().snapshot(&group);
    let publication = plane.publications.by_group().get(&group).map_or(0, |(number, _)| number.0);
    let collections = snapshot.as_deref().map(|snapshot| collections(snapshot, collection, reveals));
    json!({
        "apiVersion": "mixer/v1",
        "kind": "GalleySnapshot",
        "group": group,
        "publication": publication,
        "collections": collections.unwrap_or_default(),
    })
}

fn collections(snapshot: &Snapshot, asked: &str, reveals: bool) -> Map<String, Value> {
    let is_wanted = |collection: &&Arc<Collection>| match asked {
        "" => !collection.content().is_empty(),
        asked => **collection.name() == *asked,
    };
    let of_resource = |resource: &Arc<Resource>| {
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(resource.name));
        object.insert("version".to_owned(), json!(resource.version));
        object.extend(metadata(resource, reveals));
        object.insert("typeUrl".to_owned(), json!(*resource.type_url));
        object.insert("body".to_owned(), body(resource, reveals));
        Value::Object(object)
    };
    let of_collection = |collection: &Arc<Collection>| {
        let resources: Vec<Value> = collection.content().iter().map(of_resource).collect();
        let value = json!({ "version": **collection.version(), "resources": resources });
        (collection.name().to_string(), value)
    };
    snapshot.collections().filter(is_wanted).map(of_collection).collect()
}
