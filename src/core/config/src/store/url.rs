//! Opening a store by URL.

use mixer_base::quote::quoted;
use mixer_base::url::{UrlError, check_control, check_first_segment, decode, scheme_end};

use super::{ConfigStore, FsStore, MemoryStore, SAMPLE, WhenLost};

/// The URL of the embedded sample configuration.
pub const EMBEDDED_SAMPLE: &str = "embedded://sample";

/// The schemes of stores over the network.
pub const OVER_NETWORK: [&str; 7] = ["k8s", "kube", "kubernetes", "mcp", "mcp+listen", "mcps", "mcps+listen"];

/// Why there is no store for a URL. The texts are Istio Mixer's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL is invalid.
    #[error("invalid config URL {url} parse {}: {cause}", quoted(url))]
    Invalid {
        /// As given.
        url: String,
        /// Go's text.
        cause: String,
    },
    /// The scheme is unknown.
    #[error("unknown config URL {url} {url}")]
    Unknown {
        /// As given.
        url: String,
    },
    /// A Kubernetes store without a cluster to talk to.
    #[error("invalid configuration: no configuration has been provided")]
    NoCluster,
    /// A store over the network cannot be used with what is given: its credentials, for example.
    #[error("invalid {what}: {why}")]
    Unusable {
        /// What is given.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A store over the network, which only a server follows.
    #[error("the {scheme}:// store is followed by `mixer server` alone: use fs://DIRECTORY here")]
    OverNetwork {
        /// Its scheme.
        scheme: String,
    },
}

impl StoreError {
    /// The text for users: Istio Mixer's has the URL twice, with the words of Go's parser.
    pub fn plain(&self) -> String {
        match self {
            StoreError::Invalid { url, cause } => format!("`{url}` is no valid URL: {cause}"),
            StoreError::Unknown { url } => format!("unknown config URL `{url}`"),
            other => other.to_string(),
        }
    }
}

/// The store for a URL: `fs://DIRECTORY`, `embedded://sample`; empty means `k8s://`, as in Istio Mixer.
///
/// Errors: see [`StoreError`]. A directory that does not exist is no error: the store is unavailable until it appears.
pub fn open(url: &str) -> Result<Box<dyn ConfigStore>, StoreError> {
    open_with(url, WhenLost::Keep)
}

/// [`open`], and says what happens when a directory is lost. Stores over the network are those of the crate `stores`.
pub fn open_with(url: &str, lost: WhenLost) -> Result<Box<dyn ConfigStore>, StoreError> {
    let url = if url.is_empty() { "k8s://" } else { url };
    let invalid = |cause: String| StoreError::Invalid { url: url.to_owned(), cause };
    match scheme(url).map_err(invalid)? {
        Some(("fs", path)) => {
            let path = unescape(without_query(path)).map_err(invalid)?;
            Ok(Box::new(FsStore::new(url, path, lost)))
        }
        Some(("embedded", "sample")) => {
            let files =
                SAMPLE.iter().map(|(name, text)| (format!("<embedded>/{name}"), *text)).collect::<Vec<_>>();
            let files = files.iter().map(|(name, text)| (name.as_str(), *text));
            Ok(Box::new(MemoryStore::new(url, files)))
        }
        Some(("memory", _)) => Ok(Box::new(MemoryStore::new(url, []))),
        Some(("k8s" | "kube" | "kubernetes", "")) => Err(StoreError::NoCluster),
        Some((scheme, _)) if OVER_NETWORK.contains(&scheme) => {
            Err(StoreError::OverNetwork { scheme: scheme.to_owned() })
        }
        _ => Err(StoreError::Unknown { url: url.to_owned() }),
    }
}

/// The path that a URL `fs://…` names, by what stands behind that; `None` if it is invalid.
pub(super) fn fs_path(path: &str) -> Option<String> {
    unescape(without_query(path)).ok()
}

fn without_query(path: &str) -> &str {
    path.split(['?', '#']).next().unwrap_or(path)
}

/// Splits `scheme://rest`; `None` without a scheme. Errors: those of Go's URL parser.
///
/// The rest is a path, not an authority: `fs://relative/path` names a directory, and so does one with blanks or colons.
fn scheme(url: &str) -> Result<Option<(&str, &str)>, String> {
    let text = url.as_bytes();
    let end = check_control(text).and_then(|()| scheme_end(text)).map_err(|e| e.to_string())?;
    let Some(end) = end else {
        check_first_segment(text).map_err(|e| e.to_string())?;
        return unescape(url).map(|_| None);
    };
    let (name, rest) = url.split_at(end);
    Ok(rest.strip_prefix("://").map(|rest| (name, rest)))
}

/// Decodes `%XX`.
fn unescape(text: &str) -> Result<String, String> {
    let bytes = decode(text.as_bytes(), |_| true).map_err(|error| match error {
        UrlError::InvalidEscape(found) => {
            // Two bytes after the percent sign, or all of them if the second ends inside a character.
            let found = String::from_utf8_lossy(found);
            format!("invalid URL escape \"{}\"", found.get(..3).unwrap_or(&found))
        }
        _ => error.to_string(),
    })?;
    String::from_utf8(bytes.into_owned()).map_err(|e| format!("path is not UTF-8: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_texts_of_istio_mixer() {
        let text = |url: &str| open(url).err().unwrap().to_string();
        let cases = [
            (":bad", "invalid config URL :bad parse \":bad\": missing protocol scheme"),
            ("DEADBEEF", "unknown config URL DEADBEEF DEADBEEF"),
            ("fs:///%zz", "invalid config URL fs:///%zz parse \"fs:///%zz\": invalid URL escape \"%zz\""),
            ("foo://x", "unknown config URL foo://x foo://x"),
            ("fs", "unknown config URL fs fs"),
            ("%zz", "invalid config URL %zz parse \"%zz\": invalid URL escape \"%zz\""),
            (
                "a b://c",
                "invalid config URL a b://c parse \"a b://c\": first path segment in URL cannot contain colon",
            ),
            ("", "invalid configuration: no configuration has been provided"),
            ("mcp://h:1", "the mcp:// store is followed by `mixer server` alone: use fs://DIRECTORY here"),
            ("k8s:///x", "the k8s:// store is followed by `mixer server` alone: use fs://DIRECTORY here"),
        ];
        for (url, expected) in cases {
            assert_eq!(text(url), expected);
        }
    }

    #[test]
    fn users_are_told_a_url_once() {
        let plain = |url: &str| open(url).err().unwrap().plain();
        assert_eq!(plain("http://localhost/x"), "unknown config URL `http://localhost/x`");
        assert_eq!(plain("fs:///%zz"), "`fs:///%zz` is no valid URL: invalid URL escape \"%zz\"");
        assert_eq!(plain(""), "invalid configuration: no configuration has been provided");
    }

    #[test]
    fn the_scheme_selects_the_store() {
        for url in ["fs:///tmp", "fs://relative/path", EMBEDDED_SAMPLE, "memory://test"] {
            assert_eq!(open(url).map(|s| s.url().to_owned()).unwrap(), url);
        }
    }
}
