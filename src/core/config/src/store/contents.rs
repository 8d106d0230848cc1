//! The contents of a store.

use std::path::Path;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::{FILE_BEING_WRITTEN, FILE_EMPTY, FileContents};
use crate::{Chunk, Diagnostic, Diagnostics, FieldPath, RawResource, ResourceKey, Severity, Span};
use mixer_base::shared_map::SharedMap;

/// The code of a resource that is defined more than once.
pub(super) const RESOURCE_DUPLICATE: &str = "resource-duplicate";

/// Maximum number of files and documents that cannot be read.
const MAX_BROKEN: usize = 10_000;
/// The code of a store of which too much cannot be read.
const STORE_ERRORS: &str = "store-errors";

/// The contents of a store at one time. Successive contents share unchanged resources.
#[derive(Debug, Clone, Default)]
pub struct StoreContents {
    /// All resources by key.
    pub resources: SharedMap<Arc<RawResource>>,
    /// The parts of the configuration that cannot be read now, in file order. What they define is unknown: a resource that is
    /// missing although its file defined it before was not deleted while a part of the file is broken.
    pub broken: Vec<Broken>,
    /// The files that are in the middle of a change, or missing and may come back, and of which the last contents stay in effect meanwhile;
    /// in order. What they are going to define is unknown: a resource that is missing elsewhere may be moving there.
    pub changing: Vec<Arc<str>>,
    /// The directories that are empty, and were at each look since the store was opened: a volume may not be mounted there yet. What is
    /// known of them from a time before was not deleted. Of a server, the collections that have been empty since it was connected.
    pub always_empty: Vec<Arc<str>>,
    /// The directories that have other entries than configuration, and had none of that at each look since the store was opened: a mount
    /// point may have a `.gitkeep`.
    pub always_bare: Vec<Arc<str>>,
    /// The resources of files that are not read because of their names, with the file, although the names seem to be meant for files that are.
    pub misnamed: Vec<(ResourceKey, Arc<str>)>,
    /// How often a server that was connected again had less of a collection than before: it may not have read everything yet.
    pub lapses: u64,
    /// Unreadable files and documents, duplicates, and so on.
    pub diagnostics: Diagnostics,
    /// Why the store is unavailable, if it is: the text of the readiness probe.
    pub unavailable: Option<String>,
    /// Whether they are objects of a server instead of files.
    pub is_of_server: bool,
    /// The resources that others of the same key replace, in the order in which they were read; of a whole read only.
    pub overridden: Vec<Arc<RawResource>>,
    /// The number of files.
    pub files: usize,
    /// The number of documents with an identity, including duplicates.
    pub documents: usize,
}

/// A file, or a document of one, that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// The file, as in [`Origin::file`](crate::Origin::file).
    pub file: Arc<str>,
    /// The document; `None` if it is the whole file.
    pub document: Option<Chunk>,
    /// The text of the document, as far as it is one; empty for a whole file.
    pub text: Arc<str>,
    /// What is wrong; [`StoreContents::diagnostics`] has it as well.
    pub problem: Diagnostic,
    /// Whether [`StoreContents::resources`] has what was read from it before.
    pub keeps_last: bool,
}

/// A file, a directory or a document of a file that could not be read. What it would have defined is unknown: resources that are
/// missing because of it were not deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Unread {
    /// The file or directory, spelled as in [`Origin::file`](crate::Origin).
    pub path: Arc<str>,
    /// The text of the document; empty for a file or directory.
    pub text: Arc<str>,
    /// One line.
    pub why: String,
    /// What is wrong with it.
    pub problem: Diagnostic,
}

impl Unread {
    /// Because of a problem of a file or directory.
    pub fn by(problem: &Diagnostic, path: &Arc<str>) -> Self {
        let line = problem.span.filter(|s| s.start.line > 0);
        let line = line.map_or_else(String::new, |s| format!(":{}", s.start.line));
        let why = match problem.message.contains(&**path) {
            true => problem.message.clone(),
            false => format!("{path}{line}: {}", problem.message),
        };
        Self { path: Arc::clone(path), text: "".into(), why, problem: problem.clone() }
    }

    /// Of a document with this text.
    #[must_use]
    pub fn with_text(self, text: &Arc<str>) -> Self {
        Self { text: Arc::clone(text), ..self }
    }

    /// Whether a file is this one, or is below this directory.
    pub fn covers(&self, file: &str) -> bool {
        Path::new(file).starts_with(&*self.path)
    }
}

impl Broken {
    /// As something that could not be read.
    pub fn unread(&self) -> Unread {
        Unread::by(&self.problem, &self.file).with_text(&self.text)
    }
}

impl StoreContents {
    /// Everything that could not be read. Cost: proportional to the diagnostics.
    pub fn unread(&self) -> Vec<Unread> {
        let broken = self.broken.iter().map(Broken::unread);
        let empty = self.diagnostics.iter().filter(|problem| problem.code == FILE_EMPTY);
        broken.chain(empty.filter_map(|problem| Some(Unread::by(problem, problem.file.as_ref()?)))).collect()
    }

    /// A file that is in the middle of a change, unless that takes so long that a diagnostic reports it.
    pub fn unsettled(&self) -> Option<&Arc<str>> {
        let reported = |file: &str| {
            let mut reports = self.diagnostics.iter().filter(|problem| problem.code == FILE_BEING_WRITTEN);
            reports.any(|problem| problem.file.as_deref() == Some(file))
        };
        self.changing.iter().find(|file| !reported(file))
    }

    /// Whether the reasons are those of another version for which what it lacks is not deleted, but for what cannot be read.
    pub fn waits_like(&self, other: &Self) -> bool {
        self.changing == other.changing
            && self.always_empty == other.always_empty
            && self.always_bare == other.always_bare
            && self.misnamed == other.misnamed
    }

    /// Adds the contents of files.
    pub(super) fn add<'f>(&mut self, files: impl IntoIterator<Item = &'f FileContents>) {
        let mut added = Vec::new();
        for file in files {
            self.files += 1;
            self.documents += file.resources.len();
            self.diagnostics.extend(file.diagnostics.iter().cloned());
            self.broken.extend(file.broken.iter().cloned());
            added.extend(file.resources.iter().cloned());
        }
        self.define(added);
    }

    /// Adds the contents of another store.
    pub(super) fn merge(&mut self, other: &StoreContents) {
        self.files += other.files;
        self.documents += other.documents;
        self.diagnostics.extend(other.diagnostics.iter().cloned());
        self.broken.extend(other.broken.iter().cloned());
        self.always_empty.extend(other.always_empty.iter().cloned());
        self.always_bare.extend(other.always_bare.iter().cloned());
        self.lapses += other.lapses;
        self.define(other.resources.iter().cloned());
    }

    /// Adds resources. Of one that is defined several times the last definition counts; that is a problem unless all are the same.
    fn define(&mut self, added: impl IntoIterator<Item = Arc<RawResource>>) {
        let mut all: Vec<Arc<RawResource>> = self.resources.iter().cloned().chain(added).collect();
        // A stable sort: of equal keys the last wins.
        all.sort_by(|a, b| a.key.cmp(&b.key));
        for (before, resource) in all.iter().zip(all.iter().skip(1)) {
            if before.key != resource.key {
                continue;
            }
            // Links and copies of files produce identical duplicates, which are harmless; within a file they are a mistake.
            let in_one_file = before.origin.file == resource.origin.file
                && before.origin.first_line != resource.origin.first_line;
            let severity = match before.revision != resource.revision {
                true => Severity::Error,
                false if in_one_file => Severity::Warning,
                false => continue,
            };
            self.diagnostics.push(duplicate(severity, before, resource));
        }
        all.reverse();
        let overridden = &mut self.overridden;
        all.dedup_by(|earlier, later| {
            let is_duplicate = earlier.key == later.key;
            if is_duplicate {
                overridden.push(Arc::clone(earlier));
            }
            is_duplicate
        });
        all.reverse();
        self.resources = all.into_iter().collect();
    }

    /// Adds those resources of a file that no other defines.
    pub(super) fn add_undefined(&mut self, file: &FileContents) {
        for resource in &file.resources {
            if !self.resources.contains_key(&resource.key) {
                self.resources.put(Arc::clone(resource));
                self.documents += 1;
            }
        }
    }

    /// Bounds the list of what cannot be read, and of the problems that no resource has. Beyond the bound everything at or below `root`
    /// counts as unreadable.
    pub(super) fn bound_broken(&mut self, root: &Path) {
        let all = self.broken.len();
        if all <= MAX_BROKEN {
            return;
        }
        self.broken.truncate(MAX_BROKEN);
        let mut listed = 0;
        self.diagnostics.retain(|problem| {
            // Of a resource with an error every version of the list has to tell.
            let is_listed = !problem.resource.is_empty() || listed < MAX_BROKEN;
            listed += usize::from(problem.resource.is_empty());
            is_listed
        });
        let text = format!(
            "{all} files and documents of {} cannot be read, more than {MAX_BROKEN}: all of it counts as unreadable",
            root.display()
        );
        let mut problem = Diagnostic::error(STORE_ERRORS, FieldPath::root(), text)
            .with_hint("mend them, or move what is no configuration of this server out of the directory");
        let file: Arc<str> = root.display().to_string().into();
        problem.file = Some(Arc::clone(&file));
        // Of which files the last contents stay in effect is no longer known.
        let whole =
            Broken { file, document: None, text: "".into(), problem: problem.clone(), keeps_last: true };
        self.broken.push(whole);
        self.diagnostics.push(problem);
    }

    /// Whether a resource is defined more than once.
    pub(super) fn has_duplicates(&self) -> bool {
        self.documents != self.resources.len()
    }

    /// Replaces the old versions of files by the new ones; either may be missing. `may_take` tells whether a resource of another file gives way.
    /// Returns what is defined no more. The caller updates the numbers and the diagnostics. `None` if a resource is defined more than once; the
    /// contents are then inconsistent and must be discarded. Cost: that of these files.
    pub(super) fn replace<'f>(
        &mut self,
        changes: &[(Option<&'f FileContents>, Option<&'f FileContents>)],
        may_take: impl Fn(&Arc<RawResource>) -> bool,
    ) -> Option<Vec<&'f ResourceKey>> {
        let resources = |file: Option<&'f FileContents>| file.map_or(&[][..], |file| &*file.resources);
        // First what is gone of all files: it may be in another one of them.
        let mut removed = Vec::new();
        for (old, new) in changes {
            let kept: HashSet<&ResourceKey> = resources(*new).iter().map(|resource| &resource.key).collect();
            for resource in resources(*old).iter().filter(|resource| !kept.contains(&resource.key)) {
                if self.resources.get(&resource.key).is_some_and(|now| Arc::ptr_eq(now, resource)) {
                    self.resources.remove(&resource.key);
                    removed.push(&resource.key);
                }
            }
        }
        for (old, new) in changes {
            let own: HashMap<&ResourceKey, &Arc<RawResource>> =
                resources(*old).iter().map(|resource| (&resource.key, resource)).collect();
            let mut defined = HashSet::default();
            for resource in resources(*new) {
                if !defined.insert(&resource.key) {
                    return None;
                }
                if let Some(now) = self.resources.get(&resource.key) {
                    if Arc::ptr_eq(now, resource) {
                        continue;
                    }
                    let is_own = own.get(&resource.key).is_some_and(|own| Arc::ptr_eq(own, now));
                    if !is_own && !may_take(now) {
                        return None;
                    }
                }
                self.resources.put(Arc::clone(resource));
            }
        }
        Some(removed)
    }

    /// Whether the contents tell no more than those before them: they are equal, with the places of resources, and no change of a file
    /// has ended.
    pub(super) fn same_as(&self, before: &StoreContents) -> bool {
        before.changing.iter().all(|file| self.changing.contains(file))
            && self.unavailable == before.unavailable
            && self.always_empty == before.always_empty
            && self.always_bare == before.always_bare
            && self.misnamed == before.misnamed
            && self.diagnostics == before.diagnostics
            && self.resources.len() == before.resources.len()
            && self
                .resources
                .changes(&before.resources, |a, b| a.revision == b.revision && a.origin.is_at(&b.origin))
                .is_empty()
    }
}

fn duplicate(severity: Severity, before: &RawResource, resource: &RawResource) -> Diagnostic {
    let place = |r: &RawResource| match r.origin.is_object() {
        true => r.origin.file.to_string(),
        false => format!("{}:{}", r.origin.file, r.origin.first_line),
    };
    let (first, second) = (place(before), place(resource));
    let start = resource.document().span.start;
    let span = Span { start, end: start };
    let message = match severity {
        Severity::Error => {
            format!("{} is defined twice and differently: at {first} and at {second}", resource.key)
        }
        _ => format!("{} is defined twice: {first} is replaced by {second}", resource.key),
    };
    // A file of rate limits as it is has the name of its domain.
    let is_limits = |r: &RawResource| &*r.key.kind == "ratelimit" && &*r.key.namespace == "ratelimit";
    let hint = match is_limits(resource) {
        true => format!(
            "put the descriptors of both into one file, or wrap each as `kind: ratelimit` with a name of its own and the file as `spec`, and set \
             ratelimit.mergeDomains in the envoybridge; the other one is at {first}"
        ),
        false => format!("remove or rename one of them; the other one is at {first}"),
    };
    let mut diagnostic = Diagnostic::new(severity, RESOURCE_DUPLICATE, FieldPath::root(), message)
        .with_resource(resource.key.to_string())
        .with_hint(hint);
    diagnostic.file = Some(resource.origin.file.clone());
    diagnostic.span = Some(resource.origin.in_file(span));
    diagnostic
}
