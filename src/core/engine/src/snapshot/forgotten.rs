//! Fields that are written without a value: it was forgotten, or the file was cut off. As if they were not there, a blacklist would be a list of
//! those who are admitted, and a default that denies none.

use mixer_config::{Diagnostic, FieldPath, Node, NodeKind};

/// A field, and how it is called.
pub(crate) type Forgotten = (FieldPath, Box<str>);

/// A field in any case, also if it is null.
fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let found = node.entries().iter().find(|entry| entry.key.eq_ignore_ascii_case(name));
    found.map(|entry| &entry.value)
}

/// The fields without a value of a resource in its `spec` at any depth, and the `spec` itself.
pub fn in_spec(document: &Node) -> Vec<Forgotten> {
    let path = FieldPath::root().field("spec");
    let mut found = Vec::new();
    match field(document, "spec") {
        Some(spec) if spec.kind == NodeKind::Null => found.push((path, "spec".into())),
        Some(spec) => find_null(spec, &|| path.clone(), &mut found),
        None => {}
    }
    found
}

/// A field of the `spec`, and what is below it.
pub(super) fn in_field(document: &Node, name: &str) -> Vec<Forgotten> {
    let path = FieldPath::root().field("spec").field(name);
    let mut found = Vec::new();
    match field(document, "spec").and_then(|spec| field(spec, name)) {
        Some(value) if value.kind == NodeKind::Null => found.push((path, name.into())),
        Some(value) => find_null(value, &|| path.clone(), &mut found),
        None => {}
    }
    found
}

/// What an instance has that checks, or makes attributes.
pub(super) fn in_instance(document: &Node) -> Vec<Forgotten> {
    let fields = ["params", "attributeBindings", "attribute_bindings"];
    fields.into_iter().flat_map(|name| in_field(document, name)).collect()
}

/// Its annotations, if they are written without any.
pub(super) fn annotations(document: &Node) -> Option<Forgotten> {
    let all = field(field(document, "metadata")?, "annotations")?;
    let field = || FieldPath::root().field("metadata").field("annotations");
    (all.kind == NodeKind::Null).then(|| (field(), "annotations".into()))
}

/// The error of a field whose value was forgotten, or cut off.
pub(super) fn empty_parameter((field, name): Forgotten) -> Diagnostic {
    let message = format!("`{name}` has no value, as if it was not there");
    let hint = "give it a value, or remove it";
    Diagnostic::error("parameter-empty", field, message).with_hint(hint).accepted_by_istio()
}

/// The fields below a node that are null. `path`: where the node is.
pub(super) fn find_null(node: &Node, path: &dyn Fn() -> FieldPath, found: &mut Vec<Forgotten>) {
    for (index, item) in node.items().iter().enumerate() {
        match item.kind {
            NodeKind::Null => found.push((path().index(index), format!("entry {}", index + 1).into())),
            _ => find_null(item, &|| path().index(index), found),
        }
    }
    for entry in node.entries() {
        let field = || path().field(&entry.key);
        match entry.value.kind {
            NodeKind::Null => found.push((field(), (&*entry.key).into())),
            _ => find_null(&entry.value, &field, found),
        }
    }
}
