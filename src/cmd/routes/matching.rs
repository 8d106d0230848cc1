//! Evaluates match conditions for a request.

use std::collections::BTreeMap;

use bumpalo::Bump;

use crate::cmd::attributes::{AttributeSet, AttributeType, AttributeValue, entry_of_map};
use crate::cmd::exit::{Failure, Stop};
use mixer_attribute::{AttributeBag, StringMap, Value, ValueType, Vocabulary};
use mixer_config::message::suggestion;
use mixer_engine::routing::{GroupOutline, RoutingOutline};
use mixer_engine::snapshot::{Condition, Snapshot};
use mixer_expr::Scope as _;

/// The result of a match condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RouteMatch {
    /// The condition is true.
    Yes,
    /// The condition is false.
    No,
    /// Evaluation failed, which counts as false.
    Failed(String),
    /// Another namespace serves the request.
    OtherNamespace,
}

impl RouteMatch {
    pub(super) fn label(&self) -> &'static str {
        match self {
            RouteMatch::Yes => "yes",
            RouteMatch::No => "no",
            RouteMatch::Failed(_) => "error",
            RouteMatch::OtherNamespace => "-",
        }
    }

    pub(super) fn matches(&self) -> bool {
        *self == RouteMatch::Yes
    }

    pub(super) fn cause(&self) -> Option<&str> {
        match self {
            RouteMatch::Failed(cause) => Some(cause),
            _ => None,
        }
    }
}

/// How an entry of a map is given, if the name is one of a map.
fn entry_of(name: &str, value: &str, vocabulary: &Vocabulary) -> Option<String> {
    let (map, _) = name.split_once('[')?;
    let (_, value_type) = vocabulary.attribute(map)?;
    entry_of_map(name, value).filter(|_| value_type == ValueType::StringMap)
}

/// The results of all rules.
pub(super) struct Matches {
    by_rule: BTreeMap<String, RouteMatch>,
    /// The namespace whose table serves the request, by variety.
    tables: BTreeMap<String, String>,
}

impl Matches {
    /// Evaluates every condition of a snapshot. Errors: an undeclared attribute, a value of the wrong type.
    pub(super) fn new(
        snapshot: &Snapshot,
        outline: &RoutingOutline,
        set: &AttributeSet,
    ) -> Result<Self, Stop> {
        let arena = Bump::new();
        let vocabulary = &*snapshot.vocabulary;
        let mut bag = AttributeBag::empty(vocabulary, &arena);
        for (name, value) in set.iter() {
            let AttributeValue::String(text) = value else { continue };
            let Some((slot, value_type)) = vocabulary.attribute(name) else {
                let failure = Failure::usage(format!("unknown attribute `{name}`"));
                let hint = entry_of(name, text, vocabulary).or_else(|| suggestion(name, vocabulary.names()));
                return Err(match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
                .into());
            };
            let value = typed(text, value_type, &arena).map_err(|cause| {
                Failure::usage(format!("attribute `{name}` is a {value_type}")).cause(cause)
            })?;
            bag.set(slot, value);
        }
        let by_rule =
            snapshot.rules.iter().map(|r| (r.key.to_string(), evaluate(&r.condition, &bag))).collect();
        let namespace = namespace_of(&bag);
        let tables = outline
            .varieties
            .iter()
            .map(|variety| {
                let own = variety.namespaces.iter().any(|n| n.namespace == namespace);
                let table = if own { namespace.clone() } else { outline.default_namespace.clone() };
                (variety.variety.clone(), table)
            })
            .collect();
        Ok(Self { by_rule, tables })
    }

    /// The result of a group in the routing table of a namespace.
    pub(super) fn of(&self, variety: &str, namespace: &str, group: &GroupOutline) -> RouteMatch {
        if self.tables.get(variety).is_none_or(|table| table != namespace) {
            return RouteMatch::OtherNamespace;
        }
        let results = group.rules.iter().filter_map(|rule| self.by_rule.get(rule));
        let mut worst = RouteMatch::No;
        for result in results {
            match result {
                RouteMatch::Yes => return RouteMatch::Yes,
                RouteMatch::Failed(_) => worst = result.clone(),
                _ => {}
            }
        }
        worst
    }
}

fn evaluate<'t: 'a, 'a>(condition: &'t Condition, bag: &AttributeBag<'a>) -> RouteMatch {
    match condition {
        Condition::Always => RouteMatch::Yes,
        Condition::Broken(cause) => RouteMatch::Failed(cause.to_string()),
        Condition::When(program) => match program.eval(bag) {
            Ok(Value::Bool(true)) => RouteMatch::Yes,
            Ok(_) => RouteMatch::No,
            Err(error) => RouteMatch::Failed(error.to_string()),
        },
    }
}

/// The namespace of a request; may be empty.
fn namespace_of(bag: &AttributeBag<'_>) -> String {
    let vocabulary = bag.vocabulary();
    let slot = match bag.peek(vocabulary.reporter_kind()) {
        Some(Value::String(b"outbound")) => vocabulary.source_namespace(),
        Some(Value::String(kind)) if kind != b"inbound" => return String::new(),
        _ => vocabulary.destination_namespace(),
    };
    match bag.peek(slot) {
        Some(Value::String(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    }
}

/// Parses a value of a declared type.
fn typed<'a>(text: &str, value_type: ValueType, arena: &'a Bump) -> Result<Value<'a>, String> {
    let syntax = match value_type {
        ValueType::Int64 => AttributeType::Int64,
        ValueType::Double => AttributeType::Double,
        ValueType::Bool => AttributeType::Bool,
        ValueType::Timestamp => AttributeType::Timestamp,
        ValueType::Duration => AttributeType::Duration,
        ValueType::StringMap => AttributeType::StringMap,
        ValueType::IpAddress => return address(text, arena),
        _ => AttributeType::String,
    };
    let bytes = |text: &str| -> &'a [u8] { arena.alloc_slice_copy(text.as_bytes()) };
    Ok(match syntax.parse(text)? {
        AttributeValue::String(text) => Value::String(bytes(&text)),
        AttributeValue::Int64(number) => Value::Int64(number),
        AttributeValue::Double(number) => Value::Double(number),
        AttributeValue::Bool(value) => Value::Bool(value),
        AttributeValue::Timestamp(time) => Value::Timestamp(time),
        AttributeValue::Duration(duration) => Value::Duration(duration),
        AttributeValue::Bytes(list) => Value::Bytes(arena.alloc_slice_copy(&list)),
        AttributeValue::StringMap(map) => {
            let entries: Vec<(&'a [u8], &'a [u8])> = map.iter().map(|(k, v)| (bytes(k), bytes(v))).collect();
            let entries = arena.alloc_slice_copy(&entries);
            Value::StringMap(arena.alloc(StringMap { entries, source: None }))
        }
    })
}

fn address<'a>(text: &str, arena: &'a Bump) -> Result<Value<'a>, String> {
    let octets = match text.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(v4)) => v4.octets().to_vec(),
        Ok(std::net::IpAddr::V6(v6)) => v6.octets().to_vec(),
        Err(_) => match AttributeType::Bytes.parse(text)? {
            AttributeValue::Bytes(bytes) => bytes,
            _ => Vec::new(),
        },
    };
    Ok(Value::Bytes(arena.alloc_slice_copy(&octets)))
}
