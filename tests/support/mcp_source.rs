//! A source of the Mesh Configuration Protocol that tests write: it sends what it is told, or serves the content of a directory.

#![allow(clippy::allow_attributes, dead_code, reason = "each test binary uses its part of it")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mixer_config::RawResource;
use mixer_mcp::message::{Metadata, RequestResources, Resource, Resources};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::body::Body;
use tonic::{Request, Response, Status, Streaming};

/// The resources of a collection, and its version.
type Content = (u64, Vec<Resource>);

#[derive(Default)]
struct State {
    /// What is sent when it is asked for, and when it changes; nothing of a source that sends what it is told.
    content: BTreeMap<String, Content>,
    serves: bool,
    /// The stream that was opened last.
    stream: Option<mpsc::Sender<Result<Resources, Status>>>,
    streams: u64,
    nonce: u64,
    /// What was sent last, by collection: nonce and version.
    sent: BTreeMap<String, (String, u64)>,
    /// The versions that were acknowledged or refused, by collection.
    answered: BTreeMap<String, u64>,
    requests: Vec<RequestResources>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn send(&mut self, collection: &str) {
        let Some((version, resources)) = self.content.get(collection).cloned() else { return };
        self.nonce += 1;
        let nonce = self.nonce.to_string();
        self.sent.insert(collection.to_owned(), (nonce.clone(), version));
        let message = Resources {
            system_version_info: version.to_string(),
            collection: collection.to_owned(),
            resources,
            nonce,
            ..Resources::default()
        };
        if let Some(stream) = &self.stream {
            let _ = stream.try_send(Ok(message));
        }
    }

    fn received(&mut self, request: RequestResources) {
        let collection = request.collection.clone();
        if self.serves {
            let sent = self.sent.get(&collection).cloned();
            match sent.filter(|(nonce, _)| *nonce == request.response_nonce) {
                Some((_, version)) => {
                    self.answered.insert(collection.clone(), version);
                    if self.content.get(&collection).is_some_and(|(newest, _)| *newest != version) {
                        self.send(&collection);
                    }
                }
                None => self.send(&collection),
            }
        }
        self.requests.push(request);
    }
}

/// A source, which ends when it is dropped.
pub(crate) struct McpSource {
    shared: Arc<Shared>,
    address: SocketAddr,
    running: Option<(watch::Sender<bool>, std::thread::JoinHandle<()>)>,
}

impl Drop for McpSource {
    fn drop(&mut self) {
        self.stop();
    }
}

impl McpSource {
    /// One that sends what it is told.
    pub(crate) fn start() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut source = Self { shared: Arc::default(), address, running: None };
        source.resume();
        source
    }

    /// One that serves the resources of a directory, in every collection that a policy server asks for.
    pub(crate) fn serving(directory: &Path) -> Self {
        let source = Self::start();
        source.shared.state().serves = true;
        source.set(directory);
        source
    }

    /// Stops listening; connections end.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            stop.send_replace(true);
            thread.join().unwrap();
            self.shared.state().stream = None;
        }
    }

    /// Listens again, on the same port.
    pub(crate) fn resume(&mut self) {
        let bound = super::wait_for(super::DEADLINE, || std::net::TcpListener::bind(self.address).ok());
        let listener = bound.expect("no other test keeps its port");
        listener.set_nonblocking(true).unwrap();
        self.address = listener.local_addr().unwrap();
        let (stop, mut stopped) = watch::channel(false);
        let service = Service(Arc::clone(&self.shared));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
                let served =
                    tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
                tokio::select! {
                    served = served => served.unwrap(),
                    _ = stopped.changed() => {}
                }
            });
            runtime.shutdown_background();
        });
        self.running = Some((stop, thread));
    }

    /// `HOST:PORT`
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The URL of the store.
    pub(crate) fn url(&self) -> String {
        format!("mcp://{}", self.address)
    }

    /// Sends a message on the stream that was opened last.
    pub(crate) fn send(&self, message: Resources) {
        let state = self.shared.state();
        state.stream.as_ref().expect("a stream").try_send(Ok(message)).expect("room");
    }

    /// Serves the resources of a directory from now on.
    pub(crate) fn set(&self, directory: &Path) {
        Self::read(directory)
            .into_iter()
            .for_each(|(collection, resources)| self.put(&collection, resources));
    }

    /// Serves those of one collection from now on, and others as before.
    pub(crate) fn set_collection(&self, directory: &Path, collection: &str) {
        self.put(collection, Self::read(directory).remove(collection).unwrap_or_default());
    }

    /// The resources of a directory by collection.
    fn read(directory: &Path) -> BTreeMap<String, Vec<Resource>> {
        let sources = [directory.display().to_string()];
        let read = mixer_config::store::read_sources(&sources, &mut std::io::empty()).unwrap();
        let mut content: BTreeMap<String, Vec<Resource>> = BTreeMap::new();
        for kind in mixer_schema::kinds() {
            content.insert(kind.collection.to_owned(), Vec::new());
        }
        for resource in read.resources.iter() {
            if let Some((collection, encoded)) = encoded(resource) {
                content.entry(collection).or_default().push(encoded);
            }
        }
        content
    }

    /// Serves a collection no longer: nothing answers who asks for it.
    pub(crate) fn forget(&self, collection: &str) {
        self.shared.state().content.remove(collection);
    }

    /// Serves these resources in a collection from now on.
    pub(crate) fn put(&self, collection: &str, resources: Vec<Resource>) {
        let mut state = self.shared.state();
        let (version, known) = state.content.entry(collection.to_owned()).or_default();
        if *version > 0 && *known == resources {
            return;
        }
        (*version, *known) = (*version + 1, resources);
        let is_answered =
            state.sent.get(collection).is_some_and(|(_, sent)| state.answered.get(collection) == Some(sent));
        if is_answered {
            state.send(collection);
        }
    }

    /// Whether what is served in a collection was acknowledged or refused.
    pub(crate) fn is_answered(&self, collection: &str) -> bool {
        let state = self.shared.state();
        let newest = state.content.get(collection).map(|(version, _)| version);
        newest.is_some() && state.answered.get(collection) == newest
    }

    /// Requests since the last time, at least this many.
    ///
    /// Panics when they do not come.
    pub(crate) fn take_requests(&self, least: usize, limit: Duration) -> Vec<RequestResources> {
        let end = Instant::now() + limit;
        let mut state = self.shared.state();
        while state.requests.len() < least {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only {:?}", state.requests);
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
        std::mem::take(&mut state.requests)
    }

    /// Waits for a refusal.
    ///
    /// Panics when none comes.
    pub(crate) fn next_refusal(&self, limit: Duration) -> String {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let requests = self.take_requests(1, left);
            if let Some(error) = requests.into_iter().find_map(|request| request.error_detail) {
                return error.message;
            }
        }
    }

    /// The refusals since the last time.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let requests = std::mem::take(&mut self.shared.state().requests);
        requests.into_iter().filter_map(|request| Some(request.error_detail?.message)).collect()
    }

    /// How many streams were opened.
    pub(crate) fn streams(&self) -> u64 {
        self.shared.state().streams
    }
}

/// The collection of a resource, and what a source sends of it; `None` of a kind without a collection.
fn encoded(resource: &RawResource) -> Option<(String, Resource)> {
    let kind = mixer_schema::by_kind(&resource.key.kind)?;
    let document = resource.document();
    let null = mixer_config::Node::default();
    let body = mixer_schema::encode(kind, document.get("spec").unwrap_or(&null)).expect("it is valid");
    let texts_of = |name: &str| -> BTreeMap<String, String> {
        let texts = document.get("metadata").and_then(|metadata| metadata.get(name));
        let texts = texts.map_or(&[][..], |texts| texts.entries()).iter();
        texts
            .map(|entry| (entry.key.to_string(), entry.value.as_str().unwrap_or_default().to_owned()))
            .collect()
    };
    let metadata = Metadata {
        name: format!("{}/{}", resource.key.namespace, resource.key.name),
        version: format!("{:x}", resource.revision),
        annotations: texts_of("annotations"),
        labels: texts_of("labels"),
        ..Metadata::default()
    };
    let body = mixer_mcp::message::google::protobuf::Any { type_url: body.type_url, value: body.body };
    Some((kind.collection.to_owned(), Resource { metadata: Some(metadata), body: Some(body) }))
}

/// The service of a source.
#[derive(Clone)]
struct Service(Arc<Shared>);

impl tonic::server::NamedService for Service {
    const NAME: &'static str = "istio.mcp.v1alpha1.ResourceSource";
}

impl tower::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let codec = tonic_prost::ProstCodec::<Resources, RequestResources>::default();
            let mut grpc = tonic::server::Grpc::new(codec).max_encoding_message_size(usize::MAX);
            Ok(grpc.streaming(service, request).await)
        })
    }
}

impl tonic::server::StreamingService<RequestResources> for Service {
    type Response = Resources;
    type ResponseStream = ReceiverStream<Result<Resources, Status>>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<RequestResources>>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (sender, receiver) = mpsc::channel(1024);
            {
                let mut state = shared.state();
                state.stream = Some(sender.clone());
                state.streams += 1;
                state.sent.clear();
                state.answered.clear();
            }
            let mut requests = request.into_inner();
            tokio::spawn(async move {
                while let Ok(Some(request)) = requests.message().await {
                    shared.state().received(request);
                    shared.changed.notify_all();
                }
                drop(sender);
            });
            Ok(Response::new(ReceiverStream::new(receiver)))
        })
    }
}
