//! A connection to one server of Redis, whose replies are bounded.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::Connect;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisError, RedisFuture, RedisResult, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use mixer_base::dial::dial;
use mixer_base::looks::Looks;
use mixer_base::task::Group;
use mixer_net::tls::{ClientTls, ClientTlsOptions};

use super::replies::BoundedReplies;

/// How long it may take to connect to one server.
pub(super) const CONNECT_TIME: Duration = Duration::from_secs(2);
/// How long nodes of a cluster that answer wait for one that does not.
const PATIENCE: Duration = Duration::from_millis(700);
/// The pause between two attempts to connect to a node that does not answer.
const PAUSE: Duration = Duration::from_millis(200);
/// Nodes that do not answer and are remembered. Clusters have fewer.
const MAX_SLOW: usize = 1024;

/// A connection to one server. A clone is the same connection.
#[derive(Clone)]
pub(super) struct Node(MultiplexedConnection);

impl Node {
    /// Connects and authenticates. Errors: that failed, or took more than 2 s.
    pub(super) async fn connect(
        info: &ConnectionInfo,
        tls: &NodeTls,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Self> {
        let opened = tokio::time::timeout(CONNECT_TIME, Self::open(info, tls, config));
        opened.await.map_err(|_| late())?
    }

    async fn open(info: &ConnectionInfo, tls: &NodeTls, config: AsyncConnectionConfig) -> RedisResult<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => Self::begin(stream_to(host, *port).await?, info, config).await,
            ConnectionAddr::TcpTls { host, port, .. } => {
                let stream = tls.load(host).await?.connect(stream_to(host, *port).await?, &[]).await?;
                Self::begin(stream, info, config).await
            }
            _ => Err((ErrorKind::InvalidClientConfig, "an address is neither TCP nor TLS").into()),
        }
    }

    async fn begin<S>(stream: S, info: &ConnectionInfo, config: AsyncConnectionConfig) -> RedisResult<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = BoundedReplies::new(stream);
        let opened = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config);
        let (connection, driver) = opened.await?;
        // Ends with the last clone of the connection.
        drop(Group::new("redis connection").spawn(driver));
        Ok(Self(connection))
    }
}

fn late() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

async fn stream_to(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = dial(host, port, CONNECT_TIME).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl ConnectionLike for Node {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// TLS of the connections of a handler. Its files are read at each connection, on a thread.
#[derive(Default)]
pub(super) struct NodeTls {
    options: ClientTlsOptions,
    looks: Looks,
    /// Nodes of a cluster are connected to at the same time.
    turn: tokio::sync::Mutex<()>,
}

impl NodeTls {
    pub(super) fn new(options: ClientTlsOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Errors: a file that cannot be used, or a file system that does not answer.
    async fn load(&self, host: &str) -> io::Result<ClientTls> {
        let _turn = self.turn.lock().await;
        let loaded = Arc::new(Mutex::new(None));
        let (options, host, result) = (self.options.clone(), host.to_owned(), Arc::clone(&loaded));
        let look = move || *result.lock() = Some(ClientTls::load(&options, &host));
        self.looks.within(CONNECT_TIME, look).await;
        let loaded = loaded.lock().take();
        match loaded {
            Some(loaded) => loaded.map_err(io::Error::other),
            None => Err(io::Error::other("the file system of the certificates does not answer")),
        }
    }
}

/// How the nodes of a cluster are connected to. The client of clusters hands nothing through to its connections but a user and a password:
/// the user that it knows is the name of this.
pub(super) struct ClusterNodes {
    name: String,
    /// Found by name as long as this is there.
    _known: Arc<KnownNodes>,
}

struct KnownNodes {
    settings: RedisConnectionInfo,
    tls: Arc<NodeTls>,
    /// When the first of them was connected to.
    first: watch::Sender<Option<Instant>>,
    /// Those that the others did not wait for, by address.
    slow: Mutex<BTreeMap<String, Slow>>,
}

/// A node that others did not wait for.
enum Slow {
    /// It is connected to in the background.
    Connecting,
    /// It is connected to again after this.
    Away(Instant),
    /// For whoever wants it next.
    Connected(Node),
}

impl KnownNodes {
    fn new(settings: RedisConnectionInfo, tls: Arc<NodeTls>) -> Self {
        Self { settings, tls, first: watch::Sender::new(None), slow: Mutex::default() }
    }

    /// Connects to a node. The client of clusters serves nobody meanwhile: once another node has answered, one that does not is left to a task, and
    /// is there when it is asked for later.
    async fn connect(
        self: &Arc<Self>,
        info: ConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Node> {
        let (address, begun) = (info.addr().to_string(), Instant::now());
        let is_slow = match self.slow.lock().entry(address.clone()) {
            Entry::Vacant(_) => false,
            Entry::Occupied(known) => match known.get() {
                Slow::Connecting => return Err(late()),
                Slow::Away(until) if begun < *until => return Err(late()),
                Slow::Away(_) => true,
                Slow::Connected(node) => {
                    let node = node.clone();
                    known.remove();
                    return Ok(node);
                }
            },
        };
        let known = Arc::clone(self);
        let mut connecting = Box::pin(async move { Node::connect(&info, &known.tls, config).await });
        if !is_slow {
            tokio::select! {
                connected = &mut connecting => {
                    if connected.is_ok() {
                        self.first.send_if_modified(|first| {
                            let is_first = first.is_none();
                            first.get_or_insert_with(Instant::now);
                            is_first
                        });
                    }
                    return connected;
                }
                () = self.patience(begun) => {}
            }
        }
        {
            let mut slow = self.slow.lock();
            if slow.len() >= MAX_SLOW && !is_slow {
                return Err(late());
            }
            slow.insert(address.clone(), Slow::Connecting);
        }
        let known = Arc::clone(self);
        let rest = async move {
            let found = match connecting.await {
                Ok(node) => Slow::Connected(node),
                Err(_) => Slow::Away(Instant::now() + PAUSE),
            };
            known.slow.lock().insert(address, found);
        };
        // Ends with the attempt.
        drop(Group::new("redis connection").spawn(rest));
        Err(late())
    }

    /// Returns when a node that has been connected to since `begun` is not waited for any longer.
    async fn patience(&self, begun: Instant) {
        let mut first = self.first.subscribe();
        let first = match first.wait_for(Option::is_some).await {
            Ok(first) => first.unwrap_or(begun),
            Err(_) => begun,
        };
        sleep_until(first.max(begun) + PATIENCE).await;
    }
}

/// Those in use, by name.
static CLUSTERS: Mutex<BTreeMap<String, Weak<KnownNodes>>> = Mutex::new(BTreeMap::new());

impl ClusterNodes {
    /// All nodes have the user and the password of the first server.
    pub(super) fn new(servers: &[ConnectionInfo], tls: &Arc<NodeTls>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("cluster {}", NEXT.fetch_add(1, Ordering::Relaxed));
        let settings = servers.first().map(|first| first.redis_settings().clone()).unwrap_or_default();
        let known = Arc::new(KnownNodes::new(settings, Arc::clone(tls)));
        CLUSTERS.lock().insert(name.clone(), Arc::downgrade(&known));
        Self { name, _known: known }
    }

    /// The servers as the client of clusters gets them.
    pub(super) fn name(&self, servers: Vec<ConnectionInfo>) -> Vec<ConnectionInfo> {
        let named = |server: ConnectionInfo| {
            let settings = server.redis_settings().clone().set_username(&self.name);
            server.set_redis_settings(settings)
        };
        servers.into_iter().map(named).collect()
    }

    fn find(name: Option<&str>) -> RedisResult<Arc<KnownNodes>> {
        let found = CLUSTERS.lock().get(name.unwrap_or_default()).and_then(Weak::upgrade);
        found
            .ok_or_else(|| (ErrorKind::InvalidClientConfig, "the connection to the cluster has ended").into())
    }
}

impl Drop for ClusterNodes {
    fn drop(&mut self) {
        CLUSTERS.lock().remove(&self.name);
    }
}

/// For the nodes of a cluster.
impl Connect for Node {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move {
            let info = info.into_connection_info()?;
            let nodes = ClusterNodes::find(info.redis_settings().username())?;
            let info = info.set_redis_settings(nodes.settings.clone());
            nodes.connect(info, config).await
        })
    }
}
