//! Worker threads: one operating-system thread and one single-threaded event loop each.
//!
//! Accepted connections are given to the worker that has the fewest, exactly: callers are few and long-lived, so a hash would leave
//! workers idle. A request runs to completion on the worker of its connection.

mod balance;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{self, ConnectionLimits, WorkerService};
use super::listener::Accepted;
use crate::callers::{Callers, Entry};
use balance::{Balance, Claim};

/// Connections that may wait for one worker to take them.
const HAND_OVER_QUEUE: usize = 256;

/// How often an event loop shows that it turns.
const TURN: Duration = Duration::from_secs(2);

/// A group of worker threads. Ends in two steps: [`drain`](Self::drain), then [`join`](Self::join).
pub struct WorkerGroup {
    workers: Vec<Worker>,
    balance: Balance,
    running: TaskTracker,
    callers: Arc<Callers>,
    stop: CancellationToken,
    abort: CancellationToken,
    began: Instant,
}

struct Worker {
    /// When the event loop turned last, in milliseconds since the group began.
    turned: Arc<AtomicU64>,
    hand_over: mpsc::Sender<(Accepted, Claim)>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl WorkerGroup {
    /// Starts `count` workers, each with a service of its own. Their threads are called `name-0` and so on.
    /// `stopping` is cancelled when callers are asked to go elsewhere.
    ///
    /// Errors: a thread or event loop could not be made; workers begun are ended again.
    pub fn start<S, F>(
        count: usize,
        name: &str,
        limits: ConnectionLimits,
        stopping: CancellationToken,
        service: F,
    ) -> std::io::Result<Self>
    where
        S: WorkerService,
        F: Fn(usize) -> S + Send + Sync + Clone + 'static,
    {
        let mut group = Self {
            workers: Vec::new(),
            balance: Balance::new(count.max(1)),
            running: TaskTracker::new(),
            callers: Arc::new(Callers::default()),
            stop: stopping,
            abort: CancellationToken::new(),
            began: Instant::now(),
        };
        for number in 0..count.max(1) {
            match group.start_one(number, name, limits, service.clone()) {
                Ok(worker) => group.workers.push(worker),
                Err(error) => {
                    group.abort.cancel();
                    group.stop.cancel();
                    group.join_now();
                    return Err(error);
                }
            }
        }
        Ok(group)
    }

    fn start_one<S, F>(
        &self,
        number: usize,
        name: &str,
        limits: ConnectionLimits,
        service: F,
    ) -> std::io::Result<Worker>
    where
        S: WorkerService,
        F: Fn(usize) -> S + Send + 'static,
    {
        let (hand_over, incoming) = mpsc::channel(HAND_OVER_QUEUE);
        let turned = Arc::new(AtomicU64::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let life = Life {
            incoming,
            limits,
            running: self.running.clone(),
            callers: Arc::clone(&self.callers),
            number,
            stop: self.stop.clone(),
            abort: self.abort.clone(),
        };
        let (began, turning) = (self.began, Arc::clone(&turned));
        let thread = std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
            mixer_base::shard::claim(number);
            let local = tokio::task::LocalSet::new();
            local.spawn_local(async move {
                loop {
                    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    turning.store(millis, Ordering::Relaxed);
                    tokio::time::sleep(TURN).await;
                }
            });
            local.block_on(&runtime, life.serve(Rc::new(service(number))));
        })?;
        Ok(Worker { turned, hand_over, thread: Mutex::new(Some(thread)) })
    }

    /// Gives a connection to the worker with the fewest. Waits while the worker is too busy to take it.
    pub async fn serve(&self, connection: Accepted) {
        let claim = self.balance.claim();
        if let Some(worker) = self.workers.get(claim.worker()) {
            // If the worker is gone, the claim ends with the connection.
            let _ = worker.hand_over.send((connection, claim)).await;
        }
    }

    /// Who is connected.
    pub fn callers(&self) -> &Arc<Callers> {
        &self.callers
    }

    /// Connections of each worker.
    pub fn connections(&self) -> Vec<usize> {
        self.balance.counts()
    }

    /// When the event loop of each worker turned last; it does so every two seconds at least, unless something blocks it.
    pub fn last_turns(&self) -> Vec<Instant> {
        let at = |worker: &Worker| self.began + Duration::from_millis(worker.turned.load(Ordering::Relaxed));
        self.workers.iter().map(at).collect()
    }

    /// Told when callers are asked to go elsewhere.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Tells callers to go elsewhere and waits until their calls are answered, at most for `patience`; then cuts off what is left.
    /// Returns whether everything ended by itself.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.stop.cancel();
        self.running.close();
        let in_time = tokio::time::timeout(patience, self.running.wait()).await.is_ok();
        self.abort.cancel();
        in_time
    }

    /// Waits until all threads have ended, which they do after [`drain`](Self::drain). Returns whether none of them panicked.
    pub async fn join(self: Arc<Self>) -> bool {
        self.stop.cancel();
        self.abort.cancel();
        tokio::task::spawn_blocking(move || self.join_now()).await.unwrap_or(false)
    }

    fn join_now(&self) -> bool {
        let threads = self.workers.iter().filter_map(|worker| worker.thread.lock().take());
        // Every one is joined, whatever the others did.
        threads.filter_map(|thread| thread.join().err()).count() == 0
    }
}

/// What a worker lives on.
struct Life {
    incoming: mpsc::Receiver<(Accepted, Claim)>,
    limits: ConnectionLimits,
    running: TaskTracker,
    callers: Arc<Callers>,
    number: usize,
    stop: CancellationToken,
    abort: CancellationToken,
}

impl Life {
    /// Serves connections until `stop`, then until the last one ends or `abort`.
    async fn serve<S: WorkerService>(mut self, service: Rc<S>) {
        let own = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.incoming.recv() => accepted,
                () = self.stop.cancelled() => None,
            };
            let Some((accepted, claim)) = accepted else { break };
            let service = Rc::clone(&service);
            let (limits, stop) = (self.limits, self.stop.clone());
            let entry = Entry { callers: Arc::clone(&self.callers), worker: self.number };
            tokio::task::spawn_local(self.running.track_future(own.track_future(async move {
                connection::serve(accepted, service, limits, stop, entry).await;
                drop(claim);
            })));
        }
        own.close();
        tokio::select! {
            () = own.wait() => {}
            () = self.abort.cancelled() => {}
        }
    }
}
