//! What a running server would make of files with errors, with `--config-on-error keep-last`: the resources that go on.
//!
//! The server decides over documents (`engine/src/runtime/resolution.rs`), of which a dump has the names, files and references only:
//! what is told here follows from those.

use std::collections::{BTreeMap, BTreeSet};

use mixer_config::store::StoreContents;
use mixer_config::{Diagnostic, Severity};
use mixer_engine::snapshot::{SnapshotBuilder, SnapshotDump, SnapshotOptions};

/// Shown for a resource whose new version has an error.
const HAS_ERROR: &str = "has an error: the server goes on with its version, or leaves the resource out with \
                         --config-on-error serve-valid, unless the error is a field that it does not know";

/// Shown for a resource that the files do not have, while a part of them cannot be read.
const MAY_BE_UNREAD: &str =
    "is not in what could be read: the server goes on with it, unless --config-on-error is serve-valid";

/// Shown for a resource that is gone, while a rule that is new has an error.
const MAY_BE_RENAMED: &str = "is gone, perhaps renamed, while a new rule has an error: the server goes on with it, \
                              unless --config-on-error is serve-valid";

/// Shown for a resource that is gone from a file in which another one has an error.
const IN_FAULTY_FILE: &str = "is gone from a file with an error: the server goes on with it, unless \
                              --config-on-error is serve-valid";

/// Shown for a handler or an instance that is gone and that a rule needs that goes on.
const IS_NEEDED: &str = "is gone, and a rule that goes on needs it: the server goes on with it, unless \
                         --config-on-error is serve-valid";

/// Shown for a resource of a file whose new rule has an error.
const FILE_WAITS: &str = "is in a file whose new rule has an error: the server goes on with its version, or serves the \
                          new one with --config-on-error serve-valid";

/// What is wrong with the files that are compared.
pub(crate) struct FileProblems {
    broken: Vec<Broken>,
    /// Whether a file, or a document of one, cannot be read, so that nothing counts as deleted.
    is_incomplete: bool,
}

/// A resource with an error.
struct Broken {
    /// Its full name.
    name: String,
    /// Its file.
    file: Option<String>,
    /// Whether it is a rule that may decide about requests: its file waits if the rule is new.
    decides: bool,
}

impl FileProblems {
    /// Those of a configuration with these problems.
    pub(crate) fn of(contents: &StoreContents, diagnostics: &[Diagnostic], options: SnapshotOptions) -> Self {
        let errors = diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
        let files: BTreeMap<&str, _> =
            errors.map(|problem| (problem.resource.as_str(), problem.file.as_deref())).collect();
        let deciding: BTreeSet<String> = match files.is_empty() {
            true => BTreeSet::new(),
            false => {
                let mut builder = SnapshotBuilder::new(options);
                drop(builder.build(contents));
                let rules = contents.resources.iter().filter(|resource| &*resource.key.kind == "rule");
                rules.filter(|rule| builder.may_enforce(rule)).map(|rule| rule.key.to_string()).collect()
            }
        };
        let broken = files.into_iter().map(|(name, file)| Broken {
            name: name.to_owned(),
            file: file.map(str::to_owned),
            decides: deciding.contains(name),
        });
        Self { broken: broken.collect(), is_incomplete: !contents.unread().is_empty() }
    }

    /// Whether there is no error.
    pub(super) fn is_empty(&self) -> bool {
        self.broken.is_empty()
    }
}

/// What goes on in a server whose dump is compared with that of files. Parts of dumps are `section name`.
pub(super) struct Outlook<'d> {
    problems: &'d FileProblems,
    /// The files of the server of which nothing is deleted.
    faulty: BTreeSet<&'d str>,
    /// The files that wait as a whole.
    waiting: BTreeSet<&'d str>,
    before: BTreeMap<String, &'d str>,
    after: BTreeMap<String, &'d str>,
    /// What is gone and rules need that go on.
    needed: BTreeSet<String>,
}

impl<'d> Outlook<'d> {
    /// `server` is what serves, `files` what is to serve.
    pub(super) fn of(server: &'d SnapshotDump, files: &'d SnapshotDump, problems: &'d FileProblems) -> Self {
        let (before, after) = (sources(server), sources(files));
        let is_known = |broken: &Broken| before.keys().any(|part| is_part_of(&broken.name, part));
        let (mut faulty, mut waiting) = (BTreeSet::new(), BTreeSet::new());
        for broken in &problems.broken {
            if broken.decides && !is_known(broken) {
                waiting.extend(broken.file.as_deref());
                continue;
            }
            faulty.extend(
                before.iter().filter(|(part, _)| is_part_of(&broken.name, part)).map(|(_, file)| *file),
            );
            let Some(now) = broken.file.as_deref() else { continue };
            faulty.insert(now);
            // The server may have the file in another directory: it is that of what else is in it.
            let beside = after.iter().filter(|(_, file)| **file == now);
            faulty.extend(beside.filter_map(|(part, _)| before.get(part)).copied());
        }
        let mut outlook = Self { problems, faulty, waiting, before, after, needed: BTreeSet::new() };
        let goes_on = server.rules.iter().filter(|rule| {
            let part = format!("rules {}", rule.name);
            outlook.note(&part, !outlook.after.contains_key(&part)).is_some()
        });
        let actions = goes_on.flat_map(|rule| &rule.actions);
        let needed = actions.flat_map(|action| {
            let instances = action.instances.iter().map(|instance| format!("instances {instance}"));
            std::iter::once(format!("handlers {}", action.handler)).chain(instances)
        });
        outlook.needed = needed.collect();
        outlook
    }

    /// Why a part that differs goes on as the server has it; `None` if it does not.
    pub(super) fn note(&self, part: &str, is_gone: bool) -> Option<&'static str> {
        if self.problems.broken.iter().any(|broken| is_part_of(&broken.name, part)) {
            return Some(HAS_ERROR);
        }
        let was_in = |files: &BTreeSet<&str>| self.before.get(part).is_some_and(|file| files.contains(file));
        let is_in = |files: &BTreeSet<&str>| self.after.get(part).is_some_and(|file| files.contains(file));
        match is_gone {
            true if self.problems.is_incomplete => Some(MAY_BE_UNREAD),
            true if !self.waiting.is_empty() => Some(MAY_BE_RENAMED),
            true if was_in(&self.faulty) => Some(IN_FAULTY_FILE),
            true if self.needed.contains(part) => Some(IS_NEEDED),
            true => None,
            false => (is_in(&self.waiting) || was_in(&self.waiting)).then_some(FILE_WAITS),
        }
    }
}

/// The file of each resource.
fn sources(dump: &SnapshotDump) -> BTreeMap<String, &str> {
    let mut sources = BTreeMap::new();
    for handler in &dump.handlers {
        sources.insert(format!("handlers {}", handler.name), handler.source.file.as_str());
    }
    for instance in &dump.instances {
        sources.insert(format!("instances {}", instance.name), instance.source.file.as_str());
    }
    for rule in &dump.rules {
        sources.insert(format!("rules {}", rule.name), rule.source.file.as_str());
    }
    for resource in dump.resources.iter().flatten() {
        sources.insert(format!("resources {}", resource.name), resource.source.file.as_str());
    }
    sources
}

/// Whether a resource, `name.kind.namespace`, is a part of a dump, `section name`.
pub(super) fn is_part_of(resource: &str, part: &str) -> bool {
    let Some((section, name)) = part.split_once(' ') else { return false };
    match section {
        // Handlers are shown without their kind, attributes without their manifest.
        "handlers" => resource == name || resource.replacen(".handler.", ".", 1) == name,
        "attributes" => resource.contains(".attributemanifest."),
        _ => resource == name,
    }
}
