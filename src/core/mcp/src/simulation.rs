//! Random schedules of a publisher, streams and sinks, without a network and without time: whatever the order of edits, messages, answers,
//! refusals and lost connections, every sink ends with the content of the last snapshot.
//!
//! `MIXER_SCHEDULES` is the number of schedules.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

use mixer_base::metrics::Metrics;

use crate::cache::Cache;
use crate::encode::Dialect;
use crate::grpc::Messages;
use crate::ledger::{Publication, Target};
use crate::limiter::Rate;
use crate::message::{RequestResources, Resources};
use crate::model::{Collection, Content, Snapshot};
use crate::resource::Resource;
use crate::sink::{Change, Refusal, Sink, SinkCollection, SinkOptions, Updater};
use crate::source::{Source, SourceOptions, Stop};

const COLLECTIONS: [&str; 2] = ["a", "b"];
const NAMES: [&str; 5] = ["ns/one", "ns/two", "ns/three", "four", "five"];
const STEPS: usize = 60;
/// More than any schedule needs to come to rest.
const REST: usize = 2_000;

/// By collection and name, the version.
type Held = BTreeMap<String, BTreeMap<String, String>>;

/// Applies changes, unless it is told to refuse the next one.
#[derive(Default, Clone)]
struct Application {
    held: Arc<Mutex<Held>>,
    refuses: Arc<Mutex<bool>>,
}

impl Updater for Application {
    fn apply(&mut self, change: Change) -> Result<(), Refusal> {
        if std::mem::take(&mut *self.refuses.lock()) {
            return Err("on purpose".to_owned().into());
        }
        let mut held = self.held.lock();
        let held = held.entry(change.collection.to_string()).or_default();
        if !change.incremental {
            held.clear();
        }
        for name in &change.removed {
            assert!(held.remove(name).is_some(), "`{name}` is removed, and was never there");
        }
        for resource in change.resources {
            let resource = resource?;
            held.insert(resource.name.into(), resource.version.into());
        }
        Ok(())
    }
}

/// A stream, and what is under way on it.
struct Connection {
    messages: Messages,
    requests: mpsc::UnboundedSender<Result<(RequestResources, usize), tonic::Status>>,
    to_source: VecDeque<RequestResources>,
    to_sink: VecDeque<Resources>,
    nonce: u64,
    /// By collection, the nonce that was sent and not answered.
    pending: HashMap<String, String>,
}

struct Peer {
    sink: Arc<Sink>,
    application: Application,
    connection: Option<Connection>,
}

struct World {
    random: Rng,
    cache: Arc<Cache>,
    source: Arc<Source>,
    snapshot: Snapshot,
    version: u64,
    last: Publication,
    peers: Vec<Peer>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let metrics = Arc::new(Metrics::new());
        let cache = Cache::new(|_, _| "g".into());
        let unlimited = Rate { every: Duration::ZERO, burst: 1 };
        let options = SourceOptions {
            incremental: random.bool(),
            lasting_versions: random.bool(),
            streams: unlimited,
            requests: unlimited,
            ..SourceOptions::new(COLLECTIONS.map(Arc::from).to_vec())
        };
        let source = Source::new(Arc::clone(&cache), options, &metrics).unwrap();
        let peer = |random: &mut Rng| {
            let collection =
                |name: &str| SinkCollection { name: name.into(), type_url: None, incremental: random.bool() };
            let collections = COLLECTIONS.map(collection).to_vec();
            Peer {
                sink: Sink::new(SinkOptions::new("mixer", collections), &metrics),
                application: Application::default(),
                connection: None,
            }
        };
        let peers = (0..random.usize(1..=3)).map(|_| peer(&mut random)).collect();
        let (snapshot, last) = (Snapshot::default(), Publication::default());
        Self { random, cache, source, snapshot, version: 0, last, peers }
    }

    /// Publishes a snapshot in which one collection has another version.
    fn edit(&mut self, collection: &str) {
        let mut content: Content =
            self.snapshot.get(collection).map(|collection| collection.content().clone()).unwrap_or_default();
        self.version += 1;
        for _ in 0..self.random.usize(0..=2) {
            let name = NAMES[self.random.usize(..NAMES.len())];
            if self.random.bool() {
                let version = format!("v{}", self.version);
                content.put(Arc::new(Resource::new(name, &version, "t", version.clone())));
            } else {
                content.remove(name);
            }
        }
        let version = self.version.to_string();
        self.snapshot = self.snapshot.with(Collection::of(collection, version, content));
        self.last = self.cache.set_snapshot("g", Arc::new(self.snapshot.clone()));
    }

    fn connect(&mut self, index: usize) {
        let (requests, incoming) = mpsc::unbounded_channel();
        let incoming = UnboundedReceiverStream::new(incoming).boxed();
        let stop = Stop::when(CancellationToken::new());
        let messages = self.source.serve(Dialect::Resources, incoming, format!("peer-{index}"), stop);
        let peer = &mut self.peers[index];
        peer.connection = Some(Connection {
            messages,
            requests,
            to_source: peer.sink.initial_requests().into(),
            to_sink: VecDeque::new(),
            nonce: 0,
            pending: HashMap::new(),
        });
    }

    /// One random step of the network of a peer. Returns whether there was one.
    fn step(&mut self, index: usize) -> bool {
        if self.peers[index].connection.is_none() {
            self.connect(index);
            return true;
        }
        let peer = &mut self.peers[index];
        let Some(connection) = &mut peer.connection else { return false };
        let mut ways = [0, 1, 2];
        self.random.shuffle(&mut ways);
        for way in ways {
            match way {
                0 => {
                    if let Some(request) = connection.to_source.pop_front() {
                        if connection.pending.get(&request.collection) == Some(&request.response_nonce) {
                            connection.pending.remove(&request.collection);
                        }
                        connection.requests.send(Ok((request, 1))).unwrap();
                        return true;
                    }
                }
                1 => match connection.poll() {
                    Some(true) => return true,
                    Some(false) => {}
                    None => {
                        peer.connection = None;
                        return true;
                    }
                },
                _ => {
                    if let Some(message) = connection.to_sink.pop_front() {
                        let answer = peer.sink.handle(message, &mut peer.application);
                        connection.to_source.push_back(answer);
                        return true;
                    }
                }
            }
        }
        false
    }

    fn random_step(&mut self) {
        let index = self.random.usize(..self.peers.len());
        match self.random.u32(..20) {
            0..4 => {
                let collection = COLLECTIONS[self.random.usize(..COLLECTIONS.len())];
                self.edit(collection);
            }
            4 => self.peers[index].connection = None,
            5 => *self.peers[index].application.refuses.lock() = true,
            6 => {
                let nonce = self.random.u32(..9).to_string();
                if let Some(connection) = &mut self.peers[index].connection
                    && !connection.pending.values().any(|pending| *pending == nonce)
                {
                    let (collection, response_nonce) = (COLLECTIONS[0].to_owned(), format!("stale-{nonce}"));
                    let stale =
                        RequestResources { collection, response_nonce, ..RequestResources::default() };
                    connection.to_source.push_back(stale);
                }
            }
            7 if self.random.u32(..4) == 0 => self.cache.clear_snapshot("g"),
            8 if self.random.u32(..4) == 0 => self.cache.clear_status("g"),
            _ => {
                self.step(index);
            }
        }
    }

    /// Lets everything that is under way arrive.
    fn rest(&mut self) {
        for _ in 0..REST {
            // Every peer makes a step.
            let steps = (0..self.peers.len()).filter(|index| self.step(*index)).count();
            if steps == 0 {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn check(&self) {
        let expected: Held = self
            .snapshot
            .collections()
            .map(|collection| {
                let resources = collection.content().iter();
                let held = resources.map(|r| (r.name.to_string(), r.version.to_string())).collect();
                (collection.name().to_string(), held)
            })
            .collect();
        for peer in &self.peers {
            assert_eq!(*peer.application.held.lock(), expected);
            for (name, status) in peer.sink.status().collections {
                let version = self.snapshot.get(&name).unwrap().version();
                assert_eq!(status.version.as_deref(), Some(&**version));
                assert_eq!(status.resources, expected[&*name].len());
            }
        }
        let progress = self.cache.ledger().progress(&Target::Publication(self.last)).unwrap();
        assert!(progress.is_complete(self.peers.len()), "{progress:?}");
        let status = self.cache.status("g").unwrap();
        assert_eq!(status.watches, self.peers.len() * COLLECTIONS.len());
        assert!(status.synced.values().flat_map(BTreeMap::values).all(|is_synced| *is_synced));
    }
}

impl Connection {
    /// The next message of the source, if there is one; `None` if the stream has ended.
    fn poll(&mut self) -> Option<bool> {
        let mut context = Context::from_waker(Waker::noop());
        match self.messages.poll_next_unpin(&mut context) {
            Poll::Pending => Some(false),
            Poll::Ready(None | Some(Err(_))) => None,
            Poll::Ready(Some(Ok(message))) => {
                let message = Resources::decode(message.payload()).unwrap();
                self.nonce += 1;
                assert_eq!(message.nonce, self.nonce.to_string(), "nonces count over the stream");
                let before = self.pending.insert(message.collection.clone(), message.nonce.clone());
                assert_eq!(before, None, "one message of a collection is pending at most");
                assert!(message.incremental || message.removed_resources.is_empty());
                self.to_sink.push_back(message);
                Some(true)
            }
        }
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.random_step();
    }
    // No refusals from now on, and a version of everything that was not refused yet.
    for peer in &world.peers {
        *peer.application.refuses.lock() = false;
    }
    COLLECTIONS.iter().for_each(|collection| world.edit(collection));
    world.rest();
    world.check();
    let open = world.source.open_streams();
    assert_eq!(open, world.peers.len());
    world.peers.clear();
    assert_eq!((world.source.open_streams(), world.cache.status("g").map(|s| s.watches)), (0, Some(0)));
}

#[test]
fn every_schedule_ends_with_the_last_snapshot() {
    let schedules =
        std::env::var("MIXER_SCHEDULES").ok().and_then(|number| number.parse().ok()).unwrap_or(300);
    for seed in 0..schedules {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            panic!("the schedule with seed {seed} failed");
        }
    }
}
