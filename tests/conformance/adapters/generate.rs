//! Attribute generators: their outputs, and the bindings that make attributes of them.

use std::sync::Arc;

use bumpalo::Bump;
use mixer_attribute::{AttributeBag, StringMap, Value, Vocabulary, VocabularyBuilder};
use mixer_config::Node;
use mixer_engine::adapter::{Generated, GeneratedValue};
use mixer_engine::template;
use mixer_expr::{self, Language, Program};
use serde_json::{Value as Json, json};

/// What `$out.` stands for.
const OUTPUT: &str = "adapter_template_kubernetes.output.";

/// Declares the outputs of the generators.
pub(super) fn declare(builder: &mut VocabularyBuilder) {
    for output in template::find("kubernetes").iter().flat_map(|template| &*template.output) {
        builder.declare(&format!("{OUTPUT}{}", output.name), output.value_type);
    }
}

/// The attribute bindings of an instance.
pub(super) struct Bindings(Vec<(String, Program)>);

impl Bindings {
    pub(super) fn of(instance: &Node, vocabulary: &Vocabulary) -> Result<Self, String> {
        let bindings = instance.get("attributeBindings").map(Node::entries).unwrap_or_default();
        let compiled = bindings.iter().map(|entry| {
            let text = entry.value.as_str().unwrap_or_default().replace("$out.", OUTPUT);
            let program = mixer_expr::compile(Language::Cexl, &text, vocabulary);
            Ok((entry.key.to_string(), program.map_err(|error| format!("{}: {error}", entry.key))?))
        });
        compiled.collect::<Result<_, String>>().map(Self)
    }

    /// The attributes, as `want` writes them.
    pub(super) fn apply<'a>(
        &'a self,
        generated: &Generated,
        bag: &mut AttributeBag<'a>,
        vocabulary: &Arc<Vocabulary>,
        arena: &'a Bump,
    ) -> Result<Json, String> {
        let template = template::find("kubernetes").ok_or("there is no template")?;
        for (position, value) in &generated.values {
            let output =
                template.output.get(*position).ok_or_else(|| format!("there is no output {position}"))?;
            let slot = vocabulary.slot(format!("{OUTPUT}{}", output.name).as_bytes());
            bag.set(slot.ok_or_else(|| format!("{} is not declared", output.name))?, copied(value, arena));
        }
        let bound = self.0.iter().map(|(attribute, program)| {
            let value = program.eval(bag).map_err(|error| error.to_string())?;
            Ok((attribute.clone(), shown(value)))
        });
        let attributes: serde_json::Map<_, _> = bound.collect::<Result<_, String>>()?;
        Ok(json!({"attrs": attributes}))
    }
}

fn copied<'a>(value: &GeneratedValue, arena: &'a Bump) -> Value<'a> {
    let bytes = |text: &str| -> &'a [u8] { arena.alloc_slice_copy(text.as_bytes()) };
    match value {
        GeneratedValue::String(text) => Value::String(bytes(text)),
        GeneratedValue::Int64(value) => Value::Int64(*value),
        GeneratedValue::Double(value) => Value::Double(*value),
        GeneratedValue::Bool(value) => Value::Bool(*value),
        GeneratedValue::Timestamp(time) => Value::Timestamp(*time),
        GeneratedValue::Duration(duration) => Value::Duration(*duration),
        GeneratedValue::IpAddress(std::net::IpAddr::V4(ip)) => {
            Value::Bytes(arena.alloc_slice_copy(&ip.octets()))
        }
        GeneratedValue::IpAddress(std::net::IpAddr::V6(ip)) => {
            Value::Bytes(arena.alloc_slice_copy(&ip.octets()))
        }
        GeneratedValue::StringMap(entries) => {
            let entries =
                arena.alloc_slice_fill_iter(entries.iter().map(|(key, value)| (bytes(key), bytes(value))));
            Value::StringMap(arena.alloc(StringMap { entries, source: None }))
        }
    }
}

fn shown(value: Value<'_>) -> Json {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::String(bytes) => text(bytes).into(),
        Value::Bytes(bytes) => match <[u8; 4]>::try_from(bytes) {
            Ok(v4) => std::net::Ipv4Addr::from(v4).to_string().into(),
            Err(_) => match <[u8; 16]>::try_from(bytes) {
                Ok(v6) => std::net::Ipv6Addr::from(v6).to_canonical().to_string().into(),
                Err(_) => format!("{bytes:?}").into(),
            },
        },
        Value::StringMap(map) => {
            let entries = map.entries.iter().map(|(key, value)| (text(key), text(value).into()));
            Json::Object(entries.collect())
        }
        other => format!("{other:?}").into(),
    }
}
