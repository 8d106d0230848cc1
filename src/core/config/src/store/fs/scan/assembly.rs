//! The contents of all files together.

use std::path::Path;
use std::time::Instant;

use super::super::file::{PATIENCE, Why, broken_file};
use super::super::walk;
use super::Scanner;
use crate::store::contents::RESOURCE_DUPLICATE;
use crate::store::{FileContents, StoreContents};

impl Scanner {
    /// The contents of all files.
    pub(super) fn assemble(&self, now: Instant) -> StoreContents {
        let vanished = |path: &Path| {
            self.unsettled.get(path).is_some_and(|u| u.why == Why::Vanished)
                || self.replaced.iter().any(|replaced| path.starts_with(replaced))
        };
        let files = self.files.iter().map(|(path, file)| (vanished(path), &*file.contents));
        let files: Vec<(bool, &FileContents)> = files.collect();
        let mut contents = StoreContents::default();
        contents.add(files.iter().filter(|(vanished, _)| !vanished).map(|(_, file)| *file));
        // What a removed or replaced file defined may be in another file already.
        for (_, file) in files.iter().filter(|(vanished, _)| *vanished) {
            contents.add_undefined(file);
        }
        self.relist(&mut contents, now);
        contents
    }

    /// Replaces the lists of problems, of broken parts and of files that are being changed, but not the problems of duplicates.
    pub(super) fn relist(&self, contents: &mut StoreContents, now: Instant) {
        let faulty = || self.faulty.iter().filter_map(|path| self.files.get(path));
        let files = || faulty().map(|file| &*file.contents);
        #[cfg(test)]
        self.spend(|effort| effort.listed += files().count());
        contents
            .diagnostics
            .retain(|problem| [RESOURCE_DUPLICATE, walk::FILE_IGNORED].contains(&problem.code));
        contents.diagnostics.splice(0..0, files().flat_map(|file| file.diagnostics.iter().cloned()));
        contents.broken = files().flat_map(|file| file.broken.iter().cloned()).collect();
        contents.changing.clear();
        // Where files come and go without end, one after the other is missing: what waits for them waits no longer than for one of them.
        let is_past = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let awaits_missing = !self.missing_since.is_some_and(is_past);
        for (path, unsettled) in &self.unsettled {
            let known = self.files.contains_key(path);
            if unsettled.why == Why::Vanished && !awaits_missing {
                continue;
            }
            if known {
                contents.changing.push(path.display().to_string().into());
                if unsettled.why == Why::Vanished || !unsettled.is_overdue(now) {
                    continue;
                }
            }
            let problem = unsettled.problem(path, known);
            if !known {
                contents.broken.push(broken_file(path, problem.clone(), false));
            }
            contents.diagnostics.push(problem);
        }
        contents.bound_broken(&self.root);
    }
}
