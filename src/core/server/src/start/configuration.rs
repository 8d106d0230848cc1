//! The first configuration, and following the store.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Start;
use crate::error::StartError;
use crate::options::ServerOptions;
use crate::steps::StopStep;
use mixer_adapters::{AdapterOptions, MetricsAddress};
use mixer_base::budget::Purpose;
use mixer_base::metrics::{Collect, Collected, Family, Metrics};
use mixer_base::pool::AdapterPools;
use mixer_base::probe::ProbeEmitter;
use mixer_base::secrets::mask_text;
use mixer_config::RawResource;
use mixer_config::store::{ConfigStore, WhenLost};
use mixer_delivery::Holds;
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::check_cache::{CheckCacheCounters, CheckCacheLimits};
use mixer_engine::decision::undeclared_masks;
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{
    ConfigPolicy, Configurator, ConfiguratorOptions, OnConfigError, Runtime, close_handlers,
};
use mixer_engine::snapshot::{SnapshotBuilder, SnapshotExtension, SnapshotOptions};
use mixer_expr::Language;
use mixer_stores::{Credentials, NeededKinds, StoreKind, StoreOptions};

/// Memory of the check cache per entry, up to half of its share of the memory budget.
const CACHE_BYTES_PER_ENTRY: u64 = 512;
/// Time limit for building a handler.
// Longer than the first fetch of a list (30 s): a hanging provider must fail the checks, not the handler.
const HANDLER_BUILD_TIMEOUT: Duration = Duration::from_secs(45);
/// What the steps of a stop before it leave to the handlers, of a limit that is long enough: they write what they have to a disk, or say how
/// much is lost.
const RESERVED: Duration = Duration::from_secs(3);
/// Interval at which a start that waits for its configuration looks what it waits for.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which it is logged: most starts take less.
const FIRST_LOG: Duration = Duration::from_secs(3);

impl ServerOptions {
    /// Where the configuration is, and what of it is read.
    pub fn store_options(&self) -> StoreOptions {
        let kinds = self.snapshot_options().kinds().into_iter();
        StoreOptions {
            url: self.config_store_url.clone(),
            when_lost: if self.drop_lost_configuration { WhenLost::Drop } else { WhenLost::Keep },
            kinds: kinds.map(|known| StoreKind { kind: known.name, group: known.group }).collect(),
            needed: crate::REGISTRY.extensions.iter().map(|extension| needed_kinds(*extension)).collect(),
            credentials: Credentials {
                cert_file: self.cert_file.clone(),
                key_file: self.key_file.clone(),
                ca_cert_file: self.ca_cert_file.clone(),
            },
            max_mcp_message: usize::try_from(self.mcp_max_message_size).unwrap_or(usize::MAX),
            // compat(1.3): its messages keep such fields and show none.
            ignores_unknown_fields: self.problems_as_istio_mixer,
            reader: None,
            faults: None,
        }
    }

    /// How the configuration is built: with the language of the environment.
    pub fn snapshot_options(&self) -> SnapshotOptions {
        SnapshotOptions {
            registry: crate::REGISTRY,
            default_namespace: self.config_default_namespace.as_str().into(),
            language: std::env::var("ISTIO_LANG").ok().map(|name| Language::from_name(&name)),
            adapter_kinds: self.use_adapter_crds,
            template_kinds: self.use_template_crds,
            removes_principals: !self.requests_certificates()
                && self.config_on_error != OnConfigError::ServeValid,
            standard_attributes: self.standard_attributes,
        }
    }
}

/// The kinds of an extension that its handlers need.
fn needed_kinds(extension: &'static dyn SnapshotExtension) -> NeededKinds {
    let kind = |name: &&'static str| StoreKind { kind: name, group: extension.group() };
    NeededKinds {
        kinds: extension.needed_kinds().iter().map(kind).collect(),
        is_needed_by: Arc::new(move |resource: &RawResource| extension.is_needed_by(resource)),
    }
}

impl Start<'_> {
    /// Steps 10 to 12: begins with the first configuration.
    pub(super) fn configure(
        &mut self,
        metrics: &Arc<Metrics>,
        store: &Arc<dyn ConfigStore>,
    ) -> (Arc<Runtime>, FirstConfiguration) {
        let options = self.options;
        tracing::info!("Awaiting for config store sync...");
        // The cache of checks of Envoy has the other half of the share.
        let most = self.memory.share(Purpose::CheckCache).limit() as u64 / 2;
        let cache = options.check_cache_entries().map(|entries| CheckCacheLimits {
            entries,
            bytes: (entries as u64).saturating_mul(CACHE_BYTES_PER_ENTRY).min(most),
        });
        let builder = SnapshotBuilder::new(options.snapshot_options());
        let runtime = self.effects.new_runtime(builder.empty(), cache);
        let denials: Arc<dyn Collect> = Arc::clone(runtime.denials()) as Arc<dyn Collect>;
        metrics.collect_from(Arc::downgrade(&denials));
        if cache.is_some() {
            let collector = CacheCollector(Arc::clone(runtime.cache_counters()));
            self.components.collects(StopStep::CheckCache, "check cache", metrics, collector);
        }
        let commons = Arc::new(match self.effects.is_rehearsal() {
            true => Commons::of_rehearsal(),
            false => Commons::default(),
        });
        commons.insert(Arc::clone(&self.memory));
        commons.insert(Arc::clone(runtime.answer_epoch()));
        let as_istio_mixer = options.config_on_error == OnConfigError::ServeValid;
        commons.insert(Arc::new(AdapterOptions { as_istio_mixer }));
        commons.insert(Arc::new(MetricsAddress(options.metrics_address.clone())));
        let holds = commons.get::<Holds>();
        self.components.started(StopStep::Readiness, "reports that wait for room", async move |_| {
            holds.end();
            true
        });
        let memory: Arc<dyn Collect> = Arc::clone(&self.memory) as Arc<dyn Collect>;
        metrics.collect_from(Arc::downgrade(&memory));
        self.adapter_pools = commons.get::<AdapterPools>();
        self.adapter_pools.configure(options.adapter_pool());
        let environment = HandlerEnvironment {
            clock: Arc::new(SystemClock),
            runtime: tokio::runtime::Handle::current(),
            metrics_port: options.metrics_port,
            metrics: Arc::clone(metrics),
            commons,
            build_timeout: HANDLER_BUILD_TIMEOUT,
        };
        let (waited, of_stop) = (Arc::clone(store), Arc::clone(metrics));
        let (store, metrics) = (Arc::clone(store), Arc::clone(metrics));
        let policy = ConfigPolicy {
            on_error: options.config_on_error,
            allow_empty: options.allow_empty_config,
            cache: self.effects.config_cache(&options.config_cache),
            problems_as_istio_mixer: options.problems_as_istio_mixer,
        };
        let following = ConfiguratorOptions { store, environment, metrics, policy };
        let mut configurator = Configurator::new(Arc::clone(&runtime), builder, following);
        tracing::info!("Starting runtime config watch...");
        // A task of its own: the start goes on noticing signals, however long building takes.
        let applied: Arc<Mutex<Option<Configurator>>> = Arc::default();
        let slot = Arc::clone(&applied);
        let first = tokio::spawn(async move {
            configurator.apply().await;
            *slot.lock() = Some(configurator);
        });
        let (abort, closing) = (first.abort_handle(), Arc::clone(&applied));
        let (serving, counted) = (Arc::clone(&runtime), of_stop);
        let close = async move |timeout: Duration| {
            abort.abort();
            let configurator = closing.lock().take();
            match configurator {
                Some(configurator) => configurator.close(timeout).await,
                // It hangs, or waits for its first configuration: then there is no handler.
                None => close_handlers(&serving, &counted, timeout).await,
            }
        };
        self.components.started_with_reserve(StopStep::Handlers, "handlers", RESERVED, close);
        let begun = Instant::now();
        (Arc::clone(&runtime), FirstConfiguration { applied, task: first, begun, store: waited, runtime })
    }

    /// Waits until the first configuration is published. `readiness` is told what it waits for, and so is the log.
    pub(super) async fn await_configuration(
        &self,
        first: &mut FirstConfiguration,
        readiness: Option<&ProbeEmitter>,
    ) -> Result<(), StartError> {
        let options = self.options;
        let limit = options.config_wait_timeout.to_std_or_zero().saturating_sub(first.begun.elapsed());
        let FirstConfiguration { task, begun, store, runtime, .. } = first;
        let telling = async {
            match readiness {
                Some(readiness) => tell_what_is_awaited(&**store, readiness, *begun).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::time::timeout(limit, async {
            tokio::select! {
                ended = task => ended,
                never = telling => match never {},
            }
        });
        match ended.await {
            Ok(Ok(())) => {
                if options.decisions.is_enabled() {
                    let published = runtime.load();
                    let vocabulary = &published.routes.snapshot().vocabulary;
                    for problem in undeclared_masks(&options.decisions.masks, vocabulary) {
                        tracing::warn!("{problem}");
                    }
                }
                Ok(())
            }
            Ok(Err(ended)) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(ended) => Err(StartError::because("unable to build the configuration", ended)),
            },
            Err(_) => {
                // compat(1.3): the text has no cause.
                let detail = store.availability().err().map(|outage| outage.why);
                Err(StartError { text: format!("exceeded timeout {}", options.config_wait_timeout), detail })
            }
        }
    }

    /// Step 10, second half: follows changes of the store.
    pub(super) fn follow_configuration(
        &mut self,
        configurator: &Arc<Mutex<Option<Configurator>>>,
    ) -> Result<(), StartError> {
        let Some(waiting) = configurator.lock().take() else { return Ok(()) };
        let stop = CancellationToken::new();
        match self.effects.follow_configuration(waiting, stop.clone()) {
            Ok(task) => {
                let back = Arc::clone(configurator);
                self.components.started(StopStep::Configuration, "configuration", async move |limit| {
                    stop.cancel();
                    let (configurator, well) = task.end(limit).await.unzip();
                    *back.lock() = configurator;
                    well.unwrap_or(false)
                });
                Ok(())
            }
            Err((waiting, error)) => {
                *configurator.lock() = Some(*waiting);
                Err(StartError::because("unable to listen", error))
            }
        }
    }
}

/// The first configuration, which a task of its own reads and builds.
pub(super) struct FirstConfiguration {
    /// Where the configurator is once it is published. It does not follow the store yet, and owns the handlers.
    pub(super) applied: Arc<Mutex<Option<Configurator>>>,
    task: JoinHandle<()>,
    begun: Instant,
    store: Arc<dyn ConfigStore>,
    runtime: Arc<Runtime>,
}

impl FirstConfiguration {
    /// Examines what is published as a server does soon after its start.
    pub(super) async fn examine(&self) {
        // A stop meanwhile closes the handlers without it.
        let waiting = self.applied.lock().take();
        if let Some(mut configurator) = waiting {
            configurator.examine().await;
            *self.applied.lock() = Some(configurator);
        }
    }
}

/// Tells what the start waits for: readiness every second, the log after some seconds and then at intervals that double.
async fn tell_what_is_awaited(
    store: &dyn ConfigStore,
    readiness: &ProbeEmitter,
    begun: Instant,
) -> Infallible {
    let url = mask_text(store.url()).into_owned();
    let (mut looks, mut logs_after) = (tokio::time::interval(LOOK), FIRST_LOG);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let why = match store.availability() {
            Err(outage) => mask_text(&outage.why).into_owned(),
            Ok(()) => "it is being read, or its handlers are being built".to_owned(),
        };
        let awaited = format!("waiting for the configuration of {url}: {why}");
        let waited = begun.elapsed();
        if waited >= logs_after {
            tracing::warn!(seconds = waited.as_secs(), "{awaited}");
            logs_after = waited.saturating_mul(2);
        }
        readiness.set(Err(awaited));
    }
}

/// Exports the counters of the check cache.
struct CacheCollector(Arc<CheckCacheCounters>);

impl Collect for CacheCollector {
    fn collect(&self, out: &mut Collected) {
        out.add(Family::CheckCacheHits, &[], self.0.hits() as f64);
        out.add(Family::CheckCacheMisses, &[], self.0.misses() as f64);
        out.add(Family::CheckCacheWrites, &[], self.0.writes() as f64);
        out.add(Family::CheckCacheEvictions, &[], self.0.evictions() as f64);
        out.add(Family::MemoryInUse, &[Purpose::CheckCache.name()], self.0.bytes() as f64);
    }
}
