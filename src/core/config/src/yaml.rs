//! Reads YAML the way the originals do: YAML 1.1 scalars, then the restrictions of JSON, with the place of every value kept.
//!
//! [`parse`] turns the first document of a text into a [`Node`]. Anchors, aliases and merge keys are resolved; of equal keys the
//! last one counts; size, nesting and expansion are bounded, so that no document can take the process down. JSON is YAML.
//! Nothing here knows what a resource is. Spec: runtime.md 1.3.

mod error;
#[doc(hidden)]
pub mod fuzzing;
mod mend;
mod merge;
mod plain;
mod scalar;

use rustc_hash::FxHashMap;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

pub use error::YamlError;
use mend::Mended;
use merge::MappingBuilder;

use super::{Location, Node, NodeKind, Span};

/// Longest text that is read, in bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// Most values in one document, aliases expanded.
pub const MAX_NODES: usize = 1_000_000;
/// Deepest nesting.
pub const MAX_DEPTH: usize = 128;

/// A document and what is odd about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The first document; null when the text holds none.
    pub root: Node,
    /// Oddities, in document order.
    pub notes: Vec<Note>,
    /// Whether reading it again is cheap.
    pub plain: bool,
}

/// Something that the originals accept in silence although it is rarely meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A key stands twice in one mapping; the last one counts.
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it stands again.
        span: Span,
    },
    /// A bare `y`, `no`, `on`, … as a key reads as a truth value.
    BooleanKey {
        /// As written.
        written: String,
        /// As read.
        key: String,
        /// Where it stands.
        span: Span,
    },
    /// The text goes on with another document, which is not read.
    SeveralDocuments {
        /// Where that begins.
        at: Location,
    },
}

/// Reads the first document of `text`.
///
/// Errors: the text of the originals, `error converting YAML to JSON: yaml: line L: …`, L counted from 1 in `text`.
/// Cost: one pass; memory is bounded by [`MAX_BYTES`], [`MAX_NODES`] and [`MAX_DEPTH`].
pub fn parse(text: &str) -> Result<Parsed, YamlError> {
    if text.len() > MAX_BYTES {
        return Err(YamlError::yaml(format!("document is larger than {} MiB", MAX_BYTES >> 20)));
    }
    if let Some(root) = plain::read(text) {
        return Ok(Parsed { root, notes: Vec::new(), plain: true });
    }
    parse_any(text)
}

/// [`parse`] by the parser, whatever the text holds.
fn parse_any(text: &str) -> Result<Parsed, YamlError> {
    if let Some(at) = text.chars().position(is_refused) {
        let before = text.chars().take(at).collect::<String>();
        let line = before.matches('\n').count() + 1;
        return Err(YamlError::yaml("control characters are not allowed").on_line(line));
    }
    let mut mended = Mended::default();
    let mut changed: Option<String> = None;
    loop {
        let now = changed.as_deref().unwrap_or(text);
        match read(now, &mended) {
            Ok(parsed) => return Ok(parsed),
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Scan(error)) => match mended.mend(now, &error) {
                Some(next) => changed = Some(next),
                None => return Err(YamlError::from_scan(&error, now, &mended)),
            },
        }
    }
}

/// Characters that YAML 1.1 does not have.
fn is_refused(c: char) -> bool {
    !matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

enum Failure {
    Scan(ScanError),
    Refused(YamlError),
}

impl From<YamlError> for Failure {
    fn from(error: YamlError) -> Self {
        Failure::Refused(error)
    }
}

fn read(text: &str, mended: &Mended) -> Result<Parsed, Failure> {
    let mut reader = Reader {
        text,
        mended,
        stack: Vec::new(),
        anchors: FxHashMap::default(),
        count: 0,
        root: None,
        notes: Vec::new(),
        unsupported: None,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(Failure::Scan)?;
        match event {
            Event::DocumentEnd => {
                if let Some(Ok((Event::DocumentStart(_), next))) = parser.next_event() {
                    reader.notes.push(Note::SeveralDocuments { at: reader.location(next.start) });
                }
                break;
            }
            event => reader.event(event, span)?,
        }
    }
    if let Some(error) = reader.unsupported {
        return Err(error.into());
    }
    let root = reader.root.unwrap_or_default();
    Ok(Parsed { root, notes: reader.notes, plain: false })
}

fn location(marker: Marker) -> Location {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Location { line: number(marker.line()), column: number(marker.col()).saturating_add(1) }
}

/// The key for which a mapping waits for a value.
enum Key {
    /// `<<`.
    Merge,
    Name(Box<str>, Span),
    /// Cannot be a JSON key; reported when the document is complete.
    Unsupported,
}

enum Frame {
    Sequence { items: Vec<Node>, span: Span, anchor: usize, first: usize },
    Mapping { map: MappingBuilder, key: Option<Key>, span: Span, anchor: usize, first: usize },
}

struct Reader<'t> {
    text: &'t str,
    mended: &'t Mended,
    stack: Vec<Frame>,
    /// Complete anchored values and how many values they hold.
    anchors: FxHashMap<usize, (Node, usize)>,
    /// Values so far.
    count: usize,
    root: Option<Node>,
    notes: Vec<Note>,
    /// The first value that YAML has and JSON has not.
    unsupported: Option<YamlError>,
}

impl Reader<'_> {
    fn location(&self, marker: Marker) -> Location {
        self.mended.original(location(marker))
    }

    fn span(&self, span: saphyr_parser::Span) -> Span {
        Span { start: self.location(span.start), end: self.location(span.end) }
    }

    fn event(&mut self, event: Event<'_>, span: saphyr_parser::Span) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), span)
            }
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::SequenceStart(anchor, _) => {
                let first = self.grow(1)?;
                self.push(Frame::Sequence { items: Vec::new(), span: self.span(span), anchor, first })
            }
            Event::MappingStart(anchor, _) => {
                let first = self.grow(1)?;
                let map = MappingBuilder::default();
                self.push(Frame::Mapping { map, key: None, span: self.span(span), anchor, first })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            _ => Ok(()),
        }
    }

    fn push(&mut self, frame: Frame) -> Result<(), YamlError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(YamlError::yaml(format!("nesting is deeper than {MAX_DEPTH} levels")));
        }
        self.stack.push(frame);
        Ok(())
    }

    /// Counts `values` more; gives the number before.
    fn grow(&mut self, values: usize) -> Result<usize, YamlError> {
        let before = self.count;
        self.count = before.saturating_add(values);
        if self.count > MAX_NODES {
            return Err(YamlError::yaml(format!("document has more than {MAX_NODES} values")));
        }
        Ok(before)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: saphyr_parser::Span,
    ) -> Result<(), YamlError> {
        let first = self.grow(1)?;
        let tag = tag.map(|t| format!("{}{}", t.handle, t.suffix));
        let untagged_text = tag.is_none() && style != ScalarStyle::Plain;
        let kind = if untagged_text {
            NodeKind::String(text.into())
        } else {
            scalar::resolve(tag.as_deref().unwrap_or(""), text)?
        };
        let merge =
            text == "<<" && (tag.as_deref() == Some(scalar::MERGE_TAG) || (tag.is_none() && !untagged_text));
        if let Some(Frame::Mapping { key: key @ None, .. }) = self.stack.last_mut()
            && merge
        {
            *key = Some(Key::Merge);
            return Ok(());
        }
        self.complete(Node { kind, span: self.span(span) }, anchor, first, false, Some(text))
    }

    fn alias(&mut self, anchor: usize, span: saphyr_parser::Span) -> Result<(), YamlError> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            let name = self.anchor_name(span);
            return Err(YamlError::yaml(format!("anchor '{name}' value contains itself")));
        };
        let (node, size) = (node.clone(), *size);
        self.grow(size)?;
        self.complete(node, 0, 0, true, None)
    }

    /// The name in an alias, for error texts.
    fn anchor_name(&self, span: saphyr_parser::Span) -> String {
        let start = span.start.index();
        let length = span.end.index().saturating_sub(start);
        let written = self.text.chars().skip(start).take(length).collect::<String>();
        written.trim_start_matches('*').trim_end().to_owned()
    }

    fn end(&mut self, end: saphyr_parser::Span) -> Result<(), YamlError> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let closed = (end.start.index() != end.end.index()).then(|| self.location(end.end));
        let (kind, mut span, anchor, first, inner_end) = match frame {
            Frame::Sequence { items, span, anchor, first } => {
                let last = items.last().map(|i| i.span.end);
                (NodeKind::Sequence(items), span, anchor, first, last)
            }
            Frame::Mapping { map, span, anchor, first, .. } => {
                let entries = map.finish();
                let last = entries.iter().map(|e| e.value.span.end.max(e.key_span.end)).max();
                (NodeKind::Mapping(entries), span, anchor, first, last)
            }
        };
        span.end = closed.or(inner_end).unwrap_or(span.end);
        self.complete(Node { kind, span }, anchor, first, false, None)
    }

    /// A value is complete: remembers it if it has an anchor and puts it where it belongs.
    fn complete(
        &mut self,
        node: Node,
        anchor: usize,
        first: usize,
        aliased: bool,
        written: Option<&str>,
    ) -> Result<(), YamlError> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), self.count - first));
        }
        if let NodeKind::Float(value) = node.kind
            && !value.is_finite()
        {
            self.unsupported.get_or_insert_with(|| YamlError::not_json(value));
        }
        if let Some(Frame::Mapping { key: None, .. }) = self.stack.last() {
            let name = self.read_key(node, written)?;
            if let Some(Frame::Mapping { key, .. }) = self.stack.last_mut() {
                *key = Some(name);
            }
            return Ok(());
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::Sequence { items, .. }) => items.push(node),
            Some(Frame::Mapping { map, key, .. }) => match key.take() {
                None | Some(Key::Unsupported) => {
                    let text = error::unsupported_key(&node);
                    self.unsupported.get_or_insert_with(|| YamlError::conversion(text));
                }
                Some(Key::Merge) => map.merge(node, aliased)?,
                Some(Key::Name(name, span)) => {
                    if let Some(key) = map.insert(name, span, node) {
                        self.notes.push(Note::DuplicateKey { key, span });
                    }
                }
            },
        }
        Ok(())
    }

    /// The JSON key that a YAML key becomes.
    fn read_key(&mut self, node: Node, written: Option<&str>) -> Result<Key, YamlError> {
        let span = node.span;
        Ok(match node.kind {
            NodeKind::String(text) => Key::Name(text, span),
            NodeKind::Int(number) => Key::Name(number.to_string().into(), span),
            NodeKind::Float(number) => {
                // Only as a value an infinite number is refused.
                self.unsupported = self.unsupported.take().filter(|e| !e.is_not_json());
                Key::Name(scalar::float_key(number).into(), span)
            }
            NodeKind::Bool(value) => {
                let key = if value { "true" } else { "false" };
                let written = written.unwrap_or(key);
                if !written.eq_ignore_ascii_case(key) {
                    let (written, key) = (written.to_owned(), key.to_owned());
                    self.notes.push(Note::BooleanKey { written, key, span });
                }
                Key::Name(key.into(), span)
            }
            NodeKind::Null => Key::Unsupported,
            NodeKind::Sequence(_) | NodeKind::Mapping(_) => {
                return Err(YamlError::yaml(format!("invalid map key: {}", error::go_syntax(&node))));
            }
        })
    }
}

#[cfg(test)]
mod tests;
