//! What serves when the configuration has errors: the last good version of every resource that has one.
//!
//! [`LastGood`] holds the resources that the published configuration was built from. [`Resolution`] is one version of the store on
//! its way to publication: it builds, replaces every resource with an error by its last good version, restores what a kept resource
//! needs, and repeats until nothing has an error. Each correction is one resource, earlier steps of the build first, so that the
//! cause is corrected and not its consequences. If that does not suffice, the whole last good configuration is restored; what
//! fails even then is left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::absences::{Absences, Held, has_effect};
use crate::snapshot::{BuildStage, RuleConfig, Snapshot, SnapshotBuilder, SnapshotCounts};
use mixer_attribute::Timestamp;
use mixer_base::shared_map::SharedMap;
use mixer_config::store::{StoreContents, Unread};
use mixer_config::{Diagnostic, Diagnostics, FieldPath, RawResource, ResourceKey, Severity};

/// What serves when the configuration has errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConfigError {
    /// Resources with errors go on in their last good version, together with what that needs. Without a last good configuration no
    /// call is answered if the error concerns what decides about requests.
    #[default]
    KeepLast,
    /// What is valid serves, and the rest is left out, as in Istio Mixer.
    ServeValid,
    /// Any error keeps the whole last good configuration.
    Refuse,
}

impl OnConfigError {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::KeepLast, Self::ServeValid, Self::Refuse];

    /// The value of `--config-on-error`.
    pub fn name(self) -> &'static str {
        match self {
            Self::KeepLast => "keep-last",
            Self::ServeValid => "serve-valid",
            Self::Refuse => "refuse",
        }
    }

    /// The policy with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// A resource that serves in its previous version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptResource {
    /// Its key.
    pub key: ResourceKey,
    /// Since when the previous version serves instead of what the store has.
    pub since: Timestamp,
    /// Why; one line.
    pub why: String,
}

/// Warnings about a setting that is then ignored: an error of what decides about requests, and of what had the setting before.
const LOST_SETTINGS: &[&str] = &["on-error-unknown", "annotation-unknown"];
/// Errors that have another error as their cause.
const CONSEQUENCES: &[&str] = &["rule-empty", "action-empty"];
/// The warning about an action that no built-in adapter can perform.
const NOT_PERFORMED: &str = "out-of-process";
/// The diagnostic of a resource that serves in its previous version.
pub(super) const KEPT: &str = "config-kept";
/// The diagnostic of a configuration that is not served.
pub(super) const WITHHELD: &str = "config-withheld";

/// The resources of a configuration.
pub(super) type Resources = SharedMap<Arc<RawResource>>;

/// The last good configuration.
#[derive(Debug, Default)]
pub(super) struct LastGood {
    pub(super) policy: OnConfigError,
    /// Whether a configuration without resources is meant.
    pub(super) allow_empty: bool,
    /// The resources of the published configuration; `None` before the first.
    good: Option<Resources>,
    kept: Vec<KeptResource>,
    /// When a configuration from a cache was written: since then, at the latest, it serves.
    restored: Option<Timestamp>,
}

impl LastGood {
    pub(super) fn new(policy: OnConfigError, allow_empty: bool) -> Self {
        Self { policy, allow_empty, ..Self::default() }
    }

    /// Whether there is none yet.
    pub(super) fn is_new(&self) -> bool {
        self.good.is_none()
    }

    /// Starts with a configuration that an earlier process published at `written`.
    pub(super) fn restore(&mut self, resources: Resources, written: Timestamp) {
        self.good = Some(resources);
        self.restored = Some(written);
    }

    /// Follows resources that moved to other files, unchanged: what is known of their files decides whether they are deleted later.
    pub(super) fn relocate(&mut self, read: &Resources) {
        let Some(good) = &self.good else { return };
        let moved = good.changes(read, Arc::ptr_eq).into_iter().filter_map(|(old, new)| {
            let (old, new) = (old?, new?);
            (old.revision == new.revision).then(|| Arc::clone(new))
        });
        let moved: Vec<_> = moved.collect();
        if let Some(good) = &mut self.good {
            moved.into_iter().for_each(|resource| drop(good.put(resource)));
        }
    }

    /// Records a publication. Returns the resources that serve in their previous version.
    pub(super) fn publish(&mut self, served: Resources, kept: BTreeMap<ResourceKey, String>, now: Timestamp) {
        let since = self.restored.take().unwrap_or(now);
        let before = std::mem::take(&mut self.kept);
        let kept = kept.into_iter().map(|(key, why)| {
            let known = before.iter().find(|kept| kept.key == key);
            KeptResource { since: known.map_or(since, |kept| kept.since), key, why }
        });
        self.kept = kept.collect();
        self.good = Some(served);
    }

    /// The resources that serve in their previous version, by key.
    pub(super) fn kept(&self) -> &[KeptResource] {
        &self.kept
    }

    fn get(&self, key: &ResourceKey) -> Option<&Arc<RawResource>> {
        self.good.as_ref()?.get(key)
    }

    /// Whether the last good configuration has another version of a resource, or none.
    fn differs(&self, key: &ResourceKey, from: Option<&Arc<RawResource>>) -> bool {
        self.get(key).map(|good| good.revision) != from.map(|resource| resource.revision)
    }

    /// Begins with a version of the store. `read` has its resources and diagnostics.
    pub(super) fn resolve(&self, read: &Arc<StoreContents>, builder: &mut SnapshotBuilder) -> Resolution<'_> {
        let mut resolution = Resolution {
            last: self,
            read: Arc::clone(read),
            overrides: BTreeMap::new(),
            pass: 0,
            whole: None,
            unread: Vec::new(),
            held: BTreeMap::new(),
            empty: false,
            snapshot: builder.empty(),
            found: Found::default(),
        };
        if self.policy != OnConfigError::ServeValid {
            resolution.keep_unread(builder);
        }
        let resources = resolution.resources();
        resolution.snapshot = builder.build(&StoreContents {
            resources,
            diagnostics: read.diagnostics.clone(),
            ..StoreContents::default()
        });
        let diagnostics = resolution.snapshot.diagnostics.clone();
        let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error);
        let noted = errors.map(|d| (d.resource.clone(), d.file.clone())).collect();
        let counts = resolution.snapshot.counts;
        resolution.found = Found { counts, diagnostics, noted, refused: Vec::new() };
        resolution
    }
}

/// What replaces a resource of the store.
#[derive(Debug)]
struct Override {
    /// `None`: it is left out.
    by: Option<Arc<RawResource>>,
    why: String,
    /// The pass that replaced it.
    pass: u32,
}

/// What the first build found, which equals what `validate` finds, and what later passes added.
#[derive(Debug, Default)]
struct Found {
    counts: SnapshotCounts,
    diagnostics: Diagnostics,
    /// Resource and file of every error.
    noted: FxHashSet<(String, Option<Arc<str>>)>,
    /// Resources that were left out although they might decide about requests, with the reason.
    refused: Vec<String>,
}

/// One version of the store on its way to publication.
#[derive(Debug)]
pub(super) struct Resolution<'l> {
    last: &'l LastGood,
    read: Arc<StoreContents>,
    overrides: BTreeMap<ResourceKey, Override>,
    pass: u32,
    /// Why the last good configuration serves as a whole, if it does.
    whole: Option<String>,
    /// What the store could not read.
    unread: Vec<Unread>,
    /// Files that serve in their previous version as a whole.
    held: BTreeMap<Arc<str>, Held>,
    empty: bool,
    snapshot: Arc<Snapshot>,
    found: Found,
}

/// A resolved version of the store.
#[derive(Debug)]
pub(super) struct Resolved {
    /// What serves; empty if the configuration is withheld.
    pub(super) snapshot: Arc<Snapshot>,
    /// Its resources.
    pub(super) resources: Resources,
    /// Why there is nothing to serve.
    pub(super) withheld: Option<String>,
    /// Why resources serve in their previous version.
    pub(super) kept: BTreeMap<ResourceKey, String>,
    /// Everything that is wrong with the store.
    pub(super) diagnostics: Diagnostics,
    /// Counts of what the store has, with its errors.
    pub(super) counts: SnapshotCounts,
}

impl Resolution<'_> {
    /// The last build.
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Whether the store has no configuration, although that is not allowed.
    pub(super) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Corrects until no resource has an error. Each pass replaces at least one resource, so that it ends.
    pub(super) fn settle(&mut self, builder: &mut SnapshotBuilder) {
        if self.last.policy == OnConfigError::ServeValid {
            return;
        }
        loop {
            let errors = self.errors(builder);
            let store_failed =
                self.last.policy == OnConfigError::Refuse && self.whole.is_none() && self.is_flawed();
            if errors.is_empty() && !store_failed {
                return;
            }
            self.pass += 1;
            if self.last.policy == OnConfigError::Refuse && self.whole.is_none() {
                let why = errors.values().next().map_or_else(|| self.first_error(), |(_, why)| why.clone());
                self.restore_all(&why, builder);
            } else {
                let stage = errors.values().map(|(stage, _)| *stage).min();
                for (key, (_, why)) in errors.iter().filter(|(_, (of, _))| Some(*of) == stage) {
                    self.correct(key, why, builder);
                }
            }
            self.rebuild(builder);
        }
    }

    /// Corrects after handlers failed to build; [`settle`](Self::settle) follows. False if there is nothing to correct.
    pub(super) fn handlers_failed(
        &mut self,
        failed: &[(ResourceKey, Diagnostic)],
        builder: &mut SnapshotBuilder,
    ) -> bool {
        if failed.is_empty() || self.last.policy == OnConfigError::ServeValid {
            return false;
        }
        self.pass += 1;
        for (key, problem) in failed {
            self.note(problem);
            let why = format!("the handler does not build: {}", problem.message);
            if self.last.policy == OnConfigError::Refuse && self.whole.is_none() {
                self.restore_all(&why, builder);
            } else if !self.replace(key, &why, builder) && !self.restore_bound(key, &why, builder) {
                self.give_up(key, &why, builder);
            }
        }
        self.rebuild(builder);
        true
    }

    /// The result, once handlers are built.
    pub(super) fn finish(self, builder: &SnapshotBuilder) -> Resolved {
        let withheld = self.reason_to_withhold();
        let resources = self.resources();
        let Self { overrides, snapshot, found, .. } = self;
        let kept = overrides.into_iter().filter_map(|(key, o)| Some((key, o.by.map(|_| o.why)?)));
        let mut diagnostics = found.diagnostics;
        if let Some(why) = &withheld {
            let message = format!("no configuration is served: {why}");
            let problem = Diagnostic::error(WITHHELD, FieldPath::root(), message);
            diagnostics.push(problem.with_hint("calls are answered with UNAVAILABLE until it is mended"));
        }
        Resolved {
            snapshot: if withheld.is_some() { builder.empty() } else { snapshot },
            resources,
            kept: if withheld.is_some() { BTreeMap::new() } else { kept.collect() },
            withheld,
            diagnostics,
            counts: found.counts,
        }
    }

    /// Keeps what is missing because something could not be read.
    fn keep_unread(&mut self, builder: &SnapshotBuilder) {
        self.unread = self.read.unread();
        let has_effect = |resource: &Arc<RawResource>| has_effect(&resource.key, builder);
        self.empty = !self.last.allow_empty && !self.read.resources.iter().any(has_effect);
        if self.empty && self.last.good.is_some() {
            self.restore_all("the store has no configuration", builder);
        } else {
            self.keep_missing(builder);
        }
    }

    /// Keeps what is missing and was not deleted, as far as anybody can tell.
    fn keep_missing(&mut self, builder: &SnapshotBuilder) {
        let Some(good) = &self.last.good else { return };
        let changes = good.changes(&self.read.resources, |a, b| a.revision == b.revision);
        let missing = changes.into_iter().filter_map(|(old, new)| old.filter(|_| new.is_none()));
        let missing: Vec<_> = missing.filter(|old| !self.overrides.contains_key(&old.key)).collect();
        if missing.is_empty() {
            return;
        }
        let absences = Absences::new(&self.read.resources, &self.unread, &self.held, builder);
        let kept = missing.into_iter();
        let kept = kept.filter_map(|old| Some((Arc::clone(old), absences.why_kept(old, builder)?)));
        let kept: Vec<_> = kept.collect();
        for (old, why) in kept {
            self.insert(old.key.clone(), Some(old), why);
        }
    }

    /// The resources to build.
    fn resources(&self) -> Resources {
        let mut resources = self.read.resources.clone();
        for (key, replacement) in &self.overrides {
            match &replacement.by {
                Some(by) => drop(resources.put(Arc::clone(by))),
                None => drop(resources.remove(key)),
            }
        }
        resources
    }

    fn rebuild(&mut self, builder: &mut SnapshotBuilder) {
        self.snapshot = builder.rebuild(&self.resources(), &self.read.diagnostics);
        let snapshot = Arc::clone(&self.snapshot);
        let errors = snapshot.diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
        errors.for_each(|problem| self.note(problem));
    }

    /// Adds a problem that a correction revealed, unless the resource has problems already.
    fn note(&mut self, problem: &Diagnostic) {
        if self.found.noted.insert((problem.resource.clone(), problem.file.clone())) {
            self.found.diagnostics.push(problem.clone());
        }
    }

    /// Resources of the last build with errors: their step, and the first message that names a cause.
    fn errors(&self, builder: &SnapshotBuilder) -> BTreeMap<ResourceKey, (BuildStage, String)> {
        let mut errors: BTreeMap<ResourceKey, (bool, BuildStage, String)> = BTreeMap::new();
        let mut note = |key: ResourceKey, is_cause: bool, stage: BuildStage, why: String| {
            let known = errors.get(&key).is_some_and(|(known_cause, _, _)| *known_cause || !is_cause);
            if !known {
                errors.insert(key, (is_cause, stage, why));
            }
        };
        for problem in &self.snapshot.diagnostics {
            let is_error = problem.severity == Severity::Error || problem.code == NOT_PERFORMED;
            let is_lost = LOST_SETTINGS.contains(&problem.code);
            if !is_error && !is_lost {
                continue;
            }
            let why = problem.message.replace('\n', " ");
            for key in self.keys_of(&problem.resource, builder) {
                let Some(served) = self.served(&key) else { continue };
                let stage = builder.stage_of(&key.kind);
                if is_error {
                    note(key, !CONSEQUENCES.contains(&problem.code), stage, why.clone());
                } else if self.last.get(&key).is_some() {
                    // A lost setting is no error of a resource that never had it.
                    if self.last.differs(&key, Some(served)) {
                        note(key, true, stage, why.clone());
                    }
                } else if self.decides(served, builder) {
                    note(key, true, stage, why.clone());
                } else {
                    // The rules that a new handler decides for.
                    for rule in self.bound_rules(&key) {
                        let served = self.served(rule).filter(|served| self.decides(served, builder));
                        if served.is_some_and(|served| self.last.differs(rule, Some(served))) {
                            note(rule.clone(), true, BuildStage::Rules, format!("{key}: {why}"));
                        }
                    }
                }
            }
        }
        errors.into_iter().map(|(key, (_, stage, why))| (key, (stage, why))).collect()
    }

    /// The version of a resource that is built.
    fn served(&self, key: &ResourceKey) -> Option<&Arc<RawResource>> {
        self.overrides.get(key).map_or_else(|| self.read.resources.get(key), |o| o.by.as_ref())
    }

    /// The resources with a full name, `name.kind.namespace`: each part may have dots.
    fn keys_of(&self, full_name: &str, builder: &SnapshotBuilder) -> Vec<ResourceKey> {
        let dots = full_name.match_indices('.').map(|(at, _)| at);
        let keys = dots.filter_map(|at| {
            let (name, rest) = (full_name.get(..at)?, full_name.get(at + 1..)?);
            // No known kind has dots.
            let (kind, namespace) = rest.split_once('.')?;
            let key = ResourceKey { kind: kind.into(), namespace: namespace.into(), name: name.into() };
            let is_known = self.read.resources.contains_key(&key) || self.last.get(&key).is_some();
            (is_known && has_effect(&key, builder)).then_some(key)
        });
        keys.collect()
    }

    /// The rules that name a handler.
    fn bound_rules<'s>(&'s self, handler: &'s ResourceKey) -> impl Iterator<Item = &'s ResourceKey> {
        let binds =
            |rule: &&Arc<RuleConfig>| rule.actions.iter().any(|action| action.handler.key == *handler);
        self.snapshot.rules.iter().filter(binds).map(|rule| &rule.key)
    }

    /// Whether the store itself has errors.
    fn is_flawed(&self) -> bool {
        self.empty || self.read.unavailable.is_some() || self.unread.iter().any(|unread| unread.certain)
    }

    fn first_error(&self) -> String {
        let unread = self.unread.iter().find(|unread| unread.certain).map(|unread| unread.why.clone());
        unread
            .or_else(|| self.read.unavailable.clone())
            .unwrap_or_else(|| "the store has no configuration".to_owned())
    }

    /// Corrects one resource with an error, or what it depends on.
    fn correct(&mut self, key: &ResourceKey, why: &str, builder: &SnapshotBuilder) {
        if self.replace(key, &format!("its new version has an error: {why}"), builder) {
            return;
        }
        // The resource is as it was: what it names has changed.
        let named: Vec<ResourceKey> =
            builder.references_of(key).iter().flat_map(|name| self.keys_of(name, builder)).collect();
        if self.restore(named, &format!("{key} names it"), builder) {
            return;
        }
        let manifests = self.of_stages(&[BuildStage::Vocabulary], builder);
        if self.restore(manifests, &format!("{key} needs its attributes: {why}"), builder) {
            return;
        }
        self.give_up(key, why, builder);
    }

    /// Replaces a resource by its last good version, or leaves it out if it has none. False if it is the last good one.
    fn replace(&mut self, key: &ResourceKey, why: &str, builder: &SnapshotBuilder) -> bool {
        if let Some(known) = self.overrides.get(key) {
            return known.pass == self.pass;
        }
        let differs = self.last.differs(key, self.read.resources.get(key));
        if differs {
            self.insert(key.clone(), self.last.get(key).cloned(), why.to_owned());
            if self.last.good.is_none() {
                self.refuse(key, why, builder);
            } else if self.last.get(key).is_none() && self.whole.is_none() {
                self.hold_file_of(key, why, builder);
            }
        }
        differs
    }

    /// Serves a file in its previous version as a whole, because a new resource of the file that decides about requests has an error:
    /// that resource may be an old one with another name, or a part of it.
    fn hold_file_of(&mut self, key: &ResourceKey, why: &str, builder: &SnapshotBuilder) {
        let (last, read) = (self.last, Arc::clone(&self.read));
        let (Some(good), Some(broken)) = (&last.good, read.resources.get(key)) else {
            return;
        };
        let file = &broken.origin.file;
        if self.held.contains_key(file) || !self.decides(broken, builder) {
            return;
        }
        let why = format!("its file has {key}, which is new: {why}");
        for (old, new) in good.changes(&read.resources, |a, b| a.revision == b.revision) {
            let Some(new) = new.filter(|new| has_effect(&new.key, builder)) else {
                continue;
            };
            let is_of_file = new.origin.file == *file || old.is_some_and(|old| old.origin.file == *file);
            if !is_of_file || self.overrides.contains_key(&new.key) {
                continue;
            }
            let noted = (new.key.to_string(), Some(Arc::clone(&new.origin.file)));
            if old.is_none() && !self.found.noted.contains(&noted) {
                let message = format!("{} does not serve yet, because {why}", new.key);
                let mut problem = Diagnostic::warning(KEPT, FieldPath::root(), message)
                    .with_resource(new.key.to_string())
                    .with_hint("mend the other one, or put it into another file");
                problem.file = Some(Arc::clone(&new.origin.file));
                self.found.diagnostics.push(problem);
            }
            self.insert(new.key.clone(), old.cloned(), why.clone());
        }
        self.held.insert(Arc::clone(file), Held { why });
        self.keep_missing(builder);
    }

    /// [`replace`](Self::replace)s each of them; true if one of them changed in this pass.
    fn restore(&mut self, keys: Vec<ResourceKey>, why: &str, builder: &SnapshotBuilder) -> bool {
        let mut any = false;
        for key in keys {
            any |= self.replace(&key, why, builder);
        }
        any
    }

    /// Restores what is bound to a handler: rules that name it, and their instances.
    fn restore_bound(&mut self, handler: &ResourceKey, why: &str, builder: &SnapshotBuilder) -> bool {
        let rules = self.snapshot.rules.iter();
        let actions = rules.flat_map(|rule| rule.actions.iter().map(move |action| (rule, action)));
        let bound =
            actions.filter(|(_, action)| action.handler.key == *handler).flat_map(|(rule, action)| {
                std::iter::once(rule.key.clone())
                    .chain(action.instances.iter().map(|instance| instance.key.clone()))
            });
        let bound: Vec<ResourceKey> = bound.collect();
        self.restore(bound, why, builder)
    }

    /// The last resort: the whole last good configuration, and without the resource if it fails even there.
    fn give_up(&mut self, key: &ResourceKey, why: &str, builder: &SnapshotBuilder) {
        if self.whole.is_none()
            && self.last.good.is_some()
            && self.restore_all(&format!("{key}: {why}"), builder)
        {
            return;
        }
        self.insert(key.clone(), None, why.to_owned());
        self.refuse(key, why, builder);
    }

    /// Restores every resource; false if none differs.
    fn restore_all(&mut self, why: &str, builder: &SnapshotBuilder) -> bool {
        self.whole = Some(why.to_owned());
        let all = [BuildStage::Vocabulary, BuildStage::Parts, BuildStage::Rules, BuildStage::Extensions];
        let keys = self.of_stages(&all, builder);
        let why = format!("the last good configuration serves as a whole: {why}");
        self.restore(keys, &why, builder)
    }

    /// The resources of these steps that differ from their last good version.
    fn of_stages(&self, stages: &[BuildStage], builder: &SnapshotBuilder) -> Vec<ResourceKey> {
        let none = Resources::default();
        let good = self.last.good.as_ref().unwrap_or(&none);
        let changes = good.changes(&self.read.resources, |a, b| a.revision == b.revision);
        let keys = changes.into_iter().filter_map(|(old, new)| Some(new.or(old)?.key.clone()));
        keys.filter(|key| stages.contains(&builder.stage_of(&key.kind))).collect()
    }

    fn insert(&mut self, key: ResourceKey, by: Option<Arc<RawResource>>, why: String) {
        self.overrides.insert(key, Override { by, why, pass: self.pass });
    }

    /// Notes that a resource is left out, if it might decide about requests.
    fn refuse(&mut self, key: &ResourceKey, why: &str, builder: &SnapshotBuilder) {
        let Some(resource) = self.read.resources.get(key).or_else(|| self.last.get(key)) else {
            return;
        };
        if self.decides(resource, builder) {
            self.found.refused.push(format!("{key}: {why}"));
        }
    }

    /// Whether a resource might decide about requests.
    fn decides(&self, resource: &RawResource, builder: &SnapshotBuilder) -> bool {
        match builder.stage_of(&resource.key.kind) {
            BuildStage::Extensions => true,
            BuildStage::Rules => builder.may_enforce(resource),
            // Decided by the rules that name them, which fail in turn.
            BuildStage::Vocabulary | BuildStage::Parts | BuildStage::Ignored => false,
        }
    }

    /// Why the first configuration of a server does not serve.
    fn reason_to_withhold(&self) -> Option<String> {
        if self.last.policy == OnConfigError::ServeValid {
            return None;
        }
        if let Some(refused) = self.found.refused.first() {
            return Some(refused.clone());
        }
        if self.last.good.is_some() {
            return None;
        }
        if let Some(why) = self.whole.as_ref().filter(|_| !self.empty) {
            return Some(why.clone());
        }
        self.is_flawed().then(|| {
            match self.empty && self.read.unavailable.is_none() && self.unread.is_empty() {
                true => "the store has no configuration; --allow-empty-config serves it".to_owned(),
                false => self.first_error(),
            }
        })
    }
}
