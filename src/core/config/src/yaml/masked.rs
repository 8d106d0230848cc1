//! Secrets in the text of documents.

use std::borrow::Cow;
use std::ops::Range;

use foldhash::{HashMap, HashSet};

use super::parser::{self, AnchorId, Event, Placed};
use super::{MAX_DEPTH, YamlError};
use mixer_base::secrets::{
    MASKED, is_address, is_name_of_pair, is_secret, is_value_of_pair, mask_address, mask_source,
};

/// Longest key of which the name is kept for an alias that stands for it, in bytes.
const MAX_KEPT: usize = 256;
/// The tag of a text.
const TEXT: &str = "tag:yaml.org,2002:str";

/// Masks what is secret in the text of YAML and JSON documents, however they are written, as `mask_document` does: the values of keys with the
/// names of secrets, and all that is below them, secrets that another member names, secrets in addresses, and what [`mask_source`] finds besides.
/// Lines stay lines.
///
/// What can be parsed is masked by what it means. Of a document with an error of syntax that may have secrets, what follows the error is masked as a
/// whole. Cost: one pass.
pub fn mask_secrets(text: &str) -> Cow<'_, str> {
    let mut secrets = Secrets::of(text);
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
    for (Range { start, end }, instead) in spans {
        masked.push_str(read.get(shown..start).unwrap_or_default());
        match instead {
            Some(instead) => masked.push_str(&instead),
            None => hide(read.get(start..end).unwrap_or_default(), &mut masked),
        }
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

/// What is masked of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    /// What is secret in any text.
    Open,
    /// An address: its user, and parameters.
    Address,
    /// All of it.
    Secret,
}

impl Sort {
    /// Of the value of a key.
    fn of(key: &str) -> Self {
        match key {
            key if is_secret(key) => Self::Secret,
            key if is_address(key) => Self::Address,
            _ => Self::Open,
        }
    }
}

/// A collection that is open.
enum Frame {
    /// Of which sort the items are.
    Sequence(Sort),
    Mapping(Mapping),
}

/// A mapping that is open.
struct Mapping {
    /// Whether all values are secret, because the mapping is.
    is_secret: bool,
    /// Of which sort the value is whose key was read; `None` where a key comes next.
    value: Option<Sort>,
    /// What the key is whose value comes.
    role: Role,
    /// Whether the member with the name has that of a secret.
    names_secret: bool,
    /// The parts of the member `value`.
    values: Option<Range<usize>>,
}

/// What the value of a key means in a mapping such as `{name: authorization, value: x}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Name,
    Value,
    Other,
}

impl Role {
    fn of(key: &str) -> Self {
        match key {
            key if is_name_of_pair(key) => Self::Name,
            key if is_value_of_pair(key) => Self::Value,
            _ => Self::Other,
        }
    }
}

/// A part of the text that is masked, and what is shown for it; `None`: nothing of it.
type Found = (Range<usize>, Option<String>);

/// Collects what is secret in documents.
#[derive(Default)]
struct Secrets<'t> {
    text: &'t str,
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
    /// Parts that are the values of secrets which another member names.
    named: Vec<Range<usize>>,
    found: Vec<Found>,
    /// Whether the document has a key with the name of a secret.
    has_secret: bool,
}

impl<'t> Secrets<'t> {
    fn of(text: &'t str) -> Self {
        Self { text, ..Self::default() }
    }

    /// Begins a document, whose anchors are its own.
    fn begin(&mut self, from: usize) {
        self.end_document();
        (self.from, self.read, self.has_secret) = (from, from, false);
    }

    fn end_document(&mut self) {
        for parts in std::mem::take(&mut self.named) {
            self.hide(parts);
        }
        let mut seen: HashSet<AnchorId> = HashSet::default();
        while let Some(anchor) = self.aliased.pop() {
            if !seen.insert(anchor) {
                continue;
            }
            // One that is not complete contains itself.
            let parts = self.anchored.get(&anchor).cloned().unwrap_or_default();
            self.hide(parts);
        }
        self.stack.clear();
        self.parts.clear();
        self.names.clear();
        self.anchored.clear();
    }

    /// Nothing of these parts is shown.
    fn hide(&mut self, parts: Range<usize>) {
        for part in self.parts.get(parts).unwrap_or_default() {
            match part {
                Part::Scalar(span) => self.found.push((span.clone(), None)),
                Part::Alias(anchor) => self.aliased.push(*anchor),
            }
        }
    }

    /// The secrets in their order, which do not overlap.
    fn spans(mut self) -> Vec<Found> {
        self.end_document();
        let mut spans = self.found;
        // Of two with one place the one that shows nothing is first.
        spans.sort_unstable_by(|(a, shown_a), (b, shown_b)| (a.start, shown_a).cmp(&(b.start, shown_b)));
        spans.dedup_by(|(later, _), (first, _)| later.start == first.start);
        spans
    }

    fn event(&mut self, placed: Placed) -> Result<(), YamlError> {
        let Placed { event, start, end } = placed;
        let span = self.from + start.at..self.from + end.at;
        self.read = self.read.max(span.end);
        match event {
            Event::SequenceStart(anchor) => {
                let sort = self.value(true);
                self.push(Frame::Sequence(sort), anchor)
            }
            Event::MappingStart(anchor) => {
                let is_secret = self.value(true) == Sort::Secret;
                let (value, role, names_secret, values) = (None, Role::Other, false, None);
                self.push(Frame::Mapping(Mapping { is_secret, value, role, names_secret, values }), anchor)
            }
            Event::End => {
                let Some((frame, anchor, first)) = self.stack.pop() else { return Ok(()) };
                if let Frame::Mapping(Mapping { names_secret: true, values: Some(values), .. }) = frame {
                    self.has_secret = true;
                    self.named.push(values);
                }
                let parts = first..self.parts.len();
                if anchor != 0 {
                    self.anchored.insert(anchor, parts.clone());
                }
                self.ended(None, parts);
                Ok(())
            }
            Event::Scalar { text, tag, anchor, .. } => {
                if anchor != 0 {
                    let is_named = text.len() <= MAX_KEPT && is_text(&tag);
                    self.names.insert(anchor, is_named.then(|| text.clone()));
                }
                if self.key(is_text(&tag).then_some(&*text)) {
                    return Ok(());
                }
                let first = self.parts.len();
                match self.value(false) {
                    Sort::Open => {}
                    Sort::Address => {
                        if let Cow::Owned(shown) = mask_address(&text) {
                            let shown = self.in_place_of(&span, &text, shown);
                            self.found.push((span.clone(), shown));
                        }
                    }
                    Sort::Secret => self.found.push((span.clone(), None)),
                }
                self.parts.push(Part::Scalar(span));
                if anchor != 0 {
                    self.anchored.insert(anchor, first..first + 1);
                }
                self.ended(Some(&text), first..first + 1);
                Ok(())
            }
            Event::Alias { anchor, .. } => {
                let name = self.names.get(&anchor).cloned().flatten();
                if self.key(name.as_deref()) {
                    return Ok(());
                }
                let first = self.parts.len();
                let is_secret = match self.value(false) {
                    Sort::Open => false,
                    // What it stands for is shown at another place, as what it is not there.
                    Sort::Address => {
                        name.as_deref().is_none_or(|address| matches!(mask_address(address), Cow::Owned(_)))
                    }
                    Sort::Secret => true,
                };
                if is_secret {
                    self.aliased.push(anchor);
                }
                self.parts.push(Part::Alias(anchor));
                self.ended(name.as_deref(), first..first + 1);
                Ok(())
            }
        }
    }

    /// Takes a scalar or an alias for the key of a value, if one comes next; `None`: what it means is not known.
    fn key(&mut self, name: Option<&str>) -> bool {
        let Some((Frame::Mapping(mapping @ Mapping { value: None, .. }), ..)) = self.stack.last_mut() else {
            return false;
        };
        let sort = name.map_or(Sort::Secret, Sort::of);
        self.has_secret |= sort == Sort::Secret;
        mapping.value = Some(if mapping.is_secret { Sort::Secret } else { sort });
        mapping.role = name.map_or(Role::Other, Role::of);
        true
    }

    /// Of which sort the value is that comes. A collection that is a key is secret.
    fn value(&mut self, is_collection: bool) -> Sort {
        match self.stack.last_mut() {
            None => Sort::Open,
            Some((Frame::Sequence(sort), ..)) => *sort,
            Some((Frame::Mapping(mapping), ..)) => match mapping.value.take() {
                Some(sort) => sort,
                // What it means as a key is not known.
                None => {
                    mapping.value = is_collection.then_some(Sort::Secret);
                    mapping.role = Role::Other;
                    Sort::Secret
                }
            },
        }
    }

    /// A value has ended: `text` if it is one, and its parts.
    fn ended(&mut self, text: Option<&str>, parts: Range<usize>) {
        let Some((Frame::Mapping(mapping), ..)) = self.stack.last_mut() else { return };
        match std::mem::replace(&mut mapping.role, Role::Other) {
            Role::Name => mapping.names_secret |= text.is_some_and(is_secret),
            Role::Value => mapping.values = Some(parts),
            Role::Other => {}
        }
    }

    /// What is shown for a scalar, if its value is shown as `shown`: with its quotes. `None` if it is not written as it is meant.
    fn in_place_of(&self, span: &Range<usize>, meant: &str, shown: String) -> Option<String> {
        let written = self.text.get(span.clone())?;
        let quote = written.chars().next().filter(|c| matches!(c, '"' | '\''));
        match quote {
            None => (written == meant).then_some(shown),
            Some(quote) => {
                let inner = written.strip_prefix(quote)?.strip_suffix(quote)?;
                (inner == meant).then(|| format!("{quote}{shown}{quote}"))
            }
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
