//! What of the store is out of sight, and what serves on because of it.

use std::path::Path;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::{Resolution, decides};
use crate::runtime::absences::{Absences, HeldFiles, has_effect};
use crate::runtime::faults::{DUPLICATE, ambiguity};
use crate::runtime::kept::{CommonCause, Reason};
use crate::runtime::last_good::OnConfigError;
use crate::runtime::withheld::{EMPTY_SERVER, Withheld, empty};
use crate::snapshot::{SnapshotBuilder, UNUSED_DEFAULT_NAMESPACE};
use mixer_config::store::Unread;
use mixer_config::store::refill::{Cause, LIMIT, QUIET};
use mixer_config::{Diagnostic, FieldPath, RawResource, ResourceKey, Severity};

/// The code of a directory on which a volume may be missing.
pub(super) const UNMOUNTED: &str = "store-unmounted";

impl Resolution<'_> {
    /// Keeps what is missing because something could not be read.
    pub(super) fn keep_unread(&mut self, builder: &SnapshotBuilder) {
        self.unread = builder.unread(&self.corrections.read);
        self.unread.extend(self.unmounted());
        let has_effect = |resource: &Arc<RawResource>| has_effect(&resource.key, builder);
        let has_none = !self.corrections.read.resources.iter().any(has_effect);
        self.empty = has_none && !self.corrections.last.allow_empty;
        // A store of which nothing could be read has no say in what is deleted, even if it may be empty.
        let is_silent = has_none && self.corrections.read.unavailable.is_some();
        if (self.empty || is_silent) && self.corrections.last.resources().is_some() {
            if let Some(cause) = self.flaw() {
                self.is_void = true;
                self.restore_whole(cause, builder);
            }
        } else if let Some(cause) = self.why_lost().filter(|_| self.corrections.last.resources().is_some()) {
            // Nothing new was read. What waits for something that is missing goes on waiting.
            self.is_void = true;
            self.restore_whole(cause, builder);
        } else {
            self.keep_out_of_sight(builder);
            self.keep_missing(builder);
        }
    }

    /// Keeps what files had before that cannot be read now: what was read of them last, and did not serve for whatever reason, does not
    /// serve either, as after a restart.
    fn keep_out_of_sight(&mut self, builder: &SnapshotBuilder) {
        let (last, read) = (self.corrections.last, Arc::clone(&self.corrections.read));
        let Some(good) = last.resources() else { return };
        let broken = read.broken.iter().filter(|broken| broken.keeps_last);
        let broken = broken.map(|broken| (&broken.file, broken.problem.one_line()));
        let changing = read.changing.iter().map(|file| (file, format!("{file} is being changed")));
        let files: HashMap<&Path, CommonCause> = broken
            .chain(changing)
            .map(|(file, why)| {
                (Path::new(&**file), CommonCause { text: why.into(), file: Some(Arc::clone(file)) })
            })
            .collect();
        if files.is_empty() {
            return;
        }
        for (old, new) in good.changes(&read.resources, |a, b| a.revision == b.revision) {
            let Some(new) = new.filter(|new| has_effect(&new.key, builder)) else { continue };
            let unseen = Path::new(&*new.origin.file).ancestors().find_map(|path| files.get(path));
            if let Some(cause) = unseen {
                let why = format!("its file cannot be read: {}", cause.text);
                let reason = Reason { why, common: Some(cause.clone()), problem: None };
                self.corrections.insert(new.key.clone(), old.cloned(), reason);
            }
        }
    }

    /// The directories that have been empty, or without configuration, since the start, of which the last good configuration, and so a cache, has resources that are
    /// nowhere else: a volume may not be mounted there yet. So are collections that have been empty since their source was connected, unless
    /// an empty configuration is meant.
    fn unmounted(&self) -> Vec<Unread> {
        let (read, last) = (&self.corrections.read, self.corrections.last);
        let Some(good) = last.resources() else { return Vec::new() };
        if read.is_of_server && last.accepts_empty() {
            return Vec::new();
        }
        let all = || read.always_empty.iter().chain(&read.always_bare);
        let paths: HashSet<&Path> = all().map(|directory| Path::new(&**directory)).collect();
        if paths.is_empty() {
            return Vec::new();
        }
        // There may be many directories, such as those of `.git`, and most resources are not missing.
        let changes = good.changes(&read.resources, |a, b| a.revision == b.revision);
        let missing = changes.iter().filter_map(|(old, new)| old.filter(|_| new.is_none()));
        let above = missing.flat_map(|missing| Path::new(&*missing.origin.file).ancestors());
        let of_missing: HashSet<&Path> = above.filter(|path| paths.contains(path)).collect();
        let unread = |directory: &Arc<str>| {
            let is_empty = read.always_empty.contains(directory);
            let state = if is_empty { "is empty" } else { "has no configuration" };
            let (text, hint) = match read.is_of_server {
                false => (
                    format!(
                        "{directory} {state} since the start, and the last good configuration has resources of it: a volume may not be \
                         mounted"
                    ),
                    "mount the volume; if its files were deleted, remove the directory",
                ),
                true => (
                    format!(
                        "{directory} is empty since the source was connected, and the last good configuration has resources of it: the \
                         source may not have read them yet"
                    ),
                    "see what the source has read; if all of it was deleted, make one resource of this collection and delete it, or start \
                     this server with --allow-empty-config",
                ),
            };
            let mut problem = Diagnostic::error(UNMOUNTED, FieldPath::root(), text).with_hint(hint);
            problem.file = Some(Arc::clone(directory));
            Unread::by(&problem, directory)
        };
        all().filter(|directory| of_missing.contains(Path::new(&***directory))).map(unread).collect()
    }

    /// Why the directory with everything that the store has cannot be read, if that is so.
    fn why_lost(&self) -> Option<Withheld> {
        let resources = &self.corrections.read.resources;
        let covers = |unread: &&Unread| {
            let mut files = resources.iter().map(|resource| &resource.origin.file);
            files.all(|file| **file != *unread.path && unread.covers(file))
        };
        let lost = self.unread.iter().find(covers).filter(|_| !resources.is_empty())?;
        Some(Withheld::by(&Arc::new(lost.problem.clone())))
    }

    /// [`keep_missing`](Self::keep_missing), if there are new reasons for it since the last time. Asked once for many resources: each time
    /// costs a pass over the configuration.
    pub(super) fn keep_missing_if_due(&mut self, builder: &SnapshotBuilder) {
        if std::mem::take(&mut self.may_miss_more) {
            self.keep_missing(builder);
        }
    }

    /// Keeps what is missing and was not deleted, as far as anybody can tell.
    fn keep_missing(&mut self, builder: &SnapshotBuilder) {
        let Some(good) = self.corrections.last.resources() else { return };
        let changes = good.changes(&self.corrections.read.resources, |a, b| a.revision == b.revision);
        let is_missing = |key: &ResourceKey| self.corrections.get(key).is_none();
        let missing = changes.iter().filter_map(|(old, new)| old.filter(|_| new.is_none()));
        let missing: Vec<_> = missing.filter(|old| is_missing(&old.key)).collect();
        if missing.is_empty() {
            return;
        }
        let read = &self.corrections.read;
        let absences = Absences::new(read, &self.unread, &self.held, &self.faulty, self.expected, builder);
        let kept = missing.into_iter();
        let kept = kept.filter_map(|old| Some((Arc::clone(old), absences.why_kept(old, builder)?)));
        let kept: Vec<_> = kept.collect();
        if self.unseen.is_none() {
            self.unseen = why_unknown(&kept, &self.held);
        }
        for (old, reason) in kept {
            self.corrections.insert(old.key.clone(), Some(old), reason);
        }
    }

    /// What is wrong with the store as a whole.
    pub(super) fn flaw(&self) -> Option<Withheld> {
        if let Some(mismatch) = self.corrections.last.mismatch() {
            return Some(Withheld::by(mismatch));
        }
        if let Some(unread) = self.unread.first() {
            return Some(Withheld::by(&Arc::new(unread.problem.clone())));
        }
        if let Some(why) = &self.corrections.read.unavailable {
            return Some(Withheld { why: why.clone(), problem: None });
        }
        let last = self.corrections.last;
        if last.policy != OnConfigError::ServeValid
            && last.resources().is_none()
            && self.expected.is_some()
            && !self.empty
        {
            let (quiet, limit) = (QUIET.as_secs(), LIMIT.as_secs());
            let what = match self.expected {
                Some(cause @ Cause::Reconnected) => cause.text(),
                // A first reading that took long has said as little as an empty directory.
                _ => "the configuration was empty or not read yet, and may still be being filled",
            };
            let why = format!("{what}: it serves when nothing has changed for {quiet} s, or after {limit} s");
            return Some(Withheld { why, problem: None });
        }
        if self.empty {
            let why = match self.corrections.read.is_of_server {
                true => EMPTY_SERVER.to_owned(),
                false => empty(),
            };
            return Some(Withheld { why, problem: None });
        }
        let mut found = self.found.diagnostics.iter();
        let unused = found
            .find(|problem| problem.code == UNUSED_DEFAULT_NAMESPACE && problem.severity == Severity::Error);
        unused.map(|problem| Withheld::by(&Arc::new(problem.clone())))
    }

    /// Keeps what is missing from files with an error, if there are more than `known` of them.
    pub(super) fn keep_of_faulty_files(&mut self, known: usize, builder: &SnapshotBuilder) {
        self.may_miss_more |= self.faulty.len() > known;
        if !self.is_whole {
            self.keep_missing_if_due(builder);
        }
    }

    /// Serves a file in its previous version as a whole, because a new resource of the file that decides about requests has an error:
    /// that resource may be an old one with another name, or a part of it.
    pub(super) fn hold_file_of(&mut self, key: &ResourceKey, reason: &Reason, builder: &SnapshotBuilder) {
        let (last, read) = (self.corrections.last, Arc::clone(&self.corrections.read));
        let (Some(good), Some(broken)) = (last.resources(), read.resources.get(key)) else {
            return;
        };
        let file = &broken.origin.file;
        if self.held.contains_key(file) || !decides(broken, builder) {
            return;
        }
        let error = reason.problem.as_ref().map_or_else(|| reason.why.clone(), |problem| problem.one_line());
        let what = match &reason.problem {
            Some(problem) if problem.resource == key.to_string() => {
                format!("has {key}, which is new and has an error: {error}")
            }
            _ => format!("has {key}, which is new and does not serve: {}", reason.why),
        };
        let cause = CommonCause { text: format!("{file} {what}").into(), file: Some(Arc::clone(file)) };
        let why = format!("its file {what}");
        let reason = Reason { why, common: Some(cause.clone()), problem: None };
        for (old, new) in good.changes(&read.resources, |a, b| a.revision == b.revision) {
            let Some(new) = new.filter(|new| has_effect(&new.key, builder)) else {
                continue;
            };
            let is_of_file = new.origin.file == *file || old.is_some_and(|old| old.origin.file == *file);
            if is_of_file && self.corrections.get(&new.key).is_none() {
                self.corrections.insert(new.key.clone(), old.cloned(), reason.clone());
            }
        }
        self.held.insert(Arc::clone(file), cause);
        self.may_miss_more = true;
    }

    /// Counts a resource of which nobody knows what it was meant to be as one that cannot be read: it may be any that is missing. One
    /// that has a previous version is known, unless there are two of it.
    pub(super) fn keep_what_may_be(&mut self, key: &ResourceKey) {
        let read = Arc::clone(&self.corrections.read);
        let Some(resource) = read.resources.get(key) else { return };
        let is_known = self.corrections.last.get(key).is_some();
        let problems = self.found.problems_of(key);
        let problems = problems.filter(|problem| !is_known || problem.code == DUPLICATE);
        let Some(problem) = ambiguity(resource, problems) else { return };
        let (path, text) = (Arc::clone(&resource.origin.file), Arc::clone(&resource.origin.text));
        self.unread.push(Unread { path, text, why: problem.brief(), problem: problem.clone() });
        self.may_miss_more = true;
    }

    /// Why something is not read, if that is so.
    pub(super) fn out_of_sight(&self) -> Option<CommonCause> {
        let unread = self.unread.first();
        let unread = unread.map(|unread| (unread.why.clone(), Some(Arc::clone(&unread.path))));
        let changing = self.corrections.read.changing.first();
        let changing = || changing.map(|file| (format!("{file} is being changed"), Some(Arc::clone(file))));
        let cause = unread.or_else(changing).map(|(text, file)| CommonCause { text: text.into(), file });
        cause.or_else(|| self.unseen.clone())
    }
}

/// Why nobody knows what some of these kept resources are to do, which are missing. What a file has that serves in its previous version
/// as a whole is known.
fn why_unknown(kept: &[(Arc<RawResource>, Reason)], held: &HeldFiles) -> Option<CommonCause> {
    let held: HashSet<&CommonCause> = held.values().collect();
    let is_unknown = |cause: &CommonCause| !held.contains(cause);
    let (old, reason) = kept.iter().find(|(_, reason)| reason.common.as_ref().is_none_or(is_unknown))?;
    let own = || CommonCause {
        text: format!("{}: {}", old.key, reason.why).into(),
        file: Some(Arc::clone(&old.origin.file)),
    };
    Some(reason.common.clone().unwrap_or_else(own))
}
