//! Directories in whose place something else stands: a link, a file, a FIFO.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

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
