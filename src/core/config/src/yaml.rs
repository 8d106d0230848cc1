//! A YAML reader with the semantics of Istio Mixer: YAML 1.1 scalars, restricted to what JSON can represent. Keeps positions.
//!
//! [`parse`] turns the first document of a text into a [`Node`]. Anchors, aliases and merge keys are resolved; of duplicate keys
//! the last wins; size, nesting and alias expansion are bounded. JSON is accepted as YAML.

mod cursor;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod masked;
mod merge;
mod parser;
mod plain;
mod scalar;
mod scanner;

use rustc_hash::FxHashMap;

use cursor::Mark;
pub use error::YamlError;
pub use masked::mask_secrets;
use merge::{Duplicate, MappingBuilder, Overridden};
use parser::{AnchorId, Event, Failure, Placed};

use super::{Location, Node, NodeKind, Span};

/// Maximum size of a text, in bytes.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// Maximum number of values in a document, after alias expansion.
pub(crate) const MAX_NODES: usize = 1_000_000;
/// Values that aliases and nested anchors may add to any document; to a long one, one per four bytes of text.
const MIN_COPIED_NODES: usize = 1_000;
/// Bytes of text that aliases and nested anchors may add to any document; to a long one as many as it has itself.
const MIN_COPIED_BYTES: usize = 256 << 10;
/// Maximum nesting.
pub(crate) const MAX_DEPTH: usize = 128;

/// A document and warnings about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The first document; null if the text has none.
    pub root: Node,
    /// Warnings, in document order.
    pub notes: Vec<Note>,
    /// Whether it was read by the fast path, so that parsing it again is cheap.
    pub plain: bool,
    /// The number of values, after alias expansion; 0 if it was read by the fast path.
    pub values: usize,
}

/// Something that Istio Mixer accepts silently although it is rarely intended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A duplicate key of a mapping; the last one wins.
    DuplicateKey {
        /// The key.
        key: String,
        /// The position of the duplicate.
        span: Span,
        /// Whether the value is the same, too.
        identical: bool,
        /// Whether it is a key of the document itself.
        top_level: bool,
    },
    /// A key whose value a merge key after it, `<<`, replaces by another one.
    OverriddenKey {
        /// The key.
        key: String,
        /// The position of the key.
        span: Span,
        /// Whether it is a key of the document itself.
        top_level: bool,
    },
    /// A plain `y`, `no`, `on`, … as a key resolves to a Boolean.
    BooleanKey {
        /// The text in the document.
        written: String,
        /// The resolved key.
        key: String,
        /// The position.
        span: Span,
    },
    /// Something follows the document, another document for example, and is ignored.
    SeveralDocuments {
        /// Where it starts.
        at: Location,
    },
}

/// Parses the first document of `text`.
///
/// Errors: Istio Mixer's text, `error converting YAML to JSON: yaml: line L: …`, L from 1.
/// Cost: one pass; memory is bounded by the limits of size, values (1 000 000), nesting (128) and of what aliases copy.
pub fn parse(text: &str) -> Result<Parsed, YamlError> {
    #[cfg(test)]
    PARSES.with(|parses| parses.set(parses.get() + 1));
    if text.len() > MAX_BYTES {
        return Err(YamlError::yaml(format!("document is larger than {} MiB", MAX_BYTES >> 20)));
    }
    if let Some(root) = plain::read(text) {
        return Ok(Parsed { root, notes: Vec::new(), plain: true, values: 0 });
    }
    parse_any(text)
}

#[cfg(test)]
thread_local! {
    /// Documents that this thread has parsed.
    pub(crate) static PARSES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// [`parse`] without the fast path.
fn parse_any(text: &str) -> Result<Parsed, YamlError> {
    if let Some((at, _)) = stretched(text.char_indices()).find(|(_, c)| is_forbidden(*c)) {
        let before = text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        return Err(YamlError::yaml("control characters are not allowed").on_line(line));
    }
    let mut reader = Reader { length: text.len(), ..Reader::default() };
    let next = parser::parse(text, &mut |placed| reader.event(placed)).map_err(|failure| match failure {
        Failure::Syntax(error) => YamlError::from_syntax(&error, text),
        Failure::Rejected(error) => error,
    })?;
    if let Some(error) = reader.unsupported {
        return Err(error);
    }
    reader.notes.extend(next.map(|at| Note::SeveralDocuments { at: location(at) }));
    let root = reader.root.unwrap_or_default();
    Ok(Parsed { root, notes: reader.notes, plain: false, values: reader.size.values })
}

/// The characters, with the time that others need between some.
fn stretched<T>(characters: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    characters.enumerate().map(|(number, character)| {
        if number > 0 && number.is_multiple_of(cursor::STRETCH) {
            mixer_base::scheduling::let_others_run();
        }
        character
    })
}

/// Characters that YAML 1.1 forbids.
fn is_forbidden(c: char) -> bool {
    !matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

fn location(mark: Mark) -> Location {
    Location { line: mark.line.saturating_add(1), column: mark.column.saturating_add(1) }
}

/// The pending key of a mapping.
enum PendingKey {
    /// `<<`.
    Merge,
    Name(Box<str>, Span),
    /// Not representable in JSON; reported after the document is parsed.
    Unsupported,
}

enum Frame {
    Sequence { items: Vec<Node>, span: Span, anchor: AnchorId, first: Size },
    Mapping { map: MappingBuilder, key: Option<PendingKey>, span: Span, anchor: AnchorId, first: Size },
}

impl Frame {
    fn is_anchored(&self) -> bool {
        let (Frame::Sequence { anchor, .. } | Frame::Mapping { anchor, .. }) = self;
        *anchor != 0
    }
}

/// A number of values, with the bytes of their texts.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    values: usize,
    bytes: usize,
}

impl Size {
    fn plus(self, other: Size) -> Self {
        let (values, bytes) =
            (self.values.saturating_add(other.values), self.bytes.saturating_add(other.bytes));
        Self { values, bytes }
    }

    fn minus(self, other: Size) -> Self {
        let (values, bytes) =
            (self.values.saturating_sub(other.values), self.bytes.saturating_sub(other.bytes));
        Self { values, bytes }
    }
}

#[derive(Default)]
struct Reader {
    /// Of the text, in bytes.
    length: usize,
    stack: Vec<Frame>,
    /// Complete anchored values, with their sizes.
    anchors: FxHashMap<AnchorId, (Node, Size)>,
    /// What was read so far, after alias expansion.
    size: Size,
    /// What aliases and anchors copied.
    copied: Size,
    root: Option<Node>,
    notes: Vec<Note>,
    /// The first value that JSON cannot represent.
    unsupported: Option<YamlError>,
}

impl Reader {
    fn event(&mut self, placed: Placed) -> Result<(), YamlError> {
        let Placed { event, start, end } = placed;
        let span = Span { start: location(start), end: location(end) };
        match event {
            Event::Scalar { text, implicit, tag, anchor } => self.scalar(&text, implicit, &tag, anchor, span),
            Event::Alias { name, anchor } => self.alias(anchor, &name),
            Event::SequenceStart(anchor) => {
                let first = self.grow(0)?;
                self.push(Frame::Sequence { items: Vec::new(), span, anchor, first })
            }
            Event::MappingStart(anchor) => {
                let first = self.grow(0)?;
                self.push(Frame::Mapping { map: MappingBuilder::default(), key: None, span, anchor, first })
            }
            Event::End => self.end(span),
        }
    }

    fn push(&mut self, frame: Frame) -> Result<(), YamlError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(YamlError::yaml(format!("nesting is deeper than {MAX_DEPTH} levels")));
        }
        self.stack.push(frame);
        Ok(())
    }

    /// Counts a value with a text of this many bytes; returns what was read before.
    fn grow(&mut self, bytes: usize) -> Result<Size, YamlError> {
        let before = self.size;
        self.size = before.plus(Size { values: 1, bytes });
        self.check_values()?;
        Ok(before)
    }

    fn check_values(&self) -> Result<(), YamlError> {
        if self.size.values > MAX_NODES {
            return Err(YamlError::yaml(format!("document has more than {MAX_NODES} values")));
        }
        Ok(())
    }

    /// Counts a copy of a value, before it is made.
    fn copy(&mut self, size: Size) -> Result<(), YamlError> {
        self.copied = self.copied.plus(size);
        let values = MIN_COPIED_NODES.max(self.length / 4);
        let bytes = MIN_COPIED_BYTES.max(self.length);
        if self.copied.values > values || self.copied.bytes > bytes {
            let text = format!("aliases expand the document by more than {values} values or {bytes} bytes");
            return Err(YamlError::yaml(text));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        implicit: bool,
        tag: &str,
        anchor: AnchorId,
        span: Span,
    ) -> Result<(), YamlError> {
        let first = self.grow(text.len())?;
        let kind = if tag.is_empty() && !implicit {
            NodeKind::String(text.into())
        } else {
            scalar::resolve(tag, text)?
        };
        let merge = text == "<<" && (implicit || tag == scalar::MERGE_TAG);
        if let Some(Frame::Mapping { key: key @ None, .. }) = self.stack.last_mut()
            && merge
        {
            *key = Some(PendingKey::Merge);
            return Ok(());
        }
        self.complete(Node { kind, span }, anchor, first, false, Some(text))
    }

    fn alias(&mut self, anchor: AnchorId, name: &str) -> Result<(), YamlError> {
        let Some((_, size)) = self.anchors.get(&anchor) else {
            return Err(YamlError::yaml(format!("anchor '{name}' value contains itself")));
        };
        let size = *size;
        self.copy(size)?;
        self.size = self.size.plus(size);
        self.check_values()?;
        let node = self.anchors.get(&anchor).map(|(node, _)| node.clone()).unwrap_or_default();
        self.complete(node, 0, Size::default(), true, None)
    }

    /// The end of a collection; a block collection ends with its last value.
    fn end(&mut self, end: Span) -> Result<(), YamlError> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let closed = (end.start != end.end).then_some(end.end);
        let (kind, mut span, anchor, first, inner_end) = match frame {
            Frame::Sequence { mut items, span, anchor, first } => {
                items.shrink_to_fit();
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

    /// Stores a complete value under its anchor, if any, and adds it to its parent.
    fn complete(
        &mut self,
        node: Node,
        anchor: AnchorId,
        first: Size,
        aliased: bool,
        written: Option<&str>,
    ) -> Result<(), YamlError> {
        if anchor != 0 {
            let size = self.size.minus(first);
            // An anchor copies its value once; nested anchors do so once a level.
            if self.stack.iter().any(Frame::is_anchored) {
                self.copy(size)?;
            }
            self.anchors.insert(anchor, (node.clone(), size));
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
        let top_level = self.stack.len() == 1;
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::Sequence { items, .. }) => items.push(node),
            Some(Frame::Mapping { map, key, .. }) => match key.take() {
                None | Some(PendingKey::Unsupported) => {
                    let text = error::unsupported_key(&node);
                    self.unsupported.get_or_insert_with(|| YamlError::conversion(text));
                }
                Some(PendingKey::Merge) => {
                    let overridden = map.merge(node, aliased)?.into_iter();
                    let note = |Overridden { key, span }| Note::OverriddenKey { key, span, top_level };
                    self.notes.extend(overridden.map(note));
                }
                Some(PendingKey::Name(name, span)) => {
                    if let Some(Duplicate { key, identical }) = map.insert(name, span, node) {
                        self.notes.push(Note::DuplicateKey { key, span, identical, top_level });
                    }
                }
            },
        }
        Ok(())
    }

    /// Converts a YAML key to a JSON key.
    fn read_key(&mut self, node: Node, written: Option<&str>) -> Result<PendingKey, YamlError> {
        let span = node.span;
        Ok(match node.kind {
            NodeKind::String(text) => PendingKey::Name(text, span),
            NodeKind::Int(number) => PendingKey::Name(number.to_string().into(), span),
            NodeKind::Float(number) => {
                // Infinite numbers are rejected as values only.
                self.unsupported = self.unsupported.take().filter(|e| !e.is_not_json());
                PendingKey::Name(scalar::float_key(number).into(), span)
            }
            NodeKind::Bool(value) => {
                let key = if value { "true" } else { "false" };
                let written = written.unwrap_or(key);
                if !written.eq_ignore_ascii_case(key) {
                    let (written, key) = (written.to_owned(), key.to_owned());
                    self.notes.push(Note::BooleanKey { written, key, span });
                }
                PendingKey::Name(key.into(), span)
            }
            NodeKind::Null => PendingKey::Unsupported,
            NodeKind::Sequence(_) | NodeKind::Mapping(_) => {
                let error = YamlError::yaml(format!("invalid map key: {}", error::go_syntax(&node)));
                return Err(error.with_hint(
                    "a key is a text; is it a template of Helm that was not rendered? `helm template` does; else quote the key",
                ));
            }
        })
    }
}

#[cfg(test)]
mod tests;
