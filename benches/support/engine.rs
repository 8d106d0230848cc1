//! The engine in process: from request bytes to response bytes, without a network.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use mixer_api::MixerService;
use mixer_api::grpc::GrpcError;
use mixer_base::metrics::Metrics;
use mixer_config::store::MemoryStore;
use mixer_engine::adapter::{Commons, SystemClock};
use mixer_engine::check_cache::CheckCacheLimits;
use mixer_engine::dispatch::LastKnownAnswers;
use mixer_engine::handler::HandlerEnvironment;
use mixer_engine::runtime::{ConfigPolicy, Configurator, ConfiguratorOptions, Runtime};
use mixer_engine::snapshot::{SnapshotBuilder, SnapshotOptions};

/// A configuration file: name and text.
pub(crate) type File = (String, String);

/// A serving engine.
pub(crate) struct Engine {
    /// Answers calls.
    pub(crate) service: MixerService,
    /// Runs the background tasks of handlers.
    _background: tokio::runtime::Runtime,
}

impl Engine {
    /// An engine on these files, with a check cache or without.
    pub(crate) fn start(files: &[File], cache: bool) -> Engine {
        let background = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let background = background.expect("threads can be started");
        let metrics = Arc::new(Metrics::new());
        let builder = SnapshotBuilder::new(SnapshotOptions::new(mixer_server::REGISTRY));
        let limits = cache.then_some(CheckCacheLimits { entries: 100_000, bytes: 64 << 20 });
        let runtime = Arc::new(Runtime::new(builder.empty(), limits));
        let files = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let options = ConfiguratorOptions {
            store: Arc::new(MemoryStore::new("memory://bench", files)),
            environment: HandlerEnvironment {
                clock: Arc::new(SystemClock),
                runtime: background.handle().clone(),
                metrics_port: 0,
                metrics: Arc::clone(&metrics),
                commons: Arc::new(Commons::default()),
                build_timeout: Duration::from_secs(10),
            },
            metrics: Arc::clone(&metrics),
            policy: ConfigPolicy::serve_valid(),
        };
        let mut configurator = Configurator::new(Arc::clone(&runtime), builder, options);
        background.block_on(configurator.apply());
        let problems = &runtime.load_full().diagnostics;
        assert!(problems.is_empty(), "{:?}", problems.first());
        let service = MixerService::new(runtime, metrics, Arc::new(LastKnownAnswers::default()), None);
        Engine { service, _background: background }
    }
}

/// The answer to a call that waits for nothing but its turn, as a long report does, or one whose thread had to wait for its core.
pub(crate) fn answered(call: impl Future<Output = Result<Bytes, GrpcError>>) -> Bytes {
    const TURNS: usize = 1000;
    let mut call = std::pin::pin!(call);
    let answer = (0..TURNS).find_map(|_| call.as_mut().now_or_never());
    answer.expect("nothing waits").expect("a good answer")
}

/// Files below `testdata`.
pub(crate) fn testdata(names: &[&str]) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let read = |name: &&str| ((*name).to_owned(), std::fs::read_to_string(root.join(name)).expect("a file"));
    names.iter().map(read).collect()
}
