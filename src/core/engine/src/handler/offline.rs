//! Handlers without side effects, for tools that evaluate a configuration.

use std::sync::Arc;

use super::table::{BuildFailure, build_one, validate};
use super::{HandlerEnvironment, HandlerTable, LiveHandler, Signature};
use crate::adapter::{BoundInstance, HandleReport, Handler, Instance, Reply, TaskSpawner};
use crate::snapshot::{HandlerConfig, InstanceConfig, Snapshot};
use crate::template::Variety;
use mixer_base::pool::AdapterPools;
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
        for (key, binding) in snapshot.bindings.iter() {
            match build(&binding.handler, &binding.instances, environment, substitute).await {
                Ok(handler) => {
                    table.handlers.insert(key.clone(), Arc::new(handler));
                }
                Err(failure) => diagnostics.push(failure.diagnose(snapshot, &binding.handler)),
            }
        }
        (table, diagnostics)
    }
}

async fn build(
    config: &Arc<HandlerConfig>,
    instances: &[Arc<InstanceConfig>],
    environment: &HandlerEnvironment,
    substitute: &dyn Fn(&str) -> Option<Box<dyn Handler>>,
) -> Result<LiveHandler, BuildFailure> {
    let bound: Vec<BoundInstance> = instances.iter().map(|instance| instance.bound.clone()).collect();
    let signature = Signature::of(config, instances);
    let only_reports = instances.iter().all(|instance| instance.template().variety == Variety::Report);
    let discard = || only_reports.then(|| Box::new(DiscardReports) as Box<dyn Handler>);
    match substitute(&config.name).or_else(discard) {
        Some(handler) => {
            validate(config, &bound).map_err(|text| BuildFailure { text })?;
            let tasks = TaskSpawner::new(environment.runtime.clone());
            let pool = environment.commons.get::<AdapterPools>().pool();
            Ok(LiveHandler::new(Arc::clone(config), bound, signature, handler, tasks, pool))
        }
        None => build_one(Arc::clone(config), bound, signature, environment).await,
    }
}
