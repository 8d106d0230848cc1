//! Limits files as envoyproxy/ratelimit reads them: names that YAML takes for numbers or Booleans are the text in the file, and a limit that is
//! left empty is no limit.

use super::descriptors::{DescriptorConfig, DomainConfig};
use mixer_config::{Diagnostic, FieldPath, MappingEntry, Node, NodeKind, Span, yaml};
use mixer_engine::snapshot::ResourceProblems;

/// The fields that are texts whatever they look like.
const TEXTS: [&str; 5] = ["domain", "key", "name", "unit", "value"];

/// A document with the texts of these fields as they are written in `source`. What cannot be found there, because of a tag for
/// example, is a problem.
pub(super) fn with_texts(
    document: &Node,
    source: &str,
    base: &FieldPath,
    report: &mut ResourceProblems<'_>,
) -> Node {
    let mut reader = Reader { source: Source::new(source), report };
    reader.node(document, base)
}

/// The first of several null or empty values that leave a limit out: `rate_limit:`, `descriptors:` and `descriptors: []`.
pub(super) fn refuse_empty_limits(document: &Node, base: &FieldPath, report: &mut ResourceProblems<'_>) {
    each_field(document, base, &mut |entry, path| {
        let is_list = entry.key == "descriptors".into();
        let is_empty = match &entry.value.kind {
            NodeKind::Null => is_list || entry.key == "rate_limit".into() || entry.key == "rateLimit".into(),
            NodeKind::Sequence(items) => is_list && items.is_empty(),
            _ => false,
        };
        if is_empty {
            let text = format!("`{}` is empty: there would be no limit", entry.key);
            let problem = Diagnostic::error("ratelimit-descriptor", path, text);
            report.push(problem.with_hint("write what it should have, or leave the field out"));
        }
    });
}

/// Reports a domain in which nothing is limited, as a file that is cut off has it.
pub(super) fn refuse_no_limit(config: &DomainConfig, base: &FieldPath, report: &mut ResourceProblems<'_>) {
    // What is empty is told.
    if !report.list.is_empty() {
        return;
    }
    let mut waiting: Vec<&DescriptorConfig> = config.descriptors.iter().collect();
    while let Some(descriptor) = waiting.pop() {
        if descriptor.rate_limit.is_some() {
            return;
        }
        waiting.extend(&descriptor.descriptors);
    }
    let text = "nothing of this domain has a limit";
    let problem = Diagnostic::error("ratelimit-descriptor", base.field("descriptors"), text);
    report.push(
        problem
            .with_hint("write a `rate_limit` (`unlimited: true` if none is meant), or remove the resource"),
    );
}

/// Calls `each` for every field of a document, with its path.
pub(super) fn each_field(node: &Node, path: &FieldPath, each: &mut impl FnMut(&MappingEntry, FieldPath)) {
    for entry in node.entries() {
        let path = path.field(&entry.key);
        each(entry, path.clone());
        each_field(&entry.value, &path, each);
    }
    for (index, item) in node.items().iter().enumerate() {
        each_field(item, &path.index(index), each);
    }
}

struct Reader<'s, 'b, 'r> {
    source: Source<'s>,
    report: &'b mut ResourceProblems<'r>,
}

impl Reader<'_, '_, '_> {
    fn node(&mut self, node: &Node, path: &FieldPath) -> Node {
        let kind = match &node.kind {
            NodeKind::Sequence(items) => {
                let items = items.iter().enumerate().map(|(index, item)| self.node(item, &path.index(index)));
                NodeKind::Sequence(items.collect())
            }
            NodeKind::Mapping(entries) => {
                NodeKind::Mapping(entries.iter().map(|entry| self.entry(entry, path)).collect())
            }
            kind => kind.clone(),
        };
        Node { kind, span: node.span }
    }

    fn entry(&mut self, entry: &MappingEntry, path: &FieldPath) -> MappingEntry {
        let path = path.field(&entry.key);
        let is_text = TEXTS.contains(&&*entry.key);
        let value = match &entry.value.kind {
            NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) if is_text => {
                self.text(&entry.value, path)
            }
            _ => self.node(&entry.value, &path),
        };
        MappingEntry { key: entry.key.clone(), key_span: entry.key_span, value }
    }

    fn text(&mut self, node: &Node, path: FieldPath) -> Node {
        let written = self.source.slice(node.span).map(str::trim);
        // The text at the position has to be the value, and nothing beside it.
        let is_value = |text: &&str| yaml::parse(text).is_ok_and(|parsed| parsed.root.kind == node.kind);
        let is_plain =
            |text: &&str| !text.contains(char::is_whitespace) && !text.contains(['#', '!', '&', '*']);
        match written.filter(is_plain).filter(is_value) {
            Some(text) => Node { kind: NodeKind::String(text.into()), span: node.span },
            None => {
                let problem =
                    Diagnostic::error("ratelimit-descriptor", path, "the text of this value is not known");
                self.report.push(problem.with_hint("write it in quotes, without tag, anchor and alias"));
                Node { kind: NodeKind::String("?".into()), span: node.span }
            }
        }
    }
}

/// A text by lines and columns.
struct Source<'s> {
    text: &'s str,
    /// The index of the first character of every line.
    lines: Vec<usize>,
    /// The position of every character, in bytes; `None` if every character is one byte.
    positions: Option<Vec<usize>>,
}

impl<'s> Source<'s> {
    fn new(text: &'s str) -> Self {
        let starts = text.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        let positions = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self { text, lines, positions }
    }

    fn slice(&self, span: Span) -> Option<&'s str> {
        let position = |line: u32, column: u32| {
            let line = self.lines.get(usize::try_from(line).ok()?.checked_sub(1)?)?;
            let at = line + usize::try_from(column).ok()?.checked_sub(1)?;
            match &self.positions {
                Some(positions) => Some(positions.get(at).copied().unwrap_or(self.text.len())),
                None => Some(at.min(self.text.len())),
            }
        };
        let (start, end) = (span.start, span.end);
        self.text.get(position(start.line, start.column)?..position(end.line, end.column)?)
    }
}
