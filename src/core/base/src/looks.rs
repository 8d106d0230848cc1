//! Looks at files on threads, one at a time: nothing ends a read of a file system that hangs, and each would hold a thread for good.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;

/// The looks at some files.
#[derive(Debug)]
pub struct Looks {
    is_looking: Arc<Mutex<bool>>,
    /// Has the threads; each look has a thread of its own without one.
    runtime: Option<Handle>,
}

/// A look that goes on.
struct Look(Arc<Mutex<bool>>);

impl Drop for Look {
    fn drop(&mut self) {
        *self.0.lock() = false;
    }
}

impl Default for Looks {
    /// With the threads of the current runtime, if there is one.
    fn default() -> Self {
        Self { is_looking: Arc::default(), runtime: Handle::try_current().ok() }
    }
}

impl Looks {
    /// With the threads of this runtime.
    pub fn on(runtime: &Handle) -> Self {
        Self { is_looking: Arc::default(), runtime: Some(runtime.clone()) }
    }

    /// With a thread of its own for each look: for what ends, perhaps after its runtime.
    pub fn on_threads() -> Self {
        Self { is_looking: Arc::default(), runtime: None }
    }

    /// Begins a look on a thread, and calls `ended` after it; if it panics, `ended` is dropped. False while an earlier one goes on.
    pub fn begin(&self, look: impl FnOnce() + Send + 'static, ended: impl FnOnce() + Send + 'static) -> bool {
        if std::mem::replace(&mut *self.is_looking.lock(), true) {
            return false;
        }
        let going_on = Look(Arc::clone(&self.is_looking));
        let run = move || {
            let going_on = going_on;
            look();
            drop(going_on);
            ended();
        };
        match &self.runtime {
            Some(runtime) => drop(runtime.spawn_blocking(run)),
            None => drop(std::thread::Builder::new().name("files".to_owned()).spawn(run)),
        }
        true
    }

    /// Looks, and waits at most `limit` for the end. Nobody waits for a look that goes on already. False if this one takes longer.
    pub async fn within(&self, limit: Duration, look: impl FnOnce() + Send + 'static) -> bool {
        let (ended, end) = tokio::sync::oneshot::channel();
        let is_begun = self.begin(look, move || _ = ended.send(()));
        // A sender that is dropped ends it as well.
        !is_begun || tokio::time::timeout(limit, end).await.is_ok()
    }

    /// As [`within`](Self::within), for threads that may wait.
    pub fn wait(&self, limit: Duration, look: impl FnOnce() + Send + 'static) -> bool {
        let (ended, end) = std::sync::mpsc::sync_channel(1);
        let is_begun = self.begin(look, move || _ = ended.try_send(()));
        !is_begun || end.recv_timeout(limit) != Err(std::sync::mpsc::RecvTimeoutError::Timeout)
    }

    /// Calls it if a look goes on, which does not end meanwhile.
    pub fn if_looking(&self, call: impl FnOnce()) {
        let is_looking = self.is_looking.lock();
        if *is_looking {
            call();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Longer than anything that is waited for takes on a busy machine.
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_thread_waits_for_a_look_as_long_as_it_says() {
        let looks = Looks::on_threads();
        let (done, hangs) = std::sync::mpsc::channel::<()>();
        assert!(looks.wait(MINUTE, || {}));
        assert!(!looks.wait(Duration::from_millis(10), move || _ = hangs.recv()));
        let looked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looked);
        assert!(looks.wait(MINUTE, move || _ = counted.fetch_add(1, Ordering::Relaxed)));
        assert_eq!(looked.load(Ordering::Relaxed), 0, "one goes on already");
        drop(done);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_look_that_hangs() {
        let (looks, looked) = (Looks::default(), Arc::new(AtomicUsize::new(0)));
        let (wake, asleep) = std::sync::mpsc::channel::<()>();
        let count = |looked: &Arc<AtomicUsize>| {
            let looked = Arc::clone(looked);
            move || _ = looked.fetch_add(1, Ordering::Relaxed)
        };
        let counted = count(&looked);
        let hangs = move || {
            counted();
            let _ = asleep.recv();
        };
        assert!(!looks.within(Duration::from_millis(20), hangs).await);
        for _ in 0..100 {
            assert!(looks.within(MINUTE, count(&looked)).await, "it is not waited for");
        }
        assert_eq!(looked.load(Ordering::Relaxed), 1, "one look at a time");
        let mut is_told = false;
        looks.if_looking(|| is_told = true);
        assert!(is_told);
        wake.send(()).unwrap();
        while looked.load(Ordering::Relaxed) == 1 {
            assert!(looks.within(MINUTE, count(&looked)).await);
            tokio::task::yield_now().await;
        }
    }
}
