//! Worker threads with one single-threaded event loop each.
//!
//! A new connection goes to the worker with the fewest: connections are few and long-lived, so a hash would leave workers idle. A
//! request runs to completion on the worker of its connection.

mod balance;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accepted::Accepted;
use crate::connection::{self, ConnectionLimits};
use crate::event_loop;
use crate::registry::ConnectionRegistry;
use crate::service::WorkerService;
use crate::turns::Turns;
use balance::{Balance, Claim};
use mixer_base::task::{Group, Task};

/// Accepted connections that may wait for a worker.
const HANDOVER_QUEUE: usize = 256;

/// Interval at which an event loop records that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// A group of worker threads. Stops in two steps: [`drain`](Self::drain), then [`join`](Self::join).
pub struct WorkerGroup {
    workers: Vec<Worker>,
    balance: Balance,
    running: TaskTracker,
    registry: Arc<ConnectionRegistry>,
    stop: CancellationToken,
    abort: CancellationToken,
    began: Instant,
}

struct Worker {
    /// Last heartbeat of the event loop, in milliseconds since the group started.
    heartbeat: Arc<AtomicU64>,
    handover: mpsc::Sender<(Accepted, Claim)>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl WorkerGroup {
    /// Starts `count` workers, each with its own service. Their threads are named `name-0` and so on. Draining cancels `stopping`.
    ///
    /// Errors: a thread or event loop could not be created; workers already started are stopped.
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
            registry: Arc::new(ConnectionRegistry::default()),
            stop: stopping,
            abort: CancellationToken::new(),
            began: Instant::now(),
        };
        for number in 0..count.max(1) {
            match group.start_one(number, name, limits.clone(), service.clone()) {
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
        let (handover, incoming) = mpsc::channel(HANDOVER_QUEUE);
        let heartbeat = Arc::new(AtomicU64::new(0));
        let mut worker_loop = WorkerLoop {
            incoming,
            limits,
            running: self.running.clone(),
            registry: Arc::clone(&self.registry),
            number,
            stop: self.stop.clone(),
            abort: self.abort.clone(),
        };
        let (began, beat) = (self.began, Arc::clone(&heartbeat));
        let beat = async move || {
            loop {
                let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                beat.store(millis, Ordering::Relaxed);
                tokio::time::sleep(HEARTBEAT).await;
            }
        };
        let task = Task::essential("worker").of(number.to_string());
        let (stop, abort) = (self.stop.clone(), self.abort.clone());
        let is_stopping = move || stop.is_cancelled() || abort.is_cancelled();
        // A panic of the loop closes the connections of this worker; the thread goes on with new ones.
        let main = async move || {
            // Calls are answered beside builds of configurations and renderings of pages.
            mixer_base::scheduling::prefer_short_waits();
            let service = Rc::new(service(number));
            let (turns, mut ended_turns) = Turns::new();
            tokio::select! {
                () = worker_loop.serve(service, &turns) => {}
                () = ended_turns.run() => {}
                () = beat() => {}
            }
        };
        let thread = event_loop::spawn(task, format!("{name}-{number}"), number, is_stopping, main)?;
        Ok(Worker { heartbeat, handover, thread: Mutex::new(Some(thread)) })
    }

    /// Assigns a connection to the worker with the fewest. Waits while the queue of that worker is full.
    pub async fn serve(&self, connection: Accepted) {
        let claim = self.balance.claim();
        if let Some(worker) = self.workers.get(claim.worker()) {
            // If the worker is gone, the claim ends with the connection.
            let _ = worker.handover.send((connection, claim)).await;
        }
    }

    /// The open connections.
    pub fn registry(&self) -> &Arc<ConnectionRegistry> {
        &self.registry
    }

    /// Number of open connections by worker.
    pub fn connections(&self) -> Vec<usize> {
        self.balance.counts()
    }

    /// Last heartbeat by worker. An event loop that is not blocked has one every two seconds, and one that has ended at a stop always does.
    pub fn heartbeats(&self) -> Vec<Instant> {
        let has_ended = |worker: &Worker| {
            let thread = worker.thread.lock();
            self.stop.is_cancelled() && thread.as_ref().is_none_or(|thread| thread.is_finished())
        };
        let at = |worker: &Worker| match has_ended(worker) {
            true => Instant::now(),
            false => self.began + Duration::from_millis(worker.heartbeat.load(Ordering::Relaxed)),
        };
        self.workers.iter().map(at).collect()
    }

    /// Cancelled when draining begins.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Shuts down all connections gracefully and waits up to `timeout` for open streams; then closes the rest. Returns whether all
    /// connections closed in time.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.stop.cancel();
        self.running.close();
        let in_time = tokio::time::timeout(timeout, self.running.wait()).await.is_ok();
        self.abort.cancel();
        in_time
    }

    /// Stops and joins all threads. Returns whether none of them panicked.
    pub async fn join(self: Arc<Self>) -> bool {
        self.stop.cancel();
        self.abort.cancel();
        tokio::task::spawn_blocking(move || self.join_now()).await.unwrap_or(false)
    }

    fn join_now(&self) -> bool {
        let threads = self.workers.iter().filter_map(|worker| worker.thread.lock().take());
        // Joins all threads, even after a panic.
        threads.filter_map(|thread| thread.join().err()).count() == 0
    }
}

/// The main loop of a worker thread.
struct WorkerLoop {
    incoming: mpsc::Receiver<(Accepted, Claim)>,
    limits: ConnectionLimits,
    running: TaskTracker,
    registry: Arc<ConnectionRegistry>,
    number: usize,
    stop: CancellationToken,
    abort: CancellationToken,
}

impl WorkerLoop {
    /// Serves connections until `stop`, then until the last one is closed or `abort`.
    async fn serve<S: WorkerService>(&mut self, service: Rc<S>, turns: &Turns) {
        let group = Group::new("connection");
        let own = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.incoming.recv() => accepted,
                () = self.stop.cancelled() => None,
            };
            let Some((accepted, claim)) = accepted else { break };
            let service = Rc::clone(&service);
            let (limits, stop) = (self.limits.clone(), self.stop.clone());
            let (registry, worker) = (Arc::clone(&self.registry), self.number);
            // While connections wait for their turn to be opened or closed, further ones wait in the backlog of the socket.
            let place = turns.open().await;
            group.spawn_local(self.running.track_future(own.track_future(async move {
                connection::serve(accepted, service, limits, stop, place, registry, worker).await;
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
