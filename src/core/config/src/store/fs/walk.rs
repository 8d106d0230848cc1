//! Finds the files of a directory tree, in Istio Mixer's order.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use mixer_base::file_stamp::FileStamp;

use crate::{Diagnostic, FieldPath};

/// Maximum depth of directories.
pub(super) const MAX_DEPTH: usize = 64;

/// In a volume of Kubernetes, the link to the directory with the current version of the files.
const CURRENT_VERSION: &str = "..data";

/// Maximum number of files of a configuration.
const MAX_FILES: usize = 100_000;

/// Maximum number of links to directories that are reported, and of files that are not read.
pub(in crate::store) const MAX_LINKS: usize = 16;

/// Maximum number of files that are examined whether they have a resource although they are not read.
const MAX_EXAMINED: usize = 1024;

/// How much of such a file is examined, in bytes.
const EXAMINED: u64 = 4 << 10;

/// The code of what looks like configuration and is not read.
pub(in crate::store) const FILE_IGNORED: &str = "file-ignored";

/// A file of configuration.
#[derive(Debug)]
pub(in crate::store) struct Found {
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) stamp: FileStamp,
    /// Whether it is a symbolic link.
    pub(in crate::store) link: bool,
    /// Whether it has several names.
    pub(in crate::store) is_shared: bool,
}

impl Found {
    /// With what is known of it. `link`: whether it is a symbolic link.
    pub(in crate::store) fn of(path: PathBuf, metadata: &std::fs::Metadata, link: bool) -> Self {
        Self { path, stamp: FileStamp::of(metadata), link, is_shared: metadata.nlink() > 1 }
    }
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(in crate::store) struct Walk {
    /// Files in walk order.
    pub(in crate::store) files: Vec<Found>,
    /// Paths that could not be read.
    pub(in crate::store) errors: Vec<(PathBuf, std::io::Error)>,
    /// Volumes of Kubernetes whose link to the current version leads to nothing that can be read.
    pub(in crate::store) volumes: Vec<Volume>,
    /// Directories that have the name of a file, and whether no file is below them; links to such, below which nothing is read.
    pub(in crate::store) directories: Vec<(PathBuf, bool)>,
    /// The first links to directories outside of the tree: what is below them is not read. A link to a directory of the tree, as a
    /// volume of Kubernetes has, hides nothing.
    pub(in crate::store) links: Vec<PathBuf>,
    /// The first files that have a resource, and a name with which they are not read: `deny.YAML`, `deny.json`, `deny`.
    pub(in crate::store) unread: Vec<PathBuf>,
    /// The directories that were read, the root among them.
    pub(in crate::store) read: Vec<ReadDirectory>,
    /// What is not read, if that is asked for.
    pub(in crate::store) ignored: Option<Ignored>,
}

/// A directory that was read.
#[derive(Debug)]
pub(in crate::store) struct ReadDirectory {
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) identity: Identity,
    /// Whether no file of configuration is below it.
    pub(in crate::store) is_bare: bool,
    /// Whether it has no entry at all.
    pub(in crate::store) is_empty: bool,
}

/// What makes a directory the same although its contents change. A volume that is mounted or unmounted is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::store) struct Identity {
    pub(in crate::store) device: u64,
    pub(in crate::store) inode: u64,
}

impl Identity {
    /// That of the directory at a path.
    pub(in crate::store) fn at(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// A volume of Kubernetes without a version that can be read: which files it should have is unknown.
#[derive(Debug)]
pub(in crate::store) struct Volume {
    pub(in crate::store) directory: PathBuf,
    /// The link to the current version.
    pub(in crate::store) link: PathBuf,
    pub(in crate::store) error: std::io::Error,
}

/// What looks like configuration and is not read, for tools: a server does not look behind links.
#[derive(Debug, Default)]
pub(in crate::store) struct Ignored {
    /// The first ones.
    pub(in crate::store) named: Vec<PathBuf>,
    pub(in crate::store) count: usize,
}

impl Ignored {
    /// Maximum number of paths that are named.
    const NAMED: usize = 5;

    fn push(&mut self, path: PathBuf) {
        self.count += 1;
        if self.named.len() < Self::NAMED {
            self.named.push(path);
        }
    }

    /// Removes paths that are reported otherwise.
    fn forget(&mut self, reported: &[PathBuf]) {
        // A file without an extension is none of them.
        let is_known = |path: &&PathBuf| path.extension().is_some() || path.is_symlink();
        self.count = self.count.saturating_sub(reported.iter().filter(is_known).count());
        self.named.retain(|path| !reported.contains(path));
    }

    /// Adds a path that is no file of configuration, if it looks like one or is a link to a directory.
    fn consider(&mut self, path: PathBuf, is_link: bool) {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes().to_ascii_lowercase();
        let ends = |ending: &&[u8]| name.ends_with(ending);
        let endings: [&[u8]; 5] = [b".yaml", b".yml", b".json", b".yaml.txt", b".yml.txt"];
        let is_hidden = name.starts_with(b".");
        if !is_hidden && (endings.iter().any(ends) || (is_link && path.is_dir())) {
            self.push(path);
        }
    }
}

/// Whether a file that is not read may have a resource, by its name. Copies of editors and of backups have other names.
fn may_be_meant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes().to_ascii_lowercase();
    let endings: [&[u8]; 5] = [b".yaml", b".yml", b".json", b".yaml.txt", b".yml.txt"];
    !name.starts_with(b".") && (!name.contains(&b'.') || endings.iter().any(|ending| name.ends_with(ending)))
}

/// Whether a walk tells of a regular file that is not read, because its name seems to be meant for one that is and it has a resource.
pub(super) fn is_told_as_not_read(path: &Path) -> bool {
    may_be_meant(path) && has_resource(path)
}

/// Whether a file begins with a resource, in YAML or JSON.
fn has_resource(path: &Path) -> bool {
    use std::io::Read as _;
    let mut text = Vec::new();
    // What stands in its place meanwhile may be a FIFO.
    let read =
        mixer_base::regular_file::open(path).and_then(|(file, _)| file.take(EXAMINED).read_to_end(&mut text));
    let begins = |key: &[u8]| text.split(|byte| *byte == b'\n').any(|line| line.starts_with(key));
    let has = |key: &[u8]| text.windows(key.len()).any(|part| part == key);
    let is_yaml = || begins(b"kind:") && (begins(b"metadata:") || begins(b"apiVersion:"));
    let is_json = || text.trim_ascii_start().starts_with(b"{") && has(b"\"kind\"") && has(b"\"metadata\"");
    read.is_ok() && (is_yaml() || is_json())
}

/// The warning about a file with a resource that is not read.
pub(in crate::store) fn not_read(file: &Path) -> Diagnostic {
    let message = format!("not read: {}, which has a resource", file.display());
    let mut problem = Diagnostic::warning(FILE_IGNORED, FieldPath::root(), message)
        .with_hint(
            "configuration is read from files whose names end in `.yaml` or `.yml`: rename it, or move it elsewhere",
        )
        .accepted_by_istio();
    problem.file = Some(file.display().to_string().into());
    problem
}

/// Whether the name of a file ends in `.yaml` or `.yml`. Hidden files count, but not the locks of Emacs (`.#NAME`) and the attributes
/// that macOS writes beside a file (`._NAME`): both have the extension of the file and are none of configuration.
pub(in crate::store) fn is_configuration(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let has_extension = name.ends_with(b".yaml") || name.ends_with(b".yml");
    has_extension && !name.starts_with(b".#") && !name.starts_with(b"._")
}

/// Finds configuration files and links to them, recursively, names in byte order. Links to directories are not followed,
/// except for the root. Of the versions in a volume of Kubernetes, `..TIME`, only that counts to which `..data` points.
pub(in crate::store) fn walk(root: &Path, out: &mut Walk) {
    directory(root, 0, false, out);
    let mut links = std::mem::take(&mut out.links);
    if let Ok(root) = root.canonicalize() {
        links.retain(|link| link.canonicalize().is_ok_and(|target| !target.starts_with(&root)));
    }
    links.truncate(MAX_LINKS);
    let examined = std::mem::take(&mut out.unread);
    out.unread = examined.into_iter().take(MAX_EXAMINED).filter(|path| has_resource(path)).collect();
    if let Some(ignored) = &mut out.ignored {
        ignored.forget(&links);
        ignored.forget(&out.unread);
    }
    out.links = links;
}

/// Finds a single file in place of a tree, whatever its name; false if there is none.
pub(in crate::store) fn file(path: &Path, out: &mut Walk) -> bool {
    let Some(metadata) = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file) else {
        return false;
    };
    out.files.push(Found::of(path.to_owned(), &metadata, path.is_symlink()));
    true
}

/// The warning about a link to a directory.
pub(in crate::store) fn not_followed(link: &Path) -> Diagnostic {
    let message = format!("not read: {}, a link to a directory", link.display());
    let mut problem = Diagnostic::warning(FILE_IGNORED, FieldPath::root(), message)
        .with_hint("links to directories are not followed: link the files, or move the directory here")
        .accepted_by_istio();
    problem.file = Some(link.display().to_string().into());
    problem
}

/// `is_hidden`: files that are not read have no resources that were meant.
fn directory(path: &Path, depth: usize, is_hidden: bool, out: &mut Walk) {
    let before = (out.files.len(), out.errors.len());
    let identity = Identity::at(path);
    let has_entries = entries(path, depth, is_hidden, out);
    if let Some(identity) = identity {
        let is_bare = (out.files.len(), out.errors.len()) == before;
        let is_empty = is_bare && !has_entries;
        out.read.push(ReadDirectory { path: path.to_owned(), identity, is_bare, is_empty });
    }
}

/// Whether the directory has any entry, as far as it can be read.
fn entries(path: &Path, depth: usize, is_hidden: bool, out: &mut Walk) -> bool {
    if depth > MAX_DEPTH {
        let error = std::io::Error::other(format!("directories are nested deeper than {MAX_DEPTH} levels"));
        out.errors.push((path.to_owned(), error));
        return true;
    }
    let entries = match std::fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()) {
        Ok(entries) => entries,
        // Removed since its parent was listed.
        Err(error) if depth > 0 && error.kind() == std::io::ErrorKind::NotFound => return true,
        Err(error) => {
            out.errors.push((path.to_owned(), error));
            return true;
        }
    };
    let has_entries = !entries.is_empty();
    let mut entries = entries.into_iter().map(|e| (e.file_name(), e)).collect::<Vec<_>>();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let has_versions = entries.iter().any(|(name, _)| name == CURRENT_VERSION);
    let current = path.join(CURRENT_VERSION);
    let version = has_versions.then(|| std::fs::read_link(&current).ok()).flatten();
    if version.is_some()
        && let Err(error) = std::fs::read_dir(&current)
    {
        out.volumes.push(Volume { directory: path.to_owned(), link: current, error });
    }
    let is_outdated = |name: &OsStr| {
        let is_version = name.as_encoded_bytes().starts_with(b"..");
        is_version && version.as_ref().is_some_and(|version| version.file_name() != Some(name))
    };
    for (name, entry) in entries {
        let path = entry.path();
        let Some(kind) = known(&path, entry.file_type(), out) else { continue };
        if kind.is_dir() && is_outdated(&name) {
            continue;
        }
        if kind.is_dir() {
            let before = (out.files.len(), out.errors.len());
            // A repository has many files without an ending below `.git`. The versions of a volume are hidden and meant.
            let name = name.as_encoded_bytes();
            let is_hidden = is_hidden || (name.starts_with(b".") && !name.starts_with(b".."));
            directory(&path, depth + 1, is_hidden, out);
            if is_configuration(&path) {
                let is_empty = (out.files.len(), out.errors.len()) == before;
                out.directories.push((path, is_empty));
            }
            continue;
        }
        if !is_configuration(&path) {
            if kind.is_symlink() && !name.as_encoded_bytes().starts_with(b".") && path.is_dir() {
                out.links.push(path.clone());
            }
            if kind.is_file() && !is_hidden && out.unread.len() < MAX_EXAMINED && may_be_meant(&path) {
                out.unread.push(path.clone());
            }
            if let Some(ignored) = &mut out.ignored {
                ignored.consider(path, kind.is_symlink());
            }
            continue;
        }
        match std::fs::metadata(&path) {
            // A link to a directory is not followed. It may have been one to a file.
            Ok(metadata) if metadata.is_dir() => out.directories.push((path, true)),
            Ok(_) if out.files.len() >= MAX_FILES => {
                let error = std::io::Error::other(format!("more than {MAX_FILES} files"));
                out.errors.push((path, error));
                return true;
            }
            Ok(metadata) => {
                out.files.push(Found::of(path, &metadata, kind.is_symlink()));
            }
            Err(error) if !kind.is_symlink() && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => out.errors.push((path, error)),
        }
    }
    has_entries
}

/// What an entry of a directory is; `None` if it was removed since, or if that cannot be told, which is an error: configuration may be
/// below it.
fn known(path: &Path, read: std::io::Result<std::fs::FileType>, out: &mut Walk) -> Option<std::fs::FileType> {
    match read {
        Ok(kind) => Some(kind),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            out.errors.push((path.to_owned(), error));
            None
        }
    }
}

/// Whether a file is of the current version in a volume of Kubernetes, which has all its files before `..data` points to it.
pub(super) fn is_published(path: &Path) -> bool {
    let is_link = |path: &Path| {
        fs::read_link(path).is_ok_and(|target| {
            target.components().next() == Some(Component::Normal(CURRENT_VERSION.as_ref()))
        })
    };
    let is_current = |version: &Path| {
        let name = version.file_name().filter(|name| name.as_encoded_bytes().starts_with(b".."));
        let current = name.and_then(|_| fs::read_link(version.with_file_name(CURRENT_VERSION)).ok());
        current.is_some_and(|current| current.file_name() == name)
    };
    path.ancestors().any(is_link) || path.ancestors().skip(1).any(is_current)
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn an_entry_of_which_nothing_is_known_is_an_error_unless_it_was_removed() {
        let mut walk = Walk::default();
        assert!(known(Path::new("gone.yaml"), Err(Error::from(ErrorKind::NotFound)), &mut walk).is_none());
        assert!(walk.errors.is_empty());
        for path in ["a.yaml", "directory"] {
            let refused = Err(Error::from(ErrorKind::PermissionDenied));
            assert!(known(Path::new(path), refused, &mut walk).is_none());
        }
        let errors: Vec<_> = walk.errors.iter().map(|(path, _)| path.display().to_string()).collect();
        assert_eq!(errors, ["a.yaml", "directory"]);
    }
}
