//! One version of the store on its way to publication.
//!
//! [`Resolution`] builds, replaces every resource with an error by its last good version, restores what a kept resource needs, and
//! repeats until nothing has an error. Each correction is one resource, earlier steps of the build first, so that the cause is
//! corrected and not its consequences. If that does not suffice, the whole last good configuration is restored; what fails even
//! then is left out.
//!
//! The errors of a configuration are those of its first build, which `validate` finds as well, and those of handlers that do not
//! build. Errors of later builds are consequences of corrections: they say why a resource serves in its previous version.

mod absent;

use std::sync::Arc;

use self::absent::UNMOUNTED;
use super::absences::{FaultyFiles, HeldFiles, has_effect};
use super::corrections::Corrections;
use super::faults::{Fault, ambiguity, faults, its_own};
use super::found::Found;
use super::kept::{CommonCause, Place, Reason, diagnose_left_out};
use super::last_good::{KeptReasons, LastGood, OnConfigError, Resources};
use super::together::changed_together;
use super::withheld::Withheld;
use crate::handler::FailedHandler;
use crate::snapshot::{
    BuildStage, HandlerConfig, KeptUnit, Snapshot, SnapshotBuilder, SnapshotCounts, TRIAL_REJECTED, Trial,
    names_quota, spill_conflicts,
};
use mixer_config::store::refill::Cause;
use mixer_config::store::{StoreContents, Unread};
use mixer_config::{Diagnostic, Diagnostics, Positions, RawResource, ResourceKey, Severity};

/// One version of the store on its way to publication.
#[derive(Debug)]
pub(super) struct Resolution<'l> {
    corrections: Corrections<'l>,
    /// Whether the last good configuration serves as a whole.
    is_whole: bool,
    /// What the store could not read.
    unread: Vec<Unread>,
    /// Files that serve in their previous version as a whole.
    held: HeldFiles,
    /// Files with an error, of which nothing is deleted.
    faulty: FaultyFiles,
    /// Why what is missing is kept, if what it is to be is unknown.
    unseen: Option<CommonCause>,
    /// Whether more of what is missing may have to be kept than at the last [`keep_missing`](Self::keep_missing).
    may_miss_more: bool,
    /// Rules in dry run that are left out, because a handler does not take their instances.
    released: Vec<ResourceKey>,
    /// Why what is missing may still come.
    expected: Option<Cause>,
    /// Whether nothing of the store is read.
    is_void: bool,
    /// Whether the store has no configuration although it should have.
    empty: bool,
    /// Why nothing serves, if that is certain already.
    withheld: Option<Withheld>,
    /// The first build: the store as it is written.
    written: Arc<Snapshot>,
    snapshot: Arc<Snapshot>,
    found: Found,
}

/// What is done with a version of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It serves, as far as it has no errors.
    Apply,
    /// What serves stays as it is, for this reason: not even the last good version can be built again.
    Stay(String),
    /// Nothing serves, for this reason.
    Withhold(String),
}

/// A resolved version of the store.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) verdict: Verdict,
    /// The snapshot; empty unless it is applied.
    pub(super) snapshot: Arc<Snapshot>,
    /// That of the store as it is written, without corrections.
    pub(super) written: Arc<Snapshot>,
    /// Its resources.
    pub(super) resources: Resources,
    /// Why resources serve in their previous version.
    pub(super) kept: KeptReasons,
    /// Whether anything does not serve as written: it is kept, left out or withheld.
    pub(super) waits: bool,
    /// Everything that is wrong with the store.
    pub(super) diagnostics: Diagnostics,
    /// Counts of what the store has, with its errors.
    pub(super) counts: SnapshotCounts,
}

impl<'l> Resolution<'l> {
    /// Begins with a version of the store. `read` has its resources and diagnostics. `expected`: why what is missing may still
    /// come.
    pub(super) fn begin(
        last: &'l LastGood,
        read: &Arc<StoreContents>,
        expected: Option<Cause>,
        builder: &mut SnapshotBuilder,
    ) -> Self {
        let mut resolution = Self {
            corrections: Corrections::new(last, read),
            is_whole: false,
            unread: Vec::new(),
            held: HeldFiles::new(),
            faulty: FaultyFiles::new(),
            unseen: None,
            may_miss_more: false,
            released: Vec::new(),
            expected,
            is_void: false,
            empty: false,
            withheld: None,
            written: builder.empty(),
            snapshot: builder.empty(),
            found: Found::default(),
        };
        if last.policy != OnConfigError::ServeValid {
            resolution.keep_unread(builder);
        }
        let resources = resolution.corrections.resources();
        let unmounted = resolution.unread.iter().map(|unread| &unread.problem);
        let unmounted = unmounted.filter(|problem| problem.code == UNMOUNTED).cloned();
        resolution.snapshot = builder.build(&StoreContents {
            resources,
            diagnostics: read.diagnostics.iter().cloned().chain(unmounted).collect(),
            ..StoreContents::default()
        });
        resolution.written = Arc::clone(&resolution.snapshot);
        let diagnostics = resolution.snapshot.diagnostics.clone();
        let errors = diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
        let faulty = errors.map(|problem| problem.resource.clone()).collect();
        let counts = resolution.snapshot.counts;
        resolution.found = Found { counts, diagnostics, faulty, ..Found::default() };
        resolution
    }

    /// The last build.
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Whether the store has no configuration, although that is not allowed.
    pub(super) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Whether the last good configuration serves as a whole because the store has nothing, or nothing of it can be read.
    pub(super) fn is_void(&self) -> bool {
        self.is_void
    }

    /// The handlers in use that would keep entries on disk where another one does, and are not built for that. The directory is that of a handler
    /// that serves as before, if one does, and otherwise of the first by position.
    pub(super) fn contested(&self) -> Vec<FailedHandler> {
        let handlers = self.snapshot.bindings.values().map(|binding| &binding.handler);
        let serves_as_before = |handler: &HandlerConfig| self.corrections.serves_as_before(&handler.key);
        let conflicts = spill_conflicts(handlers, serves_as_before, &Positions::default());
        let failed = |(handler, problem): (&Arc<HandlerConfig>, Diagnostic)| {
            FailedHandler::contested(&self.snapshot, handler, problem)
        };
        conflicts.into_iter().map(failed).collect()
    }

    /// Corrects until no resource has an error. Each pass replaces at least one resource, so that it ends.
    pub(super) fn settle(&mut self, builder: &mut SnapshotBuilder) {
        if self.corrections.last.policy == OnConfigError::ServeValid {
            return;
        }
        loop {
            if builder.ends_early() {
                return;
            }
            let faults = faults(&self.snapshot, &self.corrections, &self.found.faulty, builder);
            if self.corrections.last.policy == OnConfigError::Refuse && !self.is_whole {
                let first = self.flaw().or_else(|| by_first(faults.values().map(|fault| &fault.reason)));
                let first = first.or_else(|| self.corrections.unsettled());
                let Some(cause) = first else { return };
                if !self.restore_whole(cause, builder) {
                    return;
                }
            } else if faults.is_empty() {
                self.corrections.pass += 1;
                if !self.restore_together(builder) {
                    return;
                }
            } else {
                self.corrections.pass += 1;
                let stage = faults.values().map(|fault| fault.stage).min();
                let faults = faults.iter().filter(|(_, fault)| Some(fault.stage) == stage);
                self.correct(&faults.collect::<Vec<_>>(), builder);
            }
            self.rebuild(builder);
        }
    }

    /// Corrects after handlers failed to build; [`settle`](Self::settle) follows. False if there is nothing to correct.
    pub(super) fn handlers_failed(
        &mut self,
        failed: &[FailedHandler],
        builder: &mut SnapshotBuilder,
    ) -> bool {
        let policy = self.corrections.last.policy;
        self.corrections.pass += 1;
        let (released, failed): (Vec<_>, Vec<_>) =
            failed.iter().partition(|failed| self.release_from_dry_run(failed));
        let Some(FailedHandler { problem: first, .. }) =
            failed.first().filter(|_| policy != OnConfigError::ServeValid)
        else {
            if !released.is_empty() {
                self.rebuild(builder);
            }
            return !released.is_empty();
        };
        if policy == OnConfigError::Refuse && !self.is_whole {
            let cause = Withheld::by(&Arc::new(first.clone()));
            if !self.restore_whole(cause, builder) {
                return false;
            }
            failed.iter().for_each(|failed| self.note(&failed.problem));
            self.rebuild(builder);
            return true;
        }
        let known = self.faulty.len();
        for FailedHandler { key, problem, .. } in failed {
            self.note(problem);
            let why = format!("the handler does not build: {}", problem.message);
            let reason = Reason::new(why, Some(Arc::new(problem.clone())));
            if !self.replace_faulty(key, &reason, builder) && !self.restore_bound(key, &reason, builder) {
                self.give_up(key, &reason, builder);
            }
        }
        self.keep_of_faulty_files(known, builder);
        self.rebuild(builder);
        true
    }

    /// The result, once handlers are built. `serves`: whether a configuration serves that may go on as it is.
    pub(super) fn finish(mut self, serves: bool, builder: &SnapshotBuilder) -> Resolved {
        let withheld = self.reason_to_withhold();
        let held = self.corrections.held_by_store(builder);
        let leaves_out = self.corrections.left_out().next().is_some();
        let resources = self.corrections.resources();
        let mut diagnostics = std::mem::take(&mut self.found.diagnostics);
        let mut kept = KeptReasons::new();
        match &withheld {
            Some(withheld) if serves => kept = self.corrections.untouched(withheld),
            Some(withheld) => diagnostics.push(withheld.diagnostic()),
            None => {
                let left_out = self.corrections.left_out().filter(|(resource, _)| {
                    has_effect(&resource.key, builder)
                        && !self.found.faulty.contains(&resource.key.to_string())
                });
                diagnostics.extend(left_out.map(|(resource, reason)| diagnose_left_out(resource, reason)));
                kept = self.corrections.kept();
                // As in Istio Mixer, a resource that does not convert goes on in its previous version whatever the policy is.
                for KeptUnit { in_force, problem } in builder.kept() {
                    let place = Place::of_problem(&problem).unwrap_or_else(|| Place::of(&in_force.origin));
                    kept.entry(in_force.key.clone()).or_insert_with(|| (its_own(&problem), place));
                }
            }
        }
        if withheld.is_none() || serves {
            for (key, reason) in held {
                kept.entry(key).or_insert(reason);
            }
        }
        Resolved {
            snapshot: if withheld.is_some() { builder.empty() } else { self.snapshot },
            written: self.written,
            resources,
            waits: withheld.is_some() || leaves_out || !kept.is_empty(),
            kept,
            verdict: match withheld.map(|withheld| withheld.why) {
                None => Verdict::Apply,
                Some(why) if serves => Verdict::Stay(why),
                Some(why) => Verdict::Withhold(why),
            },
            diagnostics,
            counts: self.found.counts,
        }
    }

    fn rebuild(&mut self, builder: &mut SnapshotBuilder) {
        let corrections = &self.corrections;
        self.snapshot = builder.rebuild(&corrections.resources(), &corrections.diagnostics());
    }

    /// Adds the problem of a handler that does not build, unless it has problems already.
    fn note(&mut self, problem: &Diagnostic) {
        if self.found.faulty.insert(problem.resource.clone()) {
            self.found.diagnostics.push(problem.clone());
            self.found.by_resource.take();
        }
    }

    /// Corrects resources with an error, of one step of the build. What changed is at fault first; an error that two resources have
    /// together, such as two `envoybridge`, is gone with the one that is new. Then what the others depend on.
    fn correct(&mut self, faults: &[(&ResourceKey, &Fault)], builder: &SnapshotBuilder) {
        let (mut any, known) = (false, self.faulty.len());
        for (key, fault) in faults {
            if builder.ends_early() {
                return;
            }
            any |= self.replace_faulty(key, &fault.reason, builder);
        }
        self.keep_of_faulty_files(known, builder);
        if any {
            return;
        }
        let (mut hopeless, mut restored) = (Vec::new(), false);
        // Of each resource the same.
        let manifests = self.corrections.of_stages(&[BuildStage::Vocabulary], builder);
        for (key, fault) in faults {
            if builder.ends_early() {
                return;
            }
            match self.restore_needed(key, fault, &manifests, builder) {
                true => restored = true,
                false => hopeless.push((key, fault)),
            }
        }
        if restored {
            return;
        }
        for (key, fault) in hopeless {
            if self.give_up(key, &fault.reason, builder) {
                return;
            }
        }
    }

    /// Restores what a resource depends on that is as it was; false if none of that differs. `manifests`: those that changed.
    fn restore_needed(
        &mut self,
        key: &ResourceKey,
        fault: &Fault,
        manifests: &[ResourceKey],
        builder: &SnapshotBuilder,
    ) -> bool {
        let named: Vec<ResourceKey> = builder
            .references_of(key)
            .iter()
            .flat_map(|name| self.corrections.keys_of(name, builder))
            .collect();
        let because = |why: String| Reason::new(why, fault.reason.problem.clone());
        if self.restore(named, &because(format!("{key} names it")), builder) {
            return true;
        }
        if self.restore(manifests.to_vec(), &because(format!("{key} needs its attributes")), builder) {
            return true;
        }
        if fault.stage != BuildStage::Extensions {
            return false;
        }
        let quotas = self.snapshot.unconfigured_quotas_of(key);
        if !quotas.is_empty() {
            let mut rules = self.corrections.of_stages(&[BuildStage::Rules], builder);
            rules.retain(|rule| {
                self.corrections.last.get(rule).is_some_and(|good| names_quota(good, &quotas))
            });
            if self.restore(rules, &because(format!("{key} names its quota")), builder) {
                return true;
            }
        }
        let namespaces = self.snapshot.unused_namespaces_of(key);
        if !namespaces.is_empty() {
            let mut rules = self.corrections.of_stages(&[BuildStage::Rules], builder);
            rules.retain(|rule| namespaces.contains(&&*rule.namespace));
            if self.restore(rules, &because(format!("{key} names its namespace")), builder) {
                return true;
            }
        }
        // Extensions combine the resources of a kind: the error may be reported at another than that which changed.
        let mut beside = self.corrections.of_stages(&[BuildStage::Extensions], builder);
        beside.retain(|other| other.kind == key.kind);
        self.restore(beside, &because(format!("it does not go together with {key}")), builder)
    }

    /// Replaces a resource by its last good version, or leaves it out if it has none. False if it is the last good one.
    fn replace(&mut self, key: &ResourceKey, reason: &Reason, builder: &SnapshotBuilder) -> bool {
        let known = self.corrections.get(key).filter(|_| !self.corrections.is_released(key, builder));
        if let Some(known) = known {
            return known.pass == self.corrections.pass;
        }
        let differs = self.corrections.last.differs(key, self.corrections.read.resources.get(key));
        if differs {
            self.corrections.insert(key.clone(), self.corrections.last.get(key).cloned(), reason.clone());
            if self.corrections.last.resources().is_none() {
                self.refuse(key, reason, builder);
            } else if !self.is_whole {
                if self.corrections.last.get(key).is_none() {
                    self.hold_file_of(key, reason, builder);
                }
                self.keep_what_may_be(key);
            }
        }
        differs
    }

    /// [`replace`](Self::replace)s a resource that has an error, and notes its file: what has the error may be what is left of several
    /// documents between which lines are missing. [`keep_of_faulty_files`](Self::keep_of_faulty_files) follows.
    fn replace_faulty(&mut self, key: &ResourceKey, reason: &Reason, builder: &SnapshotBuilder) -> bool {
        let is_replaced = self.replace(key, reason, builder);
        let (last, read) = (self.corrections.last, &self.corrections.read);
        if let (true, Some(good), Some(faulty)) = (is_replaced, last.get(key), read.resources.get(key)) {
            let error =
                reason.problem.as_ref().map_or_else(|| reason.why.clone(), |problem| problem.one_line());
            let (text, file) = (format!("{key} has an error: {error}").into(), &faulty.origin.file);
            let cause = CommonCause { text, file: Some(Arc::clone(file)) };
            for file in [&good.origin.file, file] {
                self.faulty.entry(Arc::clone(file)).or_insert_with(|| cause.clone());
            }
        }
        is_replaced
    }

    /// [`replace`](Self::replace)s each of them; true if one of them changed in this pass.
    fn restore(&mut self, keys: Vec<ResourceKey>, reason: &Reason, builder: &SnapshotBuilder) -> bool {
        let mut any = false;
        for key in keys {
            any |= self.replace(&key, reason, builder);
        }
        self.keep_missing_if_due(builder);
        any
    }

    /// Leaves out the rules in dry run that give a handler what it does not take, if it takes all that the enforced rules give it: a rule in
    /// dry run takes no handler from those. False if there is no such rule.
    fn release_from_dry_run(&mut self, failed: &FailedHandler) -> bool {
        for Trial { rule, problem } in &failed.trials {
            let reason = Reason::new(problem.one_line(), Some(Arc::new(problem.clone())));
            self.corrections.insert(rule.key.clone(), None, reason);
            self.released.push(rule.key.clone());
            self.note(problem);
        }
        !failed.trials.is_empty()
    }

    /// Restores what is bound to a handler: rules that name it, and their instances.
    fn restore_bound(&mut self, handler: &ResourceKey, reason: &Reason, builder: &SnapshotBuilder) -> bool {
        let rules = self.snapshot.rules.iter();
        let actions = rules.flat_map(|rule| rule.actions.iter().map(move |action| (rule, action)));
        let bound =
            actions.filter(|(_, action)| action.handler.key == *handler).flat_map(|(rule, action)| {
                std::iter::once(rule.key.clone())
                    .chain(action.instances.iter().map(|instance| instance.key.clone()))
            });
        let bound: Vec<ResourceKey> = bound.collect();
        self.restore(bound, reason, builder)
    }

    /// Restores what changed together with what serves in its last good version; false if nothing did.
    fn restore_together(&mut self, builder: &SnapshotBuilder) -> bool {
        if self.is_whole {
            return false;
        }
        let unseen = self.out_of_sight();
        let mut any = false;
        for (key, reason) in changed_together(&self.snapshot, &self.corrections, unseen, builder) {
            any |= self.replace(&key, &reason, builder);
        }
        self.keep_missing_if_due(builder);
        any
    }

    /// The last resort: the whole last good configuration, and without the resource if it fails even there. True if the whole is restored.
    fn give_up(&mut self, key: &ResourceKey, reason: &Reason, builder: &SnapshotBuilder) -> bool {
        let cause = Withheld { why: format!("{key}: {}", reason.why), problem: reason.problem.clone() };
        if !self.is_whole && self.corrections.last.resources().is_some() && self.restore_all(&cause, builder)
        {
            return true;
        }
        self.corrections.insert(key.clone(), None, reason.clone());
        self.refuse(key, reason, builder);
        false
    }

    /// Serves the last good configuration as a whole; false if there is none, so that nothing serves.
    fn restore_whole(&mut self, cause: Withheld, builder: &SnapshotBuilder) -> bool {
        if self.corrections.last.resources().is_none() {
            self.withheld.get_or_insert(cause);
            return false;
        }
        self.corrections.pass += 1;
        self.restore_all(&cause, builder);
        true
    }

    /// Restores every resource; false if none differs.
    fn restore_all(&mut self, cause: &Withheld, builder: &SnapshotBuilder) -> bool {
        self.is_whole = true;
        // The last good version of a rule in dry run may have been enforced.
        for key in std::mem::take(&mut self.released) {
            self.corrections.remove(&key);
            let name = key.to_string();
            self.found.faulty.remove(&name);
            let is_told = |problem: &Diagnostic| problem.code != TRIAL_REJECTED || problem.resource != name;
            self.found.diagnostics.retain(is_told);
            self.found.by_resource.take();
        }
        let all = [BuildStage::Vocabulary, BuildStage::Parts, BuildStage::Rules, BuildStage::Extensions];
        let keys = self.corrections.of_stages(&all, builder);
        let file = cause.problem.as_ref().and_then(|problem| problem.file.clone());
        let reason = Reason {
            why: format!("the last good configuration serves as a whole: {}", cause.why),
            common: Some(CommonCause { text: cause.why.as_str().into(), file }),
            problem: cause.problem.clone(),
        };
        self.restore(keys, &reason, builder)
    }

    /// Notes that a resource is left out, if it might decide about requests, or was meant as one that does.
    fn refuse(&mut self, key: &ResourceKey, reason: &Reason, builder: &SnapshotBuilder) {
        let resource = self.corrections.read.resources.get(key).or_else(|| self.corrections.last.get(key));
        let matters = |resource: &Arc<RawResource>| {
            decides(resource, builder) || ambiguity(resource, self.found.problems_of(key)).is_some()
        };
        if resource.is_some_and(matters) {
            self.found.refused.push(reason.clone());
        }
    }

    /// Why nothing serves.
    fn reason_to_withhold(&mut self) -> Option<Withheld> {
        if self.corrections.last.policy == OnConfigError::ServeValid {
            return None;
        }
        if let Some(withheld) = self.withheld.take() {
            return Some(withheld);
        }
        if self.corrections.last.resources().is_none()
            && let Some(flaw) = self.flaw()
        {
            return Some(flaw);
        }
        let withheld = by_first(self.found.refused.iter())?;
        Some(self.cause_of(&withheld).unwrap_or(withheld))
    }

    /// The error of another resource that causes an error.
    fn cause_of(&self, withheld: &Withheld) -> Option<Withheld> {
        let cause = withheld.problem.as_ref()?.cause.as_deref()?;
        let mut problems = self.found.diagnostics.iter();
        let problem = problems.find(|p| &*p.resource == cause && p.severity == Severity::Error)?;
        Some(Withheld::by(&Arc::new(problem.clone())))
    }
}

/// The reason whose error comes first in the files.
fn by_first<'r>(reasons: impl Iterator<Item = &'r Reason> + Clone) -> Option<Withheld> {
    let first = Withheld::by_first(reasons.clone().filter_map(|reason| reason.problem.as_ref()));
    first.or_else(|| reasons.map(|reason| Withheld { why: reason.why.clone(), problem: None }).next())
}

/// Whether a resource might decide about requests.
fn decides(resource: &RawResource, builder: &SnapshotBuilder) -> bool {
    match builder.stage_of(&resource.key.kind) {
        BuildStage::Extensions => true,
        BuildStage::Rules => builder.may_enforce(resource),
        // Decided by the rules that name them, which fail in turn.
        BuildStage::Vocabulary | BuildStage::Parts | BuildStage::Ignored => false,
    }
}
