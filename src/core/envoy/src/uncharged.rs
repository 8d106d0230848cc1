//! Quotas that rules configure and that no check of Envoy is charged to, because there is no resource for Envoy: operators are told once
//! Envoy asks. With such a resource, the configuration itself has the warning `quota-uncharged`.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::config::EnvoyConfig;
use mixer_engine::snapshot::{ExtensionConfig as _, Snapshot, SnapshotId};

/// Most names of quotas that are told.
const MAX_NAMED: usize = 10;
/// Most bytes of one.
const MAX_NAME: usize = 120;

/// What to do about such quotas.
pub const CURE: &str = "Envoy names no quotas: name them in `check.quotaSpec` of an envoybridge, if they are not for clients of Mixer's API only";

/// The quotas of the configuration in force.
#[derive(Debug, Default)]
pub(crate) struct Uncharged {
    /// One more than the number of the newest configuration that was looked at.
    seen: AtomicU64,
    found: Mutex<(SnapshotId, Vec<String>)>,
}

impl Uncharged {
    /// Looks at the configuration of a check of Envoy, and warns of its quotas if they are others than before. Cost: linear in the rules for a
    /// new one, else a comparison.
    pub(crate) fn look(&self, snapshot: &Snapshot, config: &EnvoyConfig) {
        let number = snapshot.id.0.saturating_add(1);
        if self.seen.load(Ordering::Relaxed) >= number
            || self.seen.fetch_max(number, Ordering::Relaxed) >= number
        {
            return;
        }
        let quotas = match config.is_configured() {
            true => Vec::new(),
            false => named(snapshot),
        };
        let mut found = self.found.lock();
        let is_told = found.1 == quotas;
        if found.0 <= snapshot.id {
            *found = (snapshot.id, quotas.clone());
        }
        drop(found);
        if !quotas.is_empty() && !is_told {
            let quotas = quotas.join(", ");
            tracing::warn!(quotas, "no check of Envoy is charged to quotas that rules configure: {CURE}");
        }
    }

    /// The quotas of this configuration, if Envoy has asked since it was published.
    pub(crate) fn list(&self, id: SnapshotId) -> Vec<String> {
        let found = self.found.lock();
        if found.0 == id { found.1.clone() } else { Vec::new() }
    }
}

/// The names of quotas, cut and bounded.
fn named(snapshot: &Snapshot) -> Vec<String> {
    let all = snapshot.enforced_quotas();
    let cut = |name: &&str| match name.len() > MAX_NAME {
        true => format!("{}…", name.get(..name.floor_char_boundary(MAX_NAME)).unwrap_or_default()),
        false => (*name).to_owned(),
    };
    let mut named: Vec<String> = all.iter().take(MAX_NAMED).map(cut).collect();
    if let Some(more) = all.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        named.push(format!("and {more} more"));
    }
    named
}
