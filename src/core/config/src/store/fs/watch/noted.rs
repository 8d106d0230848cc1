//! What events tell between two scans.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use notify::EventKind;
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};

use super::super::walk::is_configuration;

/// Maximum number of paths recorded between two scans.
const MAX_NOTED: usize = 1024;

/// The last event of a path, as far as it tells about writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::fs) enum LastEvent {
    /// Its writer closed it, or it was renamed into place.
    Closed,
    /// It was written to; its writer has not closed it since.
    Written,
    /// It was removed, or renamed away.
    Gone,
    /// Another event.
    Other,
}

/// The events since the last scan.
#[derive(Debug, Default)]
pub(in crate::store::fs) struct Noted {
    /// The paths named by events.
    pub(in crate::store::fs) paths: BTreeMap<PathBuf, LastEvent>,
    /// The whole tree may have changed.
    pub(in crate::store::fs) everything: bool,
    /// The last event tells of a file that was renamed away, and not yet where it is.
    pub(in crate::store::fs) is_renaming: bool,
    /// Events were lost or named no path: whether a writer closed its file may be unknown.
    pub(in crate::store::fs) lost: bool,
    /// The files that others have opened, perhaps to write, or closed after that.
    pub(in crate::store::fs) opened: BTreeMap<PathBuf, Holders>,
    /// Whether there were more of those than are recorded.
    pub(in crate::store::fs) has_lost_opened: bool,
}

/// What events since the last scan tell of who has a file open.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::fs) struct Holders {
    /// How often it was opened, less how often a writer closed it.
    pub(in crate::store::fs) openings: i64,
    /// Whether it was opened.
    pub(in crate::store::fs) is_opened: bool,
    /// Whether it is another file than before: this tells of the present one alone.
    pub(in crate::store::fs) is_another: bool,
    /// The time of the last event.
    pub(in crate::store::fs) last: Instant,
}

impl Noted {
    /// A file was opened.
    pub(in crate::store::fs) fn note_opened(&mut self, path: PathBuf) {
        self.note_opening(path, |opened| (opened.openings, opened.is_opened) = (opened.openings + 1, true));
    }

    fn note_opening(&mut self, path: PathBuf, change: impl FnOnce(&mut Holders)) {
        let last = Instant::now();
        self.has_lost_opened |= self.opened.len() >= MAX_NOTED && !self.opened.contains_key(&path);
        if !self.has_lost_opened {
            let none = Holders { openings: 0, is_opened: false, is_another: false, last };
            let opened = self.opened.entry(path).or_insert(none);
            change(opened);
            opened.last = last;
        }
    }

    /// What an event tells of who has a file open.
    fn note_holders(&mut self, path: &Path, kind: EventKind) {
        let is_written_to_end = matches!(kind, EventKind::Access(AccessKind::Close(AccessMode::Write)));
        let is_another = matches!(kind, EventKind::Modify(ModifyKind::Name(_)) | EventKind::Remove(_));
        if !is_configuration(path) || !(is_written_to_end || is_another) {
            return;
        }
        self.note_opening(path.to_owned(), |opened| match is_another {
            true => (opened.openings, opened.is_another) = (0, true),
            false => opened.openings -= 1,
        });
    }

    pub(in crate::store::fs) fn note(&mut self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if !event.need_rescan() && !event.paths.is_empty() && self.paths.len() < MAX_NOTED => {
                let last = last_event(event.kind);
                self.is_renaming = event.kind == EventKind::Modify(ModifyKind::Name(RenameMode::From));
                let is_rename = event.kind == EventKind::Modify(ModifyKind::Name(RenameMode::Both));
                for (place, path) in event.paths.into_iter().enumerate() {
                    // The first path of a rename is the one that is gone.
                    let last = if is_rename && place == 0 { LastEvent::Gone } else { last };
                    self.note_holders(&path, event.kind);
                    let known = self.paths.entry(path).or_insert(last);
                    if last != LastEvent::Other {
                        *known = last;
                    }
                }
            }
            _ => (self.everything, self.lost) = (true, true),
        }
    }
}

fn last_event(kind: EventKind) -> LastEvent {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => LastEvent::Closed,
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => LastEvent::Gone,
        EventKind::Modify(ModifyKind::Data(_)) => LastEvent::Written,
        _ => LastEvent::Other,
    }
}
