//! Secrets from files, environment variables and configuration.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use mixer_base::file_stamp::FileStamp;
use mixer_base::regular_file;
use mixer_base::secrets::MASKED;

use crate::attempts::Attempts;

/// The largest file with a credential.
const MAX_BYTES: u64 = 64 << 10;

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
/// White space at the end, such as a line feed, is no part of it.
pub struct Credential {
    source: Source,
    known: Mutex<Known>,
}

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
        f.debug_struct("Credential").field("source", &self.source.to_string()).finish_non_exhaustive()
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
    /// A credential in a file. Errors: it is not a regular file, cannot be read, or is empty.
    pub fn from_file(path: impl Into<PathBuf>) -> Result<Self, CredentialError> {
        Self::of(Source::File(path.into()))
    }

    /// A credential in an environment variable. Errors: it is not set, is empty, or is not UTF-8.
    pub fn from_environment(name: impl Into<String>) -> Result<Self, CredentialError> {
        Self::of(Source::Environment(name.into()))
    }

    /// A credential that a configuration holds itself.
    pub fn from_configuration(secret: &str) -> Self {
        let known = Known::new(Secret(secret.into()), None);
        Self { source: Source::Configuration, known: Mutex::new(known) }
    }

    fn of(source: Source) -> Result<Self, CredentialError> {
        // Before the file is read, so that a change meanwhile is noticed.
        let stamp = source.stamp();
        let secret = source.read()?;
        Ok(Self { source, known: Mutex::new(Known::new(secret, stamp)) })
    }

    /// The secret. Cost: looks at the metadata of the file, and reads it if they have changed. If that fails, the last value is used on,
    /// the log says so once, and the file is not read for each call.
    pub fn secret(&self) -> Secret {
        self.secret_at(Instant::now(), Source::read)
    }

    fn secret_at(
        &self,
        now: Instant,
        read: impl FnOnce(&Source) -> Result<Secret, CredentialError>,
    ) -> Secret {
        let mut known = self.known.lock();
        let stamp = self.source.stamp();
        if known.attempts.are_due(&stamp, now) {
            let found = read(&self.source);
            let is_news = known.attempts.note(stamp, found.is_err(), now);
            match found {
                Ok(secret) => known.secret = secret,
                Err(error) if is_news => {
                    tracing::warn!("a credential cannot be read again, and is used as it was: {error}");
                }
                Err(_) => {}
            }
        }
        known.secret.clone()
    }
}

impl Source {
    /// How its file is now; `None` for one that is not there, and for other sources, which do not change.
    fn stamp(&self) -> Option<FileStamp> {
        let Source::File(path) = self else { return None };
        std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata))
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
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "first\n").unwrap();
        let credential = Credential::from_file(&path).unwrap();
        assert_eq!(credential.secret().expose(), "first");
        // As Kubernetes replaces mounted secrets.
        std::fs::write(directory.path().join("new"), "second, longer").unwrap();
        std::fs::rename(directory.path().join("new"), &path).unwrap();
        assert_eq!(credential.secret().expose(), "second, longer");
        for broken in ["", "\n"] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(credential.secret().expose(), "second, longer", "the last value is used on");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(credential.secret().expose(), "second, longer");
        std::fs::write(&path, "third").unwrap();
        assert_eq!(credential.secret().expose(), "third");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_not_read_for_each_call() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "first").unwrap();
        let credential = Credential::from_file(&path).unwrap();
        let start = Instant::now();
        for (state, change) in [("empty", true), ("away", false)] {
            let reads = std::cell::Cell::new(0);
            match change {
                true => std::fs::write(&path, "").unwrap(),
                false => std::fs::remove_file(&path).unwrap(),
            }
            for _ in 0..100 {
                let secret = credential.secret_at(start, |source| {
                    reads.set(reads.get() + 1);
                    source.read()
                });
                assert_eq!(secret.expose(), "first", "{state}");
            }
            assert_eq!(reads.get(), 1, "{state}");
        }
        std::fs::write(&path, "second").unwrap();
        assert_eq!(credential.secret_at(start, Source::read).expose(), "second");
    }

    #[test]
    fn a_credential_is_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "hunter2").unwrap();
        let credential = Credential::from_file(&path).unwrap();
        let shown = format!("{credential:?} {:?}", credential.secret());
        assert!(!shown.contains("hunter2") && shown.ends_with("***"), "{shown}");
        let credential = Credential::from_configuration("hunter2");
        assert_eq!(credential.secret().expose(), "hunter2");
        let shown = format!("{credential:?} {:?}", credential.secret());
        assert!(!shown.contains("hunter2") && shown.ends_with("***"), "{shown}");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let refused = |credential: Result<Credential, CredentialError>| credential.unwrap_err().to_string();
        let text = refused(Credential::from_file("/dev/zero"));
        assert_eq!(text, "cannot read file `/dev/zero`: not a regular file but a device");
        assert!(refused(Credential::from_file("/none/such")).starts_with("cannot read file `/none/such`: "));
        let text = refused(Credential::from_environment("MIXER_TEST_NO_SUCH_VARIABLE"));
        let expected =
            "cannot read environment variable `MIXER_TEST_NO_SUCH_VARIABLE`: environment variable not found";
        assert_eq!(text, expected);
        // Every process has it.
        assert!(!Credential::from_environment("PATH").unwrap().secret().expose().is_empty());
    }
}
