//! The state of a directory of configuration, brought up to date by scans.
//!
//! [`Scanner`] belongs to the thread that reads the store. All its methods may block on the file system.

pub(super) mod follow;
mod openings;
mod paths;
mod steady;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::file::{
    Before, CachedFile, Look, MAX_FILE, MAX_FILES_BYTES, PATIENCE, ReadError, Unsettled, Why, broken_file,
    look,
};
use super::mounts::{self, Mount};
use super::problems::Problems;
use super::walk::{self, Found, Walk};
use super::watch::{LastEvent, Noted, Watch};
use super::{WhenLost, parallel, replaced};
use crate::store::contents::RESOURCE_DUPLICATE;
use crate::store::{FileContents, IdentityRule, Reading, StoreContents};
use follow::Events;
use mixer_base::load::{self, Load, LoadId};
use openings::Openings;
use steady::Steadiness;
use writers::Opened;

/// Minimum files per thread.
const FILES_PER_THREAD: usize = 16;

/// What a scan covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The paths named by events, and those in the middle of a change.
    Noted,
    /// The whole tree.
    Everything,
}

/// What events that name plain files alone stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Files were changed that are known.
    Edit,
    /// A file is new, in a directory that no walk has read: what it came with may be new as well.
    Addition,
}

/// Which changes cause events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Coverage {
    /// None: there is no watch.
    #[default]
    None,
    /// Not all: some paths are not watched, or changes may come from other machines.
    Partial,
    /// All.
    Full,
}

/// A directory and what was last read from it.
pub(super) struct Scanner {
    root: PathBuf,
    lost: WhenLost,
    /// Files by path. The path of a file that vanished stays for a short time.
    files: BTreeMap<PathBuf, CachedFile>,
    /// Those that have problems.
    faulty: BTreeSet<PathBuf>,
    /// Those that have several names.
    shared: BTreeSet<PathBuf>,
    /// Those that may be open for writing.
    opened: Opened,
    /// Those that others may have open.
    openings: Openings,
    /// Their sizes together, in bytes.
    size: u64,
    /// Files whose state on disk is not in effect yet.
    unsettled: BTreeMap<PathBuf, Unsettled>,
    /// What the last walk found in place of directories whose files stay in effect.
    replaced: Vec<PathBuf>,
    directories: replaced::Directories,
    /// Files that an earlier process had read and that this one has not seen, while something stands in the place of their directories.
    expected: BTreeSet<PathBuf>,
    contents: Arc<StoreContents>,
    has_read: bool,
    /// When the tree was last walked.
    walked: Option<Instant>,
    watch: Option<Watch>,
    events: Option<Events>,
    /// The number of files that are symbolic links.
    links: usize,
    /// Whether the last walk found nothing that cannot be read: only a walk tells when that ends.
    is_intact: bool,
    /// The directories that it read.
    walked_directories: Vec<PathBuf>,
    /// The root when it began.
    walked_root: Option<walk::Identity>,
    /// What was mounted below it.
    walked_mounts: Vec<Mount>,
    coverage: Coverage,
    /// The tree has not been walked since the last event.
    settling: bool,
    steadiness: Steadiness,
    /// The last file that [`Self::is_overlooked`] looked at.
    last_look: Option<PathBuf>,
    /// Whether the system is asked for the writers of files.
    leases: bool,
    /// How documents are read.
    reading: Reading,
    /// Since when some file or other has been missing that may come back.
    missing_since: Option<Instant>,
    /// Whether all changes are told, but for what is mounted.
    is_told: bool,
    /// Whether files came and are gone again since the last scan: what others defined that are missing may be in one that was seen by nobody.
    is_moving: bool,
    /// Whether the scan that goes on was asked for by an operator who says that the configuration is complete.
    is_complete: bool,
    /// The file system of the directory in which the root is.
    #[cfg(test)]
    device_above: Option<u64>,
    /// What is done before a file is looked at.
    #[cfg(test)]
    meanwhile: steady::Meanwhile,
    /// What was done by now.
    #[cfg(test)]
    effort: parking_lot::Mutex<Effort>,
}

/// What scans cost: walks of the tree, files that were looked at, asked for their writers, and whose problems were listed.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Effort {
    pub(super) walks: usize,
    pub(super) looks: usize,
    pub(super) asked: usize,
    pub(super) listed: usize,
}

impl Scanner {
    /// Nothing is read yet.
    pub(super) fn new(root: PathBuf, lost: WhenLost) -> Self {
        Self {
            root,
            lost,
            files: BTreeMap::new(),
            faulty: BTreeSet::new(),
            shared: BTreeSet::new(),
            opened: Opened::default(),
            openings: Openings::default(),
            size: 0,
            unsettled: BTreeMap::new(),
            replaced: Vec::new(),
            directories: replaced::Directories::default(),
            expected: BTreeSet::new(),
            contents: Arc::default(),
            has_read: false,
            walked: None,
            watch: None,
            events: None,
            links: 0,
            is_intact: false,
            walked_directories: Vec::new(),
            walked_root: None,
            walked_mounts: Vec::new(),
            coverage: Coverage::None,
            settling: false,
            steadiness: Steadiness::default(),
            last_look: None,
            leases: true,
            reading: Reading::default(),
            missing_since: None,
            is_told: false,
            is_moving: false,
            is_complete: false,
            #[cfg(test)]
            device_above: None,
            #[cfg(test)]
            meanwhile: steady::Meanwhile::default(),
            #[cfg(test)]
            effort: parking_lot::Mutex::default(),
        }
    }

    /// Reads documents in another way.
    #[must_use]
    pub(super) fn reading(self, reading: Reading) -> Self {
        Self { reading, ..self }
    }

    /// Whether files are read on request alone.
    pub(super) fn is_on_request(&self) -> bool {
        self.reading.on_request
    }

    /// Whether a file is in the middle of a change.
    pub(super) fn awaits_change(&self) -> bool {
        !self.unsettled.is_empty() || self.steadiness.keeps
    }

    /// Maximum size of all files, in bytes.
    fn max_bytes(&self) -> u64 {
        self.reading.max_bytes.unwrap_or(MAX_FILES_BYTES)
    }

    /// The contents as of the last scan.
    pub(super) fn contents(&self) -> &Arc<StoreContents> {
        &self.contents
    }

    /// The directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Expects files that an earlier process had read, see [`ConfigStore::expect`](super::ConfigStore::expect).
    pub(super) fn expect(&mut self, files: Vec<PathBuf>) {
        self.expected.extend(files);
    }

    /// Whether a scan was completed: before, the contents mean nothing.
    pub(super) fn has_read(&self) -> bool {
        self.has_read
    }

    /// Whether a file exists of which no version was read, because it is in the middle of a change.
    pub(super) fn awaits_writer(&self) -> bool {
        self.unsettled.keys().any(|path| !self.files.contains_key(path))
    }

    /// Brings the contents up to date; true if they changed.
    pub(super) fn scan(&mut self, scope: Scope, mut noted: Noted, now: Instant) -> bool {
        let before = Arc::clone(&self.contents);
        self.is_complete = noted.is_complete;
        if self.tend_watch(now) {
            (noted.everything, noted.lost) = (true, true);
        }
        self.look(scope, noted, now);
        self.look_until_steady(&before, now);
        self.await_writers(&before, now);
        let is_missing = self.unsettled.values().any(|unsettled| unsettled.why == Why::Vanished);
        self.missing_since = self.missing_since.or(Some(now)).filter(|_| is_missing);
        let first = !std::mem::replace(&mut self.has_read, true);
        first || !self.contents.same_as(&before)
    }

    /// Notes who opened files.
    fn note_openings(&mut self, noted: &Noted, now: Instant) {
        self.opened.note(noted, self.watch.as_ref(), &self.root);
        let watch = self.watch.as_ref().map(|watch| (watch, &*self.root));
        self.openings.note(noted, watch, |path| self.unsettled.contains_key(path), now);
    }

    /// Brings the contents up to date with what is found now.
    fn look(&mut self, scope: Scope, noted: Noted, now: Instant) {
        self.note_openings(&noted, now);
        if noted.lost {
            self.unsettled.values_mut().for_each(|unsettled| unsettled.forget_writer(now));
        }
        let any = noted.everything || !noted.paths.is_empty();
        let (events, is_elsewhere) = self.events(&noted);
        self.is_moving = noted.lost || noted.is_renaming || self.have_come_and_gone(&events);
        let covered = match scope {
            Scope::Noted if self.has_read && !noted.everything && !is_elsewhere && !self.steadiness.keeps => {
                self.scan_paths(&events, now)
            }
            _ => None,
        };
        (self.steadiness.walked, self.steadiness.keeps) = (None, false);
        // Where known files alone were written or replaced, nothing can have changed without an event.
        let is_edit = covered == Some(Kind::Edit);
        self.settling = scope == Scope::Noted && (self.settling || (any && !is_edit));
        if covered.is_none() {
            self.scan_tree(&events, now);
        }
    }

    /// Events by the path in this tree, and the paths in the middle of a change; and whether an event is about none of them.
    fn events(&self, noted: &Noted) -> (BTreeMap<PathBuf, Option<LastEvent>>, bool) {
        let mut events: BTreeMap<PathBuf, Option<LastEvent>> =
            self.unsettled.keys().map(|path| (path.clone(), None)).collect();
        let mut is_elsewhere = false;
        for (path, event) in &noted.paths {
            match self.watch.as_ref().and_then(|watch| watch.path_in(&self.root, path)) {
                Some(path) => drop(events.insert(path, Some(*event))),
                None => is_elsewhere = true,
            }
        }
        self.add_other_names(&mut events);
        (events, is_elsewhere)
    }

    /// Whether an event tells of a file that was written or renamed into place, and is gone, while others are missing.
    fn have_come_and_gone(&self, events: &BTreeMap<PathBuf, Option<LastEvent>>) -> bool {
        let has_come = |path: &Path, event: &Option<LastEvent>| {
            matches!(event, Some(LastEvent::Closed | LastEvent::Written)) && walk::is_configuration(path)
        };
        self.unsettled.values().any(|unsettled| unsettled.why == Why::Vanished)
            && events.iter().any(|(path, event)| {
                has_come(path, event)
                    && std::fs::symlink_metadata(path)
                        .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            })
    }

    /// What is known about a file before it is looked at.
    fn before<'s>(&'s self, path: &Path, event: Option<LastEvent>) -> Before<'s> {
        Before {
            cached: self.files.get(path),
            unsettled: self.unsettled.get(path),
            event,
            may_be_open: self.may_be_open(path),
            watch: self.watch.as_ref().map(|watch| (watch, &*self.root)),
            distrust_empty: self.lost == WhenLost::Keep && !self.is_complete,
            keeps_last: self.lost == WhenLost::Keep,
            leases: self.leases,
            reading: self.reading,
            first: !self.has_read,
        }
    }

    /// Walks the tree and reads changed files.
    fn scan_tree(&mut self, events: &BTreeMap<PathBuf, Option<LastEvent>>, now: Instant) {
        let started = Instant::now();
        #[cfg(test)]
        self.spend(|effort| effort.walks += 1);
        self.walked_root = walk::Identity::at(&self.root);
        self.walked_mounts = mounts::below(self.root.canonicalize().ok().as_deref());
        let mut found = Walk::default();
        self.walk(&mut found);
        self.steadiness.walked = Some(steady::signature(&found));
        self.replaced.clear();
        let mut problems = Problems::default();
        for (path, error) in std::mem::take(&mut found.errors) {
            problems.lost(&path, &path, &error, self.keeps_below(&path));
        }
        for walk::Volume { directory, link, error } in std::mem::take(&mut found.volumes) {
            problems.lost(&link, &directory, &error, self.keeps_gone(&directory, &found.files));
        }
        let real = self.root.canonicalize().ok();
        if self.lost == WhenLost::Keep {
            self.keep_remounted(&mut found, real.as_deref(), &mut problems);
            let files: BTreeSet<&Path> = found.files.iter().map(|file| file.path.as_path()).collect();
            let known = self.files.keys().chain(&self.expected).map(PathBuf::as_path);
            let gone = known.filter(|path| !files.contains(path));
            let exchanged = self.directories.exchanged(&self.root, gone.clone(), &found.read);
            for (path, error) in replaced::directories(&self.root, gone).into_iter().chain(exchanged) {
                if !problems.lost.contains(&path) {
                    problems.lost(&path, &path, &error, self.keeps_below(&path));
                    self.replaced.push(path);
                }
            }
        }
        // Containers mount an empty directory where a file is missing.
        for (path, is_empty) in std::mem::take(&mut found.directories) {
            let known = self.files.contains_key(&path);
            if self.lost == WhenLost::Keep && (is_empty || known || self.expected.contains(&path)) {
                problems.replaced(path, known);
            }
        }
        // What is not in the way is deleted, or read.
        self.expected.retain(|path| problems.lost.iter().any(|lost| path.starts_with(lost)));
        let root_is_lost = problems.lost.contains(&self.root) && found.files.is_empty();
        if !(root_is_lost && self.lost == WhenLost::Keep) {
            self.read_found(&found.files, events, now, &mut problems);
        }
        self.size = self.files.values().map(|file| file.stamp.length()).sum();
        self.note_files();
        let files = &self.files;
        let read = std::mem::take(&mut found.read);
        self.walked_directories = read.iter().map(|directory| directory.path.clone()).collect();
        let root = (&*self.root, real);
        self.directories.note(root, read, &problems.lost, |path| is_above(files, path));
        let aim = self.aim();
        // A directory may have changed after it was read and before it was watched.
        if aim.is_new {
            self.opened.lose();
            self.events.iter().for_each(|events| events.wake.rescan());
        }
        problems.diagnostics.extend(aim.failure);
        let mut contents = self.assemble(now);
        let directories = &self.directories;
        let shown = |path: &PathBuf| path.display().to_string().into();
        contents.always_empty = directories.always_empty.iter().map(shown).collect();
        contents.always_bare =
            (&directories.always_bare - &directories.always_empty).iter().map(shown).collect();
        self.is_intact = problems.broken.is_empty();
        let not_followed = found.links.iter().map(|link| walk::not_followed(link));
        let not_read = found.unread.iter().map(|file| walk::not_read(file));
        let ignored = not_followed.chain(not_read);
        contents.diagnostics.splice(0..0, problems.diagnostics.into_iter().chain(ignored));
        contents.broken.extend(problems.broken);
        contents.unavailable = problems.unavailable;
        let available = contents.unavailable.is_none();
        self.contents = Arc::new(contents);
        self.walked = now.checked_add(started.elapsed());
        if !available && self.coverage == Coverage::Full {
            // The error may end outside the tree, for example at the target of a broken link.
            self.coverage = Coverage::Partial;
        }
    }

    /// Looks what is there.
    fn walk(&self, found: &mut Walk) {
        // The configuration of a policy server is a directory.
        let takes_file = self.reading.identity != IdentityRule::Complete;
        if !takes_file || !walk::file(&self.root, found) {
            walk::walk(&self.root, found);
        }
    }

    /// Keeps what directories lack, or have behind a volume that is gone, because they are on another file system than before: nobody deleted or
    /// wrote it.
    fn keep_remounted(&mut self, found: &mut Walk, real: Option<&Path>, problems: &mut Problems) {
        let above = walk::Identity::at(&self.root.join("..")).map(|above| above.device);
        #[cfg(test)]
        let above = self.device_above.or(above);
        for remounted in self.directories.remounted(&self.root, real, above, &found.read) {
            let replaced::Remounted { path, is_unmounted } = remounted;
            if is_unmounted && is_above(&self.files, &path) {
                let error = std::io::Error::other(
                    "its volume is gone, and what lay behind it is not read: mount it again, or start the server anew",
                );
                found.files.retain(|file| !file.path.starts_with(&path));
                problems.lost(&path, &path, &error, true);
                self.replaced.push(path);
                continue;
            }
            let files: BTreeSet<&Path> = found.files.iter().map(|file| file.path.as_path()).collect();
            let known = self.files.range(path.clone()..).map(|(file, _)| file);
            let known = known.take_while(|file| file.starts_with(&path));
            let gone: Vec<PathBuf> = known.filter(|file| !files.contains(file.as_path())).cloned().collect();
            if let Some(first) = gone.first() {
                let text = format!(
                    "another volume is in its place, which lacks {}: what it lacks is not deleted before the server starts anew",
                    first.display()
                );
                problems.lost(&path, &path, &std::io::Error::other(text), true);
                self.replaced.extend(gone);
            }
        }
    }

    /// Makes a directory one that was on another file system when it was read.
    #[cfg(test)]
    pub(super) fn pretend_device(&mut self, path: &Path, device: u64) {
        self.directories.pretend_device(path, device);
    }

    /// Makes the root the directory of a volume.
    #[cfg(test)]
    pub(super) fn pretend_device_above(&mut self, device: u64) {
        self.device_above = Some(device);
    }

    /// Reads the files of a walk, and forgets those that are gone.
    fn read_found(
        &mut self,
        found: &[Found],
        events: &BTreeMap<PathBuf, Option<LastEvent>>,
        now: Instant,
        problems: &mut Problems,
    ) {
        let limit = self.max_bytes();
        let mut size = 0u64;
        let within: Vec<bool> = found
            .iter()
            .map(|file| {
                // A file that is too large itself is not read.
                size = size.saturating_add(
                    Some(file.stamp.length()).filter(|length| *length <= MAX_FILE).unwrap_or(0),
                );
                size <= limit
            })
            .collect();
        let work: Vec<(&Found, bool)> = found.iter().zip(within).collect();
        let load = Load::begin(self.root.display().to_string(), "documents", "read", 0);
        load::files_known(load.id(), work.len());
        self.reading.load = load.id();
        #[cfg(test)]
        self.spend(|effort| effort.looks += work.len());
        let looks = parallel::map(&work, FILES_PER_THREAD, |(file, within)| match within {
            true => {
                let event = events.get(&file.path).copied().flatten();
                #[cfg(test)]
                self.meanwhile.look_at(&file.path);
                let look = look(file, self.before(&file.path, event), now);
                load::files_done(load.id(), 1);
                look
            }
            false => Look::Failed(ReadError::TooMuch(limit)),
        });
        self.reading.load = LoadId::default();
        drop(load);
        let mut gone: BTreeMap<PathBuf, CachedFile> = std::mem::take(&mut self.files);
        let mut unsettled = std::mem::take(&mut self.unsettled);
        for (file, look) in found.iter().zip(looks) {
            let path = &file.path;
            let (cached, waiting) = (gone.remove(path), unsettled.remove(path));
            let event = events.get(path).copied().flatten();
            match look {
                Look::Read(read) => drop(self.files.insert(path.clone(), read)),
                Look::Wait(why, stamp) => {
                    let event = event.map(|event| (event, self.may_be_open(path)));
                    let next = Unsettled::next(waiting.as_ref(), why, Some(stamp), event, now);
                    self.unsettled.insert(path.clone(), next);
                    cached.map(|cached| self.files.insert(path.clone(), cached));
                }
                // Removed since the walk.
                Look::Failed(error) if error.is_absent() => {
                    cached.map(|cached| gone.insert(path.clone(), cached));
                    waiting.map(|waiting| unsettled.insert(path.clone(), waiting));
                }
                Look::Failed(error) => {
                    problems.failed(path, &error, self.lost == WhenLost::Keep && cached.is_some());
                    if self.lost == WhenLost::Keep {
                        cached.map(|cached| self.files.insert(path.clone(), cached));
                    }
                }
            }
        }
        for (path, cached) in gone {
            if self.lost == WhenLost::Drop {
                continue;
            }
            // Files below unreadable directories keep their contents.
            if problems.lost.iter().any(|lost| path.starts_with(lost)) {
                self.files.insert(path, cached);
                continue;
            }
            let was_back = events.get(&path).copied().flatten().is_some();
            let next = Unsettled::missed(unsettled.get(&path), was_back, self.is_moving, now);
            if !next.is_gone(now) && !self.is_complete {
                self.unsettled.insert(path.clone(), next);
                self.files.insert(path, cached);
            }
        }
    }

    /// Whether files at or below a path have contents that stay in effect when it cannot be read.
    fn keeps_below(&self, path: &Path) -> bool {
        self.lost == WhenLost::Keep && is_above(&self.files, path)
    }

    /// Whether files below a directory that a walk did not find have contents that stay in effect.
    fn keeps_gone(&self, directory: &Path, found: &[Found]) -> bool {
        let found: BTreeSet<&Path> = found.iter().map(|file| file.path.as_path()).collect();
        let from = self.files.range(directory.to_owned()..).map(|(path, _)| path.as_path());
        let mut below = from.take_while(|path| path.starts_with(directory));
        self.lost == WhenLost::Keep && below.any(|path| !found.contains(path))
    }

    /// The contents of all files.
    fn assemble(&self, now: Instant) -> StoreContents {
        let vanished = |path: &Path| {
            self.unsettled.get(path).is_some_and(|u| u.why == Why::Vanished)
                || self.replaced.iter().any(|replaced| path.starts_with(replaced))
        };
        let files = self.files.iter().map(|(path, file)| (vanished(path), &*file.contents));
        let files: Vec<(bool, &FileContents)> = files.collect();
        let mut contents = StoreContents::default();
        contents.add(files.iter().filter(|(vanished, _)| !vanished).map(|(_, file)| *file));
        // What a removed or replaced file defined may be in another file already.
        for (_, file) in files.iter().filter(|(vanished, _)| *vanished) {
            contents.add_undefined(file);
        }
        self.relist(&mut contents, now);
        contents
    }

    /// Replaces the lists of problems, of broken parts and of files that are being changed, but not the problems of duplicates.
    fn relist(&self, contents: &mut StoreContents, now: Instant) {
        let faulty = || self.faulty.iter().filter_map(|path| self.files.get(path));
        let files = || faulty().map(|file| &*file.contents);
        #[cfg(test)]
        self.spend(|effort| effort.listed += files().count());
        contents
            .diagnostics
            .retain(|problem| [RESOURCE_DUPLICATE, walk::FILE_IGNORED].contains(&problem.code));
        contents.diagnostics.splice(0..0, files().flat_map(|file| file.diagnostics.iter().cloned()));
        contents.broken = files().flat_map(|file| file.broken.iter().cloned()).collect();
        contents.changing.clear();
        // Where files come and go without end, one after the other is missing: what waits for them waits no longer than for one of them.
        let is_past = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let awaits_missing = !self.missing_since.is_some_and(is_past);
        for (path, unsettled) in &self.unsettled {
            let known = self.files.contains_key(path);
            if unsettled.why == Why::Vanished && !awaits_missing {
                continue;
            }
            if known {
                contents.changing.push(path.display().to_string().into());
                if unsettled.why == Why::Vanished || !unsettled.is_overdue(now) {
                    continue;
                }
            }
            let problem = unsettled.problem(path, known);
            if !known {
                contents.broken.push(broken_file(path, problem.clone(), false));
            }
            contents.diagnostics.push(problem);
        }
        contents.bound_broken(&self.root);
    }

    /// Notes what is done.
    #[cfg(test)]
    fn spend(&self, on: impl FnOnce(&mut Effort)) {
        on(&mut self.effort.lock());
    }

    /// Does something each time before a file is looked at.
    #[cfg(test)]
    pub(super) fn meanwhile(&mut self, path: PathBuf, what: impl FnMut() + Send + 'static) {
        self.meanwhile = steady::Meanwhile::new(path, what);
    }

    /// What was done since the last call.
    #[cfg(test)]
    pub(super) fn spent(&self) -> Effort {
        std::mem::take(&mut self.effort.lock())
    }

    /// When the tree was last walked.
    #[cfg(test)]
    pub(super) fn walked(&self) -> Option<Instant> {
        self.walked
    }

    /// As on a file system that does not tell about writers.
    #[cfg(test)]
    pub(super) fn without_leases(mut self) -> Self {
        self.leases = false;
        self
    }

    /// As on a network file system.
    #[cfg(test)]
    pub(super) fn set_partial(&mut self) {
        self.coverage = Coverage::Partial;
    }

    /// The files that are missing, and not removed for good yet.
    #[cfg(test)]
    pub(super) fn missing(&self) -> impl Iterator<Item = &PathBuf> {
        self.unsettled.iter().filter(|(_, unsettled)| unsettled.why == Why::Vanished).map(|(path, _)| path)
    }

    /// The watch of file events.
    #[cfg(test)]
    pub(super) fn events_of_files(&mut self) -> &mut Watch {
        self.watch.as_mut().expect("it is watched")
    }

    /// Makes the thread of file events panic at its next event.
    #[cfg(test)]
    pub(super) fn inject_panic(&self) {
        self.watch.iter().for_each(Watch::inject_panic);
    }

    #[cfg(test)]
    pub(super) fn coverage(&self) -> (Coverage, bool, Option<std::time::Duration>) {
        (self.coverage, self.settling, self.next_scan(Instant::now()).map(|(interval, _)| interval))
    }
}

/// Whether a file is at or below a path.
fn is_above(files: &BTreeMap<PathBuf, CachedFile>, path: &Path) -> bool {
    files.range(path.to_owned()..).next().is_some_and(|(file, _)| file.starts_with(path))
}
