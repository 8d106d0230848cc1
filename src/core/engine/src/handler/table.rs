//! The live handlers of one snapshot.

use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;

use super::live::{panic_text, supports};
use super::{LiveHandler, Signature};
use crate::adapter::{
    BoundInstance, BuildError, Clock, Commons, Env, Handler, NOT_BUILT, TaskSpawner, join_errors,
};
use crate::snapshot::{
    HandlerBinding, HandlerConfig, Snapshot, Trial, params_path, rejected_trials, trials_rejected_by_backend,
};
use mixer_base::metrics::Metrics;
use mixer_base::pool::AdapterPools;
use mixer_base::suggestion::SuggestionBudget;
use mixer_config::{Diagnostic, Diagnostics, FieldPath, Positions, ResourceKey, Severity};

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

    /// One that would keep entries on disk where another handler does.
    pub(crate) fn contested(snapshot: &Snapshot, handler: &HandlerConfig, problem: Diagnostic) -> Self {
        let legacy = uninitialized(snapshot, handler, &problem.message);
        let problem = problem.with_legacy(legacy);
        // Only another configuration helps.
        Self { key: handler.key.clone(), problem, trials: Vec::new(), may_change: false }
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
    /// the handlers in use, then those of attempts that were not published. A handler that fails to build is left out and diagnosed, and so
    /// are those that have `failed` already.
    ///
    /// Errors: `interrupt` completed first; the handlers that were built by then.
    pub(crate) async fn build(
        snapshot: &Snapshot,
        previous: &[&HandlerTable],
        environment: &HandlerEnvironment,
        mut failed: Vec<FailedHandler>,
        interrupt: impl Future<Output = ()>,
    ) -> Result<BuiltHandlers, HandlerTable> {
        let mut table = HandlerTable { bindings: snapshot.bindings.clone(), ..HandlerTable::default() };
        let build_failures = failed.len() as u64;
        let mut transition = HandlerTransition { build_failures, ..HandlerTransition::default() };
        let skipped: HashSet<ResourceKey> = failed.iter().map(|failed| failed.key.clone()).collect();
        let hints = Mutex::new(SuggestionBudget::default());
        let hints = &hints;
        let mut building = FuturesUnordered::new();
        for (key, binding) in snapshot.bindings.iter().filter(|(key, _)| !skipped.contains(*key)) {
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
                                let problem = failure.diagnose(snapshot, binding, &mut hints.lock());
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
    /// The text of Istio Mixer.
    pub(super) text: String,
    /// The messages of the adapter, if it is the configuration that it rejects.
    rejections: Vec<String>,
    /// Whether each of them begins with its field.
    names_fields: bool,
}

impl BuildFailure {
    fn of_validation(rejections: Vec<String>) -> Self {
        Self { text: validation_failure(&rejections), rejections, names_fields: true }
    }

    /// The diagnostic: at the field that the adapter rejects, with its hint. `hints` is the budget of the suggestions.
    pub(super) fn diagnose(
        self,
        snapshot: &Snapshot,
        binding: &HandlerBinding,
        hints: &mut SuggestionBudget,
    ) -> Diagnostic {
        let config = &binding.handler;
        let legacy = uninitialized(snapshot, config, &self.text);
        let message = if self.rejections.is_empty() { self.text } else { self.rejections.join("; ") };
        let told = match self.rejections.is_empty() {
            true => Diagnostics::new(),
            false => problems(config, &bound_instances(binding), hints).unwrap_or_default(),
        };
        let cause = told.into_iter().find(|problem| {
            let text = problem.message.strip_prefix("the handler will not be built: ");
            let text = text.unwrap_or(&problem.message);
            problem.severity == Severity::Error && self.rejections.iter().any(|told| told == text)
        });
        let spec = FieldPath::root().field("spec");
        let (field, hint) = match cause {
            Some(cause) => (params_path(config).join(&cause.field), cause.details.hint.clone()),
            // Problems that only a build finds begin with their fields.
            None => match self.rejections.first().and_then(|text| text.split_once(": ")) {
                Some((field, _)) if self.names_fields && is_field(field) => {
                    (params_path(config).join(&FieldPath::parse(field)), None)
                }
                _ => (spec, None),
            },
        };
        let hint = hint.unwrap_or_else(|| cure(&message).to_owned());
        let problem = Diagnostic::error("handler-build", field, message).with_legacy(legacy).with_hint(hint);
        Positions::default().place(problem, &config.key, &config.origin)
    }
}

/// Istio Mixer's text of a handler that does not build.
fn uninitialized(snapshot: &Snapshot, config: &HandlerConfig, why: &str) -> String {
    format!(
        "Unable to initialize adapter: snapshot='{}', handler='{}', adapter='{}', err='{why}'.\n\
         Please remove the handler or fix the configuration.",
        snapshot.id,
        config.name,
        config.adapter_name(),
    )
}

/// What to do about a handler that does not build, for a reason that is no field's.
fn cure(message: &str) -> &'static str {
    match message.contains("address already in use") {
        // Adapters listen at the address of the server's own metrics, unless it has another one.
        true => {
            "another process has the port, or another part of this server: `ss -ltnp` shows processes; --metrics-port or \
             --metrics-address of the server chooses another one"
        }
        false => "mend it, or remove the handler and the actions that use it",
    }
}

/// Whether a text is the name of a field, or the path to one.
fn is_field(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '[' | ']'))
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
    validate(&config, &instances)?;
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
    let failure = match built {
        Ok(Ok(Ok(handler))) => match unsupported_template(&*handler, &instances) {
            None => {
                let live = LiveHandler::new(config, instances, signature, handler, tasks, pool);
                ends_tasks.disarm();
                return Ok(live);
            }
            Some(text) => text.into(),
        },
        Ok(Ok(Err(BuildError::Invalid(problems)))) => BuildFailure::of_validation(problems),
        Ok(Ok(Err(BuildError::Unconnected(text)))) => text.into(),
        Ok(Ok(Err(error))) => BuildFailure {
            text: format!("adapter instantiation error: {error}"),
            rejections: match error {
                BuildError::Refused(text) => vec![text],
                _ => Vec::new(),
            },
            names_fields: false,
        },
        Ok(Err(panic)) => build_panic(&*panic).into(),
        Err(_) => {
            format!("adapter instantiation error: not built within {:?}", environment.build_timeout).into()
        }
    };
    tasks.shut_down().await;
    Err(failure)
}

impl From<String> for BuildFailure {
    fn from(text: String) -> Self {
        Self { text, rejections: Vec::new(), names_fields: false }
    }
}

/// What the adapter says of its parameters. Errors: it panics.
fn problems(
    config: &HandlerConfig,
    instances: &[BoundInstance],
    hints: &mut SuggestionBudget,
) -> Result<Diagnostics, BuildFailure> {
    let mut problems = Diagnostics::new();
    let validate = || config.adapter.validate(&config.params, instances, &mut problems);
    std::panic::catch_unwind(AssertUnwindSafe(|| hints.run(validate)))
        .map_err(|panic| build_panic(&*panic))?;
    Ok(problems)
}

pub(super) fn validate(config: &HandlerConfig, instances: &[BoundInstance]) -> Result<(), BuildFailure> {
    // Hints are looked for once it has failed.
    let problems = problems(config, instances, &mut SuggestionBudget::none())?;
    let is_error = |p: &&Diagnostic| p.severity == Severity::Error && p.code != NOT_BUILT;
    let errors: Vec<String> = problems.iter().filter(is_error).map(|p| p.message.clone()).collect();
    if errors.is_empty() { Ok(()) } else { Err(BuildFailure::of_validation(errors)) }
}

fn validation_failure(problems: &[String]) -> String {
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
