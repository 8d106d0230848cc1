//! Where a cluster is and what authenticates to it.

mod kubeconfig;
mod pod;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use http::HeaderValue;
use reqwest::Url;

use mixer_base::file_stamp::FileStamp;
use mixer_base::regular_file;
use mixer_net::tls::ClientPem;

/// The largest file of credentials.
const MAX_FILE: u64 = 1 << 20;

/// A cluster cannot be reached with what is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(String);

impl AccessError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Where a cluster is and what authenticates to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Access(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    /// The service account of the pod.
    Pod {
        /// `https://HOST:PORT`
        server: String,
        /// The directory with token and root.
        directory: PathBuf,
    },
    /// A kubeconfig and the files that it names.
    File(PathBuf),
    /// The text of a kubeconfig, which may name no file.
    Text(Box<str>),
}

impl fmt::Debug for Access {
    /// Without the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Pod { server, directory } => write!(f, "Access::Pod({server}, {})", directory.display()),
            Source::File(path) => write!(f, "Access::File({})", path.display()),
            Source::Text(_) => f.write_str("Access::Text"),
        }
    }
}

impl Access {
    /// The cluster in which this process runs, with the service account of its pod.
    ///
    /// Errors: it runs in none.
    pub fn of_pod() -> Result<Self, AccessError> {
        pod::access(|name| std::env::var(name).ok(), Path::new(pod::DIRECTORY))
    }

    /// The current context of a kubeconfig. Relative paths in it start at its directory.
    pub fn of_file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    /// The current context of a kubeconfig that somebody else wrote, for example in a secret. It may name no file: what is in the files of
    /// this machine would be sent to the server that it names.
    pub fn of_text(text: impl Into<Box<str>>) -> Self {
        Self(Source::Text(text.into()))
    }

    /// Reads everything.
    ///
    /// Errors: something cannot be read, is invalid, or is not supported.
    pub(crate) fn load(&self) -> Result<Loaded, AccessError> {
        let mut files = Files::default();
        let loaded = match &self.0 {
            Source::Pod { server, directory } => pod::load(server, directory, &mut files)?,
            Source::File(path) => {
                let text = files.text(path)?;
                let base = path.parent().unwrap_or(Path::new(""));
                let within = |error: AccessError| AccessError(format!("{}: {error}", path.display()));
                kubeconfig::load(&text, Some(base), &mut files).map_err(within)?
            }
            Source::Text(text) => kubeconfig::load(text, None, &mut files)?,
        };
        Ok(Loaded { files, ..loaded })
    }
}

/// What is needed to reach a cluster, and the files that it is from.
#[derive(Clone)]
pub(crate) struct Loaded {
    /// The API server.
    pub(crate) server: Url,
    /// The URL of a proxy; `None`: that of the environment.
    pub(crate) proxy: Option<String>,
    /// Roots, certificate and key.
    pub(crate) tls: ClientPem,
    /// The header of requests.
    pub(crate) authorization: Option<HeaderValue>,
    files: Files,
}

impl Loaded {
    /// Whether the same connections serve, perhaps with another header.
    pub(crate) fn has_connections_of(&self, other: &Self) -> bool {
        (&self.server, &self.proxy, &self.tls) == (&other.server, &other.proxy, &other.tls)
    }

    /// Whether it is from files.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.0.is_empty()
    }

    /// Whether a file was replaced or changed since. Cost: looks at their metadata.
    pub(crate) fn is_outdated(&self) -> bool {
        self.files.0.iter().any(|(path, known)| stamp(path) != *known)
    }

    /// Host and port of the API server.
    pub(crate) fn name(&self) -> String {
        let host = self.server.host_str().unwrap_or_default();
        match self.server.port_or_known_default() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }
}

/// The files that were read.
#[derive(Clone, Default)]
struct Files(Vec<(PathBuf, Option<FileStamp>)>);

impl Files {
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, AccessError> {
        // Before it is read, so that a change meanwhile is noticed.
        self.0.push((path.to_owned(), stamp(path)));
        regular_file::read(path, MAX_FILE)
            .map_err(|error| AccessError(format!("cannot read `{}`: {error}", path.display())))
    }

    fn text(&mut self, path: &Path) -> Result<String, AccessError> {
        String::from_utf8(self.read(path)?)
            .map_err(|_| AccessError(format!("`{}` is not UTF-8", path.display())))
    }

    fn token(&mut self, path: &Path) -> Result<HeaderValue, AccessError> {
        let text = self.text(path)?;
        let token = text.trim();
        if token.is_empty() {
            return Err(AccessError(format!("`{}` is empty", path.display())));
        }
        bearer(token)
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata))
}

fn bearer(token: &str) -> Result<HeaderValue, AccessError> {
    header(format!("Bearer {token}"))
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, AccessError> {
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    header(format!("Basic {encoded}"))
}

fn header(text: String) -> Result<HeaderValue, AccessError> {
    let value = HeaderValue::try_from(text);
    let mut value = value.map_err(|_| AccessError::new("the credential is no value of a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn server(text: &str) -> Result<Url, AccessError> {
    let shown = mixer_base::secrets::mask_text(text);
    let url =
        Url::parse(text).map_err(|error| AccessError(format!("the server `{shown}` is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(AccessError(format!("the server `{shown}` is not http://HOST or https://HOST")));
    }
    Ok(url)
}
