//! Events of directories: one watcher of the system and one thread for all files of the process.
//!
//! The system bounds its watchers, 128 for all processes of a user by default, far below the number of files that handlers read.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mixer_base::task::{FaultPoint, Task};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::sync::Notify;

/// Bytes of events that are read at once.
const READ: usize = 16 << 10;
/// How often a directory is watched that is exchanged meanwhile.
const ATTEMPTS: usize = 3;

/// What may change a file in a directory, or what the directory is.
const CHANGES: WatchFlags = WatchFlags::ONLYDIR
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// After which nothing is known of a directory.
const LOST: ReadFlags =
    ReadFlags::DELETE_SELF.union(ReadFlags::MOVE_SELF).union(ReadFlags::UNMOUNT).union(ReadFlags::IGNORED);

/// The watcher, from the first directory that is watched to the end of the process.
static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);

struct Watcher {
    inotify: OwnedFd,
    /// Those who follow a directory, by its number. Not locked while the file system is asked.
    followers: Mutex<HashMap<i32, Vec<Arc<Follower>>>>,
    /// Whether the system has no more events.
    has_ended: AtomicBool,
}

/// Somebody who follows files with these names.
struct Follower {
    names: Vec<OsString>,
    changed: Arc<Notify>,
    /// Whether a directory was removed or renamed, or events were lost.
    is_lost: AtomicBool,
}

/// Directories that are followed until this is dropped.
pub(super) struct Followed {
    watcher: Arc<Watcher>,
    follower: Arc<Follower>,
    directories: Vec<i32>,
}

impl Followed {
    /// Notifies `changed` when a file of these names changes in one of the directories, or a directory is removed.
    ///
    /// Errors: the system has no more watchers, or a directory cannot be watched.
    pub(super) fn of<'d>(
        directories: impl IntoIterator<Item = &'d Path>,
        names: Vec<OsString>,
        changed: Arc<Notify>,
    ) -> std::io::Result<Self> {
        let follower = Arc::new(Follower { names, changed, is_lost: AtomicBool::new(false) });
        let mut followed = Self { watcher: Watcher::of_process()?, follower, directories: Vec::new() };
        for directory in directories {
            followed.add(directory)?;
        }
        Ok(followed)
    }

    fn add(&mut self, directory: &Path) -> std::io::Result<()> {
        let watch = || inotify::add_watch(&self.watcher.inotify, directory, CHANGES);
        let mut number = watch()?;
        for _ in 0..ATTEMPTS {
            // Two paths of a directory have one number.
            if !self.directories.contains(&number) {
                let follower = Arc::clone(&self.follower);
                self.watcher.followers.lock().entry(number).or_default().push(follower);
                self.directories.push(number);
            }
            // Between the two its last follower may have ended its watch.
            let now = watch()?;
            if now == number {
                return Ok(());
            }
            number = now;
        }
        Err(std::io::Error::other("it is another one each time"))
    }

    /// Whether nothing is known of a directory any more.
    pub(super) fn is_lost(&self) -> bool {
        self.follower.is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut followers = self.watcher.followers.lock();
        for number in &self.directories {
            let Some(of_directory) = followers.get_mut(number) else { continue };
            of_directory.retain(|follower| !Arc::ptr_eq(follower, &self.follower));
            if of_directory.is_empty() {
                followers.remove(number);
                // It may have ended with its directory.
                let _ = inotify::remove_watch(&self.watcher.inotify, *number);
            }
        }
    }
}

impl Watcher {
    fn of_process() -> std::io::Result<Arc<Self>> {
        let mut known = WATCHER.lock();
        if let Some(watcher) = &*known {
            return Ok(Arc::clone(watcher));
        }
        let inotify = inotify::init(CreateFlags::CLOEXEC)?;
        let has_ended = AtomicBool::new(false);
        let watcher = Arc::new(Self { inotify, followers: Mutex::default(), has_ended });
        let (reads, ends) = (Arc::clone(&watcher), Arc::clone(&watcher));
        let has_ended = move || ends.has_ended.load(Ordering::Relaxed);
        Task::restarted("list events")
            .spawn_thread("file-events", has_ended, move |fault| reads.read(fault))?;
        *known = Some(Arc::clone(&watcher));
        Ok(watcher)
    }

    /// Reads events as long as the system has them.
    fn read(&self, fault: &FaultPoint<'_>) {
        // Of what happened while nobody read nothing is known.
        self.lose_all();
        let mut buffer = [MaybeUninit::uninit(); READ];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        loop {
            fault.check();
            if reader.is_buffer_empty() && !self.has_events() {
                continue;
            }
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => self.lose_all(),
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    self.tell(event.wd(), event.events(), name);
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(target: "adapters", "events of files cannot be read: {error}; they are looked at every second");
                    // Another watcher takes its place.
                    self.has_ended.store(true, Ordering::Relaxed);
                    *WATCHER.lock() = None;
                    self.lose_all();
                    return;
                }
            }
        }
    }

    /// Whether there are events within a moment.
    fn has_events(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.inotify, PollFlags::IN)];
        let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
        // An error is told by the read.
        !matches!(poll(&mut descriptors, Some(&limit)), Ok(0) | Err(Errno::INTR))
    }

    fn tell(&self, directory: i32, events: ReadFlags, name: Option<&OsStr>) {
        let followers = self.followers.lock();
        let is_lost = events.intersects(LOST);
        for follower in followers.get(&directory).into_iter().flatten() {
            if is_lost {
                follower.lose();
            } else if name.is_some_and(|name| follower.is_concerned(name)) {
                follower.changed.notify_one();
            }
        }
    }

    fn lose_all(&self) {
        self.followers.lock().values().flatten().for_each(|follower| follower.lose());
    }
}

impl Follower {
    fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn is_concerned(&self, name: &OsStr) -> bool {
        // Kubernetes updates ConfigMaps through symbolic links whose names begin with two dots.
        name.as_bytes().starts_with(b"..") || self.names.iter().any(|known| known == name)
    }
}
