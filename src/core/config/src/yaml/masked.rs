//! Secrets in the text of documents.

use std::borrow::Cow;
use std::ops::Range;

use foldhash::{HashMap, HashSet};

use super::parser::{self, AnchorId, Event, Placed};
use super::{MAX_DEPTH, YamlError};
use mixer_base::secrets::{MASKED, is_secret, mask_source};

/// Longest key of which the name is kept for an alias that stands for it, in bytes.
const MAX_KEPT: usize = 256;
/// The tag of a text.
const TEXT: &str = "tag:yaml.org,2002:str";

/// Masks what is secret in the text of YAML and JSON documents, however they are written: the values of keys with the names of secrets, and
/// what [`mask_source`] finds besides. Lines stay lines.
///
/// What can be parsed is masked by what it means. Of a document with an error of syntax that may have secrets, what follows the error is masked as a
/// whole. Cost: one pass.
pub fn mask_secrets(text: &str) -> Cow<'_, str> {
    let mut secrets = Secrets::default();
    let mut from = 0;
    let unread = loop {
        let rest = text.get(from..).unwrap_or_default();
        secrets.begin(from);
        match parser::parse(rest, &mut |placed| secrets.event(placed)) {
            Ok(Some(next)) if next.at > 0 => from += next.at,
            // It has no end.
            Ok(Some(_)) => break from,
            Ok(None) => break text.len(),
            Err(_) => break secrets.read,
        }
    };
    let has_secret = secrets.has_secret;
    let spans = secrets.spans();
    let (read, rest) = (text.get(..unread).unwrap_or_default(), text.get(unread..).unwrap_or_default());
    let is_certain =
        rest.trim().is_empty() || (!has_secret && has_no_secret(text.get(from..).unwrap_or_default(), rest));
    if spans.is_empty() && is_certain {
        return mask_source(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut shown = 0;
    for Range { start, end } in spans {
        masked.push_str(read.get(shown..start).unwrap_or_default());
        hide(read.get(start..end).unwrap_or_default(), &mut masked);
        shown = end;
    }
    masked.push_str(read.get(shown..).unwrap_or_default());
    match is_certain {
        true => masked.push_str(rest),
        false => hide(rest, &mut masked),
    }
    Cow::Owned(mask_source(&masked).into_owned())
}

/// Replaces each line that is not blank.
fn hide(text: &str, out: &mut String) {
    for line in text.split_inclusive('\n') {
        let (before, _) = line.split_at(line.len() - line.trim_start().len());
        match line.trim().is_empty() {
            true => out.push_str(line),
            false => {
                out.push_str(before);
                out.push_str(MASKED);
                out.push_str(if line.ends_with('\n') { "\n" } else { "" });
            }
        }
    }
}

/// Whether it is certain that a document of which a part cannot be parsed has no secret: none of its words has the name of one, and none can be
/// written in another way.
fn has_no_secret(document: &str, unread: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '%');
    !unread.contains(['\\', '*'])
        && !unread.contains("!!")
        && !unread.contains("!<")
        && !document.split(|c| !is_name(c)).any(is_secret)
}

/// A place of a document that has a text.
enum Part {
    Scalar(Range<usize>),
    Alias(AnchorId),
}

/// A collection that is open.
enum Frame {
    /// Whether the items are secret.
    Sequence(bool),
    /// Whether the value is secret whose key was read; `None` where a key comes next.
    Mapping(Option<bool>),
}

/// Collects what is secret in documents.
#[derive(Default)]
struct Secrets {
    /// Where the document begins in the text.
    from: usize,
    /// Up to where the text is read.
    read: usize,
    stack: Vec<(Frame, AnchorId, usize)>,
    /// Values of the document, in order.
    parts: Vec<Part>,
    /// Names of anchored scalars, and the parts of anchored values.
    names: HashMap<AnchorId, Option<String>>,
    anchored: HashMap<AnchorId, Range<usize>>,
    /// Anchors that stand for secrets.
    aliased: Vec<AnchorId>,
    found: Vec<Range<usize>>,
    /// Whether the document has a key with the name of a secret.
    has_secret: bool,
}

impl Secrets {
    /// Begins a document, whose anchors are its own.
    fn begin(&mut self, from: usize) {
        self.end_document();
        (self.from, self.read, self.has_secret) = (from, from, false);
    }

    fn end_document(&mut self) {
        let mut seen: HashSet<AnchorId> = HashSet::default();
        while let Some(anchor) = self.aliased.pop() {
            if !seen.insert(anchor) {
                continue;
            }
            // One that is not complete contains itself.
            let parts = self.anchored.get(&anchor).cloned().unwrap_or_default();
            for part in self.parts.get(parts).unwrap_or_default() {
                match part {
                    Part::Scalar(span) => self.found.push(span.clone()),
                    Part::Alias(anchor) => self.aliased.push(*anchor),
                }
            }
        }
        self.stack.clear();
        self.parts.clear();
        self.names.clear();
        self.anchored.clear();
    }

    /// The secrets in their order, which do not overlap.
    fn spans(mut self) -> Vec<Range<usize>> {
        self.end_document();
        let mut spans = self.found;
        spans.sort_unstable_by_key(|span| span.start);
        spans.dedup();
        spans
    }

    fn event(&mut self, placed: Placed) -> Result<(), YamlError> {
        let Placed { event, start, end } = placed;
        let span = self.from + start.at..self.from + end.at;
        self.read = self.read.max(span.end);
        match event {
            Event::SequenceStart(anchor) => {
                let is_secret = self.value(true);
                self.push(Frame::Sequence(is_secret), anchor)
            }
            Event::MappingStart(anchor) => {
                self.value(true);
                self.push(Frame::Mapping(None), anchor)
            }
            Event::End => {
                if let Some((_, anchor, first)) = self.stack.pop()
                    && anchor != 0
                {
                    self.anchored.insert(anchor, first..self.parts.len());
                }
                Ok(())
            }
            Event::Scalar { text, tag, anchor, .. } => {
                if anchor != 0 {
                    let is_named = text.len() <= MAX_KEPT && is_text(&tag);
                    self.names.insert(anchor, is_named.then(|| text.clone()));
                }
                if let Some((Frame::Mapping(value @ None), ..)) = self.stack.last_mut() {
                    let is_secret = !is_text(&tag) || is_secret(&text);
                    *value = Some(is_secret);
                    self.has_secret |= is_secret;
                    return Ok(());
                }
                let first = self.parts.len();
                if self.value(false) {
                    self.found.push(span.clone());
                }
                self.parts.push(Part::Scalar(span));
                if anchor != 0 {
                    self.anchored.insert(anchor, first..first + 1);
                }
                Ok(())
            }
            Event::Alias { anchor, .. } => {
                if let Some((Frame::Mapping(value @ None), ..)) = self.stack.last_mut() {
                    let name = self.names.get(&anchor).and_then(Option::as_deref);
                    let is_secret = name.is_none_or(is_secret);
                    *value = Some(is_secret);
                    self.has_secret |= is_secret;
                    return Ok(());
                }
                if self.value(false) {
                    self.aliased.push(anchor);
                }
                self.parts.push(Part::Alias(anchor));
                Ok(())
            }
        }
    }

    /// Whether the value that comes is secret. A collection that is a key is none.
    fn value(&mut self, is_collection: bool) -> bool {
        match self.stack.last_mut() {
            None => false,
            Some((Frame::Sequence(is_secret), ..)) => *is_secret,
            Some((Frame::Mapping(value), ..)) => match value.take() {
                Some(is_secret) => is_secret,
                // What it means as a key is not known.
                None => {
                    *value = is_collection.then_some(true);
                    true
                }
            },
        }
    }

    fn push(&mut self, frame: Frame, anchor: AnchorId) -> Result<(), YamlError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(YamlError::yaml(format!("nesting is deeper than {MAX_DEPTH} levels")));
        }
        self.stack.push((frame, anchor, self.parts.len()));
        Ok(())
    }
}

/// Whether a scalar with this tag is what is written.
fn is_text(tag: &str) -> bool {
    tag.is_empty() || tag == "!" || tag == TEXT
}

#[cfg(test)]
mod tests;
