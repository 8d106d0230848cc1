//! The provider of a list: fetched at build, refreshed on an interval, purged when it is too old.

use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use notify::Watcher;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::entries::Entries;
use super::{EntryType, Params, url};
use mixer_attribute::SignedDuration;

/// Largest list, in bytes.
pub(super) const MAX_BODY: usize = 16 << 20;
/// Longest timeout of a fetch, even if the refresh interval is longer.
const MAX_FETCH_TIME: Duration = Duration::from_secs(30);
/// Debounce time of file changes, so that a burst of changes is read once.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// The source of entries beside the overrides.
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
    fn name(&self) -> &str {
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

/// The current list. Replaced as a whole.
#[derive(Debug, Default)]
pub(super) struct ListState {
    /// `None`: no list was loaded, or it was purged.
    pub(super) entries: Option<Arc<Entries>>,
    /// Error of the last fetch.
    pub(super) error: Option<String>,
}

/// The list, for concurrent readers.
#[derive(Debug)]
pub(super) struct Provider {
    source: ListSource,
    entry_type: EntryType,
    overrides: Vec<String>,
    handler_name: Arc<str>,
    state: ArcSwap<ListState>,
}

impl Provider {
    /// Nothing loaded yet.
    pub(super) fn new(
        source: ListSource,
        entry_type: EntryType,
        overrides: Vec<String>,
        handler_name: Arc<str>,
    ) -> Self {
        Self { source, entry_type, overrides, handler_name, state: ArcSwap::default() }
    }

    /// The current list. Takes no lock.
    pub(super) fn state(&self) -> arc_swap::Guard<Arc<ListState>> {
        self.state.load()
    }

    /// Whether there is a source to refresh from.
    pub(super) fn has_source(&self) -> bool {
        self.source != ListSource::None
    }

    /// Keeps the list and records the error.
    fn fail(&self, text: String) {
        tracing::error!(target: "adapters", adapter = &*self.handler_name, "{text}");
        let entries = self.state.load().entries.clone();
        self.state.store(Arc::new(ListState { entries, error: Some(text) }));
    }

    fn info(&self, text: std::fmt::Arguments<'_>) {
        tracing::info!(target: "adapters", adapter = &*self.handler_name, "{text}");
    }
}

/// Fetches the list, at build and in the background.
pub(super) struct Refresher {
    provider: Arc<Provider>,
    interval: Duration,
    ttl: Duration,
    /// Created by the first fetch.
    client: Option<reqwest::Client>,
    hasher: std::hash::RandomState,
    /// Length and hash of the body of the current list.
    latest: Option<(usize, u64)>,
}

impl Refresher {
    /// Nothing fetched yet.
    pub(super) fn new(provider: Arc<Provider>, interval: SignedDuration, ttl: SignedDuration) -> Self {
        let positive = |d: SignedDuration| Duration::from_nanos(d.nanos.max(1).cast_unsigned());
        Self {
            provider,
            interval: positive(interval),
            ttl: positive(ttl),
            client: None,
            hasher: std::hash::RandomState::new(),
            latest: None,
        }
    }

    /// Refreshes the list until the task is aborted.
    pub(super) async fn run(mut self) {
        let start = Instant::now();
        let mut ticks = interval_at(start + self.interval, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut purge_at = Some(start + self.ttl);
        let changed = Arc::new(tokio::sync::Notify::new());
        let watcher = self.watch(&changed);
        loop {
            let purge = async {
                match purge_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = ticks.tick() => {}
                () = changed.notified(), if watcher.is_some() => tokio::time::sleep(SETTLE_TIME).await,
                () = purge => {
                    self.purge();
                    purge_at = None;
                    continue;
                }
            }
            if self.fetch().await {
                purge_at = Some(Instant::now() + self.ttl);
            }
        }
    }

    /// Watches the directory of a file, because the file or the target of its link may be replaced.
    fn watch(&self, changed: &Arc<tokio::sync::Notify>) -> Option<notify::RecommendedWatcher> {
        let ListSource::File(_, path) = &self.provider.source else { return None };
        let (directory, name) = (path.parent()?, path.file_name()?.to_owned());
        let changed = changed.clone();
        let concerns = move |path: &PathBuf| {
            // Kubernetes updates ConfigMaps through symbolic links whose names begin with two dots.
            path.file_name().is_some_and(|n| n == name || n.as_encoded_bytes().starts_with(b".."))
        };
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let matters = event.map_or(true, |e| !e.kind.is_access() && e.paths.iter().any(&concerns));
            if matters {
                changed.notify_one();
            }
        });
        let watching = watcher.and_then(|mut watcher| {
            watcher.watch(directory, notify::RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        watching
            .inspect_err(|error| {
                let directory = directory.display();
                tracing::warn!(
                    target: "adapters",
                    adapter = &*self.provider.handler_name,
                    "cannot watch {directory}: {error}; the list is reloaded on the refresh interval only"
                );
            })
            .ok()
    }

    fn purge(&mut self) {
        tracing::warn!(
            target: "adapters",
            adapter = &*self.provider.handler_name,
            "Purging list due to inability to refresh it in time"
        );
        let error = self.provider.state.load().error.clone();
        self.provider.state.store(Arc::new(ListState { entries: None, error }));
    }

    /// Fetches and installs the list. Returns false if that failed and the old list is kept.
    pub(super) async fn fetch(&mut self) -> bool {
        let provider = self.provider.clone();
        let name = provider.source.name();
        if provider.has_source() {
            provider.info(format_args!("Fetching list from {name}"));
        }
        let body = match self.body().await {
            Ok(body) => body,
            Err(text) => {
                provider.fail(text);
                return false;
            }
        };
        let digest = (body.len(), self.hasher.hash_one(&body));
        if provider.state.load().entries.is_some() && self.latest == Some(digest) {
            provider.info(format_args!("Fetched list is unchanged"));
            return true;
        }
        match Entries::parse(provider.entry_type, &body, &provider.overrides) {
            Ok(entries) => {
                provider.info(format_args!("Installing updated list with {} entries", entries.len));
                provider.state.store(Arc::new(ListState { entries: Some(Arc::new(entries)), error: None }));
                self.latest = Some(digest);
                true
            }
            Err(error) => {
                provider.fail(format!("Could not parse data from {name}: {error}"));
                false
            }
        }
    }

    async fn body(&mut self) -> Result<Vec<u8>, String> {
        let provider = self.provider.clone();
        let limit = self.interval.min(MAX_FETCH_TIME);
        match &provider.source {
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

/// An error and all its causes on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

async fn read_file(written: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("could not fetch list from {written}: {e}");
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut body = Vec::new();
    let broken = |cause: String| format!("Could not read from {written}: {cause}");
    file.take(MAX_BODY as u64 + 1).read_to_end(&mut body).await.map_err(|e| broken(e.to_string()))?;
    if body.len() > MAX_BODY {
        return Err(broken(format!("the list is larger than {MAX_BODY} bytes")));
    }
    Ok(body)
}
