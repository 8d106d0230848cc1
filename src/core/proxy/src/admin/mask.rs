//! Masks of `/config_dump`: which fields of it are shown.

use serde_json::{Map, Value};

/// What a field of the dump is, as far as masks look into it.
#[derive(Debug)]
pub(super) enum Kind {
    /// It has no fields, or there are several of it.
    Leaf,
    /// A message with these fields.
    Message(&'static [(&'static str, Kind)]),
    /// A message of the configuration, as it was written. Which fields its type has is not known here: one that it does not have hides the others.
    Written,
    /// The same as part of an entry. As with Envoy, a path leads to a field of it.
    Entry,
}

use Kind::{Entry, Leaf, Message, Written};

/// The fields of `BootstrapConfigDump`.
pub(super) static BOOTSTRAP: Kind = Message(&[("bootstrap", Written), ("last_updated", Leaf)]);
/// The fields of `ClustersConfigDump`.
pub(super) static CLUSTERS: Kind = Message(&[
    ("version_info", Leaf),
    ("static_clusters", Leaf),
    ("dynamic_active_clusters", Leaf),
    ("dynamic_warming_clusters", Leaf),
]);
/// The fields of `ListenersConfigDump`.
pub(super) static LISTENERS: Kind =
    Message(&[("version_info", Leaf), ("static_listeners", Leaf), ("dynamic_listeners", Leaf)]);
/// The fields of a static cluster.
pub(super) static STATIC_CLUSTER: Kind = Message(&[("cluster", Entry), ("last_updated", Leaf)]);
/// The fields of a static listener.
pub(super) static STATIC_LISTENER: Kind = Message(&[("listener", Entry), ("last_updated", Leaf)]);
/// The fields of a listener of a file.
pub(super) static DYNAMIC_LISTENER: Kind = Message(&[
    ("name", Leaf),
    ("active_state", STATE),
    ("warming_state", STATE),
    ("draining_state", STATE),
    (
        "error_state",
        Message(&[
            ("failed_configuration", PACKED),
            ("last_update_attempt", Leaf),
            ("details", Leaf),
            ("version_info", Leaf),
        ]),
    ),
    ("client_status", Leaf),
]);
const STATE: Kind = Message(&[("version_info", Leaf), ("listener", PACKED), ("last_updated", Leaf)]);
/// A message whose type is part of it: no mask looks into one that is in another message.
const PACKED: Kind = Message(&[("type_url", Leaf), ("value", Leaf)]);

/// Fields by their paths, as `google.protobuf.FieldMask` has them.
#[derive(Debug, Default)]
pub(super) struct Mask<'m>(Vec<Vec<&'m str>>);

impl<'m> Mask<'m> {
    /// A mask of paths with commas between them. Without any, everything is shown.
    pub(super) fn of(text: &'m str) -> Self {
        let paths = text.split(',').filter(|path| !path.is_empty());
        Self(paths.map(|path| path.split('.').collect()).collect())
    }

    /// Removes what is not part of the mask from a message. Returns false, and changes nothing, if a path is of no field of it.
    pub(super) fn trim(&self, message: &mut Value, kind: &Kind) -> bool {
        let paths: Vec<&[&str]> = self.0.iter().map(Vec::as_slice).collect();
        let is_of_it = paths.iter().all(|path| exists(path, kind));
        if is_of_it && !paths.is_empty() {
            keep(message, &paths);
        }
        is_of_it
    }
}

/// Whether a message has a field of this path.
fn exists(path: &[&str], kind: &Kind) -> bool {
    match (path, kind) {
        ([], Entry) => false,
        ([], _) | (_, Written | Entry) => true,
        ([name, rest @ ..], Message(fields)) => {
            fields.iter().any(|(known, kind)| known == name && exists(rest, kind))
        }
        (_, Leaf) => false,
    }
}

/// Keeps what the paths lead to, and the type.
fn keep(message: &mut Value, paths: &[&[&str]]) {
    let Value::Object(fields) = message else { return };
    let mut kept = Map::new();
    for (name, mut value) in std::mem::take(fields) {
        if name == "@type" {
            kept.insert(name, value);
            continue;
        }
        let rests: Vec<&[&str]> = paths
            .iter()
            .filter_map(|path| {
                path.split_first().filter(|(first, _)| is_named(first, &name)).map(|(_, rest)| rest)
            })
            .collect();
        if rests.is_empty() {
            continue;
        }
        if rests.iter().all(|rest| !rest.is_empty()) {
            keep(&mut value, &rests);
        }
        kept.insert(name, value);
    }
    *fields = kept;
}

/// Whether a name of JSON, which may be in camel case, is that of a field.
fn is_named(field: &str, name: &str) -> bool {
    let mut upper = false;
    let camel = field.chars().filter_map(|c| match c {
        '_' => {
            upper = true;
            None
        }
        c if std::mem::take(&mut upper) => Some(c.to_ascii_uppercase()),
        c => Some(c),
    });
    field == name || camel.eq(name.chars())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_keeps_the_fields_that_it_names_or_is_none_of_the_message() {
        let cluster = || json!({"cluster": {"@type": "c", "name": "a", "connectTimeout": "1s", "lb": {"x": 1, "y": 2}}});
        for (mask, expected) in [
            ("", Some(cluster())),
            (",", Some(cluster())),
            ("last_updated", Some(json!({}))),
            ("cluster", None),
            ("cluster.name", Some(json!({"cluster": {"@type": "c", "name": "a"}}))),
            (
                "cluster.lb.y,cluster.connect_timeout",
                Some(json!({"cluster": {"@type": "c", "connectTimeout": "1s", "lb": {"y": 2}}})),
            ),
            ("cluster.lb.x,cluster.lb", Some(json!({"cluster": {"@type": "c", "lb": {"x": 1, "y": 2}}}))),
            ("clusters", None),
            ("cluster.name,version_info", None),
            ("last_updated.x", None),
        ] {
            let mut message = cluster();
            let is_of_it = Mask::of(mask).trim(&mut message, &STATIC_CLUSTER);
            assert_eq!((is_of_it, message), (expected.is_some(), expected.unwrap_or_else(cluster)), "{mask}");
        }
        for (mask, is_of_it) in
            [("bootstrap", true), ("bootstrap.node.id", true), ("bootstrap,static_clusters", false)]
        {
            assert_eq!(Mask::of(mask).trim(&mut json!({"bootstrap": {}}), &BOOTSTRAP), is_of_it, "{mask}");
        }
        let state = || json!({"name": "l", "active_state": {"version_info": "1", "listener": {"name": "l"}}});
        for (mask, is_of_it) in [
            ("active_state.listener", true),
            ("active_state.version_info,name", true),
            ("active_state.listener.name", false),
            ("active_state.nope", false),
        ] {
            assert_eq!(Mask::of(mask).trim(&mut state(), &DYNAMIC_LISTENER), is_of_it, "{mask}");
        }
    }
}
