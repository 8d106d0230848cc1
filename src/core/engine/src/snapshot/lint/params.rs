//! Lints of parameters that refer to instances and their dimensions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value as Json;

use super::place::params_path;
use crate::snapshot::{HandlerConfig, InstanceConfig};
use mixer_config::message::suggestion;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Positions};

type Instances<'i> = BTreeMap<&'i str, &'i Arc<InstanceConfig>>;

/// Checks the parameters of one handler.
pub(super) fn check(
    handler: &HandlerConfig,
    instances: &Instances<'_>,
    positions: &Positions,
    out: &mut Diagnostics,
) {
    let params = handler.params.json();
    match handler.adapter.info().name {
        "memquota" | "redisquota" => {
            for (i, quota) in list(params, "quotas").iter().enumerate() {
                let path = params_path(handler).field("quotas").index(i).field("name");
                instance_name((handler, positions), quota.get("name"), path, instances, out);
            }
        }
        "prometheus" => {
            for (i, metric) in list(params, "metrics").iter().enumerate() {
                let path = params_path(handler).field("metrics").index(i);
                let name = metric.get("instanceName");
                instance_name((handler, positions), name, path.field("instanceName"), instances, out);
                if let Some(instance) = name.and_then(Json::as_str).and_then(|n| instances.get(n)) {
                    labels((handler, positions), metric, &path.field("labelNames"), instance, out);
                }
            }
        }
        _ => {}
    }
}

fn list<'j>(params: &'j Json, name: &str) -> &'j [Json] {
    params.get(name).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn instance_name(
    (handler, positions): (&HandlerConfig, &Positions),
    name: Option<&Json>,
    path: FieldPath,
    instances: &Instances<'_>,
    out: &mut Diagnostics,
) {
    let Some(name) = name.and_then(Json::as_str).filter(|n| !n.is_empty()) else { return };
    if instances.contains_key(name) {
        return;
    }
    let from = format!("{name}.");
    let (full, _) = instances.range::<str, _>((Bound::Included(&*from), Bound::Unbounded)).next().unzip();
    let full = full.filter(|full| full.split('.').next() == Some(name));
    let message = format!("there is no instance `{name}`; this entry is never used");
    let mut problem = Diagnostic::warning("instance-name-unknown", path, message);
    problem.hint = match full {
        Some(full) => Some(format!("instances are named in full here: `{full}`")),
        None => suggestion(name, instances.keys().copied())
            .or_else(|| Some("a full name is NAME.instance.NAMESPACE".to_owned())),
    };
    out.push(positions.place(problem, &handler.key, &handler.origin));
}

fn labels(
    (handler, positions): (&HandlerConfig, &Positions),
    metric: &Json,
    path: &FieldPath,
    instance: &InstanceConfig,
    out: &mut Diagnostics,
) {
    let labels = list(metric, "labelNames").iter().filter_map(Json::as_str).collect::<BTreeSet<_>>();
    let dimensions = instance.bound.entries("dimensions").map(|(key, _)| key).collect::<BTreeSet<_>>();
    if labels == dimensions {
        return;
    }
    let join = |set: Vec<&&str>| set.iter().map(|s| format!("`{s}`")).collect::<Vec<_>>().join(", ");
    let (missing, extra) = (
        dimensions.difference(&labels).collect::<Vec<_>>(),
        labels.difference(&dimensions).collect::<Vec<_>>(),
    );
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("labelNames lack {}", join(missing)));
    }
    if !extra.is_empty() {
        parts.push(format!("{} has no dimension {}", instance.name(), join(extra)));
    }
    let message = format!("every report of {} will fail: {}", instance.name(), parts.join("; "));
    let problem = Diagnostic::warning("labels-differ", path.clone(), message)
        .with_hint("label names and dimensions must be the same");
    out.push(positions.place(problem, &handler.key, &handler.origin));
}
