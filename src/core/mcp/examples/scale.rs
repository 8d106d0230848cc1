//! Measures a source with many sinks, all in this process and over loopback.
//!
//! `cargo run --release -p mixer-mcp --example scale -- [SINKS] [RESOURCES]`; the defaults are 1000 and 100000. The sinks take
//! differences and do not look at resources, so that what is measured is the source. See docs/benchmarks.md.

use std::io::Write as _;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Buf as _;
use mixer_base::metrics::{self, Metrics};
use mixer_base::task::Group;
use mixer_mcp::message::RequestResources;
use mixer_mcp::{
    Cache, Collection, Content, Publication, Rate, Resource, Server, ServerOptions, Services, Snapshot,
    Source, SourceOptions, Target,
};
use mixer_net::address::ListenAddress;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

const COLLECTION: &str = "istio/networking/v1alpha3/virtualservices";
const PATH: &str = "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream";
/// Sinks that begin at once: each has everything in memory for a moment.
const AT_ONCE: usize = 16;
/// Resources while all sinks reconnect at once.
const STORM: usize = 1_000;
const EDITS: u32 = 20;

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let argument = |number: usize, default: usize| match std::env::args().nth(number) {
        Some(text) => text.parse::<usize>(),
        None => Ok(default),
    };
    let (sinks, resources) = (argument(1, 1_000)?, argument(2, 100_000)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(sinks, resources))
}

/// A source on a port.
struct World {
    cache: Arc<Cache>,
    source: Arc<Source>,
    address: SocketAddr,
    content: Content,
    version: u64,
}

impl World {
    fn start() -> Result<Self, Error> {
        let cache = Cache::new(|_, _| "default".into());
        let unlimited = Rate { every: Duration::ZERO, burst: 1 };
        let options = SourceOptions { streams: unlimited, ..SourceOptions::new(vec![COLLECTION.into()]) };
        let source = Source::new(Arc::clone(&cache), options, &Arc::new(Metrics::new()))?;
        let services = Services { source: Some(Arc::clone(&source)), sink: None };
        let server = Server::bind(ServerOptions::new(ListenAddress::parse("127.0.0.1:0")?), services)?;
        let address = server.local_address().ok_or("no address")?;
        drop(Group::new("server").spawn(server.serve(CancellationToken::new())));
        Ok(Self { cache, source, address, content: Content::default(), version: 0 })
    }

    fn publish(&mut self) -> Publication {
        self.version += 1;
        let version = self.version.to_string();
        let collection = Collection::of(COLLECTION, version, self.content.clone());
        self.cache.set_snapshot("default", Arc::new(Snapshot::of([collection])))
    }

    /// One resource becomes another one.
    fn edit(&mut self) {
        self.content.put(resource(self.version as usize * 7 % self.content.len().max(1), self.version));
    }

    /// The time until all sinks have acknowledged a publication.
    async fn acknowledged(&self, publication: Publication, sinks: usize, since: Instant) -> Duration {
        let target = Target::Publication(publication);
        self.cache.ledger().wait(&target, |progress| progress.is_complete(sinks)).await;
        since.elapsed()
    }
}

/// A resource of about 300 bytes.
fn resource(number: usize, version: u64) -> Arc<Resource> {
    let name = format!("namespace-{}/service-{number:06}", number % 100);
    Arc::new(Resource::new(
        &name,
        &version.to_string(),
        "type.googleapis.com/istio.networking.v1alpha3.VirtualService",
        vec![b'x'; 200],
    ))
}

async fn measure(sinks: usize, resources: usize) -> Result<(), Error> {
    let mut out = std::io::stdout();
    let mut world = World::start()?;
    world.content = (0..resources).map(|number| resource(number, 0)).collect();
    let first = world.publish();
    writeln!(out, "{resources} resources, {sinks} sinks; memory before the sinks: {} MB", megabytes())?;

    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut running = JoinSet::new();
    for begun in 1..=sinks {
        running.spawn(sink(world.address));
        if begun % AT_ONCE == 0 || begun == sinks {
            world.acknowledged(first, begun, began).await;
        }
    }
    let (took, cpu) = (began.elapsed(), spent(cpu));
    writeln!(out, "everything to all sinks: {took:.1?}, CPU of source and sinks {cpu:.1} s")?;
    writeln!(out, "messages encoded: {}; memory: {} MB", world.source.encodings(), megabytes())?;

    let (mut publishing, mut acknowledged) = (Vec::new(), Vec::new());
    let cpu = cpu_seconds();
    for _ in 0..EDITS {
        world.edit();
        let began = Instant::now();
        let publication = world.publish();
        publishing.push(began.elapsed());
        acknowledged.push(world.acknowledged(publication, sinks, began).await);
    }
    publishing.sort();
    acknowledged.sort();
    let median = |times: &[Duration]| times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = |times: &[Duration]| times.last().copied().unwrap_or_default();
    writeln!(
        out,
        "publish an edit: median {:.2?}, longest {:.2?}",
        median(&publishing),
        longest(&publishing)
    )?;
    writeln!(
        out,
        "edit to last ACK: median {:.1?}, longest {:.1?}",
        median(&acknowledged),
        longest(&acknowledged)
    )?;
    writeln!(out, "CPU of an edit, source and sinks: {:.1} ms", spent(cpu) * 1e3 / f64::from(EDITS))?;

    // A storm: all sinks lose their streams and come back at once.
    running.shutdown().await;
    world.content = (0..STORM).map(|number| resource(number, world.version)).collect();
    let publication = world.publish();
    let (before, began, cpu) = (world.source.encodings(), Instant::now(), cpu_seconds());
    (0..sinks).for_each(|_| drop(running.spawn(sink(world.address))));
    let took = world.acknowledged(publication, sinks, began).await;
    let encoded = world.source.encodings() - before;
    writeln!(
        out,
        "all sinks reconnect, {STORM} resources: {took:.1?}, CPU {:.1} s, messages encoded: {encoded}",
        spent(cpu)
    )?;
    running.shutdown().await;
    Ok(())
}

fn cpu_seconds() -> f64 {
    metrics::cpu_seconds().unwrap_or_default()
}

fn spent(since: f64) -> f64 {
    cpu_seconds() - since
}

fn megabytes() -> u64 {
    metrics::private_bytes().unwrap_or_default() / 1_000_000
}

/// A sink that acknowledges whatever comes.
async fn sink(address: SocketAddr) -> Result<(), Error> {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(usize::MAX);
    client.ready().await?;
    let (requests, outgoing) = mpsc::channel(1);
    let path = http::uri::PathAndQuery::from_static(PATH);
    let response =
        client.streaming(tonic::Request::new(ReceiverStream::new(outgoing)), path, Light(PhantomData));
    let mut messages = response.await?.into_inner();
    let mut request = RequestResources {
        collection: COLLECTION.to_owned(),
        incremental: true,
        ..RequestResources::default()
    };
    loop {
        requests.send(request.clone()).await?;
        let Some(nonce) = messages.message().await? else { return Ok(()) };
        request.response_nonce = nonce;
    }
}

/// Reads nothing of a message but its nonce.
struct Light(PhantomData<()>);

impl Codec for Light {
    type Encode = RequestResources;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl Encoder for Light {
    type Item = RequestResources;
    type Error = Status;

    fn encode(&mut self, item: RequestResources, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for Light {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        use prost::encoding::{DecodeContext, WireType, decode_key, skip_field, string};
        let mut nonce = String::new();
        while buffer.has_remaining() {
            let failed = |error: prost::DecodeError| Status::internal(error.to_string());
            let (field, wire_type) = decode_key(buffer).map_err(failed)?;
            match (field, wire_type) {
                (5, WireType::LengthDelimited) => {
                    string::merge(wire_type, &mut nonce, buffer, DecodeContext::default()).map_err(failed)?;
                }
                _ => skip_field(wire_type, field, buffer, DecodeContext::default()).map_err(failed)?,
            }
        }
        Ok(Some(nonce))
    }
}
