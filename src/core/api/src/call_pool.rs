//! Bounds the calls that wait for handlers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use crate::grpc::{Code, GrpcError};
use crate::load_shedding::OVERLOADED;
use mixer_base::pool::Pool;

/// The pool of the calls on all workers, for every service. Synchronous calls bypass it.
#[derive(Clone)]
pub struct CallPool {
    /// `None` if calls are not bounded.
    pool: Option<Arc<Pool>>,
    /// The status of calls that find pool and queue full.
    rejection: Code,
}

impl CallPool {
    /// Bounds calls by `pool`; rejects with UNAVAILABLE.
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool: Some(pool), rejection: Code::Unavailable }
    }

    /// Runs every call at once.
    pub fn unbounded() -> Self {
        Self { pool: None, rejection: Code::Unavailable }
    }

    /// The same pool for a service that rejects with another status.
    pub fn rejecting_with(&self, rejection: Code) -> Self {
        Self { pool: self.pool.clone(), rejection }
    }

    /// Runs a call. One that is not ready when it is first polled continues with a permit of the pool.
    ///
    /// Errors: those of the call; DEADLINE_EXCEEDED if the deadline passes in the queue; the status of the service if pool and queue
    /// are full.
    pub async fn run<T, F>(&self, call: F, deadline: Option<Instant>) -> Result<T, GrpcError>
    where
        F: Future<Output = Result<T, GrpcError>>,
    {
        let mut call = std::pin::pin!(call);
        match futures_util::poll!(call.as_mut()) {
            Poll::Ready(answer) => answer,
            Poll::Pending => Box::pin(self.run_with_permit(call, deadline)).await,
        }
    }

    async fn run_with_permit<T, F>(
        &self,
        call: Pin<&mut F>,
        deadline: Option<Instant>,
    ) -> Result<T, GrpcError>
    where
        F: Future<Output = Result<T, GrpcError>>,
    {
        let Some(pool) = &self.pool else { return call.await };
        let permit = pool.enter();
        let permit = match deadline {
            None => permit.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), permit).await {
                Ok(permit) => permit,
                Err(_) => {
                    let text = "the deadline of the call passed while it waited in the queue";
                    return Err(GrpcError::new(Code::DeadlineExceeded, text));
                }
            },
        };
        let _permit = permit.map_err(|_| GrpcError::new(self.rejection, OVERLOADED))?;
        call.await
    }
}
