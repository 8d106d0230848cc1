//! Whether a backend answers the calls that wait for it, for operators.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// Whether the last call failed.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Number of calls that were answered.
    answered: AtomicU64,
    is_failing: AtomicBool,
    trouble: Mutex<Option<String>>,
}

/// A call that waits for its answer. If it is dropped, its caller has left.
struct Waiting<'h> {
    health: &'h Health,
    since: Instant,
    /// What had been answered when it began.
    answered: u64,
}

impl Health {
    /// Why the last call failed.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Makes a call, and remembers whether it failed. `why` holds no credentials.
    pub(crate) async fn watch<T, E>(
        &self,
        call: impl Future<Output = Result<T, E>>,
        why: impl FnOnce(&E) -> &str,
    ) -> Result<T, E> {
        let waiting = Waiting::begin(self);
        let result = call.await;
        waiting.end();
        match &result {
            Ok(_) => self.succeeded(),
            Err(error) => self.failed(why(error)),
        }
        result
    }

    fn succeeded(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        if self.is_failing.load(Ordering::Relaxed) {
            self.is_failing.store(false, Ordering::Relaxed);
            *self.trouble.lock() = None;
        }
    }

    fn failed(&self, text: &str) {
        *self.trouble.lock() = Some(text.to_owned());
        self.is_failing.store(true, Ordering::Relaxed);
    }
}

impl<'h> Waiting<'h> {
    fn begin(health: &'h Health) -> Self {
        Self { health, since: Instant::now(), answered: health.answered.load(Ordering::Relaxed) }
    }

    /// Whatever the answer, there is one.
    fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A caller who leaves while others are answered says nothing about the backend.
        if self.health.answered.load(Ordering::Relaxed) == self.answered {
            self.health
                .failed(&format!("no answer within {:?}, after which the caller left", self.since.elapsed()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;

    async fn call(health: &Health, result: Result<(), String>) {
        let _ = health.watch(ready(result), |why| why).await;
    }

    #[tokio::test]
    async fn the_last_call_counts() {
        let health = Health::default();
        assert_eq!(health.trouble(), None);
        call(&health, Err("refused".to_owned())).await;
        assert_eq!(health.trouble().as_deref(), Some("refused"));
        call(&health, Ok(())).await;
        assert_eq!(health.trouble(), None);
    }

    #[tokio::test]
    async fn a_caller_who_leaves_tells_that_there_is_no_answer_unless_others_are_answered() {
        let health = Health::default();
        let leaves = || async {
            let call = health.watch(pending::<Result<(), String>>(), |why| why);
            tokio::time::timeout(Duration::from_millis(20), call).await.unwrap_err();
        };
        let ((), ()) = tokio::join!(leaves(), call(&health, Ok(())));
        assert_eq!(health.trouble(), None);
        leaves().await;
        assert!(health.trouble().is_some_and(|why| why.contains("the caller left")));
    }
}
