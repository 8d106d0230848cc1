//! What changed together with a handler or an instance that goes back to its last good version.
//!
//! An instance that was made for the new version of a handler may mean nothing to the last one, which then refuses nobody: a list of
//! names that is given addresses.

use super::corrections::Corrections;
use super::kept::Reason;
use crate::snapshot::{ActionConfig, Snapshot, SnapshotBuilder};
use mixer_config::{Node, RawResource, ResourceKey};

/// For each handler and instance whose new version has an error: the parts that rules use with it, and the rules that use other parts than
/// in their last good version. A rule of which only the condition changed is not among them, and neither is what is new.
pub(super) fn changed_together(
    snapshot: &Snapshot,
    corrections: &Corrections<'_>,
    builder: &SnapshotBuilder,
) -> Vec<(Vec<ResourceKey>, Reason)> {
    let (last, read) = (corrections.last, &corrections.read);
    let is_other = |rule: &ResourceKey| match (last.get(rule), read.resources.get(rule)) {
        (Some(good), Some(new)) => parts_named(good) != parts_named(new),
        _ => false,
    };
    let of_part = |(part, reason): (ResourceKey, Reason)| {
        let mut keys = Vec::new();
        for rule in &snapshot.rules {
            let with = rule.actions.iter().map(parts_of).filter(|parts| parts.contains(&part));
            let known = keys.len();
            keys.extend(with.flatten());
            if keys.len() > known && is_other(&rule.key) {
                keys.push(rule.key.clone());
            }
        }
        keys.retain(|key| *key != part && last.get(key).is_some());
        let why = format!("it is used together with {part}, whose new version has an error");
        (keys, Reason::new(why, reason.problem))
    };
    corrections.faulty_parts(builder).into_iter().map(of_part).collect()
}

/// The handler and the instances of an action.
fn parts_of(action: &ActionConfig) -> Vec<ResourceKey> {
    let instances = action.instances.iter().map(|instance| instance.key.clone());
    std::iter::once(action.handler.key.clone()).chain(instances).collect()
}

/// The handlers and instances that the actions of a rule name, in their order.
fn parts_named(rule: &RawResource) -> Vec<String> {
    let document = rule.document();
    let actions = document.get("spec").and_then(|spec| spec.get("actions"));
    let names = actions.map_or(&[][..], Node::items).iter().flat_map(|action| {
        let instances = action.get("instances").map_or(&[][..], Node::items);
        action.get("handler").into_iter().chain(instances)
    });
    names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
}
