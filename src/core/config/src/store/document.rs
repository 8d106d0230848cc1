//! From the text of a file to resources: chunks, documents, identities.

mod contents;
mod identity;
mod object;

use std::hash::Hasher;
use std::sync::Arc;

use mixer_base::{load, scheduling};

use super::{Broken, Reading, Separator, parallel};
use crate::message::plain_words;
use crate::yaml::{self, Note, YamlError};
use crate::{Diagnostic, FieldPath, Location, Origin, RawResource, Severity, Span};
pub(crate) use contents::FileContents;
use contents::{MAX_DOCUMENTS, MAX_PROBLEMS, Part, Tally};
pub use identity::is_field_of_spec;
use identity::{Identity, Unidentified};
pub use object::{ReadObject, SourceObject, read_object, unreadable_object};

/// The code of a file without text.
pub(super) const FILE_EMPTY: &str = "file-empty";

/// The code of a file that is open for writing, or in the middle of a change, for long.
pub(super) const FILE_BEING_WRITTEN: &str = "file-being-written";
/// What some editors write first, also into an empty file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The code of a document that defines no resource.
const DOCUMENT_IDENTITY: &str = "document-identity";
/// The code of a key that is there twice, or that a merge key replaces.
const KEY_DUPLICATE: &str = "key-duplicate";
/// The code of a document that begins within the chunk of another.
pub(super) const DOCUMENT_IGNORED: &str = "document-ignored";

/// Chunks that a thread parses one after the other.
const CHUNKS_PER_PART: usize = 50;

/// Minimum number of these per thread.
const PARTS_PER_THREAD: usize = 4;

/// Trees with more values than one per so many bytes of text are not kept.
const BYTES_PER_KEPT_VALUE: usize = 8;

/// Parses the resources of a file. Unchanged chunks are taken from `previous`; many chunks are parsed by several threads.
pub(super) fn read_file(file: &Arc<str>, bytes: &[u8], previous: Option<&FileContents>) -> FileContents {
    read_file_as(Reading::default(), file, bytes, previous)
}

/// [`read_file`] in another way than that of Istio Mixer.
pub(super) fn read_file_as(
    reading: Reading,
    file: &Arc<str>,
    bytes: &[u8],
    previous: Option<&FileContents>,
) -> FileContents {
    let found: Vec<(usize, Chunk<'_>)> =
        chunks(bytes, reading.separator).take(MAX_DOCUMENTS + 1).enumerate().collect();
    if found.len() > MAX_DOCUMENTS {
        return FileContents::too_many_documents(file, chunks(bytes, reading.separator).count());
    }
    load::documents_known(reading.load, found.len());
    let (known, tally) = (Known::of(previous), Tally::default());
    let parts: Vec<&[(usize, Chunk<'_>)]> = found.chunks(CHUNKS_PER_PART).collect();
    let read = parallel::map(&parts, PARTS_PER_THREAD, |chunks| {
        let mut part = Part::of(&tally);
        for (index, chunk) in *chunks {
            read_chunk(reading, file, *index, chunk, &known, &mut part);
        }
        load::documents_done(reading.load, chunks.len());
        part.contents
    });
    let mut contents = FileContents::joined(read);
    if tally.errors() > MAX_PROBLEMS {
        return FileContents::too_many_errors(file, tally.errors(), &contents);
    }
    if tally.others() > MAX_PROBLEMS {
        // Which were counted first depends on the threads.
        let (none, first) = (Known::of(None), Tally::default());
        let mut part = Part::of(&first);
        for (index, chunk) in found.iter().take_while(|_| first.others() < MAX_PROBLEMS) {
            read_chunk(reading, file, *index, chunk, &none, &mut part);
            part.contents.resources.clear();
        }
        contents.list_others(file, part.contents, tally.others());
    }
    if bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes).trim_ascii().is_empty() {
        contents.diagnostics.push(empty(file));
    }
    contents
}

/// The resource of one document that a store has read before, for example from a cache. `None` if the text is anything else than
/// one valid document with an identity.
pub fn read_document(origin: Origin) -> Option<Arc<RawResource>> {
    read_document_as(Reading::default(), origin)
}

/// [`read_document`] in another way than that of Istio Mixer.
pub fn read_document_as(reading: Reading, origin: Origin) -> Option<Arc<RawResource>> {
    let mut read = read_file_as(reading, &origin.file, origin.text.as_bytes(), None);
    let resource = read.resources.pop().filter(|_| read.resources.is_empty())?;
    // What is wrong beside the document, such as one that is ignored, was reported when it was read.
    let is_whole = resource.origin.text == origin.text;
    is_whole.then(|| Arc::new(resource.moved(origin)))
}

/// An empty file is what a full disk, or a writer that was interrupted, leaves behind: what it defined is unknown.
fn empty(file: &Arc<str>) -> Diagnostic {
    let mut diagnostic = Diagnostic::error(FILE_EMPTY, FieldPath::root(), "the file is empty")
        .with_hint("delete the file, or leave a comment in it, if it is to define nothing")
        .accepted_by_istio();
    diagnostic.file = Some(Arc::clone(file));
    diagnostic
}

/// The hash of a text; the same in every process.
pub(super) fn revision(text: &[u8]) -> u64 {
    // SipHash with fixed keys.
    let mut hasher = std::hash::DefaultHasher::new();
    scheduling::parts_of(text).for_each(|part| hasher.write(part));
    hasher.finish()
}

/// The resources of the previous version by revision, except those whose chunk has diagnostics.
struct Known<'p> {
    resources: rustc_hash::FxHashMap<u64, &'p Arc<RawResource>>,
}

impl<'p> Known<'p> {
    fn of(previous: Option<&'p FileContents>) -> Self {
        // Without all its problems nothing of it is known to have none.
        let resources = previous.filter(|previous| !previous.lacks_problems).map(|previous| {
            let chunks = previous.diagnostics.iter().filter_map(|problem| problem.chunk);
            let faulty: rustc_hash::FxHashSet<u32> = chunks.map(|chunk| chunk.line).collect();
            let resources = previous.resources.iter();
            let reusable = resources.filter(|resource| !faulty.contains(&resource.origin.first_line));
            reusable.map(|resource| (resource.revision, resource)).collect()
        });
        Self { resources: resources.unwrap_or_default() }
    }

    fn find(&self, file: &Arc<str>, text: &str, line: u32) -> Option<Arc<RawResource>> {
        if self.resources.is_empty() {
            return None;
        }
        let found = *self.resources.get(&revision(text.as_bytes()))?;
        if found.origin.first_line == line && found.origin.file == *file {
            return Some(found.clone());
        }
        let origin = Origin { file: file.clone(), text: found.origin.text.clone(), first_line: line };
        Some(Arc::new(found.moved(origin)))
    }
}

/// A piece of a file between separators.
struct Chunk<'t> {
    bytes: &'t [u8],
    /// The line at which it starts, from 1.
    line: u32,
}

/// Splits at separators.
fn chunks(bytes: &[u8], separator: Separator) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = Some((bytes, 1u32));
    std::iter::from_fn(move || {
        let (bytes, line) = rest.take()?;
        let lines = |b: &[u8]| u32::try_from(newlines(b).count()).unwrap_or(u32::MAX);
        let at = newlines(bytes).find_map(|at| Some((at, separator.length(bytes.get(at..)?)?)));
        let split = at.and_then(|(at, length)| Some((bytes.split_at_checked(at)?, length)));
        let chunk = match split {
            Some(((chunk, tail), length)) => {
                let next = line.saturating_add(lines(chunk)).saturating_add(2);
                rest = Some((tail.get(length..).unwrap_or_default(), next));
                chunk
            }
            None => bytes,
        };
        Some(Chunk { bytes: chunk, line })
    })
}

impl Separator {
    /// The length of a separator that begins with this line feed, including the one at its end; `None` if there is none.
    fn length(self, bytes: &[u8]) -> Option<usize> {
        const EXACT: &[u8] = b"\n---\n";
        match self {
            Separator::Exact => bytes.starts_with(EXACT).then_some(EXACT.len()),
            Separator::Line => {
                let after = bytes.strip_prefix(b"\n---")?;
                let line = after.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let end = (bytes.len() - after.len()).saturating_add(line.len()).saturating_add(1);
                line.trim_ascii().is_empty().then_some(end.min(bytes.len()))
            }
        }
    }
}

fn newlines(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let parts = scheduling::parts_of(bytes).scan(0, |next, part| {
        let at = *next;
        *next += part.len();
        Some((at, part))
    });
    parts.flat_map(|(at, part)| memchr::memchr_iter(b'\n', part).map(move |within| at + within))
}

fn read_chunk(
    reading: Reading,
    file: &Arc<str>,
    index: usize,
    chunk: &Chunk<'_>,
    known: &Known<'_>,
    out: &mut Part<'_>,
) {
    let text = match std::str::from_utf8(chunk.bytes) {
        Ok(text) => text,
        Err(error) => {
            let place = ChunkPlace { file, index, line: chunk.line };
            let is_cut = error.error_len().is_none();
            let problem = place.syntax_error(&YamlError::not_utf8(error));
            out.push_broken(
                file,
                &String::from_utf8_lossy(chunk.bytes),
                problem.with_hint(match is_cut {
                    true => "it ends within a character: it was cut off".to_owned(),
                    false => conversion(chunk.bytes),
                }),
            );
            return;
        }
    };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return;
    }
    let blank = text.len() - text.trim_start().len();
    let before = text.get(..blank).unwrap_or("").matches('\n').count();
    let line = chunk.line.saturating_add(u32::try_from(before).unwrap_or(u32::MAX));
    if let Some(resource) = known.find(file, trimmed, line) {
        out.contents.resources.push(resource);
        return;
    }
    let place = ChunkPlace { file, index, line };
    let parsed = match yaml::parse(trimmed) {
        Ok(parsed) => parsed,
        Err(error) => {
            let problem = place.syntax_error(&error);
            out.push_broken(
                file,
                trimmed,
                match text.contains('\0') {
                    true => problem.with_hint(conversion(chunk.bytes)),
                    false => problem,
                },
            );
            return;
        }
    };
    let identified = identity::identify(&parsed.root, reading.identity);
    for note in &parsed.notes {
        let mut problem = place.note(note, trimmed);
        let is_whole = match note {
            Note::SeveralDocuments { .. } => false,
            // Two documents without a separator between them: those before the last are lost.
            Note::DuplicateKey { identical, top_level, .. } => *identical || !top_level,
            Note::OverriddenKey { top_level, .. } => !top_level,
            Note::BooleanKey { .. } => true,
        };
        if let Ok(Identity { key, .. }) = &identified
            && problem.code != DOCUMENT_IGNORED
        {
            problem.resource = key.to_string();
        }
        match is_whole {
            true => out.push(problem),
            false => out.push_broken(file, trimmed, problem),
        }
    }
    match identified {
        Ok(Identity { key, annotations, envelope }) => {
            let origin = Origin { file: file.clone(), text: trimmed.into(), first_line: line };
            let revision = revision(trimmed.as_bytes());
            // The tree is kept until the resource is built, unless it is much larger than the text.
            let keep = !parsed.plain && parsed.values <= trimmed.len() / BYTES_PER_KEPT_VALUE;
            out.contents.resources.push(Arc::new(RawResource::new(
                key,
                annotations,
                envelope,
                origin,
                revision,
                keep.then(|| Box::new(parsed.root)),
            )));
        }
        Err(Unidentified::Nothing) => {}
        Err(problem) => {
            out.push_broken(file, trimmed, place.unidentified(&problem, trimmed));
        }
    }
}

/// How to convert a text that is not UTF-8.
fn conversion(bytes: &[u8]) -> String {
    // Every other byte of a text in UTF-16 is NUL, if it is one of Latin letters.
    let zeros = bytes.iter().filter(|byte| **byte == 0).count();
    let is_utf16 = zeros > bytes.len() / 4;
    let (name, encoding) = match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => ("UTF-32", "utf-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => ("UTF-16", "utf-16"),
        [0, _, ..] if is_utf16 => ("UTF-16 without a byte order mark", "utf-16be"),
        [_, 0, ..] if is_utf16 => ("UTF-16 without a byte order mark", "utf-16le"),
        bytes if bytes.contains(&0) => return "it has NUL bytes: it is no text, or is damaged".to_owned(),
        _ => ("not UTF-8, perhaps Latin-1", "latin1"),
    };
    format!("the text is {name}: convert it with `iconv -f {encoding} -t utf-8 FILE > NEW`")
}

/// The hint for a document that is none of a configuration, but stands beside one: `mixer init` writes both.
fn of_other_program(text: &str) -> Option<&'static str> {
    text.lines().find_map(|line| match line.trim_end() {
        "kind: PolicyTest" => Some(
            "these are policy tests, for `mixer test`: name the directory that has the resources alone, such as `policy` of `mixer init`",
        ),
        "static_resources:" | "dynamic_resources:" => Some(
            "this is the bootstrap of an Envoy: name the directory that has the resources alone, such as `policy` of `mixer init`",
        ),
        _ => None,
    })
}

/// Istio Mixer's text for a document without kind, name or namespace; secrets are masked.
fn incomplete_key(extracted: &str, text: &str) -> String {
    format!("key elements are empty. Extracted as {extracted} from\n <<{}>>", yaml::mask_secrets(text))
}

/// The position of a chunk, for diagnostics.
struct ChunkPlace<'a> {
    file: &'a Arc<str>,
    index: usize,
    line: u32,
}

impl ChunkPlace<'_> {
    fn diagnostic(&self, severity: Severity, code: &'static str, span: Span, message: String) -> Diagnostic {
        let origin = Origin { file: self.file.clone(), text: Arc::from(""), first_line: self.line };
        let mut diagnostic = Diagnostic::new(severity, code, FieldPath::root(), message);
        diagnostic.file = Some(self.file.clone());
        diagnostic.span = Some(origin.in_file(span));
        diagnostic.chunk = Some(crate::Chunk { index: self.index, line: self.line });
        diagnostic
    }

    fn syntax_error(&self, error: &YamlError) -> Diagnostic {
        let at = error.location.unwrap_or(Location { line: 1, column: 1 });
        let span = Span { start: at, end: at };
        let diagnostic = self.diagnostic(Severity::Error, "yaml-syntax", span, error.without_line());
        let diagnostic = diagnostic.with_legacy(error.to_string());
        match error.hint {
            Some(hint) => diagnostic.with_hint(hint),
            None => diagnostic,
        }
    }

    fn note(&self, note: &Note, text: &str) -> Diagnostic {
        match note {
            Note::DuplicateKey { key, span, identical: true, .. } => {
                let message = format!("duplicate key `{key}`, with the same value");
                self.diagnostic(Severity::Warning, KEY_DUPLICATE, *span, message).with_hint("remove one")
            }
            Note::DuplicateKey { key, span, top_level, .. } => {
                let message = format!("duplicate key `{key}`, with another value: the first one is lost");
                let hint = match top_level {
                    true => {
                        "remove one; if two documents were joined, separate them with a line that is exactly `---`"
                    }
                    false => "remove one",
                };
                self.diagnostic(Severity::Error, KEY_DUPLICATE, *span, message).with_hint(hint)
            }
            Note::OverriddenKey { key, span, .. } => {
                let message =
                    format!("key `{key}` has another value in the merge key `<<` after it: this one is lost");
                let hint =
                    "write `<<` before the keys that are to replace some of its own, or remove one of both";
                self.diagnostic(Severity::Error, KEY_DUPLICATE, *span, message).with_hint(hint)
            }
            Note::BooleanKey { written, key, span } => {
                let message = format!("key `{written}` reads as `{key}`");
                self.diagnostic(Severity::Warning, "key-boolean", *span, message)
                    .with_hint(format!("write \"{written}\" in quotes: YAML 1.1 reads it as a Boolean"))
            }
            Note::SeveralDocuments { at } => self.ignored(*at, text),
        }
    }

    /// The problem of what follows the first document of a chunk.
    fn ignored(&self, at: Location, text: &str) -> Diagnostic {
        let before = at.line.saturating_sub(1) as usize;
        let line = text.split('\n').nth(before).unwrap_or("");
        let has_end = || text.lines().take(before + 1).any(|line| line.starts_with("..."));
        let is_document = line.starts_with("---") || line.starts_with('%');
        let message = match is_document {
            true => "a second YAML document begins here, within the chunk of the first; it is ignored",
            false => "what follows the end of the first YAML document of the chunk is ignored",
        };
        let hint = match (is_document, line.trim_end()) {
            (false, _) if !has_end() => "the document ends before this line",
            (false, _) => {
                "remove the line `...`, which ends a document; separate documents with a line that is exactly `---`"
            }
            (true, _) if line.ends_with('\r') => {
                "the line ends of the file are CRLF: only `---` between LF line ends is a separator"
            }
            (true, "---") if line != "---" => "nothing may follow `---`, not even a space",
            _ => "separate documents with a line that is exactly `---`",
        };
        let end = Location { line: at.line, column: at.column.saturating_add(3) };
        self.diagnostic(Severity::Error, DOCUMENT_IGNORED, Span { start: at, end }, message.to_owned())
            .with_hint(hint)
    }

    fn unidentified(&self, problem: &Unidentified, text: &str) -> Diagnostic {
        let start = Span { start: Location { line: 1, column: 1 }, end: Location { line: 1, column: 1 } };
        match problem {
            Unidentified::Nothing | Unidentified::NoResource => {
                let message = "the document has neither kind nor metadata".to_owned();
                let hint = "every resource has kind, metadata.name and metadata.namespace; move what is no configuration of this \
                            server out of its directory, or comment it out";
                let problem = self.diagnostic(Severity::Error, DOCUMENT_IDENTITY, start, message);
                problem.with_hint(of_other_program(text).unwrap_or(hint)).accepted_by_istio()
            }
            Unidentified::List { extracted, kind, span } => {
                let message = format!("a list of resources, kind `{kind}`, is not read");
                let hint = "make each of its `items` a document of its own, separated by lines that are exactly `---`";
                let problem =
                    self.diagnostic(Severity::Error, DOCUMENT_IDENTITY, *span, message).with_hint(hint);
                match extracted {
                    Some(extracted) => problem.with_legacy(incomplete_key(extracted, text)),
                    None => problem,
                }
            }
            Unidentified::Missing { extracted, missing } => self
                .diagnostic(
                    Severity::Error,
                    DOCUMENT_IDENTITY,
                    start,
                    format!("key elements are empty: {} missing", missing.join(", ")),
                )
                .with_legacy(incomplete_key(extracted, text))
                .with_hint(
                    of_other_program(text)
                        .unwrap_or("every resource has kind, metadata.name and metadata.namespace"),
                ),
            Unidentified::Limits { message, hint, span } => {
                let problem = self.diagnostic(Severity::Error, DOCUMENT_IDENTITY, *span, message.clone());
                problem.with_hint(hint.clone())
            }
            Unidentified::Type { message, span } => self
                .diagnostic(Severity::Error, DOCUMENT_IDENTITY, *span, plain_words(message))
                .with_legacy(format!("error unmarshaling JSON: {message}"))
                .with_hint("a document is a mapping with apiVersion, kind, metadata and spec"),
        }
    }
}

#[cfg(test)]
mod tests;
