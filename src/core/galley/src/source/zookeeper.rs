//! Services that register themselves in ZooKeeper, as those of Dubbo do. Spec: galley.md, "Zookeeper source".
//!
//! A session lists the tree, watches it, and reads what a notification names. A connection that is lost is replaced by one to another
//! server of the list; everything is then read again, and the differences are delivered. Meanwhile, and while a part cannot be read,
//! what was known counts.

mod provider;
mod session;
#[cfg(test)]
mod tests;
mod tree;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use mixer_base::load::{self, Load};
use mixer_base::secrets::mask_address;
use mixer_config::{Diagnostic, FieldPath};
use mixer_remote::{ClientTlsOptions, Connector, Credential};

use super::registered::{MAX_ENDPOINTS, PROBLEM, Problems, Registered};
use super::{Emitter, Ended, Health, Source, Stopped};
use crate::error::StartError;
use crate::event::Batch;
use crate::options::{Options, collection::SERVICE_ENTRIES};
use session::{Lost, MAX_MESSAGE, Opening, Received, Session};
use tree::{Answer, FIRST_PAUSE, Failure, LONGEST_PAUSE, MAX_CHILDREN, Outcome, Read, Tree};
use wire::{Code, Message, SessionId};

/// Requests that wait for their replies.
const WINDOW: usize = 64;
/// A connection that lasted so long is no failure in a row.
const STABLE: Duration = Duration::from_secs(10);
/// Limits of the session timeout. ZooKeeper itself allows 2 to 20 ticks, which are 4 to 40 s by default.
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// The port of a server whose address has none.
const PORT: u16 = 2181;

/// Where the registry is, and how it is read.
#[derive(Debug, Clone)]
pub struct ZookeeperOptions {
    /// `HOST:PORT[,HOST:PORT…][/CHROOT]`; without a port, 2181.
    pub address: String,
    /// The node below which services are, absolute.
    pub root: String,
    /// How long a server waits for a client that is silent before it ends its session.
    pub session_timeout: Duration,
    /// The namespace of the service entries.
    pub namespace: String,
    /// The user of the scheme `digest`; empty: none.
    pub user: String,
    /// The file with his password.
    pub password_file: std::path::PathBuf,
    /// TLS, if servers want it.
    pub tls: Option<ClientTlsOptions>,
}

impl Default for ZookeeperOptions {
    fn default() -> Self {
        Self {
            address: String::new(),
            root: "/dubbo".to_owned(),
            session_timeout: Duration::from_secs(10),
            namespace: "dubbo".to_owned(),
            user: String::new(),
            password_file: std::path::PathBuf::new(),
            tls: None,
        }
    }
}

/// A server of the list.
struct Server {
    address: String,
    connector: Connector,
}

/// The services of a registry in ZooKeeper.
pub struct Zookeeper {
    servers: Vec<Server>,
    root: String,
    session_timeout: Duration,
    credentials: Option<(String, Credential)>,
    state: Mutex<Known>,
    /// An operator asks.
    reread: Notify,
}

/// What outlives a start of the source.
struct Known {
    registered: Registered,
    /// The keys of the services of a node, which are service entries.
    keys: BTreeMap<Arc<str>, Box<[Box<str>]>>,
}

/// What a start of the source knows.
struct Progress {
    tree: Tree,
    /// What is wrong with nodes.
    problems: Problems,
    /// Whether everything was delivered once.
    is_synced: bool,
    /// What is to be delivered.
    waiting: Batch,
    /// Whether health says something else than is known.
    is_news: bool,
    /// While everything is read: how far that is, with the numbers of nodes that are known and read.
    load: Option<(Load, usize, usize)>,
}

/// What outlives a connection.
struct Link {
    /// The server that is next.
    next: usize,
    resume: Option<SessionId>,
    /// The last transaction that was seen, and when.
    seen: (i64, Instant),
    pause: Duration,
    /// Connections in a row that failed.
    failures: usize,
    is_connected: Option<bool>,
}

impl Zookeeper {
    /// Checks the settings, and reads the credentials and certificates; opens no connection.
    ///
    /// Errors: a setting is wrong.
    pub fn new(settings: &ZookeeperOptions, options: &Options) -> Result<Arc<Self>, StartError> {
        let wrong = StartError::Source;
        let (addresses, chroot) =
            settings.address.split_once('/').map_or((&*settings.address, ""), |(a, path)| (a, path));
        let root = join(chroot, &settings.root).map_err(wrong)?;
        if !TIMEOUTS.contains(&settings.session_timeout) {
            let text =
                format!("--zookeeper-session-timeout: {:?} is not within 1s to 1h", settings.session_timeout);
            return Err(wrong(text));
        }
        let mut servers = Vec::new();
        for address in addresses.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            let full = match address.rsplit_once(':') {
                Some((host, _)) if !host.contains(':') || host.ends_with(']') => address.to_owned(),
                _ => format!("{address}:{PORT}"),
            };
            let connector = Connector::new(&full, settings.tls.as_ref(), settings.session_timeout / 2);
            let connector = connector.map_err(|error| {
                let why = error.to_string().replace(&*full, &mask_address(&full));
                wrong(format!("--zookeeper-address: {why}"))
            })?;
            let full = mask_address(&full).into_owned();
            servers.push(Server { address: full, connector });
        }
        if servers.is_empty() {
            let text = format!(
                "--zookeeper-address: `{}` names no server: HOST:PORT[,HOST:PORT…]",
                mask_address(&settings.address)
            );
            return Err(wrong(text));
        }
        let credentials = match (settings.user.is_empty(), settings.password_file.as_os_str().is_empty()) {
            (true, true) => None,
            (false, false) => {
                let password = Credential::from_file(&settings.password_file);
                let password =
                    password.map_err(|error| wrong(format!("--zookeeper-password-file: {error}")))?;
                Some((settings.user.clone(), password))
            }
            _ => {
                return Err(wrong(
                    "--zookeeper-user and --zookeeper-password-file belong together".to_owned(),
                ));
            }
        };
        let registered = Registered::new("zookeeper", &settings.namespace, options)?;
        Ok(Arc::new(Self {
            servers,
            root,
            session_timeout: settings.session_timeout,
            credentials,
            state: Mutex::new(Known { registered, keys: BTreeMap::new() }),
            reread: Notify::new(),
        }))
    }

    async fn follow(&self, out: &Emitter) -> Result<Infallible, Stopped> {
        let mut progress = Progress::new(&self.root);
        let mut link = Link::new(fastrand::usize(..self.servers.len()));
        loop {
            let started = Instant::now();
            let (server, lost) = self.connect(&mut link, &mut progress, out).await?;
            if started.elapsed() >= STABLE {
                (link.pause, link.failures) = (FIRST_PAUSE, 0);
            }
            let has_expired = lost == Lost::Expired;
            let why = format!("server `{server}`: {lost}");
            link.lost(out.health(), &why);
            if has_expired {
                link.resume = None;
            }
            link.failures += 1;
            // The other servers may be better; each is tried once.
            if !link.failures.is_multiple_of(self.servers.len()) {
                continue;
            }
            let pause = link.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            link.pause = (link.pause * 2).min(LONGEST_PAUSE);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.reread.notified() => {}
            }
        }
    }

    /// A connection to the next server, to its end. Returns the server, and why it ended.
    async fn connect(
        &self,
        link: &mut Link,
        progress: &mut Progress,
        out: &Emitter,
    ) -> Result<(&str, Lost), Stopped> {
        let Some(server) = self.servers.get(link.next % self.servers.len()) else { return Err(Stopped) };
        link.next = (link.next + 1) % self.servers.len();
        // Whoever was away for so long has no session any more, and takes what the servers have.
        let (_, at) = link.seen;
        if at.elapsed() >= self.session_timeout {
            link.seen.0 = 0;
        }
        let password = match &self.credentials {
            Some((user, password)) => Some((user, password.secret().await)),
            None => None,
        };
        let opening = Opening {
            timeout: self.session_timeout,
            resume: link.resume.as_ref(),
            seen: link.seen.0,
            credentials: password.as_ref().map(|(user, password)| (user.as_str(), password.expose())),
        };
        let mut session = match Session::open(&server.connector, opening).await {
            Ok(session) => session,
            Err(lost) => return Ok((server.address.as_str(), lost)),
        };
        tracing::debug!(server = server.address, session = ?session.id(), timeout = ?session.timeout(), "ZooKeeper session");
        link.resume = Some(session.id().clone());
        let lost = self.serve(&mut session, link, progress, out).await?;
        // It goes on with the next connection, from the beginning.
        progress.load = None;
        session.leave();
        Ok((server.address.as_str(), lost))
    }

    /// Reads and watches, until the connection is lost.
    async fn serve(
        &self,
        session: &mut Session,
        link: &mut Link,
        progress: &mut Progress,
        out: &Emitter,
    ) -> Result<Lost, Stopped> {
        progress.begin(self.name());
        let mut in_flight: VecDeque<(i32, Read)> = VecDeque::new();
        // When the oldest request was sent, or the one before it was answered.
        let mut asked = Instant::now();
        loop {
            loop {
                match session.received() {
                    Ok(Some(received)) => {
                        asked = Instant::now();
                        if let Err(lost) = self.take(received, &mut in_flight, link, progress, out.health()) {
                            return Ok(lost);
                        }
                    }
                    Ok(None) => break,
                    Err(lost) => return Ok(lost),
                }
            }
            self.deliver(progress, out).await?;
            if in_flight.is_empty() {
                asked = Instant::now();
            }
            while in_flight.len() < WINDOW
                && let Some(read) = progress.tree.next(Instant::now())
            {
                let path = progress.tree.path(&read);
                let number = match read {
                    Read::RootExists => session.exists(&path),
                    _ => session.children(&path),
                };
                in_flight.push_back((number, read));
            }
            progress.count(in_flight.len());
            if let Err(lost) = session.flush().await {
                return Ok(lost);
            }
            let overdue = (!in_flight.is_empty()).then(|| asked + session.timeout());
            let (retry, overdue) = (until(progress.tree.due()), until(overdue));
            tokio::select! {
                received = session.wait() => if let Err(lost) = received {
                    return Ok(lost);
                },
                () = retry => {}
                () = overdue => {
                    let text = format!("a request has no answer within {:?}", session.timeout());
                    return Ok(Lost::Gone(text));
                }
                () = self.reread.notified() => progress.begin(self.name()),
            }
        }
    }

    /// Takes what a server sent.
    fn take(
        &self,
        received: Received,
        in_flight: &mut VecDeque<(i32, Read)>,
        link: &mut Link,
        progress: &mut Progress,
        health: &Health,
    ) -> Result<(), Lost> {
        let (number, body) = match received {
            Received::Message(Message::Notification(path)) => {
                progress.tree.notified(&path);
                return Ok(());
            }
            Received::Message(Message::Pong | Message::Auth(_)) => return Ok(()),
            Received::Message(Message::Reply { number, zxid, body }) => {
                link.seen = (link.seen.0.max(zxid), Instant::now());
                (number, body.map_err(|code| Failure::Refused(code.into())))
            }
            Received::TooLarge(number, length) => (number, Err(Failure::TooLarge(length))),
        };
        // Replies come in the order of their requests.
        let Some((expected, read)) = in_flight.pop_front() else { return Err(wire::Malformed.into()) };
        if expected != number {
            return Err(wire::Malformed.into());
        }
        let answer = match (&read, body) {
            (_, Err(failure)) => Answer::Failed(failure),
            (Read::RootExists, Ok(_)) => Answer::Exists,
            (_, Ok(body)) => match wire::count(&body) {
                // Each has at least its length; more than there can be is no list.
                count if count > MAX_CHILDREN && count <= body.len() / 4 => {
                    Answer::Failed(Failure::TooMany(count))
                }
                _ => Answer::Children(wire::names(body)?),
            },
        };
        let path = progress.tree.path(&read);
        match progress.tree.answered(read, answer, Instant::now()) {
            Outcome::Nothing => {}
            Outcome::Root(gone) => {
                link.connected(health);
                let mut state = self.state.lock();
                gone.iter().for_each(|service| progress.forget(service, &mut state));
                progress.is_news = true;
            }
            Outcome::RootFailed(failure) => {
                // Another server, or a password that was corrected, may be better.
                let why = self.explain(&path, &failure);
                return Err(Lost::Gone(format!("{}{}", why.message, hint(&why))));
            }
            Outcome::Providers(service, nodes, beyond) => {
                let services = provider::services(&service, &nodes);
                let mut state = self.state.lock();
                progress.put(&service, &services, &path, &mut state);
                if beyond > 0 {
                    let text = format!("{beyond} providers beyond the first {MAX_ENDPOINTS} are not used");
                    let problem = at(&path, text).with_hint("register fewer instances of this service");
                    progress.problem(&service, problem);
                }
            }
            Outcome::ProvidersFailed(service, failure) => {
                progress.problems.remove(&service);
                progress.problem(&service, self.explain(&path, &failure));
            }
        }
        Ok(())
    }

    /// What it means that a node cannot be read.
    fn explain(&self, path: &str, failure: &Failure) -> Diagnostic {
        match failure {
            Failure::Refused(Code::NoAuth) => {
                let who = match &self.credentials {
                    Some((user, _)) => format!("user `{user}`"),
                    None => "everybody".to_owned(),
                };
                let hint = "name a user that may read it with --zookeeper-user and --zookeeper-password-file, or change its ACL";
                at(path, format!("the ACL of `{path}` does not let {who} read it (NoAuth)")).with_hint(hint)
            }
            Failure::Refused(code) => at(path, format!("cannot read `{path}`: {code}")),
            Failure::TooMany(count) => {
                at(path, format!("`{path}` has {count} children, more than {MAX_CHILDREN}"))
                    .with_hint("remove nodes, or name a root with fewer of them with --zookeeper-root")
            }
            Failure::TooLarge(length) => {
                let text = format!(
                    "the names of the children of `{path}` take {length} bytes, more than {MAX_MESSAGE}"
                );
                at(path, text)
                    .with_hint("remove nodes, or name a root with fewer of them with --zookeeper-root")
            }
        }
    }

    /// Delivers what is to be delivered, and tells the health.
    async fn deliver(&self, progress: &mut Progress, out: &Emitter) -> Result<(), Stopped> {
        let everything = match progress.is_synced {
            false if progress.tree.is_complete() => {
                let mut state = self.state.lock();
                // Those of an earlier start of the source.
                let gone = state.keys.keys().filter(|service| !progress.tree.has(service));
                let gone: Vec<Arc<str>> = gone.cloned().collect();
                gone.iter().for_each(|service| progress.forget(service, &mut state));
                (progress.is_synced, progress.is_news) = (true, true);
                progress.waiting.clear();
                Some(state.registered.all())
            }
            false => {
                // It is part of everything, which follows.
                progress.waiting.clear();
                None
            }
            true => None,
        };
        // Whoever sees what is delivered sees its problems.
        if std::mem::take(&mut progress.is_news) {
            self.tell(progress, out.health());
        }
        let batch = std::mem::take(&mut progress.waiting);
        match everything {
            Some(everything) => out.send_everything(everything, &[SERVICE_ENTRIES]).await,
            None if batch.is_empty() => Ok(()),
            None => out.send(batch).await,
        }
    }

    /// Tells what is wrong.
    fn tell(&self, progress: &Progress, health: &Health) {
        let mut problems = Vec::new();
        let mut skipped = progress.problems.tell(&mut problems);
        skipped += self.state.lock().registered.problems(&mut problems);
        let beyond = progress.tree.beyond();
        if beyond > 0 {
            let text =
                format!("{beyond} services beyond the first {} are not used", progress.tree.max_services());
            let hint = "name a root with fewer services with --zookeeper-root";
            problems.insert(0, at(&self.root, text).with_hint(hint));
        }
        health.problems(skipped + beyond, problems);
    }
}

impl Progress {
    fn new(root: &str) -> Self {
        Self {
            tree: Tree::new(root),
            problems: Problems::default(),
            is_synced: false,
            waiting: Batch::new(),
            is_news: false,
            load: None,
        }
    }

    /// Everything is read from now on.
    fn begin(&mut self, source: String) {
        self.tree.begin();
        self.load = Some((Load::begin(source, "nodes", "read", 0), 0, 0));
    }

    /// Tells how far that is; so many reads are under way.
    fn count(&mut self, in_flight: usize) {
        let Some((load, known, done)) = &mut self.load else { return };
        let (wanted, begun) = self.tree.progress();
        let read = begun.saturating_sub(in_flight);
        load::documents_known(load.id(), wanted.saturating_sub(*known));
        load::documents_done(load.id(), read.saturating_sub(*done));
        (*known, *done) = (wanted.max(*known), read.max(*done));
        if read == wanted {
            self.load = None;
        }
    }

    /// The node of a service is gone.
    fn forget(&mut self, service: &str, state: &mut Known) {
        self.problems.remove(service);
        self.is_news = true;
        for key in state.keys.remove(service).unwrap_or_default() {
            state.registered.set(&key, None, &mut self.waiting);
        }
    }

    /// A service has these providers.
    fn put(&mut self, service: &Arc<str>, found: &provider::Services, path: &str, state: &mut Known) {
        self.problems.remove(service);
        // Also if nothing is delivered: of services with one name, all but the first are not seen, which is told.
        self.is_news = true;
        let keys = found.by_key.keys().map(|key| key.as_str().into()).collect();
        let old = state.keys.insert(Arc::clone(service), keys).unwrap_or_default();
        for gone in old.iter().filter(|key| !found.by_key.contains_key(&***key)) {
            state.registered.set(gone, None, &mut self.waiting);
        }
        for (key, of_key) in &found.by_key {
            state.registered.set(key, Some(of_key), &mut self.waiting);
        }
        for text in &found.problems {
            self.problems.add(service, || at(path, text.clone()));
        }
    }

    fn problem(&mut self, service: &Arc<str>, problem: Diagnostic) {
        self.problems.add(service, || problem);
        self.is_news = true;
    }
}

impl Link {
    fn new(next: usize) -> Self {
        Self {
            next,
            resume: None,
            seen: (0, Instant::now()),
            pause: FIRST_PAUSE,
            failures: 0,
            is_connected: None,
        }
    }

    /// The registry can be read. Said once.
    fn connected(&mut self, health: &Health) {
        health.connected(true);
        if self.is_connected == Some(false) {
            tracing::info!("ZooKeeper can be read again");
        }
        self.is_connected = Some(true);
    }

    /// The registry cannot be read. Said once.
    fn lost(&mut self, health: &Health, why: &str) {
        health.connected(false);
        health.failed(why);
        if self.is_connected != Some(false) {
            tracing::warn!("ZooKeeper cannot be read, what was read before counts: {why}");
        }
        self.is_connected = Some(false);
    }
}

/// Waits until then; for ever if there is no such time.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then).await,
        None => std::future::pending().await,
    }
}

fn hint(of: &Diagnostic) -> String {
    of.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default()
}

/// A problem with a node.
fn at(path: &str, text: String) -> Diagnostic {
    let mut problem = Diagnostic::error(PROBLEM, FieldPath::root(), text);
    problem.file = Some(path.into());
    problem
}

/// The path of the root below a chroot; empty for the root of all. Errors: it is no path.
fn join(chroot: &str, root: &str) -> Result<String, String> {
    if !root.starts_with('/') {
        return Err(format!("--zookeeper-root: `{root}` is no path: it must begin with a slash"));
    }
    let mut joined = String::new();
    for part in chroot.split('/').chain(root.split('/')).filter(|part| !part.is_empty()) {
        if matches!(part, "." | "..") || part.chars().any(char::is_control) {
            return Err(format!("--zookeeper-root: `{part}` is no name of a node"));
        }
        joined.push('/');
        joined.push_str(part);
    }
    Ok(joined)
}

impl Source for Zookeeper {
    fn name(&self) -> String {
        let servers: Vec<&str> = self.servers.iter().map(|server| server.address.as_str()).collect();
        let root = if self.root.is_empty() { "/" } else { &self.root };
        format!("zookeeper {}{root}", servers.join(","))
    }

    fn collections(&self) -> Vec<&'static str> {
        vec![SERVICE_ENTRIES]
    }

    fn run(self: Arc<Self>, out: Emitter) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            match self.follow(&out).await {
                Ok(never) => match never {},
                Err(Stopped) => Ended::Stopped,
            }
        })
    }

    fn reload(&self) {
        self.reread.notify_one();
    }
}

impl std::fmt::Debug for Zookeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zookeeper").field("name", &self.name()).finish_non_exhaustive()
    }
}
