//! The last good configuration: the resources that the published configuration was built from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::absences::has_effect;
use super::config_cache::{CacheError, CachedConfiguration};
use super::kept::{KeptResource, Place, Reason, SinceByKey};
use crate::snapshot::SnapshotBuilder;
use mixer_attribute::Timestamp;
use mixer_base::shared_map::SharedMap;
use mixer_config::{Diagnostic, RawResource, ResourceKey};

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

/// The resources of a configuration.
pub(super) type Resources = SharedMap<Arc<RawResource>>;

/// The resources that serve in their previous version, with the reason, and where to mend them.
pub(super) type KeptReasons = BTreeMap<ResourceKey, (Reason, Place)>;

/// The last good configuration.
#[derive(Debug, Default)]
pub(super) struct LastGood {
    pub(super) policy: OnConfigError,
    /// Whether a configuration without resources is meant.
    pub(super) allow_empty: bool,
    /// The resources of the published configuration; `None` before the first.
    good: Option<Resources>,
    kept: Vec<KeptResource>,
    /// What is known of a configuration from a cache, until the next publication.
    restored: Option<Restored>,
    /// That the cache is of another store or default namespace, so that nothing serves before that is mended.
    mismatch: Option<Arc<Diagnostic>>,
}

/// What is known of a configuration from a cache.
#[derive(Debug)]
struct Restored {
    /// When it was written: since then, at the latest, it serves.
    written: Timestamp,
    since: SinceByKey,
}

impl LastGood {
    pub(super) fn new(policy: OnConfigError, allow_empty: bool) -> Self {
        Self { policy, allow_empty, ..Self::default() }
    }

    /// Its resources; `None` if there is none yet.
    pub(super) fn resources(&self) -> Option<&Resources> {
        self.good.as_ref()
    }

    /// Serves nothing, unless the policy is [`OnConfigError::ServeValid`], because the cache is of another store or default namespace: a
    /// flag may be mistaken, and what serves then may be nothing of what is to refuse.
    pub(super) fn mistrust(&mut self, mismatch: Diagnostic) {
        self.mismatch = Some(Arc::new(mismatch));
    }

    /// Why nothing serves whatever the store has.
    pub(super) fn mismatch(&self) -> Option<&Arc<Diagnostic>> {
        self.mismatch.as_ref().filter(|_| self.good.is_none())
    }

    /// Whether a configuration without resources serves.
    pub(super) fn accepts_empty(&self) -> bool {
        self.allow_empty || self.policy == OnConfigError::ServeValid
    }

    /// Starts with a configuration that an earlier process published. Errors: it has nothing, which is not meant.
    pub(super) fn restore(
        &mut self,
        cached: &CachedConfiguration,
        builder: &SnapshotBuilder,
    ) -> Result<(), CacheError> {
        cached.check(self.accepts_empty(), builder)?;
        let CachedConfiguration { resources, written, since, .. } = cached.clone();
        self.good = Some(resources);
        self.restored = Some(Restored { written, since });
        Ok(())
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

    /// Whether it has a resource with an effect that a version of the store does not have.
    pub(super) fn has_more_than(&self, read: &Resources, builder: &SnapshotBuilder) -> bool {
        let Some(good) = &self.good else { return false };
        let changes = good.changes(read, |a, b| a.revision == b.revision);
        let mut missing = changes.into_iter().filter(|(_, new)| new.is_none()).filter_map(|(old, _)| old);
        missing.any(|old| has_effect(&old.key, builder))
    }

    /// Records a publication.
    pub(super) fn publish(&mut self, served: Resources, kept: KeptReasons, now: Timestamp) {
        self.keep(kept, now);
        self.good = Some(served);
    }

    /// Records which resources serve in their previous version.
    pub(super) fn keep(&mut self, kept: KeptReasons, now: Timestamp) {
        let (otherwise, mut known) = self
            .restored
            .take()
            .map_or_else(|| (now, self.since()), |restored| (restored.written, restored.since));
        let kept = kept.into_iter().map(|(key, (Reason { why, common, .. }, place))| {
            let since = known.remove(&key).unwrap_or(otherwise);
            KeptResource { since, key, why, common, place }
        });
        self.kept = kept.collect();
    }

    /// Since when each of them does.
    fn since(&self) -> SinceByKey {
        self.kept.iter().map(|kept| (kept.key.clone(), kept.since)).collect()
    }

    /// Since when each of those would serve in its previous version that [`keep`](Self::keep) records next.
    pub(super) fn since_of(&self, kept: &KeptReasons, now: Timestamp) -> SinceByKey {
        let (otherwise, known) = match &self.restored {
            None => (now, self.since()),
            Some(restored) => (restored.written, restored.since.clone()),
        };
        let since = |key: &ResourceKey| known.get(key).copied().unwrap_or(otherwise);
        kept.keys().map(|key| (key.clone(), since(key))).collect()
    }

    /// The resources that serve in their previous version, by key.
    pub(super) fn kept(&self) -> &[KeptResource] {
        &self.kept
    }

    /// Its version of a resource.
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Arc<RawResource>> {
        self.good.as_ref()?.get(key)
    }

    /// Whether it has another version of a resource, or none.
    pub(super) fn differs(&self, key: &ResourceKey, from: Option<&Arc<RawResource>>) -> bool {
        self.get(key).map(|good| good.revision) != from.map(|resource| resource.revision)
    }
}
