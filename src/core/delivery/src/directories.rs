//! The directories of spills: who wants each, and what is left in those that nobody wants.
//!
//! The list is that of the process, as that of deliveries is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Items that a delivery that is gone left on disk, and that no other has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOnDisk {
    /// Where they are.
    pub directory: PathBuf,
    /// The name of the task of the delivery, or `spill` of one of an earlier process.
    pub name: &'static str,
    /// Which of several with this name; of an earlier process, whose the items are.
    pub detail: String,
    /// Number of items.
    pub items: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

static DIRECTORIES: Mutex<Directories> =
    Mutex::new(Directories { wanted: BTreeMap::new(), left: BTreeMap::new() });
/// Directories with items that are listed, so that a server whose configuration names ever new ones does not grow.
const MAX_LEFT: usize = 256;

/// Directories that are being opened.
static OPENING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A directory is being opened.
pub(crate) struct Opening(PathBuf);

impl Drop for Opening {
    fn drop(&mut self) {
        OPENING.lock().remove(&self.0);
    }
}

/// Whoever gets it opens a directory; `None` while another one does: on a file system that hangs, one thread waits, and not one for each handler
/// that was to have the directory.
pub(crate) fn opening(directory: &Path) -> Option<Opening> {
    let is_first = OPENING.lock().insert(directory.to_owned());
    is_first.then(|| Opening(directory.to_owned()))
}

struct Directories {
    wanted: BTreeMap<PathBuf, Wanted>,
    left: BTreeMap<PathBuf, LeftOnDisk>,
}

/// A directory that deliveries want.
struct Wanted {
    deliveries: usize,
    /// That of the handler: it may have one below it for each of its deliveries.
    home: PathBuf,
}

impl Directories {
    /// Lists what is left, in place of what was known of its directory. Without room for one more, the one is forgotten that comes last.
    fn list(&mut self, left: LeftOnDisk) {
        self.left.insert(left.directory.clone(), left);
        while self.left.len() > MAX_LEFT {
            self.left.pop_last();
        }
    }
}

/// A delivery wants a directory, until [`leave`]; `home` is that of its handler.
pub(crate) fn want(directory: &Path, home: &Path) {
    let mut directories = DIRECTORIES.lock();
    let wanted = directories.wanted.entry(directory.to_owned());
    wanted.or_insert_with(|| Wanted { deliveries: 0, home: home.to_owned() }).deliveries += 1;
}

/// A delivery has a directory.
pub(crate) fn take(directory: &Path) {
    DIRECTORIES.lock().left.remove(directory);
}

/// A delivery does not want its directory any more, in which it leaves items. Returns whether another one wants it.
pub(crate) fn leave(left: LeftOnDisk) -> bool {
    let mut directories = DIRECTORIES.lock();
    let is_wanted = match directories.wanted.get_mut(&left.directory) {
        Some(wanted) if wanted.deliveries > 1 => {
            wanted.deliveries -= 1;
            true
        }
        _ => {
            directories.wanted.remove(&left.directory);
            false
        }
    };
    if left.items > 0 {
        directories.list(left);
    }
    is_wanted
}

/// Whether a delivery wants a directory.
pub(crate) fn is_wanted(directory: &Path) -> bool {
    DIRECTORIES.lock().wanted.contains_key(directory)
}

/// The directories of all handlers that want some.
pub(crate) fn homes() -> BTreeSet<PathBuf> {
    DIRECTORIES.lock().wanted.values().map(|wanted| wanted.home.clone()).collect()
}

/// The directories that deliveries want, and those in which something is left.
pub(crate) fn known() -> BTreeSet<PathBuf> {
    let directories = DIRECTORIES.lock();
    directories.wanted.keys().chain(directories.left.keys()).cloned().collect()
}

/// Somebody looked at a directory, in which this is left. Returns whether that is new.
pub(crate) fn looked(directory: &Path, left: Option<LeftOnDisk>) -> bool {
    let mut directories = DIRECTORIES.lock();
    if directories.wanted.contains_key(directory) {
        return false;
    }
    let known = directories.left.remove(directory);
    let Some(left) = left else { return false };
    let is_new = known.is_none();
    // Who left them is known better.
    directories.list(match known {
        Some(LeftOnDisk { name, detail, .. }) => LeftOnDisk { name, detail, ..left },
        None => left,
    });
    is_new
}

/// What deliveries that are gone left on disk, as long as no other has taken it, by directory.
pub fn left_on_disk() -> Vec<LeftOnDisk> {
    DIRECTORIES.lock().left.values().cloned().collect()
}
