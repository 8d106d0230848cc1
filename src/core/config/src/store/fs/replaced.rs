//! Directories in whose place something else stands: a link, a file, a FIFO, or another directory without configuration, as behind a
//! volume that is unmounted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use super::walk::{Identity, ReadDirectory};

/// The directories from which files were read.
#[derive(Debug, Default)]
pub(super) struct Directories {
    known: BTreeMap<PathBuf, Identity>,
    /// Whether they are on more than one file system, or one below the root is empty, as a mount point is: no event tells of a volume
    /// that is mounted or unmounted.
    pub(super) have_mount_points: bool,
    /// Those below the root that were empty whenever they were read.
    pub(super) always_empty: BTreeSet<PathBuf>,
}

impl Directories {
    /// The directories of files that are gone in whose place another one without configuration stands, with the reason why they cannot be
    /// read: a directory that was emptied is still the same.
    pub(super) fn exchanged<'p>(
        &self,
        root: &Path,
        gone: impl Iterator<Item = &'p Path>,
        read: &[ReadDirectory],
    ) -> Vec<(PathBuf, Error)> {
        let of_gone: BTreeSet<&Path> = gone.flat_map(|path| above(root, path)).collect();
        let is_exchanged = |directory: &&ReadDirectory| {
            let known = self.known.get(&directory.path);
            directory.is_bare && known.is_some_and(|known| *known != directory.identity)
        };
        let exchanged = read.iter().filter(|directory| of_gone.contains(&*directory.path));
        let why = "another directory, without configuration, is in its place: a volume may be unmounted";
        exchanged.filter(is_exchanged).map(|directory| (directory.path.clone(), Error::other(why))).collect()
    }

    /// Notes the directories of a walk, except for those whose files stay in effect: `keeps` tells whether those below a path that is gone
    /// do, `lost` are the paths that cannot be read.
    pub(super) fn note(
        &mut self,
        root: &Path,
        read: Vec<ReadDirectory>,
        lost: &[PathBuf],
        keeps: impl Fn(&Path) -> bool,
    ) {
        let devices: BTreeSet<u64> = read.iter().map(|directory| directory.identity.device).collect();
        let empty = read.iter().filter(|directory| directory.is_empty && directory.path != root);
        let empty: BTreeSet<PathBuf> = empty.map(|directory| directory.path.clone()).collect();
        self.have_mount_points = devices.len() > 1 || !empty.is_empty();
        let is_first = self.known.is_empty();
        self.always_empty = match is_first {
            true => empty,
            false => empty.into_iter().filter(|path| self.always_empty.contains(path)).collect(),
        };
        let mut noted = BTreeMap::new();
        for ReadDirectory { path, identity, .. } in read {
            if !lost.contains(&path) {
                noted.insert(path, identity);
            }
        }
        for (path, identity) in std::mem::take(&mut self.known) {
            if !noted.contains_key(&path) && keeps(&path) {
                noted.insert(path, identity);
            }
        }
        self.known = noted;
    }
}

/// What stands in the place of directories of files that are gone, and is none now: these files were not deleted, and cannot be read.
/// With the reason why the directory cannot be read. Cost: a system call for each directory of these files.
pub(super) fn directories<'p>(root: &Path, gone: impl Iterator<Item = &'p Path>) -> Vec<(PathBuf, Error)> {
    let directories: BTreeSet<&Path> = gone.flat_map(|path| above(root, path)).collect();
    directories.into_iter().filter_map(|path| Some((path.to_owned(), why_not_read(path)?))).collect()
}

/// Whether the path of a file leads through something that is no directory of the tree.
pub(super) fn leads_elsewhere(root: &Path, path: &Path) -> bool {
    above(root, path).any(|directory| why_not_read(directory).is_some())
}

/// The directories above a path and below the root.
fn above<'p>(root: &Path, path: &'p Path) -> impl Iterator<Item = &'p Path> {
    path.ancestors().skip(1).take_while(move |path| *path != root && path.starts_with(root))
}

/// Why a path that exists is no directory that is read.
fn why_not_read(path: &Path) -> Option<Error> {
    let kind = std::fs::symlink_metadata(path).ok()?.file_type();
    if kind.is_dir() {
        return None;
    }
    if !kind.is_symlink() {
        return Some(ErrorKind::NotADirectory.into());
    }
    Some(match std::fs::metadata(path) {
        Ok(target) if target.is_dir() => Error::other("a link to a directory is not followed"),
        Ok(_) => ErrorKind::NotADirectory.into(),
        Err(error) => error,
    })
}
