//! The live handlers of one snapshot.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::live::{panic_text, supports};
use super::{LiveHandler, Signature};
use crate::adapter::{
    BoundInstance, BuildError, Clock, Commons, Env, Handler, NOT_BUILT, TaskSpawner, join_errors,
};
use crate::snapshot::{
    HandlerBinding, HandlerConfig, Snapshot, Trial, rejected_trials, trials_rejected_by_backend,
};
use mixer_base::metrics::Metrics;
use mixer_base::pool::AdapterPools;
use mixer_base::suggestion::SuggestionBudget;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, ResourceKey, Severity};

/// Process-wide dependencies of handlers.
#[derive(Clone)]
pub struct HandlerEnvironment {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Runtime of background tasks and builds.
    pub runtime: tokio::runtime::Handle,
    /// Port of the metrics endpoint of the prometheus adapter.
    pub metrics_port: u16,
    /// Where handlers record metrics.
    pub metrics: Arc<Metrics>,
    /// State shared by handlers across configurations; one per server.
    pub commons: Arc<Commons>,
    /// Timeout for building one handler.
    pub build_timeout: Duration,
}

/// Counts of the transition from one table to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HandlerTransition {
    /// Handlers built.
    pub(crate) new: u64,
    /// Handlers reused from the previous table.
    pub(crate) reused: u64,
    /// Handlers that failed to build.
    pub(crate) build_failures: u64,
}

/// A handler that failed to build.
#[derive(Debug)]
pub(crate) struct FailedHandler {
    pub(crate) key: ResourceKey,
    pub(crate) problem: Diagnostic,
    /// The rules in dry run whose instances it rejects, if it takes those of the enforced rules.
    pub(crate) trials: Vec<Trial>,
    /// Whether another attempt may succeed although the configuration is the same.
    pub(crate) may_change: bool,
}

impl FailedHandler {
    /// With the trials that the adapter rejects by itself.
    pub(crate) fn new(snapshot: &Snapshot, key: ResourceKey, problem: Diagnostic) -> Self {
        let trials = rejected_trials(snapshot, &key);
        Self { key, problem, may_change: trials.is_empty(), trials }
    }

    /// With those that its backend rejects, unless it rejects some by itself. The backend has as long as a build.
    async fn with_verdict(mut self, snapshot: &Snapshot, environment: &HandlerEnvironment) -> Self {
        if self.trials.is_empty() {
            let asked = trials_rejected_by_backend(snapshot, &self.key, &environment.commons);
            self.trials = tokio::time::timeout(environment.build_timeout, asked).await.unwrap_or_default();
        }
        self
    }
}

/// A table, how it differs from the previous one, and the handlers that failed to build.
pub(crate) type BuiltHandlers = (HandlerTable, HandlerTransition, Vec<FailedHandler>);

/// The live handlers of one snapshot, by resource key. A clone has the same handlers.
#[derive(Debug, Clone, Default)]
pub struct HandlerTable {
    pub(super) handlers: BTreeMap<ResourceKey, Arc<LiveHandler>>,
    /// The bindings that they were built from.
    bindings: Arc<BTreeMap<ResourceKey, Arc<HandlerBinding>>>,
}

impl HandlerTable {
    /// The handler of a resource, if it was built.
    pub fn get(&self, key: &ResourceKey) -> Option<&Arc<LiveHandler>> {
        self.handlers.get(key)
    }

    /// All handlers, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LiveHandler>> {
        self.handlers.values()
    }

    /// Whether both tables hold the same handlers under the same keys.
    pub(crate) fn same_as(&self, other: &HandlerTable) -> bool {
        self.handlers.len() == other.handlers.len()
            && self
                .handlers
                .iter()
                .zip(&other.handlers)
                .all(|((key, a), (other, b))| key == other && Arc::ptr_eq(a, b))
    }

    /// Builds concurrently the handlers that the rules of `snapshot` use, and reuses those of `previous` with an unchanged signature:
    /// the handlers in use, then those of attempts that were not published. A handler that fails to build is left out and diagnosed.
    ///
    /// Errors: `interrupt` completed first; the handlers that were built by then.
    pub(crate) async fn build(
        snapshot: &Snapshot,
        previous: &[&HandlerTable],
        environment: &HandlerEnvironment,
        interrupt: impl Future<Output = ()>,
    ) -> Result<BuiltHandlers, HandlerTable> {
        let mut table = HandlerTable { bindings: snapshot.bindings.clone(), ..HandlerTable::default() };
        let mut transition = HandlerTransition::default();
        let mut failed = Vec::new();
        let mut building = FuturesUnordered::new();
        for (key, binding) in snapshot.bindings.iter() {
            let same =
                |table: &&&HandlerTable| table.bindings.get(key).is_some_and(|old| Arc::ptr_eq(old, binding));
            if let Some(old) = previous.iter().filter(same).find_map(|table| table.get(key)) {
                transition.reused += 1;
                table.handlers.insert(key.clone(), Arc::clone(old));
                continue;
            }
            let signature = signature_of(binding);
            let mut known = previous.iter().filter_map(|table| table.get(key));
            match known.find(|old| old.signature() == signature) {
                Some(old) => {
                    transition.reused += 1;
                    table.handlers.insert(key.clone(), Arc::clone(old));
                }
                None => {
                    let build = build_one(binding, signature, environment);
                    building.push(async move {
                        match build.await {
                            Ok(handler) => Ok((key, handler)),
                            Err(failure) => {
                                let problem = failure.diagnose(snapshot, &binding.handler);
                                let failed = FailedHandler::new(snapshot, key.clone(), problem);
                                Err(failed.with_verdict(snapshot, environment).await)
                            }
                        }
                    });
                }
            }
        }
        let mut interrupt = std::pin::pin!(interrupt);
        loop {
            // What is built is taken first: a handler that is dropped is not closed.
            let next = tokio::select! {
                biased;
                next = building.next() => next,
                () = &mut interrupt => return Err(table),
            };
            match next {
                None => break,
                Some(Ok((key, handler))) => {
                    transition.new += 1;
                    table.handlers.insert(key.clone(), Arc::new(handler));
                }
                Some(Err(failure)) => {
                    transition.build_failures += 1;
                    failed.push(failure);
                }
            }
        }
        failed.sort_by(|a, b| a.problem.resource.cmp(&b.problem.resource));
        Ok((table, transition, failed))
    }
}

/// Why a handler failed to build.
pub(super) struct BuildFailure {
    pub(super) text: String,
}

impl BuildFailure {
    pub(super) fn diagnose(self, snapshot: &Snapshot, config: &HandlerConfig) -> Diagnostic {
        let legacy = format!(
            "Unable to initialize adapter: snapshot='{}', handler='{}', adapter='{}', err='{}'.\n\
             Please remove the handler or fix the configuration.",
            snapshot.id,
            config.name,
            config.adapter_name(),
            self.text
        );
        let mut diagnostic =
            Diagnostic::new(Severity::Error, "handler-build", FieldPath::parse("spec"), self.text)
                .with_legacy(legacy);
        diagnostic.resource = config.key.to_string();
        diagnostic.file = Some(Arc::clone(&config.origin.file));
        diagnostic.with_hint(
            "unless its last version serves, rules that use this handler do nothing until it is fixed",
        )
    }
}

/// The signature of a bound handler.
pub(super) fn signature_of(binding: &HandlerBinding) -> Signature {
    Signature::of(&binding.handler, &binding.instances, binding.resources.as_ref())
}

/// The instances of a bound handler, as the handler receives them.
pub(super) fn bound_instances(binding: &HandlerBinding) -> Vec<BoundInstance> {
    binding.instances.iter().map(|instance| instance.bound.clone()).collect()
}

pub(super) async fn build_one(
    binding: &HandlerBinding,
    signature: Signature,
    environment: &HandlerEnvironment,
) -> Result<LiveHandler, BuildFailure> {
    let (config, instances) = (Arc::clone(&binding.handler), bound_instances(binding));
    validate(&config, &instances).map_err(|text| BuildFailure { text })?;
    let tasks = TaskSpawner::new(environment.runtime.clone());
    // Also if this future is dropped.
    let ends_tasks = tasks.guard();
    let pool = environment.commons.get::<AdapterPools>().pool();
    let env = Env {
        handler_name: Arc::clone(&config.name),
        clock: Arc::clone(&environment.clock),
        tasks: tasks.clone(),
        metrics_port: environment.metrics_port,
        metrics: Arc::clone(&environment.metrics),
        commons: Arc::clone(&environment.commons),
        resources: binding.resources.clone(),
    };
    let started = config.adapter.build(&config.params, instances.clone(), env);
    let built =
        tokio::time::timeout(environment.build_timeout, AssertUnwindSafe(started).catch_unwind()).await;
    let text = match built {
        Ok(Ok(Ok(handler))) => match unsupported_template(&*handler, &instances) {
            None => {
                let live = LiveHandler::new(config, instances, signature, handler, tasks, pool);
                ends_tasks.disarm();
                return Ok(live);
            }
            Some(text) => text,
        },
        Ok(Ok(Err(BuildError::Invalid(problems)))) => validation_failure(&problems),
        Ok(Ok(Err(BuildError::Unconnected(text)))) => text,
        Ok(Ok(Err(error))) => format!("adapter instantiation error: {error}"),
        Ok(Err(panic)) => build_panic(&*panic),
        Err(_) => format!("adapter instantiation error: not built within {:?}", environment.build_timeout),
    };
    tasks.shut_down().await;
    Err(BuildFailure { text })
}

pub(super) fn validate(config: &HandlerConfig, instances: &[BoundInstance]) -> Result<(), String> {
    let mut problems = Diagnostics::new();
    // The failure tells no hints.
    let validate = || config.adapter.validate(&config.params, instances, &mut problems);
    std::panic::catch_unwind(AssertUnwindSafe(|| SuggestionBudget::none().run(validate)))
        .map_err(|panic| build_panic(&*panic))?;
    let errors: Vec<&str> = problems
        .iter()
        .filter(|p| p.severity == Severity::Error && p.code != NOT_BUILT)
        .map(|p| p.message.as_str())
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(validation_failure(&errors))
}

fn validation_failure<T: std::fmt::Display>(problems: &[T]) -> String {
    let list = join_errors(problems);
    format!(
        "adapter builder validation failed: adapter validation failed : builder validation failed: '{list}'"
    )
}

fn build_panic(panic: &(dyn Any + Send)) -> String {
    format!("panic during factory.build: '{}' ", panic_text(panic))
}

fn unsupported_template(handler: &dyn Handler, instances: &[BoundInstance]) -> Option<String> {
    let missing = instances.iter().find(|i| !supports(handler, i.template.variety))?;
    Some(format!(
        "builder for adapter does not actually support template: template='{}'",
        missing.template.name
    ))
}
