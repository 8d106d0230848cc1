//! Reads the nodes of a test file and collects every problem with its position.

use std::sync::Arc;

use mixer_attribute::SignedDuration;
use mixer_base::rpc_code;
use mixer_config::message::suggestion;
use mixer_config::{Location, MappingEntry, Node, NodeKind};
use mixer_engine::decision::status_code;

/// A problem of a test file or of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteProblem {
    /// The path as given.
    pub file: Arc<str>,
    /// The position in the file.
    pub location: Location,
    /// The error.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

/// `file:line:column: message`, and the hint on a line of its own.
impl std::fmt::Display for SuiteProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Location { line, column } = self.location;
        write!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\n  hint: {hint}"))
    }
}

/// Collects the problems of one file.
pub(super) struct NodeReader {
    pub(super) file: Arc<str>,
    pub(super) problems: Vec<SuiteProblem>,
}

impl NodeReader {
    pub(super) fn new(file: &Arc<str>) -> Self {
        Self { file: Arc::clone(file), problems: Vec::new() }
    }

    pub(super) fn problem(&mut self, location: Location, message: impl Into<String>, hint: Option<String>) {
        let file = Arc::clone(&self.file);
        self.problems.push(SuiteProblem { file, location, message: message.into(), hint });
    }

    /// The fields of a mapping; unknown ones are problems.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> &'n [MappingEntry] {
        if !matches!(node.kind, NodeKind::Mapping(_)) {
            let hint = format!("its fields are {}", known.join(", "));
            self.problem(
                node.span.start,
                format!("{what} must be a mapping, not {}", node_type(node)),
                Some(hint),
            );
            return &[];
        }
        for entry in node.entries().iter().filter(|entry| !known.contains(&&*entry.key)) {
            let hint = suggestion(&entry.key, known.iter().copied())
                .unwrap_or_else(|| format!("known fields: {}", known.join(", ")));
            let message = format!("unknown field `{}` in {what}", entry.key);
            self.problem(entry.key_span.start, message, Some(hint));
        }
        node.entries()
    }

    /// A string or number; Booleans are rejected.
    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.kind {
            NodeKind::String(text) => Some(text.to_string()),
            NodeKind::Int(number) => Some(number.to_string()),
            NodeKind::Float(number) => Some(number.to_string()),
            NodeKind::Bool(_) => {
                let hint = "quote it: yes, no, on and off without quotes are Booleans";
                let message = format!("{what} must be a string, not a Boolean");
                self.problem(node.span.start, message, Some(hint.to_owned()));
                None
            }
            _ => {
                self.problem(
                    node.span.start,
                    format!("{what} must be a string, not {}", node_type(node)),
                    None,
                );
                None
            }
        }
    }

    /// An integer.
    pub(super) fn number(&mut self, node: &Node, what: &str) -> Option<i64> {
        match &node.kind {
            NodeKind::Int(number) => Some(*number),
            _ => {
                let message = format!("{what} must be an integer, not {}", node_type(node));
                self.problem(node.span.start, message, None);
                None
            }
        }
    }

    /// A Boolean.
    pub(super) fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        match &node.kind {
            NodeKind::Bool(value) => Some(*value),
            _ => {
                let message = format!("{what} must be true or false, not {}", node_type(node));
                self.problem(node.span.start, message, None);
                None
            }
        }
    }

    /// A duration.
    pub(super) fn duration(&mut self, node: &Node, what: &str) -> Option<SignedDuration> {
        let text = self.text(node, what)?;
        let read = SignedDuration::parse(&text)
            .ok()
            .or_else(|| humantime::parse_duration(&text).ok().map(SignedDuration::from_std));
        if read.is_none() {
            let hint = Some("write a duration as 250ms, 10s or 1m30s".to_owned());
            self.problem(node.span.start, format!("`{text}` is not a duration"), hint);
        }
        read
    }

    /// The code of a status, given as name or number.
    pub(super) fn status(&mut self, node: &Node) -> Option<i32> {
        let text = self.text(node, "`status`")?;
        let code = status_code(&text);
        if code.is_none() {
            let hint = suggestion(&text, (0..17).filter_map(rpc_code::name))
                .unwrap_or_else(|| "write a name such as OK or PERMISSION_DENIED, or a number".to_owned());
            self.problem(node.span.start, format!("`{text}` is not a status code"), Some(hint));
        }
        code
    }

    /// The items of a list; a single item may stand without one.
    pub(super) fn items<'n>(&mut self, node: &'n Node) -> Vec<&'n Node> {
        match &node.kind {
            NodeKind::Sequence(items) => items.iter().collect(),
            NodeKind::Null => Vec::new(),
            _ => vec![node],
        }
    }

    /// The strings of a list, with their positions.
    pub(super) fn texts(&mut self, node: &Node, what: &str) -> Vec<(String, Location)> {
        let items = self.items(node);
        items.into_iter().filter_map(|item| Some((self.text(item, what)?, item.span.start))).collect()
    }
}

/// The type of a node, for messages.
pub(super) fn node_type(node: &Node) -> &'static str {
    match &node.kind {
        NodeKind::Null => "nothing",
        NodeKind::Bool(_) => "a Boolean",
        NodeKind::Int(_) | NodeKind::Float(_) => "a number",
        NodeKind::String(_) => "a string",
        NodeKind::Sequence(_) => "a list",
        NodeKind::Mapping(_) => "a mapping",
    }
}

/// A node as JSON.
pub(super) fn json(node: &Node) -> serde_json::Value {
    use serde_json::Value;
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Bool(value) => Value::from(*value),
        NodeKind::Int(number) => Value::from(*number),
        NodeKind::Float(number) => Value::from(*number),
        NodeKind::String(text) => Value::from(&**text),
        NodeKind::Sequence(items) => items.iter().map(json).collect(),
        NodeKind::Mapping(entries) => {
            Value::Object(entries.iter().map(|e| (e.key.to_string(), json(&e.value))).collect())
        }
    }
}
