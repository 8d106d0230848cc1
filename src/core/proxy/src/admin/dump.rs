//! The configuration and what the server is, as JSON.

use std::time::SystemTime;

use mixer_net::http::{HttpResponse, answer};
use serde_json::json;

use super::{Parameters, TEXT};
use crate::lds::{Accepted, Lds};
use crate::listener_manager::{Origin, Shown};
use crate::running::{Running, shown_listeners};

/// `/config_dump`: the bootstrap as it was read, its clusters, listeners and routes.
pub(super) fn config(running: &Running, parameters: &Parameters) -> HttpResponse {
    let typed = |name: &str| format!("type.googleapis.com/envoy.admin.v3.{name}ConfigDump");
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
    if let Some(resource) = parameters.get("resource") {
        let configs = match resource.as_str() {
            "static_clusters" => clusters,
            "static_listeners" => listeners,
            "dynamic_listeners" => dynamic,
            "bootstrap" => vec![json!({ "bootstrap": document })],
            other => {
                let body = format!("{other} not found in config dump");
                return answer(http::StatusCode::NOT_FOUND, TEXT, body);
            }
        };
        return super::json(&json!({ "configs": configs }));
    }
    super::json(&json!({"configs": [
        {"@type": typed("Bootstrap"), "bootstrap": document},
        {"@type": typed("Clusters"), "static_clusters": clusters},
        {
            "@type": typed("Listeners"),
            "version_info": accepted.version,
            "static_listeners": listeners,
            "dynamic_listeners": dynamic,
        },
    ]}))
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
