//! Finds what deliveries of earlier processes left on disk, and nobody sends any more: their handler was removed or renamed, or has another
//! directory.
//!
//! It is looked for beside the directories of the handlers that there are, and in the directories that a file names, which remembers those of
//! earlier processes. Nothing of what is found is changed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use mixer_base::regular_file;
use mixer_base::task::{FaultPoint, Task, is_injection_enabled};

use crate::directories::{self, LeftOnDisk};
use crate::spool;

/// The time between looks at the disk.
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);
/// How often directories are remembered that are new.
const BETWEEN_NOTES: Duration = Duration::from_secs(5);
/// How often a thread that sleeps looks for an injected fault, where there are any.
const FAULT_INTERVAL: Duration = Duration::from_millis(100);
/// Most directories that are remembered, and most that are looked at.
const MAX_REMEMBERED: usize = 256;
const MAX_LOOKED_AT: usize = 1024;
/// Entries of a directory that are looked at.
const MAX_ENTRIES: usize = 1024;
/// The name of the deliveries of what is found.
const FOUND: &str = "spill";

/// The file that remembers directories.
const FILE: &str = "spill-directories";
/// Its largest size.
const MAX_FILE: u64 = 1 << 20;
/// Its first line.
const HEADING: &str = "mixer spill directories 1";

/// A thread that looks, until it is dropped.
#[derive(Debug)]
pub struct Survey {
    ends: Arc<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    is_due: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Survey {
    /// Starts to look, once the deliveries of the first configuration are there. `memory`: the directory of the file that remembers
    /// directories; without one, only what is beside those of the handlers that there are is found.
    ///
    /// Errors: the thread cannot be created.
    pub fn start(memory: Option<PathBuf>) -> io::Result<Self> {
        let ends = Arc::<Ends>::default();
        let (of_thread, is_expected) = (Arc::clone(&ends), Arc::clone(&ends));
        let surveyor = Mutex::new(Surveyor::new(memory));
        let body = move |fault: &FaultPoint<'_>| surveyor.lock().run(&of_thread, fault);
        let is_expected = move || is_expected.is_due.load(Ordering::Relaxed);
        Task::restarted("spill survey").spawn_thread("spill-survey", is_expected, body)?;
        Ok(Self { ends })
    }
}

impl Drop for Survey {
    fn drop(&mut self) {
        // It is not waited for: a disk may hang.
        self.ends.is_due.store(true, Ordering::Relaxed);
        let _lock = self.ends.lock.lock();
        self.ends.wake.notify_all();
    }
}

/// What is left on disk beside the directories of handlers, and in the directories that the file in `memory` names, for who examines a
/// configuration. What is in or below one of them is left by nobody.
pub fn left_beside(homes: &BTreeSet<PathBuf>, memory: Option<&Path>) -> Vec<LeftOnDisk> {
    let remembered = memory.map(remembered).unwrap_or_default();
    let homes = with_targets(homes);
    let looked_at = beside(&homes, remembered);
    let others = looked_at.into_iter().filter(|directory| !directory.ancestors().any(|a| homes.contains(a)));
    let mut left: Vec<LeftOnDisk> = others.filter_map(|directory| left_in(&directory).ok()?).collect();
    left.truncate(MAX_REMEMBERED);
    left
}

struct Surveyor {
    memory: Option<PathBuf>,
    /// What the file has.
    on_file: BTreeSet<PathBuf>,
    /// What it had at the start and nobody could look at yet.
    unseen: BTreeSet<PathBuf>,
    next_look: Instant,
}

impl Surveyor {
    fn new(memory: Option<PathBuf>) -> Self {
        let on_file = memory.as_deref().map(remembered).unwrap_or_default();
        Self { memory, unseen: on_file.clone(), on_file, next_look: Instant::now() }
    }

    fn run(&mut self, ends: &Ends, fault: &FaultPoint<'_>) {
        while !ends.is_due.load(Ordering::Relaxed) {
            fault.check();
            let now = Instant::now();
            if now >= self.next_look {
                self.next_look = now + BETWEEN_LOOKS;
                self.look();
            }
            self.note();
            let until = Instant::now() + BETWEEN_NOTES;
            let mut lock = ends.lock.lock();
            while !ends.is_due.load(Ordering::Relaxed) && Instant::now() < until {
                if is_injection_enabled() {
                    ends.wake.wait_for(&mut lock, FAULT_INTERVAL);
                    fault.check();
                } else {
                    ends.wake.wait_until(&mut lock, until);
                }
            }
        }
    }

    /// Looks at the disk, and lists what is left there.
    fn look(&mut self) {
        let known = self.unseen.iter().cloned().chain(directories::known()).collect();
        self.look_at(beside(&with_targets(&directories::homes()), known));
    }

    fn look_at(&mut self, all: BTreeSet<PathBuf>) {
        for directory in all {
            if directories::is_wanted(&directory) {
                self.unseen.remove(&directory);
                continue;
            }
            match left_in(&directory) {
                Ok(left) => {
                    self.unseen.remove(&directory);
                    tell(&directory, left);
                }
                // A disk may be there later.
                Err(error) => tracing::debug!(directory = %directory.display(), "not looked at: {error}"),
            }
        }
    }

    /// Remembers the directories that deliveries want, and those in which something is left.
    fn note(&mut self) {
        let Some(memory) = &self.memory else { return };
        let can_be_written =
            |path: &PathBuf| path.is_absolute() && !path.as_os_str().as_bytes().contains(&b'\n');
        let known = directories::known().into_iter().filter(can_be_written);
        // First those that are known.
        let mut all: BTreeSet<PathBuf> = known.take(MAX_REMEMBERED).collect();
        let unseen = self.unseen.iter().filter(|directory| !all.contains(*directory)).cloned();
        let unseen: Vec<PathBuf> = unseen.take(MAX_REMEMBERED - all.len()).collect();
        all.extend(unseen);
        if all == self.on_file {
            return;
        }
        match remember(memory, &all) {
            Ok(()) => self.on_file = all,
            Err(error) => mixer_base::warn_limited!(
                1,
                directory = %memory.display(),
                "the directories of entries on disk cannot be remembered: {error}"
            ),
        }
    }
}

/// Lists what is left in a directory, and logs it if that is new.
fn tell(directory: &Path, left: Option<LeftOnDisk>) {
    let is_new = directories::looked(directory, left.clone());
    if let (true, Some(LeftOnDisk { detail, items, bytes, .. })) = (is_new, left) {
        tracing::warn!(
            directory = %directory.display(),
            items,
            bytes,
            "{items} items of {detail} stay on disk and are not sent: no handler keeps entries in this directory. To have them sent, give it to that \
             handler, or to another one of the adapter, without the file `owner`; otherwise remove it"
        );
    }
}

/// What nobody sends of what is in a directory; `None`: there is nothing, or it is in use.
fn left_in(directory: &Path) -> io::Result<Option<LeftOnDisk>> {
    let found = match spool::look(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => found?,
    };
    let Some(found) = found.filter(|found| found.items > 0) else { return Ok(None) };
    let detail = found.owner.unwrap_or_else(|| "a handler of an earlier version".to_owned());
    let (items, bytes) = (found.items, found.bytes);
    Ok(Some(LeftOnDisk { directory: directory.to_owned(), name: FOUND, detail, items, bytes }))
}

/// Directories, also as they are called without links and from the root.
fn with_targets(directories: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let targets = directories.iter().filter_map(|directory| fs::canonicalize(directory).ok());
    directories.iter().cloned().chain(targets).collect()
}

/// The directories beside some, those in them, and others that are known.
fn beside(homes: &BTreeSet<PathBuf>, known: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut all = known;
    // Not everything of a machine.
    let above = homes.iter().filter_map(|home| home.parent().filter(|above| above.parent().is_some()));
    for root in above.collect::<BTreeSet<&Path>>() {
        for directory in directories_in(root) {
            if all.len() >= MAX_LOOKED_AT {
                return all;
            }
            all.extend(directories_in(&directory).into_iter().take(MAX_LOOKED_AT - all.len()));
            all.insert(directory);
        }
    }
    all
}

/// The directories in a directory; links are not followed.
fn directories_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let entries = entries.take(MAX_ENTRIES).filter_map(Result::ok);
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

/// What the file in `memory` names. Without one, or with another one, nothing.
fn remembered(memory: &Path) -> BTreeSet<PathBuf> {
    let Ok(bytes) = regular_file::read(&memory.join(FILE), MAX_FILE) else { return BTreeSet::new() };
    let mut lines = bytes.split(|byte| *byte == b'\n');
    if lines.next() != Some(HEADING.as_bytes()) {
        return BTreeSet::new();
    }
    let paths = lines.map(|line| PathBuf::from(OsStr::from_bytes(line)));
    paths.filter(|path| path.is_absolute()).take(MAX_REMEMBERED).collect()
}

/// Replaces the file.
fn remember(memory: &Path, directories: &BTreeSet<PathBuf>) -> io::Result<()> {
    let path = memory.join(FILE);
    if directories.is_empty() && !path.exists() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(memory)?;
    let mut text = format!("{HEADING}\n").into_bytes();
    for directory in directories {
        text.extend_from_slice(directory.as_os_str().as_bytes());
        text.push(b'\n');
    }
    let temporary = memory.join(format!(".{FILE}.{}", std::process::id()));
    let written = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        File::open(memory)?.sync_all()
    };
    written().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

#[cfg(test)]
mod tests;
