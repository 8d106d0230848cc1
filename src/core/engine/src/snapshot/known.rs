//! What rules refer to, by name.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::handlers::HandlerState;
use super::instances::InstanceState;

/// Handlers and instances by full name.
#[derive(Debug, Default)]
pub(super) struct KnownResources {
    pub(super) handlers: HashMap<Arc<str>, HandlerState>,
    pub(super) instances: HashMap<Arc<str>, InstanceState>,
}

/// Interned texts that many rules contain.
#[derive(Debug, Default)]
pub(super) struct NamePool(HashSet<Arc<str>>);

impl NamePool {
    /// The interned text.
    pub(super) fn intern(&mut self, name: &str) -> Arc<str> {
        match self.0.get(name) {
            Some(known) => known.clone(),
            None => {
                let name: Arc<str> = name.into();
                self.0.insert(name.clone());
                name
            }
        }
    }

    /// Drops unused texts.
    pub(super) fn sweep(&mut self) {
        self.0.retain(|name| Arc::strong_count(name) > 1);
    }
}
