//! Fetching a list by HTTP or from a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Params, url};
use crate::causes::with_causes;
use mixer_base::regular_file;
use mixer_config::store::{Writer, writer_of};

/// Largest list, in bytes.
pub(super) const MAX_BODY: usize = 16 << 20;
/// Longest timeout of a fetch, even if the refresh interval is longer.
const MAX_FETCH_TIME: Duration = Duration::from_secs(30);
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

    /// As configured.
    pub(super) fn name(&self) -> &str {
        match self {
            ListSource::None => "",
            ListSource::Url(url) => url,
            ListSource::File(written, _) => written,
        }
    }
}

/// The path in `providerFile`: either a path or `file://` and a path.
pub(super) fn file_path(written: &str) -> &Path {
    Path::new(written.strip_prefix("file://").unwrap_or(written))
}

/// Fetches lists.
#[derive(Default)]
pub(super) struct Fetcher {
    /// Created by the first fetch.
    client: Option<reqwest::Client>,
}

impl Fetcher {
    /// The body of the list, within the refresh interval. Errors: texts for the log and for failed checks.
    pub(super) async fn fetch(&mut self, source: &ListSource, interval: Duration) -> Result<Vec<u8>, String> {
        let limit = interval.min(MAX_FETCH_TIME);
        match source {
            ListSource::None => Ok(Vec::new()),
            ListSource::Url(url) => {
                let late =
                    |_| Err(format!("could not fetch list from {url}: no complete answer within {limit:?}"));
                tokio::time::timeout(limit, self.get(url)).await.unwrap_or_else(late)
            }
            ListSource::File(written, path) => {
                let late =
                    |_| Err(format!("Could not read from {written}: no complete answer within {limit:?}"));
                tokio::time::timeout(limit, read_file(written, path)).await.unwrap_or_else(late)
            }
        }
    }

    async fn get(&mut self, url: &str) -> Result<Vec<u8>, String> {
        let failed = |cause: String| format!("could not fetch list from {url}: {cause}");
        let (scheme, host) = url::scheme_and_host(url).map_err(failed)?;
        if scheme != "http" && scheme != "https" {
            return Err(failed(format!("Get \"{url}\": unsupported protocol scheme \"{scheme}\"")));
        }
        let client = match &self.client {
            Some(client) => client.clone(),
            None => {
                let client = client(host).map_err(|e| failed(causes(&e)))?;
                self.client.insert(client).clone()
            }
        };
        let mut response = client
            .get(url)
            .send()
            .await
            .map_err(|e| failed(format!("Get \"{url}\": {}", sending(&e, &scheme, host))))?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(failed(response.status().as_u16().to_string()));
        }
        let broken = |cause: String| format!("Could not read from {url}: {cause}");
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|e| broken(causes(&e)))? {
            if body.len() + part.len() > MAX_BODY {
                return Err(broken(format!("the list is larger than {MAX_BODY} bytes")));
            }
            body.extend_from_slice(&part);
        }
        Ok(body)
    }
}

/// An HTTP client: at most 10 redirects, proxies of the environment except for loopback hosts.
fn client(host: &str) -> reqwest::Result<reqwest::Client> {
    mixer_net::tls::install_crypto_provider();
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::limited(10));
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

async fn read_file(written: &str, path: &Path) -> Result<Vec<u8>, String> {
    let owned = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let (file, _) = regular_file::open(&owned)?;
        // Held while the file is read.
        let writer = writer_of(&file);
        if matches!(writer, Writer::Open) {
            return Err(std::io::Error::new(
                std::io::ErrorKind::ResourceBusy,
                "the file is being written: it is read when its writer has closed it",
            ));
        }
        regular_file::read_open(&file, &file.metadata()?, MAX_BODY as u64)
    });
    let failed = |cause: String| format!("could not fetch list from {written}: {cause}");
    match read.await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            Err(format!("Could not read from {written}: the list is larger than {MAX_BODY} bytes"))
        }
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}
