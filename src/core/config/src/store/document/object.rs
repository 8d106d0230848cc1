//! Objects of servers: from JSON, or what a protobuf message is as JSON, to resources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::identity::{self, Identity};
use super::{Broken, ChunkPlace, revision};
use crate::store::IdentityRule;
use crate::{Diagnostic, FieldPath, MappingEntry, Node, NodeKind, Origin, RawResource, Span, yaml};

/// An object as its server has it.
#[derive(Debug, Clone, Default)]
pub struct SourceObject {
    /// `GROUP/VERSION`; may be empty.
    pub api_version: String,
    /// The kind; never empty.
    pub kind: String,
    /// Empty for one of no namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The version that the server gives it, opaque.
    pub version: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The specification; null without one.
    pub spec: Value,
    /// What stands beside the specification, but not its status.
    pub beside: Map<String, Value>,
}

/// A resource, or why an object is none.
pub type ReadObject = Result<Arc<RawResource>, Box<Broken>>;

/// A longer name of a member may be read as something else.
const MAX_PLAIN_KEY: usize = 256;

/// kubectl repeats the whole object there.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The resource of an object. `origin`: its name in diagnostics, which stands in place of a file.
///
/// The text of the resource is canonical JSON of what counts: kind, name, namespace, labels, annotations and what is beside the
/// metadata, with sorted members. Resources are therefore equal whenever their objects say the same, whatever the order, the
/// formatting and the versions that the server gives them. Everything after this reads it as it reads a document of a file.
///
/// Errors: it has no identity, or exceeds the bounds of a document.
pub fn read_object(origin: &Arc<str>, object: SourceObject) -> ReadObject {
    let version = object.version.as_str().into();
    let document = canonical(object);
    let text: Arc<str> = text_of(&document).into();
    let place = ChunkPlace { file: origin, index: 0, line: 0 };
    let broken = |mut problem: Diagnostic| {
        problem.chunk = None;
        let (file, text) = (Arc::clone(origin), Arc::clone(&text));
        Box::new(Broken { file, document: None, text, problem, keeps_last: false })
    };
    let identity = match identity_of(&document, &text) {
        Some(identity) => identity,
        None => {
            let parsed = yaml::parse(&text).map_err(|error| broken(place.syntax_error(&error)))?;
            identity::identify(&parsed.root, IdentityRule::Complete)
                .map_err(|why| broken(place.unidentified(&why, &text)))?
        }
    };
    let Identity { key, annotations, mut envelope } = identity;
    envelope.version = version;
    let revision = revision(text.as_bytes());
    let origin = Origin::of_object(origin, text);
    // The tree takes several times the text, and objects come all at once: the text is parsed when the resource is built.
    Ok(Arc::new(RawResource::new(key, annotations, envelope, origin, revision, None)))
}

/// An object that is none, for this reason, although it has an identity. `origin`: its name.
pub fn unreadable_object(origin: &Arc<str>, object: SourceObject, why: &str, hint: &str) -> ReadObject {
    let text: Arc<str> = text_of(&canonical(object)).into();
    let problem = Diagnostic::error("store-unreadable", FieldPath::root(), format!("{origin}: {why}"));
    let problem = Diagnostic { file: Some(Arc::clone(origin)), ..problem.with_hint(hint) };
    Err(Box::new(Broken { file: Arc::clone(origin), document: None, text, problem, keeps_last: false }))
}

/// The identity of a document, without parsing its text. `None` if only the text tells: it may exceed the bounds of a document, or a problem
/// needs its place.
fn identity_of(document: &Value, text: &str) -> Option<Identity> {
    let mut values = 0;
    if text.len() > yaml::MAX_BYTES {
        return None;
    }
    let root = node_of(document, 0, &mut values)?;
    let identity = identity::identify(&root, IdentityRule::Complete).ok()?;
    identity.envelope.unknown.is_empty().then_some(identity)
}

/// The tree of a value, as its text would give it but for places. `None` if it is not far within the bounds of a document.
fn node_of(value: &Value, depth: usize, values: &mut usize) -> Option<Node> {
    *values += 1;
    if depth > yaml::MAX_DEPTH / 2 || *values > yaml::MAX_NODES / 4 {
        return None;
    }
    let kind = match value {
        Value::Null => NodeKind::Null,
        Value::Bool(value) => NodeKind::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => NodeKind::Int(number),
            None => NodeKind::Float(number.as_f64()?),
        },
        Value::String(text) => NodeKind::String(text.as_str().into()),
        Value::Array(items) => {
            let nodes = items.iter().map(|item| node_of(item, depth + 1, values));
            NodeKind::Sequence(nodes.collect::<Option<_>>()?)
        }
        Value::Object(members) => {
            let mut entries = Vec::with_capacity(members.len());
            for (name, value) in members {
                if name.len() > MAX_PLAIN_KEY {
                    return None;
                }
                let value = node_of(value, depth + 1, values)?;
                entries.push(MappingEntry { key: name.as_str().into(), key_span: Span::default(), value });
            }
            NodeKind::Mapping(entries)
        }
    };
    Some(Node::synthetic(kind))
}

/// The object as a document in canonical order.
fn canonical(object: SourceObject) -> Value {
    let SourceObject {
        api_version,
        kind,
        namespace,
        name,
        labels,
        mut annotations,
        mut spec,
        mut beside,
        ..
    } = object;
    annotations.remove(LAST_APPLIED);
    let mut metadata = Map::new();
    let texts = |texts: BTreeMap<String, String>| {
        texts.into_iter().map(|(k, v)| (k, v.into())).collect::<Map<_, _>>()
    };
    for (key, value) in [("name", name), ("namespace", namespace)] {
        if !value.is_empty() {
            metadata.insert(key.to_owned(), value.into());
        }
    }
    for (key, value) in [("labels", labels), ("annotations", annotations)] {
        if !value.is_empty() {
            metadata.insert(key.to_owned(), texts(value).into());
        }
    }
    let mut document = Map::new();
    if !api_version.is_empty() {
        document.insert("apiVersion".to_owned(), api_version.into());
    }
    document.insert("kind".to_owned(), kind.into());
    document.insert("metadata".to_owned(), metadata.into());
    beside.sort_keys();
    for (name, mut value) in beside {
        value.sort_all_objects();
        document.entry(name).or_insert(value);
    }
    if !spec.is_null() {
        spec.sort_all_objects();
        document.insert("spec".to_owned(), spec);
    }
    Value::Object(document)
}

/// The canonical text of a document.
fn text_of(document: &Value) -> String {
    let mut text = String::new();
    write(document, 0, &mut text);
    text
}

/// Writes JSON that is YAML as well: without the characters that YAML does not allow in a quoted text, or reads as line breaks, and
/// without exponents.
fn write(value: &Value, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str("  "));
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                line(depth + 1, out);
                write_text(name, out);
                out.push_str(": ");
                write(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                line(depth + 1, out);
                write(item, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Value::String(text) => write_text(text, out),
        Value::Number(number) => match (number.is_f64(), number.as_f64()) {
            (true, Some(value)) => {
                let text = value.to_string();
                out.push_str(&text);
                out.push_str(if text.contains('.') { "" } else { ".0" });
            }
            _ => out.push_str(&number.to_string()),
        },
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\0'..'\u{20}'
            | '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                // Writing to a text does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn rule(spec: Value) -> SourceObject {
        SourceObject {
            api_version: "config.istio.io/v1alpha2".to_owned(),
            kind: "rule".to_owned(),
            namespace: "shop".to_owned(),
            name: "r".to_owned(),
            version: "7".to_owned(),
            spec,
            ..SourceObject::default()
        }
    }

    fn read(object: SourceObject) -> Arc<RawResource> {
        read_object(&"k8s://h:1/rules.config.istio.io/shop/r".into(), object).unwrap()
    }

    #[test]
    fn an_object_is_a_resource_without_a_file() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let annotations = BTreeMap::from([
            (LAST_APPLIED.to_owned(), "{\"spec\":{}}".to_owned()),
            ("policy.istio.io/lang".to_owned(), "CEL".to_owned()),
        ]);
        let object = SourceObject { labels, annotations, ..rule(json!({"match": "true"})) };
        let read = read(object);
        assert_eq!(read.key.to_string(), "r.rule.shop");
        assert_eq!((&*read.envelope.version, &*read.envelope.api_version), ("7", "config.istio.io/v1alpha2"));
        assert_eq!(read.annotations.keys().collect::<Vec<_>>(), ["policy.istio.io/lang"]);
        assert_eq!(read.origin.place(), "k8s://h:1/rules.config.istio.io/shop/r");
        let expected = "{\n  \"apiVersion\": \"config.istio.io/v1alpha2\",\n  \"kind\": \"rule\",\n  \"metadata\": {\n    \"name\": \"r\",\n    \
                        \"namespace\": \"shop\",\n    \"labels\": {\n      \"app\": \"web\"\n    },\n    \"annotations\": {\n      \
                        \"policy.istio.io/lang\": \"CEL\"\n    }\n  },\n  \"spec\": {\n    \"match\": \"true\"\n  }\n}";
        assert_eq!(&*read.origin.text, expected);
        // As a cache reads it.
        let again = crate::store::read_document(read.origin.clone()).unwrap();
        assert_eq!((again.revision, &again.key), (read.revision, &read.key));
    }

    #[test]
    fn objects_are_held_as_texts() {
        let read = read(rule(json!({"match": "a", "actions": [{"handler": "h", "instances": ["i"]}]})));
        assert!(!read.holds_tree(), "of a hundred thousand objects, trees took 250 MB until they were built");
        assert_eq!(read.document(), yaml::parse(&read.origin.text).unwrap().root);
    }

    #[test]
    fn an_object_is_parsed_once_when_its_resource_is_built() {
        let parsed = || yaml::PARSES.with(std::cell::Cell::get);
        let object = rule(json!({"match": "a", "actions": [{"handler": "h", "instances": ["i"]}]}));
        let before = parsed();
        let read = read(object);
        assert_eq!(parsed(), before);
        let _ = read.document();
        assert_eq!(parsed(), before + 1);
    }

    #[test]
    fn equality_is_that_of_what_is_said() {
        let one = read(rule(json!({"match": "a", "actions": [{"handler": "h", "instances": ["i"]}]})));
        let reordered = json!({"actions": [{"instances": ["i"], "handler": "h"}], "match": "a"});
        let two = read(SourceObject { version: "8".to_owned(), ..rule(reordered) });
        assert_eq!(one.revision, two.revision);
        let other = read(rule(json!({"match": "b"})));
        assert_ne!(one.revision, other.revision);
    }

    #[test]
    fn an_object_without_a_namespace_has_no_identity() {
        let origin: Arc<str> = "mcp://h:1/istio/policy/v1beta1/rules/r".into();
        let object = SourceObject { namespace: String::new(), ..rule(json!({})) };
        let broken = read_object(&origin, object).unwrap_err();
        assert_eq!(
            broken.unread().why,
            "mcp://h:1/istio/policy/v1beta1/rules/r: key elements are empty: metadata.namespace missing"
        );
        let problem = broken.problem.brief();
        assert!(problem.starts_with("mcp://h:1/istio/policy/v1beta1/rules/r: key elements"), "{problem}");
    }

    #[test]
    fn what_exceeds_the_bounds_of_a_document_is_refused() {
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        let broken = read_object(&"k8s://h:1/x".into(), rule(deep)).unwrap_err();
        assert!(broken.problem.message.contains("nesting is deeper than"), "{}", broken.problem.message);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no others", |f| f.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            prop_oneof![Just("yes"), Just("<<"), Just("1e3"), Just("\u{85}\u{2028}\u{feff}\u{7f}\0\r\n\t")]
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    fn is(node: &Node, value: &Value) -> bool {
        match (&node.kind, value) {
            (NodeKind::Null, Value::Null) => true,
            (NodeKind::Bool(a), Value::Bool(b)) => a == b,
            (NodeKind::Int(a), Value::Number(b)) => b.as_i64() == Some(*a),
            (NodeKind::Float(a), Value::Number(b)) => b.as_i64().is_none() && b.as_f64() == Some(*a),
            (NodeKind::String(a), Value::String(b)) => **a == *b,
            (NodeKind::Sequence(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is(a, b))
            }
            (NodeKind::Mapping(a), Value::Object(b)) => {
                a.len() == b.len()
                    && a.iter().all(|entry| b.get(&*entry.key).is_some_and(|b| is(&entry.value, b)))
            }
            _ => false,
        }
    }

    proptest! {
        /// Whatever stands in an object, also beside its specification.
        #[test]
        fn the_identity_is_that_of_the_text(
            value in any_value(),
            field in prop_oneof![Just("match"), Just("status"), Just("compiledAdapter"), Just("x")],
        ) {
            let beside = Map::from_iter([(field.to_owned(), value.clone())]);
            let object = SourceObject { beside, ..rule(json!({"params": value})) };
            let document = canonical(object);
            let text = text_of(&document);
            if let Some(found) = identity_of(&document, &text) {
                let root = yaml::parse(&text).unwrap().root;
                let expected = identity::identify(&root, IdentityRule::Complete).ok().unwrap();
                prop_assert_eq!((found.key, found.envelope), (expected.key, expected.envelope));
                prop_assert_eq!(found.annotations, expected.annotations);
            }
        }

        #[test]
        fn the_text_reads_back_as_the_object(value in any_value()) {
            let spec = json!({"value": value});
            let read = read(rule(spec.clone()));
            for _ in 0..2 {
                // However often it is read.
                let document = read.document();
                prop_assert!(is(document.get("spec").unwrap(), &spec), "{}", read.origin.text);
            }
        }
    }
}
