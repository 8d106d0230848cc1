//! The handle of the producers.

use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mixer_base::budget::Charge;
use parking_lot::Condvar;
use tokio::sync::Notify;

use crate::items::{Addition, Item, Items, List};
use crate::queue::{DeliveryStatus, NotAccepted, Queue, Signal};
use crate::settings::{Holds, Settings};
use crate::shared::{Name, SILENCE, SILENT, Shared, Wake};
use crate::sink::{AsyncSink, BlockingSink};
use crate::spill::{self, Spill, StoredItems};
use crate::task::CourierTask;
use crate::thread::ThreadStarter;

/// The time for writing what is left to the disk, after the deadline.
const SPILL_TIME: Duration = Duration::from_secs(1);

/// A bounded queue of items and the courier that takes them to a sink. Shared by all producers.
///
/// Items that wait when it is dropped are delivered.
pub struct Delivery<B: Items> {
    shared: Arc<Shared<B>>,
    courier: Courier<B>,
    hold: Hold,
}

/// Waiting for room.
struct Hold {
    /// How long items that are handed over wait.
    limit: Option<Duration>,
    /// When nothing waits any more.
    holds: Holds,
}

impl Hold {
    fn of(settings: &Settings) -> Self {
        Self { limit: settings.when_full.hold(), holds: settings.holds.clone() }
    }
}

/// How the courier runs.
enum Courier<B: Items> {
    Thread(ThreadStarter<B>),
    /// Started with the delivery.
    Task(CourierTask<B>),
}

impl<B: Items> std::fmt::Debug for Delivery<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl<B: Items> Delivery<B> {
    /// Delivers on a thread called `thread` (Linux shows 15 bytes), which starts with the first item. `task` and `detail` are its name in
    /// the [supervision](mixer_base::task::Task::of); `task` is also the label of its metrics.
    pub fn on_thread(
        task: &'static str,
        detail: impl Into<String>,
        thread: impl Into<String>,
        settings: Settings,
        sink: impl BlockingSink<B>,
    ) -> Self {
        let (bounds, hold) = (settings.bounds, Hold::of(&settings));
        let name = Name { task, detail: detail.into() };
        let shared = Shared::new(name, bounds, Queue::new(settings, true), Wake::Thread(Condvar::new()));
        Self { shared, courier: Courier::Thread(ThreadStarter::new(thread.into(), sink)), hold }
    }

    /// Delivers in a task on the current runtime. `task` and `detail` as above.
    pub fn in_task(
        task: &'static str,
        detail: impl Into<String>,
        settings: Settings,
        sink: impl AsyncSink<B>,
    ) -> Self {
        let (bounds, hold) = (settings.bounds, Hold::of(&settings));
        let name = Name { task, detail: detail.into() };
        let shared = Shared::new(name, bounds, Queue::new(settings, false), Wake::Task(Notify::new()));
        let courier = Courier::Task(CourierTask::start(&shared, sink));
        Self { shared, courier, hold }
    }

    /// As [`in_task`](Self::in_task); items that have no room in memory, or whose sink fails, are kept on disk, where they survive a
    /// restart. Items that an earlier process left there are delivered first, if the directory is opened within a second. A record of several items that was
    /// being delivered when a process ended is delivered again by the next one.
    ///
    /// The directory is opened on a thread, for which nobody waits. One that a delivery that closes still uses, such as that of a replaced handler, is used
    /// once it is free; until then items are kept in memory only, and so they are while it has items of another owner, and while it cannot be used:
    /// [`disk_failure`](Self::disk_failure) tells why. One that is removed while it is used is made anew; what was there has failed.
    ///
    /// A process that [only tries](Holds::of_rehearsal) a configuration leaves the directory alone: its items are kept in memory.
    ///
    /// Errors: there is no thread.
    pub fn in_task_with_spill(
        task: &'static str,
        detail: impl Into<String>,
        settings: Settings,
        spill: Spill,
        sink: impl AsyncSink<B>,
    ) -> io::Result<Self>
    where
        B: StoredItems,
    {
        if settings.holds.is_rehearsal() {
            return Ok(Self::in_task(task, detail, settings, sink));
        }
        let (bounds, hold) = (settings.bounds, Hold::of(&settings));
        let name = Name { task, detail: detail.into() };
        let queue = Queue::new(settings, false).with_backlog();
        let shared = Shared::new(name, bounds, queue, Wake::Task(Notify::new()));
        spill::start(spill, hold.holds.clone(), &shared)?;
        let courier = Courier::Task(CourierTask::start(&shared, sink));
        Ok(Self { shared, courier, hold })
    }

    /// Starts the thread before the first item. Errors: it cannot be created.
    pub fn start(&self) -> io::Result<()> {
        let signal = self.shared.queue.lock().start();
        self.follow(signal)
    }

    /// Hands over items, all or none. Never waits. Cost: a lock, and a wake-up if the courier sleeps or a batch is complete; with a
    /// [share](Settings::memory), its account is updated.
    ///
    /// Errors: the items are dropped and counted.
    pub fn accept(&self, addition: impl Addition<B>) -> Result<(), NotAccepted> {
        let signal = self.shared.queue.lock().accept(addition)?;
        let _ = self.follow(signal);
        Ok(())
    }

    /// Counts items that the sink would not take, whatever happens, such as one that is too large for its protocol. They are dropped.
    pub fn refuse(&self, items: usize) {
        self.shared.queue.lock().refuse(items);
    }

    /// Errors: the thread cannot be created; what waits was delivered here instead.
    fn follow(&self, signal: Signal) -> io::Result<()> {
        match (signal, &self.courier) {
            (Signal::Start, Courier::Thread(threads)) => {
                self.shared.has_ended.send_replace(false);
                threads.start(&self.shared).inspect_err(|_| threads.deliver_here(&self.shared))
            }
            (signal, _) => {
                self.shared.follow(signal);
                Ok(())
            }
        }
    }

    /// What became of all items.
    pub fn status(&self) -> DeliveryStatus {
        self.shared.queue.lock().status()
    }

    /// Delivers what waits, and ends. Returns whether all was delivered, tried or kept on disk within `deadline`.
    ///
    /// What is on disk stays there for the next process, and so does what waits if the sink fails and the disk takes it; while that takes nothing, it is delivered
    /// until the deadline, as without one. At the deadline a task drops what is left and counts it; with a disk, it is written there, for which there is one
    /// more second. A thread cannot be interrupted: it tries each batch once more, what is left is still waiting, and a second call waits for it again.
    pub async fn close(&self, deadline: Duration) -> bool {
        let before = self.status().closed;
        let mut cut_off = CutOff(Some(self));
        let in_time = self.end(deadline).await;
        if in_time {
            cut_off.0 = None;
        }
        let dropped = self.status().closed.saturating_sub(before);
        if dropped > 0 {
            let (delivery, detail) = (self.shared.name.task, &self.shared.name.detail);
            let holds = &self.hold.holds;
            // What is of no handler ends with the process only, and so does all of a trial.
            let when = match detail.is_empty() || holds.has_ended() || holds.is_rehearsal() {
                true => "at the stop",
                false => "when their handler was replaced or removed",
            };
            let why = self.shared.queue.lock().troubles();
            tracing::warn!(delivery, detail, "{dropped} items were neither delivered nor kept {when}: {why}");
        }
        in_time && dropped == 0
    }

    async fn end(&self, deadline: Duration) -> bool {
        self.begin_close();
        let mut ended = self.shared.has_ended.subscribe();
        let in_time = tokio::time::timeout(deadline, ended.wait_for(|ended| *ended)).await.is_ok();
        match &self.courier {
            _ if in_time => {}
            Courier::Task(task) => {
                task.abandon(&self.shared).await;
                // What is left goes to the disk, if there is one.
                let kept = tokio::time::timeout(SPILL_TIME, ended.wait_for(|ended| *ended)).await.is_ok();
                let status = self.status();
                return self.shared.has_spill() && (kept || status.waiting() == status.on_disk);
            }
            Courier::Thread(_) => {
                let signal = self.shared.queue.lock().deadline_passed();
                let _ = self.follow(signal);
            }
        }
        in_time
    }

    /// Why the last attempt to deliver failed; `None` if it did not.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }

    /// Why what waits would be lost with the process although it is to be kept on disk, for as long as the disk has failed for a while, or has not answered.
    /// Takes no lock as long as there is nothing.
    pub fn disk_failure(&self) -> Option<String> {
        let is_failing = self.shared.is_disk_failing.load(Ordering::Relaxed);
        let why = match self.shared.disk_silence() >= SILENCE {
            true => Some(SILENT.to_owned()),
            false => is_failing.then(|| self.shared.queue.lock().disk_trouble()).flatten(),
        };
        Some(format!("what waits cannot be kept on disk: {}", why?))
    }

    /// For how long its disk has not answered.
    #[cfg(test)]
    pub(crate) fn disk_silence(&self) -> Duration {
        self.shared.disk_silence()
    }

    fn begin_close(&self) {
        let signal = self.shared.queue.lock().close();
        let _ = self.follow(signal);
        self.shared.follow(Signal::WakeKeeper);
    }
}

/// Tells what waits when closing ends before its time.
struct CutOff<'d, B: Items>(Option<&'d Delivery<B>>);

impl<B: Items> CutOff<'_, B> {
    /// Items that are in memory only.
    fn items(&self) -> u64 {
        let status = self.0.map(Delivery::status).unwrap_or_default();
        status.waiting().saturating_sub(status.on_disk)
    }
}

impl<B: Items> Drop for CutOff<'_, B> {
    fn drop(&mut self) {
        if let (Some(delivery), items @ 1..) = (self.0, self.items()) {
            let Name { task, detail } = &delivery.shared.name;
            tracing::warn!(
                delivery = task,
                detail,
                "{items} items still wait, and there is no more time for closing"
            );
        }
    }
}

/// What became of items that were [handed over](Delivery::hand_over).
pub enum HandedOver {
    /// They were accepted, but for so many, which were dropped and counted.
    Now {
        /// Number of items.
        dropped: usize,
    },
    /// Some wait for room. The future gives the items that were dropped in the end. Whoever drops the future has handed over all
    /// items all the same: those that still have no room are dropped and counted.
    Later(Pin<Box<dyn Future<Output = Dropped> + Send>>),
}

/// Items that were dropped after some waited for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Number of items.
    pub items: usize,
    /// Whether some of them waited when the server [stopped](Holds::end).
    pub is_stopping: bool,
}

impl Dropped {
    fn count(&mut self, items: usize, accepted: Result<(), NotAccepted>) {
        self.items += if accepted.is_ok() { 0 } else { items };
        self.is_stopping |= accepted == Err(NotAccepted::Stopping);
    }
}

impl<B: Items> Delivery<B> {
    /// Hands over items, all or none; without room, as [`Settings::when_full`] says. Only items that wait for room are kept, as what `owned`
    /// makes of them.
    pub fn hand_over_all<A, O>(self: &Arc<Self>, addition: A, owned: impl FnOnce(A) -> O) -> HandedOver
    where
        A: Addition<B>,
        O: Addition<B> + Send + 'static,
    {
        let items = addition.items();
        let now = |accepted: Result<(), NotAccepted>| HandedOver::Now {
            dropped: if accepted.is_ok() { 0 } else { items },
        };
        let Some(limit) = self.hold.limit else { return now(self.accept(addition)) };
        let accepted = self.shared.queue.lock().accept_if_room(addition);
        let addition = match accepted {
            Ok(Ok(signal)) => {
                let _ = self.follow(signal);
                return now(Ok(()));
            }
            Ok(Err(why)) => return now(Err(why)),
            Err(addition) => addition,
        };
        match Held::new(Arc::clone(self), owned(addition)) {
            Err(accepted) => now(accepted),
            Ok(held) => HandedOver::Later(Box::pin(async move {
                let mut dropped = Dropped::default();
                dropped.count(items, held.wait(limit).await);
                dropped
            })),
        }
    }

    /// As [`accept`](Self::accept), but waits for room, at most for `limit`, and until the server [stops](Holds::end); what waits counts in the [share](Settings::memory), too, and
    /// without memory for it nothing waits. A caller that leaves meanwhile has handed the items over all the same: they are accepted if
    /// there is room by then, or dropped and counted.
    pub async fn accept_when_room(
        &self,
        addition: impl Addition<B>,
        limit: Duration,
    ) -> Result<(), NotAccepted> {
        match Held::new(self, addition) {
            Ok(held) => held.wait(limit).await,
            Err(accepted) => accepted,
        }
    }
}

impl<T: Item> Delivery<List<T>> {
    /// Hands over items one by one, with one lock: those that do not fit are dropped and counted. Returns how many.
    pub fn accept_each(&self, items: impl IntoIterator<Item = T>) -> usize {
        let mut queue = self.shared.queue.lock();
        // At most one for the courier, who is busy then, and one for the keeper of the disk.
        let (mut of_courier, mut of_keeper) = (Signal::None, Signal::None);
        let mut dropped = 0;
        for item in items {
            match queue.accept(item) {
                Ok(Signal::None) => {}
                Err(_) => dropped += 1,
                Ok(Signal::WakeKeeper) => of_keeper = Signal::WakeKeeper,
                Ok(other) => of_courier = other,
            }
        }
        drop(queue);
        let _ = self.follow(of_courier);
        let _ = self.follow(of_keeper);
        dropped
    }

    /// Hands over items one by one; without room, as [`Settings::when_full`] says.
    pub fn hand_over(self: &Arc<Self>, items: Vec<T>) -> HandedOver {
        let Some(limit) = self.hold.limit else {
            return HandedOver::Now { dropped: self.accept_each(items) };
        };
        let count = items.len();
        let (rest, accepted) = Rest::new(self, items);
        if rest.items.is_empty() {
            return HandedOver::Now { dropped: count - accepted };
        }
        let at_once = count - accepted - rest.items.len();
        HandedOver::Later(Box::pin(async move {
            let dropped = rest.wait(limit).await;
            Dropped { items: at_once + dropped.items, ..dropped }
        }))
    }

    /// Hands over items one by one, each as [`accept_when_room`](Self::accept_when_room), all within `limit`. A caller that leaves meanwhile,
    /// or never waits for the future, has handed all of them over. Returns how many were accepted.
    pub fn accept_each_when_room(
        self: &Arc<Self>,
        items: Vec<T>,
        limit: Duration,
    ) -> impl Future<Output = usize> + Send + use<T> {
        let (rest, accepted) = Rest::new(self, items);
        async move { accepted + rest.items.len() - rest.wait(limit).await.items }
    }
}

/// Items of a caller that waits for room, with their memory.
struct Rest<T: Item> {
    delivery: Arc<Delivery<List<T>>>,
    items: VecDeque<(T, Option<Charge>)>,
}

impl<T: Item> Rest<T> {
    /// Hands over items until one has no room, and keeps it and those after it. Returns how many were accepted.
    fn new(delivery: &Arc<Delivery<List<T>>>, items: Vec<T>) -> (Self, usize) {
        let mut rest = Self { delivery: Arc::clone(delivery), items: VecDeque::new() };
        let mut accepted = 0;
        for item in items {
            accepted += usize::from(rest.take(item));
        }
        (rest, accepted)
    }

    /// Hands over an item, or lets it wait behind the others. Returns whether it was accepted.
    fn take(&mut self, item: T) -> bool {
        if !self.items.is_empty() {
            let memory = self.delivery.shared.queue.lock().hold(item.size());
            match memory {
                Ok(memory) => self.items.push_back((item, memory)),
                Err(_) => return self.delivery.accept(item).is_ok(),
            }
            return false;
        }
        match Held::new(&*self.delivery, item) {
            Ok(mut held) => {
                self.items.extend(held.item.take().map(|item| (item, held.memory.take())));
                false
            }
            Err(accepted) => accepted.is_ok(),
        }
    }

    /// Waits for room for all of them, at most for `limit`. Returns those that were not accepted.
    async fn wait(mut self, limit: Duration) -> Dropped {
        let delivery = Arc::clone(&self.delivery);
        let deadline = tokio::time::Instant::now() + limit;
        let mut dropped = Dropped::default();
        while let Some((item, memory)) = self.items.pop_front() {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let held = Held { delivery: &*delivery, item: Some(item), memory };
            dropped.count(1, held.wait(left).await);
        }
        dropped
    }
}

impl<T: Item> Drop for Rest<T> {
    fn drop(&mut self) {
        let items = self.items.drain(..).map(|(item, memory)| {
            drop(memory);
            item
        });
        self.delivery.accept_each(items);
    }
}

/// What a caller adds that waits for room.
struct Held<D: Deref<Target = Delivery<B>>, B: Items, A: Addition<B>> {
    delivery: D,
    item: Option<A>,
    /// Of the item, if the delivery has a share.
    memory: Option<Charge>,
}

impl<D: Deref<Target = Delivery<B>>, B: Items, A: Addition<B>> Held<D, B, A> {
    /// Hands over an item. Errors: it need not wait, and was accepted, or dropped and counted.
    fn new(delivery: D, item: A) -> Result<Self, Result<(), NotAccepted>> {
        let bytes = item.bytes();
        let mut held = Self { delivery, item: Some(item), memory: None };
        if let Some(accepted) = held.accept_if_room() {
            return Err(accepted);
        }
        let memory = held.delivery.shared.queue.lock().hold(bytes);
        match memory {
            Ok(memory) => held.memory = memory,
            Err(_) => return Err(held.accept()),
        }
        Ok(held)
    }

    /// Waits for room, at most for `limit`, and until the server stops.
    async fn wait(mut self, limit: Duration) -> Result<(), NotAccepted> {
        let (shared, holds) = (Arc::clone(&self.delivery.shared), self.delivery.hold.holds.clone());
        let accepted = async {
            loop {
                let mut room = std::pin::pin!(shared.room.notified());
                // What leaves the queue from here on is noticed.
                room.as_mut().enable();
                if let Some(accepted) = self.accept_if_room() {
                    return accepted;
                }
                room.await;
            }
        };
        let until_stop = async {
            tokio::select! {
                biased;
                accepted = accepted => Some(accepted),
                () = holds.ended() => None,
            }
        };
        match tokio::time::timeout(limit, until_stop).await {
            Ok(Some(accepted)) => accepted,
            Ok(None) => self.stop_waiting(),
            Err(_) => self.accept(),
        }
    }

    /// The item is dropped and counted.
    fn stop_waiting(&mut self) -> Result<(), NotAccepted> {
        self.memory = None;
        let Some(item) = self.item.take() else { return Ok(()) };
        Err(self.delivery.shared.queue.lock().stop_waiting(item.items()))
    }

    /// `None`: there is no room, and the item stays.
    fn accept_if_room(&mut self) -> Option<Result<(), NotAccepted>> {
        let item = self.item.take()?;
        let accepted = {
            let mut queue = self.delivery.shared.queue.lock();
            // The queue acquires it.
            let was_held = self.memory.take().is_some();
            let accepted = queue.accept_if_room(item);
            if let (Err(item), true) = (&accepted, was_held) {
                self.memory = queue.hold_again(item.bytes());
            }
            accepted
        };
        match accepted {
            Ok(Ok(signal)) => {
                let _ = self.delivery.follow(signal);
                Some(Ok(()))
            }
            Ok(Err(why)) => Some(Err(why)),
            Err(item) => {
                self.item = Some(item);
                None
            }
        }
    }

    /// Without room, the item is dropped and counted.
    fn accept(&mut self) -> Result<(), NotAccepted> {
        self.memory = None;
        self.item.take().map_or(Ok(()), |item| self.delivery.accept(item))
    }
}

impl<D: Deref<Target = Delivery<B>>, B: Items, A: Addition<B>> Drop for Held<D, B, A> {
    fn drop(&mut self) {
        let _ = self.accept();
    }
}

impl<B: Items> Drop for Delivery<B> {
    fn drop(&mut self) {
        self.begin_close();
    }
}

#[cfg(test)]
mod tests;
