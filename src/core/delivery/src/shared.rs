//! What producers and courier share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use mixer_base::task::Task;

use crate::items::Items;
use crate::queue::{Queue, Signal};
use crate::registry::{self, DeliveryReport, Reported};
use crate::settings::Bounds;
use crate::sink::Tally;

/// For how long a disk does not answer until that is told.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// What is told then.
pub(crate) const SILENT: &str = "its file system has taken 30 s or longer for one step";

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds since [`START`].
fn now() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The keeper waits for the disk.
pub(crate) struct DiskAsked<'s>(&'s AtomicU64);

impl Drop for DiskAsked<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The queue, and how the courier is woken.
pub(crate) struct Shared<B: Items> {
    pub(crate) queue: Mutex<Queue<B>>,
    pub(crate) wake: Wake,
    /// Whether nothing waits and the courier does not run.
    pub(crate) has_ended: watch::Sender<bool>,
    /// Wakes the keeper of the disk.
    pub(crate) disk: Condvar,
    /// Whether the disk has failed for a while.
    pub(crate) is_disk_failing: AtomicBool,
    /// Since when the disk has not answered, in milliseconds of [`START`]; 0: nobody waits for it.
    disk_asked: AtomicU64,
    /// Notified when items have left the queue.
    pub(crate) room: Notify,
    /// Cancelled at the deadline, at which a task ends at once, and when it has ended.
    pub(crate) stop: CancellationToken,
    pub(crate) name: Name,
    bounds: Bounds,
    registered: u64,
}

/// What a delivery is called.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    /// The name of its task, and the label of its metrics.
    pub(crate) task: &'static str,
    /// Which of several with this name.
    pub(crate) detail: String,
}

impl Name {
    pub(crate) fn to_task(&self) -> Task {
        Task::restarted(self.task).of(self.detail.clone())
    }
}

/// What a courier waits for.
pub(crate) enum Wake {
    Thread(Condvar),
    Task(Notify),
}

impl<B: Items> Shared<B> {
    pub(crate) fn new(name: Name, bounds: Bounds, queue: Queue<B>, wake: Wake) -> Arc<Self> {
        let shared = Arc::new(Self {
            has_ended: watch::Sender::new(queue.is_ended()),
            queue: Mutex::new(queue),
            wake,
            disk: Condvar::new(),
            is_disk_failing: AtomicBool::new(false),
            disk_asked: AtomicU64::new(0),
            room: Notify::new(),
            stop: CancellationToken::new(),
            name,
            bounds,
            registered: registry::number(),
        });
        let weak: Weak<Self> = Arc::downgrade(&shared);
        registry::add(shared.registered, weak);
        shared
    }

    /// The sink returned.
    pub(crate) fn completed(&self, now: Instant, batch: &mut B, tally: &mut Tally) {
        self.queue.lock().completed(now, batch, tally);
        self.left();
    }

    /// Whether items are kept on disk.
    pub(crate) fn has_spill(&self) -> bool {
        self.queue.lock().has_backlog()
    }

    /// The keeper waits for the disk, until the result is dropped.
    pub(crate) fn ask_disk(&self) -> DiskAsked<'_> {
        self.disk_asked.store(now().max(1), Ordering::Relaxed);
        DiskAsked(&self.disk_asked)
    }

    /// For how long the disk has not answered. Takes no lock.
    pub(crate) fn disk_silence(&self) -> Duration {
        match self.disk_asked.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            asked => Duration::from_millis(now().saturating_sub(asked)),
        }
    }

    /// Why the last attempt to deliver failed, or what is wrong with the disk; `None` if nothing is.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble_of(&self.queue.lock())
    }

    fn trouble_of(&self, queue: &Queue<B>) -> Option<String> {
        let silent = || (self.disk_silence() >= SILENCE).then(|| format!("its disk: {SILENT}"));
        queue.trouble().or_else(silent)
    }

    /// Items have left the queue, or the courier.
    pub(crate) fn left(&self) {
        self.room.notify_waiters();
        self.disk.notify_one();
    }

    /// Wakes whoever has something to do.
    pub(crate) fn follow(&self, signal: Signal) {
        match (signal, &self.wake) {
            (Signal::Wake, Wake::Thread(condition)) => drop(condition.notify_one()),
            (Signal::Wake, Wake::Task(notify)) => notify.notify_one(),
            (Signal::WakeKeeper, _) => drop(self.disk.notify_one()),
            (Signal::None | Signal::Start, _) => {}
        }
    }
}

impl<B: Items> Reported for Shared<B> {
    fn report(&self) -> DeliveryReport {
        let Name { task, detail } = self.name.clone();
        let queue = self.queue.lock();
        let (status, trouble) = (queue.status(), self.trouble_of(&queue));
        DeliveryReport { name: task, detail, status, bounds: self.bounds, trouble }
    }
}

impl<B: Items> Drop for Shared<B> {
    fn drop(&mut self) {
        let Name { task, detail } = self.name.clone();
        registry::remove(self.registered, task, detail, &self.queue.get_mut().status());
    }
}
