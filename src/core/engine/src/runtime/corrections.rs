//! What replaces resources of the store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::absences::{because_of, has_effect};
use super::kept::{CommonCause, Place, Reason};
use super::last_good::{KeptReasons, LastGood, Resources};
use super::withheld::Withheld;
use crate::snapshot::{BuildStage, SnapshotBuilder};
use foldhash::{HashMap, HashSet};

use mixer_base::shared_map::SharedMap;
use mixer_config::store::{StoreContents, Unread};
use mixer_config::{Diagnostics, RawResource, ResourceKey};

/// What replaces a resource of the store.
#[derive(Debug)]
pub(super) struct Override {
    /// `None`: it is left out.
    by: Option<Arc<RawResource>>,
    pub(super) reason: Reason,
    /// The pass that replaced it.
    pub(super) pass: u32,
}

/// A version of the store with the resources that replace some of its own.
#[derive(Debug)]
pub(super) struct Corrections<'l> {
    pub(super) last: &'l LastGood,
    pub(super) read: Arc<StoreContents>,
    overrides: BTreeMap<ResourceKey, Override>,
    /// The number of the present pass.
    pub(super) pass: u32,
}

impl<'l> Corrections<'l> {
    /// None yet.
    pub(super) fn new(last: &'l LastGood, read: &Arc<StoreContents>) -> Self {
        Self { last, read: Arc::clone(read), overrides: BTreeMap::new(), pass: 0 }
    }

    /// The resources to build.
    pub(super) fn resources(&self) -> Resources {
        let mut resources = self.read.resources.clone();
        for (key, replacement) in &self.overrides {
            match &replacement.by {
                Some(by) => drop(resources.put(Arc::clone(by))),
                None => drop(resources.remove(key)),
            }
        }
        resources
    }

    /// The problems that the store found, without those of replaced resources.
    pub(super) fn diagnostics(&self) -> Diagnostics {
        let replaced: HashSet<String> = self.overrides.keys().map(ResourceKey::to_string).collect();
        let problems = self.read.diagnostics.iter();
        problems.filter(|problem| !replaced.contains(&problem.resource)).cloned().collect()
    }

    /// Replaces a resource; `by` nothing: leaves it out.
    pub(super) fn insert(&mut self, key: ResourceKey, by: Option<Arc<RawResource>>, reason: Reason) {
        self.overrides.insert(key, Override { by, reason, pass: self.pass });
    }

    /// Takes a replacement back.
    pub(super) fn remove(&mut self, key: &ResourceKey) {
        self.overrides.remove(key);
    }

    /// What replaces a resource, if anything does.
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Override> {
        self.overrides.get(key)
    }

    /// Whether a resource is built, in whichever version.
    pub(super) fn is_built(&self, key: &ResourceKey) -> bool {
        self.get(key).map_or_else(|| self.read.resources.contains_key(key), |o| o.by.is_some())
    }

    /// Whether a resource serves in its last good version: as it was read, or in place of that.
    pub(super) fn serves_as_before(&self, key: &ResourceKey) -> bool {
        match self.get(key) {
            Some(replaced) => replaced.by.is_some(),
            None => self.last.get(key).is_some() && !self.last.differs(key, self.read.resources.get(key)),
        }
    }

    /// The resources with a full name, `name.kind.namespace`: each part may have dots.
    pub(super) fn keys_of(&self, full_name: &str, builder: &SnapshotBuilder) -> Vec<ResourceKey> {
        let keys = ResourceKey::of_full_name(full_name).filter(|key| {
            let is_known = self.read.resources.contains_key(key) || self.last.get(key).is_some();
            is_known && has_effect(key, builder)
        });
        keys.collect()
    }

    /// The resources of these steps that differ from their last good version.
    pub(super) fn of_stages(&self, stages: &[BuildStage], builder: &SnapshotBuilder) -> Vec<ResourceKey> {
        let none = SharedMap::default();
        let good = self.last.resources().unwrap_or(&none);
        let changes = good.changes(&self.read.resources, |a, b| a.revision == b.revision);
        let keys = changes.into_iter().filter_map(|(old, new)| Some(new.or(old)?.key.clone()));
        keys.filter(|key| stages.contains(&builder.stage_of(&key.kind))).collect()
    }

    /// The resources that differ from their last good version, if one of them serves as it was read.
    pub(super) fn changes_that_serve(&self, builder: &SnapshotBuilder) -> Option<Vec<ResourceKey>> {
        self.last.resources()?;
        let all = [BuildStage::Vocabulary, BuildStage::Parts, BuildStage::Rules, BuildStage::Extensions];
        let changed = self.of_stages(&all, builder);
        changed.iter().any(|key| self.serves_as_read(key, builder)).then_some(changed)
    }

    /// Whether a resource that differs from its last good version refuses only what it is to refuse from now on: nothing replaces it, or
    /// it [is released](Self::is_released).
    pub(super) fn serves_as_read(&self, key: &ResourceKey, builder: &SnapshotBuilder) -> bool {
        self.get(key).is_none() || self.is_released(key, builder)
    }

    /// Whether a rule is left out in dry run, of which the last good version is enforced. What that refused passes now, as written.
    pub(super) fn is_released(&self, key: &ResourceKey, builder: &SnapshotBuilder) -> bool {
        self.get(key).is_some_and(|replaced| replaced.by.is_none())
            && self.read.resources.contains_key(key)
            && self.last.get(key).is_some_and(|good| builder.may_enforce(good))
    }

    /// The resources that serve in their last good version: those that replace what was read, or what is missing, and those of a file of
    /// which the present contents are unknown.
    pub(super) fn previous(&self, builder: &SnapshotBuilder) -> Vec<(ResourceKey, Reason)> {
        let kept = self.overrides.iter().filter(|(_, replaced)| replaced.by.is_some());
        let back = kept.filter(|(key, _)| self.last.differs(key, self.read.resources.get(key)));
        let back = back.map(|(key, replaced)| (key.clone(), replaced.reason.clone()));
        let held = self.held_by_store(builder).into_iter().map(|(key, (reason, _))| (key, reason));
        back.chain(held).chain(self.changing(builder)).collect()
    }

    /// The resources of which the present version is unknown, of those that serve in their last good one.
    pub(super) fn unknown(&self, previous: &[(ResourceKey, Reason)]) -> HashSet<ResourceKey> {
        let held = self.read.broken.iter().filter(|broken| broken.keeps_last).map(|broken| &broken.file);
        let files: HashSet<&Path> = held.chain(&self.read.changing).map(|file| Path::new(&**file)).collect();
        let is_unread = |file: &str| Path::new(file).ancestors().any(|path| files.contains(path));
        let is_unknown = |key: &&ResourceKey| {
            let read = self.read.resources.get(key);
            read.is_none_or(|read| self.get(key).is_none() || is_unread(&read.origin.file))
        };
        previous.iter().map(|(key, _)| key).filter(is_unknown).cloned().collect()
    }

    /// The resources of files that are being changed, unless something replaces them.
    fn changing(&self, builder: &SnapshotBuilder) -> Vec<(ResourceKey, Reason)> {
        let files: HashSet<&str> = self.read.changing.iter().map(|file| &**file).collect();
        if files.is_empty() {
            return Vec::new();
        }
        let resources = self.read.resources.iter().filter(|resource| files.contains(&*resource.origin.file));
        let own = resources
            .filter(|resource| has_effect(&resource.key, builder) && self.get(&resource.key).is_none());
        let reason = |resource: &Arc<RawResource>| {
            let why = format!("its file {} is being changed", resource.origin.file);
            (resource.key.clone(), Reason::new(why, None))
        };
        own.map(reason).collect()
    }

    /// The replaced resource because of which another one has an error: one that it names, or a manifest.
    pub(super) fn culprit(
        &self,
        key: &ResourceKey,
        builder: &SnapshotBuilder,
    ) -> Option<(&ResourceKey, &Override)> {
        let names = builder.references_of(key);
        let mut named = names.iter().flat_map(|name| self.keys_of(name, builder));
        named.find_map(|key| self.overrides.get_key_value(&key)).or_else(|| {
            let is_manifest = |key: &ResourceKey| builder.stage_of(&key.kind) == BuildStage::Vocabulary;
            self.overrides.iter().find(|(key, _)| is_manifest(key))
        })
    }

    /// New resources that are left out.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (&Arc<RawResource>, &Reason)> {
        let left_out = self.overrides.iter().filter(|(_, replacement)| replacement.by.is_none());
        left_out.filter_map(|(key, replacement)| Some((self.read.resources.get(key)?, &replacement.reason)))
    }

    /// The resources that serve in their previous version.
    pub(super) fn kept(&self) -> KeptReasons {
        let kept = self.overrides.iter().filter_map(|(key, Override { by, reason, .. })| {
            let place = self.place_of(key, by.as_ref()?, reason);
            Some((key.clone(), (reason.clone(), place)))
        });
        kept.collect()
    }

    /// The resources that the store still has although their file or directory cannot be read now, unless something replaces them.
    pub(super) fn held_by_store(&self, builder: &SnapshotBuilder) -> KeptReasons {
        let held = self.read.broken.iter().filter(|broken| broken.keeps_last);
        let held = held.map(|broken| (Path::new(&*broken.file), Unread::by(&broken.problem, &broken.file)));
        let held: HashMap<&Path, Unread> = held.collect();
        if held.is_empty() {
            return KeptReasons::new();
        }
        let kept = self.read.resources.iter().filter_map(|resource| {
            let RawResource { key, origin, .. } = &**resource;
            let unread = Path::new(&*origin.file).ancestors().find_map(|path| held.get(path))?;
            let is_concerned = has_effect(key, builder) && self.get(key).is_none();
            is_concerned
                .then(|| (key.clone(), (because_of(unread, "its file cannot be read"), Place::of(origin))))
        });
        kept.collect()
    }

    /// Why the store is not complete yet, if a file is in the middle of a change.
    pub(super) fn unsettled(&self) -> Option<Withheld> {
        let file = self.last.resources().and_then(|_| self.read.unsettled())?;
        Some(Withheld { why: format!("{file} is being changed"), problem: None })
    }

    /// What serves in its previous version if what serves stays as it is.
    pub(super) fn untouched(&self, cause: &Withheld) -> KeptReasons {
        let why = format!("the configuration is not applied: {}", cause.why);
        let file = cause.problem.as_ref().and_then(|problem| problem.file.clone());
        let common = Some(CommonCause { text: why.as_str().into(), file });
        let reason = Reason { why, common, problem: cause.problem.clone() };
        let none = SharedMap::default();
        let changes = self
            .last
            .resources()
            .unwrap_or(&none)
            .changes(&self.read.resources, |a, b| a.revision == b.revision);
        let changed = changes.into_iter().filter_map(|(old, _)| old);
        let broken = self.overrides.keys().filter_map(|key| self.last.get(key));
        let kept = changed.chain(broken).map(|old| {
            let place = self.place_of(&old.key, old, &reason);
            (old.key.clone(), (reason.clone(), place))
        });
        kept.collect()
    }

    /// Where to mend a resource that serves in its previous version: at its error, else where it is or was.
    fn place_of(&self, key: &ResourceKey, previous: &RawResource, reason: &Reason) -> Place {
        let own = reason.problem.as_ref().filter(|problem| problem.resource == key.to_string());
        own.and_then(|problem| Place::of_problem(problem)).unwrap_or_else(|| {
            let now = self.read.resources.get(key).map(|resource| &resource.origin);
            Place::of(now.unwrap_or(&previous.origin))
        })
    }
}
