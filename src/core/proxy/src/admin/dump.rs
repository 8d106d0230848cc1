//! The configuration and what the server is, as JSON.

use std::time::SystemTime;

use http::StatusCode;
use mixer_net::http::{HttpResponse, answer};
use serde_json::json;

use super::TEXT;
use super::mask::{self, Mask};
use super::query::Parameters;
use crate::lds::{Accepted, Lds};
use crate::listener_manager::{Origin, Shown};
use crate::running::{Running, shown_listeners};

/// `/config_dump`: the bootstrap as it was read, its clusters, listeners and routes; with `resource` one list of them, with `mask` some fields.
pub(super) fn config(running: &Running, parameters: &Parameters) -> HttpResponse {
    let document = &running.bootstrap.document;
    let resources = |name: &str| {
        let list = document.get("static_resources").or_else(|| document.get("staticResources"));
        list.and_then(|list| list.get(name)).and_then(|list| list.as_array()).cloned().unwrap_or_default()
    };
    let clusters: Vec<_> =
        resources("clusters").into_iter().map(|cluster| json!({ "cluster": cluster })).collect();
    let listeners = resources("listeners");
    let listeners: Vec<_> = listeners.into_iter().map(|listener| json!({ "listener": listener })).collect();
    let accepted = running.lds.as_ref().map(Lds::accepted).unwrap_or_default();
    let dynamic = dynamic_listeners(&accepted, &shown_listeners(running));
    let (text, resource) = (parameters.get("mask"), parameters.get("resource"));
    let mask = Mask::of(text.unwrap_or_default());
    if let Some(resource) = resource {
        let (configs, kind, name) = match resource {
            "static_clusters" => (clusters, &mask::STATIC_CLUSTER, "ClustersConfigDump.StaticCluster"),
            "static_listeners" => (listeners, &mask::STATIC_LISTENER, "ListenersConfigDump.StaticListener"),
            "dynamic_listeners" => (dynamic, &mask::DYNAMIC_LISTENER, "ListenersConfigDump.DynamicListener"),
            "bootstrap" | "last_updated" | "version_info" => {
                let body = format!(
                    "{resource} is not a repeated field. Use ?mask={resource} to get only this field"
                );
                return answer(StatusCode::BAD_REQUEST, TEXT, body);
            }
            other => return answer(StatusCode::NOT_FOUND, TEXT, format!("{other} not found in config dump")),
        };
        let mut shown = Vec::with_capacity(configs.len());
        for mut config in configs {
            if !mask.trim(&mut config, kind) {
                return refused_mask(text, "used");
            }
            if let Some(fields) = config.as_object_mut() {
                fields.insert("@type".to_owned(), typed(name).into());
            }
            shown.push(config);
        }
        return super::json(&json!({ "configs": shown }));
    }
    let all = [
        (json!({"@type": typed("BootstrapConfigDump"), "bootstrap": document}), &mask::BOOTSTRAP),
        (json!({"@type": typed("ClustersConfigDump"), "static_clusters": clusters}), &mask::CLUSTERS),
        (
            json!({
                "@type": typed("ListenersConfigDump"),
                "version_info": accepted.version,
                "static_listeners": listeners,
                "dynamic_listeners": dynamic,
            }),
            &mask::LISTENERS,
        ),
    ];
    let shown =
        all.into_iter().filter_map(|(mut config, kind)| mask.trim(&mut config, kind).then_some(config));
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() {
        return refused_mask(text, "applied to any configs");
    }
    super::json(&json!({ "configs": shown }))
}

/// The type of a message of the admin interface.
fn typed(name: &str) -> String {
    format!("type.googleapis.com/envoy.admin.v3.{name}")
}

fn refused_mask(mask: Option<&str>, what: &str) -> HttpResponse {
    let mask = mask.unwrap_or_default();
    answer(StatusCode::BAD_REQUEST, TEXT, format!("FieldMask {mask} could not be successfully {what}."))
}

/// Listeners of a file: what is active, and what was refused.
fn dynamic_listeners(accepted: &Accepted, shown: &[Shown]) -> Vec<serde_json::Value> {
    let mut listeners: Vec<(String, serde_json::Map<String, serde_json::Value>)> = Vec::new();
    let mut set = |name: &str, field: &str, value: serde_json::Value| {
        let place = listeners.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            listeners.push((name.to_owned(), serde_json::Map::new()));
            listeners.len() - 1
        });
        if let Some((_, fields)) = listeners.get_mut(place) {
            fields.insert(field.to_owned(), value);
        }
    };
    for listener in shown {
        if let Origin::Dynamic(version, updated) = &listener.origin {
            let state = json!({
                "version_info": version,
                "listener": listener.document,
                "last_updated": timestamp(*updated),
            });
            set(&listener.name, "active_state", state);
        }
    }
    for refused in &accepted.refused {
        let state = json!({
            "failed_configuration": refused.document,
            "last_update_attempt": timestamp(refused.at),
            "details": refused.why,
        });
        set(&refused.name, "error_state", state);
    }
    let named = listeners.into_iter().map(|(name, mut fields)| {
        fields.insert("name".to_owned(), name.into());
        serde_json::Value::Object(fields)
    });
    named.collect()
}

/// A time as protobuf's JSON has it.
fn timestamp(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

/// `/server_info`.
pub(super) fn server_info(running: &Running, _: &Parameters) -> HttpResponse {
    let uptime = format!("{}s", running.started.elapsed().as_secs());
    let options = &running.options;
    super::json(&json!({
        "version": format!("mixer/{}", env!("CARGO_PKG_VERSION")),
        "state": running.state().name(),
        "uptime_current_epoch": uptime,
        "uptime_all_epochs": uptime,
        "hot_restart_version": "disabled",
        "command_line_options": {
            "concurrency": options.concurrency,
            "config_path": options.config_path,
            "mode": "Serve",
        },
        "node": {"id": running.bootstrap.node_id, "cluster": running.bootstrap.node_cluster},
    }))
}
