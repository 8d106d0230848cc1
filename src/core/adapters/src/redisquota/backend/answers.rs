//! Answers of Redis to scripts, and why there is none.

use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, FromRedisValue, RedisError, ScriptInvocation, ServerErrorKind};
use tokio::time::{Instant, timeout_at};

use super::link::{Link, Unconnected};
use mixer_base::metrics::{Counter, Family, Metrics};

/// Why there is no answer.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    Unavailable(Arc<str>),
    Timeout,
    Error(Arc<str>),
}

/// The Redis of a handler.
pub(super) struct Redis {
    pub(super) link: Arc<Link>,
    timeout: Duration,
    handler_name: Arc<str>,
    unavailable: Counter,
    late: Counter,
    error: Counter,
}

impl Redis {
    pub(super) fn new(link: Arc<Link>, timeout: Duration, metrics: &Metrics, handler_name: Arc<str>) -> Self {
        let counter = |reason: &str| metrics.counter(Family::RedisquotaFailures, &[&handler_name, reason]);
        let (unavailable, late, error) = (counter("unavailable"), counter("timeout"), counter("error"));
        Self { link, timeout, handler_name, unavailable, late, error }
    }

    /// How long a script may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Calls a script, a second time if the connection is lost meanwhile and it `may_repeat`.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        invocation: &ScriptInvocation<'_>,
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
            match timeout_at(due, connection.invoke(invocation)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if is_lost(&error) => {
                    self.link.lost(generation);
                    if !std::mem::take(&mut may_repeat) {
                        return Err(Failure::Error(error.to_string().into()));
                    }
                }
                Ok(Err(error)) if error.is_timeout() => {
                    self.link.suspect();
                    return Err(Failure::Timeout);
                }
                Ok(Err(error)) => return Err(Failure::Error(error.to_string().into())),
                Err(_) => {
                    self.link.suspect();
                    return Err(Failure::Timeout);
                }
            }
        }
    }

    /// Counts the failure of a call. Returns its text.
    pub(super) fn describe(&self, failure: &Failure) -> String {
        let (counter, text) = match failure {
            Failure::Unavailable(why) => (&self.unavailable, format!("Redis does not answer: {why}")),
            Failure::Timeout => (&self.late, format!("Redis does not answer within {:?}", self.timeout)),
            Failure::Error(error) => (&self.error, format!("failed to run quota script: {error}")),
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
