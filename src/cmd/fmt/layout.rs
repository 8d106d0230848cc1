//! The layout of configuration files: order of keys, indentation, blanks at the ends of lines.
//!
//! Lines are moved and indented as a whole, so that comments stay with what they are about; values are not written anew. What comes out is
//! parsed and compared with what went in: a file that would mean something else, or lose a line, is refused.

use std::collections::BTreeMap;

use mixer_config::{MappingEntry, Node, NodeKind, yaml};

/// Keys of a document, in their order; all others follow in theirs.
const OF_DOCUMENT: &[&str] = &["apiVersion", "kind", "metadata", "spec"];
const OF_METADATA: &[&str] = &["name", "namespace", "labels", "annotations"];
const OF_ACTION: &[&str] = &["name", "handler", "instances"];
const OF_OPERATION: &[&str] = &["name", "values", "operation"];
/// Keys of `spec`, by kind.
const OF_SPEC: [(&str, &[&str]); 4] = [
    ("attributemanifest", &["revision", "name", "attributes"]),
    ("handler", &["compiledAdapter", "adapter", "connection", "params"]),
    ("instance", &["compiledTemplate", "template", "params", "attributeBindings"]),
    ("rule", &["match", "actions", "requestHeaderOperations", "responseHeaderOperations", "sampling"]),
];

/// Why a text is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// From 1.
    pub(super) line: usize,
    pub(super) why: String,
    /// What to do.
    pub(super) hint: &'static str,
}

/// The text in its layout. Errors: it is no YAML, or would not have the same meaning or the same lines.
pub(super) fn formatted(text: &str) -> Result<String, Refusal> {
    let refuse = |line: usize, why: &str, hint| Err(Refusal { line, why: why.to_owned(), hint });
    if let Some(at) = text.split('\n').position(|line| line.contains('\r')) {
        return refuse(at + 1, "the line ends with a carriage return", "end lines with a line feed alone");
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut documents = vec![(0, Vec::new())];
    for (at, line) in lines.iter().enumerate() {
        let is_marker = ["---", "..."].iter().any(|marker| line.starts_with(marker));
        if *line == "---" {
            documents.push((at + 1, Vec::new()));
        } else if is_marker {
            return refuse(
                at + 1,
                "the separator of documents has something else in its line",
                "write `---` alone",
            );
        } else if let Some((_, document)) = documents.last_mut() {
            document.push(*line);
        }
    }
    let mut out: Vec<String> = Vec::new();
    for (number, (first, document)) in documents.iter().enumerate() {
        if number > 0 {
            out.push("---".to_owned());
        }
        // A text at the end of a document has a line feed if the document has one.
        let is_cut = number + 1 == documents.len() && !text.ends_with('\n');
        let refused = |refusal: Refusal| Refusal { line: refusal.line + first, ..refusal };
        out.extend(stable(document, if is_cut { "" } else { "\n" }).map_err(refused)?);
    }
    let mut text = out.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

/// Layouts are laid out again until nothing changes, at most so often.
const MAX_PASSES: usize = 4;

/// A document in its layout, which is that of the layout as well. `end`: what follows its last line.
fn stable(lines: &[&str], end: &str) -> Result<Vec<String>, Refusal> {
    let mut out = laid_out(lines, end)?;
    let is_blank = |line: &&&str| line.trim().is_empty();
    if lines.iter().skip_while(is_blank).take(out.len()).eq(out.iter()) {
        return Ok(out);
    }
    for _ in 0..MAX_PASSES {
        let lines: Vec<&str> = out.iter().map(String::as_str).collect();
        let again = laid_out(&lines, "\n").map_err(|refusal| Refusal { line: 1, ..refusal })?;
        if again == out {
            return Ok(out);
        }
        out = again;
    }
    Err(Refusal {
        line: 1,
        why: "its layout changes whenever it is formatted".to_owned(),
        hint: "remove blank lines and odd indentation from its texts",
    })
}

/// A document in its layout, without blank lines around it. `end`: what follows its last line.
fn laid_out(all: &[&str], end: &str) -> Result<Vec<String>, Refusal> {
    let lines = all;
    let begin = lines.iter().position(|line| !line.trim().is_empty()).unwrap_or(lines.len());
    let after = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(begin, |last| last + 1);
    let lines = lines.get(begin..after).unwrap_or_default();
    let at = |line: usize| begin + line;
    let text = lines.join("\n");
    let not_parsed = |error: yaml::YamlError| {
        let why = error.to_string();
        Refusal { line: at(1), why, hint: "`mixer validate` shows the place" }
    };
    let parsed = yaml::parse(&text).map_err(not_parsed)?;
    // Servers parse a document without the blanks around it: its first line is not indented, and its last text has no line feed at its end.
    let served = yaml::parse(text.trim()).map_err(not_parsed)?;
    if !parsed.notes.is_empty() {
        let why = "a key is there twice, or is none of text".to_owned();
        return Err(Refusal { line: at(1), why, hint: "`mixer validate` shows the place" });
    }
    let document = Document { lines };
    let mut out = Vec::new();
    match &parsed.root {
        root if is_block(root, lines) && !root.entries().is_empty() => {
            let kind = root.get("kind").and_then(Node::as_str).unwrap_or_default().to_ascii_lowercase();
            let order = Order { kind: &kind, path: &[] };
            // What is at the top of a file is about the file.
            let first = root.entries().first().map_or(0, |entry| line_of(entry.key_span.start.line));
            let head = document.comments_end(0, first);
            out.extend(lines.get(..head).into_iter().flatten().map(|line| line.trim().to_owned()));
            document
                .mapping(root.entries(), (head, lines.len()), 0, order, &mut out)
                .map_err(|refusal| Refusal { line: at(refusal.line), ..refusal })?;
        }
        _ => out.extend(lines.iter().map(|line| (*line).to_owned())),
    }
    let is_blank = |line: &String| line.trim().is_empty();
    out.drain(..out.iter().position(|line| !is_blank(line)).unwrap_or(0));
    out.truncate(out.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1));
    let refuse = |why: &str, hint| Err(Refusal { line: at(1), why: why.to_owned(), hint });
    let written = out.join("\n");
    let says =
        |text: &str, node: &Node| yaml::parse(text).is_ok_and(|other| sorted(&other.root) == sorted(node));
    let is_same =
        yaml::parse(&(all.join("\n") + end)).is_ok_and(|before| says(&format!("{written}\n"), &before.root));
    if !is_same || bare(lines.iter().copied()) != bare(out.iter().map(String::as_str)) {
        return refuse(
            "its layout cannot be changed without changing what it says",
            "anchors, `?`, odd indentation, and texts at the end of a document are left to you",
        );
    }
    if !says(written.trim(), &served.root) {
        return refuse(
            "in its layout, a text that is at its end now, or would be, reads with another line feed",
            "write `|-` or `>-` for a text without a line feed at its end, or move the key yourself",
        );
    }
    Ok(out)
}

/// Whether a node is written in block style, with lines of its own.
fn is_block(node: &Node, lines: &[&str]) -> bool {
    let start = node.span.start;
    let line = lines.get(line_of(start.line)).copied().unwrap_or_default();
    let first = line.chars().nth(start.column.saturating_sub(1) as usize);
    start.line > 0 && !matches!(first, Some('{' | '[' | '&' | '*' | '!'))
}

/// The index of a line, from 0.
fn line_of(line: u32) -> usize {
    line.saturating_sub(1) as usize
}

/// A value whose mappings have no order.
#[derive(Debug, PartialEq)]
enum Sorted<'n> {
    Scalar(&'n NodeKind),
    Sequence(Vec<Sorted<'n>>),
    Mapping(BTreeMap<&'n str, Sorted<'n>>),
}

fn sorted(node: &Node) -> Sorted<'_> {
    match &node.kind {
        NodeKind::Sequence(items) => Sorted::Sequence(items.iter().map(sorted).collect()),
        NodeKind::Mapping(entries) => {
            Sorted::Mapping(entries.iter().map(|entry| (&*entry.key, sorted(&entry.value))).collect())
        }
        other => Sorted::Scalar(other),
    }
}

/// The lines without indentation, dashes of lists and blanks at their ends, sorted. Empty ones do not count.
fn bare<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<&'l str> {
    let mut bare: Vec<&str> = lines
        .map(|line| line.trim().trim_start_matches("- ").trim_start())
        .filter(|line| !line.is_empty() && *line != "-")
        .collect();
    bare.sort_unstable();
    bare
}

/// Where a mapping is.
#[derive(Debug, Clone, Copy)]
struct Order<'o> {
    kind: &'o str,
    path: &'o [&'o str],
}

impl Order<'_> {
    /// The keys that come first.
    fn keys(&self) -> &'static [&'static str] {
        match self.path {
            [] if !self.kind.is_empty() => OF_DOCUMENT,
            ["metadata"] => OF_METADATA,
            ["spec"] => OF_SPEC.iter().find(|(kind, _)| *kind == self.kind).map_or(&[], |(_, keys)| keys),
            ["spec", "actions", "-"] if self.kind == "rule" => OF_ACTION,
            ["spec", "requestHeaderOperations" | "responseHeaderOperations", "-"] if self.kind == "rule" => {
                OF_OPERATION
            }
            _ => &[],
        }
    }

    fn rank(&self, key: &str) -> usize {
        self.keys().iter().position(|known| *known == key).unwrap_or(usize::MAX)
    }
}

/// The lines of a document. Ranges are those of lines, from 0.
struct Document<'l> {
    lines: &'l [&'l str],
}

impl Document<'_> {
    fn line(&self, at: usize) -> &str {
        self.lines.get(at).copied().unwrap_or_default()
    }

    fn indent(&self, at: usize) -> usize {
        let line = self.line(at);
        line.len() - line.trim_start_matches(' ').len()
    }

    fn is_comment(&self, at: usize) -> bool {
        let line = self.line(at).trim_start();
        line.is_empty() || line.starts_with('#')
    }

    /// The end of the comments at the top of a file: those above the last blank line before `first`, with it.
    fn comments_end(&self, from: usize, first: usize) -> usize {
        (from..first).rev().find(|at| self.line(*at).trim().is_empty()).map_or(from, |blank| blank + 1)
    }

    /// Where the comments begin that are between what ends before `end` and what is indented by `indent`: the first one that is not
    /// indented more.
    fn comments_before(&self, end: usize, from: usize, indent: usize) -> usize {
        let first = (from..end).rev().take_while(|at| self.is_comment(*at)).last().unwrap_or(end);
        let is_outside = |at: &usize| !self.line(*at).trim().is_empty() && self.indent(*at) <= indent;
        let outside = (first..end).find(is_outside).unwrap_or(end);
        // Blank lines before it go with it.
        (first..outside).rev().take_while(|at| self.line(*at).trim().is_empty()).last().unwrap_or(outside)
    }

    /// Writes the entries of a block mapping in the lines of `range`, indented by `indent`.
    fn mapping(
        &self,
        entries: &[MappingEntry],
        range: (usize, usize),
        indent: usize,
        order: Order<'_>,
        out: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let column = entries.first().map_or(1, |entry| entry.key_span.start.column);
        let old = column.saturating_sub(1) as usize;
        let starts: Vec<usize> = entries.iter().map(|entry| line_of(entry.key_span.start.line)).collect();
        let is_regular = entries.iter().all(|entry| entry.key_span.start.column == column)
            && starts.is_sorted_by(|a, b| a < b)
            && starts.iter().all(|at| (range.0..range.1).contains(at));
        if !is_regular {
            let line = starts.first().map_or(1, |at| at + 1);
            let why = "the keys of this mapping are not one below the other".to_owned();
            return Err(Refusal { line, why, hint: "write one key a line, all indented alike" });
        }
        // Each with its comments above; comments below the last one stay there.
        let mut bounds = Vec::new();
        let mut from = range.0;
        for (number, entry) in entries.iter().enumerate() {
            let next = starts.get(number + 1).copied().unwrap_or(range.1);
            let content = last_line(&entry.value).max(starts.get(number).copied().unwrap_or(from));
            let end = self.comments_before(next, content + 1, old);
            bounds.push((from, end));
            from = end;
        }
        let mut ranked: Vec<usize> = (0..entries.len()).collect();
        ranked.sort_by_key(|at| entries.get(*at).map_or(usize::MAX, |entry| order.rank(&entry.key)));
        for at in ranked {
            let (Some(entry), Some(bound), Some(start)) = (entries.get(at), bounds.get(at), starts.get(at))
            else {
                continue;
            };
            self.comments(bound.0, *start, indent, out);
            self.entry(entry, (*start, bound.1), (old, indent), order, out)?;
        }
        self.comments(from, range.1, indent, out);
        Ok(())
    }

    /// Writes an entry from the line of its key on.
    fn entry(
        &self,
        entry: &MappingEntry,
        range: (usize, usize),
        (old, indent): (usize, usize),
        order: Order<'_>,
        out: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let key_line = self.line(range.0);
        // A dash may be before the key.
        let text =
            key_line.char_indices().nth(old).map_or("", |(at, _)| key_line.get(at..).unwrap_or_default());
        let value = &entry.value;
        let begins_below = line_of(value.span.start.line) > range.0;
        let is_nested = begins_below && is_block(value, self.lines);
        let path = [order.path, &[&*entry.key]].concat();
        let order = Order { path: &path, ..order };
        let body = (range.0 + 1, range.1);
        match &value.kind {
            NodeKind::Mapping(entries) if is_nested && !entries.is_empty() => {
                out.push(format!("{:indent$}{}", "", text.trim_end()));
                self.mapping(entries, body, indent + 2, order, out)
            }
            NodeKind::Sequence(items) if is_nested && !items.is_empty() => {
                out.push(format!("{:indent$}{}", "", text.trim_end()));
                self.sequence(items, body, indent, order, out)
            }
            _ => {
                let is_literal = has_block_scalar(text);
                out.push(format!("{:indent$}{}", "", text.trim_end()));
                self.shifted(body, (old, indent), is_literal, out);
                Ok(())
            }
        }
    }

    /// Writes the items of a block sequence.
    fn sequence(
        &self,
        items: &[Node],
        range: (usize, usize),
        indent: usize,
        order: Order<'_>,
        out: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let first = (range.0..range.1).find(|at| !self.is_comment(*at)).unwrap_or(range.0);
        let old = self.indent(first);
        let is_dash = |at: &usize| {
            let text = self.line(*at).get(old..).unwrap_or_default();
            self.indent(*at) == old && (text == "-" || text.starts_with("- "))
        };
        // The place of an alias is that of its anchor: items are found by their dashes.
        let starts: Vec<usize> = (range.0..range.1).filter(is_dash).collect();
        if starts.len() != items.len() {
            let why = "the dashes of this list are not one below the other".to_owned();
            return Err(Refusal { line: first + 1, why, hint: "write one item a line, after `- `" });
        }
        let path = [order.path, &["-"]].concat();
        let order = Order { path: &path, ..order };
        let mut from = range.0;
        for (number, item) in items.iter().enumerate() {
            let start = starts.get(number).copied().unwrap_or(from);
            let next = starts.get(number + 1).copied().unwrap_or(range.1);
            let end = self.comments_before(next, last_line(item).max(start) + 1, old);
            self.comments(from, start, indent, out);
            self.item(item, (start, end), (old, indent), order, out)?;
            from = end;
        }
        self.comments(from, range.1, indent, out);
        Ok(())
    }

    /// Writes an item from the line of its dash on.
    fn item(
        &self,
        item: &Node,
        range: (usize, usize),
        (old, indent): (usize, usize),
        order: Order<'_>,
        out: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let line = self.line(range.0);
        let text = line.get(old + 1..).unwrap_or_default().trim();
        let on_dash = line_of(item.span.start.line) == range.0;
        if let NodeKind::Mapping(entries) = &item.kind
            && on_dash
            && is_block(item, self.lines)
            && !entries.is_empty()
        {
            let mut lines = Vec::new();
            self.mapping(entries, range, indent + 2, order, &mut lines)?;
            let is_key = |line: &String| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            let first = lines.iter().position(is_key).unwrap_or(0);
            for (at, line) in lines.into_iter().enumerate() {
                out.push(match at.cmp(&first) {
                    std::cmp::Ordering::Less => {
                        format!("{:indent$}{}", "", line.trim()).trim_end().to_owned()
                    }
                    std::cmp::Ordering::Equal => format!("{:indent$}- {}", "", line.trim_start()),
                    std::cmp::Ordering::Greater => line,
                });
            }
            return Ok(());
        }
        let dash = if text.is_empty() { "-" } else { "- " };
        out.push(format!("{:indent$}{dash}{text}", ""));
        // What follows the dash moves with it.
        let column = line.len() - line.get(old + 1..).unwrap_or_default().trim_start().len();
        let moved = if on_dash { (column, indent + 2) } else { (old, indent) };
        self.shifted((range.0 + 1, range.1), moved, has_block_scalar(text), out);
        Ok(())
    }

    /// Writes comments, indented by `indent`.
    fn comments(&self, from: usize, end: usize, indent: usize, out: &mut Vec<String>) {
        for at in from..end {
            let text = self.line(at).trim();
            out.push(if text.is_empty() { String::new() } else { format!("{:indent$}{text}", "") });
        }
    }

    /// Writes lines as they are, moved from one indentation to another. Of a literal, blanks at the ends of lines are its text.
    fn shifted(
        &self,
        range: (usize, usize),
        (old, new): (usize, usize),
        is_literal: bool,
        out: &mut Vec<String>,
    ) {
        for at in range.0..range.1 {
            let line = self.line(at);
            let indent = self.indent(at);
            let text = line.get(indent..).unwrap_or_default();
            let text = if is_literal { text } else { text.trim_end() };
            let indent = (indent + new).saturating_sub(old);
            out.push(if text.is_empty() && !is_literal {
                String::new()
            } else {
                format!("{:indent$}{text}", "")
            });
        }
    }
}

/// Whether the text of a line ends with the head of a block scalar.
fn has_block_scalar(text: &str) -> bool {
    let head = text.split(" #").next().unwrap_or(text).trim_end();
    let last = head.rsplit(' ').next().unwrap_or(head);
    last.starts_with(['|', '>'])
}

/// The line with the last character of a value, from 0.
fn last_line(node: &Node) -> usize {
    let below = match &node.kind {
        NodeKind::Mapping(entries) => entries.iter().map(|entry| last_line(&entry.value)).max(),
        NodeKind::Sequence(items) => items.iter().map(last_line).max(),
        _ => None,
    };
    let end = node.span.end;
    let own = match end.column {
        0 | 1 => line_of(end.line).saturating_sub(1),
        _ => line_of(end.line),
    };
    // A block collection ends where what follows begins.
    below.unwrap_or(own)
}

#[cfg(test)]
mod tests;
