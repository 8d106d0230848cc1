//! Resources: documents of configuration with an identity and an origin.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Annotations, Diagnostic, FieldPath, Node, Span, without_secrets, yaml};
use mixer_base::shared_map::Keyed;

/// The identity of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceKey {
    /// For example `rule`, `handler`, `denier`.
    pub kind: Arc<str>,
    /// Never empty.
    pub namespace: Arc<str>,
    /// Never empty.
    pub name: Arc<str>,
}

impl ResourceKey {
    /// Maximum length of kind, name and namespace, in bytes. Kubernetes permits 253.
    pub const MAX_PART: usize = 1024;

    /// The keys that a full name, `name.kind.namespace`, may mean: each part may have dots, but a kind has none that the product knows.
    /// Linear in the length of the name, whose parts are bounded by [`MAX_PART`](Self::MAX_PART): a longer one means nothing.
    pub fn of_full_name(full_name: &str) -> impl Iterator<Item = Self> {
        let is_part = |part: &&str| part.len() <= Self::MAX_PART;
        let longest = 3 * Self::MAX_PART + "..".len();
        let full_name = if full_name.len() <= longest { full_name } else { "" };
        full_name.match_indices('.').filter_map(move |(at, _)| {
            let name = full_name.get(..at).filter(is_part)?;
            let (kind, namespace) = full_name.get(at + 1..)?.split_once('.')?;
            let parts = [kind, namespace].iter().all(is_part);
            parts.then(|| Self { kind: kind.into(), namespace: namespace.into(), name: name.into() })
        })
    }
}

/// By kind, namespace and name. Most keys share the `Arc`s of kind and namespace, so pointers are compared first.
impl Ord for ResourceKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let shared =
            |a: &Arc<str>, b: &Arc<str>| if Arc::ptr_eq(a, b) { std::cmp::Ordering::Equal } else { a.cmp(b) };
        shared(&self.kind, &other.kind)
            .then_with(|| shared(&self.namespace, &other.namespace))
            .then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for ResourceKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The fully qualified name, `name.kind.namespace`.
impl std::fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.name, self.kind, self.namespace)
    }
}

/// The origin of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file as given by the user, `<embedded>/…`, `-` for standard input, or the name of an object of a server.
    pub file: Arc<str>,
    /// The text of the document, for excerpts and to locate fields.
    pub text: Arc<str>,
    /// The line of the file at which `text` starts, from 1; 0 for an [object](Self::of_object).
    pub first_line: u32,
}

impl Origin {
    /// An object of a server, which has no file and no lines: `text` was made from it, in the canonical form of
    /// [`read_object`](crate::store::read_object).
    pub fn of_object(name: &Arc<str>, text: Arc<str>) -> Self {
        Self { file: Arc::clone(name), text, first_line: 0 }
    }

    /// Whether it is an object of a server instead of a document of a file.
    pub fn is_object(&self) -> bool {
        self.first_line == 0
    }

    /// `FILE:LINE` of the document, or the name of the object.
    pub fn place(&self) -> String {
        match self.document_line() {
            0 => self.file.to_string(),
            line => format!("{}:{line}", self.file),
        }
    }

    /// Whether both are at the same place: in one file, from the same line.
    pub fn is_at(&self, other: &Origin) -> bool {
        self.first_line == other.first_line
            && (Arc::ptr_eq(&self.file, &other.file) || self.file == other.file)
    }

    /// The line of the file at which the document starts, after comments; 0 for an object.
    pub fn document_line(&self) -> u32 {
        if self.is_object() {
            return 0;
        }
        let skipped = |line: &&str| {
            let line = line.trim();
            line.is_empty() || line.starts_with('#') || line == "---"
        };
        let before = self.text.lines().take_while(skipped).count();
        self.first_line.saturating_add(u32::try_from(before).unwrap_or(u32::MAX))
    }

    /// A span of the document as a span of the file; line 0 for an object, of which nobody knows the lines.
    pub fn in_file(&self, mut span: Span) -> Span {
        if self.is_object() {
            return Span::default();
        }
        let before = self.first_line.saturating_sub(1);
        span.start.line = span.start.line.saturating_add(before);
        span.end.line = span.end.line.saturating_add(before);
        span
    }
}

/// Finds where fields are. Problems of one document come one after another, so that the last document is kept and parsed once.
#[derive(Debug, Default)]
pub struct Positions {
    last: RefCell<Option<(Arc<str>, Node)>>,
}

impl Positions {
    /// The span of a field in the file of its document. Cost: a pass over the document, unless it is that of the last call.
    pub fn span(&self, origin: &Origin, field: &FieldPath) -> Span {
        self.in_document(origin, |root| origin.in_file(root.at(field).span))
    }

    fn in_document<T>(&self, origin: &Origin, look: impl FnOnce(&Node) -> T) -> T {
        let mut last = self.last.borrow_mut();
        let root = match last.take().filter(|(text, _)| Arc::ptr_eq(text, &origin.text)) {
            Some((_, root)) => root,
            None => yaml::parse(&origin.text).map(|parsed| parsed.root).unwrap_or_default(),
        };
        let (_, root) = last.insert((Arc::clone(&origin.text), root));
        look(root)
    }

    /// A problem of a document with its resource and its position: that of its field, unless it has one in the document. What it repeats
    /// of secrets is masked.
    pub fn place(&self, problem: Diagnostic, key: &ResourceKey, origin: &Origin) -> Diagnostic {
        let mut problem = self.in_document(origin, |root| without_secrets(problem, root));
        problem.span = Some(match problem.span {
            Some(span) => origin.in_file(span),
            None => self.span(origin, &problem.field),
        });
        problem.file = Some(Arc::clone(&origin.file));
        problem.resource = key.to_string();
        problem
    }
}

/// What a document has beside kind, name, namespace, annotations and `spec`. Nothing reads labels, which are in the text only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope {
    /// `apiVersion`; empty if there is none.
    pub api_version: Arc<str>,
    /// The version that its source gives it, such as `metadata.resourceVersion`; empty if it has none. Never a part of equality: a
    /// source may give one content several versions.
    pub version: Box<str>,
    /// Fields that have no effect where they are.
    pub unknown: Box<[UnknownField]>,
    /// The annotations of Mixer whose values are Booleans, numbers or null instead of texts.
    pub untyped_annotations: Box<[Box<str>]>,
    /// Whether it is written like a rule, a handler, an instance or a manifest, whatever its kind says.
    pub is_like_ours: bool,
}

/// A field of a document, or of its `metadata`, that belongs elsewhere or is misspelt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// As in the document.
    pub name: Box<str>,
    /// Where in the document.
    pub place: FieldPlace,
    /// The position of its name in the document.
    pub span: Span,
}

/// Where in a document a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldPlace {
    /// Beside `spec`.
    Document,
    /// In `metadata`.
    Metadata,
    /// In `metadata.labels`.
    Labels,
    /// In `metadata.annotations`: a field of `spec`.
    Annotations,
    /// Name or namespace, whose value is a Boolean or a number instead of a text; the position is that of the value.
    NoText,
}

/// A resource in a store: identified, but not decoded by kind.
#[derive(Debug)]
pub struct RawResource {
    /// The identity.
    pub key: ResourceKey,
    /// `metadata.annotations`.
    pub annotations: Annotations,
    /// What else the document has.
    pub envelope: Envelope,
    /// The origin.
    pub origin: Origin,
    /// Hash of the text; equal revisions are equal resources.
    pub revision: u64,
    /// The tree from which the identity was read, until [`document`](Self::document) takes it; `None` if parsing again is cheap, or if
    /// there is no room for more trees.
    parsed: Mutex<Option<KeptTree>>,
}

/// Maximum size of the trees that are kept, in bytes: those of some 5 000 rules. A tree takes several times the text, and more with what the
/// allocator adds to its many small parts; to read the text again takes 2 us for each rule.
const MAX_KEPT_TREES: usize = 8 << 20;

/// Size of the trees that are kept, in bytes, of all resources of the process.
static KEPT_TREES: AtomicUsize = AtomicUsize::new(0);

/// A tree that counts towards [`MAX_KEPT_TREES`].
#[derive(Debug)]
struct KeptTree {
    root: Option<Box<Node>>,
    size: usize,
}

impl KeptTree {
    /// `None` without room.
    fn keep(root: Box<Node>) -> Option<Self> {
        let size = size_of::<Node>() + root.content_size();
        let has_room = |kept: usize| Some(kept + size).filter(|kept| *kept <= MAX_KEPT_TREES);
        KEPT_TREES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).ok()?;
        Some(Self { root: Some(root), size })
    }

    fn take(mut self) -> Node {
        self.root.take().map(|root| *root).unwrap_or_default()
    }
}

impl Drop for KeptTree {
    fn drop(&mut self) {
        KEPT_TREES.fetch_sub(self.size, Ordering::Relaxed);
    }
}

impl Keyed for RawResource {
    type Key = ResourceKey;

    fn key(&self) -> &ResourceKey {
        &self.key
    }
}

impl RawResource {
    /// A resource that was just parsed.
    pub fn new(
        key: ResourceKey,
        annotations: Annotations,
        envelope: Envelope,
        origin: Origin,
        revision: u64,
        parsed: Option<Box<Node>>,
    ) -> Self {
        let parsed = Mutex::new(parsed.and_then(KeptTree::keep));
        Self { key, annotations, envelope, origin, revision, parsed }
    }

    /// The same resource with another origin.
    #[must_use]
    pub(crate) fn moved(&self, origin: Origin) -> Self {
        Self {
            key: self.key.clone(),
            annotations: self.annotations.clone(),
            envelope: self.envelope.clone(),
            origin,
            revision: self.revision,
            parsed: Mutex::new(self.parsed.lock().take()),
        }
    }

    /// Whether the tree is held that the store parsed.
    #[cfg(test)]
    pub(crate) fn holds_tree(&self) -> bool {
        self.parsed.lock().is_some()
    }

    /// The document, with spans relative to `origin.text`. Trees are much larger than texts and are not kept: the first call
    /// may return the tree parsed by the store, later calls parse the text again.
    pub fn document(&self) -> Node {
        let kept = self.parsed.lock().take();
        kept.map_or_else(
            || yaml::parse(&self.origin.text).map(|p| p.root).unwrap_or_default(),
            KeptTree::take,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_kept_up_to_a_bound_and_read_again_beyond_it() {
        const SIZE: usize = 1 << 18;
        let resource = |number: usize| {
            let text = format!("number: {number}\ntext: {}\n", "x".repeat(SIZE));
            let root = yaml::parse(&text).unwrap().root;
            let key = ResourceKey { kind: "rule".into(), namespace: "shop".into(), name: "r".into() };
            let origin = Origin { file: "a.yaml".into(), text: text.into(), first_line: 1 };
            RawResource::new(
                key,
                Annotations::default(),
                Envelope::default(),
                origin,
                1,
                Some(Box::new(root)),
            )
        };
        for _ in 0..2 {
            let all: Vec<_> = (0..40).map(resource).collect();
            let kept = all.iter().filter(|resource| resource.parsed.lock().is_some()).count();
            // Other tests keep trees as well.
            assert!(kept > 16 && kept <= MAX_KEPT_TREES / SIZE, "{kept}");
            for (number, resource) in all.iter().enumerate() {
                let number = i64::try_from(number).unwrap();
                assert_eq!(resource.document().get("number").unwrap().kind, crate::NodeKind::Int(number));
                assert!(resource.parsed.lock().is_none());
            }
        }
    }

    #[test]
    fn full_names_mean_what_their_dots_separate() {
        let keys = |full: &str| ResourceKey::of_full_name(full).collect::<Vec<_>>();
        let key = |name: &str, kind: &str, namespace: &str| ResourceKey {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        assert_eq!(keys("a.b.c"), [key("a", "b", "c")]);
        assert_eq!(keys("a.b.c.d"), [key("a", "b", "c.d"), key("a.b", "c", "d")]);
        assert_eq!(keys("a.b"), []);
        assert_eq!(keys(""), []);
        let longest = "x".repeat(ResourceKey::MAX_PART);
        assert_eq!(keys(&format!("{longest}.{longest}.{longest}")), [key(&longest, &longest, &longest)]);
        assert_eq!(keys(&format!("{longest}x.b.c")), []);
        // However long a name is, it is read in a moment and means at most so many keys.
        assert_eq!(keys(&"a.".repeat(5_000_000)), []);
        assert!(keys(&"a.".repeat(1_500)).len() <= ResourceKey::MAX_PART);
    }
}
