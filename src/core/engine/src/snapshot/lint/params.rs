//! Lints of parameters that refer to instances and their dimensions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::place::params_path;
use crate::snapshot::{HandlerConfig, InstanceConfig, Snapshot};
use mixer_config::message::{Shown, suggestion};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Positions, Severity};

/// The instances that parameters may name.
pub(super) struct Instances<'i> {
    valid: BTreeMap<&'i str, &'i Arc<InstanceConfig>>,
    /// Names of resources with an error, which tells more than a parameter that names them.
    faulty: BTreeSet<&'i str>,
}

impl<'i> Instances<'i> {
    pub(super) fn of(snapshot: &'i Snapshot) -> Self {
        let errors = snapshot.diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
        Self {
            valid: snapshot.instances.iter().map(|instance| (&**instance.name(), instance)).collect(),
            faulty: errors.map(|problem| &*problem.resource).collect(),
        }
    }
}

/// Checks the parameters of one handler.
pub(super) fn check(
    handler: &HandlerConfig,
    instances: &Instances<'_>,
    positions: &Positions,
    out: &mut Diagnostics,
) {
    let Some(params) = handler.params.shown() else { return };
    match handler.adapter.info().name {
        "memquota" | "redisquota" => {
            for (i, quota) in list(params, "quotas").enumerate() {
                let path = params_path(handler).field("quotas").index(i).field("name");
                instance_name((handler, positions), text(quota, "name").as_deref(), path, instances, out);
            }
        }
        "prometheus" => {
            for (i, metric) in list(params, "metrics").enumerate() {
                let path = params_path(handler).field("metrics").index(i);
                let name = text(metric, "instance_name");
                let name = name.as_deref();
                instance_name((handler, positions), name, path.field("instanceName"), instances, out);
                if let Some(instance) = name.and_then(|name| instances.valid.get(name)) {
                    labels((handler, positions), metric, &path.field("labelNames"), instance, out);
                }
            }
        }
        _ => {}
    }
}

/// Reports quotas of `redisquota` that count in the window of another handler with the same Redis: as in Istio Mixer, a key there has the name of
/// the instance, and not that of the handler. With other limits or windows, neither of them is what its handler says.
pub(super) fn shared_windows(snapshot: &Snapshot, positions: &Positions, out: &mut Diagnostics) {
    let mut users: BTreeMap<(String, String), Vec<(Diagnostic, &HandlerConfig)>> = BTreeMap::new();
    for binding in snapshot.bindings.values() {
        let handler = &*binding.handler;
        let params = handler.params.shown().filter(|_| handler.adapter.info().name == "redisquota");
        let Some((params, redis)) =
            params.and_then(|params| Some((params, text(params, "redis_server_url")?)))
        else {
            continue;
        };
        let bound: BTreeSet<&str> = binding.instances.iter().map(|instance| &**instance.name()).collect();
        for (i, quota) in list(params, "quotas").enumerate() {
            let Some(name) = text(quota, "name").filter(|name| bound.contains(name.as_str())) else {
                continue;
            };
            let path = params_path(handler).field("quotas").index(i).field("name");
            let problem = Diagnostic::warning("quota-window-shared", path, String::new());
            let placed = positions.place(problem, &handler.key, &handler.origin);
            users.entry((redis.clone(), name)).or_default().push((placed, handler));
        }
    }
    for ((_, instance), mut users) in users {
        users.sort_by_key(|(problem, _)| (problem.file.clone(), line_of(problem)));
        let mut users = users.into_iter();
        let Some((first, owner)) = users.next() else { continue };
        let place = format!("{}:{}", first.file.as_deref().unwrap_or_default(), line_of(&first));
        for (mut problem, handler) in users.filter(|(_, handler)| handler.key != owner.key) {
            problem.message = format!(
                "`{}` and `{}` (at {place}) have one Redis and count `{instance}` in one window: what one of them grants is used up for both",
                handler.key, owner.key
            );
            out.push(problem.with_hint(
                "give one of them another database (`redis://HOST:PORT/1`) or an instance of its own, or use one handler in both rules",
            ));
        }
    }
}

fn line_of(problem: &Diagnostic) -> u32 {
    problem.span.map_or(0, |span| span.start.line)
}

/// The items of a field, by its proto name.
fn list<'p>(message: &'p dyn Shown, name: &str) -> impl Iterator<Item = &'p dyn Shown> {
    message.member(name).into_iter().flat_map(|list| list.items())
}

/// The text of a field, by its proto name.
fn text(message: &dyn Shown, name: &str) -> Option<String> {
    message.member(name)?.text()
}

fn instance_name(
    (handler, positions): (&HandlerConfig, &Positions),
    name: Option<&str>,
    path: FieldPath,
    instances: &Instances<'_>,
    out: &mut Diagnostics,
) {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return };
    if instances.valid.contains_key(name) || instances.faulty.contains(name) {
        return;
    }
    let from = format!("{name}.");
    let (full, _) =
        instances.valid.range::<str, _>((Bound::Included(&*from), Bound::Unbounded)).next().unzip();
    let full = full.filter(|full| full.split('.').next() == Some(name));
    let message = format!("there is no instance `{name}`; this entry is never used");
    let mut problem = Diagnostic::warning("instance-name-unknown", path, message);
    problem.hint = match full {
        Some(full) => Some(format!("instances are named in full here: `{full}`")),
        None => suggestion(name, instances.valid.keys().copied())
            .or_else(|| Some("a full name is NAME.instance.NAMESPACE".to_owned())),
    };
    out.push(positions.place(problem, &handler.key, &handler.origin));
}

fn labels(
    (handler, positions): (&HandlerConfig, &Positions),
    metric: &dyn Shown,
    path: &FieldPath,
    instance: &InstanceConfig,
    out: &mut Diagnostics,
) {
    let labels: Vec<String> = list(metric, "label_names").filter_map(|label| label.text()).collect();
    let labels = labels.iter().map(String::as_str).collect::<BTreeSet<_>>();
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
    let problem = Diagnostic::error("labels-differ", path.clone(), message)
        .with_hint("label names and dimensions must be the same");
    out.push(positions.place(problem, &handler.key, &handler.origin));
}
