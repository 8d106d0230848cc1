//! Listeners of a file, as Envoy's `lds_config.path_config_source`: the file is followed, and what changes in it is applied.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use mixer_base::file_stamp::FileStamp;
use mixer_base::file_writer::{Writer, writer_of};
use mixer_base::regular_file;

use crate::access_log::AccessLogFiles;
use crate::bootstrap::{KnownClusters, ListenerResource, ListenerUpdate, read_listeners};
use crate::cluster::xx_hash;
use crate::listener_manager::ListenerManager;
use crate::stats::{Block, LdsStat, Scope, Stats, Value};

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// Time between two looks at the file.
const INTERVAL: Duration = Duration::from_millis(100);
/// A file that is written in place, or of which the system does not tell whether it is being written, is read once it has not changed for so
/// many looks.
const QUIET_LOOKS: u32 = 5;
/// After so many looks at a file that does not change and that its writer has not closed, the log says so.
const PATIENCE: u32 = 100;

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
    /// Of it as it was written; 0 of an empty one.
    version_hash: u64,
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
    /// How many looks ago a file changed that is to be read: it was replaced, or written to and left alone since.
    fn due(&mut self, now: Option<FileStamp>) -> Option<u32> {
        let (seen, quiet) = self.seen;
        let quiet = if seen == now { quiet.saturating_add(1) } else { 0 };
        self.seen = (now, quiet);
        let current = now.filter(|_| now != self.read)?;
        let is_replaced = self.read.is_none_or(|read| !read.same_file(&current));
        (is_replaced || quiet >= QUIET_LOOKS).then_some(quiet)
    }
}

/// Reads a file, if it is a version that its writer has completed. `quiet`: how many looks ago it changed. `None`: it is to be read later.
///
/// Errors: those of reading, with the path.
fn read_complete(path: &Path, quiet: u32) -> Result<Option<(String, FileStamp)>, String> {
    let name = |error: std::io::Error| format!("{}: {error}", path.display());
    let (file, metadata) = match regular_file::open(path) {
        // A process that is about to change it holds a lease.
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
        opened => opened.map_err(name)?,
    };
    let stamp = FileStamp::of(&metadata);
    let lease = match writer_of(&file) {
        Writer::Open => {
            if quiet == PATIENCE {
                tracing::warn!(
                    "{}: listeners are read once its writer has closed it: write to another file and rename it",
                    path.display()
                );
            }
            return Ok(None);
        }
        Writer::Unknown if quiet < QUIET_LOOKS => return Ok(None),
        Writer::Unknown => None,
        Writer::None(lease) => Some(lease),
    };
    let bytes = regular_file::read_open(&file, &metadata, MAX_FILE).map_err(name)?;
    let after = FileStamp::of(&file.metadata().map_err(name)?);
    drop(lease);
    if after != stamp {
        return Ok(None);
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("{}: stream did not contain valid UTF-8", path.display()))?;
    Ok(Some((text, stamp)))
}

impl Lds {
    pub(crate) fn new(path: PathBuf, clusters: KnownClusters, stats: &Stats) -> Self {
        let accepted = Arc::<Mutex<Accepted>>::default();
        let scope = Scope::ListenerManager;
        let of = |read: fn(&Accepted) -> Value| {
            let accepted = Arc::clone(&accepted);
            move || read(&accepted.lock())
        };
        let version: fn(&Accepted) -> Value = |accepted| Value::Text(accepted.version.clone());
        stats.computed(&scope, "lds.version_text", of(version));
        stats.computed(&scope, "lds.update_time", of(|accepted| Value::Gauge(accepted.updated)));
        stats.computed(&scope, "lds.version", of(|accepted| Value::Gauge(accepted.version_hash)));
        let stats = stats.block(&scope);
        Self { path, stats, accepted, clusters, looks: Mutex::default() }
    }

    /// What the admin interface shows.
    pub(crate) fn accepted(&self) -> Accepted {
        self.accepted.lock().clone()
    }

    /// Applies the file as it is at the start. A file that is not there, or is being written, is waited for.
    pub(crate) async fn begin(&self, manager: &Arc<ListenerManager>, logs: &AccessLogFiles) {
        self.apply_file(0, manager, logs).await;
    }

    /// Follows the file.
    pub(crate) async fn follow(&self, manager: &Arc<ListenerManager>, logs: &AccessLogFiles) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let stamp = self.stamp().await;
            let due = self.looks.lock().due(stamp);
            if let Some(quiet) = due {
                self.apply_file(quiet, manager, logs).await;
            }
        }
    }

    /// The file as it is now; of a link, that which it leads to.
    async fn stamp(&self) -> Option<FileStamp> {
        let metadata = tokio::fs::metadata(&self.path).await.ok()?;
        Some(FileStamp::of(&metadata))
    }

    /// Reads the file and applies it, unless it is being written. `quiet`: how many looks ago it changed.
    async fn apply_file(&self, quiet: u32, manager: &Arc<ListenerManager>, logs: &AccessLogFiles) {
        let (path, clusters) = (self.path.clone(), self.clusters.clone());
        // Reading blocks, and so does parsing a long file.
        let read = tokio::task::spawn_blocking(move || {
            let read = read_complete(&path, quiet).transpose()?;
            let stamp = read.as_ref().ok().map(|(_, stamp)| *stamp);
            let update =
                read.and_then(|(text, _)| read_listeners(&text, &path.display().to_string(), &clusters));
            Some((stamp, update))
        });
        let failed = |error| Some((None, Err(format!("{}: {error}", self.path.display()))));
        let Some((stamp, update)) = read.await.unwrap_or_else(failed) else { return };
        self.stats.increment(LdsStat::UpdateAttempt);
        {
            // What cannot be read is tried again when it changes.
            let mut looks = self.looks.lock();
            looks.read = stamp.or(looks.seen.0);
        }
        match update {
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
        // As with Envoy, a listener without a name is removed, and is another one now.
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
                Ok(config) => manager.apply(config.clone(), &update.version, logs).await,
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
            accepted.version_hash = match update.written_version.as_bytes() {
                b"" => 0,
                version => xx_hash(version),
            };
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
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_replaced_file_is_read_at_once_and_a_written_one_when_it_is_quiet() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lds.yaml");
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        let mut looks = Looks::default();
        let mut is_due = || {
            let stamp = std::fs::metadata(&path).ok().map(|metadata| FileStamp::of(&metadata));
            let read = looks.due(stamp).and_then(|quiet| read_complete(&path, quiet).unwrap());
            looks.read = read.as_ref().map(|(_, stamp)| *stamp).or(looks.read);
            read.is_some()
        };
        assert!(!is_due(), "it is not there");
        write("lds.yaml", "a");
        assert!(is_due(), "it has come");
        assert!(!is_due());
        write("next", "b");
        std::fs::rename(directory.path().join("next"), &path).unwrap();
        assert!(is_due(), "replaced");
        write("lds.yaml", "longer");
        let due: Vec<bool> = (0..10).map(|_| is_due()).collect();
        assert_eq!(due.iter().position(|due| *due), Some(5), "{due:?}");
        assert_eq!(due.iter().filter(|due| **due).count(), 1);
        std::fs::remove_file(&path).unwrap();
        assert!(!is_due(), "a file that is gone changes nothing");
        write("lds.yaml", "again");
        assert!(is_due() || (0..10).any(|_| is_due()));
    }

    #[test]
    fn a_file_is_read_once_its_writer_has_closed_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lds.yaml");
        let read = |quiet| read_complete(&path, quiet).unwrap().map(|(text, _)| text);
        for quiet in [0, QUIET_LOOKS, PATIENCE] {
            let mut writer = std::fs::File::create(&path).unwrap();
            writer.write_all(b"half").unwrap();
            assert_eq!(read(quiet), None, "{quiet}");
            writer.write_all(b" and half").unwrap();
            drop(writer);
            assert_eq!(read(quiet).as_deref(), Some("half and half"), "{quiet}");
        }
        std::fs::write(&path, [0xff]).unwrap();
        assert!(
            read_complete(&path, 0).unwrap_err().ends_with("lds.yaml: stream did not contain valid UTF-8")
        );
        std::fs::remove_file(&path).unwrap();
        assert!(read_complete(&path, 0).unwrap_err().contains("lds.yaml: "));
    }
}
