//! Scans of the files that events name, without a walk of the tree. Their cost is that of these files, however many others there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::super::file::{Before, CachedFile, Look, Unsettled, Why, look};
use super::super::walk::{self, Found, Identity};
use super::super::watch::LastEvent;
use super::super::{WhenLost, replaced};
use super::{Kind, Scanner};
use crate::store::{FileContents, StoreContents};
use crate::{RawResource, ResourceKey};
use mixer_base::file_stamp::FileStamp;

/// Most files that are watched themselves, because they have other names.
const MAX_WATCHED_FILES: usize = 1024;

/// What the files that events name are now.
#[derive(Default)]
struct Looked {
    read: Vec<(PathBuf, CachedFile)>,
    waiting: Vec<(PathBuf, Unsettled)>,
    /// Those that are removed for good.
    gone: Vec<PathBuf>,
    /// Whether one is in a directory that no walk has read.
    is_elsewhere: bool,
}

impl Looked {
    /// The files that do not exist, and may be about to be replaced.
    fn missed(&self) -> impl Iterator<Item = &PathBuf> {
        self.waiting.iter().filter(|(_, unsettled)| unsettled.why == Why::Vanished).map(|(path, _)| path)
    }
}

/// What the files define that do not exist and may be about to be replaced: it stays as long as no other file defines it.
#[derive(Default)]
struct Absent<'s> {
    by_key: HashMap<&'s ResourceKey, &'s Arc<RawResource>>,
    all: BTreeSet<*const RawResource>,
}

impl<'s> Absent<'s> {
    /// Of these files, in their order.
    fn of(files: impl Iterator<Item = &'s CachedFile>) -> Self {
        let mut absent = Self::default();
        for resource in files.flat_map(|file| &file.contents.resources) {
            absent.by_key.entry(&resource.key).or_insert(resource);
            absent.all.insert(Arc::as_ptr(resource));
        }
        absent
    }
}

impl Scanner {
    /// Looks only at the files named by events. `None`, without changes, if that is not sufficient: the events name other things
    /// than plain files, or the files depend on each other. Cost: that of these files.
    pub(super) fn scan_paths(
        &mut self,
        events: &BTreeMap<PathBuf, Option<LastEvent>>,
        now: Instant,
    ) -> Option<Kind> {
        if events.is_empty() {
            return Some(Kind::Edit);
        }
        let independent = self.is_intact && !self.contents.has_duplicates() && self.links == 0;
        if !independent {
            return None;
        }
        let looked = self.look_at(events, now)?;
        let contents = self.contents_with(&looked, events)?;
        self.take(looked, events, contents, now)
    }

    /// `None`: the tree is to be walked.
    fn look_at(&self, events: &BTreeMap<PathBuf, Option<LastEvent>>, now: Instant) -> Option<Looked> {
        let mut looked = Looked::default();
        for (path, event) in events {
            let inside = self.files.range(path.clone()..).find(|(other, _)| *other != path);
            if inside.is_some_and(|(other, _)| other.starts_with(path)) {
                return None;
            }
            // A watch outlives the name of a directory: the path may lead through a link.
            if replaced::leads_elsewhere(&self.root, path) {
                return None;
            }
            // Only a walk tells that a directory has something by now.
            if self.directories.fills(path) {
                return None;
            }
            let before = self.before(path, *event);
            let metadata = match std::fs::symlink_metadata(path) {
                Ok(metadata) if metadata.is_file() => Some(metadata),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                _ => return None,
            };
            let Some(metadata) = metadata.filter(|_| walk::is_configuration(path)) else {
                if self.concerns_walk(path) {
                    return None;
                }
                if before.cached.is_some() || before.unsettled.is_some() {
                    self.miss(path, before, now, &mut looked)?;
                }
                continue;
            };
            looked.is_elsewhere |= before.cached.is_none() && !self.is_in_known_directories(path);
            let found = Found::of(path.clone(), &metadata, false);
            #[cfg(test)]
            {
                self.spend(|effort| effort.looks += 1);
                self.meanwhile.look_at(path);
            }
            match look(&found, before, now) {
                Look::Read(file) => looked.read.push((path.clone(), file)),
                Look::Wait(why, stamp) => {
                    let event = event.map(|event| (event, before.may_be_open));
                    let next = Unsettled::next(before.unsettled, why, Some(stamp), event, now);
                    looked.waiting.push((path.clone(), next));
                }
                Look::Failed(_) => return None,
            }
        }
        Some(looked)
    }

    /// Whether only a walk takes notice of what happened to a file that is none of configuration, or is gone: it is another name of one that is, or
    /// it is, or was, told as one that is not read.
    fn concerns_walk(&self, path: &Path) -> bool {
        if walk::is_configuration(path) {
            return false;
        }
        let metadata = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file);
        if metadata.as_ref().is_some_and(|metadata| metadata.nlink() > 1) {
            return true;
        }
        let name = path.display().to_string();
        let is_it = |file: &Arc<str>| **file == *name;
        let mut told = self.contents.diagnostics.iter().filter(|problem| problem.code == walk::FILE_IGNORED);
        told.any(|problem| problem.file.as_ref().is_some_and(is_it))
            || (metadata.is_some() && walk::is_told_as_not_read(path))
    }

    /// A file that was read, or was about to be, does not exist. `None`: the tree is to be walked.
    fn miss(&self, path: &Path, before: Before<'_>, now: Instant, looked: &mut Looked) -> Option<()> {
        // What stands in the place of its directory may have deleted nothing, and an empty directory is taken for a mount point.
        let parent = path.parent().filter(|parent| *parent != self.root);
        let is_bare =
            |directory: &Path| std::fs::read_dir(directory).is_ok_and(|mut all| all.next().is_none());
        if !self.is_in_known_directories(path) || parent.is_some_and(is_bare) {
            return None;
        }
        let next = Unsettled::missed(before.unsettled, before.event.is_some(), self.is_moving, now);
        match self.lost == WhenLost::Drop || next.is_gone(now) {
            true if before.cached.is_some() => looked.gone.push(path.to_owned()),
            // It had no contents.
            true => {}
            false => looked.waiting.push((path.to_owned(), next)),
        }
        Some(())
    }

    /// Whether all directories above a path, up to the root, are those that were read. Cost: a system call for each.
    fn is_in_known_directories(&self, path: &Path) -> bool {
        let above = path.ancestors().skip(1).take_while(|directory| directory.starts_with(&self.root));
        above.into_iter().all(|directory| {
            let now = Identity::at(directory);
            now.is_some() && now == self.directories.identity_of(directory)
        })
    }

    /// The contents with what was found, but for the lists of problems. `None`: a resource is defined more than once.
    fn contents_with(
        &self,
        looked: &Looked,
        events: &BTreeMap<PathBuf, Option<LastEvent>>,
    ) -> Option<StoreContents> {
        let mut contents = StoreContents::clone(&self.contents);
        let was_missed = |path: &Path| self.unsettled.get(path).is_some_and(|u| u.why == Why::Vanished);
        let missed: BTreeSet<&PathBuf> = looked.missed().collect();
        let gone: BTreeSet<&PathBuf> = looked.gone.iter().collect();
        // What was defined until now, and may be what other files defined that are missing for longer.
        let mut undecided: Vec<&ResourceKey> = Vec::new();
        for path in events.keys() {
            let Some(cached) = self.files.get(path) else { continue };
            match (was_missed(path), missed.contains(path)) {
                (false, true) => {
                    contents.files -= 1;
                    undecided.extend(cached.contents.resources.iter().map(|resource| &resource.key));
                }
                (true, false) if !gone.contains(path) => {
                    contents.files += 1;
                    // Another file may define by now what this one did.
                    let has = |resource: &Arc<RawResource>| {
                        contents.resources.get(&resource.key).is_some_and(|now| Arc::ptr_eq(now, resource))
                    };
                    if !cached.contents.resources.iter().all(has) {
                        return None;
                    }
                }
                (false, false) if gone.contains(path) => contents.files -= 1,
                _ => {}
            }
        }
        // A file that is gone counts no more, and neither does one that did not exist before.
        let old = |path: &PathBuf| self.files.get(path).map(|file| &*file.contents);
        let read = looked.read.iter().map(|(path, file)| (old(path), Some(&*file.contents)));
        let gone = looked.gone.iter().map(|path| (old(path), None));
        let changes: Vec<(Option<&FileContents>, Option<&FileContents>)> = gone.chain(read).collect();
        contents.files += changes.iter().filter(|(old, _)| old.is_none()).count();
        if changes.is_empty() && undecided.is_empty() {
            return Some(contents);
        }
        // All that was unsettled was looked at.
        let absent = Absent::of(missed.into_iter().filter_map(|path| self.files.get(path)));
        let removed = contents.replace(&changes, |resource| absent.all.contains(&Arc::as_ptr(resource)))?;
        // What a file defines no more may be what a missing one defines: the first one, as a walk finds it.
        for key in removed.into_iter().chain(undecided) {
            let is_defined = |now: &Arc<RawResource>| !absent.all.contains(&Arc::as_ptr(now));
            if let Some(resource) = absent.by_key.get(key)
                && !contents.resources.get(key).is_some_and(is_defined)
            {
                contents.resources.put(Arc::clone(resource));
            }
        }
        contents.documents = contents.resources.len();
        Some(contents)
    }

    /// Takes over what was found. `None`, without changes: there would be too much.
    fn take(
        &mut self,
        looked: Looked,
        events: &BTreeMap<PathBuf, Option<LastEvent>>,
        mut contents: StoreContents,
        now: Instant,
    ) -> Option<Kind> {
        let Looked { read, waiting, gone, is_elsewhere } = looked;
        // What is written by another name is told of the file itself, once it is watched.
        let is_watched = |path: &Path, file: &CachedFile| {
            self.shared.contains(path)
                && self.files.get(path).is_some_and(|known| known.stamp.same_file(&file.stamp))
        };
        if read.iter().any(|(path, file)| file.is_shared && !is_watched(path, file)) {
            return None;
        }
        let more: u64 = read.iter().map(|(_, file)| file.stamp.length()).sum();
        if self.size.saturating_add(more) > self.max_bytes() {
            return None;
        }
        let is_faulty = |file: &CachedFile| !file.contents.diagnostics.is_empty();
        let mut relist = !contents.broken.is_empty() || !waiting.is_empty() || !self.unsettled.is_empty();
        relist |= read.iter().any(|(_, file)| is_faulty(file));
        let replaced = read.iter().map(|(path, _)| path).chain(&gone).filter_map(|path| self.files.get(path));
        let mut less = 0u64;
        for file in replaced {
            relist |= is_faulty(file);
            less = less.saturating_add(file.stamp.length());
        }
        self.size = self.size.saturating_add(more).saturating_sub(less);
        for path in events.keys() {
            self.unsettled.remove(path);
        }
        self.unsettled.extend(waiting);
        for path in gone {
            self.forget_file(&path);
        }
        for (path, file) in read {
            self.keep_file(path, file);
        }
        if relist {
            self.relist(&mut contents, now);
        }
        self.contents = Arc::new(contents);
        Some(if is_elsewhere { Kind::Addition } else { Kind::Edit })
    }

    fn forget_file(&mut self, path: &Path) {
        self.files.remove(path);
        self.faulty.remove(path);
        self.shared.remove(path);
    }

    fn keep_file(&mut self, path: PathBuf, file: CachedFile) {
        let note = |set: &mut BTreeSet<PathBuf>, belongs: bool| match belongs {
            true => drop(set.insert(path.clone())),
            false => drop(set.remove(&path)),
        };
        note(&mut self.faulty, file.contents.has_problems());
        note(&mut self.shared, file.is_shared);
        self.files.insert(path, file);
    }

    /// Adds to events of files with other names those of the names by which they are read.
    pub(super) fn add_other_names(&self, events: &mut BTreeMap<PathBuf, Option<LastEvent>>) {
        let identity = |path: &PathBuf| self.files.get(path).map(|file| file.stamp.identity());
        let mut written: HashMap<(u64, u64), Option<LastEvent>> = HashMap::new();
        for (path, event) in events.iter().filter(|(path, _)| self.shared.contains(*path)) {
            let Some(known) = identity(path) else { continue };
            // What is told of a name that is that of another file by now may be about either.
            let told = event.map(|event| if is_still(path, known) { event } else { LastEvent::Other });
            let all = written.entry(known).or_default();
            *all = match (*all, told) {
                (None | Some(LastEvent::Other), told @ Some(_)) => told,
                (all, _) => all,
            };
        }
        if written.is_empty() {
            return;
        }
        // What happens by another name says nothing of one that is missing.
        let is_missing =
            |path: &PathBuf| self.unsettled.get(path).is_some_and(|unsettled| unsettled.why == Why::Vanished);
        for path in self.shared.iter().filter(|path| !is_missing(path)) {
            if let Some(told) = identity(path).and_then(|identity| written.get(&identity)) {
                let event = events.entry(path.clone()).or_default();
                *event = event.or(*told);
            }
        }
    }

    /// Whether a process may have a file open, by any of its names.
    pub(super) fn may_be_open(&self, path: &Path) -> bool {
        if self.openings.is_empty() {
            return false;
        }
        if self.openings.may_be_open(path) {
            return true;
        }
        let identity = |path: &Path| self.files.get(path).map(|file| file.stamp.identity());
        let Some(known) = identity(path).filter(|known| self.shared.contains(path) && is_still(path, *known))
        else {
            return false;
        };
        self.shared.iter().any(|other| self.openings.may_be_open(other) && identity(other) == Some(known))
    }

    /// The files with other names that are to be watched themselves, one path for each: a directory tells only of what happens by the names in it.
    /// `None` if there are too many.
    pub(super) fn files_with_other_names(&self) -> Option<Vec<PathBuf>> {
        let named =
            self.shared.iter().filter_map(|path| Some((self.files.get(path)?.stamp.identity(), path)));
        let named: BTreeMap<(u64, u64), &PathBuf> = named.collect();
        (named.len() <= MAX_WATCHED_FILES).then(|| named.into_values().cloned().collect())
    }

    /// Notes which files have problems, and which have other names, after a walk.
    pub(super) fn note_files(&mut self) {
        let of = |belongs: fn(&CachedFile) -> bool| {
            let files = self.files.iter().filter(move |(_, file)| belongs(file));
            files.map(|(path, _)| path.clone()).collect()
        };
        (self.faulty, self.shared) = (of(|file| file.contents.has_problems()), of(|file| file.is_shared));
    }
}

/// Whether a name is still that of a file, and not of another one by now.
fn is_still(path: &Path, known: (u64, u64)) -> bool {
    std::fs::metadata(path).is_ok_and(|now| FileStamp::of(&now).identity() == known)
}
