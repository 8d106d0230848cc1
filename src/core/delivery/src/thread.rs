//! The courier of a sink that blocks: a thread.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use mixer_base::task::{FaultPoint, is_injection_enabled};

use crate::items::Items;
use crate::queue::Step;
use crate::shared::{Shared, Wake};
use crate::sink::{BlockingSink, Tally};

/// How often a courier that sleeps looks for an injected fault, where there are any.
const FAULT_INTERVAL: Duration = Duration::from_millis(100);

/// Starts threads: one with the first items, and one more for items that arrive after it has ended.
pub(crate) struct ThreadStarter<B: Items> {
    thread: String,
    courier: Arc<Mutex<dyn Courier<B>>>,
    /// Whether no thread can be created.
    #[cfg(test)]
    pub(crate) has_no_threads: AtomicBool,
}

impl<B: Items> ThreadStarter<B> {
    pub(crate) fn new(thread: String, sink: impl BlockingSink<B>) -> Self {
        let courier = ThreadCourier { sink, batch: B::default(), tally: Tally::default() };
        Self {
            thread,
            courier: Arc::new(Mutex::new(courier)),
            #[cfg(test)]
            has_no_threads: AtomicBool::new(false),
        }
    }

    /// Starts a thread. Errors: it cannot be created.
    pub(crate) fn start(&self, shared: &Arc<Shared<B>>) -> io::Result<()> {
        #[cfg(test)]
        if self.has_no_threads.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (shared, courier) = (Arc::clone(shared), Arc::clone(&self.courier));
        let has_ended = Arc::new(AtomicBool::new(false));
        let is_expected = Arc::clone(&has_ended);
        let task = shared.name.to_task();
        let body = move |fault: &FaultPoint<'_>| {
            courier.lock().run(&shared, fault);
            has_ended.store(true, Ordering::Relaxed);
        };
        task.spawn_thread(self.thread.clone(), move || is_expected.load(Ordering::Relaxed), body).map(drop)
    }

    /// Delivers what waits on the current thread, in place of one that cannot be created.
    pub(crate) fn deliver_here(&self, shared: &Shared<B>) {
        let drained = catch_unwind(AssertUnwindSafe(|| self.courier.lock().drain(shared)));
        if drained.is_err() {
            // The panic is logged, and the next courier settles its batch. It is no business of the producer.
            shared.queue.lock().courier_failed();
        }
    }
}

/// A courier of any sink.
trait Courier<B: Items>: Send {
    /// Delivers until the queue is closed and empty.
    fn run(&mut self, shared: &Shared<B>, fault: &FaultPoint<'_>);

    /// Delivers until nothing waits.
    fn drain(&mut self, shared: &Shared<B>);
}

struct ThreadCourier<B, S> {
    sink: S,
    /// The batch in flight; it survives a panic of the sink, as does the tally.
    batch: B,
    tally: Tally,
}

impl<B: Items, S: BlockingSink<B>> Courier<B> for ThreadCourier<B, S> {
    fn run(&mut self, shared: &Shared<B>, fault: &FaultPoint<'_>) {
        let mut is_loaded = shared.queue.lock().started(&mut self.batch, &mut self.tally);
        while is_loaded || self.load(shared, fault) {
            is_loaded = false;
            self.sink.deliver(&mut self.batch, &mut self.tally);
            shared.completed(Instant::now(), &mut self.batch, &mut self.tally);
        }
    }

    fn drain(&mut self, shared: &Shared<B>) {
        let mut is_loaded = shared.queue.lock().started(&mut self.batch, &mut self.tally);
        loop {
            let mut queue = shared.queue.lock();
            if !is_loaded && !queue.next_at_once(Instant::now(), &mut self.batch) {
                shared.has_ended.send_replace(queue.is_ended());
                return;
            }
            drop(queue);
            is_loaded = false;
            self.sink.deliver(&mut self.batch, &mut self.tally);
            shared.completed(Instant::now(), &mut self.batch, &mut self.tally);
        }
    }
}

impl<B: Items, S> ThreadCourier<B, S> {
    /// Waits for a batch. Returns whether there is one; there is none at the end.
    fn load(&mut self, shared: &Shared<B>, fault: &FaultPoint<'_>) -> bool {
        let Wake::Thread(work) = &shared.wake else { return false };
        fault.check();
        let mut queue = shared.queue.lock();
        loop {
            match queue.next(Instant::now(), &mut self.batch) {
                Step::Deliver => {
                    drop(queue);
                    shared.left();
                    return true;
                }
                Step::WaitUntil(until) | Step::LeaveUntil(until) => {
                    work.wait_until(&mut queue, until);
                }
                Step::Sleep if is_injection_enabled() => {
                    work.wait_for(&mut queue, FAULT_INTERVAL);
                    fault.check();
                }
                Step::Sleep => work.wait(&mut queue),
                Step::End => {
                    shared.has_ended.send_replace(true);
                    return false;
                }
            }
        }
    }
}
