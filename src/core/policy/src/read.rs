//! Reads documents field by field and collects all problems with their positions.

use std::sync::Arc;

use mixer_attribute::SignedDuration;
use mixer_config::message::suggestion;
use mixer_config::{Location, MappingEntry, Node, NodeKind};

/// A problem in a file of tests or requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as given.
    pub file: Arc<str>,
    /// The position.
    pub location: Location,
    /// The message.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

/// `file:line:column: message (hint)`.
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Location { line, column } = self.location;
        write!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\n  hint: {hint}"))
    }
}

/// Collects the problems of one file.
pub(super) struct Reader {
    pub(super) file: Arc<str>,
    pub(super) problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn new(file: &Arc<str>) -> Self {
        Self { file: Arc::clone(file), problems: Vec::new() }
    }

    pub(super) fn problem(&mut self, location: Location, message: impl Into<String>, hint: Option<String>) {
        let file = Arc::clone(&self.file);
        self.problems.push(Problem { file, location, message: message.into(), hint });
    }

    /// The fields of a mapping; unknown ones are problems.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> &'n [MappingEntry] {
        if !matches!(node.kind, NodeKind::Mapping(_)) {
            let hint = format!("its fields are {}", known.join(", "));
            self.problem(node.span.start, format!("{what} is a mapping, not {}", kind(node)), Some(hint));
            return &[];
        }
        for entry in node.entries().iter().filter(|entry| !known.contains(&&*entry.key)) {
            let hint = suggestion(&entry.key, known.iter().copied())
                .unwrap_or_else(|| format!("known here: {}", known.join(", ")));
            let message = format!("unknown field `{}` in {what}", entry.key);
            self.problem(entry.key_span.start, message, Some(hint));
        }
        node.entries()
    }

    /// A string; numbers are accepted, Booleans are not.
    pub(super) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.kind {
            NodeKind::String(text) => Some(text.to_string()),
            NodeKind::Int(number) => Some(number.to_string()),
            NodeKind::Float(number) => Some(number.to_string()),
            NodeKind::Bool(_) => {
                let hint = "quote it: a bare yes, no, on or off is a Boolean";
                self.problem(
                    node.span.start,
                    format!("{what} must be a string, not a Boolean"),
                    Some(hint.to_owned()),
                );
                None
            }
            _ => {
                self.problem(node.span.start, format!("{what} must be a string, not {}", kind(node)), None);
                None
            }
        }
    }

    /// An integer.
    pub(super) fn number(&mut self, node: &Node, what: &str) -> Option<i64> {
        match &node.kind {
            NodeKind::Int(number) => Some(*number),
            _ => {
                self.problem(node.span.start, format!("{what} must be an integer, not {}", kind(node)), None);
                None
            }
        }
    }

    /// A Boolean.
    pub(super) fn truth(&mut self, node: &Node, what: &str) -> Option<bool> {
        match &node.kind {
            NodeKind::Bool(truth) => Some(*truth),
            _ => {
                self.problem(
                    node.span.start,
                    format!("{what} must be true or false, not {}", kind(node)),
                    None,
                );
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
            let hint = Some("durations are written 250ms, 10s, 1m30s".to_owned());
            self.problem(node.span.start, format!("`{text}` is not a duration"), hint);
        }
        read
    }

    /// The items of a list; a single item need not be in a list.
    pub(super) fn items<'n>(&mut self, node: &'n Node) -> Vec<&'n Node> {
        match &node.kind {
            NodeKind::Sequence(items) => items.iter().collect(),
            NodeKind::Null => Vec::new(),
            _ => vec![node],
        }
    }

    /// A list of strings.
    pub(super) fn texts(&mut self, node: &Node, what: &str) -> Vec<(String, Location)> {
        let items = self.items(node);
        items.into_iter().filter_map(|item| Some((self.text(item, what)?, item.span.start))).collect()
    }
}

/// The kind of a node, for error messages.
pub(super) fn kind(node: &Node) -> &'static str {
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
        NodeKind::Bool(truth) => Value::from(*truth),
        NodeKind::Int(number) => Value::from(*number),
        NodeKind::Float(number) => Value::from(*number),
        NodeKind::String(text) => Value::from(&**text),
        NodeKind::Sequence(items) => items.iter().map(json).collect(),
        NodeKind::Mapping(entries) => {
            Value::Object(entries.iter().map(|e| (e.key.to_string(), json(&e.value))).collect())
        }
    }
}
