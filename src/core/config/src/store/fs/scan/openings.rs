//! Who has a file open besides the one that has closed it, as far as events tell. Asked where the system does not tell of writers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::file::PATIENCE;
use super::super::walk::is_configuration;
use super::super::watch::{LastEvent, Noted, Watch};

/// Most files of which this is kept.
const MAX_FILES: usize = 1024;

/// The files that others may have open.
#[derive(Debug, Default)]
pub(super) struct Openings {
    by_path: BTreeMap<PathBuf, Opening>,
    /// When events were lost last: any file may be open since.
    lost: Option<Instant>,
}

#[derive(Debug)]
struct Opening {
    /// How often it was opened, less how often a writer closed it. No event tells of a reader that closes it.
    count: i64,
    /// When it was opened last.
    last: Instant,
}

/// The files that are none of configuration and are being written, as far as events tell, with the time of the last write. Programs that copy files
/// write another one first, and rename it.
#[derive(Debug, Default)]
pub(super) struct Drafts(BTreeMap<PathBuf, Instant>);

impl Drafts {
    /// Notes what events tell. One that nobody writes any more is forgotten after [`PATIENCE`].
    pub(super) fn note(&mut self, events: &BTreeMap<PathBuf, Option<LastEvent>>, now: Instant) {
        for (path, event) in events.iter().filter(|(path, _)| !is_configuration(path) && !is_swap(path)) {
            match event {
                Some(LastEvent::Written) if self.0.len() < MAX_FILES => _ = self.0.insert(path.clone(), now),
                Some(LastEvent::Closed | LastEvent::Gone) => _ = self.0.remove(path),
                _ => {}
            }
        }
        self.0.retain(|_, last| now.saturating_duration_since(*last) < PATIENCE);
    }

    /// Whether there is any.
    pub(super) fn are_written(&self) -> bool {
        !self.0.is_empty()
    }
}

/// Whether a file is one that Vim has open as long as it edits another.
fn is_swap(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().as_encoded_bytes();
    extension.len() == 3 && extension.starts_with(b"sw")
}

impl Openings {
    /// Notes what events tell. `keeps`: whether a file is in the middle of a change. Of others it is forgotten after [`PATIENCE`] who opened
    /// them: most have read them.
    pub(super) fn note(
        &mut self,
        noted: &Noted,
        watch: Option<(&Watch, &Path)>,
        keeps: impl Fn(&Path) -> bool,
        now: Instant,
    ) {
        if noted.lost || noted.has_lost_opened {
            self.lost = Some(now);
        }
        for (path, told) in &noted.opened {
            let Some(path) = watch.and_then(|(watch, root)| watch.path_in(root, path)) else { continue };
            let known = self.by_path.entry(path).or_insert(Opening { count: 0, last: told.last });
            let before = if told.is_another { 0 } else { known.count };
            *known = Opening { count: (before + told.openings).max(0), last: told.last };
        }
        let is_recent = |since: Instant| now.saturating_duration_since(since) < PATIENCE;
        self.by_path.retain(|path, known| known.count > 0 && (is_recent(known.last) || keeps(path)));
        if self.by_path.len() > MAX_FILES {
            self.by_path.clear();
            self.lost = Some(now);
        }
        self.lost = self.lost.filter(|lost| is_recent(*lost));
    }

    /// Whether no file may be open.
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_none() && self.by_path.is_empty()
    }

    /// Whether a process may have a file open.
    pub(super) fn may_be_open(&self, path: &Path) -> bool {
        self.lost.is_some() || self.by_path.contains_key(path)
    }
}
