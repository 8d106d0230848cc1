//! Sources, sinks, raw streams, certificates and a network that breaks, for the tests of this crate.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _};
use mixer_base::metrics::Metrics;
use mixer_mcp::message::{RequestResources, Resources, SinkNode};
use mixer_mcp::{
    Cache, Change, ClientOptions, Collection, Publication, Refusal, Resource, Server, ServerOptions,
    Services, Sink, SinkCollection, SinkOptions, Snapshot, Source, SourceOptions, Updater,
};
use mixer_net::address::ListenAddress;
use parking_lot::Mutex;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
use tonic::transport::{Channel, Endpoint};

pub(crate) const COLLECTION: &str = "istio/policy/v1beta1/rules";
pub(crate) const TYPE: &str = "type.googleapis.com/istio.policy.v1beta1.Rule";
pub(crate) const SOURCE: &str = "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream";
pub(crate) const AGGREGATED: &str =
    "/istio.mcp.v1alpha1.AggregatedMeshConfigService/StreamAggregatedResources";
pub(crate) const INCREMENTAL_AGGREGATED: &str =
    "/istio.mcp.v1alpha1.AggregatedMeshConfigService/IncrementalAggregatedResources";

/// How long anything may take, on a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until something holds.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("it takes too long")
}

pub(crate) fn address(text: &str) -> ListenAddress {
    ListenAddress::parse(text).unwrap()
}

pub(crate) fn any_address() -> ListenAddress {
    address("127.0.0.1:0")
}

pub(crate) fn collection(version: &str, resources: &[(&str, &str)]) -> Arc<Collection> {
    let resource = |(name, version): &(&str, &str)| {
        Arc::new(Resource::new(name, version, TYPE, version.as_bytes().to_vec()))
    };
    Collection::new(COLLECTION, version, resources.iter().map(resource))
}

pub(crate) fn source(options: SourceOptions) -> (Arc<Cache>, Arc<Source>) {
    let cache = Cache::new(|_, _| "g".into());
    let source = Source::new(Arc::clone(&cache), options, &Arc::new(Metrics::new())).unwrap();
    (cache, source)
}

/// A server that runs.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Serving {
    pub(crate) async fn start(options: ServerOptions, services: Services) -> Self {
        let server = Server::bind(options, services).unwrap();
        let (address, stop) = (server.local_address().unwrap(), CancellationToken::new());
        let task = tokio::spawn(server.serve(stop.clone()));
        Self { address, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        within(self.task).await.unwrap();
    }
}

/// A source of one collection and its server.
pub(crate) struct Harness {
    pub(crate) cache: Arc<Cache>,
    pub(crate) source: Arc<Source>,
    pub(crate) address: SocketAddr,
    serving: Serving,
}

impl Harness {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0", SourceOptions::new(vec![COLLECTION.into()])).await
    }

    pub(crate) async fn start_at(at: &str, options: SourceOptions) -> Self {
        let (cache, source) = source(options);
        let services = Services { source: Some(Arc::clone(&source)), sink: None };
        let serving = Serving::start(ServerOptions::new(address(at)), services).await;
        Self { cache, source, address: serving.address, serving }
    }

    pub(crate) fn publish(&self, version: &str, resources: &[(&str, &str)]) -> Publication {
        self.cache.set_snapshot("g", Arc::new(Snapshot::of([collection(version, resources)])))
    }

    pub(crate) async fn stop(self) {
        self.serving.stop().await;
    }
}

/// Keeps what the changes say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Application(Arc<Mutex<BTreeMap<String, String>>>);

impl Application {
    /// `NAME=VERSION` of every resource.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().iter().map(|(name, version)| format!("{name}={version}")).collect()
    }
}

impl Updater for Application {
    fn apply(&mut self, change: Change) -> Result<(), Refusal> {
        let mut held = self.0.lock();
        if !change.incremental {
            held.clear();
        }
        for name in &change.removed {
            held.remove(name);
        }
        for resource in change.resources {
            let resource = resource?;
            held.insert(resource.name.into(), resource.version.into());
        }
        Ok(())
    }
}

pub(crate) fn sink(incremental: bool) -> (Arc<Sink>, Application) {
    let only = SinkCollection { name: COLLECTION.into(), type_url: Some(TYPE.into()), incremental };
    let pauses = (Duration::from_millis(10), Duration::from_millis(40));
    let options = SinkOptions { pauses, ..SinkOptions::new("mixer", vec![only]) };
    (Sink::new(options, &Arc::new(Metrics::new())), Application::default())
}

/// A sink that follows a source.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn follow(sink: &Arc<Sink>, application: &Application, source: ClientOptions) -> Self {
        let stop = CancellationToken::new();
        let (sink, until, mut application) = (Arc::clone(sink), stop.clone(), application.clone());
        let task = tokio::spawn(async move { sink.follow(&source, &mut application, until).await });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        within(self.task).await.unwrap();
    }
}

pub(crate) fn request(collection: &str) -> RequestResources {
    let sink_node = Some(SinkNode { id: "raw".to_owned(), ..SinkNode::default() });
    RequestResources { sink_node, collection: collection.to_owned(), ..RequestResources::default() }
}

pub(crate) async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// A stream of any bytes, to a source.
pub(crate) struct RawStream<T = Resources> {
    requests: mpsc::Sender<Vec<u8>>,
    messages: Streaming<T>,
}

impl<T: Message + Default + 'static> RawStream<T> {
    pub(crate) async fn open(address: SocketAddr, path: &'static str) -> Result<Self, Status> {
        Self::open_on(channel(address).await, path).await
    }

    pub(crate) async fn open_on(channel: Channel, path: &'static str) -> Result<Self, Status> {
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.unwrap();
        let (requests, outgoing) = mpsc::channel(4);
        let path = http::uri::PathAndQuery::from_static(path);
        let outgoing = tonic::Request::new(ReceiverStream::new(outgoing));
        let response = within(client.streaming(outgoing, path, Raw(PhantomData))).await?;
        Ok(Self { requests, messages: response.into_inner() })
    }

    pub(crate) async fn send(&self, request: &impl Message) {
        self.send_bytes(request.encode_to_vec()).await;
    }

    pub(crate) async fn send_bytes(&self, bytes: Vec<u8>) {
        self.requests.send(bytes).await.unwrap();
    }

    /// The first request for a collection.
    pub(crate) async fn ask(&self, collection: &str) {
        self.send(&request(collection)).await;
    }

    pub(crate) async fn next(&mut self) -> Result<Option<T>, Status> {
        within(self.messages.message()).await
    }
}

/// Sends bytes, receives messages.
struct Raw<T>(PhantomData<fn() -> T>);

impl<T: Message + Default + 'static> Codec for Raw<T> {
    type Encode = Vec<u8>;
    type Decode = T;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<T> Encoder for Raw<T> {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl<T: Message + Default> Decoder for Raw<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        T::decode(bytes).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// A network that breaks: connections to a server that are cut after a number of bytes.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    left: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let (bytes, cuts) = (Arc::clone(&left), watch::Sender::new(0));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (bytes, cuts) = (Arc::clone(&bytes), cuts.clone());
                tokio::spawn(async move {
                    let Ok(server) = tokio::net::TcpStream::connect(server).await else { return };
                    let (mut from_client, mut to_client) = client.into_split();
                    let (mut from_server, mut to_server) = server.into_split();
                    let mut cut = cuts.subscribe();
                    tokio::select! {
                        () = copy(&mut from_client, &mut to_server, &bytes, &cuts) => {}
                        () = copy(&mut from_server, &mut to_client, &bytes, &cuts) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, left }
    }

    /// All connections end after so many bytes of both directions.
    pub(crate) fn cut_after(&self, bytes: usize) {
        self.left.store(bytes, Ordering::Relaxed);
    }
}

async fn copy(
    from: &mut tokio::net::tcp::OwnedReadHalf,
    to: &mut tokio::net::tcp::OwnedWriteHalf,
    left: &AtomicUsize,
    cut: &watch::Sender<u64>,
) {
    let mut buffer = [0; 256];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let before = left.load(Ordering::Relaxed);
        if before != usize::MAX {
            if before < count {
                left.store(usize::MAX, Ordering::Relaxed);
                cut.send_modify(|cuts| *cuts += 1);
                return;
            }
            left.store(before - count, Ordering::Relaxed);
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// A certificate authority whose files are in a directory.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    pub(crate) fn new(directory: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        std::fs::write(directory.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), directory: directory.to_owned() }
    }

    /// Writes `NAME.pem` and `NAME.key`; the key first, since the certificate is looked for.
    pub(crate) fn issue(&self, name: &str, names: &[&str]) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let san = |name: &&str| match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::URI((*name).try_into().unwrap()),
        };
        params.subject_alt_names = names.iter().map(san).collect();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        std::fs::write(self.directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        std::fs::write(self.directory.join(format!("{name}.pem")), certificate).unwrap();
    }
}
