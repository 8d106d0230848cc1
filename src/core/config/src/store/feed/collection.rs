//! A collection of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::unknown::{too_much, unknown};
use super::{Broken, ReadObject};

/// Objects of a collection for which there is no room that are listed one by one. With more, all of the collection is unknown.
pub(super) const MAX_LISTED: usize = 100;

#[derive(Default)]
pub(super) struct Collection {
    pub(super) objects: BTreeMap<Box<str>, ReadObject>,
    /// The names of those that cannot be read.
    pub(super) broken: BTreeSet<Box<str>>,
    /// [Size](super::object_size) of all.
    pub(super) bytes: usize,
    /// Objects for which there is no room, among them.
    pub(super) no_room: usize,
    /// Whether there were more of those than are listed, since everything was told.
    pub(super) has_left_out: bool,
    pub(super) version: Arc<str>,
    pub(super) is_synced: bool,
    /// Why it is unknown what it has now, although its last objects stay.
    pub(super) trouble: Option<Arc<str>>,
    /// Whether the contents say that it is unknown.
    pub(super) is_told: bool,
    /// Whether it had no object since its server was connected, of which that may be a loss.
    pub(super) awaits_objects: bool,
    /// Whether the contents say so.
    pub(super) is_told_to_await: bool,
    /// Whether it lost objects while it awaited some: its server had them before it was connected.
    pub(super) has_lapsed: bool,
    pub(super) last_message: Option<std::time::Instant>,
}

impl Collection {
    /// Whether it is known to be empty, and was since its server was connected.
    pub(super) fn is_always_empty(&self) -> bool {
        self.awaits_objects && self.is_synced && self.trouble.is_none() && self.objects.is_empty()
    }

    /// What is unknown of it. `origin`: its name.
    pub(super) fn unknown(&self, origin: impl FnOnce() -> Arc<str>, max_bytes: usize) -> Option<Broken> {
        let full = || format!("more than {MAX_LISTED} of its objects are not read: {}", too_much(max_bytes));
        let why: &str = match &self.trouble {
            None if self.has_left_out => &full(),
            None if self.is_synced => return None,
            None => "it is not received yet",
            Some(why) => why,
        };
        Some(unknown(origin(), why, self.is_synced))
    }
}
