//! A newer configuration, or a stop, ends the build of the one before it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mixer_base::metrics::Metrics;
use mixer_config::Diagnostics;
use mixer_config::store::{ConfigStore, MemoryStore, StoreContents};
use mixer_engine::adapter::{
    Adapter, AdapterInfo, BoundInstance, BuildError, CheckResult, Commons, Env, Erase, ErasedAdapter,
    HandleCheck, Handler, HandlerError, Instance, Inventory, Reply, SystemClock,
};
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{ConfigPolicy, Configurator, ConfiguratorOptions, OnConfigError, Runtime};
use mixer_engine::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Longer than anything takes here.
const LIMIT: Duration = Duration::from_secs(20);

mixer_config::message! {
    /// Whether the handler is ever built.
    pub struct Params: "test.slow.Params" {
        /// Building never ends.
        1 hangs: bool = false;
        /// Distinguishes versions.
        2 version: i64 = 0;
    }
}

/// Tests of this file that count run one at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
/// A build that never ends has begun.
static HANGS: Notify = Notify::const_new();
/// Handlers that were built, and those of them that were closed.
static BUILT: AtomicUsize = AtomicUsize::new(0);
static CLOSED: AtomicUsize = AtomicUsize::new(0);

struct Slow;

impl Adapter for Slow {
    const INFO: AdapterInfo = AdapterInfo { name: "slow", about: "", templates: &["checknothing"] };
    type Params = Params;

    fn validate(_: &Params, _: &[BoundInstance], _: &mut Diagnostics) {}

    async fn build(params: Params, _: Vec<BoundInstance>, _: Env) -> Result<Box<dyn Handler>, BuildError> {
        if params.hangs {
            // The others are built first.
            tokio::task::yield_now().await;
            HANGS.notify_one();
            std::future::pending::<()>().await;
        }
        BUILT.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Slow))
    }
}

impl Handler for Slow {
    fn as_check(&self) -> Option<&dyn HandleCheck> {
        Some(self)
    }

    fn close(&self, _: Duration) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + '_>> {
        CLOSED.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl HandleCheck for Slow {
    fn check(&self, _: &Instance<'_>) -> Reply<CheckResult> {
        Reply::Ready(Ok(CheckResult::default()))
    }
}

static ERASED: Erase<Slow> = Erase::new();
static ADAPTERS: [&dyn ErasedAdapter; 1] = [&ERASED];

/// Two handlers, of which one may hang, and a rule for each.
fn handlers(hangs: bool, version: u32) -> String {
    let part = |name: &str, params: String| {
        format!(
            "kind: handler
metadata: {{name: {name}, namespace: istio-system}}
spec: {{compiledAdapter: slow, params: {{{params}}}}}
---
kind: rule
metadata: {{name: {name}, namespace: istio-system}}
spec: {{actions: [{{handler: {name}, instances: [i]}}]}}
---
"
        )
    };
    let instance = "kind: instance\nmetadata: {name: i, namespace: istio-system}\nspec: {compiledTemplate: checknothing}\n";
    part("quick", format!("version: {version}")) + &part("slow", format!("hangs: {hangs}")) + instance
}

fn configurator(store: Arc<dyn ConfigStore>, on_error: OnConfigError) -> (Arc<Runtime>, Configurator) {
    let registry = Registry { adapters: Inventory::new(&ADAPTERS), extensions: &[] };
    let builder = SnapshotBuilder::new(SnapshotOptions::new(registry));
    let runtime = Arc::new(Runtime::new(builder.empty(), None));
    let metrics = Arc::new(Metrics::new());
    let environment = HandlerEnvironment {
        clock: Arc::new(SystemClock),
        runtime: tokio::runtime::Handle::current(),
        metrics_port: 0,
        metrics: Arc::clone(&metrics),
        commons: Arc::new(Commons::default()),
        build_timeout: Duration::from_secs(3600),
    };
    let policy = ConfigPolicy { on_error, allow_empty: true, ..ConfigPolicy::default() };
    let options = ConfiguratorOptions { store, environment, metrics, policy };
    (Arc::clone(&runtime), Configurator::new(runtime, builder, options))
}

#[tokio::test]
async fn handlers_that_are_being_built_do_not_delay_a_newer_configuration_or_a_stop() {
    let _alone = ALONE.lock().await;
    let store = Arc::new(MemoryStore::new("memory://", [("a.yaml", handlers(false, 1).as_str())]));
    let (runtime, mut configurator) = configurator(store.clone(), OnConfigError::KeepLast);
    configurator.apply().await;
    let before = (BUILT.load(Ordering::Relaxed), CLOSED.load(Ordering::Relaxed));
    let stop = CancellationToken::new();
    let operator = async {
        let mut publications = runtime.publications();
        store.set([("a.yaml", handlers(true, 2).as_str())]);
        HANGS.notified().await;
        store.set([("a.yaml", handlers(false, 3).as_str())]);
        publications.changed().await.expect("the runtime lives");
        store.set([("a.yaml", handlers(true, 4).as_str())]);
        HANGS.notified().await;
        stop.cancel();
    };
    let both = async { tokio::join!(configurator.run(stop.clone()), operator) };
    assert!(tokio::time::timeout(LIMIT, both).await.is_ok(), "the build goes on");
    let published = runtime.load_full();
    let history = runtime.history().list();
    assert_eq!((history.len(), published.diagnostics.as_slice()), (2, &[][..]), "the first and the third");
    let names: Vec<String> = history[0].changes.iter().map(|change| change.key.to_string()).collect();
    assert_eq!(names, ["quick.handler.istio-system"], "compared with what was published before");
    drop((published, history));
    assert!(configurator.close(LIMIT).await);
    // Versions 2 to 4 of one handler, the first and second version of both.
    let built = BUILT.load(Ordering::Relaxed) - before.0;
    assert_eq!(built, 3);
    assert_eq!(CLOSED.load(Ordering::Relaxed) - before.1, built + 2, "what is built is closed");
}

/// A store that is edited while the configuration is being compiled.
struct Edited {
    memory: MemoryStore,
    /// Questions whether there are news.
    asked: AtomicUsize,
    /// The question at which the edit is there; 0 for one that is there whenever it is asked.
    edit_at: usize,
    news: AtomicBool,
    announced: Notify,
}

impl Edited {
    fn new(text: &str, edit_at: usize) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryStore::new("memory://", [("a.yaml", text)]),
            asked: AtomicUsize::new(0),
            edit_at,
            news: AtomicBool::new(false),
            announced: Notify::new(),
        })
    }

    fn announce(&self) {
        self.news.store(true, Ordering::Relaxed);
        self.announced.notify_one();
    }
}

impl ConfigStore for Edited {
    fn url(&self) -> &str {
        self.memory.url()
    }

    fn contents(&self) -> Arc<StoreContents> {
        self.memory.contents()
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            while !self.news.swap(false, Ordering::Relaxed) {
                self.announced.notified().await;
            }
        })
    }

    fn has_changed(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if self.edit_at == asked {
            self.memory.set([("a.yaml", rules(3, 2).as_str())]);
        }
        if self.edit_at == 0 || self.edit_at == asked {
            self.announce();
        }
        self.news.load(Ordering::Relaxed)
    }
}

/// So many rules; `version` makes each differ.
fn rules(count: usize, version: u32) -> String {
    let rule = |n| {
        format!(
            "kind: rule
metadata: {{name: r{n}, namespace: istio-system}}
spec: {{match: '{version} == {n}', requestHeaderOperations: [{{name: x-mark, values: ['\"v{version}\"']}}]}}
---
"
        )
    };
    (0..count).map(rule).collect()
}

/// Edits 1000 rules while a store behaves so. Returns the number of rules of each publication, newest first, and of questions.
async fn edit(edit_at: usize, on_error: OnConfigError) -> (Vec<usize>, usize) {
    let store = Edited::new(&rules(1, 0), edit_at);
    let (runtime, mut configurator) = configurator(store.clone(), on_error);
    configurator.apply().await;
    assert_eq!(store.asked.load(Ordering::Relaxed), 0, "the first configuration is built to its end");
    store.memory.set([("a.yaml", rules(1000, 1).as_str())]);
    store.announce();
    let stop = CancellationToken::new();
    let operator = async {
        let mut publications = runtime.publications();
        let expected = if edit_at > 0 { 3 } else { 1000 };
        while runtime.load().routes.snapshot().counts.rule_configs != expected {
            publications.changed().await.expect("the runtime lives");
        }
        stop.cancel();
    };
    let both = async { tokio::join!(configurator.run(stop.clone()), operator) };
    assert!(tokio::time::timeout(LIMIT * 3, both).await.is_ok(), "{edit_at} {on_error:?}");
    let rules = runtime.history().list().iter().map(|entry| entry.tally.rules).collect();
    (rules, store.asked.load(Ordering::Relaxed))
}

#[tokio::test]
async fn rules_that_are_being_compiled_do_not_delay_a_newer_configuration() {
    let (published, _) = edit(5, OnConfigError::KeepLast).await;
    assert_eq!(published, [3, 1], "the 1000 rules in between were left");
    let (published, asked) = edit(0, OnConfigError::KeepLast).await;
    assert_eq!(published, [1000, 1], "a store that changes all the time is served some time");
    assert!(asked < 100, "{asked}");
    // The builder of serve-valid keeps what does not convert: it is not interrupted.
    let (published, _) = edit(0, OnConfigError::ServeValid).await;
    assert_eq!(published, [1000, 1]);
}
