//! Notifications of changes of files.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::events::Followed;
use super::reads::PENDING_READS;
use mixer_base::file_stamp::FileStamp;

/// Debounce time of file changes, so that a burst of changes is read once.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(50);

/// Interval of looks at the files: no event tells of a directory that takes the place of another one, of a link on the way that leads
/// elsewhere, of a file that is mounted over another one, and of a change from another machine.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Most links of a file that are followed: as many as Linux follows.
const MAX_LINKS: usize = 40;

/// Files that are watched, until this is dropped. The directories are watched, because a file or the target of its link may be replaced:
/// that of the file and, of a link, those of all files that it leads to.
pub(crate) struct FileWatches {
    watches: Vec<FileWatch>,
    changed: Arc<Notify>,
    next_look: Instant,
}

struct FileWatch {
    path: PathBuf,
    limit: Duration,
    /// [`None`] while a directory is not there or cannot be watched.
    chain: Option<Chain>,
    /// The file as it was last read.
    read: Option<FileStamp>,
    /// The file as a look found it that was told.
    told: Option<FileStamp>,
}

/// A file and, while it is a link, what it leads to.
struct Chain {
    followed: Followed,
    places: Vec<Place>,
}

/// A file in a directory.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    directory: PathBuf,
    name: OsString,
    /// Device and inode of the directory.
    identity: (u64, u64),
}

/// What a look finds.
struct Seen {
    places: Vec<Place>,
    stamp: Option<FileStamp>,
}

/// Where a file is: the directory of the path and, while that is a link, those of the paths that it leads to. Errors: a directory is not there.
fn places(path: &Path) -> std::io::Result<Vec<Place>> {
    let (mut places, mut at) = (Vec::new(), path.to_owned());
    while let (Some(parent), Some(name)) = (at.parent(), at.file_name()) {
        let directory = if parent.as_os_str().is_empty() { Path::new(".") } else { parent }.to_owned();
        let metadata = std::fs::metadata(&directory)?;
        let name = name.to_owned();
        let target = std::fs::read_link(&at).ok().map(|target| directory.join(target));
        places.push(Place { directory, name, identity: (metadata.dev(), metadata.ino()) });
        match target {
            Some(target) if places.len() <= MAX_LINKS => at = target,
            _ => break,
        }
    }
    match places.is_empty() {
        true => Err(std::io::Error::other("it names no file")),
        false => Ok(places),
    }
}

fn look(path: &Path) -> std::io::Result<Seen> {
    let stamp = std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata));
    Ok(Seen { places: places(path)?, stamp })
}

impl FileWatches {
    /// No file is watched. `changed` is notified when one changes, or its directory is removed.
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self { watches: Vec::new(), changed, next_look: Instant::now() + LOOK_INTERVAL }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Watches a file. `limit`: how long an operation of its file system may take. Errors: one line; without events it is looked at every second.
    pub(crate) async fn add(&mut self, path: &Path, limit: Duration) -> Result<(), String> {
        let chain = watch(path, limit, Arc::clone(&self.changed)).await;
        let (chain, outcome) = match chain {
            Ok(chain) => (Some(chain), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.watches.push(FileWatch { path: path.to_owned(), limit, chain, read: None, told: None });
        outcome
    }

    /// Notes the stamp that a file had when it was last read.
    pub(crate) fn has_read(&mut self, path: &Path, stamp: Option<FileStamp>) {
        self.watches.iter_mut().filter(|watch| watch.path == path).for_each(|watch| watch.read = stamp);
    }

    /// Waits until a file is another one than was read, as a look each second finds it. Never ends without files.
    pub(crate) async fn exchanged(&mut self) {
        loop {
            sleep_until(self.next_look).await;
            self.next_look = Instant::now() + LOOK_INTERVAL;
            let mut is_exchanged = false;
            for watch in &mut self.watches {
                is_exchanged |= watch.look(&self.changed).await;
            }
            if is_exchanged {
                return;
            }
        }
    }
}

impl FileWatch {
    /// Watches the directories in which the file is now. Returns whether it is to be read again.
    async fn look(&mut self, changed: &Arc<Notify>) -> bool {
        // On a file system that hangs, or that cannot be read for a moment, nothing is known.
        let Some(mut now) = self.now().await else { return false };
        let is_same = |chain: &Chain| {
            !chain.followed.is_lost() && now.as_ref().is_ok_and(|now| now.places == chain.places)
        };
        if !self.chain.as_ref().is_some_and(is_same) {
            self.chain = None;
            if now.is_ok() {
                self.chain = watch(&self.path, self.limit, Arc::clone(changed)).await.ok();
                // It may have changed before it was watched.
                let Some(watched) = self.now().await else { return false };
                now = watched;
            }
        }
        let stamp = now.ok().and_then(|now| now.stamp);
        let is_known = stamp.is_none() || stamp == self.read || stamp == self.told;
        self.told = stamp;
        !is_known
    }

    async fn now(&self) -> Option<std::io::Result<Seen>> {
        let path = self.path.clone();
        PENDING_READS.run(&self.path, self.limit, move || look(&path)).await.ok()
    }
}

/// Notifies `changed` when the file changes, or its directory is removed. Errors: one line.
async fn watch(path: &Path, limit: Duration, changed: Arc<Notify>) -> Result<Chain, String> {
    let file = path.to_owned();
    let start = move || {
        // Before they are watched: a directory that takes the place of one in between is found by the next look.
        let places = places(&file)?;
        let names: Vec<OsString> = places.iter().map(|place| place.name.clone()).collect();
        let directories = places.iter().map(|place| &*place.directory);
        let followed = Followed::of(directories, names, changed)?;
        Ok::<_, std::io::Error>(Chain { followed, places })
    };
    let failed = |why: String| format!("cannot watch the directories of {}: {why}", path.display());
    match PENDING_READS.run(path, limit, start).await {
        Ok(Ok(chain)) => Ok(chain),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(why) => Err(failed(why.to_string())),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// The watchers of the system that the process has, and the threads that read their events.
    fn watchers() -> (usize, usize) {
        let entries =
            |path: &str| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_watcher = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|target| target.as_os_str().to_string_lossy().contains("inotify"))
        };
        let reads = |task: &PathBuf| {
            fs::read_to_string(task.join("comm"))
                .is_ok_and(|name| name.starts_with("notify") || name == "file-events\n")
        };
        (
            entries("/proc/self/fd").filter(is_watcher).count(),
            entries("/proc/self/task").filter(reads).count(),
        )
    }

    /// More files than the system has watchers for all processes of a user, 128 by default.
    #[tokio::test]
    async fn all_files_have_one_watcher_and_one_thread() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for n in 0..230 {
            // Some share a directory.
            let path = directory.path().join((n % 210).to_string()).join(format!("list-{n}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "a\n").unwrap();
            let changed = Arc::<Notify>::default();
            let mut watches = FileWatches::new(Arc::clone(&changed));
            assert_eq!(watches.add(&path, LIMIT).await, Ok(()));
            files.push((path, changed, watches));
        }
        assert_eq!(watchers(), (1, 1));
        for (path, changed, _) in &files {
            fs::write(path, "b\n").unwrap();
            timeout(LIMIT, changed.notified()).await.unwrap_or_else(|_| panic!("{}", path.display()));
        }
        // Those that are left are watched when others end, also in the same directory.
        drop(files.drain(..210));
        for (path, changed, _) in &files {
            // A write may be told twice.
            while timeout(SETTLE_TIME, changed.notified()).await.is_ok() {}
            fs::write(path, "c\n").unwrap();
            timeout(LIMIT, changed.notified()).await.unwrap_or_else(|_| panic!("{}", path.display()));
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_watched_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("later/list");
        let changed = Arc::<Notify>::default();
        let mut watches = FileWatches::new(Arc::clone(&changed));
        let problem = watches.add(&path, LIMIT).await.unwrap_err();
        assert!(problem.starts_with("cannot watch the directories of ") && problem.contains("No such file"));
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, "a\n").unwrap();
        timeout(LIMIT, watches.exchanged()).await.unwrap();
        while timeout(SETTLE_TIME, changed.notified()).await.is_ok() {}
        // An event tells of it from now on.
        fs::write(&path, "b\n").unwrap();
        timeout(LIMIT, changed.notified()).await.unwrap();
        // And of the end of the directory, or of another one in its place.
        while timeout(SETTLE_TIME, changed.notified()).await.is_ok() {}
        fs::rename(path.parent().unwrap(), directory.path().join("before")).unwrap();
        timeout(LIMIT, changed.notified()).await.unwrap();
    }
}
