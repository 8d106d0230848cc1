//! The parameters of an instance: one expression per field of its template.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use crate::template::{FieldInfo, FieldKind, TEMPLATES, TemplateInfo, Variety};
use mixer_config::message::{
    DecodeContext, DecodeError, Field, FieldInfo as Known, enter_message, find_field, lower_camel,
    reject_unknown, upper_camel,
};
use mixer_config::{FieldPath, Node};

/// A leaf field of the parameters.
#[derive(Debug)]
pub(super) struct ParamLeaf {
    /// The name in the adapter API: `value`, `subject.user`.
    pub(super) field: &'static str,
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
    pub(super) messages: Vec<&'static str>,
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
    fields(template.fields, node, &scope, &mut context, &mut params);
    let mut known = template.fields.iter().map(known_field).collect::<Vec<_>>();
    if template.variety == Variety::AttributeGenerator {
        known.push(Known { name: "attribute_bindings", number: u32::MAX });
        if let Some(value) = find_field(node, "attribute_bindings") {
            context.in_field("attribute_bindings", |c| Field::merge(&mut params.bindings, value, c));
        }
    }
    if present {
        reject_unknown(node, &format!("{}.InstanceParam", template.package), &known, &mut context);
    }
    (params, context.errors)
}

fn known_field(field: &FieldInfo) -> Known {
    Known { name: field.name, number: field.number }
}

/// The nesting of a field.
struct ParamScope {
    outer: Option<&'static str>,
    path: FieldPath,
}

fn fields(
    infos: &'static [FieldInfo],
    node: &Node,
    scope: &ParamScope,
    context: &mut DecodeContext,
    out: &mut Params,
) {
    for info in infos {
        let value = find_field(node, info.name);
        let path = scope.path.field(&lower_camel(info.name));
        context.in_field(info.name, |context| match info.kind {
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
                    out.messages.push(info.name);
                }
                let inside = ParamScope { outer: Some(info.name), path };
                fields(inner, value, &inside, context, out);
                if present {
                    let known = inner.iter().map(known_field).collect::<Vec<_>>();
                    let message = format!("authorization.{}InstanceParam", upper_camel(info.name));
                    reject_unknown(value, &message, &known, context);
                }
            }
        });
    }
}

fn leaf(
    info: &'static FieldInfo,
    scope: &ParamScope,
    key: Option<String>,
    text: String,
    path: FieldPath,
) -> ParamLeaf {
    let outer = scope.outer.map(upper_camel);
    let mut shown = upper_camel(info.name);
    if let Some(outer) = &outer {
        shown = format!("{outer}.{shown}");
    }
    if let Some(key) = &key {
        shown = format!("{shown}[{key}]");
    }
    let field = scope.outer.map_or(info.name, |outer| nested_name(outer, info.name));
    ParamLeaf { field, key: key.map(Into::into), shown: shown.into(), outer, kind: info.kind, text, path }
}

/// `subject.user` for `subject` and `user`. Leaks one string per nested field of the template table.
fn nested_name(outer: &'static str, inner: &'static str) -> &'static str {
    static NAMES: LazyLock<HashMap<(&'static str, &'static str), &'static str>> = LazyLock::new(|| {
        let mut names = HashMap::new();
        for field in TEMPLATES.iter().flat_map(|t| t.fields) {
            if let FieldKind::Message(inner) = field.kind {
                for nested in inner {
                    let name: &'static str =
                        Box::leak(format!("{}.{}", field.name, nested.name).into_boxed_str());
                    names.insert((field.name, nested.name), name);
                }
            }
        }
        names
    });
    NAMES.get(&(outer, inner)).copied().unwrap_or(inner)
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
                None => (None, leaf.field),
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
