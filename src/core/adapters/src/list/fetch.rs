//! Fetching a list by HTTP or from a file.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue};

use super::content;
use super::{EntryType, Params};
use crate::causes::with_causes;
use crate::files::{SettledFile, Unread};
use crate::go_url;
use mixer_base::file_stamp::FileStamp;
use mixer_base::quote::quoted;
use mixer_base::secrets::{mask_address, mask_text};
use mixer_config::mark::BYTE_ORDER_MARK;

/// The content encoding that is asked for and decoded. compat(1.3): as Go's HTTP client does.
const GZIP: &str = "gzip";

/// A content encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
}

/// Largest list, in bytes.
pub(super) const MAX_BODY: usize = 16 << 20;
/// Longest timeout of a fetch, even if the refresh interval is longer.
pub(super) const MAX_FETCH_TIME: Duration = Duration::from_secs(30);
/// The limit of connecting, TLS included: one address of a name that does not answer leaves time for the others.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(10);
/// The source of entries other than the overrides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListSource {
    /// No provider.
    None,
    /// A GET of this URL.
    Url(String),
    /// A file: its name as configured, and its path.
    File(String, PathBuf),
}

impl ListSource {
    /// The source in valid parameters.
    pub(super) fn of(params: &Params) -> Self {
        if !params.provider_url.is_empty() {
            ListSource::Url(params.provider_url.clone())
        } else if !params.provider_file.is_empty() {
            let path = file_path(&params.provider_file).to_owned();
            ListSource::File(params.provider_file.clone(), path)
        } else {
            ListSource::None
        }
    }

    /// As configured, without what is secret in it: the texts with it are logged, and answers of calls.
    pub(super) fn name(&self) -> Cow<'_, str> {
        match self {
            ListSource::None => Cow::Borrowed(""),
            ListSource::Url(url) => mask_address(url),
            ListSource::File(written, _) => mask_text(written),
        }
    }
}

/// The path in `providerFile`: either a path or `file://` and a path.
pub(super) fn file_path(written: &str) -> &Path {
    Path::new(written.strip_prefix("file://").unwrap_or(written))
}

/// Why a list was not fetched.
pub(super) struct FetchError {
    /// For the log and for failed checks.
    pub(super) text: String,
    /// The file may be in the middle of a change: it is worth another look after [`SETTLED`](mixer_base::file_stamp::SETTLED).
    pub(super) is_unsettled: bool,
}

impl From<String> for FetchError {
    fn from(text: String) -> Self {
        Self { text, is_unsettled: false }
    }
}

/// What a source has in the place of a list, before a look at it.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// As of the fetcher.
    refuses_other_than: Option<EntryType>,
    /// Whether a carriage return is part of an entry.
    keeps_lines: bool,
    /// What an error begins with.
    failed: String,
}

impl Body {
    /// The text of the list. Errors: it is something else. It takes a while for a large one.
    pub(super) fn listed(self) -> Result<Arc<[u8]>, String> {
        let Self { bytes, refuses_other_than, keeps_lines, failed } = self;
        if let Some(what) = refuses_other_than.and_then(|entry_type| content::of_no_list(&bytes, entry_type))
        {
            return Err(format!("{failed} is {what}, not a list"));
        }
        Ok(if keeps_lines { bytes } else { with_unix_lines(bytes) }.into())
    }
}

/// Fetches lists.
pub(super) struct Fetcher {
    /// Created by the first fetch.
    client: Option<reqwest::Client>,
    /// Created by the first look at a file.
    file: Option<SettledFile>,
    /// The type of the entries. With it, pages, documents, error messages and binary data in the place of a list are an error: what a
    /// proxy, a login page or a service that is out of order answers, and what a shell writes. Without it, as in Istio Mixer, bodies of
    /// URLs are lists as they are, and a carriage return is part of an entry.
    refuses_other_than: Option<EntryType>,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self { client: None, file: None, refuses_other_than: Some(EntryType::default()) }
    }
}

impl Fetcher {
    /// As on a file system that does not tell who has a file open.
    #[cfg(test)]
    pub(super) fn without_leases(path: &Path) -> Self {
        Self { file: Some(SettledFile::new(path.to_owned()).without_leases()), ..Self::default() }
    }

    /// For lists with entries of this type.
    pub(super) fn of(entry_type: EntryType) -> Self {
        Self { refuses_other_than: Some(entry_type), ..Self::default() }
    }

    /// Takes the lines of any page or document for entries, as Istio Mixer does.
    pub(super) fn accepts_pages(&mut self) {
        self.refuses_other_than = None;
    }

    /// The stamp of the file when it was last read.
    pub(super) fn file_stamp(&self) -> Option<FileStamp> {
        self.file.as_ref().and_then(SettledFile::read_stamp)
    }

    /// The body of the list, within the refresh interval.
    pub(super) async fn fetch(
        &mut self,
        source: &ListSource,
        interval: Duration,
    ) -> Result<Body, FetchError> {
        let limit = interval.min(MAX_FETCH_TIME);
        let fetched = match source {
            ListSource::None => Ok(Body::default()),
            ListSource::Url(url) => {
                let shown = mask_address(url);
                let late = |_| {
                    Err(format!("could not fetch list from {shown}: no complete answer within {limit:?}"))
                };
                let got =
                    tokio::time::timeout(limit, self.get(url, &shown, limit)).await.unwrap_or_else(late);
                got.map_err(FetchError::from)
            }
            ListSource::File(written, path) => self.read(written, path, limit).await,
        };
        fetched.map_err(|error| FetchError { text: mask_text(&error.text).into_owned(), ..error })
    }

    /// `failed`: what the error of a body that is no list begins with.
    fn body(&self, bytes: Vec<u8>, failed: String) -> Body {
        let (refuses_other_than, failed) = (self.refuses_other_than, mask_text(&failed).into_owned());
        Body { bytes, refuses_other_than, keeps_lines: false, failed }
    }

    async fn read(&mut self, written: &str, path: &Path, limit: Duration) -> Result<Body, FetchError> {
        let file = self.file.get_or_insert_with(|| SettledFile::new(path.to_owned()));
        let failed = |cause: String| format!("could not fetch list from {written}: {cause}");
        match file.read(limit, MAX_BODY).await {
            Ok(bytes) => Ok(self.body(bytes, failed("the file".to_owned()))),
            Err(Unread::Unsettled(why)) => Err(FetchError { text: failed(why), is_unsettled: true }),
            Err(Unread::TooLarge) => {
                Err(format!("Could not read from {written}: the list is larger than {MAX_BODY} bytes").into())
            }
            Err(Unread::Late) => {
                Err(format!("Could not read from {written}: no complete answer within {limit:?}").into())
            }
            Err(Unread::Failed(why)) => Err(failed(why).into()),
        }
    }

    /// `shown`: the URL as texts have it.
    async fn get(&mut self, url: &str, shown: &str, limit: Duration) -> Result<Body, String> {
        let failed = |cause: String| format!("could not fetch list from {shown}: {cause}");
        let [quoted_url, quoted_shown] = [url, shown].map(|text| quoted(text).to_string());
        let parsed = go_url::scheme_and_host(url);
        let (scheme, host) = parsed.map_err(|cause| failed(cause.replace(&quoted_url, &quoted_shown)))?;
        if scheme != "http" && scheme != "https" {
            return Err(failed(format!("Get \"{shown}\": unsupported protocol scheme \"{scheme}\"")));
        }
        let client = match &self.client {
            Some(client) => client.clone(),
            None => {
                let client = client(host, limit.min(MAX_CONNECT_TIME)).map_err(|e| failed(causes(&e)))?;
                self.client.insert(client).clone()
            }
        };
        let mut response =
            client.get(url).header(ACCEPT_ENCODING, GZIP).send().await.map_err(|e| {
                failed(format!("Get \"{shown}\": {}", sending(&e.without_url(), &scheme, host)))
            })?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(failed(response.status().as_u16().to_string()));
        }
        let typed = self.refuses_other_than.and_then(|of| content::typed(response.headers(), of));
        if let Some((what, media)) = typed {
            let media = quoted(media);
            return Err(failed(format!(
                "the answer is {what}, not a list: its content type is {media}, that of a list text/plain"
            )));
        }
        let encoding = content_encoding(response.headers()).map_err(failed)?;
        let broken = |cause: String| format!("Could not read from {shown}: {cause}");
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|e| broken(causes(&e.without_url())))? {
            if body.len() + part.len() > MAX_BODY {
                return Err(broken(format!("the list is larger than {MAX_BODY} bytes")));
            }
            body.extend_from_slice(&part);
        }
        let bytes = decoded(encoding, body).await.map_err(broken)?;
        let keeps_lines = self.refuses_other_than.is_none();
        Ok(Body { keeps_lines, ..self.body(bytes, failed("the answer".to_owned())) })
    }
}

/// How a response is encoded. Errors: in a way that is not known.
fn content_encoding(headers: &HeaderMap) -> Result<Encoding, String> {
    let mut values =
        headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes).filter(|value| !value.is_empty());
    let Some(first) = values.next() else { return Ok(Encoding::Identity) };
    match values.next() {
        None if first.eq_ignore_ascii_case(b"identity") => Ok(Encoding::Identity),
        None if first.eq_ignore_ascii_case(GZIP.as_bytes()) => Ok(Encoding::Gzip),
        None => Err(format!("the content encoding {} is not supported", quoted(first))),
        Some(_) => Err("more than one content encoding is not supported".to_owned()),
    }
}

/// The bytes of the list. Errors: they cannot be decoded, or are too many.
async fn decoded(encoding: Encoding, body: Vec<u8>) -> Result<Vec<u8>, String> {
    if encoding == Encoding::Identity {
        return Ok(body);
    }
    let decode = move || {
        let mut list = Vec::new();
        let most = MAX_BODY as u64 + 1;
        MultiGzDecoder::new(&*body).take(most).read_to_end(&mut list).map(|_| list)
    };
    let list = tokio::task::spawn_blocking(decode).await.map_err(|error| error.to_string())?;
    let list = list.map_err(|error| format!("gzip: {error}"))?;
    if list.len() > MAX_BODY {
        return Err(format!("the list is larger than {MAX_BODY} bytes"));
    }
    Ok(list)
}

/// An HTTP client: at most 10 redirects, proxies of the environment except for loopback hosts. Other hosts are not told the URL, which may have
/// a token, as `Referer`. Every fetch has a connection of its own: one that was kept since the last one may be dead by then.
fn client(host: &str, connect_time: Duration) -> reqwest::Result<reqwest::Client> {
    mixer_net::tls::install_crypto_provider();
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::limited(10))
        .referer(false)
        .pool_max_idle_per_host(0)
        .connect_timeout(connect_time);
    // Without roots of the system, HTTPS fails as it does by default.
    if let Ok(config) = mixer_net::tls::ClientPem::default().config(&[b"h2", b"http/1.1"]) {
        builder = builder.tls_backend_preconfigured(config);
    }
    let name = host.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    let is_loopback = name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback());
    if is_loopback { builder.no_proxy() } else { builder }.build()
}

/// The text of a failed request; Istio Mixer's where users match on it.
fn sending(error: &reqwest::Error, scheme: &str, host: &str) -> String {
    if error.is_redirect() {
        return "stopped after 10 redirects".to_owned();
    }
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(found) = cause {
        let refused = found.downcast_ref::<std::io::Error>();
        if refused.is_some_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
            let port = if scheme == "https" { 443 } else { 80 };
            let address = host.parse::<std::net::SocketAddr>().or_else(|_| {
                host.trim_matches(['[', ']']).parse().map(|ip: std::net::IpAddr| (ip, port).into())
            });
            let at = address.map(|address| format!(" {address}")).unwrap_or_default();
            return format!("dial tcp{at}: connect: connection refused");
        }
        cause = found.source();
    }
    causes(error)
}

fn causes(error: &reqwest::Error) -> String {
    with_causes(error.to_string(), error)
}

/// The body without a byte order mark and with LF in place of CR LF.
fn with_unix_lines(body: Vec<u8>) -> Vec<u8> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).map(<[u8]>::to_vec).unwrap_or(body);
    if !body.contains(&b'\r') {
        return body;
    }
    let mut lines = Vec::with_capacity(body.len());
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let (line, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |line| (line, b"\n"));
        lines.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        lines.extend_from_slice(end);
    }
    lines
}

#[cfg(test)]
mod tests;
