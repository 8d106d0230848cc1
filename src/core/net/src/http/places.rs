//! Work for requests on other threads, a little at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// The places of work that would hold up the thread which serves an endpoint. A clone has the same places.
#[derive(Debug, Clone)]
pub struct Places(Arc<Semaphore>);

impl Places {
    /// Places for so much work at a time.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Runs `work` on another thread once there is a place for it. It keeps the place until it ends, also when nobody waits for it any more:
    /// a client that leaves ends no thread.
    ///
    /// Errors: it panicked, or the process ends.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // The semaphore is never closed.
        let place = Arc::clone(&self.0).acquire_owned().await;
        let work = move || {
            let _place = place;
            work()
        };
        tokio::task::spawn_blocking(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn work_keeps_its_place_after_its_client_has_left() {
        let places = Places::new(1);
        let (end, ended) = mpsc::channel::<()>();
        {
            let mut left = pin!(places.run(move || ended.recv()));
            assert!(poll!(left.as_mut()).is_pending());
        }
        assert_eq!(places.0.available_permits(), 0, "it goes on");
        let mut next = pin!(places.run(|| 7));
        assert!(poll!(next.as_mut()).is_pending());
        end.send(()).unwrap();
        assert_eq!(next.await.unwrap(), 7);
    }
}
