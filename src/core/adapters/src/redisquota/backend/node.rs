//! A connection to one server of Redis, whose replies are bounded.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::Connect;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisError, RedisFuture, RedisResult, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use mixer_base::looks::Looks;
use mixer_base::task::Group;
use mixer_net::tls::{ClientTls, ClientTlsOptions};

use super::replies::BoundedReplies;

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
        let late = || RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        let opened = tokio::time::timeout(super::link::CONNECT_TIME, Self::open(info, tls, config));
        opened.await.map_err(|_| late())?
    }

    async fn open(info: &ConnectionInfo, tls: &NodeTls, config: AsyncConnectionConfig) -> RedisResult<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => Self::begin(dial(host, *port).await?, info, config).await,
            ConnectionAddr::TcpTls { host, port, .. } => {
                let stream = tls.load(host).await?.connect(dial(host, *port).await?, &[]).await?;
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

async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
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
        self.looks.within(super::link::CONNECT_TIME, look).await;
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
    known: Arc<KnownNodes>,
}

struct KnownNodes {
    settings: RedisConnectionInfo,
    tls: Arc<NodeTls>,
}

/// Those in use, by name.
static CLUSTERS: Mutex<BTreeMap<String, Weak<KnownNodes>>> = Mutex::new(BTreeMap::new());

impl ClusterNodes {
    /// All nodes have the user and the password of the first server.
    pub(super) fn new(servers: &[ConnectionInfo], tls: &Arc<NodeTls>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("cluster {}", NEXT.fetch_add(1, Ordering::Relaxed));
        let settings = servers.first().map(|first| first.redis_settings().clone()).unwrap_or_default();
        let known = Arc::new(KnownNodes { settings, tls: Arc::clone(tls) });
        CLUSTERS.lock().insert(name.clone(), Arc::downgrade(&known));
        Self { name, known }
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
            Self::connect(&info, &nodes.tls, config).await
        })
    }
}
