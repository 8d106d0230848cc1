//! The parameters of an instance: one expression per field of its template.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::template::{FieldInfo, FieldKind, Name, TemplateInfo, Variety};
use mixer_config::message::{
    DecodeContext, DecodeError, Field, enter_message, find_field, lower_camel, reject_unknown, upper_camel,
};
use mixer_config::{FieldPath, Node};

/// A leaf field of the parameters.
#[derive(Debug)]
pub(super) struct ParamLeaf {
    /// The name in the adapter API: `value`, `subject.user`.
    pub(super) field: Name,
    /// The key of a map entry.
    pub(super) key: Option<Box<str>>,
    /// The name in error texts: `Value`, `Dimensions[user]`, `Subject.User`.
    pub(super) shown: Box<str>,
    /// The name of the enclosing message in error texts.
    pub(super) outer: Option<String>,
    /// The types it accepts.
    pub(super) kind: FieldKind,
    /// The expression; empty if not configured.
    pub(super) text: String,
    /// Relative to the parameters.
    pub(super) path: FieldPath,
}

/// Decoded parameters.
#[derive(Debug, Default)]
pub(super) struct Params {
    /// Leaf fields in field-number order, map keys in byte order.
    pub(super) leaves: Vec<ParamLeaf>,
    /// Configured nested messages.
    pub(super) messages: Vec<Name>,
    /// Attribute bindings.
    pub(super) bindings: BTreeMap<String, String>,
}

/// Decodes the parameters of an instance of `template`.
pub(super) fn decode(
    template: &TemplateInfo,
    node: Option<&Node>,
    path: FieldPath,
) -> (Params, Vec<DecodeError>) {
    let mut context = DecodeContext::at(path);
    let mut params = Params::default();
    let null = Node::default();
    let node = node.unwrap_or(&null);
    let present = enter_message(node, &mut context);
    let scope = ParamScope { outer: None, path: FieldPath::root() };
    fields(&template.fields, node, &scope, &mut context, &mut params);
    let is_generator = template.variety == Variety::AttributeGenerator;
    if let Some(value) = find_field(node, "attribute_bindings").filter(|_| is_generator) {
        context.in_field("attribute_bindings", |c| Field::merge(&mut params.bindings, value, c));
    }
    if present {
        let known = names(&template.fields).chain(is_generator.then_some("attribute_bindings"));
        reject_unknown(node, (&format!("{}.InstanceParam", template.package), &[]), known, &mut context);
    }
    (params, context.errors)
}

fn names(fields: &[FieldInfo]) -> impl Iterator<Item = &str> + Clone {
    fields.iter().map(|field| &*field.name)
}

/// The nesting of a field.
struct ParamScope<'t> {
    outer: Option<&'t str>,
    path: FieldPath,
}

fn fields(
    infos: &[FieldInfo],
    node: &Node,
    scope: &ParamScope<'_>,
    context: &mut DecodeContext,
    out: &mut Params,
) {
    for info in infos {
        let value = find_field(node, &info.name);
        let path = scope.path.field(&lower_camel(&info.name));
        context.in_named_field(info.name.shared(), |context| match &info.kind {
            FieldKind::Value | FieldKind::Typed(_) => {
                let mut text = String::new();
                if let Some(value) = value {
                    text.merge(value, context);
                }
                out.leaves.push(leaf(info, scope, None, text, path));
            }
            FieldKind::ValueMap => {
                let mut texts = BTreeMap::<String, String>::new();
                if let Some(value) = value {
                    Field::merge(&mut texts, value, context);
                }
                for (key, text) in texts {
                    let path = path.key(&key);
                    out.leaves.push(leaf(info, scope, Some(key), text, path));
                }
            }
            FieldKind::Message(inner) => {
                let null = Node::default();
                let value = value.unwrap_or(&null);
                let present = enter_message(value, context);
                if present {
                    out.messages.push(info.name.clone());
                }
                let inside = ParamScope { outer: Some(&info.name), path };
                fields(inner, value, &inside, context, out);
                if present {
                    let message = format!("authorization.{}InstanceParam", upper_camel(&info.name));
                    reject_unknown(value, (&message, &[]), names(inner), context);
                }
            }
        });
    }
}

fn leaf(
    info: &FieldInfo,
    scope: &ParamScope<'_>,
    key: Option<String>,
    text: String,
    path: FieldPath,
) -> ParamLeaf {
    let outer = scope.outer.map(upper_camel);
    let mut shown = upper_camel(&info.name);
    if let Some(outer) = &outer {
        shown = format!("{outer}.{shown}");
    }
    if let Some(key) = &key {
        shown = format!("{shown}[{key}]");
    }
    ParamLeaf {
        field: info.path.clone(),
        key: key.map(Into::into),
        shown: shown.into(),
        outer,
        kind: info.kind.clone(),
        text,
        path,
    }
}

impl Params {
    /// The configured fields, for dumps.
    pub(super) fn to_json(&self) -> Json {
        let mut root = Map::new();
        for message in &self.messages {
            root.insert(lower_camel(message), Json::Object(Map::new()));
        }
        for leaf in self.leaves.iter().filter(|l| !l.text.is_empty() || l.key.is_some()) {
            let text = Json::from(leaf.text.clone());
            let (outer, name) = match leaf.field.split_once('.') {
                Some((outer, name)) => (Some(outer), name),
                None => (None, &*leaf.field),
            };
            let Some(message) = (match outer {
                Some(outer) => child(&mut root, outer),
                None => Some(&mut root),
            }) else {
                continue;
            };
            match &leaf.key {
                Some(key) => {
                    if let Some(map) = child(message, name) {
                        map.insert(key.to_string(), text);
                    }
                }
                None => {
                    message.insert(lower_camel(name), text);
                }
            }
        }
        if !self.bindings.is_empty() {
            let bindings = self.bindings.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
            root.insert("attributeBindings".to_owned(), Json::Object(bindings));
        }
        Json::Object(root)
    }
}

/// The object in a field, inserted if missing.
fn child<'m>(object: &'m mut Map<String, Json>, name: &str) -> Option<&'m mut Map<String, Json>> {
    object.entry(lower_camel(name)).or_insert_with(|| Json::Object(Map::new())).as_object_mut()
}
