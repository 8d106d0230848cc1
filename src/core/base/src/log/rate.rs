//! Rate limits of the call sites of a log.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tracing::Metadata;
use tracing::callsite::Identifier;

use super::LogLevel;
use crate::rate_limit::{RateLimit, second, take_listed};

/// Records per second of one call site, up to the level info. Records at debug are for whoever has enabled them.
const PER_SITE: u32 = 100;

/// Modules whose records are bounded by the configuration, not by callers: a record a diagnostic.
const UNLIMITED: &[&str] = &["mixer_engine::runtime::problem_log"];

/// Whether the records of the call sites of a module have no limit of their rate.
pub fn is_unlimited(module: &str) -> bool {
    UNLIMITED.contains(&module)
}

/// Limits of all call sites of a log that do not have one of their own.
#[derive(Default)]
pub(super) struct Sites {
    /// By call site of the code, of which there is a bounded number.
    limits: RwLock<HashMap<Identifier, Arc<(RateLimit, String)>>>,
}

impl Sites {
    /// As [`RateLimit::admit`].
    pub(super) fn admit(&self, level: LogLevel, metadata: &'static Metadata<'static>) -> Option<u64> {
        if level > LogLevel::Info || is_unlimited(metadata.target()) {
            return Some(0);
        }
        let known = self.limits.read().get(&metadata.callsite()).cloned();
        let site = known.unwrap_or_else(|| {
            let mut place = Vec::new();
            super::format::push_place(&mut place, metadata);
            let place = String::from_utf8_lossy(&place).into_owned();
            let new = || Arc::new((RateLimit::new(PER_SITE), place));
            Arc::clone(self.limits.write().entry(metadata.callsite()).or_insert_with(new))
        });
        site.0.admit()
    }

    /// Call sites with records that were suppressed in a second that has passed, and how many.
    pub(super) fn take_suppressed(&self) -> Vec<(String, u64)> {
        let second = second();
        let own = self.limits.read();
        let own = own.values().map(|site| (site.1.clone(), site.0.take_at(second)));
        own.chain(take_listed(second)).filter(|(_, count)| *count > 0).collect()
    }
}
