//! Handlers without side effects, for tools that evaluate a configuration.

use std::sync::Arc;

use super::table::{BuildFailure, bound_instances, build_one, signature_of, validate};
use super::{HandlerEnvironment, HandlerTable, LiveHandler};
use crate::adapter::{HandleReport, Handler, Instance, Reply, TaskSpawner};
use crate::snapshot::{HandlerBinding, Snapshot};
use crate::template::Variety;
use mixer_base::pool::AdapterPools;
use mixer_base::suggestion::SuggestionBudget;
use mixer_config::Diagnostics;

/// Discards reports.
struct DiscardReports;

impl HandleReport for DiscardReports {
    fn report(&self, _: &[Instance<'_>]) -> Reply<()> {
        Reply::Ready(Ok(()))
    }
}

impl Handler for DiscardReports {
    fn as_report(&self) -> Option<&dyn HandleReport> {
        Some(self)
    }
}

impl HandlerTable {
    /// Builds the handlers of a snapshot, with report-only handlers validated and replaced by one that discards reports.
    /// `substitute` may replace a handler by its name.
    pub async fn build_offline(
        snapshot: &Snapshot,
        environment: &HandlerEnvironment,
        substitute: &dyn Fn(&str) -> Option<Box<dyn Handler>>,
    ) -> (HandlerTable, Diagnostics) {
        let mut table = HandlerTable::default();
        let mut diagnostics = Diagnostics::new();
        let mut hints = SuggestionBudget::default();
        for (key, binding) in snapshot.bindings.iter() {
            match build(binding, environment, substitute).await {
                Ok(handler) => {
                    table.handlers.insert(key.clone(), Arc::new(handler));
                }
                Err(failure) => diagnostics.push(failure.diagnose(snapshot, binding, &mut hints)),
            }
        }
        (table, diagnostics)
    }
}

async fn build(
    binding: &HandlerBinding,
    environment: &HandlerEnvironment,
    substitute: &dyn Fn(&str) -> Option<Box<dyn Handler>>,
) -> Result<LiveHandler, BuildFailure> {
    let config = &binding.handler;
    let signature = signature_of(binding);
    let only_reports =
        binding.instances.iter().all(|instance| instance.template().variety == Variety::Report);
    let discard = || only_reports.then(|| Box::new(DiscardReports) as Box<dyn Handler>);
    match substitute(&config.name).or_else(discard) {
        Some(handler) => {
            let bound = bound_instances(binding);
            validate(config, &bound)?;
            let tasks = TaskSpawner::new(environment.runtime.clone());
            let pool = environment.commons.get::<AdapterPools>().pool();
            Ok(LiveHandler::new(Arc::clone(config), bound, signature, handler, tasks, pool))
        }
        None => build_one(binding, signature, environment).await,
    }
}
