//! What a handler that is built again begins with.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::fetch::ListSource;
use super::provider::{Fetched, Provider};

/// The providers of the handlers of a server, of this configuration and the one before it.
#[derive(Debug, Default)]
pub(super) struct KnownProviders(Mutex<Vec<Weak<Provider>>>);

impl KnownProviders {
    /// Adds the provider of a handler, for as long as the handler lives.
    pub(super) fn add(&self, provider: &Arc<Provider>) {
        let mut known = self.0.lock();
        known.retain(|known| known.strong_count() > 0);
        known.push(Arc::downgrade(provider));
    }

    /// What a handler fetched last from a source.
    pub(super) fn latest(&self, source: &ListSource) -> Option<Fetched> {
        let known = self.0.lock();
        let alive = known.iter().filter_map(Weak::upgrade);
        alive.filter_map(|provider| provider.fetched_from(source)).max_by_key(|fetched| fetched.at)
    }
}
