//! A connection to one server of Redis, whose replies are bounded.

use std::io;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::Connect;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline,
    RedisError, RedisFuture, RedisResult, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use mixer_base::task::Group;
use mixer_net::tls::{ClientTls, ClientTlsOptions};

use super::replies::BoundedReplies;

/// A connection to one server. A clone is the same connection.
#[derive(Clone)]
pub(super) struct Node(MultiplexedConnection);

impl Node {
    /// Connects and authenticates. Errors: that failed, or took more than 2 s.
    pub(super) async fn connect(info: &ConnectionInfo, config: AsyncConnectionConfig) -> RedisResult<Self> {
        let late = || RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        tokio::time::timeout(super::link::CONNECT_TIME, Self::open(info, config)).await.map_err(|_| late())?
    }

    async fn open(info: &ConnectionInfo, config: AsyncConnectionConfig) -> RedisResult<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => Self::begin(dial(host, *port).await?, info, config).await,
            ConnectionAddr::TcpTls { host, port, .. } => {
                let tls = ClientTls::load(&ClientTlsOptions::default(), host)
                    .map_err(|error| RedisError::from(io::Error::other(error)))?;
                let stream = tls.connect(dial(host, *port).await?, &[]).await?;
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

/// For the nodes of a cluster.
impl Connect for Node {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move { Self::connect(&info.into_connection_info()?, config).await })
    }
}
