//! Secrets from files, environment variables and configuration.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use mixer_base::file_stamp::FileStamp;
use mixer_base::looks::Looks;
use mixer_base::regular_file;
use mixer_base::secrets::{MASKED, declare_variable};

use crate::attempts::Attempts;

/// The largest file with a credential.
const MAX_BYTES: u64 = 64 << 10;
/// How long the first value of a file is waited for.
const FIRST_READ: Duration = Duration::from_secs(2);
/// How long a look at a file is waited for.
const LIMIT: Duration = Duration::from_secs(1);
/// How often it is asked whether an earlier read has ended.
const POLL: Duration = Duration::from_millis(5);

/// A credential cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialError(String);

/// A secret value. It is shown as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A value that a backend gave.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The value.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASKED)
    }
}

/// A secret, such as a password or a token, from a file, an environment variable or a configuration. A file that is replaced or changed is
/// read again.
///
/// White space at the end, such as a line feed, is no part of it. Nobody waits for a file system that hangs: files are looked at on a thread,
/// one look at a time, and the last value is used meanwhile.
pub struct Credential {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    known: Mutex<Known>,
    /// Why the value may be an old one.
    trouble: ArcSwapOption<String>,
    /// At the file.
    looks: Looks,
}

#[derive(Clone)]
enum Source {
    File(PathBuf),
    Environment(String),
    Configuration,
}

struct Known {
    secret: Secret,
    /// Of the file.
    attempts: Attempts<Option<FileStamp>>,
}

impl Known {
    fn new(secret: Secret, stamp: Option<FileStamp>) -> Self {
        Self { secret, attempts: Attempts::succeeded(stamp) }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("source", &self.shared.source.to_string()).finish_non_exhaustive()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(f, "file `{}`", path.display()),
            Source::Environment(name) => write!(f, "environment variable `{name}`"),
            Source::Configuration => f.write_str("configuration"),
        }
    }
}

impl Credential {
    /// A credential in a file. Waits up to two seconds for its file system.
    ///
    /// Errors: it is not a regular file, cannot be read in this time, or is empty.
    pub fn from_file(path: impl Into<PathBuf>) -> Result<Self, CredentialError> {
        Self::of(Source::File(path.into()))
    }

    /// A credential in an environment variable. Errors: it is not set, is empty, or is not UTF-8.
    pub fn from_environment(name: impl Into<String>) -> Result<Self, CredentialError> {
        let name = name.into();
        declare_variable(&name);
        Self::of(Source::Environment(name))
    }

    /// A credential that a configuration holds itself.
    pub fn from_configuration(secret: &str) -> Self {
        Self::with(Source::Configuration, Known::new(Secret(secret.into()), None))
    }

    fn of(source: Source) -> Result<Self, CredentialError> {
        let (secret, stamp) = match &source {
            Source::File(path) => {
                let read = source.clone();
                let limit = FIRST_READ;
                let late = |why: &str| CredentialError(format!("cannot read {source}: {why}"));
                FIRST_READS.run(path, limit, move || read.read_with_stamp()).map_err(late)??
            }
            _ => source.read_with_stamp()?,
        };
        Ok(Self::with(source, Known::new(secret, stamp)))
    }

    fn with(source: Source, known: Known) -> Self {
        let (trouble, looks) = (ArcSwapOption::empty(), Looks::default());
        Self { shared: Arc::new(Shared { source, known: Mutex::new(known), trouble, looks }) }
    }

    /// The secret as it was read last. Looks at no file.
    pub fn last(&self) -> Secret {
        self.shared.known.lock().secret.clone()
    }

    /// The secret. Cost: looks at the metadata of the file, on a thread, and reads it if they have changed. If that fails, or takes longer
    /// than a second, the last value is used on, [`trouble`](Self::trouble) and the log say so, and the file is not read for each call.
    pub async fn secret(&self) -> Secret {
        self.secret_within(LIMIT, Source::read).await
    }

    /// [`secret`](Self::secret) where nothing can be awaited: waits on this thread, for a file system that hangs a second, and no second time.
    pub fn blocking_secret(&self) -> Secret {
        let (ended, end) = std::sync::mpsc::sync_channel(1);
        let is_begun = self.shared.begin_look(Source::read, move || _ = ended.try_send(()));
        if is_begun && end.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            self.shared.is_late(LIMIT);
        }
        self.last()
    }

    /// Why the secret may be an old one, if its file cannot be read. Takes no lock.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.load().as_deref().cloned()
    }

    async fn secret_within(&self, limit: Duration, read: Read) -> Secret {
        let (ended, end) = tokio::sync::oneshot::channel();
        let is_begun = self.shared.begin_look(read, move || _ = ended.send(()));
        // A sender that is dropped ends it as well.
        if is_begun && tokio::time::timeout(limit, end).await.is_err() {
            self.shared.is_late(limit);
        }
        self.last()
    }
}

/// How a source is read.
type Read = fn(&Source) -> Result<Secret, CredentialError>;

impl Shared {
    /// Looks at the file on a thread, and calls `ended`. False without a file, and while an earlier look goes on.
    fn begin_look(self: &Arc<Self>, read: Read, ended: impl FnOnce() + Send + 'static) -> bool {
        let shared = Arc::clone(self);
        matches!(self.source, Source::File(_))
            && self.looks.begin(move || shared.look(Instant::now(), read), ended)
    }

    fn look(&self, now: Instant, read: Read) {
        let stamp = self.source.stamp();
        if !self.known.lock().attempts.are_due(&stamp, now) {
            if !self.known.lock().attempts.has_failed() {
                self.trouble.store(None);
            }
            return;
        }
        // Without the lock.
        let found = read(&self.source);
        let mut known = self.known.lock();
        let is_news = known.attempts.note(stamp, found.is_err(), now);
        match found {
            Ok(secret) => {
                known.secret = secret;
                self.trouble.store(None);
            }
            Err(error) => {
                if is_news {
                    tracing::warn!("a credential cannot be read again, and is used as it was: {error}");
                }
                self.trouble.store(Some(Arc::new(error.to_string())));
            }
        }
    }

    /// The look at the file takes long.
    fn is_late(&self, limit: Duration) {
        let why =
            format!("cannot read {}: no answer within {limit:?}, its file system may hang", self.source);
        // A look that ended just now counts.
        self.looks.if_looking(|| {
            tracing::warn!("a credential is used as it was: {why}");
            self.trouble.store(Some(Arc::new(why)));
        });
    }
}

/// Reads a file whose content is no [`Credential`] by itself, on a thread and for at most two seconds: for where nothing can be awaited.
///
/// Errors: why it was not read in time.
pub(crate) fn read_blocking<T: Send + 'static>(
    path: &Path,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, &'static str> {
    FIRST_READS.run(path, FIRST_READ, read)
}

/// Whether a file with a credential is there. Waits up to two seconds for its file system; it counts as there if that does not answer.
pub fn is_there(path: &Path) -> bool {
    let file = path.to_owned();
    read_blocking(path, move || file.exists()).unwrap_or(true)
}

/// As [`read_blocking`], awaited for at most a second. `is_needed`: an earlier read of the file is waited for as long; otherwise that is an error
/// at once, so that only the first of many calls waits for a file system that hangs.
pub(crate) async fn read_elsewhere<T: Send + 'static>(
    path: &Path,
    is_needed: bool,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, &'static str> {
    FIRST_READS.await_within(path, LIMIT, if is_needed { LIMIT } else { Duration::ZERO }, read).await
}

/// Reads whose answer somebody waits for, on threads, one of a path: nothing ends a read of a file system that hangs, so that each would hold a
/// thread for good.
static FIRST_READS: FirstReads = FirstReads(Mutex::new(BTreeSet::new()));

struct FirstReads(Mutex<BTreeSet<PathBuf>>);

/// Why there is no answer: nobody has waited for this one.
pub(crate) const EARLIER: &str = "an earlier read of the file has not ended: its file system may hang";
const LATE: &str = "no answer in time: its file system may hang";

impl FirstReads {
    fn turn(&'static self, path: &Path) -> Option<Turn> {
        let is_free = self.0.lock().insert(path.to_owned());
        is_free.then(|| Turn { reads: self, path: path.to_owned() })
    }

    /// As [`run`](Self::run), awaited: at most `patience` for the end of an earlier read, and `limit` for this one.
    async fn await_within<T: Send + 'static>(
        &'static self,
        path: &Path,
        limit: Duration,
        patience: Duration,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, &'static str> {
        let since = Instant::now();
        let turn = loop {
            match self.turn(path) {
                Some(turn) => break turn,
                None if since.elapsed() >= patience => return Err(EARLIER),
                None => tokio::time::sleep(POLL).await,
            }
        };
        let run = move || {
            let found = read();
            drop(turn);
            found
        };
        match tokio::time::timeout(limit, tokio::task::spawn_blocking(run)).await {
            Ok(found) => found.map_err(|_| "the process ends"),
            Err(_) => Err(LATE),
        }
    }

    /// Errors: it takes longer than `limit`, an earlier one goes on, or there are no threads.
    fn run<T: Send + 'static>(
        &'static self,
        path: &Path,
        limit: Duration,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, &'static str> {
        let since = Instant::now();
        let turn = loop {
            match self.turn(path) {
                Some(turn) => break turn,
                None if since.elapsed() >= limit => return Err(EARLIER),
                None => std::thread::sleep(POLL),
            }
        };
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        let run = move || {
            let found = read();
            drop(turn);
            drop(send.try_send(found));
        };
        let thread = std::thread::Builder::new().name("credential".to_owned());
        thread.spawn(run).map_err(|_| "there is no thread to read it")?;
        receive.recv_timeout(limit).map_err(|_| LATE)
    }
}

struct Turn {
    reads: &'static FirstReads,
    path: PathBuf,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.reads.0.lock().remove(&self.path);
    }
}

impl Source {
    /// How its file is now; `None` for one that is not there, and for other sources, which do not change.
    fn stamp(&self) -> Option<FileStamp> {
        let Source::File(path) = self else { return None };
        std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata))
    }

    /// The stamp is that before the file is read, so that a change meanwhile is noticed.
    fn read_with_stamp(&self) -> Result<(Secret, Option<FileStamp>), CredentialError> {
        let stamp = self.stamp();
        Ok((self.read()?, stamp))
    }

    fn read(&self) -> Result<Secret, CredentialError> {
        let failed = |why: &dyn fmt::Display| CredentialError(format!("cannot read {self}: {why}"));
        let text = match self {
            Source::File(path) => {
                let (file, metadata) = regular_file::open(path).map_err(|error| failed(&error))?;
                let bytes =
                    regular_file::read_open(&file, &metadata, MAX_BYTES).map_err(|error| failed(&error))?;
                String::from_utf8(bytes).map_err(|_| failed(&"it is not UTF-8"))?
            }
            Source::Environment(name) => std::env::var(name).map_err(|error| failed(&error))?,
            Source::Configuration => return Err(failed(&"it is not read again")),
        };
        let text = text.trim_end();
        if text.is_empty() {
            return Err(failed(&"it is empty"));
        }
        Ok(Secret(text.into()))
    }
}

#[cfg(test)]
mod tests;
