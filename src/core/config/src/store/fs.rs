//! A directory of files.
//!
//! [`FsStore`] reads only files that changed and parses only chunks that changed. It sleeps until the system tells it of a change,
//! then waits for a short quiet time. Files that the system names are looked at alone; when it names anything else, or loses
//! track, the whole tree is walked. At rest nothing is read, unless the system may not tell of every change: on a file system of
//! another machine, where not everything can be watched, or where links lead out of the tree or to nothing. A directory that is
//! lost leaves the last contents in force. Spec: runtime.md 3.1, cli-operations.md 2.2.

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

/// How long nothing may happen before changes are read.
const QUIET: Duration = Duration::from_millis(10);
/// How long changes wait at most.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// After a change the whole tree is looked at once more: what happens in a new directory before it is watched is not told.
const SETTLING: Duration = Duration::from_secs(2);
/// How often the tree is looked at when the system may not tell of every change in it.
const POLL: Duration = Duration::from_secs(60);
/// How often it is looked at when the system cannot watch it.
const POLL_UNWATCHED: Duration = Duration::from_secs(1);
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// Fewest files that are worth a thread.
const FILES_A_THREAD: usize = 16;

/// What happens when the directory cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenLost {
    /// The last contents stay in force.
    #[default]
    Keep,
    /// All configuration is dropped, as the originals do.
    Drop,
}

/// A directory of YAML files.
pub struct FsStore {
    inner: Arc<Inner>,
}

struct Inner {
    url: String,
    root: PathBuf,
    lost: WhenLost,
    signal: Arc<Notify>,
    noted: Arc<Mutex<Noted>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<PathBuf, Cached>,
    contents: Arc<StoreContents>,
    /// Number of the contents; 0 before the first reading.
    version: u64,
    /// The version that was last given out.
    given: u64,
    watch: Option<Watch>,
    /// How many of the files are symbolic links.
    links: usize,
    /// How much the system tells.
    told: Told,
    /// Something changed, and the tree was not looked at since it came to rest.
    settling: bool,
}

/// How much of what happens the system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Told {
    /// There is no watch.
    #[default]
    Nothing,
    /// Not everything can be watched, or changes come from other machines.
    Something,
    /// All of it.
    Everything,
}

impl State {
    /// When to look without being told; `None` for never.
    fn poll(&self) -> Option<Duration> {
        match self.told {
            Told::Nothing => Some(POLL_UNWATCHED),
            _ if self.settling => Some(SETTLING),
            Told::Something => Some(POLL),
            Told::Everything => None,
        }
    }
}

/// A file as it was read.
struct Cached {
    stamp: Stamp,
    /// Read so soon after its last change that another change may not show in its stamp.
    fresh: bool,
    hash: u64,
    /// Whether the path is a symbolic link.
    link: bool,
    contents: Arc<FileContents>,
}

impl FsStore {
    /// A store of the files below `root`, known to users as `url`.
    pub fn new(url: &str, root: impl Into<PathBuf>, lost: WhenLost) -> Self {
        let root = root.into();
        let state = Mutex::new(State::default());
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
        state.given = state.version;
        state.contents.clone()
    }

    fn rescan(&self) {
        self.inner.signal.notify_one();
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if self.look(Look::First).await {
                return;
            }
            loop {
                let poll = self.inner.state.lock().poll();
                let mut look = Look::Everything;
                let told = match poll {
                    Some(poll) => timeout(poll, self.inner.signal.notified()).await.is_ok(),
                    None => {
                        self.inner.signal.notified().await;
                        true
                    }
                };
                if told {
                    look = Look::Noted;
                    let latest = Instant::now() + LONGEST_WAIT;
                    while timeout_at(latest.min(Instant::now() + QUIET), self.inner.signal.notified())
                        .await
                        .is_ok()
                    {
                        if Instant::now() >= latest {
                            break;
                        }
                    }
                }
                if self.look(look).await {
                    return;
                }
            }
        })
    }
}

/// At what a look is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Everything, for the first time.
    First,
    /// What the system noted.
    Noted,
    /// Everything.
    Everything,
}

impl FsStore {
    /// Reads what changed, away from the event loop; true if there is something to give out. The first look starts the watch.
    async fn look(&self, at: Look) -> bool {
        let inner = self.inner.clone();
        let look = move || {
            let mut state = inner.state.lock();
            if state.version != state.given {
                return true;
            }
            if at == Look::First {
                if state.watch.is_some() {
                    return inner.catch_up(&mut state, Look::Noted);
                }
                state.watch = Watch::new(inner.signal.clone(), inner.noted.clone()).ok();
                inner.aim(&mut state);
            }
            inner.catch_up(&mut state, at)
        };
        tokio::task::spawn_blocking(look).await.unwrap_or(false)
    }
}

impl Inner {
    /// Reads what there is to look at; true if there is something to give out.
    fn catch_up(&self, state: &mut State, at: Look) -> bool {
        let noted = std::mem::take(&mut *self.noted.lock());
        state.settling = at == Look::Noted && (state.settling || noted.everything || !noted.paths.is_empty());
        if at != Look::Noted || self.refresh_noted(state, &noted).is_none() {
            self.refresh(state);
        }
        state.version != state.given
    }

    /// Walks the tree and reads what changed.
    fn refresh(&self, state: &mut State) {
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
        // Resources that only stand elsewhere now are replaced without a new version.
        if state.version == 0 || !contents.same_as(&state.contents) {
            state.version += 1;
        }
        state.contents = Arc::new(contents);
        self.aim(state);
        if !found.errors.is_empty() && state.told == Told::Everything {
            // What ends the error may happen elsewhere, as with a link that leads to nothing.
            state.told = Told::Something;
        }
    }

    /// Reads the files that the system named, and no others. `None`, and nothing is changed, when that is not enough: something
    /// other than plain files is among them, or files depend on each other.
    fn refresh_noted(&self, state: &mut State, noted: &Noted) -> Option<()> {
        let alone =
            state.contents.unavailable.is_none() && !state.contents.has_duplicates() && state.links == 0;
        if noted.paths.is_empty() && !noted.everything {
            return Some(());
        }
        if state.version == 0 || noted.everything || !alone {
            return None;
        }
        let mut read: Vec<(PathBuf, Option<Cached>)> = Vec::new();
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
        let mut odd = false;
        for (path, file) in &read {
            let old = state.files.get(path).map(|cached| &*cached.contents);
            let new = file.as_ref().map(|cached| &*cached.contents);
            odd |= [old, new].into_iter().flatten().any(|file| !file.diagnostics.is_empty());
            contents.replace(old, new)?;
        }
        for (path, file) in read {
            match file {
                Some(file) => drop(state.files.insert(path, file)),
                None => drop(state.files.remove(&path)),
            }
        }
        if odd {
            let all = state.files.values().flat_map(|file| &file.contents.diagnostics);
            contents.diagnostics = all.cloned().collect();
        }
        // Resources that only stand elsewhere now are replaced without a new version.
        state.version += u64::from(!contents.same_as(&state.contents));
        state.contents = Arc::new(contents);
        Some(())
    }

    fn aim(&self, state: &mut State) {
        let links = state.files.iter().filter(|(_, f)| f.link).map(|(p, _)| p.clone()).collect::<Vec<_>>();
        state.links = links.len();
        state.told = match &mut state.watch {
            None => Told::Nothing,
            Some(watch) => match watch.aim(&self.root, &links) {
                true => Told::Everything,
                false => Told::Something,
            },
        };
    }

    fn read(
        &self,
        found: &[Found],
        errors: &[(PathBuf, std::io::Error)],
        state: &mut State,
    ) -> StoreContents {
        let mut before = std::mem::take(&mut state.files);
        let mut contents = StoreContents::default();
        let work = found.iter().map(|file| (file, before.remove(&file.path))).collect::<Vec<_>>();
        let read =
            parallel::map(&work, FILES_A_THREAD, |(file, cached)| read_if_changed(file, cached.as_ref()));
        let mut held = Vec::with_capacity(found.len());
        for (file, read) in found.iter().zip(read) {
            match read {
                Ok(cached) => {
                    held.push(cached.contents.clone());
                    state.files.insert(file.path.clone(), cached);
                }
                // Gone since the walk.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let text = walk_error(&file.path, &error);
                    contents.diagnostics.push(unreadable(&file.path, &text));
                    contents.unavailable.get_or_insert(text);
                }
            }
        }
        // Files that cannot be looked at now keep what they held.
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

fn read_if_changed(file: &Found, cached: Option<&Cached>) -> std::io::Result<Cached> {
    if let Some(cached) = cached
        && cached.stamp == file.stamp
        && !cached.fresh
    {
        return Ok(Cached { contents: cached.contents.clone(), ..*cached });
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
    Ok(Cached { stamp, fresh, hash, link: file.link, contents })
}

fn hash(bytes: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The text of Go for a failed look at a path.
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
        .with_hint("until it can be read, what was read from it before stays in force");
    diagnostic.file = Some(path.display().to_string().into());
    diagnostic
}

#[cfg(test)]
mod tests;
