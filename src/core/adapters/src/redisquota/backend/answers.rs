//! Answers of Redis to scripts, and why there is none.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::{ErrorKind, FromRedisValue, RedisError, ScriptInvocation, ServerErrorKind};
use tokio::time::{Instant, timeout_at};

use super::link::{Link, Unconnected};
use super::silent::SilentNodes;
use super::target::Connection;
use mixer_base::metrics::{Counter, Family, Metrics};
use mixer_engine::adapter::QuotaOutage;
use mixer_remote::foreign;

/// Codes of a Redis that cannot serve now, and will later by itself.
const NOT_READY: [&str; 6] = ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN"];

/// Why there is no answer.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    Unavailable(Arc<str>),
    Timeout,
    /// The connection was lost, or Redis cannot serve now.
    Interrupted(Arc<str>),
    /// Redis refuses the script, or answers with something else. It does so until somebody mends it.
    Error(Arc<str>),
}

impl Failure {
    /// Whether it ends by itself, and no caller brings it about.
    pub(super) fn is_outage(&self) -> bool {
        !matches!(self, Failure::Error(_))
    }
}

/// An answer that is an error.
struct Refusal {
    why: String,
    since: Instant,
}

/// The Redis of a handler.
pub(super) struct Redis {
    pub(super) link: Arc<Link>,
    timeout: Duration,
    handler_name: Arc<str>,
    unavailable: Counter,
    late: Counter,
    error: Counter,
    /// That of the last script.
    refusal: ArcSwapOption<Refusal>,
    silent: SilentNodes,
}

impl Redis {
    pub(super) fn new(link: Arc<Link>, timeout: Duration, metrics: &Metrics, handler_name: Arc<str>) -> Self {
        let counter = |reason: &str| metrics.counter(Family::RedisquotaFailures, &[&handler_name, reason]);
        let (unavailable, late, error) = (counter("unavailable"), counter("timeout"), counter("error"));
        let refusal = ArcSwapOption::empty();
        let silent = SilentNodes::default();
        Self { link, timeout, handler_name, unavailable, late, error, refusal, silent }
    }

    /// Why it, or a node of it, does not answer, or answers with an error.
    pub(super) fn trouble(&self) -> Option<String> {
        let refusal = || self.refusal.load().as_ref().map(|refusal| refusal.why.clone());
        let silence = || Some(format!("Redis does not answer: {}", self.silence()?.why));
        self.link.trouble().or_else(refusal).or_else(silence)
    }

    /// Why more than a limit may be granted although it answers.
    pub(super) fn weakness(&self) -> Option<String> {
        self.link.weakness()
    }

    /// That of a node of a cluster.
    fn silence(&self) -> Option<QuotaOutage> {
        let (node, lasts) = self.silent.first(Instant::now())?;
        Some(QuotaOutage { why: self.no_answer_of(&node), lasts })
    }

    fn no_answer_of(&self, node: &str) -> String {
        format!("{}: its node {} gives no answer", self.link.shown(), foreign(node))
    }

    /// The same, with the time that it has lasted.
    pub(super) fn outage(&self) -> Option<QuotaOutage> {
        let refusal = || {
            let refusal = self.refusal.load_full()?;
            Some(QuotaOutage { why: refusal.why.clone(), lasts: refusal.since.elapsed() })
        };
        self.link.outage().or_else(refusal).or_else(|| self.silence())
    }

    fn answers(&self) {
        if self.refusal.load().is_some() {
            self.refusal.store(None);
        }
    }

    /// Redis answered with an error.
    fn refuses(&self, error: &RedisError) -> Failure {
        let text: Arc<str> = error.to_string().into();
        let why = format!("{}: Redis answers with an error: {}", self.link.shown(), foreign(&text));
        mixer_base::warn_limited!(1, adapter = &*self.handler_name, "{why}");
        let since = self.refusal.load().as_ref().map_or_else(Instant::now, |refusal| refusal.since);
        self.refusal.store(Some(Arc::new(Refusal { why, since })));
        let is_not_ready = error.code().is_some_and(|code| NOT_READY.contains(&code));
        if is_not_ready { Failure::Interrupted(text) } else { Failure::Error(text) }
    }

    /// How long a script may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Calls a script for what has this key, a second time if the connection is lost meanwhile and it `may_repeat`.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        invocation: &ScriptInvocation<'_>,
        key: &[u8],
        may_repeat: bool,
    ) -> Result<T, Failure> {
        let due = Instant::now() + self.timeout;
        let mut may_repeat = may_repeat;
        loop {
            let (mut connection, generation) = match self.link.get(due).await {
                Ok(connected) => connected,
                Err(Unconnected::Down(why)) => return Err(Failure::Unavailable(why)),
                Err(Unconnected::Late) => return Err(Failure::Timeout),
            };
            self.look_for_node(&connection, key)?;
            let begun = Instant::now();
            match timeout_at(due, connection.invoke(invocation)).await {
                Ok(Ok(answer)) => {
                    self.node_answers(&connection, key);
                    self.answers();
                    return Ok(answer);
                }
                Ok(Err(error)) if is_lost(&error) => {
                    self.link.lost(generation);
                    if !std::mem::take(&mut may_repeat) {
                        return Err(Failure::Interrupted(error.to_string().into()));
                    }
                }
                Ok(Err(error)) if !error.is_timeout() => {
                    self.node_answers(&connection, key);
                    return Err(self.refuses(&error));
                }
                Ok(Err(_)) | Err(_) => {
                    if let Some(node) = connection.node_of(key) {
                        self.silent.note(node, begun, Instant::now());
                    }
                    self.link.suspect();
                    return Err(Failure::Timeout);
                }
            }
        }
    }

    /// Errors: the node of a cluster that has the key gave no answer, and this call does not wait for it.
    fn look_for_node(&self, connection: &Connection, key: &[u8]) -> Result<(), Failure> {
        let node = if self.silent.are_there() { connection.node_of(key) } else { None };
        match node {
            Some(node) if !self.silent.may_ask(&node, Instant::now(), self.timeout) => {
                Err(Failure::Unavailable(self.no_answer_of(&node).into()))
            }
            _ => Ok(()),
        }
    }

    fn node_answers(&self, connection: &Connection, key: &[u8]) {
        if self.silent.are_there()
            && let Some(node) = connection.node_of(key)
        {
            self.silent.answers(&node);
        }
    }

    /// Counts the failure of a call. Returns its text.
    pub(super) fn describe(&self, failure: &Failure) -> String {
        let (counter, text) = match failure {
            Failure::Unavailable(why) => (&self.unavailable, format!("Redis does not answer: {why}")),
            Failure::Timeout => (&self.late, format!("Redis does not answer within {:?}", self.timeout)),
            Failure::Interrupted(error) | Failure::Error(error) => {
                (&self.error, format!("failed to run quota script: {error}"))
            }
        };
        counter.increment();
        tracing::debug!(target: "adapters", adapter = &*self.handler_name, "{text}");
        text
    }
}

/// Whether the server is not there any more, or is not the master any more.
fn is_lost(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => true,
        // Before Redis 7, the script fails with the error of its command as text.
        ErrorKind::Server(_) => error.detail().is_some_and(|text| text.contains("READONLY")),
        _ => !error.is_timeout() && (error.is_io_error() || error.is_unrecoverable_error()),
    }
}
