//! The courier of a sink that waits for the network: a task.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::items::Items;
use crate::queue::Step;
use crate::shared::{Shared, Wake};
use crate::sink::{AsyncSink, Tally};

/// The courier of a delivery, seen by the delivery.
pub(crate) struct CourierTask<B: Items> {
    handle: Mutex<Option<JoinHandle<()>>>,
    courier: Arc<dyn Abandon<B>>,
}

impl<B: Items> CourierTask<B> {
    /// Starts the courier on the current runtime.
    pub(crate) fn start(shared: &Arc<Shared<B>>, sink: impl AsyncSink<B>) -> Self {
        let courier = TaskCourier { sink, batch: B::default(), tally: Tally::default() };
        let courier = Arc::new(tokio::sync::Mutex::new(courier));
        let (running, of_task) = (Arc::clone(&courier), Arc::clone(shared));
        let handle = shared.name.to_task().spawn(shared.stop.clone(), move || {
            let (shared, courier) = (Arc::clone(&of_task), Arc::clone(&running));
            async move { courier.lock().await.run(&shared).await }
        });
        Self { handle: Mutex::new(Some(handle)), courier }
    }

    /// Ends the courier at once; what is left is dropped and counted.
    pub(crate) async fn abandon(&self, shared: &Shared<B>) {
        shared.stop.cancel();
        let handle = self.handle.lock().take();
        if let Some(handle) = handle {
            // It fails only with its runtime.
            let _ = handle.await;
        }
        // It was not running if it had to be restarted after a panic.
        self.courier.abandon(shared);
    }
}

trait Abandon<B: Items>: Send + Sync {
    /// Drops and counts what is left, unless the courier is running.
    fn abandon(&self, shared: &Shared<B>);
}

struct TaskCourier<B, S> {
    sink: S,
    /// The batch in flight; it survives a panic of the sink, as does the tally.
    batch: B,
    tally: Tally,
}

impl<B: Items, S: AsyncSink<B>> Abandon<B> for tokio::sync::Mutex<TaskCourier<B, S>> {
    fn abandon(&self, shared: &Shared<B>) {
        if let Ok(mut courier) = self.try_lock() {
            courier.end(shared);
        }
    }
}

impl<B: Items, S: AsyncSink<B>> TaskCourier<B, S> {
    /// Delivers until the queue is closed and empty, or its deadline has passed.
    async fn run(&mut self, shared: &Shared<B>) {
        let mut is_loaded = shared.queue.lock().started(&mut self.batch, &mut self.tally);
        loop {
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => break,
                goes_on = self.deliver(shared, is_loaded) => if !goes_on { break },
            }
            is_loaded = false;
        }
        self.end(shared);
    }

    /// Delivers the next batch. Returns false if there is none: the delivery ends.
    async fn deliver(&mut self, shared: &Shared<B>, is_loaded: bool) -> bool {
        if !is_loaded && !self.load(shared).await {
            return false;
        }
        self.sink.deliver(&mut self.batch, &mut self.tally).await;
        shared.completed(Instant::now().into_std(), &mut self.batch, &mut self.tally);
        true
    }

    /// Waits for a batch. Returns whether there is one; there is none at the end.
    async fn load(&mut self, shared: &Shared<B>) -> bool {
        let Wake::Task(work) = &shared.wake else { return false };
        loop {
            let step = shared.queue.lock().next(Instant::now().into_std(), &mut self.batch);
            if matches!(step, Step::Deliver | Step::LeaveUntil(_)) {
                shared.left();
            }
            match step {
                Step::Deliver => return true,
                Step::WaitUntil(until) | Step::LeaveUntil(until) => tokio::select! {
                    () = work.notified() => {}
                    () = tokio::time::sleep_until(until.into()) => {}
                },
                Step::Sleep => work.notified().await,
                Step::End => return false,
            }
        }
    }

    /// Drops and counts what is left: nothing, unless the deadline has passed.
    fn end(&mut self, shared: &Shared<B>) {
        let mut queue = shared.queue.lock();
        queue.abandon(&mut self.batch, &mut self.tally);
        shared.has_ended.send_replace(queue.is_ended());
        drop(queue);
        shared.left();
        // Expected to end, so that it is not restarted.
        shared.stop.cancel();
    }
}
