//! Watches a store and publishes its contents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::differences::differences;
use super::history::{HistoryEntry, Tally};
use super::{Published, Runtime};
use crate::handler::{HandlerEnvironment, HandlerTable, HandlerTransition, LiveHandler, retire};
use crate::routing::{RoutingTable, RuleKind};
use crate::snapshot::SnapshotBuilder;
use crate::template::Variety;
use mixer_base::metrics::{Family, Metrics};
use mixer_base::task::Group;
use mixer_config::store::{ConfigStore, StoreContents};
use mixer_config::{Diagnostic, Severity};

/// How long calls of a replaced handler may stay in flight before a warning is logged; also the deadline for closing it.
const RETIREMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Dependencies of a configurator.
pub struct ConfiguratorOptions {
    /// The store to watch.
    pub store: Arc<dyn ConfigStore>,
    /// Environment of handlers.
    pub environment: HandlerEnvironment,
    /// Where its metrics are recorded.
    pub metrics: Arc<Metrics>,
}

/// Builds and publishes a routing table for each version of a store.
pub struct Configurator {
    runtime: Arc<Runtime>,
    options: ConfiguratorOptions,
    builder: SnapshotBuilder,
    retiring: TaskTracker,
    applied: Option<Arc<StoreContents>>,
    /// Whether a change is being published; still set after a panic.
    is_applying: bool,
}

impl Configurator {
    /// A configurator for `runtime`.
    pub fn new(runtime: Arc<Runtime>, builder: SnapshotBuilder, options: ConfiguratorOptions) -> Self {
        Self { runtime, options, builder, retiring: TaskTracker::new(), applied: None, is_applying: false }
    }

    /// Publishes the current contents of the store, unless they are unchanged.
    pub async fn apply(&mut self) {
        self.is_applying = true;
        self.publish_changes().await;
        self.is_applying = false;
    }

    async fn publish_changes(&mut self) {
        let started = Instant::now();
        self.options.store.loaded().await;
        let contents = self.options.store.contents();
        let changes =
            self.applied.as_ref().map(|applied| differences(&applied.resources, &contents.resources));
        let events = changes.as_ref().map_or(contents.resources.len(), Vec::len);
        if changes.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        tracing::info!("Publishing {events} events");
        let snapshot = self.builder.build(&contents);
        self.applied = Some(contents);
        let before = self.runtime.load_full();
        let (handlers, transition, problems) =
            HandlerTable::build(&snapshot, before.routes.handlers(), &self.options.environment).await;
        let routes = before.routes.next(Arc::clone(&snapshot), handlers, &self.options.metrics);
        let mut diagnostics = snapshot.diagnostics.clone();
        diagnostics.extend(problems);
        diagnostics.extend(routes.diagnostics().iter().cloned());
        log_diagnostics(&diagnostics);
        let retired = replaced(before.routes.handlers(), routes.handlers());
        drop(before);
        let previous = self.runtime.publish(routes, diagnostics);
        drop(previous);
        let published = self.runtime.load_full();
        let tally = tally(&published, &transition);
        let (took, changes) = (started.elapsed(), changes.unwrap_or_default());
        self.runtime.history.push(HistoryEntry::new(published.id(), took, events, changes, tally));
        record_metrics(&self.options.metrics, &published, transition);
        tracing::info!(rules = snapshot.rules.len(), took = ?started.elapsed(), "Built new config.Snapshot: id='{}'", snapshot.id);
        self.retire(retired);
    }

    /// Publishes every change of the store until `stop` is cancelled. After a panic it can be called again: the published
    /// configuration serves on, and the contents of the store are built from scratch.
    pub async fn run(&mut self, stop: CancellationToken) {
        if self.is_applying {
            self.builder.reset();
            self.applied = None;
            self.apply().await;
        }
        let store = Arc::clone(&self.options.store);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = store.changed() => {}
            }
            self.apply().await;
        }
    }

    /// Publishes the empty table and closes every handler; waits at most `timeout`. Returns whether all handlers closed in time.
    pub async fn close(self, timeout: Duration) -> bool {
        let before = self.runtime.load_full();
        let retired: Vec<Arc<LiveHandler>> = before.routes.handlers().iter().cloned().collect();
        let empty = Arc::clone(&self.runtime.empty);
        drop(before);
        drop(
            self.runtime.publish(
                RoutingTable::build(empty, HandlerTable::default(), &self.options.metrics),
                Vec::new(),
            ),
        );
        self.retire(retired);
        self.retiring.close();
        tokio::time::timeout(timeout, self.retiring.wait()).await.is_ok()
    }

    fn retire(&self, retired: Vec<Arc<LiveHandler>>) {
        if retired.is_empty() {
            record_closed(&self.options.metrics, 0, 0);
            return;
        }
        let metrics = Arc::clone(&self.options.metrics);
        let retire = self.retiring.track_future(async move {
            let (closed, failures) = retire(retired, RETIREMENT_TIMEOUT).await;
            record_closed(&metrics, closed, failures);
        });
        Group::new("retirement of handlers").spawn_on(&self.options.environment.runtime, retire);
    }
}

/// Handlers that the new table does not reuse.
fn replaced(old: &HandlerTable, new: &HandlerTable) -> Vec<Arc<LiveHandler>> {
    let is_replaced = |handler: &&Arc<LiveHandler>| {
        !new.get(&handler.config.key).is_some_and(|kept| Arc::ptr_eq(kept, handler))
    };
    old.iter().filter(is_replaced).cloned().collect()
}

/// Logs one record per problem, once per configuration change.
fn log_diagnostics(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        let text = diagnostic.legacy.as_deref().unwrap_or(&diagnostic.message);
        let file = diagnostic.file.as_deref().unwrap_or("");
        let line = diagnostic.span.map_or(0, |s| s.start.line);
        let (resource, code) = (&diagnostic.resource, diagnostic.code);
        let hint = diagnostic.hint.as_deref().unwrap_or("");
        match diagnostic.severity {
            // Other components store resources of other kinds in the same directory.
            _ if code == "kind-unknown" => tracing::debug!(code, resource, file, line, hint, "{text}"),
            Severity::Error => tracing::error!(code, resource, file, line, hint, "{text}"),
            Severity::Warning => tracing::warn!(code, resource, file, line, hint, "{text}"),
            Severity::Info => tracing::info!(code, resource, file, line, hint, "{text}"),
        }
    }
}

/// The counts of a new configuration, for the history.
fn tally(published: &Published, transition: &HandlerTransition) -> Tally {
    let count = |severity| published.diagnostics.iter().filter(|d| d.severity == severity).count();
    Tally {
        rules: published.routes.snapshot().rules.len(),
        new_handlers: transition.new,
        reused_handlers: transition.reused,
        failed_handlers: transition.build_failures,
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
    }
}

/// Sets the metrics of a new configuration.
fn record_metrics(metrics: &Metrics, published: &Published, transition: HandlerTransition) {
    let counts = published.routes.snapshot().counts;
    let set = |family, value: u64| metrics.gauge(family, &[]).set(value);
    set(Family::ConfigAttributes, counts.attributes);
    set(Family::ConfigHandlers, counts.handler_configs);
    set(Family::ConfigInstances, counts.instance_configs);
    set(Family::ConfigInstanceErrors, counts.instance_config_errors);
    set(Family::ConfigRules, counts.rule_configs);
    set(Family::ConfigRuleErrors, counts.rule_config_errors);
    set(Family::ConfigRuleMatchErrors, counts.rule_config_match_errors);
    set(Family::ConfigAdapterInfos, counts.adapter_info_configs);
    set(Family::ConfigAdapterInfoErrors, counts.adapter_info_config_errors);
    set(Family::ConfigTemplates, counts.template_configs);
    set(Family::ConfigTemplateErrors, counts.template_config_errors);
    let unsatisfied = published.routes.diagnostics().iter().filter(|d| d.code == "handler-missing").count();
    set(Family::ConfigUnsatisfiedActions, unsatisfied as u64);
    // compat(1.3): counts out-of-process handlers only; params rejected by an adapter are build failures.
    set(Family::ConfigHandlerValidationErrors, 0);
    set(Family::HandlerNew, transition.new);
    set(Family::HandlerReused, transition.reused);
    set(Family::HandlerBuildFailures, transition.build_failures);
    for (kind, variety) in [
        (RuleKind::Check, Variety::Check),
        (RuleKind::Report, Variety::Report),
        (RuleKind::Quota, Variety::Quota),
        (RuleKind::Generate, Variety::AttributeGenerator),
    ] {
        let gauge = metrics.gauge(Family::DispatcherDestinationsPerVariety, &[variety.name()]);
        let destinations = published.routes.destinations_of(kind) as u64;
        // The series of a variety appears with its first destination.
        if destinations > 0 || gauge.get().is_some() {
            gauge.set(destinations);
        }
    }
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let count = published.diagnostics.iter().filter(|d| d.severity == severity).count() as u64;
        metrics.gauge(Family::Diagnostics, &[severity.name()]).set(count);
    }
}

fn record_closed(metrics: &Metrics, closed: u64, failures: u64) {
    metrics.gauge(Family::HandlerClosed, &[]).set(closed);
    metrics.gauge(Family::HandlerCloseFailures, &[]).set(failures);
}
