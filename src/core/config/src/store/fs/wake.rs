//! What wakes the thread that reads a store.

use std::path::Path;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::watch::Noted;

/// Events and requests for the reading thread. Held locks are never held across I/O.
#[derive(Debug, Default)]
pub(super) struct Wake {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    noted: Noted,
    /// Something arrived since the last wait.
    signalled: bool,
    /// Changes are to be followed.
    follow: bool,
    stop: bool,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// Something arrived.
    Signalled,
    /// The deadline passed.
    TimedOut,
    /// The store was dropped.
    Stopped,
}

impl Wake {
    fn signal(&self, change: impl FnOnce(&mut Pending)) {
        let mut pending = self.pending.lock();
        change(&mut pending);
        pending.signalled = true;
        self.changed.notify_one();
    }

    /// Notes a file event.
    pub(super) fn note(&self, event: notify::Result<notify::Event>) {
        self.signal(|pending| pending.noted.note(event));
    }

    /// Notes that a file was opened, which alone is no reason to look.
    pub(super) fn opened(&self, path: &Path) {
        self.pending.lock().noted.note_opened(path.to_owned());
    }

    /// Whether the thread was asked to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.pending.lock().stop
    }

    /// Asks for a scan.
    pub(super) fn rescan(&self) {
        self.signal(|pending| pending.noted.everything = true);
    }

    /// Asks for changes to be followed from now on.
    pub(super) fn follow(&self) {
        if !self.pending.lock().follow {
            self.signal(|pending| pending.follow = true);
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.signal(|pending| pending.stop = true);
    }

    /// Whether changes are to be followed. If so, everything is read next, so that what arrived before wakes nobody.
    pub(super) fn begins_to_follow(&self) -> bool {
        let mut pending = self.pending.lock();
        pending.signalled &= !pending.follow;
        pending.follow
    }

    /// Whether there are events or requests that nobody took.
    pub(super) fn has_noted(&self) -> bool {
        let pending = self.pending.lock();
        pending.signalled || pending.noted.everything || !pending.noted.paths.is_empty()
    }

    /// The events since the last call.
    pub(super) fn take(&self) -> Noted {
        std::mem::take(&mut self.pending.lock().noted)
    }

    /// Waits until something arrives, at most until `deadline`.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Woken {
        let mut pending = self.pending.lock();
        loop {
            if pending.stop {
                return Woken::Stopped;
            }
            if std::mem::take(&mut pending.signalled) {
                return Woken::Signalled;
            }
            match deadline {
                None => self.changed.wait(&mut pending),
                Some(deadline) => {
                    if self.changed.wait_until(&mut pending, deadline).timed_out() && !pending.signalled {
                        return if pending.stop { Woken::Stopped } else { Woken::TimedOut };
                    }
                }
            }
        }
    }
}
