//! Directories in whose place something else stands: a link, a file, a FIFO, another directory without configuration, or one on another file
//! system, as behind a volume that is unmounted, or in front of which one is mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use super::walk::{Identity, ReadDirectory, is_configuration};

/// The directories from which files were read.
#[derive(Debug, Default)]
pub(super) struct Directories {
    known: BTreeMap<PathBuf, Identity>,
    /// Whether they are on more than one file system, or one below the root is empty, as a mount point is: no event tells of a volume
    /// that is mounted or unmounted.
    pub(super) have_mount_points: bool,
    /// Those below the root that were empty whenever they were read.
    pub(super) always_empty: BTreeSet<PathBuf>,
    /// Those that had no configuration whenever they were read, the empty ones among them: a mount point may have other entries.
    pub(super) always_bare: BTreeSet<PathBuf>,
    /// Where the root was when it was read last: it may be a link.
    root: Option<PathBuf>,
}

/// A directory that is on another file system than before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Remounted {
    pub(super) path: PathBuf,
    /// Whether a volume is gone: what is there now lay behind it. Else another volume is there.
    pub(super) is_unmounted: bool,
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

    /// The directories of a walk that are on other file systems than before, without those below them. `device_above`: that of the directory
    /// in which the root is; `real`: where the root is. A root that is a link which leads elsewhere was replaced on purpose.
    pub(super) fn remounted(
        &self,
        root: &Path,
        real: Option<&Path>,
        device_above: Option<u64>,
        read: &[ReadDirectory],
    ) -> Vec<Remounted> {
        if self.root.is_some() && self.root.as_deref() != real {
            return Vec::new();
        }
        let devices: BTreeMap<&Path, u64> =
            read.iter().map(|directory| (&*directory.path, directory.identity.device)).collect();
        let has_moved = |path: &Path| {
            let before = self.known.get(path).map(|known| known.device);
            before.is_some_and(|before| devices.get(path).is_some_and(|device| *device != before))
        };
        let topmost = devices.iter().filter(|(path, _)| {
            let mut above = path.ancestors().skip(1).take_while(|path| path.starts_with(root));
            has_moved(path) && !above.any(has_moved)
        });
        let found = topmost.map(|(path, device)| {
            let above = match *path == root {
                true => device_above,
                false => path.parent().and_then(|parent| devices.get(parent)).copied(),
            };
            Remounted { path: path.to_path_buf(), is_unmounted: above == Some(*device) }
        });
        found.collect()
    }

    /// Which directory was at a path when it was read.
    pub(super) fn identity_of(&self, path: &Path) -> Option<Identity> {
        self.known.get(path).copied()
    }

    /// Whether something at a path makes a directory one that has something for the first time.
    pub(super) fn fills(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.always_empty.contains(parent))
            || (is_configuration(path)
                && path.ancestors().skip(1).any(|above| self.always_bare.contains(above)))
    }

    /// Makes a directory one that was on another file system.
    #[cfg(test)]
    pub(super) fn pretend_device(&mut self, path: &Path, device: u64) {
        self.known.get_mut(path).expect("it was read").device = device;
    }

    /// Notes the directories of a walk, except for those whose files stay in effect: `keeps` tells whether those below a path that is gone
    /// do, `lost` are the paths that cannot be read. `real`: where the root is.
    pub(super) fn note(
        &mut self,
        (root, real): (&Path, Option<PathBuf>),
        read: Vec<ReadDirectory>,
        lost: &[PathBuf],
        keeps: impl Fn(&Path) -> bool,
    ) {
        let devices: BTreeSet<u64> = read.iter().map(|directory| directory.identity.device).collect();
        let below = |belongs: fn(&ReadDirectory) -> bool| -> BTreeSet<PathBuf> {
            let below = read.iter().filter(|directory| directory.path != root && belongs(directory));
            below.map(|directory| directory.path.clone()).collect()
        };
        let (empty, bare) = (below(|directory| directory.is_empty), below(|directory| directory.is_bare));
        self.have_mount_points = devices.len() > 1 || !empty.is_empty();
        (self.always_empty, self.always_bare) = match self.known.is_empty() {
            true => (empty, bare),
            false => (&empty & &self.always_empty, &bare & &self.always_bare),
        };
        let mut noted = BTreeMap::new();
        for ReadDirectory { path, identity, .. } in read {
            if !lost.iter().any(|lost| path.starts_with(lost)) {
                noted.insert(path, identity);
            }
        }
        self.root = real;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(devices: &[(&str, u64)]) -> Vec<ReadDirectory> {
        let one = |(path, device): &(&str, u64)| ReadDirectory {
            path: path.into(),
            identity: Identity { device: *device, inode: 1 },
            is_bare: false,
            is_empty: false,
        };
        devices.iter().map(one).collect()
    }

    #[test]
    fn the_topmost_directories_on_other_file_systems_are_found() {
        let (root, mut directories) = (Path::new("/c"), Directories::default());
        let before = read(&[("/c", 1), ("/c/a", 1), ("/c/a/b", 1), ("/c/v", 2)]);
        directories.note((root, Some(root.into())), before, &[], |_| false);
        let found = |real: &str, above, devices: &[(&str, u64)]| {
            let found = directories.remounted(root, Some(Path::new(real)), Some(above), &read(devices));
            let shown = |found: Remounted| (found.path.display().to_string(), found.is_unmounted);
            found.into_iter().map(shown).collect::<Vec<_>>()
        };
        let of = |path: &str, is_unmounted| (path.to_owned(), is_unmounted);
        assert_eq!(found("/c", 0, &[("/c/a/b", 1), ("/c/a", 1), ("/c/v", 2), ("/c", 1)]), []);
        let mounted = [("/c/a/b", 3), ("/c/a", 3), ("/c/v", 1), ("/c", 1)];
        assert_eq!(found("/c", 0, &mounted), [of("/c/a", false), of("/c/v", true)]);
        let all = [("/c/a/b", 5), ("/c/a", 5), ("/c/v", 2), ("/c", 5)];
        assert_eq!(found("/c", 5, &all), [of("/c", true)]);
        assert_eq!(found("/c", 4, &all), [of("/c", false)]);
        // A link that leads elsewhere.
        assert_eq!(found("/d", 4, &all), []);
    }
}
