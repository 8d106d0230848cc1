//! What a server would serve that starts with a configuration, for commands that check one without starting anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::config_cache::CachedConfiguration;
use super::last_good::{LastGood, OnConfigError};
use super::resolution::Resolution;
use super::withheld::WITHHELD;
use crate::handler::FailedHandler;
use crate::snapshot::{SnapshotBuilder, check_params};
use mixer_config::store::StoreContents;
use mixer_config::store::refill::Cause;
use mixer_config::{Diagnostic, ResourceKey, Severity};

/// What would serve after a start.
#[derive(Debug)]
pub struct Forecast {
    /// Why no call would be answered: the diagnostic that the server would report.
    pub withheld: Option<Diagnostic>,
    /// Whether the configuration has no resource, although that is not allowed.
    pub is_empty: bool,
    /// The resources that would serve in the version of the cache, and why.
    pub kept: BTreeMap<ResourceKey, String>,
}

/// Decides what would serve as a [`Configurator`](super::Configurator) does at a start. No handler is built: one whose adapter rejects
/// its parameters counts as failed, one that would fail for another reason does not.
pub fn forecast(
    contents: &Arc<StoreContents>,
    builder: &mut SnapshotBuilder,
    on_error: OnConfigError,
    allow_empty: bool,
    cached: Option<CachedConfiguration>,
) -> Forecast {
    let mut last = LastGood::new(on_error, allow_empty);
    let is_restored = cached.is_some_and(|cached| last.restore(&cached, builder).is_ok());
    let expected = is_restored.then_some(Cause::Started);
    let mut resolution = Resolution::begin(&last, contents, expected, builder);
    loop {
        resolution.settle(builder);
        let failed = rejected(&resolution);
        if !resolution.handlers_failed(&failed, builder) {
            break;
        }
    }
    let is_empty = resolution.is_empty();
    let resolved = resolution.finish(false, builder);
    let withheld = resolved.diagnostics.into_iter().find(|problem| problem.code == WITHHELD);
    let kept = resolved.kept.into_iter().map(|(key, (reason, _))| (key, reason.why)).collect();
    Forecast { withheld, is_empty, kept }
}

/// The handlers whose parameters their adapters reject, and those whose directory another one has.
fn rejected(resolution: &Resolution<'_>) -> Vec<FailedHandler> {
    let snapshot = resolution.snapshot();
    let problems = check_params(snapshot).into_iter().filter(|problem| problem.severity == Severity::Error);
    let of_handler = |problem: Diagnostic| {
        let mut keys = snapshot.handlers.iter().map(|handler| &handler.key);
        let key = keys.find(|key| key.to_string() == problem.resource)?.clone();
        Some(FailedHandler::new(snapshot, key, problem))
    };
    problems.filter_map(of_handler).chain(resolution.contested()).collect()
}
