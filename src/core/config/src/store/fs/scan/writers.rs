//! Which files are open for writing when a resource is gone or says something else: it may be moving to one whose writer has not written yet.
//!
//! The system tells of files that are opened. So, once every file was asked for its writers, only those are asked that were opened since, and
//! those with another name, of which nothing tells when they are opened by it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mixer_base::file_stamp::FileStamp;
use mixer_base::file_writer::{Writer, is_local_path, writer_of};
use mixer_base::regular_file;

use super::super::file::{Unsettled, Why, is_leased};
use super::super::watch::{Noted, Watch};
use super::super::{WhenLost, parallel};
use super::Scanner;
use crate::store::StoreContents;

/// Files that are asked for their writers together, by one thread.
const AT_ONCE: usize = 32;
/// Most files that were opened and are told apart.
const MAX_OPENED: usize = 1024;

/// The files that may be open for writing.
#[derive(Debug)]
pub(super) struct Opened {
    /// Any may be.
    is_any: bool,
    paths: BTreeSet<PathBuf>,
}

impl Default for Opened {
    fn default() -> Self {
        Self { is_any: true, paths: BTreeSet::new() }
    }
}

impl Opened {
    /// Notes what events tell.
    pub(super) fn note(&mut self, noted: &Noted, watch: Option<&Watch>, root: &Path) {
        let Some(watch) = watch.filter(|_| !noted.lost && !noted.has_lost_opened) else { return self.lose() };
        let opened = noted.opened.iter().filter(|(_, told)| told.is_opened);
        self.paths.extend(opened.filter_map(|(path, _)| watch.path_in(root, path)));
        if self.paths.len() > MAX_OPENED {
            self.lose();
        }
    }

    /// Some may have been opened of which no event told.
    pub(super) fn lose(&mut self) {
        self.is_any = true;
        self.paths.clear();
    }
}

impl Scanner {
    /// Looks for files that are open for writing if a resource is gone or says something else: it, or a part of it, may be moving to one
    /// whose writer has not written yet, of which no event tells. Cost: a few system calls for each file that was opened since the last time; after a walk that begins to watch a
    /// directory, after events were lost, and where not all are told, for each file.
    pub(super) fn await_writers(&mut self, before: &StoreContents, now: Instant) {
        if !self.leases || self.lost == WhenLost::Drop || !self.has_less(before) {
            return;
        }
        let is_told = self.is_told && self.links == 0 && self.watch.is_some();
        let opened = std::mem::take(&mut self.opened);
        let settled =
            |path: &PathBuf| (!self.unsettled.contains_key(path)).then(|| self.files.get(path)).flatten();
        let asked: Vec<(PathBuf, FileStamp)> = match is_told && !opened.is_any {
            true => {
                let some: BTreeSet<&PathBuf> = opened.paths.iter().chain(&self.shared).collect();
                some.into_iter().filter_map(|path| Some((path.clone(), settled(path)?.stamp))).collect()
            }
            false => {
                let all = self.files.iter().filter(|(path, _)| !self.unsettled.contains_key(*path));
                all.map(|(path, file)| (path.clone(), file.stamp)).collect()
            }
        };
        // Of files on remote file systems the system does not tell.
        let mut local: BTreeMap<u64, bool> = BTreeMap::new();
        let mut is_local = |path: &Path, stamp: &FileStamp| {
            *local.entry(stamp.identity().0).or_insert_with(|| is_local_path(path))
        };
        let asked: Vec<(PathBuf, FileStamp)> =
            asked.into_iter().filter(|(path, stamp)| is_local(path, stamp)).collect();
        #[cfg(test)]
        self.spend(|effort| effort.asked += asked.len());
        let parts: Vec<&[(PathBuf, FileStamp)]> = asked.chunks(AT_ONCE).collect();
        let watch = self.watch.as_ref().filter(|_| is_told);
        let are_open = parallel::map(&parts, 1, |part| ask(part, watch, &self.root));
        let open = asked.iter().zip(are_open.into_iter().flatten()).filter(|(_, is_open)| *is_open);
        let open: Vec<(PathBuf, Unsettled)> = open
            .map(|((path, stamp), _)| {
                (path.clone(), Unsettled::next(None, Why::Open, Some(*stamp), None, now))
            })
            .collect();
        // Whoever opens one from now on is told.
        self.opened.is_any = !is_told;
        if open.is_empty() {
            return;
        }
        self.unsettled.extend(open);
        let mut contents = StoreContents::clone(&self.contents);
        self.relist(&mut contents, now);
        self.contents = std::sync::Arc::new(contents);
    }
}

/// Whether a process has each of these files open for writing; no if that is unknown.
fn ask(files: &[(PathBuf, FileStamp)], watch: Option<&Watch>, root: &Path) -> Vec<bool> {
    let open = |(path, _): &(PathBuf, FileStamp)| {
        if let Some(watch) = watch {
            watch.opens(root, path);
        }
        let opened = regular_file::open(path).map(|(file, _)| file);
        if let (Err(_), Some(watch)) = (&opened, watch) {
            watch.has_not_opened(root, path);
        }
        opened
    };
    let opened: Vec<std::io::Result<File>> = files.iter().map(open).collect();
    // Who opened a file before this is seen in what follows, and who opens one after it is told.
    if watch.is_some() {
        Watch::divide(root);
    }
    let is_open = |file: std::io::Result<File>| match file {
        Ok(file) => matches!(writer_of(&file), Writer::Open),
        Err(error) => is_leased(&error),
    };
    opened.into_iter().map(is_open).collect()
}
