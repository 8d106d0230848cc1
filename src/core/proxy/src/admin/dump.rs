//! The configuration and what the server is, as JSON.

use mixer_net::http::{HttpResponse, answer};
use serde_json::json;

use super::{Parameters, TEXT};
use crate::running::Running;

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
    if let Some(resource) = parameters.get("resource") {
        let configs = match resource.as_str() {
            "static_clusters" => clusters,
            "static_listeners" => listeners,
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
        {"@type": typed("Listeners"), "static_listeners": listeners},
    ]}))
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
