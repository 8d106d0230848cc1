//! Calls that must wait, within the bounds of a pool.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use crate::grpc::{Code, GrpcError};
use crate::load_shedding::OVERLOADED;
use mixer_base::pool::Pool;

/// The turns of the calls on all workers, whatever service they are for.
#[derive(Clone)]
pub struct Turns {
    pool: Arc<Pool>,
    /// What calls end with that find pool and queue full.
    refusal: Code,
}

impl Turns {
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool, refusal: Code::Unavailable }
    }

    /// The same turns for callers who expect another code when there is none left.
    pub fn refusing_with(&self, refusal: Code) -> Self {
        Self { pool: Arc::clone(&self.pool), refusal }
    }

    /// Carries a call out. One that must wait does so within the bounds of the pool; one that is answered at once never sees it.
    pub async fn take<T, F>(&self, call: F, deadline: Option<Instant>) -> Result<T, GrpcError>
    where
        F: Future<Output = Result<T, GrpcError>>,
    {
        let mut call = std::pin::pin!(call);
        match futures_util::poll!(call.as_mut()) {
            Poll::Ready(answer) => answer,
            Poll::Pending => Box::pin(self.wait(call, deadline)).await,
        }
    }

    /// Goes on with a call when its turn comes, at most until its deadline.
    async fn wait<T, F>(&self, call: Pin<&mut F>, deadline: Option<Instant>) -> Result<T, GrpcError>
    where
        F: Future<Output = Result<T, GrpcError>>,
    {
        let turn = self.pool.enter();
        let turn = match deadline {
            None => turn.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), turn).await {
                Ok(turn) => turn,
                Err(_) => {
                    let text = "the deadline of the call passed while it waited for its turn";
                    return Err(GrpcError::new(Code::DeadlineExceeded, text));
                }
            },
        };
        let _permit = turn.map_err(|_| GrpcError::new(self.refusal, OVERLOADED))?;
        call.await
    }
}
