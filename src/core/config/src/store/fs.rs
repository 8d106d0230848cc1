//! A store of the files below a directory.
//!
//! [`FsStore`] reads only changed files and parses only changed chunks. It waits for file events (inotify), then until none
//! arrive for a short time. If the events name plain files, only those are read; otherwise, or if events were lost, the whole
//! tree is walked. The tree is polled only where events may be missing: on network file systems, where watches fail, or where
//! links lead out of the tree or are broken. If the directory becomes unreadable, the last contents stay in force.

pub(super) mod walk;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use super::{ConfigStore, FileContents, StoreContents, parallel, read_file};
use crate::{Diagnostic, FieldPath};
use walk::{Found, Stamp, Walk};
use watch::{Noted, Watch};

/// Changes are read when no event arrives for this long.
const QUIET: Duration = Duration::from_millis(10);
/// Changes are read at the latest this long after the first event.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// The tree is walked once more this long after a change: a new directory may change before its watch is set.
const SETTLING: Duration = Duration::from_secs(2);
/// Poll interval where events may be missing.
const POLL: Duration = Duration::from_secs(60);
/// Poll interval without a watch.
const POLL_UNWATCHED: Duration = Duration::from_secs(1);
/// Maximum file size, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// Minimum files per thread.
const FILES_PER_THREAD: usize = 16;

/// What happens when the directory becomes unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenLost {
    /// The last contents stay in force.
    #[default]
    Keep,
    /// All configuration is dropped, as in Istio Mixer.
    Drop,
}

/// A store of the YAML files below a directory.
pub(super) struct FsStore {
    inner: Arc<Inner>,
}

struct Inner {
    url: String,
    root: PathBuf,
    lost: WhenLost,
    signal: Arc<Notify>,
    noted: Arc<Mutex<Noted>>,
    state: Mutex<FsState>,
}

#[derive(Default)]
struct FsState {
    files: BTreeMap<PathBuf, CachedFile>,
    contents: Arc<StoreContents>,
    /// Version of the contents; 0 before the first read.
    version: u64,
    /// The version that `contents` last returned.
    delivered: u64,
    watch: Option<Watch>,
    /// The number of files that are symbolic links.
    links: usize,
    /// Which changes cause events.
    coverage: Coverage,
    /// The tree has not been walked since the last event.
    settling: bool,
}

/// Which changes cause events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Coverage {
    /// None: there is no watch.
    #[default]
    None,
    /// Not all: some paths are not watched, or changes may come from other machines.
    Partial,
    /// All.
    Full,
}

impl FsState {
    /// When to walk the tree without an event; `None` for never.
    fn poll_interval(&self) -> Option<Duration> {
        match self.coverage {
            Coverage::None => Some(POLL_UNWATCHED),
            _ if self.settling => Some(SETTLING),
            Coverage::Partial => Some(POLL),
            Coverage::Full => None,
        }
    }
}

/// A file as last read.
struct CachedFile {
    stamp: Stamp,
    /// Read so soon after its last change that another change may leave the stamp unchanged.
    fresh: bool,
    hash: u64,
    /// Whether the path is a symbolic link.
    link: bool,
    contents: Arc<FileContents>,
}

impl FsStore {
    /// A store of the files below `root`; `url` is its URL for users.
    pub(super) fn new(url: &str, root: impl Into<PathBuf>, lost: WhenLost) -> Self {
        let root = root.into();
        let state = Mutex::new(FsState::default());
        let (signal, noted) = Default::default();
        Self { inner: Arc::new(Inner { url: url.to_owned(), root, lost, signal, noted, state }) }
    }
}

impl ConfigStore for FsStore {
    fn url(&self) -> &str {
        &self.inner.url
    }

    fn contents(&self) -> Arc<StoreContents> {
        let mut state = self.inner.state.lock();
        if state.version == 0 {
            self.inner.refresh(&mut state);
        }
        state.delivered = state.version;
        state.contents.clone()
    }

    fn rescan(&self) {
        self.inner.signal.notify_one();
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if self.scan(Scan::First).await {
                return;
            }
            loop {
                let poll = self.inner.state.lock().poll_interval();
                let mut scope = Scan::Everything;
                let notified = match poll {
                    Some(poll) => timeout(poll, self.inner.signal.notified()).await.is_ok(),
                    None => {
                        self.inner.signal.notified().await;
                        true
                    }
                };
                if notified {
                    scope = Scan::Noted;
                    let latest = Instant::now() + MAX_DELAY;
                    while timeout_at(latest.min(Instant::now() + QUIET), self.inner.signal.notified())
                        .await
                        .is_ok()
                    {
                        if Instant::now() >= latest {
                            break;
                        }
                    }
                }
                if self.scan(scope).await {
                    return;
                }
            }
        })
    }
}

/// What a scan covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    /// The whole tree, for the first time.
    First,
    /// The paths named by events.
    Noted,
    /// The whole tree.
    Everything,
}

impl FsStore {
    /// Reads changes on a blocking thread; true if the contents changed. The first scan starts the watch.
    async fn scan(&self, scope: Scan) -> bool {
        let inner = self.inner.clone();
        let scan = move || {
            let mut state = inner.state.lock();
            if state.version != state.delivered {
                return true;
            }
            if scope == Scan::First {
                if state.watch.is_some() {
                    return inner.catch_up(&mut state, Scan::Noted);
                }
                state.watch = Watch::new(inner.signal.clone(), inner.noted.clone()).ok();
                inner.aim(&mut state);
            }
            inner.catch_up(&mut state, scope)
        };
        tokio::task::spawn_blocking(scan).await.unwrap_or(false)
    }
}

impl Inner {
    /// Reads changes in `scope`; true if the contents changed since they were last returned.
    fn catch_up(&self, state: &mut FsState, scope: Scan) -> bool {
        let noted = std::mem::take(&mut *self.noted.lock());
        state.settling =
            scope == Scan::Noted && (state.settling || noted.everything || !noted.paths.is_empty());
        if scope != Scan::Noted || self.refresh_noted(state, &noted).is_none() {
            self.refresh(state);
        }
        state.version != state.delivered
    }

    /// Walks the tree and reads changed files.
    fn refresh(&self, state: &mut FsState) {
        let mut found = Walk::default();
        walk::walk(&self.root, &mut found);
        let lost = found.errors.iter().any(|(path, _)| *path == self.root);
        let mut contents = if lost && self.lost == WhenLost::Keep {
            StoreContents {
                resources: state.contents.resources.clone(),
                files: state.contents.files,
                documents: state.contents.documents,
                ..StoreContents::default()
            }
        } else {
            self.read(&found.files, &found.errors, state)
        };
        for (path, error) in &found.errors {
            let text = walk_error(path, error);
            contents.diagnostics.push(unreadable(path, &text));
            contents.unavailable.get_or_insert(text);
        }
        // Resources whose origin alone changed are replaced without a new version.
        if state.version == 0 || !contents.same_as(&state.contents) {
            state.version += 1;
        }
        state.contents = Arc::new(contents);
        self.aim(state);
        if !found.errors.is_empty() && state.coverage == Coverage::Full {
            // The error may end outside the tree, for example at the target of a broken link.
            state.coverage = Coverage::Partial;
        }
    }

    /// Reads only the files named by events. `None`, without changes, if that is not sufficient: the events name other things
    /// than plain files, or the files depend on each other.
    fn refresh_noted(&self, state: &mut FsState, noted: &Noted) -> Option<()> {
        let independent =
            state.contents.unavailable.is_none() && !state.contents.has_duplicates() && state.links == 0;
        if noted.paths.is_empty() && !noted.everything {
            return Some(());
        }
        if state.version == 0 || noted.everything || !independent {
            return None;
        }
        let mut read: Vec<(PathBuf, Option<CachedFile>)> = Vec::new();
        for path in &noted.paths {
            let path = state.watch.as_ref()?.path_in(&self.root, path)?;
            let inside = state.files.range(path.clone()..).find(|(other, _)| **other != path);
            if inside.is_some_and(|(other, _)| other.starts_with(&path)) {
                return None;
            }
            let cached = state.files.get(&path);
            let found = match std::fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_file() => {
                    walk::is_configuration(&path).then(|| Stamp::of(&metadata))
                }
                Ok(_) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(_) => return None,
            };
            let file = match found {
                Some(stamp) => {
                    let found = Found { path: path.clone(), stamp, link: false };
                    match read_if_changed(&found, cached) {
                        Ok(file) => Some(file),
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                        Err(_) => return None,
                    }
                }
                None => None,
            };
            if file.is_some() || cached.is_some() {
                read.push((path, file));
            }
        }
        let mut contents = StoreContents::clone(&state.contents);
        let mut has_diagnostics = false;
        for (path, file) in &read {
            let old = state.files.get(path).map(|cached| &*cached.contents);
            let new = file.as_ref().map(|cached| &*cached.contents);
            has_diagnostics |= [old, new].into_iter().flatten().any(|file| !file.diagnostics.is_empty());
            contents.replace(old, new)?;
        }
        for (path, file) in read {
            match file {
                Some(file) => drop(state.files.insert(path, file)),
                None => drop(state.files.remove(&path)),
            }
        }
        if has_diagnostics {
            let all = state.files.values().flat_map(|file| &file.contents.diagnostics);
            contents.diagnostics = all.cloned().collect();
        }
        // Resources whose origin alone changed are replaced without a new version.
        state.version += u64::from(!contents.same_as(&state.contents));
        state.contents = Arc::new(contents);
        Some(())
    }

    fn aim(&self, state: &mut FsState) {
        let links = state.files.iter().filter(|(_, f)| f.link).map(|(p, _)| p.clone()).collect::<Vec<_>>();
        state.links = links.len();
        state.coverage = match &mut state.watch {
            None => Coverage::None,
            Some(watch) => match watch.aim(&self.root, &links) {
                true => Coverage::Full,
                false => Coverage::Partial,
            },
        };
    }

    fn read(
        &self,
        found: &[Found],
        errors: &[(PathBuf, std::io::Error)],
        state: &mut FsState,
    ) -> StoreContents {
        let mut before = std::mem::take(&mut state.files);
        let mut contents = StoreContents::default();
        let work = found.iter().map(|file| (file, before.remove(&file.path))).collect::<Vec<_>>();
        let read =
            parallel::map(&work, FILES_PER_THREAD, |(file, cached)| read_if_changed(file, cached.as_ref()));
        let mut held = Vec::with_capacity(found.len());
        for (file, read) in found.iter().zip(read) {
            match read {
                Ok(cached) => {
                    held.push(cached.contents.clone());
                    state.files.insert(file.path.clone(), cached);
                }
                // Removed since the walk.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let text = walk_error(&file.path, &error);
                    contents.diagnostics.push(unreadable(&file.path, &text));
                    contents.unavailable.get_or_insert(text);
                }
            }
        }
        // Files below unreadable directories keep their contents.
        for (path, cached) in before {
            if self.lost == WhenLost::Keep && errors.iter().any(|(lost, _)| path.starts_with(lost)) {
                held.push(cached.contents.clone());
                state.files.insert(path, cached);
            }
        }
        contents.add(held.iter().map(|file| &**file));
        contents
    }
}

fn read_if_changed(file: &Found, cached: Option<&CachedFile>) -> std::io::Result<CachedFile> {
    if let Some(cached) = cached
        && cached.stamp == file.stamp
        && !cached.fresh
    {
        return Ok(CachedFile { contents: cached.contents.clone(), ..*cached });
    }
    let metadata = std::fs::metadata(&file.path)?;
    if metadata.len() > MAX_FILE {
        return Err(std::io::Error::other(format!("file is larger than {} MiB", MAX_FILE >> 20)));
    }
    let stamp = Stamp::of(&metadata);
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| i64::try_from(t.as_secs()).unwrap_or(i64::MAX));
    let fresh = stamp.last_change() + 1 >= now;
    let bytes = std::fs::read(&file.path)?;
    let hash = hash(&bytes);
    let contents = match cached {
        Some(cached) if cached.hash == hash => cached.contents.clone(),
        cached => {
            let name = file.path.display().to_string().into();
            Arc::new(read_file(&name, &bytes, cached.map(|c| &*c.contents)))
        }
    };
    Ok(CachedFile { stamp, fresh, hash, link: file.link, contents })
}

fn hash(bytes: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Go's error text for a path.
fn walk_error(path: &Path, error: &std::io::Error) -> String {
    let text = match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        _ => error.to_string(),
    };
    let call =
        if error.kind() == std::io::ErrorKind::NotFound && !path.is_symlink() { "lstat" } else { "open" };
    format!("{call} {}: {text}", path.display())
}

fn unreadable(path: &Path, text: &str) -> Diagnostic {
    let mut diagnostic = Diagnostic::error("store-unreadable", FieldPath::root(), text.to_owned())
        .with_legacy(format!("failure during filepath.Walk: {text}"))
        .with_hint("its last contents stay in effect until it can be read again");
    diagnostic.file = Some(path.display().to_string().into());
    diagnostic
}

#[cfg(test)]
mod tests;
