//! A server's engine on files in memory, with a virtual clock, that can be restarted: for tests of broken configuration.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mixer_adapters::AdapterOptions;
use mixer_api::MixerService;
use mixer_api::grpc::Code;
use mixer_api::proto::istio::mixer::v1::CheckResponse;
use mixer_attribute::request::{CheckCall, encode_check_request};
use mixer_attribute::{OwnedAttributes, OwnedValue};
use mixer_base::metrics::Metrics;
use mixer_config::store::{Broken, ConfigStore, MemoryStore, Reading, StoreContents};
use mixer_config::{Diagnostic, FieldPath};
use mixer_engine::adapter::{Clock, Commons};
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{
    CacheMedium, ConfigPolicy, Configurator, ConfiguratorOptions, HistoryEntry, OnConfigError, Published,
    Runtime,
};
use mixer_engine::snapshot::{Registry, SnapshotBuilder, SnapshotOptions};
use mixer_expr::Language;
use parking_lot::Mutex;
use prost::Message as _;
use tokio_util::sync::CancellationToken;

/// The directory.
const ROOT: &str = "/conf";

/// Virtual time for what should be over long before.
const HOUR: Duration = Duration::from_secs(3600);

/// The answer to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Allowed,
    Denied,
    /// The call failed: no configuration serves.
    Unavailable,
    /// The call failed otherwise.
    Failed,
}

/// Files in memory; some of them cannot be read, and keep what was read of them before.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Files {
    pub(crate) texts: BTreeMap<String, String>,
    /// Files and directories that cannot be read.
    pub(crate) unreadable: Vec<String>,
    /// Files that are being written: the last contents stay in effect, and it is unknown what they are going to have.
    pub(crate) changing: Vec<String>,
    /// Directories that have been empty since the start.
    pub(crate) always_empty: Vec<String>,
    /// Directories that have had other files than configuration since the start.
    pub(crate) always_bare: Vec<String>,
    /// Files that are not read because of their names.
    pub(crate) misnamed: BTreeMap<String, String>,
    /// How often a source that was connected again had less than before.
    pub(crate) lapses: u64,
    /// The whole directory cannot be read: the store keeps what it had.
    pub(crate) lost: bool,
    /// The store failed at its first read.
    pub(crate) failed: bool,
}

impl Files {
    pub(crate) fn put(&mut self, file: &str, text: impl Into<String>) {
        self.texts.insert(file.to_owned(), text.into());
    }

    /// A rule with one handler of `adapter`, whose parameter `version` distinguishes configurations. `annotations` are those of the rule.
    pub(crate) fn of_one_handler(adapter: &str, version: u32, annotations: &str) -> Self {
        let mut files = Self::default();
        let text = format!(
            "kind: handler
metadata: {{name: h, namespace: istio-system}}
spec: {{compiledAdapter: {adapter}, params: {{version: {version}}}}}
---
kind: instance
metadata: {{name: i, namespace: istio-system}}
spec: {{compiledTemplate: checknothing}}
---
kind: rule
metadata: {{name: r, namespace: istio-system, annotations: {{{annotations}}}}}
spec: {{actions: [{{handler: h, instances: [i]}}]}}
"
        );
        files.put("/conf/all.yaml", text);
        files
    }

    pub(crate) fn remove(&mut self, file: &str) {
        self.texts.remove(file);
    }

    /// What a store reads: a file that cannot be read has the text of `known`, which is updated.
    fn read(&self, before: Option<&StoreContents>, known: &mut BTreeMap<String, String>) -> StoreContents {
        self.read_as(Reading::default(), before, known)
    }

    /// As a store [`read`](Self::read)s that does so in another way.
    pub(crate) fn read_as(
        &self,
        reading: Reading,
        before: Option<&StoreContents>,
        known: &mut BTreeMap<String, String>,
    ) -> StoreContents {
        if self.failed {
            let unavailable = Some("reading the configuration failed: panic".to_owned());
            return StoreContents { unavailable, ..StoreContents::default() };
        }
        let mut contents = match before.filter(|_| self.lost) {
            // The contents as they were, and the problem of the directory anew.
            Some(before) => {
                let mut contents = StoreContents { unavailable: None, ..before.clone() };
                contents.broken.retain(|broken| &*broken.file != ROOT);
                contents.diagnostics.retain(|problem| problem.file.as_deref() != Some(ROOT));
                contents
            }
            None if self.lost => StoreContents::default(),
            None => {
                let is_held = |file: &String| self.unreadable.contains(file) || self.changing.contains(file);
                known.retain(|file, _| is_held(file));
                let readable = self.texts.iter().filter(|(file, _)| !is_held(file));
                known.extend(readable.map(|(file, text)| (file.clone(), text.clone())));
                let files = known.iter().map(|(file, text)| (file.as_str(), text.as_str()));
                StoreContents::clone(&MemoryStore::reading("memory://", reading, files).contents())
            }
        };
        let shown = |paths: &[String]| paths.iter().map(|path| path.as_str().into()).collect();
        (contents.always_empty, contents.always_bare) = (shown(&self.always_empty), shown(&self.always_bare));
        let misnamed = self.misnamed.iter().map(|(file, text)| (file.as_str(), text.as_str()));
        let misnamed = MemoryStore::reading("memory://", reading, misnamed).contents();
        let misnamed =
            misnamed.resources.iter().map(|found| (found.key.clone(), Arc::clone(&found.origin.file)));
        (contents.misnamed, contents.lapses) = (misnamed.collect(), self.lapses);
        let changing = self.changing.iter().filter(|file| !self.lost && !self.unreadable.contains(file));
        let (changing, new): (Vec<_>, Vec<_>) = changing.partition(|file| known.contains_key(*file));
        contents.changing = changing.into_iter().map(|file| file.as_str().into()).collect();
        let unreadable = self.unreadable.iter().chain(new).map(String::as_str).filter(|_| !self.lost);
        for path in unreadable.chain(self.lost.then_some(ROOT)) {
            let text = format!("open {path}: permission denied");
            let mut problem = Diagnostic::error("store-unreadable", FieldPath::root(), text.clone());
            problem.file = Some(path.into());
            let keeps_last = contents.resources.iter().any(|r| Path::new(&*r.origin.file).starts_with(path));
            let (file, problem) = (path.into(), problem.clone());
            let broken =
                Broken { file, document: None, text: "".into(), problem: problem.clone(), keeps_last };
            contents.broken.push(broken);
            contents.diagnostics.push(problem);
            contents.unavailable.get_or_insert(text);
        }
        contents
    }
}

struct StageStore {
    contents: Mutex<Arc<StoreContents>>,
    /// The text of each file as last read.
    known: Mutex<BTreeMap<String, String>>,
    /// Nothing was read yet: the file system hangs.
    hangs: AtomicBool,
    /// When something last happened.
    touched: Mutex<Option<std::time::Instant>>,
}

impl ConfigStore for StageStore {
    fn url(&self) -> &str {
        "memory://stage"
    }

    fn contents(&self) -> Arc<StoreContents> {
        Arc::clone(&self.contents.lock())
    }

    fn loaded(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match self.hangs.load(Ordering::Relaxed) {
            true => Box::pin(std::future::pending()),
            false => Box::pin(std::future::ready(())),
        }
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    fn touched(&self) -> Option<std::time::Instant> {
        *self.touched.lock()
    }
}

/// A clock that tests move.
#[derive(Default)]
pub(crate) struct StageClock(AtomicU64);

impl Clock for StageClock {
    fn unix_time(&self) -> Duration {
        Duration::from_secs(1_700_000_000 + self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.unix_time()
    }
}

/// A cache that outlives the engine.
#[derive(Default)]
pub(crate) struct StageCache {
    pub(crate) bytes: Mutex<Option<Vec<u8>>>,
    /// The disk has no room.
    is_full: AtomicBool,
    /// It was written since [`take_written`](Self::take_written).
    is_written: AtomicBool,
    /// Called after each write.
    watch: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl StageCache {
    /// Fills the disk, or makes room again.
    pub(crate) fn toggle_full(&self) {
        self.is_full.fetch_xor(true, Ordering::Relaxed);
    }

    /// Loses what was written.
    pub(crate) fn clear(&self) {
        *self.bytes.lock() = None;
    }

    /// Calls `watch` after each write.
    pub(crate) fn watch(&self, watch: impl Fn() + Send + 'static) {
        *self.watch.lock() = Some(Box::new(watch));
    }

    /// Whether it was written since the last call.
    pub(crate) fn take_written(&self) -> bool {
        self.is_written.swap(false, Ordering::Relaxed)
    }
}

impl CacheMedium for StageCache {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.bytes.lock().clone())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *self.bytes.lock() = Some(bytes.to_vec());
        self.is_written.store(true, Ordering::Relaxed);
        if let Some(watch) = &*self.watch.lock() {
            watch();
        }
        Ok(())
    }

    fn discard(&self) -> io::Result<()> {
        self.clear();
        Ok(())
    }

    fn name(&self) -> String {
        "cache".to_owned()
    }
}

/// The cache as one process has it, which writes nothing once it was killed.
struct CacheOfProcess {
    cache: Arc<StageCache>,
    /// Held while it writes.
    is_alive: Mutex<bool>,
}

impl CacheMedium for CacheOfProcess {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        self.cache.read()
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match *self.is_alive.lock() {
            true => self.cache.write(bytes),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn discard(&self) -> io::Result<()> {
        match *self.is_alive.lock() {
            true => self.cache.discard(),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn name(&self) -> String {
        self.cache.name()
    }
}

/// The engine of one process.
struct Process {
    store: Arc<StageStore>,
    runtime: Arc<Runtime>,
    metrics: Arc<Metrics>,
    service: MixerService,
    configurator: Configurator,
    life: Life,
}

/// Ends with the process.
struct Life(Option<Arc<CacheOfProcess>>);

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(cache) = &self.0 {
            *cache.is_alive.lock() = false;
        }
    }
}

/// An engine on files in memory.
pub(crate) struct Stage {
    background: tokio::runtime::Runtime,
    clock: Arc<StageClock>,
    pub(crate) cache: Arc<StageCache>,
    policy: OnConfigError,
    uses_cache: bool,
    pub(crate) allow_empty: bool,
    /// The default namespace, also written in place of `istio-system` in the files.
    pub(crate) namespace: String,
    /// The value of `--config-default-namespace`, if it is another one than the files have.
    pub(crate) named_namespace: Option<String>,
    /// The language of all expressions, if it is set.
    pub(crate) language: Option<Language>,
    /// The adapters and kinds.
    registry: Registry,
    /// The time of the configurator, which passes only in [`run_until`](Self::run_until).
    ran: Duration,
    process: Option<Process>,
}

impl Stage {
    pub(crate) fn new(policy: OnConfigError, uses_cache: bool) -> Self {
        Self {
            background: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap(),
            clock: Arc::default(),
            cache: Arc::default(),
            policy,
            uses_cache,
            allow_empty: false,
            namespace: "istio-system".to_owned(),
            named_namespace: None,
            language: None,
            registry: mixer_server::REGISTRY,
            ran: Duration::ZERO,
            process: None,
        }
    }

    /// A stage whose configurator is on virtual time, with these adapters and kinds.
    pub(crate) fn on_virtual_time(policy: OnConfigError, registry: Registry) -> Self {
        let background =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        Self { background: background.unwrap(), registry, ..Self::new(policy, false) }
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Starts a process on these files; one that runs is killed first.
    pub(crate) fn start(&mut self, files: &Files) {
        self.prepare(files, false);
        self.apply();
    }

    /// As [`start`](Self::start) while the file system of the store hangs. False if that waits for an hour.
    pub(crate) fn start_hanging(&mut self) -> bool {
        self.prepare(&Files { lost: true, ..Files::default() }, true);
        let process = self.process.as_mut().expect("it is started");
        let first = async { tokio::time::timeout(HOUR, process.configurator.apply()).await.is_ok() };
        self.background.block_on(first)
    }

    /// Waits, at most an hour, until no more than `count` tasks run in the background.
    pub(crate) fn tasks_end(&self, count: usize) -> bool {
        let metrics = self.background.metrics();
        let ended = async {
            while metrics.num_alive_tasks() > count {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        self.background.block_on(async { tokio::time::timeout(HOUR, ended).await.is_ok() })
    }

    fn prepare(&mut self, files: &Files, hangs: bool) {
        self.process = None;
        let metrics = Arc::new(Metrics::new());
        let builder = SnapshotBuilder::new(SnapshotOptions {
            default_namespace: self.named_namespace.as_ref().unwrap_or(&self.namespace).as_str().into(),
            language: self.language,
            ..SnapshotOptions::new(self.registry)
        });
        let runtime = Arc::new(Runtime::new(builder.empty(), None));
        let mut known = BTreeMap::new();
        let store = Arc::new(StageStore {
            contents: Mutex::new(Arc::new(self.placed(files).read(None, &mut known))),
            known: Mutex::new(known),
            hangs: AtomicBool::new(hangs),
            touched: Mutex::default(),
        });
        let cache = self
            .uses_cache
            .then(|| Arc::new(CacheOfProcess { cache: Arc::clone(&self.cache), is_alive: Mutex::new(true) }));
        let commons = Commons::default();
        commons.insert(Arc::new(AdapterOptions { as_istio_mixer: self.policy == OnConfigError::ServeValid }));
        let options = ConfiguratorOptions {
            store: store.clone(),
            environment: HandlerEnvironment {
                clock: self.clock.clone(),
                runtime: self.background.handle().clone(),
                metrics_port: 0,
                metrics: Arc::clone(&metrics),
                commons: Arc::new(commons),
                build_timeout: Duration::from_secs(10),
            },
            metrics: Arc::clone(&metrics),
            policy: ConfigPolicy {
                on_error: self.policy,
                allow_empty: self.allow_empty,
                cache: cache.clone().map(|cache| cache as Arc<dyn CacheMedium>),
                ..ConfigPolicy::default()
            },
        };
        let configurator = Configurator::new(Arc::clone(&runtime), builder, options);
        let service = MixerService::new(Arc::clone(&runtime), Arc::clone(&metrics), Arc::default(), None);
        self.process = Some(Process { store, runtime, metrics, service, configurator, life: Life(cache) });
    }

    /// Runs the configurator until this time, which passes as soon as there is nothing to do.
    pub(crate) fn run_until(&mut self, time: Duration) {
        let process = self.process.as_mut().expect("it is started");
        let takes = time.saturating_sub(self.ran);
        self.ran = time;
        self.background.block_on(async {
            let stop = CancellationToken::new();
            let run = process.configurator.run(stop.clone());
            let until = async {
                tokio::time::sleep(takes).await;
                stop.cancel();
            };
            // What was written to the cache is published, too.
            tokio::join!(run, until);
        });
    }

    /// As [`run_until`](Self::run_until), for so long.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.run_until(self.ran + time);
        let process = self.process.as_ref().expect("it is started");
        self.background.block_on(process.configurator.flush_cache());
    }

    /// The files in the namespace of this engine.
    fn placed(&self, files: &Files) -> Files {
        let mut files = files.clone();
        let texts = files.texts.values_mut().chain(files.misnamed.values_mut());
        texts.for_each(|text| *text = text.replace("istio-system", &self.namespace));
        files
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Stops the process in order.
    pub(crate) fn stop(&mut self) {
        if let Some(Process { configurator, life: _life, .. }) = self.process.take() {
            assert!(self.background.block_on(configurator.close(Duration::from_secs(5))));
        }
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it is started")
    }

    /// Serves these files.
    pub(crate) fn change(&mut self, files: &Files) {
        let store = &self.process().store;
        let before = store.contents();
        let read = self.placed(files).read(Some(&before), &mut store.known.lock());
        *store.contents.lock() = Arc::new(read);
        store.hangs.store(false, Ordering::Relaxed);
        self.apply();
    }

    /// Something happens that changes no resource.
    pub(crate) fn touch(&self) {
        let now = self.background.block_on(async { tokio::time::Instant::now().into_std() });
        *self.process().store.touched.lock() = Some(now);
    }

    fn apply(&mut self) {
        let process = self.process.as_mut().expect("it is started");
        self.background.block_on(async {
            process.configurator.apply().await;
            process.configurator.flush_cache().await;
        });
    }

    /// Examines what is published.
    pub(crate) fn examine(&mut self) {
        let process = self.process.as_mut().expect("it is started");
        self.background.block_on(process.configurator.examine());
    }

    /// The metrics of the process.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.process().metrics)
    }

    /// The tables of the process.
    pub(crate) fn runtime(&self) -> Arc<Runtime> {
        Arc::clone(&self.process().runtime)
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        self.process().runtime.load_full()
    }

    /// The versions that were dealt with, newest first.
    pub(crate) fn history(&self) -> Vec<Arc<HistoryEntry>> {
        self.process().runtime.history().list()
    }

    /// `KEY: WHY` of every resource that serves in its previous version.
    pub(crate) fn kept(&self) -> Vec<String> {
        self.published().kept.iter().map(|kept| format!("{}: {}", kept.key, kept.why)).collect()
    }

    /// A check of a user.
    pub(crate) fn check(&self, user: &str) -> Answer {
        self.check_at(user, None)
    }

    /// A check of a user at a path.
    pub(crate) fn check_at(&self, user: &str, path: Option<&str>) -> Answer {
        let path = path.map(|path| ("request.path", path));
        self.check_with([("source.user", user)].into_iter().chain(path))
    }

    /// A check of a request with these attributes.
    pub(crate) fn check_with<'a>(&self, texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Answer {
        let mut attributes = OwnedAttributes::new();
        for (name, text) in texts {
            attributes.insert(name, OwnedValue::String(text.into()));
        }
        let call = CheckCall { deduplication_id: "", quotas: BTreeMap::new() };
        let body = encode_check_request(&attributes, 0, &call);
        match self.background.block_on(self.process().service.check(body.into(), None)) {
            Err(error) if error.code == Code::Unavailable => Answer::Unavailable,
            Err(_) => Answer::Failed,
            Ok(framed) => {
                let answer = CheckResponse::decode(framed.slice(5..)).unwrap();
                match answer.precondition.unwrap_or_default().status.unwrap_or_default().code {
                    0 => Answer::Allowed,
                    _ => Answer::Denied,
                }
            }
        }
    }
}
