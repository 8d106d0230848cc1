//! From the parameters of an instance to the plan of its message.

use std::sync::Arc;

use super::params::{integer, parse_integer, put_integer};
use crate::adapter::Leaf;
use crate::snapshot::programs::Refusal;
use crate::template::{
    Cardinality, Form, INSTANCE_NAME, Kind, MessageField, MessageId, PackedItem, Plan, Schema, Step,
    WellKnown, WireType, put_bytes, put_tag, put_varint, unknown_enum_value,
};
use mixer_attribute::{SignedDuration, Timestamp, Value, ValueType};
use mixer_config::message::{Field as _, suggestion};
use mixer_config::{FieldPath, Node, NodeKind};
use mixer_expr::Program;

/// Deepest nesting of messages.
const MAX_DEPTH: usize = 64;
/// Most expressions and constants of an instance.
const MAX_STEPS: usize = 4096;

/// What is wrong with a parameter.
#[derive(Debug)]
pub(super) struct MessageError {
    /// Relative to the parameters.
    pub(super) field: FieldPath,
    /// As Istio Mixer words it.
    pub(super) text: String,
    /// For users, if in other words.
    pub(super) plain: Option<String>,
    /// What to do.
    pub(super) hint: Option<String>,
    /// The expression that does not compile, and why.
    pub(super) refusal: Option<(String, Arc<Refusal>)>,
}

/// An expression of an instance.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) leaf: Leaf,
    pub(super) program: Arc<Program>,
    /// The name of its field in error texts.
    pub(super) shown: Box<str>,
    /// Relative to the parameters.
    pub(super) field: FieldPath,
}

/// A compiled message.
#[derive(Debug, Default)]
pub(super) struct CompiledMessage {
    pub(super) plan: Plan,
    pub(super) expressions: Vec<Expression>,
    pub(super) errors: Vec<MessageError>,
}

/// Compiles an expression.
type Compile<'c> = dyn FnMut(&str) -> Result<Arc<Program>, Arc<Refusal>> + 'c;

/// Compiles the parameters of an instance. Fields are in the order of their numbers.
pub(super) fn compile(
    schema: &Schema,
    message: MessageId,
    params: Option<&Node>,
    compile: &mut Compile<'_>,
) -> CompiledMessage {
    let mut compiler = Compiler {
        schema,
        compile,
        expressions: Vec::new(),
        errors: Vec::new(),
        path: FieldPath::root(),
        depth: 0,
        steps: 0,
    };
    let steps = match params.map(|params| &params.kind) {
        None | Some(NodeKind::Null) => Box::default(),
        Some(NodeKind::Mapping(_)) => {
            compiler.message(message, params.unwrap_or(&Node::default())).unwrap_or_default()
        }
        Some(_) => {
            compiler.error("the parameters are no mapping".to_owned(), None);
            Box::default()
        }
    };
    let Compiler { expressions, errors, .. } = compiler;
    CompiledMessage { plan: Plan { steps }, expressions, errors }
}

struct Compiler<'c, 'f> {
    schema: &'c Schema,
    compile: &'c mut Compile<'f>,
    expressions: Vec<Expression>,
    errors: Vec<MessageError>,
    path: FieldPath,
    depth: usize,
    steps: usize,
}

/// The value of a parameter.
enum Given<'n> {
    /// A quoted text, without its quotes.
    Text(&'n str),
    Bool(bool),
    /// Any number.
    Number(&'n Node),
    /// An expression.
    Expression(&'n str),
}

/// How a value is shown in an error.
fn shown(node: &Node) -> String {
    match &node.kind {
        NodeKind::String(text) => text.to_string(),
        _ => node.to_json().to_string(),
    }
}

fn go_type(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Null => "nil",
        NodeKind::Bool(_) => "bool",
        NodeKind::Int(_) => "int",
        NodeKind::Float(_) => "float64",
        NodeKind::String(_) => "string",
        NodeKind::Sequence(_) => "[]interface {}",
        NodeKind::Mapping(_) => "map[string]interface {}",
    }
}

impl Compiler<'_, '_> {
    fn error(&mut self, text: String, hint: Option<String>) {
        self.errors.push(MessageError { field: self.path.clone(), text, plain: None, hint, refusal: None });
    }

    fn at<T>(&mut self, path: FieldPath, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.path, path);
        let result = work(self);
        self.path = before;
        result
    }

    /// The fields of a message, in number order; `None` after an error.
    fn message(&mut self, id: MessageId, node: &Node) -> Option<Box<[Step]>> {
        let schema = self.schema;
        let message = schema.message(id)?;
        if self.depth >= MAX_DEPTH {
            self.error(format!("messages nest more than {MAX_DEPTH} deep"), None);
            return None;
        }
        let mut given: Vec<(&MessageField, &Node, FieldPath)> = Vec::new();
        let before = self.errors.len();
        for entry in node.entries() {
            let path = self.path.field(&entry.key);
            match message.field(&entry.key).filter(|field| self.depth > 0 || field.number != INSTANCE_NAME) {
                Some(_) if matches!(entry.value.kind, NodeKind::Null) => {}
                Some(field) => match given.iter().find(|(other, ..)| other.number == field.number) {
                    Some(_) => {
                        let text = format!("field '{}' is given twice", field.name);
                        self.at(path, |compiler| compiler.error(text, None));
                    }
                    None => given.push((field, &entry.value, path)),
                },
                None => {
                    let names = message.fields.iter().filter(|field| field.number != INSTANCE_NAME);
                    let names: Vec<&str> = names.map(|field| &*field.name).collect();
                    let hint = suggestion(&entry.key, names.iter().copied()).unwrap_or_else(|| {
                        if names.is_empty() {
                            "it has no fields".to_owned()
                        } else {
                            format!("it has {}", names.join(", "))
                        }
                    });
                    let text = format!(
                        "fieldEncoder '{}' not found in message '{}'",
                        entry.key,
                        message.short_name()
                    );
                    self.at(path, |compiler| compiler.error(text, Some(hint)));
                }
            }
        }
        given.sort_by_key(|(field, ..)| field.number);
        let mut steps = Vec::new();
        self.depth += 1;
        for (field, node, path) in given {
            self.at(path, |compiler| compiler.field(field, node, &mut steps));
        }
        self.depth -= 1;
        (self.errors.len() == before).then(|| steps.into())
    }

    fn field(&mut self, field: &MessageField, node: &Node, steps: &mut Vec<Step>) {
        match &field.cardinality {
            Cardinality::One => steps.extend(self.value(field.number, &field.kind, &field.name, None, node)),
            Cardinality::Many { packed } => self.list(field, *packed, node, steps),
            Cardinality::Map { key } => {
                let NodeKind::Mapping(entries) = &node.kind else {
                    return self.unprocessable(&field.name, node, "map[string]interface{}");
                };
                for entry in entries {
                    let path = self.path.key(&entry.key);
                    let step = self.at(path, |compiler| {
                        let Some(key) = encoded_key(key, &entry.key) else {
                            let text = format!(
                                "unable to process {}: the key `{}` is no {}",
                                field.name,
                                entry.key,
                                key.name(compiler.schema)
                            );
                            compiler.error(text, None);
                            return None;
                        };
                        let value =
                            compiler.value(2, &field.kind, &field.name, Some(&entry.key), &entry.value)?;
                        Some(Step::Entry { number: field.number, key, value: Box::new(value) })
                    });
                    steps.extend(step);
                }
            }
        }
    }

    fn unprocessable(&mut self, name: &str, node: &Node, wanted: &str) {
        let text =
            format!("unable to process {name}:  {}, got {}, want: {wanted}", shown(node), go_type(node));
        self.error(text, None);
    }

    fn list(&mut self, field: &MessageField, packed: bool, node: &Node, steps: &mut Vec<Step>) {
        let is_number = !matches!(field.kind, Kind::String | Kind::Bytes | Kind::Message(_));
        let items = match &node.kind {
            NodeKind::Sequence(items) => items.as_slice(),
            NodeKind::Mapping(_) => return self.unprocessable(&field.name, node, "[]interface{}"),
            // A list of one.
            _ if is_number => std::slice::from_ref(node),
            _ => return self.unprocessable(&field.name, node, "[]interface{}"),
        };
        if is_number && !packed {
            let text = format!("unpacked primitives not supported: {}", field.name);
            return self.error(text, Some("a list of numbers is packed in proto3".to_owned()));
        }
        let is_list = matches!(node.kind, NodeKind::Sequence(_));
        let mut packed_items = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = if is_list { self.path.index(index) } else { self.path.clone() };
            let step =
                self.at(path, |compiler| compiler.value(field.number, &field.kind, &field.name, None, item));
            match step {
                Some(Step::Constant { encoded, .. }) if is_number => {
                    // Without its tag.
                    let mut tag = Vec::new();
                    put_tag(field.number, WireType::Bytes, &mut tag);
                    let value = encoded.get(tag.len()..).unwrap_or_default();
                    packed_items.push(PackedItem::Constant(value.into()));
                }
                Some(Step::Leaf { leaf, form, .. }) if is_number => {
                    packed_items.push(PackedItem::Leaf(leaf, form));
                }
                step => steps.extend(step),
            }
        }
        if is_number && !packed_items.is_empty() {
            steps.push(Step::Packed { number: field.number, items: packed_items.into() });
        }
    }

    /// One value with its tag; `None` after an error.
    fn value(
        &mut self,
        number: u32,
        kind: &Kind,
        name: &str,
        key: Option<&str>,
        node: &Node,
    ) -> Option<Step> {
        self.steps += 1;
        if self.steps == MAX_STEPS + 1 {
            self.error(format!("an instance has at most {MAX_STEPS} values"), None);
        }
        if self.steps > MAX_STEPS {
            return None;
        }
        match kind {
            Kind::Message(id) => match kind.well_known(self.schema) {
                Some(WellKnown::Value) => self.any(number, name, key, node),
                Some(WellKnown::IpAddress) => self.typed(number, name, key, node, ValueType::IpAddress),
                Some(WellKnown::TimeStamp) => self.typed(number, name, key, node, ValueType::Timestamp),
                Some(WellKnown::Duration) => self.typed(number, name, key, node, ValueType::Duration),
                Some(WellKnown::DnsName) => self.typed(number, name, key, node, ValueType::DnsName),
                Some(WellKnown::EmailAddress) => self.typed(number, name, key, node, ValueType::EmailAddress),
                Some(WellKnown::Uri) => self.typed(number, name, key, node, ValueType::Uri),
                _ => match &node.kind {
                    NodeKind::Mapping(_) => {
                        let steps = self.message(*id, node)?;
                        Some(Step::Message { number, steps })
                    }
                    _ => {
                        self.unprocessable(name, node, "map[string]interface{}");
                        None
                    }
                },
            },
            Kind::Bytes | Kind::Unsupported | Kind::Missing(_) => {
                let kind = match kind {
                    Kind::Bytes => "TYPE_BYTES",
                    Kind::Unsupported => "TYPE_GROUP",
                    _ => kind.name(self.schema),
                };
                self.error(format!("field type not supported '{kind}'"), Some(format!("leave `{name}` out")));
                None
            }
            _ => self.scalar(number, kind, name, key, node),
        }
    }

    /// What was given; `None` after an error.
    fn given<'n>(&mut self, name: &str, node: &'n Node) -> Option<Given<'n>> {
        match &node.kind {
            NodeKind::Bool(value) => Some(Given::Bool(*value)),
            NodeKind::Int(_) | NodeKind::Float(_) => Some(Given::Number(node)),
            NodeKind::String(text) => Some(match unquoted(text) {
                Some(inner) => Given::Text(inner),
                None => Given::Expression(text),
            }),
            NodeKind::Null => None,
            NodeKind::Sequence(_) | NodeKind::Mapping(_) => {
                let text = format!(
                    "badTypeError: value: '{}' is of type:{}, want:string",
                    shown(node),
                    go_type(node)
                );
                self.error(format!("unable to encode fieldEncoder {name}: {text}"), None);
                None
            }
        }
    }

    /// Compiles an expression; `context` puts its error into the text of a field.
    fn expression(
        &mut self,
        text: &str,
        name: &str,
        key: Option<&str>,
        context: impl Fn(String) -> String,
    ) -> Option<(usize, ValueType)> {
        match (self.compile)(text) {
            Ok(program) => {
                let value_type = program.value_type();
                let shown = match key {
                    Some(key) => format!("{name}[{key}]"),
                    None => name.to_owned(),
                };
                let leaf = Leaf::new(name, key, value_type);
                let field = self.path.clone();
                self.expressions.push(Expression { leaf, program, shown: shown.into(), field });
                Some((self.expressions.len() - 1, value_type))
            }
            Err(refusal) => {
                let error = refusal.error();
                let cause = match &error.unknown_attribute {
                    Some(name) => format!("unknown attribute {name}"),
                    None => error.to_string(),
                };
                let plain = Some(context(error.plain().into_owned()));
                let refusal = Some((text.to_owned(), refusal));
                let (field, text) = (self.path.clone(), context(cause));
                self.errors.push(MessageError { field, text, plain, hint: None, refusal });
                None
            }
        }
    }

    /// `istio.policy.v1beta1.Value`
    fn any(&mut self, number: u32, name: &str, key: Option<&str>, node: &Node) -> Option<Step> {
        let constant = |value_type, value: Value<'_>| {
            let mut encoded = Vec::new();
            put_tag(number, WireType::Bytes, &mut encoded);
            Form::Any(value_type).put(value, &mut encoded).ok()?;
            Some(Step::Constant { encoded: encoded.into(), typed: Some((number, value_type)) })
        };
        match self.given(name, node)? {
            Given::Text(text) => constant(ValueType::String, Value::String(text.as_bytes())),
            Given::Bool(value) => constant(ValueType::Bool, Value::Bool(value)),
            // compat(1.3): also an integer is a double; see the case `oop/instance-all-field-types`.
            Given::Number(node) => constant(ValueType::Double, Value::Double(number_of(node))),
            Given::Expression(text) => {
                let context = |cause| format!("unable to build message field: {name}, {cause}");
                let (leaf, value_type) = self.expression(text, name, key, context)?;
                if matches!(value_type, ValueType::StringMap | ValueType::Unspecified) {
                    let text = format!(
                        "unable to build message field: {name}, unsupported type: {value_type} (.istio.policy.v1beta1.Value)"
                    );
                    self.error(text, Some("look one key up: a value is no map".to_owned()));
                    return None;
                }
                Some(Step::Leaf { number, leaf, form: Form::Any(value_type) })
            }
        }
    }

    /// A message for values of one type, such as `istio.policy.v1beta1.IPAddress`.
    fn typed(
        &mut self,
        number: u32,
        name: &str,
        key: Option<&str>,
        node: &Node,
        wanted: ValueType,
    ) -> Option<Step> {
        let incorrect = |found: &str| {
            let message = match wanted {
                ValueType::IpAddress => "IPAddress",
                ValueType::Timestamp => "TimeStamp",
                ValueType::Duration => "Duration",
                ValueType::DnsName => "DNSName",
                ValueType::EmailAddress => "EmailAddress",
                _ => "Uri",
            };
            format!(
                "unable to build message field: {name}, incorrect type for .istio.policy.v1beta1.{message}. got: {found}, want: {wanted}"
            )
        };
        let text = match self.given(name, node)? {
            Given::Expression(text) => {
                let context = |cause| format!("unable to build message field: {name}, {cause}");
                let (leaf, found) = self.expression(text, name, key, context)?;
                if found != wanted {
                    self.error(incorrect(found.name()), None);
                    return None;
                }
                return Some(Step::Leaf { number, leaf, form: Form::Typed(wanted) });
            }
            Given::Text(text) => text,
            Given::Bool(_) | Given::Number(_) => {
                self.error(incorrect(go_type(node)), Some(format!("write an expression of type {wanted}")));
                return None;
            }
        };
        let octets;
        let value = match wanted {
            ValueType::IpAddress => {
                octets = text.parse::<std::net::IpAddr>().ok().map(|address| match address {
                    std::net::IpAddr::V4(address) => address.octets().to_vec(),
                    std::net::IpAddr::V6(address) => address.octets().to_vec(),
                });
                octets.as_deref().map(Value::Bytes)
            }
            ValueType::Timestamp => Timestamp::from_text(text.as_bytes()).map(Value::Timestamp),
            ValueType::Duration => SignedDuration::parse(text).ok().map(Value::Duration),
            _ => Some(Value::String(text.as_bytes())),
        };
        let Some(value) = value else {
            self.error(format!("unable to build message field: {name}, `{text}` is no {wanted}"), None);
            return None;
        };
        let mut encoded = Vec::new();
        put_tag(number, WireType::Bytes, &mut encoded);
        Form::Typed(wanted).put(value, &mut encoded).ok()?;
        Some(Step::Constant { encoded: encoded.into(), typed: None })
    }

    fn scalar(
        &mut self,
        number: u32,
        kind: &Kind,
        name: &str,
        key: Option<&str>,
        node: &Node,
    ) -> Option<Step> {
        let (form, types) = form_of(kind, self.schema)?;
        let failed = |cause: &str| format!("unable to encode fieldEncoder {name}: {}. {cause}", shown(node));
        let constant = match self.given(name, node)? {
            Given::Expression(text) => {
                let (leaf, found) = self.expression(text, name, key, |cause| failed(&cause))?;
                if !types.contains(&found) {
                    let wanted: Vec<&str> = types.iter().map(|wanted| wanted.name()).collect();
                    let type_name = format!("TYPE_{}", kind_name(kind).to_uppercase());
                    let cause =
                        format!("encoder {} for type {type_name} does not accept {found}", encoder_of(kind));
                    let hint = format!("write an expression of type {}", wanted.join(" or "));
                    self.error(failed(&cause), Some(hint));
                    return None;
                }
                return Some(Step::Leaf { number, leaf, form });
            }
            Given::Text(text) => self.constant(kind, &form, &Node::synthetic(NodeKind::String(text.into()))),
            Given::Bool(_) | Given::Number(_) => self.constant(kind, &form, node),
        };
        match constant {
            Ok((wire_type, value)) => {
                let mut encoded = Vec::new();
                put_tag(number, wire_type, &mut encoded);
                encoded.extend_from_slice(&value);
                Some(Step::Constant { encoded: encoded.into(), typed: None })
            }
            Err(cause) => {
                self.error(failed(&cause), None);
                None
            }
        }
    }

    /// A constant, encoded without its tag. Errors: the field cannot take it.
    fn constant(&self, kind: &Kind, form: &Form, node: &Node) -> Result<(WireType, Vec<u8>), String> {
        let bad = |wanted: &str| {
            format!("badTypeError: value: '{}' is of type:{}, want:{wanted}", shown(node), go_type(node))
        };
        let mut out = Vec::new();
        match (kind, &node.kind) {
            (Kind::String, NodeKind::String(text)) => {
                put_varint(text.len() as u64, &mut out);
                out.extend_from_slice(text.as_bytes());
            }
            (Kind::String, _) => return Err(bad("string")),
            (Kind::Bool, NodeKind::Bool(value)) => out.push(u8::from(*value)),
            (Kind::Bool, _) => return Err(bad("bool")),
            (Kind::Double | Kind::Float, NodeKind::Int(_) | NodeKind::Float(_)) => {
                form.put(Value::Double(number_of(node)), &mut out).map_err(|error| error.to_string())?;
            }
            (Kind::Double | Kind::Float, NodeKind::String(text)) => {
                let value: f64 = text.parse().map_err(|_| bad("float64"))?;
                form.put(Value::Double(value), &mut out).map_err(|error| error.to_string())?;
            }
            (Kind::Double | Kind::Float, _) => return Err(bad("float64")),
            (Kind::Enum(_), _) => {
                let Form::Enum(known) = form else { return Err(bad("string")) };
                let unknown = || unknown_enum_value(shown(node), known).to_string();
                let number = match &node.kind {
                    NodeKind::String(name) => {
                        let named =
                            known.iter().find(|(known, _)| *known == **name).map(|(_, number)| *number);
                        named.or_else(|| parse_integer(name).and_then(|number| i32::try_from(number).ok()))
                    }
                    _ => integer(node).and_then(|number| i32::try_from(number).ok()),
                };
                let number = number
                    .filter(|number| known.iter().any(|(_, known)| known == number))
                    .ok_or_else(unknown)?;
                put_varint(i64::from(number).cast_unsigned(), &mut out);
            }
            _ => {
                let value = integer(node).ok_or_else(|| bad("int"))?;
                let wire_type = put_integer(kind, value, &mut out);
                return match wire_type {
                    Some(wire_type) => Ok((wire_type, out)),
                    None => Err(format!("{value} does not fit")),
                };
            }
        }
        Ok((form.wire_type(), out))
    }
}

/// A text within matching quotes, which are single or double. Nothing in it is escaped.
fn unquoted(text: &str) -> Option<&str> {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\''))
}

fn number_of(node: &Node) -> f64 {
    match node.kind {
        NodeKind::Int(value) => value as f64,
        NodeKind::Float(value) => value,
        _ => 0.0,
    }
}

/// The key of an entry: its field 1.
fn encoded_key(kind: &Kind, key: &str) -> Option<Box<[u8]>> {
    let mut out = Vec::new();
    match kind {
        Kind::String => put_bytes(1, key.as_bytes(), &mut out),
        Kind::Bool => {
            put_tag(1, WireType::Varint, &mut out);
            out.push(u8::from(key.parse::<bool>().ok()?));
        }
        _ => {
            let mut value = Vec::new();
            let wire_type = put_integer(kind, parse_integer(key)?, &mut value)?;
            put_tag(1, wire_type, &mut out);
            out.extend_from_slice(&value);
        }
    }
    Some(out.into())
}

/// How a number, a text or an enum is written, and the types of expressions that it takes.
fn form_of(kind: &Kind, schema: &Schema) -> Option<(Form, &'static [ValueType])> {
    const INTEGER: &[ValueType] = &[ValueType::Int64];
    const DOUBLE: &[ValueType] = &[ValueType::Double];
    Some(match kind {
        Kind::String => (Form::Text, &[ValueType::String]),
        Kind::Bool => (Form::Bool, &[ValueType::Bool]),
        Kind::Double => (Form::Double, DOUBLE),
        Kind::Float => (Form::Float, DOUBLE),
        Kind::Int64 | Kind::Uint64 => (Form::Int64, INTEGER),
        Kind::Int32 => (Form::Int32, INTEGER),
        Kind::Uint32 => (Form::Uint32, INTEGER),
        Kind::Sint32 => (Form::Sint32, INTEGER),
        Kind::Sint64 => (Form::Sint64, INTEGER),
        Kind::Fixed32 | Kind::Sfixed32 => (Form::Fixed32, INTEGER),
        Kind::Fixed64 | Kind::Sfixed64 => (Form::Fixed64, INTEGER),
        Kind::Enum(id) => {
            let known = schema.enumeration(*id)?.values.iter().cloned().collect();
            (Form::Enum(known), &[ValueType::Int64, ValueType::String])
        }
        Kind::Message(_) | Kind::Bytes | Kind::Unsupported | Kind::Missing(_) => return None,
    })
}

fn kind_name(kind: &Kind) -> &str {
    match kind {
        Kind::Enum(_) => "enum",
        kind => kind.name(&EMPTY),
    }
}

static EMPTY: std::sync::LazyLock<Schema> = std::sync::LazyLock::new(Schema::default);

/// The encoder of a type, as Istio Mixer names it.
fn encoder_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::String => "string",
        Kind::Bool => "bool",
        Kind::Double | Kind::Float => "float",
        Kind::Enum(_) => "enum",
        _ => "int",
    }
}
