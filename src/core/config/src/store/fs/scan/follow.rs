//! How a directory is followed: which watches there are, when it is looked at without an event, and what is looked at although none came.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mixer_base::file_stamp::FileStamp;
use mixer_base::task::{External, Task};

use super::super::mounts;
use super::super::wake::Wake;
use super::super::walk;
use super::super::watch::{Aim, Watch};
use super::{Coverage, Scanner, Scope};

/// The tree is walked once more this long after a change: a new directory may change before its watch is set.
pub(in crate::store::fs) const SETTLING: Duration = Duration::from_secs(2);
/// Poll interval where events may be missing.
const POLL: Duration = Duration::from_secs(60);
/// Poll interval without a watch.
pub(in crate::store::fs) const POLL_UNWATCHED: Duration = Duration::from_secs(1);
/// Interval of looks while each finds something else.
const POLL_UNSTEADY: Duration = Duration::from_millis(20);
/// Interval of looks at files that are in the middle of a change.
const POLL_UNSETTLED: Duration = Duration::from_millis(250);
/// As [`POLL_UNSETTLED`], once a warning was given.
const POLL_OVERDUE: Duration = Duration::from_secs(1);

/// After how many looks of [`Scanner::is_overlooked`] each file was looked at.
const LOOKS_FOR_ALL: usize = 60;
/// Files that it looks at, at least.
const MIN_LOOKS: usize = 64;

/// The thread of file events, which the library starts for each watch.
pub(super) struct Events {
    pub(super) task: Arc<External>,
    pub(super) wake: Arc<Wake>,
    /// When it is to be started, if it does not run.
    pub(super) start_at: Option<Instant>,
}

impl Scanner {
    /// When to scan without an event, and what; `None` for never.
    pub(in crate::store::fs) fn next_scan(&self, now: Instant) -> Option<(Duration, Scope)> {
        // Counted from the last walk: events in between do not delay it.
        let poll =
            self.walked.map_or(POLL, |walked| POLL.saturating_sub(now.saturating_duration_since(walked)));
        let tree = match self.coverage {
            Coverage::None => Some(POLL_UNWATCHED),
            _ if self.settling => Some(SETTLING.min(poll)),
            Coverage::Partial => Some(poll),
            Coverage::Full => None,
        };
        if self.steadiness.keeps {
            return Some((POLL_UNSTEADY, Scope::Everything));
        }
        let overdue = self.unsettled.values().all(|unsettled| unsettled.is_overdue(now));
        let unsettled = if overdue { POLL_OVERDUE } else { POLL_UNSETTLED };
        match tree {
            Some(tree) if self.unsettled.is_empty() || tree <= unsettled => Some((tree, Scope::Everything)),
            _ if self.unsettled.is_empty() => None,
            _ => Some((unsettled, Scope::Noted)),
        }
    }

    /// Starts watching, if that is possible. The next scan has to cover everything.
    pub(in crate::store::fs) fn watch(&mut self, wake: &Arc<Wake>) {
        let events = self.events.take().unwrap_or_else(|| Events {
            task: Arc::new(Task::restarted("file events").external()),
            wake: Arc::clone(wake),
            start_at: None,
        });
        self.watch = None;
        self.events = Some(Events { start_at: Some(Instant::now()), ..events });
        self.tend_watch(Instant::now());
    }

    /// Notices that the thread of file events has ended, and starts it again when it is time; in between the tree is polled. Returns
    /// whether events may have been lost.
    pub(super) fn tend_watch(&mut self, now: Instant) -> bool {
        let Some(events) = &mut self.events else { return false };
        let ended = self.watch.as_ref().and_then(Watch::ended);
        if let Some(panic) = ended {
            events.start_at = now.checked_add(events.task.failed(panic));
            self.watch = None;
            self.coverage = Coverage::None;
            return true;
        }
        if self.watch.is_some() || events.start_at.is_none_or(|at| at > now) {
            return false;
        }
        events.task.started();
        match Watch::new(Arc::clone(&events.wake), Arc::clone(&events.task)) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                let pause = events.task.failed(Some(format!("files cannot be watched: {error}")));
                events.start_at = now.checked_add(pause);
            }
        }
        self.aim();
        true
    }

    /// Watches what the last walk found.
    pub(super) fn aim(&mut self) -> Aim {
        let links: Vec<PathBuf> =
            self.files.iter().filter(|(_, file)| file.link).map(|(path, _)| path.clone()).collect();
        self.links = links.len();
        let named = self.files_with_other_names();
        let aim = match &mut self.watch {
            None => Aim::default(),
            Some(watch) => {
                // Events of a file that is mounted over another one are none of its directory.
                let mounted = self.walked_mounts.iter().map(|mount| mount.path.clone());
                let mut files: Vec<PathBuf> = mounted.filter(|path| path.is_file()).collect();
                if let Ok(real) = self.root.canonicalize() {
                    let inside = named.iter().flatten().filter_map(|path| path.strip_prefix(&self.root).ok());
                    files.extend(inside.map(|inside| real.join(inside)));
                }
                watch.aim(&self.root, &links, &self.walked_directories, files)
            }
        };
        self.is_told = aim.coverage == Coverage::Full && named.is_some();
        self.coverage = match aim.coverage {
            Coverage::Full if self.directories.have_mount_points || named.is_none() => Coverage::Partial,
            coverage => coverage,
        };
        aim
    }

    /// Whether changes are followed.
    pub(in crate::store::fs) fn is_followed(&self) -> bool {
        self.events.is_some()
    }

    /// Whether another directory is in the place of the root than at the last walk, or something else is mounted below it: a link on the way to
    /// it may be another one, or a directory above it was replaced, of which no event tells.
    pub(in crate::store::fs) fn is_moved(&self) -> bool {
        walk::Identity::at(&self.root) != self.walked_root
            || mounts::below(self.root.canonicalize().ok().as_deref()) != self.walked_mounts
    }

    /// Whether one of the next files is another version than the one that was read, and nothing was told of it: no event tells of what is
    /// written by a name that a file got outside of the tree. Called every second, it comes to each file within a minute. Cost: a system
    /// call for each of 64 files, or of a sixtieth of all.
    pub(in crate::store::fs) fn is_overlooked(&mut self, now: Instant) -> bool {
        // What cannot be read is not the version that stays in effect, at each look; elsewhere than on a local file system, one version may
        // look like several. Such trees are walked as often.
        let is_recent = |walked: Instant| now.saturating_duration_since(walked) < POLL;
        let is_sure = self.is_intact && self.coverage == Coverage::Full;
        if !is_sure && self.walked.is_some_and(is_recent) {
            return false;
        }
        let count = self.files.len().div_ceil(LOOKS_FOR_ALL).max(MIN_LOOKS).min(self.files.len());
        let after = self.last_look.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.files.range((after, Bound::Unbounded)).chain(&self.files).take(count);
        let mut last = None;
        let is_other = next.into_iter().any(|(path, file)| {
            last = Some(path);
            !self.unsettled.contains_key(path)
                && std::fs::metadata(path).map_or_else(
                    |error| error.kind() == std::io::ErrorKind::NotFound,
                    |now| FileStamp::of(&now) != file.stamp,
                )
        });
        self.last_look = last.cloned();
        is_other
    }
}
