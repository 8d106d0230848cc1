//! Which Redis: one server, the master that sentinels name, or a cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue,
    IntoConnectionInfo, RedisResult, ScriptInvocation, Value,
};
use tokio::time::timeout;

use super::super::Params;
use super::any_node::{AnyNode, NodeOfKey};
use super::node::{CONNECT_TIME, ClusterNodes, Node, NodeTls};
use super::scripts::SCRIPTS;
use super::silent::Slots;
use crate::files::{SettledFile, Unread};
use mixer_remote::Credential;

/// Longest password or user, in bytes.
const MAX_PASSWORD: usize = 4096;
/// How long a cluster may take to say which node has which slots.
const SLOTS_TIME: Duration = Duration::from_millis(500);
/// How long a file may take.
const READ_TIME: Duration = Duration::from_secs(1);

/// Where to connect.
pub(super) struct Target {
    /// The address, or those of the sentinels or of nodes of the cluster. All have the settings of the first.
    servers: Vec<ConnectionInfo>,
    kind: Kind,
    username: Source,
    password: Source,
    tls: Arc<NodeTls>,
    timeout: Duration,
    /// For texts: without secrets.
    shown: String,
}

/// Where a user or a password is.
enum Source {
    /// In the addresses, or nowhere.
    Addresses,
    Written(String),
    File(PathBuf),
    Environment(String),
}

impl Source {
    fn new(written: &str, file: &str, environment: &str) -> Self {
        match (written, file, environment) {
            ("", "", "") => Self::Addresses,
            ("", "", environment) => Self::Environment(environment.to_owned()),
            ("", file, _) => Self::File(file.into()),
            (written, _, _) => Self::Written(written.to_owned()),
        }
    }

    /// What it is now, `None` if the addresses have it. `what` is its name. Errors: one line, without secrets.
    async fn read(&self, what: &str) -> Result<Option<String>, String> {
        let text = match self {
            Self::Addresses => return Ok(None),
            Self::Written(text) => text.clone(),
            Self::Environment(name) => {
                let read = Credential::from_environment(name.as_str());
                let read = read.map_err(|error| format!("could not read the {what}: {error}"))?;
                read.last().expose().to_owned()
            }
            Self::File(path) => {
                let read = SettledFile::new(path.clone()).read(READ_TIME, MAX_PASSWORD).await;
                let bytes = read.map_err(|error| {
                    let why = match error {
                        Unread::Unsettled(why) | Unread::Failed(why) => why,
                        Unread::TooLarge => format!("it is larger than {MAX_PASSWORD} bytes"),
                        Unread::Late => "the file system does not answer".to_owned(),
                    };
                    format!("could not read the {what} from {}: {why}", path.display())
                })?;
                let text = String::from_utf8(bytes).map_err(|_| format!("the {what} is not UTF-8"))?;
                let text = text.trim_end_matches(['\r', '\n']);
                if text.is_empty() {
                    return Err(format!("{} has no {what}", path.display()));
                }
                text.to_owned()
            }
        };
        Ok(Some(text))
    }
}

enum Kind {
    Single,
    /// With the name of the master.
    Sentinels(String),
    Cluster,
}

/// A connection that all calls share.
#[derive(Clone)]
pub(super) enum Connection {
    Single(Node),
    Cluster {
        connection: ClusterConnection<Node>,
        slots: Arc<Slots>,
        /// What its nodes are connected with.
        _nodes: Arc<ClusterNodes>,
    },
}

/// Which nodes answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulse {
    All,
    /// Of a cluster.
    Some,
    None,
}

impl Connection {
    /// Calls a script. A node that lacks it gets it.
    pub(super) async fn invoke<T: FromRedisValue>(
        &mut self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        match self {
            Connection::Single(connection) => script.invoke_async(connection).await,
            Connection::Cluster { connection, .. } => {
                script.invoke_async(&mut NodeOfKey::new(connection)).await
            }
        }
    }

    /// The node of a cluster that has a key; `None` without a cluster.
    pub(super) fn node_of(&self, key: &[u8]) -> Option<Arc<str>> {
        match self {
            Connection::Single(_) => None,
            Connection::Cluster { slots, .. } => Some(slots.node_of(key)),
        }
    }

    /// Sends a command to all nodes, of which one answers. Its answer is not needed.
    async fn send(&mut self, command: &Cmd) -> RedisResult<()> {
        match self {
            Connection::Single(connection) => command.exec_async(connection).await,
            Connection::Cluster { connection, .. } => command.exec_async(&mut AnyNode(connection)).await,
        }
    }

    /// The policy by which a server evicts keys when its memory is full, `None` if none does. Windows and ids have times to live, so that all
    /// policies but `noeviction` evict those that are in use.
    ///
    /// Errors: nobody says it, for want of the right to ask, for example.
    pub(super) async fn eviction(&mut self, limit: Duration) -> Result<Option<String>, Unsaid> {
        let mut question = redis::cmd("INFO");
        question.arg("memory");
        let asked = async {
            match self {
                Connection::Single(connection) => question.query_async::<Value>(connection).await,
                Connection::Cluster { connection, .. } => question.query_async::<Value>(connection).await,
            }
        };
        let answer = timeout(limit, asked).await.map_err(|_| Unsaid)?.map_err(|_| Unsaid)?;
        let mut texts = Vec::new();
        push_texts(&answer, &mut texts);
        let policies: Vec<Option<&str>> = texts.iter().filter_map(|text| eviction_in(text)).collect();
        if policies.is_empty() {
            return Err(Unsaid);
        }
        Ok(policies.into_iter().flatten().next().map(str::to_owned))
    }

    /// Which nodes answer within `limit`.
    pub(super) async fn pulse(&mut self, limit: Duration) -> Pulse {
        let ping = redis::cmd("PING");
        let answers = |answer: Result<RedisResult<()>, _>| answer.is_ok_and(|answer| answer.is_ok());
        let all = match self {
            Connection::Single(_) => None,
            Connection::Cluster { connection, .. } => Some(connection.clone()),
        };
        let all = async {
            match all {
                None => true,
                Some(mut all) => answers(timeout(limit, ping.exec_async(&mut all)).await),
            }
        };
        let (some, all) = tokio::join!(timeout(limit, self.send(&ping)), all);
        match (answers(some), all) {
            (true, true) => Pulse::All,
            (true, false) => Pulse::Some,
            (false, _) => Pulse::None,
        }
    }
}

impl Target {
    /// The target of a handler. Errors: one line, without secrets.
    pub(super) fn new(params: &Params) -> Result<Self, String> {
        let servers: Vec<ConnectionInfo> =
            params.redis_server_url.split(',').map(|one| server(one.trim())).collect::<Result<_, _>>()?;
        let kind = match (params.cluster, params.sentinel_master.as_str()) {
            (true, _) => Kind::Cluster,
            (false, "") => Kind::Single,
            (false, master) => Kind::Sentinels(master.to_owned()),
        };
        if matches!(kind, Kind::Single) && servers.len() > 1 {
            let text = "several addresses are those of a cluster, with cluster: true, or of sentinels, with sentinelMaster";
            return Err(text.to_owned());
        }
        let addresses: Vec<String> = servers.iter().map(|server| server.addr().to_string()).collect();
        let addresses = addresses.join(",");
        let shown = match &kind {
            Kind::Single => addresses,
            Kind::Sentinels(master) => format!("{master}, the master of the sentinels {addresses}"),
            Kind::Cluster => format!("the cluster {addresses}"),
        };
        let username = Source::new(&params.username, &params.username_file, &params.username_environment);
        let password = Source::new("", &params.password_file, &params.password_environment);
        let tls = Arc::new(NodeTls::new(params.tls.as_ref().map(Into::into).unwrap_or_default()));
        let timeout = params.timeout.to_std_or_zero();
        Ok(Self { servers, kind, username, password, tls, timeout, shown })
    }

    /// Its addresses, without secrets.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// How long a call may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long an attempt to connect may take: a server that does not answer leaves time for the others.
    pub(super) fn connect_time(&self) -> Duration {
        match self.kind {
            Kind::Single => CONNECT_TIME,
            Kind::Sentinels(_) | Kind::Cluster => CONNECT_TIME + Duration::from_secs(1),
        }
    }

    /// Connects, and loads the scripts. Errors: one line. The caller limits the time.
    pub(super) async fn connect(&self) -> Result<Connection, String> {
        mixer_net::tls::install_crypto_provider();
        let servers = self.with_credentials().await?;
        let mut connection = self.open(servers).await.map_err(|error| error.to_string())?;
        for script in SCRIPTS.all() {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script);
            connection.send(&load).await.map_err(|error| error.to_string())?;
        }
        if let Connection::Cluster { connection, slots, .. } = &mut connection {
            let mut question = redis::cmd("CLUSTER");
            let asked = question.arg("SLOTS").query_async::<Value>(connection);
            // Without an answer, each slot counts as a node.
            if let Ok(Ok(answer)) = tokio::time::timeout(SLOTS_TIME, asked).await {
                *slots = Arc::new(Slots::of(&answer));
            }
        }
        Ok(connection)
    }

    async fn with_credentials(&self) -> Result<Vec<ConnectionInfo>, String> {
        let (username, password) = (self.username.read("user").await?, self.password.read("password").await?);
        let with = |server: &ConnectionInfo| {
            let mut settings = server.redis_settings().clone();
            if let Some(username) = &username {
                settings = settings.set_username(username);
            }
            if let Some(password) = &password {
                settings = settings.set_password(password);
            }
            server.clone().set_redis_settings(settings)
        };
        Ok(self.servers.iter().map(with).collect())
    }

    async fn open(&self, servers: Vec<ConnectionInfo>) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIME))
            .set_response_timeout(Some(self.timeout));
        match &self.kind {
            Kind::Single => {
                let Some(server) = servers.first() else { return Err(no_server()) };
                Node::connect(server, &self.tls, config).await.map(Connection::Single)
            }
            Kind::Sentinels(name) => {
                // All at once, for one that does not answer uses up the time.
                let asked = servers.iter().map(|sentinel| master(name, sentinel, &self.tls, &config));
                let mut asked: FuturesUnordered<_> = asked.collect();
                let mut failure = None;
                while let Some(answer) = asked.next().await {
                    match answer {
                        Ok(connection) => return Ok(Connection::Single(connection)),
                        Err(error) => failure = failure.or(Some(error)),
                    }
                }
                Err(failure.unwrap_or_else(no_server))
            }
            Kind::Cluster => {
                let nodes = ClusterNodes::new(&servers, &self.tls);
                let client = ClusterClientBuilder::new(nodes.name(servers))
                    .connection_timeout(CONNECT_TIME)
                    .response_timeout(self.timeout)
                    .overall_response_timeout(Some(self.timeout))
                    .build()?;
                let connection = client.get_async_generic_connection::<Node>().await?;
                Ok(Connection::Cluster { connection, slots: Arc::default(), _nodes: Arc::new(nodes) })
            }
        }
    }
}

/// The master that a sentinel names, with the settings of the sentinel but its password, which sentinels have none of.
///
/// Errors: the sentinel does not answer or does not know it, or what it names does not answer or is none.
async fn master(
    name: &str,
    sentinel: &ConnectionInfo,
    tls: &NodeTls,
    config: &AsyncConnectionConfig,
) -> RedisResult<Node> {
    let address = sentinel.addr().clone().into_connection_info()?;
    let mut asked = Node::connect(&address, tls, config.clone()).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let Some((host, port)) = question.query_async::<Option<(String, u16)>>(&mut asked).await? else {
        return Err((ErrorKind::InvalidClientConfig, "a sentinel does not know the master").into());
    };
    let address = match sentinel.addr() {
        ConnectionAddr::TcpTls { .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    let address = address.into_connection_info()?.set_redis_settings(sentinel.redis_settings().clone());
    let mut connection = Node::connect(&address, tls, config.clone()).await?;
    let role: Vec<Value> = redis::cmd("ROLE").query_async(&mut connection).await?;
    match role.first() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(connection),
        _ => Err((ErrorKind::InvalidClientConfig, "what a sentinel names is no master").into()),
    }
}

/// No server answered a question.
#[derive(Debug)]
pub(super) struct Unsaid;

/// The texts in an answer, which is that of one server or of all nodes.
fn push_texts(answer: &Value, texts: &mut Vec<String>) {
    match answer {
        Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| push_texts(value, texts)),
        Value::Map(entries) => entries.iter().for_each(|(_, value)| push_texts(value, texts)),
        _ => {}
    }
}

/// By which policy a server evicts keys, by its `INFO memory`: `Some(None)` if it does not. `None`: it does not say.
fn eviction_in(info: &str) -> Option<Option<&str>> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let (most, policy) = (field("maxmemory")?.trim(), field("maxmemory_policy")?.trim());
    Some(Some(policy).filter(|policy| most != "0" && *policy != "noeviction"))
}

fn no_server() -> redis::RedisError {
    (redis::ErrorKind::InvalidClientConfig, "no address").into()
}

/// The server of an address as written: `host:port`, or a URL. Errors: one line, which does not repeat it, because it may have a password.
fn server(written: &str) -> Result<ConnectionInfo, String> {
    let url = match written.contains("://") {
        true => written.to_owned(),
        false => format!("redis://{written}"),
    };
    let invalid = || "an address is neither host:port nor a URL redis:// or rediss://".to_owned();
    // Without a scheme there is no password either.
    if !written.contains("://") && written.contains(['@', '/', '?', '#']) {
        return Err(invalid());
    }
    let server = url.as_str().into_connection_info().map_err(|_| invalid())?;
    match server.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            Err("certificates of servers are verified: #insecure is not accepted".to_owned())
        }
        ConnectionAddr::Unix(_) => Err(invalid()),
        _ => Ok(server),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_whether_it_evicts_keys() {
        let info = |most: &str, policy: &str| {
            format!("# Memory\r\nmaxmemory:{most}\r\nmaxmemory_human:1\r\nmaxmemory_policy:{policy}\r\n")
        };
        for (most, policy, evicts) in [
            ("0", "volatile-lru", None),
            ("3145728", "noeviction", None),
            ("3145728", "volatile-lru", Some("volatile-lru")),
            ("3145728", "allkeys-random", Some("allkeys-random")),
        ] {
            assert_eq!(eviction_in(&info(most, policy)), Some(evicts), "{most} {policy}");
        }
        assert_eq!(eviction_in("# Memory\r\nused_memory:1\r\n"), None);
    }
}
