//! Opening a store by URL.

use super::{ConfigStore, FsStore, MemoryStore, SAMPLE, WhenLost};

/// The URL of the embedded sample configuration.
pub const EMBEDDED_SAMPLE: &str = "embedded://sample";

/// Why there is no store for a URL. The texts are Istio Mixer's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL is invalid.
    #[error("invalid config URL {url} parse {url:?}: {cause}")]
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
    /// A store that this build does not have.
    #[error("the {scheme}:// store is not in this build: use fs://DIRECTORY")]
    NotBuilt {
        /// Its scheme.
        scheme: String,
    },
}

/// The store for a URL: `fs://DIRECTORY`, `embedded://sample`; empty means `k8s://`, as in Istio Mixer.
///
/// Errors: see [`StoreError`]. A directory that does not exist is no error: the store is unavailable until it appears.
pub fn open(url: &str) -> Result<Box<dyn ConfigStore>, StoreError> {
    open_with(url, WhenLost::Keep)
}

/// [`open`], and says what happens when a directory is lost.
pub fn open_with(url: &str, lost: WhenLost) -> Result<Box<dyn ConfigStore>, StoreError> {
    let url = if url.is_empty() { "k8s://" } else { url };
    let invalid = |cause: String| StoreError::Invalid { url: url.to_owned(), cause };
    match scheme(url).map_err(invalid)? {
        Some(("fs", path)) => {
            let path = path.split(['?', '#']).next().unwrap_or(path);
            let path = unescape(path).map_err(invalid)?;
            Ok(Box::new(FsStore::new(url, path, lost)))
        }
        Some(("embedded", "sample")) => {
            let files =
                SAMPLE.iter().map(|(name, text)| (format!("<embedded>/{name}"), *text)).collect::<Vec<_>>();
            let files = files.iter().map(|(name, text)| (name.as_str(), *text));
            Ok(Box::new(MemoryStore::new(url, files)))
        }
        Some(("memory", _)) => Ok(Box::new(MemoryStore::new(url, []))),
        Some(("k8s" | "kube" | "kubernetes", _)) => Err(StoreError::NoCluster),
        Some((scheme @ ("mcp" | "mcps"), _)) => Err(StoreError::NotBuilt { scheme: scheme.to_owned() }),
        _ => Err(StoreError::Unknown { url: url.to_owned() }),
    }
}

/// Splits `scheme://rest`; `None` without a scheme. Errors: those of Go's URL parser.
fn scheme(url: &str) -> Result<Option<(&str, &str)>, String> {
    if url.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let end = url.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(url.len());
    let (name, rest) = url.split_at(end);
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let Some(rest) = rest.strip_prefix(':') else {
        if url.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
        return unescape(url).map(|_| None);
    };
    if name.is_empty() {
        return Err("missing protocol scheme".to_owned());
    }
    if !named {
        return Err("first path segment in URL cannot contain colon".to_owned());
    }
    Ok(rest.strip_prefix("//").map(|rest| (name, rest)))
}

/// Decodes `%XX`.
fn unescape(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let code = after.get(..2).unwrap_or(after);
        match u8::from_str_radix(code, 16) {
            Ok(byte) if code.len() == 2 && code.bytes().all(|b| b.is_ascii_hexdigit()) => bytes.push(byte),
            _ => return Err(format!("invalid URL escape \"%{code}\"")),
        }
        rest = after.get(2..).unwrap_or("");
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).map_err(|e| format!("path is not UTF-8: {e}"))
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
        ];
        for (url, expected) in cases {
            assert_eq!(text(url), expected);
        }
    }

    #[test]
    fn the_scheme_selects_the_store() {
        for url in ["fs:///tmp", "fs://relative/path", EMBEDDED_SAMPLE, "memory://test"] {
            assert_eq!(open(url).map(|s| s.url().to_owned()).unwrap(), url);
        }
    }
}
