//! What every dispatch needs beside the table and the bag.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use super::{DispatchTrace, LastKnownAnswers};
use crate::adapter::{HandlerError, Reply, join_errors};
use crate::routing::Destination;
use crate::snapshot::RuleConfig;
use mixer_base::metrics::Metrics;

/// The surroundings of a request.
pub struct DispatchContext<'c> {
    /// Where calls are counted.
    pub metrics: &'c Metrics,
    /// Last good answers of handlers that are configured to repeat them.
    pub last_known: &'c LastKnownAnswers,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// Where `explain` looks; costs nothing when absent.
    pub trace: Option<&'c RefCell<DispatchTrace>>,
    /// Where the rules that applied to a check are listed, for callers that pass their names on.
    pub fired: Option<&'c RefCell<Vec<Arc<RuleConfig>>>>,
}

/// An operation that could not be carried out: every problem of it. Printed as the originals print error lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DispatchError {
    /// At least one.
    pub errors: Vec<String>,
}

impl std::fmt::Display for DispatchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&join_errors(&self.errors))
    }
}

impl DispatchError {
    /// `Err(self)` if there is any problem.
    pub(super) fn into_result<T>(self, value: T) -> Result<T, DispatchError> {
        if self.errors.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl DispatchContext<'_> {
    /// Waits for an answer, at most until the deadline, and counts the call that was begun at `started`.
    pub(super) async fn settle<T>(
        &self,
        destination: &Destination,
        started: Instant,
        reply: Reply<T>,
    ) -> Result<T, HandlerError> {
        let result = match reply {
            Reply::Ready(result) => result,
            Reply::Later(future) => match self.deadline {
                None => future.await,
                Some(deadline) => {
                    tokio::time::timeout_at(deadline.into(), future).await.unwrap_or_else(|_| {
                        Err(HandlerError::new(format!(
                            "handler `{}` did not answer before the deadline of the call",
                            destination.handler.name()
                        )))
                    })
                }
            },
        };
        destination.counters.record(started.elapsed(), result.is_err());
        result
    }
}
