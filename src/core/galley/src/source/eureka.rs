//! Applications that register themselves at a Eureka server. Spec: galley.md, "Eureka source".
//!
//! The server is asked at intervals: first for everything, then for what changed. After changes the number of instances by status must be
//! that of the server; otherwise, and from time to time, everything is read again. When a server fails, the next one of the list is asked
//! for everything. While none answers, what was known counts.

mod applications;
mod document;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use mixer_base::load::{self, Load, LoadId};
use mixer_base::secrets::mask_address;
use mixer_config::{Diagnostic, FieldPath};
use mixer_remote::{
    Answer as Delivered, Authentication, ClientTlsOptions, Credential, Cut, HttpOptions, HttpTarget,
    ProxySetting, Reply,
};

use super::registered::{PROBLEM, Problems, Registered};
use super::{Emitter, Ended, Health, Source, Stopped};
use crate::error::StartError;
use crate::event::Batch;
use crate::options::{Options, collection::SERVICE_ENTRIES};
use applications::Applications;
use document::{Mismatch, Unread};

/// Most bytes of an answer.
const MAX_ANSWER: usize = 64 << 20;
/// Everything is read again after this time: the numbers of instances may agree although instances differ.
const REREAD: Duration = Duration::from_secs(300);
/// Servers tell the changes of three minutes; after a pause of this length everything is read again.
const MEMORY: Duration = Duration::from_secs(150);
/// The pause after all servers failed; it doubles up to the interval of questions.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause for which a server may ask.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// After so many answers in a row that do not agree, the server is no longer asked for changes.
const MAX_MISMATCHES: u32 = 3;
/// Limits of the interval.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
/// Where the registry is, and how it is read.
#[derive(Debug, Clone)]
pub struct EurekaOptions {
    /// The base of each server, for example `http://host:8761/eureka`.
    pub addresses: Vec<String>,
    /// How often a server is asked.
    pub refresh: Duration,
    /// The limit of a question, from the connection to the end of the answer.
    pub timeout: Duration,
    /// The namespace of the service entries.
    pub namespace: String,
    /// The port of all services; `None`: that of the first instance.
    pub service_port: Option<u16>,
    /// The user of `Authorization: Basic`; empty: none.
    pub user: String,
    /// The file with his password.
    pub password_file: PathBuf,
    /// Roots and certificate, for `https`.
    pub tls: ClientTlsOptions,
}

impl Default for EurekaOptions {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            refresh: Duration::from_secs(15),
            timeout: Duration::from_secs(30),
            namespace: "eureka".to_owned(),
            service_port: None,
            user: String::new(),
            password_file: PathBuf::new(),
            tls: ClientTlsOptions::default(),
        }
    }
}

/// A server of the list.
struct Server {
    /// Its base.
    address: String,
    /// The path of the applications.
    path: String,
    target: HttpTarget,
}

/// The applications of a Eureka registry.
pub struct Eureka {
    servers: Vec<Server>,
    refresh: Duration,
    service_port: Option<u16>,
    state: Mutex<Known>,
    /// An operator asks.
    reread: Notify,
}

/// What outlives a start of the source.
struct Known {
    applications: Applications,
    registered: Registered,
    /// What is wrong with applications.
    problems: Problems,
}

/// What a start of the source knows.
struct Progress {
    /// The server that is asked, by its index.
    server: usize,
    /// When everything was read last, from this server.
    read_at: Option<Instant>,
    /// When it answered last.
    answered_at: Instant,
    /// Answers in a row that did not agree with what is here.
    mismatches: u32,
    /// Whether the server tells changes.
    has_changes: bool,
    pause: Duration,
    /// Servers in a row that failed.
    failures: usize,
    is_synced: bool,
    is_connected: Option<bool>,
}

/// Why a question has no answer.
struct Failed {
    why: String,
    /// The pause for which the server asks.
    after: Duration,
    /// It does not have what it was asked for.
    is_unknown: bool,
}

impl Failed {
    fn new(why: String) -> Self {
        Self { why, after: Duration::ZERO, is_unknown: false }
    }
}

impl Eureka {
    /// Checks the settings, and reads the credentials and certificates; opens no connection.
    ///
    /// Errors: a setting is wrong.
    pub fn new(settings: &EurekaOptions, options: &Options) -> Result<Arc<Self>, StartError> {
        let wrong = StartError::Source;
        if !INTERVALS.contains(&settings.refresh) {
            return Err(wrong(format!("--eureka-refresh: {:?} is not within 100ms to 1h", settings.refresh)));
        }
        if settings.timeout.is_zero() {
            return Err(wrong("--eureka-timeout: it must be more than 0s".to_owned()));
        }
        let mut servers = Vec::new();
        for address in settings.addresses.iter().map(|address| address.trim()).filter(|a| !a.is_empty()) {
            servers.push(Server::new(address, settings).map_err(wrong)?);
        }
        if servers.is_empty() {
            return Err(wrong("--eureka-address: no server is named: http://HOST:PORT/eureka".to_owned()));
        }
        let known = Known {
            applications: Applications::default(),
            registered: Registered::new("eureka", &settings.namespace, options)?,
            problems: Problems::default(),
        };
        let (refresh, service_port) = (settings.refresh, settings.service_port);
        Ok(Arc::new(Self { servers, refresh, service_port, state: Mutex::new(known), reread: Notify::new() }))
    }

    async fn follow(self: &Arc<Self>, out: &Emitter) -> Result<Infallible, Ended> {
        let mut progress = Progress::new();
        loop {
            let pause = match self.poll(&mut progress, out).await? {
                // Not all clients of a server ask at once.
                Ok(()) => self.refresh.mul_f64(0.9 + fastrand::f64() / 5.0),
                Err(failed) => {
                    progress.lost(out.health(), &failed.why);
                    progress.next(self.servers.len());
                    if !progress.failures.is_multiple_of(self.servers.len()) {
                        continue;
                    }
                    let pause = progress.pause.min(self.refresh);
                    progress.pause = (progress.pause * 2).min(LONGEST_PAUSE);
                    pause.mul_f64(0.5 + fastrand::f64() / 2.0).max(failed.after.min(LONGEST_PAUSE))
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.reread.notified() => (progress.read_at, progress.has_changes) = (None, true),
            }
        }
    }

    /// Asks the server once, and delivers what changed.
    async fn poll(
        self: &Arc<Self>,
        progress: &mut Progress,
        out: &Emitter,
    ) -> Result<Result<(), Failed>, Ended> {
        let Some(server) = self.servers.get(progress.server) else { return Err(Ended::Stopped) };
        if progress.wants_changes() {
            match server.ask("/delta").await {
                Ok(body) => match self.take(body, true).await? {
                    Ok(batch) => {
                        (progress.mismatches, progress.answered_at) = (0, Instant::now());
                        self.deliver(batch, progress, out).await?;
                        return Ok(Ok(()));
                    }
                    Err(why) => {
                        progress.mismatches += 1;
                        tracing::debug!(
                            server = server.address,
                            "changes are not used, everything is read again: {why}"
                        );
                        if progress.mismatches >= MAX_MISMATCHES {
                            tracing::warn!(
                                server = server.address,
                                "the changes that Eureka tells do not agree with what it has, and are no longer asked for: {why}"
                            );
                            progress.has_changes = false;
                        }
                    }
                },
                Err(failed) if failed.is_unknown => progress.has_changes = false,
                Err(failed) => return Ok(Err(failed)),
            }
            // Some of them were taken over, perhaps.
            progress.read_at = None;
        }
        let body = match server.ask("").await {
            Ok(body) => body,
            Err(failed) => return Ok(Err(failed)),
        };
        match self.take(body, false).await? {
            Ok(batch) => {
                let now = Instant::now();
                (progress.read_at, progress.answered_at) = (Some(now), now);
                self.deliver(batch, progress, out).await?;
                Ok(Ok(()))
            }
            Err(why) => Ok(Err(Failed::new(format!("server `{}`: {why}", server.address)))),
        }
    }

    /// Takes over an answer, on a thread of its own: it may be long. Errors: it is none, or does not agree with what is here.
    async fn take(self: &Arc<Self>, body: Bytes, are_changes: bool) -> Result<Result<Batch, String>, Ended> {
        let this = Arc::clone(self);
        let take = move || -> Result<Batch, String> {
            let mut known = this.state.lock();
            let load = Load::begin(this.name(), "applications", "read", 0);
            known.applications.load = load.id();
            let taken = match are_changes {
                true => known.applications.change(&body),
                false => known.applications.replace(&body),
            };
            let changed = taken.map_err(|unread| match unread {
                Unread::Refused(Mismatch::TooLarge(_)) => {
                    format!("an answer of {} bytes: {unread}", body.len())
                }
                unread => unread.to_string(),
            })?;
            drop((body, load));
            let load = Load::begin(this.name(), "applications", "converted", changed.len());
            Ok(known.update(&changed, this.service_port, load.id()))
        };
        let taken = tokio::task::spawn_blocking(take).await;
        taken.map_err(|error| Ended::Failed(format!("cannot read the answer: {error}")))
    }

    async fn deliver(&self, batch: Batch, progress: &mut Progress, out: &Emitter) -> Result<(), Ended> {
        // Whoever sees what is delivered sees its problems.
        progress.connected(out.health());
        self.state.lock().tell(out.health());
        let sent = match progress.is_synced {
            true if batch.is_empty() => Ok(()),
            true => out.send(batch).await,
            false => {
                let all = self.state.lock().registered.all();
                progress.is_synced = true;
                out.send_everything(all, &[SERVICE_ENTRIES]).await
            }
        };
        sent.map_err(|Stopped| Ended::Stopped)
    }
}

impl Server {
    fn new(address: &str, settings: &EurekaOptions) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("--eureka-address: {why}");
        let uri: Uri = address
            .parse()
            .map_err(|error| wrong(&format!("`{}` is no URL: {error}", mask_address(address))))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            let text = "a URL with a password would be shown to others: name the user with --eureka-user and a file with \
                        --eureka-password-file";
            return Err(wrong(&text));
        }
        if uri.query().is_some() {
            return Err(wrong(&format!(
                "`{}` has a query: name the base alone, http://HOST:PORT/eureka",
                mask_address(address)
            )));
        }
        let authentication = match (settings.user.is_empty(), settings.password_file.as_os_str().is_empty()) {
            (true, true) => Authentication::None,
            (false, false) => {
                let password = Credential::from_file(&settings.password_file)
                    .map_err(|error| format!("--eureka-password-file: {error}"))?;
                Authentication::Basic { user: settings.user.clone(), password }
            }
            _ => return Err("--eureka-user and --eureka-password-file belong together".to_owned()),
        };
        let target = HttpTarget::new(HttpOptions {
            timeout: settings.timeout,
            connect_timeout: settings.timeout.min(Duration::from_secs(5)),
            tls: settings.tls.clone(),
            proxy: ProxySetting::Environment,
            authentication,
            max_reply: MAX_ANSWER,
            repeats: true,
            ..HttpOptions::new(address)
        });
        let target = target.map_err(|error| wrong(&error))?;
        let path = format!("{}/apps", uri.path().trim_end_matches('/'));
        Ok(Self { address: address.to_owned(), path, target })
    }

    /// Asks for the applications, or for something below them.
    async fn ask(&self, below: &str) -> Result<Bytes, Failed> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))]);
        let path = format!("{}{below}", self.path);
        let reply = self.target.send_to(Method::GET, &path, &headers, Bytes::new()).await;
        let at = |why: &str| format!("server `{}`: {why}", self.address);
        let Reply { answer, status, body, cut, .. } = reply;
        let is_unknown = status.is_some_and(|status| matches!(status.as_u16(), 403 | 404 | 405 | 410 | 501));
        let hint = match status {
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                " (name a user that may read it with --eureka-user and --eureka-password-file)"
            }
            Some(StatusCode::NOT_FOUND) => {
                " (the address must be the base of Eureka, http://HOST:PORT/eureka)"
            }
            _ => "",
        };
        match (answer, cut) {
            (Delivered::Delivered, None) => Ok(body),
            (Delivered::Delivered, Some(Cut::TooLarge)) => {
                let text = format!(
                    "the answer has more than {MAX_ANSWER} bytes: register fewer instances, or less metadata"
                );
                Err(Failed::new(at(&text)))
            }
            (Delivered::Delivered, Some(Cut::Lost)) => {
                Err(Failed::new(at("the answer ended before its end")))
            }
            (Delivered::Retry { why, after }, _) => {
                Err(Failed { why: at(&format!("{why}{hint}")), after, is_unknown })
            }
            (Delivered::Refused(why), _) => {
                Err(Failed { why: at(&format!("{why}{hint}")), after: Duration::ZERO, is_unknown })
            }
        }
    }
}

impl Known {
    /// Applications have changed. Returns what that changes.
    fn update(&mut self, changed: &BTreeSet<Arc<str>>, service_port: Option<u16>, load: LoadId) -> Batch {
        let mut batch = Batch::new();
        for name in changed {
            let mut texts = Vec::new();
            let service = self.applications.service(name, service_port, &mut texts);
            self.registered.set(name, service.as_ref(), &mut batch);
            self.problems.remove(name);
            for text in texts {
                self.problems
                    .add(name, || Diagnostic::error(PROBLEM, FieldPath::root(), text).with_resource(&**name));
            }
            load::documents_done(load, 1);
        }
        batch
    }

    fn tell(&self, health: &Health) {
        let mut problems = Vec::new();
        let skipped = self.problems.tell(&mut problems);
        let hidden = self.registered.problems(&mut problems);
        health.problems(skipped + hidden, problems);
    }
}

impl Progress {
    fn new() -> Self {
        Self {
            server: 0,
            read_at: None,
            answered_at: Instant::now(),
            mismatches: 0,
            has_changes: true,
            pause: FIRST_PAUSE,
            failures: 0,
            is_synced: false,
            is_connected: None,
        }
    }

    /// Whether changes are enough.
    fn wants_changes(&self) -> bool {
        let is_recent = self.read_at.is_some_and(|at| at.elapsed() < REREAD);
        self.has_changes && is_recent && self.answered_at.elapsed() < MEMORY
    }

    /// The next server is asked for everything.
    fn next(&mut self, servers: usize) {
        self.failures += 1;
        self.server = (self.server + 1) % servers;
        if servers > 1 {
            (self.read_at, self.has_changes, self.mismatches) = (None, true, 0);
        }
    }

    /// A server answered. Said once.
    fn connected(&mut self, health: &Health) {
        health.connected(true);
        if self.is_connected == Some(false) {
            tracing::info!("Eureka answers again");
        }
        (self.is_connected, self.pause, self.failures) = (Some(true), FIRST_PAUSE, 0);
    }

    /// A server did not answer. Said once.
    fn lost(&mut self, health: &Health, why: &str) {
        health.connected(false);
        health.failed(why);
        if self.is_connected != Some(false) {
            tracing::warn!("Eureka cannot be read, what was read before counts: {why}");
        }
        self.is_connected = Some(false);
    }
}

impl Source for Eureka {
    fn name(&self) -> String {
        let servers: Vec<&str> = self.servers.iter().map(|server| server.address.as_str()).collect();
        format!("eureka {}", servers.join(","))
    }

    fn collections(&self) -> Vec<&'static str> {
        vec![SERVICE_ENTRIES]
    }

    fn run(self: Arc<Self>, out: Emitter) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            match self.follow(&out).await {
                Ok(never) => match never {},
                Err(ended) => ended,
            }
        })
    }

    fn reload(&self) {
        self.reread.notify_one();
    }
}

impl std::fmt::Debug for Eureka {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eureka").field("name", &self.name()).finish_non_exhaustive()
    }
}
