//! A source of the Mesh Configuration Protocol as a store: this server as a sink.
//!
//! A collection is one kind. The body of a resource becomes what the same resource is in a file: a typed message its proto3 JSON, a
//! `google.protobuf.Struct` the plain value. Only what differs is a change, whatever a source sends again.

mod apply;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use mixer_base::metrics::Metrics;
use mixer_base::task::Task;
use mixer_config::store::{Feed, FeedStore, StoreError};
use mixer_mcp::{
    ClientAuth, ClientOptions, Server, ServerOptions, Services, Sink, SinkCollection, SinkOptions, SinkStatus,
};
use mixer_net::address::ListenAddress;
use mixer_net::tls::{ClientTlsOptions, ServerTlsOptions};
use mixer_schema::Kind;

use crate::StoreKind;
use apply::{Applier, Needed};

/// How often the state of the stream is looked at.
const LOOKS: Duration = Duration::from_millis(500);
/// A legacy kind that Istio's policy server does not ask for.
// compat(1.3): pinned by the case sink-initial-requests.
const NOT_ASKED_FOR: &str = "istio/config/v1alpha2/legacy/rbacs";
/// The group of the kinds that Istio's policy server asks for.
const GROUP: &str = "config.istio.io";

/// Certificates of this server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The certificate chain, PEM.
    pub cert_file: PathBuf,
    /// Its key, PEM.
    pub key_file: PathBuf,
    /// What verifies the other side, PEM.
    pub ca_cert_file: PathBuf,
}

/// What the URL of a source says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where the source is, or where this server waits for one.
    pub end: End,
    /// Whether both sides have certificates.
    pub is_mutual_tls: bool,
    /// Collections beside those of Mixer's kinds.
    pub collections: Vec<String>,
}

/// Which side connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// This one, to `HOST:PORT`.
    Connects(String),
    /// The source, to this address.
    Listens(ListenAddress),
}

impl Settings {
    /// From scheme and `HOST:PORT[?collections=A,B]`.
    ///
    /// Errors: there is no port, or an unknown parameter.
    pub fn parse(url: &str, scheme: &str, rest: &str) -> Result<Self, StoreError> {
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let address = address.trim_end_matches('/');
        let invalid = |cause: String| StoreError::Invalid { url: url.to_owned(), cause };
        let end = match scheme.strip_suffix("+listen") {
            Some(_) => End::Listens(ListenAddress::parse(address).map_err(|error| invalid(error.0))?),
            None => {
                let port = address.rsplit_once(':').and_then(|(host, port)| {
                    port.parse::<u16>().ok().filter(|port| *port > 0 && !host.is_empty())
                });
                if port.is_none() {
                    return Err(invalid(format!("`{address}` is not HOST:PORT")));
                }
                End::Connects(address.to_owned())
            }
        };
        let mut settings = Self { end, is_mutual_tls: scheme.starts_with("mcps"), collections: Vec::new() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "collections" => {
                    settings
                        .collections
                        .extend(value.split(',').filter(|name| !name.is_empty()).map(Into::into));
                }
                other => {
                    return Err(invalid(format!("unknown parameter `{other}`; it may have `collections`")));
                }
            }
        }
        Ok(settings)
    }

    /// The collections that are asked for, with their kinds: those of Mixer as far as `kinds` has them, and those that the URL adds.
    ///
    /// Errors: one that is added is unknown, or its kind has no effect here.
    fn kinds(&self, url: &str, kinds: &[StoreKind]) -> Result<Vec<&'static Kind>, StoreError> {
        let is_read =
            |kind: &&Kind| kinds.iter().any(|read| read.kind == kind.kind && read.group == kind.group);
        let own = |kind: &&Kind| kind.group == GROUP && kind.collection != NOT_ASKED_FOR;
        let mut asked: Vec<&'static Kind> =
            mixer_schema::kinds().iter().filter(own).filter(is_read).collect();
        for name in &self.collections {
            let kind =
                mixer_schema::by_collection(name).filter(is_read).ok_or_else(|| StoreError::Invalid {
                    url: url.to_owned(),
                    cause: format!("`{name}` is no collection that a server reads"),
                })?;
            if !asked.iter().any(|known| known.collection == kind.collection) {
                asked.push(kind);
            }
        }
        Ok(asked)
    }
}

/// Follows a source on the current runtime, until the store is dropped.
///
/// Errors: the URL names what is not there, or the address cannot be listened on.
pub fn open(
    url: &str,
    settings: Settings,
    options: &crate::StoreOptions,
    metrics: &Arc<Metrics>,
) -> Result<FeedStore, StoreError> {
    let kinds = settings.kinds(url, &options.kinds)?;
    let needed = needed_kinds(&kinds, options);
    let collection = |kind: &&Kind| SinkCollection {
        name: kind.collection.into(),
        type_url: Some(kind.type_url().into()),
        incremental: false,
    };
    let mut asked = SinkOptions::new("mixer", kinds.iter().map(collection).collect());
    asked.later = needed.iter().flat_map(|needed| &needed.kinds).map(collection).collect();
    asked.max_message = options.max_mcp_message;
    if let Some(name) = options.reader {
        asked.node = mixer_mcp::reader(name);
    }
    let stop = CancellationToken::new();
    let root = url.split(['?', '#']).next().unwrap_or(url).trim_end_matches('/');
    let (store, feed) = Feed::new(url, root, stop.clone().drop_guard());
    feed.change(|draft| {
        kinds.iter().for_each(|kind| draft.expect(kind.collection));
        draft.close();
    });
    let sink = Sink::new(asked, metrics);
    let follower = Follower {
        updater: Applier::new(feed.clone(), &kinds)
            .asking_for(needed, Arc::clone(&sink))
            .ignoring_unknown_fields(options.ignores_unknown_fields),
        feed,
        sink,
        settings,
        credentials: options.credentials.clone(),
        bound: Mutex::new(None),
        stop: stop.clone(),
    };
    let first = match &follower.settings.end {
        End::Listens(_) => Some(follower.bind()?),
        End::Connects(_) => None,
    };
    let (follower, mut first) = (Arc::new(follower), first);
    let make = move || {
        let (follower, server) = (Arc::clone(&follower), first.take());
        async move { follower.run(server).await }
    };
    // The handle is not kept: the task ends with the store.
    drop(Task::restarted("store").spawn(stop, make));
    Ok(store)
}

/// The kinds that may be needed beside those that are asked for.
fn needed_kinds(asked: &[&'static Kind], options: &crate::StoreOptions) -> Vec<Needed> {
    let is_new = |kind: &&'static Kind| !asked.iter().any(|known| known.collection == kind.collection);
    let find = |read: &StoreKind| {
        mixer_schema::kinds().iter().find(|kind| kind.kind == read.kind && kind.group == read.group)
    };
    let needed = options.needed.iter().map(|needed| Needed {
        kinds: needed.kinds.iter().filter_map(find).filter(is_new).collect(),
        is_needed_by: Arc::clone(&needed.is_needed_by),
    });
    needed.filter(|needed| !needed.kinds.is_empty()).collect()
}

/// What is needed to follow a source, again after a failure of this program.
struct Follower {
    feed: Feed,
    sink: Arc<Sink>,
    updater: Applier,
    settings: Settings,
    credentials: Credentials,
    /// The TCP address of the socket that sources connect to.
    bound: Mutex<Option<SocketAddr>>,
    stop: CancellationToken,
}

impl Follower {
    /// Opens the socket that sources connect to.
    fn bind(&self) -> Result<Server, StoreError> {
        let End::Listens(address) = &self.settings.end else {
            return Err(StoreError::Unusable { what: "configuration", why: "it does not listen".to_owned() });
        };
        let Credentials { cert_file, key_file, ca_cert_file } = self.credentials.clone();
        let mut options = ServerOptions::new(address.clone());
        options.tls = self.settings.is_mutual_tls.then(|| ServerTlsOptions {
            cert_file,
            key_file,
            client_ca_file: ca_cert_file,
            ..ServerTlsOptions::default()
        });
        let services = Services {
            sink: Some((Arc::clone(&self.sink), Box::new(self.updater.clone()))),
            ..Services::default()
        };
        let server = Server::bind(options, services)
            .map_err(|error| StoreError::Unusable { what: "configuration", why: error.to_string() })?;
        // Of port 0 the one that it became.
        if let Some(bound) = server.local_address() {
            *self.bound.lock() = Some(bound);
        }
        Ok(server)
    }

    async fn run(&self, server: Option<Server>) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.follow(server) => {}
            () = self.tell() => {}
        }
    }

    async fn follow(&self, server: Option<Server>) {
        let address = match &self.settings.end {
            End::Connects(address) => address,
            End::Listens(_) => {
                match server.map_or_else(|| self.bind(), Ok) {
                    Ok(server) => server.serve(self.stop.clone()).await,
                    // The task is started again after a pause.
                    Err(error) => tracing::warn!("{error}"),
                }
                return;
            }
        };
        let mut source = ClientOptions::new(address.clone());
        if self.settings.is_mutual_tls {
            let Credentials { cert_file, key_file, ca_cert_file } = self.credentials.clone();
            source.auth = ClientAuth::Tls(ClientTlsOptions {
                ca_file: ca_cert_file,
                cert_file,
                key_file,
                ..ClientTlsOptions::default()
            });
        }
        self.sink.follow(&source, &mut self.updater.clone(), self.stop.clone()).await;
    }

    /// Tells how far this is.
    async fn tell(&self) {
        let mut connected: Option<(String, Instant)> = None;
        let mut connections = 0;
        loop {
            tokio::time::sleep(LOOKS).await;
            let status = self.sink.status();
            let peer = status.source.clone().unwrap_or_default();
            if peer.is_empty() {
                connected = None;
            } else if connected.as_ref().is_none_or(|(known, _)| *known != peer) {
                connected = Some((peer.clone(), Instant::now()));
                connections += 1;
            }
            let since = connected.as_ref().map(|(_, since)| *since);
            let refusal = last_refusal(&status);
            self.feed.outage(self.outage(&status));
            self.feed.tell(|known| {
                known.peer = peer;
                known.connected_since = since;
                known.connections = connections;
                known.last_refusal = refusal;
            });
        }
    }

    /// Why there is no stream.
    fn outage(&self, status: &SinkStatus) -> Option<String> {
        match (&status.source, &self.settings.end) {
            (Some(_), _) => None,
            (None, End::Listens(address)) => {
                let bound = *self.bound.lock();
                let address = bound.map_or_else(|| address.to_string(), |bound| bound.to_string());
                Some(format!("no source is connected to {address}"))
            }
            (None, End::Connects(address)) => status.error.as_ref().map(|why| match why.contains(address) {
                true => why.clone(),
                false => format!("{address}: {why}"),
            }),
        }
    }
}

fn last_refusal(status: &SinkStatus) -> Option<String> {
    status
        .collections
        .iter()
        .find_map(|(name, known)| Some(format!("{name}: {}", known.refusal.as_ref()?.message)))
}
