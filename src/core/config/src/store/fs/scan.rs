//! The state of a directory of configuration, brought up to date by scans.
//!
//! [`Scanner`] belongs to the thread that reads the store. All its methods may block on the file system.

mod assembly;
pub(super) mod follow;
mod openings;
mod paths;
mod steady;
mod tree;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::{Before, CachedFile, MAX_FILES_BYTES, Unsettled, Why};
use super::mounts::Mount;
use super::walk;
use super::watch::{LastEvent, Noted, Watch};
use super::{WhenLost, replaced};
use crate::store::{Reading, StoreContents};
use follow::Events;
use openings::{Drafts, Openings};
use steady::Steadiness;
use writers::Opened;

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
    /// What may be about to become one of them.
    drafts: Drafts,
    /// Their sizes together, in bytes.
    size: u64,
    /// Files whose state on disk is not in effect yet.
    unsettled: BTreeMap<PathBuf, Unsettled>,
    /// What the last walk could not read, and has no contents.
    unread: BTreeSet<PathBuf>,
    /// What the last walk found in place of directories whose files stay in effect.
    replaced: Vec<PathBuf>,
    directories: replaced::Directories,
    /// Files that an earlier process had read and that this one has not seen, while something stands in the place of their directories.
    expected: BTreeSet<PathBuf>,
    /// Files that are not read because of their names, and have resources.
    misnamed: BTreeMap<PathBuf, tree::MisnamedFile>,
    contents: Arc<StoreContents>,
    has_read: bool,
    /// When the tree was last walked.
    walked: Option<Instant>,
    /// When the last walk began.
    looked: Option<Instant>,
    /// What the last walk found.
    signature: Option<u64>,
    /// When something last happened to a file, whether or not it changed a resource.
    touched: Option<Instant>,
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
    /// Whether files came and are gone again since the last scan, or are being written by another name: what others defined that are missing may be
    /// in one that was seen by nobody.
    is_moving: bool,
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
            drafts: Drafts::default(),
            size: 0,
            unsettled: BTreeMap::new(),
            unread: BTreeSet::new(),
            replaced: Vec::new(),
            directories: replaced::Directories::default(),
            expected: BTreeSet::new(),
            misnamed: BTreeMap::new(),
            contents: Arc::default(),
            has_read: false,
            walked: None,
            looked: None,
            signature: None,
            touched: None,
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

    /// When something last happened to a file, whether or not it changed a resource.
    pub(super) fn touched(&self) -> Option<Instant> {
        self.touched
    }

    /// Whether a scan was completed: before, the contents mean nothing.
    pub(super) fn has_read(&self) -> bool {
        self.has_read
    }

    /// Whether there is, or was a moment ago, a file of which no version was read, because it is in the middle of a change.
    pub(super) fn awaits_writer(&self) -> bool {
        self.unsettled.keys().any(|path| !self.files.contains_key(path))
    }

    /// `None` if the last change of a file was `quiet` ago when the last walk began; otherwise for how long nothing may change yet before the next
    /// one. What was written since it began may not have been seen, however long ago that is. A file whose time is in the future was changed by
    /// another clock.
    pub(super) fn filling(&self, quiet: Duration) -> Option<Duration> {
        let last_change = self.files.values().filter_map(|file| file.stamp.age()).min()?;
        let since_walk = self.looked.map_or(Duration::ZERO, |looked| looked.elapsed());
        let was_quiet = last_change.saturating_sub(since_walk);
        (was_quiet < quiet).then(|| quiet.saturating_sub(last_change))
    }

    /// Brings the contents up to date; true if they changed.
    pub(super) fn scan(&mut self, scope: Scope, mut noted: Noted, now: Instant) -> bool {
        let before = Arc::clone(&self.contents);
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
        if events.iter().any(|(path, event)| event.is_some() && walk::is_configuration(path)) {
            self.touched = Some(now);
        }
        self.drafts.note(&events, now);
        self.is_moving =
            noted.lost || noted.is_renaming || self.drafts.are_written() || self.have_come_and_gone(&events);
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
            distrust_empty: self.lost == WhenLost::Keep,
            keeps_last: self.lost == WhenLost::Keep,
            leases: self.leases,
            reading: self.reading,
            first: !self.has_read,
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

    /// Makes the last walk one that began at another time.
    #[cfg(test)]
    pub(super) fn pretend_looked(&mut self, at: Instant) {
        self.looked = Some(at);
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
    pub(super) fn coverage(&self) -> (Coverage, bool, Option<Duration>) {
        (self.coverage, self.settling, self.next_scan(Instant::now()).map(|(interval, _)| interval))
    }
}
