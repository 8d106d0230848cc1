//! Bounds the calls that wait for handlers.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::grpc::{Code, GrpcError};
use crate::load_shedding::OVERLOADED;
use mixer_base::pool::Pool;
use mixer_base::task;

thread_local! {
    /// Why the pool refused the call that this thread drops.
    static REFUSAL: RefCell<Option<GrpcError>> = const { RefCell::new(None) };
}

/// What the caller of a call is told that its pool refused, and that this thread drops. In a `Drop`; otherwise `None`.
pub(crate) fn refusal() -> Option<GrpcError> {
    REFUSAL.with_borrow(Clone::clone)
}

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

    /// Runs a call, which stays where it is: its future is large. One that is not ready when it is first polled continues with a permit of the pool.
    ///
    /// INVARIANT: the first poll of a call acquires nothing that another call waits for. The call is not polled while it waits for its
    /// permit, so that others with permits could wait for it forever.
    ///
    /// Errors: those of the call; INTERNAL if it panics; DEADLINE_EXCEEDED if the deadline passes in the queue; the status of the service if pool and queue
    /// are full. A call that is refused is dropped.
    pub async fn run<T, F>(
        &self,
        mut call: Pin<&mut Option<F>>,
        deadline: Option<Instant>,
    ) -> Result<T, GrpcError>
    where
        F: Future<Output = Result<T, GrpcError>>,
    {
        let first = std::future::poll_fn(|cx| Poll::Ready(poll_call(call.as_mut(), cx))).await;
        match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => Box::pin(self.run_with_permit(call, deadline)).await,
        }
    }

    /// Ready when it is polled again. A call that takes long awaits this first, so that [`run`](Self::run) takes a permit, or refuses
    /// the call, before anything is acquired or delivered.
    pub async fn before_long_work() {
        tokio::task::yield_now().await;
    }

    async fn run_with_permit<T, F>(
        &self,
        mut call: Pin<&mut Option<F>>,
        deadline: Option<Instant>,
    ) -> Result<T, GrpcError>
    where
        F: Future<Output = Result<T, GrpcError>>,
    {
        let Some(pool) = &self.pool else {
            return std::future::poll_fn(|cx| poll_call(call.as_mut(), cx)).await;
        };
        let permit = pool.enter();
        let permit = match deadline {
            None => permit.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), permit).await {
                Ok(permit) => permit,
                Err(_) => {
                    let text = "the deadline of the call passed while it waited in the queue";
                    return Err(refuse(call, GrpcError::new(Code::DeadlineExceeded, text)));
                }
            },
        };
        let Ok(_permit) = permit else {
            return Err(refuse(call, GrpcError::refused(self.rejection, OVERLOADED)));
        };
        std::future::poll_fn(|cx| poll_call(call.as_mut(), cx)).await
    }
}

/// Drops a call that is refused. Returns what its caller is told.
fn refuse<F>(mut call: Pin<&mut Option<F>>, error: GrpcError) -> GrpcError {
    REFUSAL.set(Some(error.clone()));
    call.set(None);
    REFUSAL.set(None);
    error
}

/// Polls a call. A panic (while the message is decoded, in an adapter, while the answer is encoded) becomes its status.
fn poll_call<T, F>(call: Pin<&mut Option<F>>, cx: &mut Context<'_>) -> Poll<Result<T, GrpcError>>
where
    F: Future<Output = Result<T, GrpcError>>,
{
    // It is there until it is answered or refused.
    let Some(call) = call.as_pin_mut() else { return Poll::Ready(Err(GrpcError::panicked())) };
    task::poll_contained(call, cx).map(|answered| {
        answered.unwrap_or_else(|panic| {
            task::calls().count_panic(&panic);
            Err(GrpcError::panicked())
        })
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use mixer_base::pool::PoolOptions;

    #[tokio::test]
    async fn a_call_that_panics_is_answered_with_internal_and_leaves_the_pool() {
        let pool = Pool::new(PoolOptions::default());
        let calls = CallPool::new(Arc::clone(&pool));
        let at_once = async { panic!("while decoding") };
        let later = async {
            tokio::task::yield_now().await;
            panic!("while encoding")
        };
        let answers: [Result<(), GrpcError>; 2] =
            [calls.run(pin!(Some(at_once)), None).await, calls.run(pin!(Some(later)), None).await];
        for answer in answers {
            let error = answer.unwrap_err();
            assert_eq!(error, GrpcError::panicked());
            assert!(!error.message.contains("coding"), "the cause is for the log");
        }
        assert_eq!(pool.status().in_flight, 0);
        let calls = task::roles().into_iter().find(|role| role.name == "call").unwrap();
        assert!(calls.panics >= 2);
    }
}
