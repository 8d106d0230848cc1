//! Scans of the whole tree: the walk, and the files that it found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::super::file::{CachedFile, Look, MAX_FILE, ReadError, Unsettled, look};
use super::super::problems::Problems;
use super::super::walk::{self, Found, Walk};
use super::super::watch::LastEvent;
use super::super::{WhenLost, mounts, parallel, replaced};
use super::steady::signature;
use super::{Coverage, Scanner};
use crate::ResourceKey;
use crate::store::IdentityRule;
use crate::store::document::read_file_as;
use mixer_base::file_stamp::FileStamp;
use mixer_base::load::{self, Load, LoadId};
use mixer_base::regular_file;

/// Minimum files per thread.
const FILES_PER_THREAD: usize = 16;

/// A file that is not read because of its name, although it has resources.
pub(super) struct MisnamedFile {
    stamp: FileStamp,
    keys: Vec<ResourceKey>,
}

impl Scanner {
    /// Walks the tree and reads changed files.
    pub(super) fn scan_tree(&mut self, events: &BTreeMap<PathBuf, Option<LastEvent>>, now: Instant) {
        let started = Instant::now();
        self.looked = Some(started);
        #[cfg(test)]
        self.spend(|effort| effort.walks += 1);
        self.walked_root = walk::Identity::at(&self.root);
        self.walked_mounts = mounts::below(self.root.canonicalize().ok().as_deref());
        let mut found = Walk::default();
        self.walk(&mut found);
        let signature = Some(signature(&found));
        self.steadiness.walked = signature;
        if std::mem::replace(&mut self.signature, signature) != signature {
            self.touched = Some(now);
        }
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
        self.unread.extend(std::mem::take(&mut problems.unread));
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
        contents.misnamed = self.find_misnamed(&found.unread, &mut problems);
        self.is_intact = problems.broken.is_empty();
        let not_followed = found.links.iter().map(|link| walk::not_followed(link));
        let not_read = found.unread.iter().take(walk::MAX_LINKS).map(|file| walk::not_read(file));
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

    /// The resources of files that are not read because of their names: one that is defined nowhere else may be in a file whose name was
    /// misspelt.
    /// What cannot be read of one is unknown. A file that has not changed since the last walk is not read again.
    fn find_misnamed(&mut self, unread: &[PathBuf], problems: &mut Problems) -> Vec<(ResourceKey, Arc<str>)> {
        if self.lost == WhenLost::Drop {
            return Vec::new();
        }
        let mut before = std::mem::take(&mut self.misnamed);
        for path in unread {
            match self.misnamed_in(path, before.remove(path)) {
                Ok(file) => drop(self.misnamed.insert(path.clone(), file)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => problems.failed(path, &ReadError::System(error), false),
            }
        }
        let all = self.misnamed.iter();
        let keys = all.flat_map(|(path, file)| {
            let name: Arc<str> = path.display().to_string().into();
            file.keys.iter().map(move |key| (key.clone(), Arc::clone(&name)))
        });
        keys.collect()
    }

    fn misnamed_in(&self, path: &Path, before: Option<MisnamedFile>) -> std::io::Result<MisnamedFile> {
        let (file, metadata) = regular_file::open(path)?;
        let stamp = FileStamp::of(&metadata);
        if let Some(known) = before.filter(|known| known.stamp == stamp) {
            return Ok(known);
        }
        let bytes = regular_file::read_open(&file, &metadata, MAX_FILE)?;
        let name: Arc<str> = path.display().to_string().into();
        let contents = read_file_as(self.reading, &name, &bytes, None);
        let keys = contents.resources.into_iter().map(|resource| resource.key.clone()).collect();
        Ok(MisnamedFile { stamp, keys })
    }

    /// Looks what is there.
    pub(super) fn walk(&self, found: &mut Walk) {
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
            if !next.is_gone(now) {
                self.unsettled.insert(path.clone(), next);
                self.files.insert(path, cached);
            }
        }
        self.miss_unread(&unsettled, events, now, &problems.lost);
    }

    /// Waits for what is gone and was not read before: a program that replaces a file may rename or remove it first, and as far as anybody knows
    /// it has what is missing elsewhere. `waiting`: what was in the middle of a change at the last look.
    fn miss_unread(
        &mut self,
        waiting: &BTreeMap<PathBuf, Unsettled>,
        events: &BTreeMap<PathBuf, Option<LastEvent>>,
        now: Instant,
        lost: &[PathBuf],
    ) {
        let mut unread = std::mem::take(&mut self.unread);
        if self.lost == WhenLost::Drop {
            return;
        }
        unread.extend(waiting.keys().cloned());
        for path in unread {
            let is_known = self.files.contains_key(&path) || self.unsettled.contains_key(&path);
            if is_known || lost.iter().any(|lost| path.starts_with(lost)) || !is_gone(&path) {
                continue;
            }
            let was_back = events.get(&path).copied().flatten().is_some();
            let next = Unsettled::missed(waiting.get(&path), was_back, self.is_moving, now);
            if !next.is_gone(now) {
                self.unsettled.insert(path, next);
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
}

/// Whether nothing has this name, not even a link that leads nowhere.
fn is_gone(path: &Path) -> bool {
    let gone = [std::io::ErrorKind::NotFound, std::io::ErrorKind::NotADirectory];
    std::fs::symlink_metadata(path).is_err_and(|error| gone.contains(&error.kind()))
}

/// Whether a file is at or below a path.
fn is_above(files: &BTreeMap<PathBuf, CachedFile>, path: &Path) -> bool {
    files.range(path.to_owned()..).next().is_some_and(|(file, _)| file.starts_with(path))
}
