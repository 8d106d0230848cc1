//! A look takes time. What is moved meanwhile, from a file that is looked at later to one that was looked at before, is seen in neither. So whatever
//! is gone, or says something else, counts once a look has seen a state in which nothing happened since.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::WhenLost;
use super::super::file::PATIENCE;
use super::super::walk::{self, Walk};
use super::super::watch::Noted;
use super::{Scanner, Scope};
use crate::store::StoreContents;

/// For how long one scan looks again.
const LIMIT: Duration = Duration::from_millis(100);

/// How often a scan found something else each time it looked.
#[derive(Debug, Default)]
pub(super) struct Steadiness {
    /// The files that the last look found, if it was a walk.
    pub(super) walked: Option<u64>,
    /// Since when scans found no state in which nothing happened.
    unsteady: Option<Instant>,
    /// Whether what the last scan did not find was kept: files and contents do not agree, and the next one is a walk.
    pub(super) keeps: bool,
}

/// The files and directories of a walk, as one number.
pub(super) fn signature(walk: &Walk) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in &walk.files {
        (&file.path, file.stamp).hash(&mut hasher);
    }
    for directory in &walk.read {
        (&directory.path, directory.identity).hash(&mut hasher);
    }
    walk.errors.len().hash(&mut hasher);
    hasher.finish()
}

impl Scanner {
    /// Looks again while something is gone or says something else, and something happened since the last look. If that goes on for longer than
    /// [`LIMIT`], what is gone and what says something else stays until the next scan, for [`PATIENCE`] at most. At a start
    /// all may be gone. Cost, if something is: where all changes are told, some system calls; elsewhere a walk without reading files.
    pub(super) fn look_until_steady(&mut self, before: &Arc<StoreContents>, now: Instant) {
        let started = Instant::now();
        while self.lost == WhenLost::Keep && (!self.has_read || self.has_less(before)) {
            let Some((noted, matters)) = self.happened() else { break };
            self.look(Scope::Noted, noted, now);
            if started.elapsed() < LIMIT {
                continue;
            }
            if !matters {
                break;
            }
            let since = *self.steadiness.unsteady.get_or_insert(now);
            if now.saturating_duration_since(since) < PATIENCE {
                self.keep(before);
            }
            return;
        }
        self.steadiness.unsteady = None;
    }

    /// Whether something is gone or says something else.
    pub(super) fn has_less(&self, before: &StoreContents) -> bool {
        !self.less(before).is_empty()
    }

    /// What is gone, or says something else, as it was.
    fn less(&self, before: &StoreContents) -> Vec<Arc<crate::RawResource>> {
        let changes = before.resources.changes(&self.contents.resources, Arc::ptr_eq);
        changes.into_iter().filter_map(|(old, _)| old.cloned()).collect()
    }

    /// Keeps what is gone or says something else.
    fn keep(&mut self, before: &StoreContents) {
        let mut contents = StoreContents::clone(&self.contents);
        for resource in self.less(before) {
            contents.resources.put(resource);
        }
        contents.documents = contents.resources.len();
        self.contents = Arc::new(contents);
        self.steadiness.keeps = true;
    }

    /// What happened since the last look, and whether it may have moved resources.
    fn happened(&mut self) -> Option<(Noted, bool)> {
        let is_moved = self.is_moved();
        let is_told = self.is_told && self.watch.as_mut().is_some_and(|watch| watch.has_told_all());
        if let Some(events) = self.events.as_ref().filter(|_| is_told) {
            let mut noted = events.wake.take();
            noted.everything |= is_moved;
            let matters =
                noted.everything || noted.lost || noted.paths.keys().any(|path| self.may_matter(path));
            let is_any = matters || !noted.paths.is_empty();
            if !is_any {
                self.note_openings(&noted, Instant::now());
            }
            return is_any.then_some((noted, matters));
        }
        let is_same = !is_moved && self.steadiness.walked.is_some_and(|walked| walked == self.walk_again());
        (!is_same).then(|| (Noted { everything: true, ..Noted::default() }, true))
    }

    fn walk_again(&self) -> u64 {
        let mut found = Walk::default();
        self.walk(&mut found);
        signature(&found)
    }

    /// Whether what happened at a path may have moved resources: not if it is a file that is none of configuration.
    fn may_matter(&self, path: &Path) -> bool {
        let Some(inside) = self.watch.as_ref().and_then(|watch| watch.path_in(&self.root, path)) else {
            return true;
        };
        walk::is_configuration(&inside)
            || std::fs::symlink_metadata(&inside).is_ok_and(|metadata| !metadata.is_file())
            || self.walked_directories.contains(&inside)
    }
}

/// What a test does each time before a file is looked at.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Meanwhile {
    path: std::path::PathBuf,
    what: parking_lot::Mutex<Option<Box<dyn FnMut() + Send>>>,
}

#[cfg(test)]
impl Meanwhile {
    pub(super) fn new(path: std::path::PathBuf, what: impl FnMut() + Send + 'static) -> Self {
        Self { path, what: parking_lot::Mutex::new(Some(Box::new(what))) }
    }

    pub(super) fn look_at(&self, path: &Path) {
        let mut what = self.what.lock();
        if let Some(what) = what.as_mut().filter(|_| self.path == path) {
            what();
        }
    }
}
