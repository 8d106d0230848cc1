//! Instances: compiled from their parameters, evaluated over attributes.

use std::sync::Arc;

use bumpalo::Bump;
use mixer_attribute::{
    AttributeBag, SignedDuration, StringMap, Timestamp, Value, ValueType, Vocabulary, text,
};
use mixer_config::message::{find_field, upper_camel};
use mixer_config::{Node, NodeKind};
use mixer_engine::adapter::{BoundInstance, Leaf};
use mixer_engine::template::{self, FieldInfo, FieldKind, Name};
use mixer_expr::{self, Language, Program};

/// An instance that can be evaluated.
pub(super) struct Compiled {
    pub(super) bound: BoundInstance,
    programs: Vec<Option<Program>>,
    names: Vec<String>,
}

impl Compiled {
    /// Compiles the instance of a case.
    pub(super) fn new(node: &Node, vocabulary: &Vocabulary) -> Result<Self, String> {
        let text =
            |key: &str| node.get(key).and_then(Node::as_str).ok_or_else(|| format!("instance without {key}"));
        let (name, template_name) = (text("name")?, text("template")?);
        let template =
            template::find(template_name).ok_or_else(|| format!("unknown template {template_name}"))?;
        let empty = Node::default();
        let mut collect =
            Collect { vocabulary, leaves: vec![], programs: vec![], names: vec![], messages: vec![] };
        collect.fields(&template.fields, node.get("params").unwrap_or(&empty), "")?;
        let bound = BoundInstance {
            name: format!("{name}.instance.istio-system").into(),
            template,
            leaves: collect.leaves.into(),
            messages: collect.messages,
            plan: None,
            read_outputs: Arc::default(),
        };
        Ok(Self { bound, programs: collect.programs, names: collect.names })
    }

    /// The values of all leaves.
    ///
    /// Errors: the text of the server for an instance that cannot be evaluated.
    pub(super) fn evaluate<'a>(&'a self, bag: &AttributeBag<'a>) -> Result<Vec<Option<Value<'a>>>, String> {
        let one = |(program, name): (&'a Option<Program>, &String)| match program {
            None => Ok(None),
            Some(program) => program
                .eval(bag)
                .map(Some)
                .map_err(|error| format!("evaluation failed at [{}]'{name}': '{error}'", self.bound.name)),
        };
        self.programs.iter().zip(&self.names).map(one).collect()
    }
}

struct Collect<'v> {
    vocabulary: &'v Vocabulary,
    leaves: Vec<Leaf>,
    programs: Vec<Option<Program>>,
    names: Vec<String>,
    messages: Vec<Name>,
}

impl Collect<'_> {
    fn fields(&mut self, fields: &[FieldInfo], node: &Node, name_path: &str) -> Result<(), String> {
        for field in fields {
            let value = find_field(node, &field.name).filter(|n| n.kind != NodeKind::Null);
            let name = format!("{name_path}{}", upper_camel(&field.name));
            match &field.kind {
                FieldKind::Value | FieldKind::Typed(_) => {
                    self.leaf(&field.path, None, value, name)?;
                }
                FieldKind::ValueMap => {
                    let mut entries: Vec<_> = value.map(Node::entries).unwrap_or_default().iter().collect();
                    entries.sort_by(|a, b| a.key.cmp(&b.key));
                    for entry in entries {
                        let name = format!("{name}[{}]", entry.key);
                        self.leaf(&field.path, Some(&entry.key), Some(&entry.value), name)?;
                    }
                }
                FieldKind::Message(inner) => {
                    if value.is_some() {
                        self.messages.push(field.name.clone());
                    }
                    let empty = Node::default();
                    self.fields(inner, value.unwrap_or(&empty), &format!("{name}."))?;
                }
            }
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        field: &str,
        key: Option<&str>,
        node: Option<&Node>,
        name: String,
    ) -> Result<(), String> {
        let text = node.and_then(Node::as_str).unwrap_or_default();
        let program = if text.is_empty() {
            None
        } else {
            let compiled = mixer_expr::compile(Language::Cexl, text, self.vocabulary);
            Some(compiled.map_err(|e| format!("{name}: {text}: {e}"))?)
        };
        let value_type = program.as_ref().map_or(ValueType::Unspecified, Program::value_type);
        self.leaves.push(Leaf::new(field, key, value_type));
        self.programs.push(program);
        self.names.push(name);
        Ok(())
    }
}

/// A bag with the attributes of a step.
pub(super) fn bag<'a>(
    attributes: &Node,
    vocabulary: &'a Arc<Vocabulary>,
    arena: &'a Bump,
) -> Result<AttributeBag<'a>, String> {
    let mut bag = AttributeBag::empty(vocabulary, arena);
    for entry in attributes.entries() {
        let slot = vocabulary.slot(entry.key.as_bytes());
        let typed = slot.and_then(|slot| Some((slot, vocabulary.value_type(slot)?)));
        let (slot, value_type) = typed.ok_or_else(|| format!("undeclared attribute {}", entry.key))?;
        let value = value(&entry.value, value_type, arena)
            .ok_or_else(|| format!("attribute {} is not a {value_type}", entry.key))?;
        bag.set(slot, value);
    }
    Ok(bag)
}

fn value<'a>(node: &Node, value_type: ValueType, arena: &'a Bump) -> Option<Value<'a>> {
    let text = node.as_str();
    let bytes = |text: &str| -> &'a [u8] { arena.alloc_slice_copy(text.as_bytes()) };
    Some(match value_type {
        ValueType::String | ValueType::Uri | ValueType::DnsName | ValueType::EmailAddress => {
            Value::String(bytes(text?))
        }
        ValueType::Int64 => match node.kind {
            NodeKind::Int(value) => Value::Int64(value),
            _ => return None,
        },
        ValueType::Double => match node.kind {
            NodeKind::Int(value) => Value::Double(value as f64),
            NodeKind::Float(value) => Value::Double(value),
            _ => return None,
        },
        ValueType::Bool => match node.kind {
            NodeKind::Bool(value) => Value::Bool(value),
            _ => return None,
        },
        ValueType::Timestamp => Value::Timestamp(Timestamp::parse_rfc3339(text?).ok()?),
        ValueType::Duration => Value::Duration(SignedDuration::parse(text?).ok()?),
        ValueType::IpAddress => {
            let address = text?;
            // An address with a colon has 16 bytes, also a mapped IPv4 address.
            let octets = match address.parse().ok()? {
                std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
                std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            debug_assert!(text::ip_from_bytes(&octets).is_some());
            Value::Bytes(arena.alloc_slice_copy(&octets))
        }
        ValueType::StringMap => {
            let entries = node.entries().iter();
            let entries = entries
                .map(|e| Some((bytes(&e.key), bytes(e.value.as_str()?))))
                .collect::<Option<Vec<_>>>()?;
            let entries: &'a [_] = arena.alloc_slice_copy(&entries);
            Value::StringMap(arena.alloc(StringMap { entries, source: None }))
        }
        ValueType::Unspecified => return None,
    })
}
