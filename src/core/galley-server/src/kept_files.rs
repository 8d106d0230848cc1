//! The files that were published last, on a disk: the cache of a policy server, with the files of galley.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;

use mixer_base::metrics::Metrics;
use mixer_base::time::Timestamp;
use mixer_engine::runtime::{CacheDirectory, CacheIdentity, ConfigCache, Served};
use mixer_galley::keeper::{Documents, Earlier, Keeper};
use mixer_galley::source::files::Files;

use crate::options::HostOptions;

/// How long a start waits for the cache.
const PATIENCE: Duration = Duration::from_secs(3);

/// The cache of the files at `--config-path`, in `--config-cache`.
pub(crate) struct KeptFiles {
    cache: ConfigCache,
    metrics: Arc<Metrics>,
}

impl KeptFiles {
    /// `None` if the settings name no directory for it.
    pub(crate) fn of(options: &HostOptions, metrics: &Arc<Metrics>) -> Option<Arc<Self>> {
        let is_used = !options.config_cache.as_os_str().is_empty() && options.processing.keeps_last;
        is_used.then(|| Arc::new(Self::new(&options.config_cache, options, metrics)))
    }

    fn new(directory: &Path, options: &HostOptions, metrics: &Arc<Metrics>) -> Self {
        let path = options.config_path.display().to_string();
        let identity = CacheIdentity::of_files(&path, Files::reading(options.processing.face));
        let medium = Arc::new(CacheDirectory(directory.to_owned()));
        Self { cache: ConfigCache::new(medium, identity), metrics: Arc::clone(metrics) }
    }

    /// Why the cache is not what it should be.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.cache.trouble()
    }

    /// Ends the attempts to write what cannot be written, and waits for the last one.
    pub(crate) async fn close(&self) {
        self.cache.close().await;
    }
}

impl std::fmt::Debug for KeptFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptFiles").finish_non_exhaustive()
    }
}

impl Keeper for KeptFiles {
    fn load(&self) -> BoxFuture<'_, Result<Option<Earlier>, String>> {
        Box::pin(async {
            let cached = self.cache.load(PATIENCE).await;
            if let Some(mismatch) = self.cache.mismatch() {
                tracing::error!("{}", mismatch.brief());
                return Err(mismatch.brief());
            }
            if let Some(trouble) = self.cache.trouble() {
                tracing::warn!("{trouble}");
            }
            Ok(cached.map(|cached| Earlier {
                documents: cached.resources().clone(),
                written: cached.written.rfc3339_micros().to_string(),
            }))
        })
    }

    fn keep(&self, documents: Documents) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let now = Timestamp::from_system_time(SystemTime::now());
            let runtime = tokio::runtime::Handle::current();
            self.cache.save(Served::of(documents), now, &runtime, &self.metrics).await;
        })
    }
}
