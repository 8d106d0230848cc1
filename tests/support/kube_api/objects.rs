//! The objects of the API server: made, replaced, patched, deleted.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use serde_json::{Value, json};

use super::asked::Asked;
use super::{Answered, Change, HISTORY, KINDS, Key, OF_CLUSTER, State, WEBHOOKS, answer, failure, not_found};

pub(super) fn put(state: &mut State, key: Key, mut object: Value) -> Arc<Value> {
    state.version += 1;
    let kind = KINDS.iter().find(|kind| kind.1 == key.0).unwrap();
    object["kind"] = kind.0.into();
    object["apiVersion"] = kind.2.into();
    object["metadata"]["resourceVersion"] = state.version.to_string().into();
    if object["metadata"]["creationTimestamp"].is_null() {
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let object = Arc::new(object);
    let before = state.objects.insert(key.clone(), Arc::clone(&object));
    let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
    remember(state, Change { version: state.version, kind, key, object: Arc::clone(&object), before });
    object
}

pub(super) fn delete(state: &mut State, key: &Key) -> Option<Arc<Value>> {
    let mut object = Value::clone(&*state.objects.remove(key)?);
    let before = Some(Arc::new(object.clone()));
    state.version += 1;
    object["metadata"]["resourceVersion"] = state.version.to_string().into();
    let object = Arc::new(object);
    let change = Change {
        version: state.version,
        kind: "DELETED",
        key: key.clone(),
        object: Arc::clone(&object),
        before,
    };
    remember(state, change);
    Some(object)
}

fn remember(state: &mut State, change: Change) {
    state.changes.push_back(change);
    if state.changes.len() > HISTORY
        && let Some(forgotten) = state.changes.pop_front()
    {
        state.oldest = forgotten.version;
    }
}

pub(super) fn create(state: &mut State, asked: &Asked, body: &[u8]) -> Answered<Response<Body>> {
    let mut object: Value = serde_json::from_slice(body).unwrap();
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let key = (asked.kind.1, asked.namespace.clone().unwrap_or_default(), name);
    if state.objects.contains_key(&key) {
        let message = format!("{} \"{}\" already exists", key.0, key.2);
        return Err(failure(409, "AlreadyExists", &message).into());
    }
    if !OF_CLUSTER.contains(&key.0) {
        object["metadata"]["namespace"] = key.1.clone().into();
    }
    // As of every object with a status, which is written apart.
    object.as_object_mut().unwrap().remove("status");
    if object["metadata"]["uid"].is_null() {
        object["metadata"]["uid"] = format!("uid-{}", state.version).into();
    }
    fill_in(&key, &mut object);
    match asked.query("dryRun") {
        "All" => Ok(answer(&object, None)),
        _ => Ok(answer(&put(state, key, object), None)),
    }
}

/// A merge patch of the object, or of its status.
pub(super) fn patch(state: &mut State, asked: &Asked, body: &[u8]) -> Answered<Response<Body>> {
    fn merge(target: &mut Value, patch: &Value) {
        let Some(members) = patch.as_object() else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (name, value) in members {
            match value {
                Value::Null => drop(target.as_object_mut().unwrap().remove(name)),
                value => merge(&mut target[name], value),
            }
        }
    }
    let key = asked.key();
    let Some(known) = state.objects.get(&key) else { return Err(not_found(asked)) };
    let mut object = Value::clone(known);
    merge(&mut object, &serde_json::from_slice(body).unwrap());
    Ok(answer(&put(state, key, object), None))
}

/// Replaces an object, if it is still the version that is named.
pub(super) fn replace(state: &mut State, asked: &Asked, body: &[u8]) -> Answered<Response<Body>> {
    let key = asked.key();
    let Some(known) = state.objects.get(&key) else { return Err(not_found(asked)) };
    let mut object: Value = serde_json::from_slice(body).unwrap();
    let version = &object["metadata"]["resourceVersion"];
    if !version.is_null() && *version != known["metadata"]["resourceVersion"] {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest version and \
             try again",
            key.0, key.2
        );
        return Err(failure(409, "Conflict", &message).into());
    }
    fill_in(&key, &mut object);
    let mut same = object.clone();
    same["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
    if same == **known {
        return Ok(answer(known, None));
    }
    Ok(answer(&put(state, key, object), None))
}

/// What an API server sets of webhooks, and what it has no default for.
fn fill_in(key: &Key, object: &mut Value) {
    if key.0 != WEBHOOKS {
        return;
    }
    for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
        let webhook = webhook.as_object_mut().unwrap();
        for required in ["name", "clientConfig", "sideEffects", "admissionReviewVersions"] {
            assert!(webhook.contains_key(required), "{required} is required: {webhook:?}");
        }
        for (name, value) in [
            ("failurePolicy", json!("Fail")),
            ("matchPolicy", json!("Equivalent")),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
            ("timeoutSeconds", json!(10)),
        ] {
            webhook.entry(name).or_insert(value);
        }
        for rule in webhook.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
            rule.as_object_mut().unwrap().entry("scope").or_insert(json!("*"));
        }
    }
}
