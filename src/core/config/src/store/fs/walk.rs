//! Finds the files of a directory tree, in Istio Mixer's order.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum depth of directories.
pub(super) const MAX_DEPTH: usize = 64;

/// The metadata by which a change of a file is detected without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Stamp {
    pub(in crate::store) device: u64,
    pub(in crate::store) inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(in crate::store) fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Seconds since 1970 of the last change.
    pub(in crate::store) fn last_change(&self) -> i64 {
        self.modified.0.max(self.changed.0)
    }
}

/// A file of configuration.
#[derive(Debug)]
pub(in crate::store) struct Found {
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) stamp: Stamp,
    /// Whether it is a symbolic link.
    pub(in crate::store) link: bool,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(in crate::store) struct Walk {
    /// Files in walk order.
    pub(in crate::store) files: Vec<Found>,
    /// Paths that could not be read.
    pub(in crate::store) errors: Vec<(PathBuf, std::io::Error)>,
}

/// Whether the name of a file ends in `.yaml` or `.yml`.
pub(in crate::store) fn is_configuration(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".yaml") || name.ends_with(b".yml")
}

/// Finds configuration files and links to them, recursively, names in byte order. Links to directories are not followed,
/// except for the root.
pub(in crate::store) fn walk(root: &Path, out: &mut Walk) {
    directory(root, 0, out);
}

fn directory(path: &Path, depth: usize, out: &mut Walk) {
    if depth > MAX_DEPTH {
        let error = std::io::Error::other(format!("directories are nested deeper than {MAX_DEPTH} levels"));
        out.errors.push((path.to_owned(), error));
        return;
    }
    let entries = match std::fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()) {
        Ok(entries) => entries,
        // Removed since its parent was listed.
        Err(error) if depth > 0 && error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            out.errors.push((path.to_owned(), error));
            return;
        }
    };
    let mut entries = entries.into_iter().map(|e| (e.file_name(), e)).collect::<Vec<_>>();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (_, entry) in entries {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            directory(&path, depth + 1, out);
            continue;
        }
        if !is_configuration(&path) || !(kind.is_file() || kind.is_symlink()) {
            continue;
        }
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                out.files.push(Found { path, stamp: Stamp::of(&metadata), link: kind.is_symlink() });
            }
            Ok(_) => {}
            Err(error) if !kind.is_symlink() && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => out.errors.push((path, error)),
        }
    }
}
