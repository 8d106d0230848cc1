//! Watches a store and publishes its contents.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::config_cache::{CacheIdentity, CacheMedium, ConfigCache, Served};
use super::differences::{differences, moves};
use super::examination::{Examination, beyond};
use super::history::{HistoryEntry, Tally};
use super::kept::diagnose_kept;
use super::last_good::{LastGood, OnConfigError};
use super::problem_log::ProblemLog;
use super::refilling::Refilling;
use super::removals::Removed;
use super::resolution::{Resolution, Resolved, Verdict};
use super::{Publication, Published, Runtime};
use crate::handler::{
    FailedHandler, HandlerEnvironment, HandlerTable, HandlerTransition, LiveHandler, retire_at_stop,
    retire_until_stop,
};
use crate::routing::{RoutingTable, RuleKind};
use crate::snapshot::{SnapshotBuilder, SnapshotCounts};
use crate::template::Variety;
use mixer_attribute::Timestamp;
use mixer_base::metrics::{Family, Metrics};
use mixer_base::task::Group;
use mixer_config::store::{ConfigStore, StoreContents};
use mixer_config::{Diagnostic, Diagnostics, ResourceKey, Severity};

/// How long calls of a replaced handler may stay in flight before a warning is logged; also the deadline for closing it, at a stop at most.
const RETIREMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time from the first failure of a handler or an expression to the next attempt to build it; each further failure doubles it.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest time between attempts.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// The next attempt to build handlers that failed, and expressions for whose patterns there was no room.
#[derive(Debug)]
struct Retry {
    after: Duration,
    at: tokio::time::Instant,
    /// What failed.
    failed: BTreeSet<ResourceKey>,
}

impl Retry {
    /// The attempt that follows `before`; `None` if nothing failed.
    fn next(before: Option<Self>, failed: BTreeSet<ResourceKey>) -> Option<Self> {
        let after = before.map_or(FIRST_RETRY, |before| (before.after * 2).min(LAST_RETRY));
        (!failed.is_empty()).then(|| Self { after, at: tokio::time::Instant::now() + after, failed })
    }
}

/// How long a start waits for the cache: without it nothing may serve, and on a machine that others keep busy a small file takes its time.
const CACHE_PATIENCE: Duration = Duration::from_secs(10);
/// How long it waits then for the store before the cached configuration serves.
const PATIENCE: Duration = Duration::from_secs(3);

/// What serves when the configuration has errors or is missing.
#[derive(Clone, Default)]
pub struct ConfigPolicy {
    /// What serves when it has errors.
    pub on_error: OnConfigError,
    /// Whether a configuration without resources is meant. `OnConfigError::ServeValid` always serves it.
    pub allow_empty: bool,
    /// Where the last good configuration is kept for the next start.
    pub cache: Option<Arc<dyn CacheMedium>>,
    /// compat(1.3): whether problems are logged in Istio Mixer's words, and those that it does not have are not: resources of unknown kinds,
    /// though they may be misspelt, pinned by the scenario kinds-unknown-ignored, and annotations, labels and files without a meaning.
    pub problems_as_istio_mixer: bool,
}

impl ConfigPolicy {
    /// What is valid serves, as in Istio Mixer.
    pub fn serve_valid() -> Self {
        Self { on_error: OnConfigError::ServeValid, ..Self::default() }
    }
}

/// Dependencies of a configurator.
pub struct ConfiguratorOptions {
    /// The store to watch.
    pub store: Arc<dyn ConfigStore>,
    /// Environment of handlers.
    pub environment: HandlerEnvironment,
    /// Where its metrics are recorded.
    pub metrics: Arc<Metrics>,
    /// What serves when the configuration has errors.
    pub policy: ConfigPolicy,
}

/// How many builds in a row give way to a newer version of the store: one that changes all the time is served some time.
const MAX_SUPERSEDED: u32 = 10;

/// What ends a build early.
#[derive(Clone)]
struct Interrupt {
    store: Arc<dyn ConfigStore>,
    stop: CancellationToken,
    /// Whether a newer version of the store does.
    by_changes: bool,
}

impl Interrupt {
    fn is_due(&self) -> bool {
        self.stop.is_cancelled() || (self.by_changes && self.store.has_changed())
    }

    async fn due(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.store.changed(), if self.by_changes => {}
        }
    }
}

/// Whether a version of the store was dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is published, or need not be.
    Done,
    /// Its build ended early. Nothing of it was published.
    Interrupted,
}

/// Builds and publishes a routing table for each version of a store.
pub struct Configurator {
    runtime: Arc<Runtime>,
    options: ConfiguratorOptions,
    builder: SnapshotBuilder,
    last_good: LastGood,
    cache: Option<ConfigCache>,
    has_read_cache: bool,
    /// When the cached configuration was written, until the store is read.
    restored: Option<Timestamp>,
    applied: Option<Arc<StoreContents>>,
    retry: Option<Retry>,
    refill: Refilling,
    /// Whether what the applied version lacks might still come when it was applied.
    expected_more: bool,
    /// Whether anything of the applied version does not serve as written.
    waits: bool,
    log: ProblemLog,
    /// What `validate` finds beyond a build, of what was published last.
    examination: Examination,
    /// The log of what it found.
    suggestion_log: ProblemLog,
    /// Whether a change is being published; still set after a panic.
    is_applying: bool,
    /// The trouble of the cache that was published.
    shown_trouble: Option<Arc<str>>,
}

impl Configurator {
    /// A configurator for `runtime`.
    pub fn new(runtime: Arc<Runtime>, builder: SnapshotBuilder, options: ConfiguratorOptions) -> Self {
        let ConfigPolicy { on_error, allow_empty, cache, problems_as_istio_mixer } = options.policy.clone();
        let identity = CacheIdentity::new(options.store.url(), builder.options());
        // One configurator for each runtime.
        let _ = runtime.on_error.set(on_error);
        options.metrics.gauge(Family::ConfigOnError, &[on_error.name()]).set(1_u64);
        Self {
            runtime,
            options,
            builder,
            last_good: LastGood::new(on_error, allow_empty),
            cache: cache.map(|medium| ConfigCache::new(medium, identity)),
            has_read_cache: false,
            restored: None,
            applied: None,
            retry: None,
            refill: Refilling::default(),
            expected_more: false,
            waits: false,
            log: ProblemLog::new(problems_as_istio_mixer),
            examination: Examination::default(),
            suggestion_log: ProblemLog::new(problems_as_istio_mixer),
            is_applying: false,
            shown_trouble: None,
        }
    }

    /// Publishes the current contents of the store, unless they are unchanged.
    pub async fn apply(&mut self) {
        let interrupt = Interrupt {
            store: Arc::clone(&self.options.store),
            stop: CancellationToken::new(),
            by_changes: false,
        };
        self.attempt(false, &interrupt).await;
    }

    /// Publishes the contents of the store; with `is_retry` also if they are unchanged, because handlers failed to build. A newer
    /// version ends the build of an older one, at most [`MAX_SUPERSEDED`] times in a row; a stop ends every build.
    async fn follow(&mut self, is_retry: bool, stop: &CancellationToken) {
        for superseded in 0..=MAX_SUPERSEDED {
            let interrupt = Interrupt {
                store: Arc::clone(&self.options.store),
                stop: stop.clone(),
                by_changes: superseded < MAX_SUPERSEDED,
            };
            let outcome = self.attempt(is_retry && superseded == 0, &interrupt).await;
            if outcome == Outcome::Done || stop.is_cancelled() {
                return;
            }
            tracing::info!("a newer configuration ends the build of the one before it");
            if self.options.store.has_changed() {
                // Announced, so that it does not end its own build.
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.options.store.changed() => {}
                }
            }
        }
    }

    async fn attempt(&mut self, is_retry: bool, interrupt: &Interrupt) -> Outcome {
        let asked = interrupt.clone();
        // What serve-valid keeps of a resource that does not convert is known to the builder alone, which an early end resets.
        let may_end_early = self.last_good.policy != OnConfigError::ServeValid;
        self.builder.interrupt_if(may_end_early.then(|| Box::new(move || asked.is_due()) as _));
        self.is_applying = true;
        let outcome = self.publish_changes(is_retry, interrupt).await;
        self.is_applying = false;
        self.builder.interrupt_if(None);
        outcome
    }

    async fn publish_changes(&mut self, is_retry: bool, interrupt: &Interrupt) -> Outcome {
        let started = Instant::now();
        let is_restored = self.restore_cached().await;
        let contents = self.read_store().await;
        let changes =
            self.applied.as_ref().map(|applied| differences(&applied.resources, &contents.resources));
        let events = changes.as_ref().map_or(contents.resources.len(), Vec::len);
        self.refill.look(&*self.options.store, &contents, self.waits || events > 0);
        let is_moved =
            self.applied.as_ref().is_some_and(|applied| moves(&applied.resources, &contents.resources));
        if is_moved {
            self.last_good.relocate(&contents.resources);
        }
        // compat(1.3): Istio Mixer publishes nothing then.
        let is_republished = is_moved && !self.options.policy.problems_as_istio_mixer;
        let has_changes =
            is_restored || !changes.as_ref().is_some_and(Vec::is_empty) || self.reads_differently(&contents);
        let is_unchanged = !has_changes && !is_republished;
        if is_unchanged {
            self.refill.unchanged();
        }
        match (is_unchanged, is_retry) {
            (true, false) => return Outcome::Done,
            (true, true) => tracing::debug!("Building again what failed"),
            (false, _) if !has_changes => tracing::debug!("Publishing resources at other places"),
            (false, _) => tracing::info!("Publishing {events} events"),
        }
        let before = self.runtime.load_full();
        let serving = before.routes.handlers();
        // A first configuration lacks whatever may still come.
        let is_first = self.last_good.resources().is_none();
        let lacks_any = self.refill.expected().is_some()
            && (is_first || self.last_good.has_more_than(&contents.resources, &self.builder));
        let expected = self.refill.expected().filter(|_| lacks_any);
        let mut resolution = Resolution::begin(&self.last_good, &contents, expected, &mut self.builder);
        if !is_unchanged {
            let is_empty = resolution.is_void() || (is_first && resolution.is_empty());
            self.refill.after(is_empty, lacks_any);
        }
        if contents.unavailable.is_none() {
            self.restored = None;
        }
        let applied_before = self.applied.replace(contents);
        let mut attempts: Vec<HandlerTable> = Vec::new();
        let mut failures = BTreeSet::new();
        let (handlers, transition, failed) = loop {
            resolution.settle(&mut self.builder);
            let known: Vec<&HandlerTable> = std::iter::once(serving).chain(&attempts).collect();
            let built = match self.builder.is_interrupted() {
                true => Err(HandlerTable::default()),
                false => {
                    let (snapshot, environment) = (resolution.snapshot(), &self.options.environment);
                    let contested = resolution.contested();
                    HandlerTable::build(snapshot, &known, environment, contested, interrupt.due()).await
                }
            };
            let built = match built {
                Ok(built) => built,
                Err(partial) => {
                    if self.builder.is_interrupted() {
                        self.builder.reset();
                    }
                    self.applied = applied_before;
                    let tables = attempts.iter().chain([&partial]);
                    self.retire(tables.flat_map(|table| replaced(table, serving)).collect());
                    return Outcome::Interrupted;
                }
            };
            // One that rejects a trial by itself rejects it again, and serves without it.
            let may_change = built.2.iter().filter(|failed| failed.may_change);
            failures.extend(may_change.map(|failed| failed.key.clone()));
            if !resolution.handlers_failed(&built.2, &mut self.builder) {
                break built;
            }
            attempts.push(built.0);
        };
        failures.extend(self.builder.over_budget().iter().cloned());
        self.expected_more = expected.is_some();
        let id = resolution.snapshot().id;
        let mut resolved = resolution.finish(before.withheld.is_none(), &self.builder);
        let written = Arc::clone(&resolved.written);
        self.waits = resolved.waits;
        let before_retry = self.retry.take().filter(|_| is_unchanged);
        let is_as_before = before_retry.as_ref().is_some_and(|retry| retry.failed == failures);
        self.retry = Retry::next(before_retry, failures);
        if is_as_before {
            let tables = [&handlers].into_iter().chain(&attempts);
            self.retire(tables.flat_map(|table| replaced(table, serving)).collect());
            return Outcome::Done;
        }
        let handlers = match &resolved.verdict {
            Verdict::Apply => handlers,
            Verdict::Stay(why) => {
                // The table in use consists of live parts only, so that it goes on whatever cannot be built again.
                tracing::error!("the configuration is not applied, the one in use stays: {why}");
                resolved.snapshot = Arc::clone(before.routes.snapshot());
                attempts.push(handlers);
                serving.clone()
            }
            Verdict::Withhold(_) => {
                attempts.push(handlers);
                HandlerTable::default()
            }
        };
        let tables = std::iter::once(serving).chain(&attempts);
        let retired: Vec<Arc<LiveHandler>> = tables.flat_map(|table| replaced(table, &handlers)).collect();
        let (counts, is_applied) = (resolved.counts, resolved.verdict == Verdict::Apply);
        let now = self.options.environment.clock.now();
        self.save(&resolved, now).await;
        let good = self.last_good.resources().filter(|_| is_applied);
        let removed = good.map(|good| Removed::between(good, &resolved.resources, &self.builder));
        let publication = self.publication(resolved, handlers, &before, failed, now);
        drop((before, attempts));
        self.log.update(&publication.diagnostics);
        drop(self.runtime.publish(publication));
        removed.iter().for_each(Removed::log);
        let published = self.runtime.load_full();
        let took = started.elapsed();
        let changes = changes.unwrap_or_default();
        let entry = HistoryEntry::new(id, took, events, changes, tally(&published, &transition));
        self.runtime.history.push(HistoryEntry { is_applied, ..entry });
        record_metrics(&self.options.metrics, &published, transition, counts);
        if is_applied {
            let rules = published.routes.snapshot().rules.len();
            tracing::info!(rules, ?took, "Built new config.Snapshot: id='{id}'");
        }
        drop(published);
        if !is_unchanged {
            self.examination.begin(written);
        }
        self.retire(retired);
        Outcome::Done
    }

    /// Tells what `validate` finds in the configuration that was published last beyond what its build found: now, for a caller that does not
    /// go on with [`run`](Self::run), which does it soon after each publication.
    pub async fn examine(&mut self) {
        let found = self.examination.found(&self.options.environment.runtime, true).await;
        found.into_iter().for_each(|found| self.examined(found));
    }

    /// Publishes what an examination found beside what serves.
    fn examined(&mut self, found: Diagnostics) {
        let published = self.runtime.load_full();
        let found = Arc::new(beyond(&published.diagnostics, found));
        if published.suggestions.set(Arc::clone(&found)).is_err() {
            return;
        }
        self.suggestion_log.update(&found);
        self.runtime
            .history
            .recount(published.problems(Severity::Error), published.problems(Severity::Warning));
        record_problems(&self.options.metrics, &published);
    }

    /// Starts with the cached configuration, if there is one. The cache is read once; if that takes long, and nothing serves when it is done, it
    /// serves from then on. Returns whether it was taken.
    async fn restore_cached(&mut self) -> bool {
        let Some(cache) = &self.cache else { return false };
        let cached = match std::mem::replace(&mut self.has_read_cache, true) {
            false => cache.load(CACHE_PATIENCE).await,
            true => cache.take_late().filter(|_| self.last_good.resources().is_none()),
        };
        // Also of one that was read late.
        cache.mismatch().into_iter().for_each(|mismatch| self.last_good.mistrust(mismatch));
        let Some(cached) = cached else { return false };
        if let Err(why) = self.last_good.restore(&cached, &self.builder) {
            cache.ignore(&why);
            return false;
        }
        if self.last_good.policy != OnConfigError::ServeValid {
            self.options.store.expect(&cached.files());
        }
        self.restored = Some(cached.written);
        self.refill.started_with_cache();
        true
    }

    /// The contents of the store. If they take long to read, a last good configuration serves until they are read; without one, what hangs
    /// counts as unreadable, except with serve-valid, which would answer without it.
    async fn read_store(&self) -> Arc<StoreContents> {
        let store = &self.options.store;
        let waits = self.last_good.policy == OnConfigError::ServeValid;
        let has_substitute = self.last_good.resources().is_some() && !waits;
        if !has_substitute {
            tokio::select! {
                () = store.loaded() => {}
                () = store.overdue(), if !waits => {}
            }
        } else if tokio::time::timeout(PATIENCE, store.loaded()).await.is_err() {
            let seconds = PATIENCE.as_secs();
            tracing::warn!(
                "{} is not read after {seconds} s; the last good configuration serves",
                store.url()
            );
        }
        store.contents()
    }

    /// Whether a store with the same resources differs in what it could not read, which is shown, and may decide what serves.
    fn reads_differently(&self, contents: &StoreContents) -> bool {
        // It may wait for the end of a change.
        let waits = self.waits;
        if self.cache.as_ref().and_then(ConfigCache::trouble) != self.shown_trouble {
            return true;
        }
        if waits && self.expected_more && self.refill.expected().is_none() {
            return true;
        }
        self.applied.as_ref().is_some_and(|applied| {
            applied.diagnostics != contents.diagnostics
                || applied.unavailable != contents.unavailable
                || (waits && !applied.waits_like(contents))
        })
    }

    /// Writes what is about to serve to the cache, if there is one. Before it serves: whenever the process ends, a restart serves no older
    /// one.
    async fn save(&mut self, resolved: &Resolved, now: Timestamp) {
        let environment = &self.options.environment;
        let resources = match &resolved.verdict {
            Verdict::Apply => Some(&resolved.resources),
            Verdict::Stay(_) => self.last_good.resources(),
            Verdict::Withhold(_) => None,
        };
        if let (Some(cache), Some(resources)) = (&self.cache, resources) {
            let since = self.last_good.since_of(&resolved.kept, now);
            let served = Served { resources: resources.clone(), since };
            cache.save(served, now, &environment.runtime, &self.options.metrics).await;
        }
    }

    /// What is published, recorded as the last good configuration if it is applied.
    fn publication(
        &mut self,
        resolved: Resolved,
        handlers: HandlerTable,
        before: &Published,
        failed: Vec<FailedHandler>,
        now: Timestamp,
    ) -> Publication {
        let Resolved { snapshot, resources, verdict, kept, mut diagnostics, .. } = resolved;
        let routes = before.routes.next(snapshot, handlers, &self.options.metrics);
        diagnostics.extend(failed.into_iter().map(|failed| failed.problem));
        diagnostics.extend(routes.diagnostics().iter().cloned());
        let withheld = match verdict {
            Verdict::Apply => {
                self.last_good.publish(resources, kept, now);
                None
            }
            Verdict::Stay(_) => {
                self.last_good.keep(kept, now);
                None
            }
            Verdict::Withhold(why) => Some(why),
        };
        let kept = if withheld.is_none() { self.last_good.kept().to_vec() } else { Vec::new() };
        diagnostics.extend(diagnose_kept(&kept));
        let cache_trouble = self.cache.as_ref().and_then(ConfigCache::trouble);
        diagnostics.extend(self.cache.iter().flat_map(ConfigCache::diagnostics));
        self.shown_trouble.clone_from(&cache_trouble);
        let cached = self.restored;
        let withheld = withheld.map(Into::into);
        Publication { routes, withheld, diagnostics, kept, cached, cache_trouble }
    }

    /// Waits until the last good configuration is in the cache, if there is one.
    pub async fn flush_cache(&self) {
        if let Some(cache) = &self.cache {
            cache.flush().await;
        }
    }

    /// Publishes every change of the store until `stop` is cancelled, and builds handlers again that failed. A stop, or a newer version
    /// of the store, ends a build under way. After a panic it can be
    /// called again: the published configuration serves on, and the contents of the store are built from scratch.
    pub async fn run(&mut self, stop: CancellationToken) {
        if self.is_applying {
            self.builder.reset();
            self.applied = None;
            self.follow(false, &stop).await;
        }
        let store = Arc::clone(&self.options.store);
        let mut cache_news = self.cache.as_ref().map(ConfigCache::news);
        let runtime = self.options.environment.runtime.clone();
        loop {
            let due = self.retry.as_ref().map(|retry| retry.at);
            let complete = self.refill.due();
            tokio::select! {
                () = stop.cancelled() => return,
                () = store.changed() => self.follow(false, &stop).await,
                () = until(due) => self.follow(true, &stop).await,
                () = until(complete) => self.follow(false, &stop).await,
                () = changed(&mut cache_news) => self.follow(false, &stop).await,
                found = self.examination.found(&runtime, false) => {
                    found.into_iter().for_each(|found| self.examined(found));
                }
            }
        }
    }

    /// Publishes the empty table and closes every handler; waits at most `timeout`. Returns whether all handlers closed in time.
    pub async fn close(self, timeout: Duration) -> bool {
        // Bounded like the handlers; what is not written then is the configuration of the last start.
        let flush = async {
            if let Some(cache) = &self.cache {
                cache.close().await;
            }
        };
        let flushed = async { tokio::time::timeout(timeout, flush).await.is_ok() };
        let closed = close_handlers(&self.runtime, &self.options.metrics, timeout);
        let (flushed, closed) = tokio::join!(flushed, closed);
        flushed && closed
    }

    /// Closes handlers. Several tables may have one; only its sole owner closes it.
    fn retire(&self, mut retired: Vec<Arc<LiveHandler>>) {
        retired.sort_by_key(Arc::as_ptr);
        retired.dedup_by(|a, b| Arc::ptr_eq(a, b));
        if retired.is_empty() {
            record_closed(&self.options.metrics, 0, 0);
            return;
        }
        let (metrics, stop) = (Arc::clone(&self.options.metrics), self.runtime.stopping.subscribe());
        let retire = self.runtime.retiring.track_future(async move {
            let (closed, failures) = retire_until_stop(retired, RETIREMENT_TIMEOUT, &stop).await;
            record_closed(&metrics, closed, failures);
        });
        Group::new("retirement of handlers").spawn_on(&self.options.environment.runtime, retire);
    }
}

/// Publishes the empty table and closes every handler that serves, and those that were replaced, within `timeout`, at most within ten seconds. When
/// the server stops; also if its configurator hangs. Returns whether all handlers closed in time.
pub async fn close_handlers(runtime: &Arc<Runtime>, metrics: &Metrics, timeout: Duration) -> bool {
    let before = runtime.load_full();
    let handlers: Vec<Arc<LiveHandler>> = before.routes.handlers().iter().cloned().collect();
    drop(before);
    let empty = Arc::clone(&runtime.empty);
    let routes = RoutingTable::build(empty, HandlerTable::default(), metrics);
    let withheld = Some("the server is stopping".into());
    drop(runtime.publish(Publication { withheld, ..Publication::of(routes) }));
    let limit = RETIREMENT_TIMEOUT.min(timeout);
    // Those that were replaced have no more time either.
    runtime.stopping.send_replace(Some(limit - limit / 20));
    runtime.retiring.close();
    let replaced = async { tokio::time::timeout(timeout, runtime.retiring.wait()).await.is_ok() };
    let closed = async {
        let retired = retire_at_stop(handlers, limit);
        let Ok((closed, failures)) = tokio::time::timeout(timeout, retired).await else { return false };
        record_closed(metrics, closed, failures);
        true
    };
    let (replaced, closed) = tokio::join!(replaced, closed);
    replaced && closed
}

/// Waits for news; without a source forever.
async fn changed(news: &mut Option<watch::Receiver<()>>) {
    if let Some(news) = news
        && news.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Waits until then; without a time forever.
async fn until(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Handlers that the new table does not reuse.
fn replaced(old: &HandlerTable, new: &HandlerTable) -> Vec<Arc<LiveHandler>> {
    let is_replaced = |handler: &&Arc<LiveHandler>| {
        !new.get(&handler.config.key).is_some_and(|kept| Arc::ptr_eq(kept, handler))
    };
    old.iter().filter(is_replaced).cloned().collect()
}

/// The counts of a new configuration, for the history.
fn tally(published: &Published, transition: &HandlerTransition) -> Tally {
    Tally {
        rules: published.routes.snapshot().rules.len(),
        new_handlers: transition.new,
        reused_handlers: transition.reused,
        failed_handlers: transition.build_failures,
        errors: published.problems(Severity::Error),
        warnings: published.problems(Severity::Warning),
    }
}

/// Sets the metrics of a new configuration.
fn record_metrics(
    metrics: &Metrics,
    published: &Published,
    transition: HandlerTransition,
    counts: SnapshotCounts,
) {
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
    set(Family::ConfigKept, published.kept.len() as u64);
    set(Family::ConfigWithheld, u64::from(published.withheld.is_some()));
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
    record_problems(metrics, published);
}

/// Sets the metrics of the problems of a configuration.
fn record_problems(metrics: &Metrics, published: &Published) {
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let of_severity = published.all_diagnostics().filter(|d| d.severity == severity);
        let count = of_severity.map(Diagnostic::count).sum::<usize>();
        metrics.gauge(Family::Diagnostics, &[severity.name()]).set(count as u64);
    }
}

fn record_closed(metrics: &Metrics, closed: u64, failures: u64) {
    metrics.gauge(Family::HandlerClosed, &[]).set(closed);
    metrics.gauge(Family::HandlerCloseFailures, &[]).set(failures);
}
