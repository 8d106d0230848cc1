//! Listeners of a file, as Envoy's `lds_config.path_config_source`: the file is followed, and what changes in it is applied.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use mixer_base::file_stamp::FileStamp;
use mixer_base::regular_file;

use crate::access_log::AccessLogFiles;
use crate::bootstrap::{KnownClusters, ListenerConfig, ListenerResource, ListenerUpdate, read_listeners};
use crate::cluster::xx_hash;
use crate::listener_manager::ListenerManager;
use crate::stats::{Block, LdsStat, Scope, Stats, Value};

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// Time between two looks at the file.
const INTERVAL: Duration = Duration::from_millis(100);
/// A file that is written in place, instead of being replaced, is read once it has not changed for so many looks.
const QUIET_LOOKS: u32 = 5;

/// A listener that was refused.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) name: String,
    pub(crate) document: serde_json::Value,
    pub(crate) at: SystemTime,
    pub(crate) why: String,
}

/// What the admin interface shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accepted {
    /// The last version all of whose listeners were taken.
    pub(crate) version: String,
    /// When; in milliseconds since 1970.
    updated: u64,
    /// Listeners that the last update has, and that were not taken.
    pub(crate) refused: Vec<Refused>,
}

/// The listeners of a file.
#[derive(Debug)]
pub(crate) struct Lds {
    path: PathBuf,
    stats: Arc<Block<LdsStat>>,
    accepted: Arc<Mutex<Accepted>>,
    /// Clusters that listeners may name.
    clusters: KnownClusters,
    looks: Mutex<Looks>,
}

/// What the file was when it was looked at.
#[derive(Debug, Default)]
struct Looks {
    /// When it was read last; `None` if it was not there.
    read: Option<FileStamp>,
    /// At the last look, and how many looks ago it changed.
    seen: (Option<FileStamp>, u32),
}

impl Looks {
    /// Whether the file is to be read: it was replaced, or written to and left alone since.
    fn is_due(&mut self, now: Option<FileStamp>) -> bool {
        let (seen, quiet) = self.seen;
        let quiet = if seen == now { quiet.saturating_add(1) } else { 0 };
        self.seen = (now, quiet);
        let Some(current) = now.filter(|_| now != self.read) else { return false };
        let is_replaced = self.read.is_none_or(|read| !read.same_file(&current));
        if !is_replaced && quiet < QUIET_LOOKS {
            return false;
        }
        self.read = now;
        true
    }
}

impl Lds {
    pub(crate) fn new(path: PathBuf, clusters: KnownClusters, stats: &Stats) -> Self {
        let accepted = Arc::<Mutex<Accepted>>::default();
        let scope = Scope::ListenerManager;
        let of = |read: fn(&Accepted) -> Value| {
            let accepted = Arc::clone(&accepted);
            move || read(&accepted.lock())
        };
        let hash = |accepted: &Accepted| match accepted.version.as_str() {
            "" => 0,
            version => xx_hash(version.as_bytes()),
        };
        let version: fn(&Accepted) -> Value = |accepted| Value::Text(accepted.version.clone());
        stats.computed(&scope, "lds.version_text", of(version));
        stats.computed(&scope, "lds.update_time", of(|accepted| Value::Gauge(accepted.updated)));
        let hashed = Arc::clone(&accepted);
        stats.computed(&scope, "lds.version", move || Value::Gauge(hash(&hashed.lock())));
        let stats = stats.block(&scope);
        Self { path, stats, accepted, clusters, looks: Mutex::default() }
    }

    /// What the admin interface shows.
    pub(crate) fn accepted(&self) -> Accepted {
        self.accepted.lock().clone()
    }

    /// Applies the file as it is at the start. A file that is not there is waited for.
    pub(crate) async fn begin(&self, manager: &Arc<ListenerManager>, logs: &AccessLogFiles) {
        let stamp = self.stamp().await;
        self.looks.lock().read = stamp;
        self.apply_file(manager, logs).await;
    }

    /// Follows the file.
    pub(crate) async fn follow(&self, manager: &Arc<ListenerManager>, logs: &AccessLogFiles) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let stamp = self.stamp().await;
            let is_due = self.looks.lock().is_due(stamp);
            if is_due {
                self.apply_file(manager, logs).await;
            }
        }
    }

    /// The file as it is now; of a link, that which it leads to.
    async fn stamp(&self) -> Option<FileStamp> {
        let metadata = tokio::fs::metadata(&self.path).await.ok()?;
        Some(FileStamp::of(&metadata))
    }

    /// Reads the file and applies it.
    async fn apply_file(&self, manager: &Arc<ListenerManager>, logs: &AccessLogFiles) {
        self.stats.increment(LdsStat::UpdateAttempt);
        let (path, file) = (self.path.clone(), self.path.display().to_string());
        let clusters = self.clusters.clone();
        // Reading blocks, and so does parsing a long file.
        let read = tokio::task::spawn_blocking(move || {
            let text =
                regular_file::read_text(&path, MAX_FILE).map_err(|error| format!("{file}: {error}"))?;
            read_listeners(&text, &file, &clusters)
        });
        let read = read.await.unwrap_or_else(|error| Err(format!("{}: {error}", self.path.display())));
        match read {
            Ok(update) => self.apply(update, manager, logs).await,
            Err(why) => {
                self.stats.increment(LdsStat::UpdateFailure);
                tracing::warn!("Filesystem config update failure: {why}; listeners stay as they are");
            }
        }
    }

    /// Applies an update: removes what it does not have, then adds and updates. What is refused stays as it was.
    pub(crate) async fn apply(
        &self,
        update: ListenerUpdate,
        manager: &Arc<ListenerManager>,
        logs: &AccessLogFiles,
    ) {
        let names: HashSet<&str> = update.listeners.iter().map(|resource| resource.name.as_str()).collect();
        for name in manager.dynamic() {
            if !names.contains(name.as_str()) {
                manager.remove(&name).await;
            }
        }
        let mut refused = Vec::new();
        let mut seen = HashSet::new();
        for ListenerResource { name, document, config } in &update.listeners {
            let outcome = match config {
                Err(why) => Err(why.clone()),
                Ok(_) if !seen.insert(name) => Err(format!("duplicate listener {name} found")),
                Ok(config) => self.apply_one(config, &update.version, manager, logs).await,
            };
            if let Err(why) = outcome {
                tracing::warn!("lds: listener '{name}' config rejected: {why}");
                let (name, document) = (name.clone(), document.clone());
                refused.push(Refused { name, document, at: SystemTime::now(), why });
            }
        }
        logs.close_unused();
        let mut accepted = self.accepted.lock();
        if refused.is_empty() {
            self.stats.increment(LdsStat::UpdateSuccess);
            accepted.version = update.version;
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            accepted.updated = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        } else {
            self.stats.increment(LdsStat::UpdateRejected);
            let why: Vec<String> =
                refused.iter().map(|refused| format!("{}: {}", refused.name, refused.why)).collect();
            tracing::warn!(
                "Filesystem config update rejected: Error adding/updating listener(s) {}; these listeners stay as they are",
                why.join("; ")
            );
        }
        accepted.refused = refused;
    }

    async fn apply_one(
        &self,
        config: &ListenerConfig,
        version: &str,
        manager: &Arc<ListenerManager>,
        logs: &AccessLogFiles,
    ) -> Result<(), String> {
        manager.apply(config.clone(), version, logs).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_read_at_once_and_a_written_one_when_it_is_quiet() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lds.yaml");
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        let stamp = || std::fs::metadata(&path).ok().map(|metadata| FileStamp::of(&metadata));
        let mut looks = Looks::default();
        assert!(!looks.is_due(stamp()), "it is not there");
        write("lds.yaml", "a");
        assert!(looks.is_due(stamp()), "it has come");
        assert!(!looks.is_due(stamp()));
        write("next", "b");
        std::fs::rename(directory.path().join("next"), &path).unwrap();
        assert!(looks.is_due(stamp()), "replaced");
        write("lds.yaml", "longer");
        let due: Vec<bool> = (0..10).map(|_| looks.is_due(stamp())).collect();
        assert_eq!(due.iter().position(|due| *due), Some(5), "{due:?}");
        assert_eq!(due.iter().filter(|due| **due).count(), 1);
        std::fs::remove_file(&path).unwrap();
        assert!(!looks.is_due(stamp()), "a file that is gone changes nothing");
        write("lds.yaml", "again");
        assert!(looks.is_due(stamp()) || (0..10).any(|_| looks.is_due(stamp())));
    }
}
