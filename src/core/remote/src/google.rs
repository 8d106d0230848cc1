//! Access tokens for Google's services, and what its metadata server knows.
//!
//! Tokens come from a key file, from application default credentials, or from the metadata server; they are replaced before they expire.
//! One [`GoogleTokens`] serves all calls of a handler.

mod key;
mod metadata;

pub use metadata::{GoogleMetadata, MetadataFact};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use parking_lot::Mutex;
use serde_json::Value;

use mixer_base::file_stamp::FileStamp;

use crate::RemoteError;
use crate::answer::{Answer, foreign};
use crate::credential::{self, Secret};
use crate::http::{HttpOptions, HttpTarget};
use crate::oauth::{UNBOUNDED, lifetime};
use crate::renewal::{Lasting, Renewal};
use key::Key;

/// Tokens are replaced so long before they end.
const MARGIN: Duration = Duration::from_secs(300);
/// How often the key file is looked at.
const LOOKS: Duration = Duration::from_secs(5);
/// The limit of a request for a token.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where tokens come from. Empty: where Google's own libraries look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoogleOptions {
    /// The key file of a service account, or that of application default credentials; empty: `GOOGLE_APPLICATION_CREDENTIALS`, or the file of
    /// gcloud.
    pub key_file: PathBuf,
    /// What tokens are for, separated by spaces.
    pub scopes: &'static str,
    /// The URL that gives tokens, instead of that of the key file.
    pub token_endpoint: String,
    /// The URL of the metadata server; empty: `GCE_METADATA_HOST`, or `http://metadata.google.internal`.
    pub metadata_endpoint: String,
    /// The roots of TLS to the token endpoint, PEM; empty: those of the system.
    pub ca_file: PathBuf,
}

/// Looks up a variable of the environment; an empty one is none.
type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Access tokens. Shared by all calls: one of them fetches the next token, and meanwhile the others use the last one.
#[derive(Debug)]
pub struct GoogleTokens {
    source: Source,
    options: GoogleOptions,
    tokens: Renewal<HeaderValue>,
    looks: Mutex<Looks>,
    files: FileAccess,
}

/// How the key file is looked at, and read. Both block for as long as its file system does.
#[derive(Debug, Clone, Copy)]
struct FileAccess {
    stamp: fn(&Path) -> Option<FileStamp>,
    read: fn(&Path) -> Result<Key, String>,
}

const FILES: FileAccess = FileAccess { stamp, read: Key::read };

#[derive(Debug)]
enum Source {
    File(PathBuf),
    Metadata(Box<GoogleMetadata>),
}

/// How the key file was when it was looked at last.
#[derive(Debug, Default)]
struct Looks {
    stamp: Option<FileStamp>,
    at: Option<Instant>,
}

impl GoogleTokens {
    /// Finds the source; asks nobody for a token yet. Errors: a key file that cannot be used, or an invalid URL.
    pub fn new(options: GoogleOptions) -> Result<Self, RemoteError> {
        Self::with(options, &environment)
    }

    fn with(options: GoogleOptions, environment: Environment<'_>) -> Result<Self, RemoteError> {
        let source = match default_file(&options, environment)? {
            Some((file, key)) => {
                let key = key.map_err(RemoteError::Invalid)?;
                token_target(&key, &options)?;
                Source::File(file)
            }
            None => {
                let metadata = GoogleMetadata::with(&options.metadata_endpoint, environment)?;
                Source::Metadata(Box::new(metadata))
            }
        };
        Ok(Self { source, options, tokens: Renewal::default(), looks: Mutex::default(), files: FILES })
    }

    /// The header `authorization` of a call. Errors: there is no token, for operators and without credentials.
    pub async fn authorization(&self) -> Result<HeaderValue, String> {
        self.look().await;
        self.tokens.token(self.fetch()).await
    }

    /// The service did not accept a token, whose header this is: the next call fetches another one, unless there is one already, or the one
    /// before was refused a moment ago. Returns whether the next call has another one.
    pub fn refused(&self, authorization: &HeaderValue) -> bool {
        self.tokens.refused(authorization)
    }

    /// Forgets the token of a key file that was replaced. Looks at the file on a thread: nobody waits long for a file system that hangs.
    async fn look(&self) {
        let Source::File(file) = &self.source else { return };
        let now = Instant::now();
        {
            let mut looks = self.looks.lock();
            if looks.at.is_some_and(|at| now.saturating_duration_since(at) < LOOKS) {
                return;
            }
            looks.at = Some(now);
        }
        // Without the lock. A file that is away for a moment is being replaced.
        let (path, stamp) = (file.clone(), self.files.stamp);
        let Ok(stamp) = credential::read_elsewhere(file, false, move || stamp(&path)).await else { return };
        let mut looks = self.looks.lock();
        if stamp.is_some() && stamp != looks.stamp {
            looks.stamp = stamp;
            self.tokens.forget();
        }
    }

    async fn fetch(&self) -> Result<Lasting<HeaderValue>, String> {
        match &self.source {
            Source::Metadata(metadata) => {
                let scopes: String =
                    form_urlencoded::byte_serialize(self.options.scopes.replace(' ', ",").as_bytes())
                        .collect();
                let path = format!("instance/service-accounts/default/token?scopes={scopes}");
                token(&metadata.get(&path).await?)
            }
            Source::File(file) => {
                let (path, read, options) = (file.clone(), self.files.read, self.options.clone());
                // Reading roots and signing take milliseconds, in which a worker would answer nobody.
                let prepare = move || {
                    let key = read(&path)?;
                    let target = token_target(&key, &options).map_err(|error| error.to_string())?;
                    let body = key.request(options.scopes, jiff::Timestamp::now())?;
                    Ok::<_, String>((target, body))
                };
                let prepared = credential::read_elsewhere(file, true, prepare).await;
                let (target, body) = prepared.map_err(|why| unread(file, why))??;
                let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
                let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
                let reply = target.post(&headers, Bytes::from(body)).await;
                let text = String::from_utf8_lossy(&reply.body);
                match reply.answer {
                    Answer::Delivered => token(&text),
                    Answer::Retry { why, .. } | Answer::Refused(why) => {
                        let said = serde_json::from_str::<Value>(&text).ok();
                        let said = said.as_ref().and_then(|body| {
                            body.get("error_description").or_else(|| body.get("error"))?.as_str()
                        });
                        let said = said.map(|said| format!(" ({})", foreign(said))).unwrap_or_default();
                        Err(format!("no access token: {why}{said}"))
                    }
                }
            }
        }
    }
}

fn stamp(file: &Path) -> Option<FileStamp> {
    std::fs::metadata(file).ok().map(|metadata| FileStamp::of(&metadata))
}

/// A key file that was not read in time.
fn unread(file: &Path, why: &str) -> String {
    format!("cannot read the key file `{}`: {why}", file.display())
}

/// A key file, and what it has. Errors: it cannot be used, and why.
type KeyFile = (PathBuf, Result<Key, String>);

/// The file with credentials, if there is one. Waits at most two seconds for its file system. Errors: it takes longer.
fn default_file(
    options: &GoogleOptions,
    environment: Environment<'_>,
) -> Result<Option<KeyFile>, RemoteError> {
    let named = match options.key_file.as_os_str().is_empty() {
        true => environment("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
        false => Some(options.key_file.clone()),
    };
    let is_named = named.is_some();
    let of_gcloud = || {
        let directory = environment("CLOUDSDK_CONFIG")
            .map(PathBuf::from)
            .or_else(|| environment("HOME").map(|home| Path::new(&home).join(".config/gcloud")))?;
        Some(directory.join("application_default_credentials.json"))
    };
    let Some(file) = named.or_else(of_gcloud) else { return Ok(None) };
    let path = file.clone();
    let read = move || (is_named || path.is_file()).then(|| Key::read(&path));
    let key = credential::read_blocking(&file, read);
    let key = key.map_err(|why| RemoteError::Invalid(unread(&file, why)))?;
    Ok(key.map(|key| (file, key)))
}

fn token_target(key: &Key, options: &GoogleOptions) -> Result<HttpTarget, RemoteError> {
    let url = match options.token_endpoint.as_str() {
        "" => key.token_uri(),
        url => url,
    };
    let mut http = HttpOptions::new(url);
    (http.timeout, http.connect_timeout) = (TIMEOUT, TIMEOUT);
    http.keeps_connections = false;
    http.tls.ca_file = options.ca_file.clone();
    HttpTarget::new(http)
}

/// The token in an answer.
fn token(body: &str) -> Result<Lasting<HeaderValue>, String> {
    let document: Value =
        serde_json::from_str(body).map_err(|_| "no access token: the answer is no JSON".to_owned())?;
    let text = document.get("access_token").and_then(Value::as_str).filter(|text| !text.is_empty());
    let secret = Secret::new(text.ok_or_else(|| "no access token: the answer has none".to_owned())?);
    let mut authorization = HeaderValue::try_from(format!("Bearer {}", secret.expose()))
        .map_err(|_| "no access token: it has a character that no header can have".to_owned())?;
    authorization.set_sensitive(true);
    let left = lifetime(document.get("expires_in")).unwrap_or(UNBOUNDED);
    Ok(Lasting::of(authorization, left, MARGIN))
}

#[cfg(test)]
mod tests;
