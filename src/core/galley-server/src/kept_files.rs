//! The files that were published last, on a disk: the cache of a policy server, with the files of galley.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;

use mixer_base::metrics::Metrics;
use mixer_base::time::Timestamp;
use mixer_engine::runtime::{CacheDirectory, CacheIdentity, CacheMedium, ConfigCache, Served};
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
        Self::on(Arc::new(CacheDirectory(directory.to_owned())), options, metrics)
    }

    fn on(medium: Arc<dyn CacheMedium>, options: &HostOptions, metrics: &Arc<Metrics>) -> Self {
        let path = options.config_path.display().to_string();
        let identity = CacheIdentity::of_files(&path, Files::reading(options.processing.face));
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
            // A sink may have what was published last.
            let cached = self.cache.load_last(PATIENCE).await;
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use mixer_config::Origin;
    use mixer_config::store::read_document_as;

    /// A directory whose file system may have become read-only.
    struct Disk {
        directory: CacheDirectory,
        is_read_only: AtomicBool,
    }

    impl Disk {
        fn check(&self) -> io::Result<()> {
            match self.is_read_only.load(Ordering::Relaxed) {
                true => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
                false => Ok(()),
            }
        }
    }

    impl CacheMedium for Disk {
        fn read(&self) -> io::Result<Option<Vec<u8>>> {
            self.directory.read()
        }

        fn write(&self, bytes: &[u8]) -> io::Result<()> {
            self.check().and_then(|()| self.directory.write(bytes))
        }

        fn discard(&self) -> io::Result<()> {
            self.check().and_then(|()| self.directory.discard())
        }

        fn check_replaceable(&self) -> io::Result<()> {
            self.check().and_then(|()| self.directory.check_replaceable())
        }

        fn name(&self) -> String {
            self.directory.name()
        }
    }

    fn rule(name: &str) -> Documents {
        let text = format!(
            "apiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: {name}, namespace: ns}}\nspec: {{}}"
        );
        let origin = Origin { file: "rule.yaml".into(), text: text.into(), first_line: 1 };
        let read = read_document_as(Files::reading(HostOptions::default().processing.face), origin);
        [read.expect("one document")].into_iter().collect()
    }

    #[tokio::test]
    async fn what_may_not_be_the_last_is_not_published() {
        let directory = tempfile::tempdir().unwrap();
        let place = CacheDirectory(directory.path().join("cache"));
        let disk = Arc::new(Disk { directory: place, is_read_only: AtomicBool::new(false) });
        let options = HostOptions { config_path: "conf".into(), ..HostOptions::default() };
        let start = || KeptFiles::on(Arc::clone(&disk) as _, &options, &Arc::new(Metrics::new()));
        let kept = start();
        assert!(kept.load().await.unwrap().is_none(), "nothing was published");
        kept.keep(rule("a")).await;
        drop(kept);
        let kept = start();
        assert_eq!(kept.load().await.unwrap().map(|earlier| earlier.documents.len()), Some(1));
        disk.is_read_only.store(true, Ordering::Relaxed);
        kept.keep(rule("b")).await;
        drop(kept);
        let kept = start();
        assert!(kept.load().await.unwrap().is_none(), "`b` was published after it");
        let trouble = kept.trouble().unwrap();
        assert!(
            trouble.contains("cannot be written") && trouble.contains("may be older than what was published"),
            "{trouble}"
        );
        kept.keep(rule("c")).await;
        assert!(kept.trouble().is_some());
        disk.is_read_only.store(false, Ordering::Relaxed);
        kept.keep(rule("c")).await;
        assert_eq!(kept.trouble(), None);
        drop(kept);
        assert!(start().load().await.unwrap().is_some());
    }
}
