//! The parameters of a handler out of process, encoded as the message that its adapter declares.

use base64::Engine as _;

use crate::template::{
    Cardinality, Kind, MessageField, MessageId, Schema, WellKnown, WireType, put_bytes, put_duration,
    put_length, put_tag, put_timestamp, put_varint, put_zigzag,
};
use mixer_attribute::{SignedDuration, Timestamp};
use mixer_config::message::suggestion;
use mixer_config::{FieldPath, MappingEntry, Node, NodeKind};

/// Deepest nesting of messages.
const MAX_DEPTH: usize = 64;

/// What is wrong with a parameter.
#[derive(Debug)]
pub(super) struct ParamError {
    /// Relative to the parameters.
    pub(super) field: FieldPath,
    /// As Istio Mixer words it, with the messages around it.
    pub(super) text: String,
    /// What to do.
    pub(super) hint: Option<String>,
}

/// Encodes parameters. Fields are in the lexical order of their names as written, as Istio Mixer sends them.
///
/// Returns every problem, the one that Istio Mixer reports first.
pub(super) fn encode(schema: &Schema, message: MessageId, node: Option<&Node>) -> (Vec<u8>, Vec<ParamError>) {
    let mut encoder = Encoder { schema, errors: Vec::new(), around: Vec::new(), path: FieldPath::root() };
    let mut out = Vec::new();
    match node.map(|node| &node.kind) {
        None | Some(NodeKind::Null) => {}
        Some(NodeKind::Mapping(entries)) => encoder.message(message, entries, &mut out),
        Some(_) => encoder.error("the parameters are no mapping".to_owned(), None),
    }
    (out, encoder.errors)
}

struct Encoder<'s> {
    schema: &'s Schema,
    errors: Vec<ParamError>,
    /// The fields around the current one, for error texts.
    around: Vec<String>,
    path: FieldPath,
}

/// What a value is, as Istio Mixer names it.
fn found(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Null => "nil",
        NodeKind::Bool(_) => "bool",
        NodeKind::Int(_) | NodeKind::Float(_) => "float64",
        NodeKind::String(_) => "string",
        NodeKind::Sequence(_) => "[]interface {}",
        NodeKind::Mapping(_) => "map[string]interface {}",
    }
}

/// Entries in the lexical order of their keys.
fn sorted(entries: &[MappingEntry]) -> Vec<&MappingEntry> {
    let mut entries: Vec<&MappingEntry> = entries.iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries
}

impl Encoder<'_> {
    fn error(&mut self, text: String, hint: Option<String>) {
        let text = self.around.iter().rev().fold(text, |text, around| format!("/{around}: '{text}'"));
        self.errors.push(ParamError { field: self.path.clone(), text, hint });
    }

    /// Works on a field, an entry or an element.
    fn within(&mut self, path: FieldPath, around: Option<String>, work: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.path, path);
        let is_around = around.is_some();
        self.around.extend(around);
        work(self);
        if is_around {
            self.around.pop();
        }
        self.path = before;
    }

    fn message(&mut self, id: MessageId, entries: &[MappingEntry], out: &mut Vec<u8>) {
        let schema = self.schema;
        let Some(message) = schema.message(id) else { return };
        if self.around.len() > MAX_DEPTH {
            return self.error(format!("messages nest more than {MAX_DEPTH} deep"), None);
        }
        for entry in sorted(entries) {
            let path = self.path.field(&entry.key);
            let Some(field) = message.field(&entry.key) else {
                let names = message.fields.iter().map(|field| &*field.name);
                let hint = suggestion(&entry.key, names.clone()).unwrap_or_else(|| match names.count() {
                    0 => "it has no fields".to_owned(),
                    _ => {
                        let names: Vec<&str> = message.fields.iter().map(|field| &*field.name).collect();
                        format!("it has {}", names.join(", "))
                    }
                });
                let text = format!("field '{}' not found in message '{}'", entry.key, message.short_name());
                self.within(path, None, |encoder| encoder.error(text, Some(hint)));
                continue;
            };
            if !matches!(entry.value.kind, NodeKind::Null) {
                self.within(path, None, |encoder| encoder.field(field, &entry.key, &entry.value, out));
            }
        }
    }

    fn field(&mut self, field: &MessageField, name: &str, node: &Node, out: &mut Vec<u8>) {
        match &field.cardinality {
            Cardinality::One => self.value(field.number, &field.kind, name, name, node, out),
            Cardinality::Many { packed } => {
                let NodeKind::Sequence(items) = &node.kind else {
                    let wanted = format!("[]{}", wanted(&field.kind));
                    return self.mismatch(name, found(node), &wanted);
                };
                self.list(field, *packed, name, items, out);
            }
            Cardinality::Map { key } => {
                let NodeKind::Mapping(entries) = &node.kind else {
                    return self.mismatch(name, found(node), "map[string]interface {}");
                };
                for entry in sorted(entries) {
                    let path = self.path.key(&entry.key);
                    self.within(path, Some(format!("{name}[{}]", entry.key)), |encoder| {
                        put_tag(field.number, WireType::Bytes, out);
                        let written: Result<(), ()> = put_length(out, |out| {
                            let given = Node::synthetic(NodeKind::String(entry.key.clone()));
                            let given = match (key, &*entry.key) {
                                (Kind::Bool, "true") => Node::synthetic(NodeKind::Bool(true)),
                                (Kind::Bool, "false") => Node::synthetic(NodeKind::Bool(false)),
                                _ => given,
                            };
                            encoder.value(1, key, "key", "key", &given, out);
                            if !matches!(entry.value.kind, NodeKind::Null) {
                                encoder.value(2, &field.kind, "value", "value", &entry.value, out);
                            }
                            Ok(())
                        });
                        debug_assert!(written.is_ok());
                    });
                }
            }
        }
    }

    fn list(&mut self, field: &MessageField, packed: bool, name: &str, items: &[Node], out: &mut Vec<u8>) {
        let is_number = !matches!(field.kind, Kind::String | Kind::Bytes | Kind::Message(_));
        if packed && is_number {
            put_tag(field.number, WireType::Bytes, out);
            let written: Result<(), ()> = put_length(out, |out| {
                for (index, item) in items.iter().enumerate() {
                    let path = self.path.index(index);
                    self.within(path, None, |encoder| {
                        if let Some((_, encoded)) = encoder.number(&field.kind, name, item) {
                            out.extend_from_slice(&encoded);
                        }
                    });
                }
                Ok(())
            });
            debug_assert!(written.is_ok());
            return;
        }
        for (index, item) in items.iter().enumerate() {
            let path = self.path.index(index);
            let around = format!("{name}[{index}]");
            self.within(path, None, |encoder| {
                encoder.value(field.number, &field.kind, name, &around, item, out);
            });
        }
    }

    fn mismatch(&mut self, name: &str, found: &str, wanted: &str) {
        let text = format!("field '{name}' is of type '{found}' instead of expected type '{wanted}'");
        self.error(text, None);
    }

    /// Writes a value with its tag. `name` is that of the field in error texts, `around` that of a message.
    fn value(&mut self, number: u32, kind: &Kind, name: &str, around: &str, node: &Node, out: &mut Vec<u8>) {
        match kind {
            Kind::String => match node.as_str() {
                Some(text) => put_bytes(number, text.as_bytes(), out),
                None => self.mismatch(name, found(node), "string"),
            },
            Kind::Bytes => {
                let text = node.as_str().unwrap_or_default();
                match base64::engine::general_purpose::STANDARD.decode(text) {
                    Ok(bytes) if node.as_str().is_some() => put_bytes(number, &bytes, out),
                    _ => {
                        let hint = Some("bytes are written in base64".to_owned());
                        self.error(format!("field '{name}' is no base64"), hint);
                    }
                }
            }
            Kind::Message(id) => {
                let path = self.path.clone();
                let (id, kind) = (*id, kind.well_known(self.schema));
                self.within(path, Some(around.to_owned()), |encoder| {
                    encoder.nested(number, id, kind, node, out);
                });
            }
            Kind::Unsupported | Kind::Missing(_) => {
                let text = format!("field '{name}' is {}, which cannot be set", kind.name(self.schema));
                self.error(text, None);
            }
            _ => {
                if let Some((wire_type, encoded)) = self.number(kind, name, node) {
                    put_tag(number, wire_type, out);
                    out.extend_from_slice(&encoded);
                }
            }
        }
    }

    fn nested(
        &mut self,
        number: u32,
        id: MessageId,
        well_known: Option<WellKnown>,
        node: &Node,
        out: &mut Vec<u8>,
    ) {
        let of_message = |encoder: &mut Self, wanted: &str| {
            let name = encoder.schema.message(id).map_or("", |message| &message.name);
            let text = format!("message type '.{name}'  got:type '{}' want '{wanted}'", found(node));
            encoder.error(text, None);
        };
        put_tag(number, WireType::Bytes, out);
        let written: Result<(), ()> = put_length(out, |out| {
            match (well_known, &node.kind) {
                (Some(WellKnown::GoogleDuration), NodeKind::String(text)) => {
                    match SignedDuration::parse(text) {
                        Ok(duration) => put_duration(duration, out),
                        Err(error) => self.error(error.to_string(), Some("for example `1.5s`".to_owned())),
                    }
                }
                (Some(WellKnown::GoogleTimestamp), NodeKind::String(text)) => {
                    match Timestamp::from_text(text.as_bytes()) {
                        Some(time) => put_timestamp(time, out),
                        None => {
                            let hint = "for example `2019-01-02T03:04:05Z`".to_owned();
                            self.error(format!("`{text}` is no time of RFC 3339"), Some(hint));
                        }
                    }
                }
                (Some(WellKnown::GoogleDuration | WellKnown::GoogleTimestamp), _) => {
                    of_message(self, "string")
                }
                (_, NodeKind::Mapping(entries)) => self.message(id, entries, out),
                (_, _) => of_message(self, "map[string]interface {}"),
            }
            Ok(())
        });
        debug_assert!(written.is_ok());
    }

    /// A number, a Boolean or the value of an enum, without a tag; `None` after an error.
    fn number(&mut self, kind: &Kind, name: &str, node: &Node) -> Option<(WireType, Vec<u8>)> {
        let mut out = Vec::new();
        let wire_type = match kind {
            Kind::Bool => match node.kind {
                NodeKind::Bool(value) => {
                    out.push(u8::from(value));
                    WireType::Varint
                }
                _ => {
                    self.mismatch(name, found(node), "bool");
                    return None;
                }
            },
            Kind::Double | Kind::Float => {
                let is_double = *kind == Kind::Double;
                let Some(value) = float(node) else {
                    self.mismatch(name, found(node), wanted(kind));
                    return None;
                };
                if is_double {
                    out.extend_from_slice(&value.to_le_bytes());
                    WireType::Fixed64
                } else {
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "a float is less precise than a double"
                    )]
                    out.extend_from_slice(&(value as f32).to_le_bytes());
                    WireType::Fixed32
                }
            }
            Kind::Enum(id) => {
                let known = self.schema.enumeration(*id)?;
                let Some(text) = node.as_str() else {
                    self.mismatch(name, found(node), "string");
                    return None;
                };
                let Some(number) = known.number(text) else {
                    let names: Vec<&str> = known.values.iter().map(|(name, _)| &**name).collect();
                    let hint = suggestion(text, names.iter().copied())
                        .unwrap_or_else(|| format!("one of {}", names.join(", ")));
                    let error = format!("unrecognized enum value '{text}' for enum '{}'", known.short_name());
                    self.error(error, Some(hint));
                    return None;
                };
                put_varint(i64::from(number).cast_unsigned(), &mut out);
                WireType::Varint
            }
            _ => {
                let Some(value) = integer(node) else {
                    self.mismatch(name, found(node), "int");
                    return None;
                };
                let Some(wire_type) = put_integer(kind, value, &mut out) else {
                    let text =
                        format!("field '{name}' is {value}, which {} cannot hold", kind.name(self.schema));
                    self.error(text, None);
                    return None;
                };
                wire_type
            }
        };
        Some((wire_type, out))
    }
}

/// The Go type that a field takes.
fn wanted(kind: &Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Double => "float64",
        Kind::Float => "float32",
        Kind::String | Kind::Enum(_) => "string",
        Kind::Message(_) => "interface {}",
        _ => "int",
    }
}

fn float(node: &Node) -> Option<f64> {
    match &node.kind {
        NodeKind::Int(value) => Some(*value as f64),
        NodeKind::Float(value) => Some(*value),
        NodeKind::String(text) => text.parse::<i64>().ok().map(|value| value as f64),
        _ => None,
    }
}

/// An integral number, or a text of one, which may be hexadecimal or octal.
pub(super) fn integer(node: &Node) -> Option<i128> {
    match &node.kind {
        NodeKind::Int(value) => Some(i128::from(*value)),
        // All integers of 64 bits are in the range.
        NodeKind::Float(value) if value.fract() == 0.0 && value.abs() < 1e20 => Some(*value as i128),
        NodeKind::String(text) => parse_integer(text),
        _ => None,
    }
}

/// An integer as Go reads it: `0x10`, `010`, `-3`.
pub(super) fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i128::from_str_radix(digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    value.ok().map(|value| if negative { -value } else { value })
}

/// Writes an integer; `None` if the type cannot hold it.
pub(super) fn put_integer(kind: &Kind, value: i128, out: &mut Vec<u8>) -> Option<WireType> {
    let signed = || i64::try_from(value).ok();
    let small = || i32::try_from(value).ok();
    Some(match kind {
        Kind::Int64 => {
            put_varint(signed()?.cast_unsigned(), out);
            WireType::Varint
        }
        Kind::Uint64 => {
            put_varint(u64::try_from(value).ok()?, out);
            WireType::Varint
        }
        Kind::Int32 => {
            put_varint(i64::from(small()?).cast_unsigned(), out);
            WireType::Varint
        }
        Kind::Uint32 => {
            put_varint(u64::from(u32::try_from(value).ok()?), out);
            WireType::Varint
        }
        Kind::Sint64 => {
            put_zigzag(signed()?, out);
            WireType::Varint
        }
        Kind::Sint32 => {
            put_zigzag(i64::from(small()?), out);
            WireType::Varint
        }
        Kind::Fixed64 => {
            out.extend_from_slice(&u64::try_from(value).ok()?.to_le_bytes());
            WireType::Fixed64
        }
        Kind::Sfixed64 => {
            out.extend_from_slice(&signed()?.to_le_bytes());
            WireType::Fixed64
        }
        Kind::Fixed32 => {
            out.extend_from_slice(&u32::try_from(value).ok()?.to_le_bytes());
            WireType::Fixed32
        }
        Kind::Sfixed32 => {
            out.extend_from_slice(&small()?.to_le_bytes());
            WireType::Fixed32
        }
        _ => return None,
    })
}
