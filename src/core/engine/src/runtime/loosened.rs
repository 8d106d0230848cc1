//! Changes that serve although they may refuse fewer requests than before.

use super::requests::Requests;
use crate::snapshot::SnapshotBuilder;
use mixer_config::ResourceKey;

/// Most comparisons of what waits with what serves in one search. Beyond them, everything that serves counts as concerned.
const MAX_COMPARED: usize = 1 << 20;

/// The changed resources that serve as written, with the requests that they may refuse no longer.
#[derive(Debug)]
pub(super) struct Loosened {
    left: Vec<(ResourceKey, Requests)>,
    compared: usize,
}

impl Loosened {
    /// Of these resources. `loss`: the requests that the new version of one may refuse no longer. Cost: in proportion to their texts.
    pub(super) fn new<'k>(
        serving: impl Iterator<Item = &'k ResourceKey>,
        loss: impl Fn(&ResourceKey) -> Requests,
        builder: &SnapshotBuilder,
    ) -> Self {
        let found = serving.take_while(|_| !builder.ends_early()).map(|key| (key.clone(), loss(key)));
        Self { left: found.filter(|(_, loss)| !loss.is_empty()).collect(), compared: 0 }
    }

    /// Takes out those that may let pass what something else, which does not serve, is to refuse. Without those of which `never` says that
    /// they do not.
    pub(super) fn take(&mut self, gain: &Requests, never: impl Fn(&ResourceKey) -> bool) -> Vec<ResourceKey> {
        if gain.is_empty() {
            return Vec::new();
        }
        self.compared = self.compared.saturating_add(self.left.len());
        if self.compared > MAX_COMPARED {
            return self.take_all().collect();
        }
        let found = self.left.extract_if(.., |(key, loss)| loss.meets(gain) && !never(key));
        found.map(|(key, _)| key).collect()
    }

    /// Takes out all.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = ResourceKey> + use<> {
        std::mem::take(&mut self.left).into_iter().map(|(key, _)| key)
    }
}
